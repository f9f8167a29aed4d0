// SPDX-License-Identifier: Apache-2.0
/// \file
/// States: of the rows of a matrix.
#include "edits.hpp"
#include "held_states.hpp"
#include "module.hpp"

#include <array>
#include <mutex>
#include <string>
#include <vector>

namespace softfold::python {
namespace {

struct of_rows {
  using object = softfold_row_states;
  using view = softfold_row_states_view;
  static std::array<std::int64_t, 2> rows(const view& v) { return {v.rows, 0}; }
  static std::vector<softfold_column_range> ranges(const view& v) {
    return {v.columns, v.columns + v.column_ranges};
  }
  static constexpr auto destroy = &library::row_states_destroy;
  static constexpr auto get = &library::row_states_get;
  static constexpr auto combine = &library::row_states_combine;
  static constexpr auto to_bytes = &library::row_states_to_bytes;
  static constexpr auto from_bytes = &library::row_states_from_bytes;
};

constexpr const char* fold_names[] = {
    "row_states::fold:", "fold:", "fold_topk:", "fold:", "x_part", "x", nullptr};
constexpr const char* create_names[] = {"row_states:", "States:", nullptr};
constexpr const char* finish_sample_names[] = {
    "row_states::finish_sample:", "finish_sample:", nullptr};

/// What tokens are drawn by, from a dict.
softfold_row_sampling sampling_of(nb::handle given) {
  constexpr const char* names = "temperature, top_k, top_p, min_p, seed, offset or draw";
  if (!nb::isinstance<nb::dict>(given)) {
    throw nb::type_error(is_not({"States", "sampling"}, nb::cast<std::string>(nb::repr(given)),
                                std::string("None or a dict of ") + names)
                             .c_str());
  }
  softfold_row_sampling sampling = SOFTFOLD_ROW_SAMPLING_INIT;
  for (const auto [key, value] : nb::cast<nb::dict>(given)) {
    const auto name = nb::cast<std::string>(nb::str(key));
    const auto is = [&, value = value](const char* known, auto& number, const char* expected) {
      if (name != known) {
        return false;
      }
      read_number({"States", ("sampling['" + name + "']").c_str()}, value, number, expected);
      return true;
    };
    if (!is("temperature", sampling.temperature, "a number") &&
        !is("top_k", sampling.top_k, "an integer from 0 to k") &&
        !is("top_p", sampling.top_p, "a number") && !is("min_p", sampling.min_p, "a number") &&
        !is("seed", sampling.seed, "an integer from 0 to 2^64 - 1") &&
        !is("offset", sampling.offset, "an integer from 0 to 2^64 - 1") &&
        !is("draw", sampling.draw, "an integer of 0 or more")) {
      throw nb::value_error(
          is_not({"States", "a key of sampling"}, nb::cast<std::string>(nb::repr(key)), names)
              .c_str());
    }
  }
  return sampling;
}

class states : public held_states<of_rows> {
 public:
  states(std::int64_t rows, std::int64_t k, double scale, nb::handle dtype, nb::handle sampling,
         const std::string& numerics)
      : states(made(type_of({"States", "dtype"}, dtype), rows, k, scale, sampling, numerics)) {}
  using held_states::held_states;

  void fold(const edit_arguments& edited, nb::handle x, std::int64_t column_offset,
            nb::handle stream) {
    const call c("fold", "x", x, -1, stream);
    const edits e(c, edited);
    softfold_row_states_fold_options options = SOFTFOLD_ROW_STATES_FOLD_OPTIONS_INIT;
    options.column_offset = column_offset;
    options.edits = e.get();
    fold_by(
        c,
        [&](const library& l, softfold_queue* q, softfold_row_states* to) {
          return l.row_states_fold_with_options(q, to, c.matrix(), &options);
        },
        fold_names);
  }

  void append_rows(const states& more) {
    // By way of a copy, since more may be these states.
    const owned copy = from_bytes(more.plain_bytes());
    const std::lock_guard<std::mutex> lock(mutex_);
    check(cpu_library(), softfold_row_states_append_rows(held_.get(), copy.get()));
  }

  [[nodiscard]] nb::object finish(nb::handle empty_row) const {
    const std::int32_t policy = empty_row_of("finish", empty_row);
    const softfold_row_states_view v = view();
    void* lse_data = nullptr;
    void* list_data = nullptr;
    const std::int64_t shape[] = {v.rows, v.k};
    nb::object lse = new_numpy({shape, 1}, v.type, lse_data);
    nb::object list = new_numpy({shape, 2}, v.type, list_data);
    const softfold_vector to_lse{lse_data, v.rows, v.type, 0};
    const softfold_matrix to_list{list_data, v.rows, v.k, v.k, v.type, 0};
    run_on_host([&](softfold_queue* q, const softfold_row_states* held) {
      return softfold_row_states_finish(q, held, &to_lse, &to_list, policy);
    });
    return nb::make_tuple(lse, list);
  }

  [[nodiscard]] nb::object finish_sample(bool with_log_probability, bool with_raw_log_probability,
                                         bool with_lse, bool with_kept) const {
    const softfold_row_states_view v = view();
    nb::list all;
    const auto make = [&](softfold_dtype type, softfold_vector& to) {
      void* data = nullptr;
      all.append(new_numpy({&v.rows, 1}, type, data));
      to = {data, v.rows, type, 0};
      return &to;
    };
    softfold_vector tokens, log_probability, raw_log_probability, lse, kept, kept_mass;
    make(SOFTFOLD_I64, tokens);
    softfold_finish_sample_options options = SOFTFOLD_FINISH_SAMPLE_OPTIONS_INIT;
    if (with_log_probability) {
      options.log_probability = make(v.type, log_probability);
    }
    if (with_raw_log_probability) {
      options.raw_log_probability = make(v.type, raw_log_probability);
    }
    if (with_lse) {
      options.lse = make(v.type, lse);
    }
    if (with_kept) {
      options.kept = make(SOFTFOLD_I64, kept);
      options.kept_mass = make(v.type, kept_mass);
    }
    run_on_host(
        [&](softfold_queue* q, const softfold_row_states* held) {
          return softfold_row_states_finish_sample(q, held, &tokens, &options);
        },
        finish_sample_names);
    return nb::len(all) == 1 ? nb::object(all[0]) : nb::tuple(all);
  }

 private:
  static owned made(softfold_dtype type, std::int64_t rows, std::int64_t k, double scale,
                    nb::handle sampling, const std::string& numerics) {
    softfold_row_states* states = nullptr;
    softfold_row_states_options options = SOFTFOLD_ROW_STATES_OPTIONS_INIT;
    options.scale = scale;
    options.numerics = numerics_named("States", numerics);
    softfold_row_sampling how;
    if (!sampling.is_none()) {
      how = sampling_of(sampling);
      options.sampling = &how;
    }
    check(cpu_library(), softfold_row_states_create_with_options(type, rows, k, &options, &states),
          create_names);
    return {states, {&cpu_library()}};
  }
};

nb::object fold(const edit_arguments& edited, states& self, nb::handle x,
                std::int64_t column_offset, nb::handle stream) {
  self.fold(edited, x, column_offset, stream);
  return nb::none();
}

}  // namespace

void bind_states(nb::module_& m) {
  using namespace nb::literals;
  using view_of = softfold_row_states_view;

  nb::class_<states> type(m, "States", R"(
What the columns seen so far say about each row: the state of its softmax, and the list of its k
first elements. States of different columns combine, in any order, here or in another process:
they pickle, and their bytes (docs/state_format.md) are the same on every machine.

>>> import numpy as np
>>> x = np.log(np.array([[1.0, 4.0, 3.0, 2.0]], dtype="float32"))
>>> left, right = States(rows=1, k=2), States(rows=1, k=2)
>>> left.fold(x[:, :2], column_offset=0)
>>> right.fold(x[:, 2:], column_offset=2)
>>> left.combine(States.from_bytes(right.to_bytes()))
>>> lse, probabilities = left.finish()
>>> probabilities.round(3), left.indices
(array([[0.4, 0.3]], dtype=float32), array([[1, 2]]))

dtype is float32, for columns of float32, float16 and bfloat16, or float64. sampling, a dict of
temperature, top_k, top_p, min_p, seed, offset and draw as numbers, lets finish_sample draw a token of
each row: row r has offset + r, and top_k is at most k; top_p and min_p need a top_k.

With numerics="reproducible" parts that meet at multiples of 8 columns give the whole row's results to
the bit, those of set_numerics("reproducible"), on any backend and in any order (docs/numerics.md).)");
  with_edits<&fold>::define(type, "fold", R"(
Adds the columns of x, [rows, any], the first of which is column_offset of the whole. A column that was
folded before is a ValueError, and the states are as they were. The edits are softmax's, of the columns
of x: an element that they remove is in no list.

>>> import numpy as np
>>> states = States(rows=1, k=3)
>>> states.fold(np.log(np.float32([[1.0, 4.0, 3.0]])), 10, mask=np.array([True, False, True]))
>>> states.indices, states.columns
(array([[12, 10, -1]]), ((10, 13),)))",
                            "x"_a, "column_offset"_a = 0, nb::kw_only(), "stream"_a = nb::none());
  bind_sending(type, "Adds the states of other columns of the same rows.");
  type.def(
          "__init__",
          [](states* self, std::int64_t rows, std::int64_t k, double scale, nb::handle dtype,
             nb::handle sampling, const std::string& numerics) {
            new (self) states(rows, k, scale, dtype, sampling, numerics);
          },
          "rows"_a, "k"_a = 0, nb::kw_only(), "scale"_a = 1.0, "dtype"_a = "float32",
          "sampling"_a = nb::none(), "numerics"_a = "fast")
      .def("append_rows", &states::append_rows, "more"_a, "Adds the rows of more below.")
      .def("finish", &states::finish, nb::kw_only(), "empty_row"_a = "nan",
           "The logsumexp of each row, [rows], and the probabilities of its list, [rows, k], over "
           "the "
           "columns seen so far, as NumPy arrays.")
      .def("finish_sample", &states::finish_sample, nb::kw_only(), "with_log_probability"_a = false,
           "with_raw_log_probability"_a = false, "with_lse"_a = false, "with_kept"_a = false, R"(
The tokens of states with sampling, [rows], over the columns seen so far: what sample draws from the whole
rows. With more asked for, a tuple as sample's. NumPy arrays.

>>> import numpy as np
>>> x = np.random.default_rng(0).normal(size=(1, 1000))
>>> states = States(rows=1, k=50, dtype="float64", sampling={"top_k": 50, "top_p": 0.9, "seed": 7})
>>> states.fold(x[:, 300:], 300)
>>> states.fold(x[:, :300], 0)
>>> states.finish_sample() == sample(x, top_k=50, top_p=0.9, seed=7)[:, 0]
array([ True]))")
      .def("__repr__",
           [](nb::handle self) {
             return nb::str("States(rows={}, k={}, scale={!r}, dtype='{}', columns={})")
                 .format(self.attr("rows"), self.attr("k"), self.attr("scale"), self.attr("dtype"),
                         self.attr("columns"));
           })
      .def_prop_ro("rows", [](const states& s) { return s.view().rows; })
      .def_prop_ro("k", [](const states& s) { return s.view().k; })
      .def_prop_ro("scale", [](const states& s) { return s.view().scale; })
      .def_prop_ro("dtype", [](const states& s) { return name_of(s.view().type); })
      .def_prop_ro("numerics", [](const states& s) { return name_of_numerics(s.view().numerics); })
      .def_prop_ro("columns", &states::ranges,
                   "The columns seen so far: pairs of begin and end, in order.")
      .def_prop_ro(
          "partials",
          [](const states& s) -> nb::object {
            if (s.view().numerics == SOFTFOLD_NUMERICS_REPRODUCIBLE) {
              return nb::none();
            }
            return s.copy([](const view_of&) { return 2; },
                          [](const view_of& v) { return v.partials; });
          },
          "The maximum of each row and the sum of exponentials below it, [rows, 2]. None for "
          "reproducible states: an exact sum is no number.")
      .def_prop_ro(
          "values",
          [](const states& s) {
            return s.copy([](const view_of& v) { return v.k; },
                          [](const view_of& v) { return v.values; });
          },
          "The k first elements of each row, [rows, k]; -inf where there are fewer.")
      .def_prop_ro(
          "indices",
          [](const states& s) {
            return s.copy([](const view_of& v) { return v.k; },
                          [](const view_of& v) { return v.indices; }, SOFTFOLD_I64);
          },
          "The columns of values, [rows, k]; -1 where there are fewer.");
}

}  // namespace softfold::python

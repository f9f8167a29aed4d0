// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample: tokens drawn from rows, whose parameters are numbers or arrays with one for each row.
#include "edits.hpp"
#include "module.hpp"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>

namespace softfold::python {
namespace {

constexpr const char* c_names[] = {"tokens", "out",    "temperatures", "temperature", "top_ks",
                                   "top_k",  "top_ps", "top_p",        "min_ps",      "min_p",
                                   "seeds",  "seed",   "offsets",      "offset",      nullptr};

bool is_array(nb::handle given) {
  return PyFloat_CheckExact(given.ptr()) == 0 && PyLong_CheckExact(given.ptr()) == 0 &&
         nb::hasattr(given, "__dlpack__");
}

/// A parameter: a number, written to `number`, or an array with one for each row.
class parameter {
 public:
  template <class Number>
  parameter(const call& c, const char* name, nb::handle given, role given_as, Number& number,
            const char* expected) {
    const argument arg{c.function(), name};
    if (is_array(given)) {
      const array& held = held_.emplace(arg, given, given_as);
      c.check_rows(name, held);
      vector_ = held.vector();
    } else if (!nb::try_cast(given, number)) {
      const std::string text = nb::cast<std::string>(nb::repr(given));
      const std::string wanted = std::string(expected) + ", or an array with one for each row";
      if (PyLong_Check(given.ptr()) != 0) {
        throw nb::value_error(is_not(arg, text, wanted).c_str());
      }
      throw nb::type_error(is_not(arg, text, wanted).c_str());
    }
  }
  parameter(const parameter&) = delete;
  parameter& operator=(const parameter&) = delete;

  [[nodiscard]] const softfold_vector* each() const { return held_ ? &vector_ : nullptr; }

 private:
  std::optional<array> held_;
  softfold_vector vector_{};
};

/// A result that may not be wanted.
class wanted {
 public:
  template <class Make>
  void make(Make&& make) {
    made_.emplace(made_by<Make&>{make});
  }
  [[nodiscard]] const softfold_matrix* matrix() { return made_ ? made_->matrix() : nullptr; }
  [[nodiscard]] const softfold_vector* vector() { return made_ ? made_->vector() : nullptr; }
  void append_to(nb::list& all) {
    if (made_) {
      all.append(made_->take());
    }
  }

 private:
  std::optional<result> made_;
};

nb::object sample(const edit_arguments& edited, nb::handle x, nb::handle temperature,
                  nb::handle top_k, nb::handle top_p, nb::handle min_p, nb::handle seed,
                  nb::handle offset, std::int64_t draws, bool joint, bool with_log_probability,
                  bool with_raw_log_probability, bool with_lse, bool with_kept,
                  std::int64_t with_top, nb::handle out, nb::handle out_dtype,
                  nb::handle index_dtype, nb::handle stream, bool copy) {
  const call c("sample", "x", x, -1, stream, copy);
  if (draws < 0) {
    throw nb::value_error(is_not({"sample", "draws"}, std::to_string(draws), "0 or more").c_str());
  }
  if (with_top < 0 || with_top > c.matrix()->cols) {
    throw nb::value_error(is_not({"sample", "with_top"}, std::to_string(with_top),
                                 "0 to " + std::to_string(c.matrix()->cols) + ", the columns of x")
                              .c_str());
  }
  const edits e(c, edited);
  softfold_sample_options options = SOFTFOLD_SAMPLE_OPTIONS_INIT;
  const parameter temperatures(c, "temperature", temperature, role::input, options.temperature,
                               "a number");
  const parameter top_ks(c, "top_k", top_k, role::integers, options.top_k,
                         "an integer of 0 or more");
  const parameter top_ps(c, "top_p", top_p, role::input, options.top_p, "a number");
  const parameter min_ps(c, "min_p", min_p, role::input, options.min_p, "a number");
  const parameter seeds(c, "seed", seed, role::integers, options.seed,
                        "an integer from 0 to 2^64 - 1");
  const parameter offsets(c, "offset", offset, role::integers, options.offset,
                          "an integer from 0 to 2^64 - 1");
  options.temperatures = temperatures.each();
  options.top_ks = top_ks.each();
  options.top_ps = top_ps.each();
  options.min_ps = min_ps.each();
  options.seeds = seeds.each();
  options.offsets = offsets.each();
  options.order = joint ? SOFTFOLD_JOINT : SOFTFOLD_TOP_K_FIRST;
  options.edits = e.get();

  const nb::none none;
  const softfold_dtype type = c.type_or("out_dtype", out_dtype, c.x().type);
  const softfold_dtype index = c.type_or("index_dtype", index_dtype, SOFTFOLD_I64);
  result tokens = c.with_columns("out", out, draws, index);
  wanted log_probability;
  wanted raw_log_probability;
  wanted lse;
  wanted kept;
  wanted kept_mass;
  wanted top_indices;
  wanted top_log_probabilities;
  if (with_log_probability) {
    log_probability.make([&] { return c.with_columns("log_probability", none, draws, type); });
  }
  if (with_raw_log_probability) {
    raw_log_probability.make(
        [&] { return c.with_columns("raw_log_probability", none, draws, type); });
  }
  if (with_lse) {
    lse.make([&] { return c.without_columns("lse", none, type); });
  }
  if (with_kept) {
    kept.make([&] { return c.without_columns("kept", none, index); });
    kept_mass.make([&] { return c.without_columns("kept_mass", none, type); });
  }
  if (with_top > 0) {
    top_indices.make([&] { return c.with_columns("top_indices", none, with_top, index); });
    top_log_probabilities.make(
        [&] { return c.with_columns("top_log_probabilities", none, with_top, type); });
  }
  options.log_probability = log_probability.matrix();
  options.raw_log_probability = raw_log_probability.matrix();
  options.lse = lse.vector();
  options.kept = kept.vector();
  options.kept_mass = kept_mass.vector();
  options.top_indices = top_indices.matrix();
  options.top_log_probabilities = top_log_probabilities.matrix();
  const softfold_matrix* const to = tokens.matrix();
  c.run([&](const library& l, softfold_queue* q) { return l.sample(q, c.matrix(), to, &options); },
        c_names);

  nb::list all;
  all.append(tokens.take());
  for (wanted* const more : {&log_probability, &raw_log_probability, &lse, &kept, &kept_mass,
                             &top_indices, &top_log_probabilities}) {
    more->append_to(all);
  }
  return nb::len(all) == 1 ? nb::object(all[0]) : nb::tuple(all);
}

}  // namespace

void bind_sample(nb::module_& m) {
  using namespace nb::literals;
  const auto none = nb::none();
  with_edits<&sample>::define(
      m, "sample", R"(
Tokens: columns drawn from softmax(x / temperature) of each row, after min-p, top-k and top-p in this
order. The result has `draws` columns in the place of x's. docs/sampling.md defines the token to the
bit: it is a function of the row, the parameters, the seed, the offset and the draw's number, the same
on every machine and for every batch. Nothing is remembered between calls: the same arguments draw the
same tokens, so the next token of a text takes the next offset, and rows that are to be independent of
each other take seeds or offsets of their own. A row that has no token gets -1.

>>> import numpy as np
>>> logits = np.log([[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
>>> sample(logits, temperature=0)
array([[0],
       [3]])
>>> tokens = sample(logits, top_k=2, seed=np.array([1, 2]), draws=10000)
>>> np.bincount(tokens[0], minlength=4) / 10000
array([0.6299, 0.3701, 0.    , 0.    ])

temperature  a number, 0 or more; 0 takes the first column in the order of topk. This parameter and
             those up to offset may be an array with one for each row, of x's shape without its last
             axis; a row whose own parameter is out of range gets -1.
top_k        keeps exactly k elements; 0 keeps all.
top_p        keeps the fewest first elements whose probabilities add up to p; 1 keeps all.
min_p        keeps what is at least p times as probable as the most probable element.
seed         an integer of 64 bits; as arrays, seeds and offsets are int64, whose 64 bits count.
offset       where the row is in its seed's sequence, as a rule the token's position in its text.
draws        how many independent tokens of each row.
joint        top_p counts the whole row rather than what min_p and top_k left.
out          the array to write the tokens to.
index_dtype  int64, the default, or int32.

With one of these the result is a tuple of the tokens and, in this order, what is asked for, of x's
type or out_dtype:

with_log_probability      of each token, after temperature and filters.
with_raw_log_probability  of each token in x as it is.
with_lse                  the logsumexp of each row of x as it is.
with_kept                 two arrays: how many elements the filters keep, and their part of the mass.
with_top                  two arrays: the columns of the with_top first elements, and their
                          log-probabilities in x as it is.

The other arguments are as softmax's; x as it is means after its edits.)",
      "x"_a.none(), nb::kw_only(), "temperature"_a = 1.0, "top_k"_a = 0, "top_p"_a = 1.0,
      "min_p"_a = 0.0, "seed"_a = 0, "offset"_a = 0, "draws"_a = 1, "joint"_a = false,
      "with_log_probability"_a = false, "with_raw_log_probability"_a = false, "with_lse"_a = false,
      "with_kept"_a = false, "with_top"_a = 0, "out"_a = none, "out_dtype"_a = none,
      "index_dtype"_a = none, "stream"_a = none, "copy"_a = false);
}

}  // namespace softfold::python

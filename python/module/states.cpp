// SPDX-License-Identifier: Apache-2.0
/// \file
/// States: the C interface's row states as a Python object that can be sent as bytes.
#include "edits.hpp"
#include "module.hpp"

#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace softfold::python {
namespace {

struct destroy {
  const library* from;
  void operator()(softfold_row_states* states) const { from->row_states_destroy(states); }
};
using owned_states = std::unique_ptr<softfold_row_states, destroy>;

constexpr const char* fold_names[] = {
    "row_states::fold:", "fold:", "fold_topk:", "fold:", "x_part", "x", nullptr};

/// The states live in the host's memory as objects of the cpu backend's library. Columns in a GPU's
/// memory are folded by the cuda backend's into states of its own, which come as bytes.
class states {
 public:
  states(std::int64_t rows, std::int64_t k, double scale, nb::handle dtype)
      : states(made(cpu_library(), type_of({"States", "dtype"}, dtype), rows, k, scale)) {}
  explicit states(owned_states from) : held_(std::move(from)) {}

  void fold(const edit_arguments& edited, nb::handle x, std::int64_t column_offset,
            nb::handle stream) {
    const call c("fold", "x", x, -1, stream);
    const edits e(c, edited);
    softfold_row_states_fold_options options = SOFTFOLD_ROW_STATES_FOLD_OPTIONS_INIT;
    options.column_offset = column_offset;
    options.edits = e.get();
    const library& from = library_of(c.x().where);
    owned_states theirs{nullptr, {&from}};
    if (!c.x().where.on_host()) {
      const softfold_row_states_view v = view();
      theirs = made(from, v.type, v.rows, v.k, v.scale);
    }
    c.run(
        [&](const library& l, softfold_queue* q) {
          const std::lock_guard<std::mutex> lock(mutex_);
          return l.row_states_fold_with_options(q, theirs ? theirs.get() : held_.get(), c.matrix(),
                                                &options);
        },
        fold_names);
    if (theirs) {
      combine(states(from_bytes(bytes_of(from, theirs.get()))));
    }
  }

  void combine(const states& more) {
    softfold_status status = SOFTFOLD_SUCCESS;
    {
      const without_gil released;
      std::unique_lock<std::mutex> mine(mutex_, std::defer_lock);
      std::unique_lock<std::mutex> theirs(more.mutex_, std::defer_lock);
      if (&more == this) {
        mine.lock();
      } else {
        std::lock(mine, theirs);
      }
      const lease queue(cpu_library(), place{}, nullptr);
      status = queue.status() != SOFTFOLD_SUCCESS
                   ? queue.status()
                   : softfold_row_states_combine(queue.get(), held_.get(), more.held_.get());
    }
    check(cpu_library(), status);
  }

  void append_rows(const states& more) {
    // By way of a copy, since more may be these states.
    const owned_states copy = from_bytes(bytes_of(cpu_library(), more));
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
    softfold_status status = SOFTFOLD_SUCCESS;
    {
      const without_gil released;
      const std::lock_guard<std::mutex> lock(mutex_);
      const lease queue(cpu_library(), place{}, nullptr);
      status =
          queue.status() != SOFTFOLD_SUCCESS
              ? queue.status()
              : softfold_row_states_finish(queue.get(), held_.get(), &to_lse, &to_list, policy);
    }
    check(cpu_library(), status);
    return nb::make_tuple(lse, list);
  }

  [[nodiscard]] nb::bytes to_bytes() const {
    const std::string bytes = bytes_of(cpu_library(), *this);
    return nb::bytes(bytes.data(), bytes.size());
  }

  static owned_states from_bytes(const std::string& bytes) {
    softfold_row_states* read = nullptr;
    check(cpu_library(), softfold_row_states_from_bytes(bytes.data(), bytes.size(), &read));
    return {read, {&cpu_library()}};
  }

  /// Sizes and pointers; these are to memory that the states own until they change.
  [[nodiscard]] softfold_row_states_view view() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return view_unlocked();
  }

  [[nodiscard]] nb::object columns() const {
    std::vector<softfold_column_range> found;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const softfold_row_states_view v = view_unlocked();
      found.assign(v.columns, v.columns + v.column_ranges);
    }
    nb::list ranges;
    for (const softfold_column_range& range : found) {
      ranges.append(nb::make_tuple(range.begin, range.end));
    }
    return nb::tuple(ranges);
  }

  /// A NumPy array of rows of what `address(view)` points to.
  template <class Address>
  [[nodiscard]] nb::object copy(std::int64_t cols, softfold_dtype type, Address&& address) const {
    const std::int64_t shape[] = {view().rows, cols};
    void* data = nullptr;
    nb::object made = new_numpy(shape, type, data);
    const std::lock_guard<std::mutex> lock(mutex_);
    const softfold_row_states_view v = view_unlocked();
    if (v.rows != shape[0]) {
      throw nb::value_error("States: rows were appended meanwhile");
    }
    if (shape[0] * cols > 0) {
      std::memcpy(data, address(v), static_cast<std::size_t>(shape[0] * cols * size_of(type)));
    }
    return made;
  }

 private:
  static owned_states made(const library& from, softfold_dtype type, std::int64_t rows,
                           std::int64_t k, double scale) {
    softfold_row_states* states = nullptr;
    check(from, from.row_states_create(type, rows, k, scale, &states));
    return {states, {&from}};
  }

  static std::string bytes_of(const library& from, const softfold_row_states* of) {
    std::size_t size = 0;
    check(from, from.row_states_to_bytes(of, nullptr, 0, &size));
    std::string bytes(size, '\0');
    check(from, from.row_states_to_bytes(of, bytes.data(), size, &size));
    return bytes;
  }
  static std::string bytes_of(const library& from, const states& of) {
    const std::lock_guard<std::mutex> lock(of.mutex_);
    return bytes_of(from, of.held_.get());
  }

  [[nodiscard]] softfold_row_states_view view_unlocked() const {
    softfold_row_states_view v{};
    v.struct_size = sizeof v;
    check(cpu_library(), softfold_row_states_get(held_.get(), &v));
    return v;
  }

  owned_states held_;
  /// Held within C calls only, and never while waiting for the GIL.
  mutable std::mutex mutex_;
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

dtype is float32, for columns of float32, float16 and bfloat16, or float64.)");
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
  type.def(
          "__init__",
          [](states* self, std::int64_t rows, std::int64_t k, double scale, nb::handle dtype) {
            new (self) states(rows, k, scale, dtype);
          },
          "rows"_a, "k"_a = 0, nb::kw_only(), "scale"_a = 1.0, "dtype"_a = "float32")
      .def("combine", &states::combine, "more"_a,
           "Adds the states of other columns of the same rows.")
      .def("append_rows", &states::append_rows, "more"_a, "Adds the rows of more below.")
      .def("finish", &states::finish, nb::kw_only(), "empty_row"_a = "nan",
           "The logsumexp of each row, [rows], and the probabilities of its list, [rows, k], over "
           "the "
           "columns seen so far, as NumPy arrays.")
      .def("to_bytes", &states::to_bytes, "The states in the byte format of docs/state_format.md.")
      .def_static(
          "from_bytes",
          [](nb::bytes bytes) {
            return new states(states::from_bytes({bytes.c_str(), bytes.size()}));
          },
          "bytes"_a,
          "The states that to_bytes wrote, here or elsewhere. Bytes that are not such states, "
          "whole "
          "and unaltered, are a ValueError.")
      .def("__getstate__", &states::to_bytes)
      .def("__setstate__",
           [](states* self, const nb::bytes& bytes) {
             new (self) states(states::from_bytes({bytes.c_str(), bytes.size()}));
           })
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
      .def_prop_ro("columns", &states::columns,
                   "The columns seen so far: pairs of begin and end, in order.")
      .def_prop_ro(
          "partials",
          [](const states& s) {
            return s.copy(2, s.view().type, [](const view_of& v) { return v.partials; });
          },
          "The maximum of each row and the sum of exponentials below it, [rows, 2].")
      .def_prop_ro(
          "values",
          [](const states& s) {
            return s.copy(s.view().k, s.view().type, [](const view_of& v) { return v.values; });
          },
          "The k first elements of each row, [rows, k]; -inf where there are fewer.")
      .def_prop_ro(
          "indices",
          [](const states& s) {
            return s.copy(s.view().k, SOFTFOLD_I64, [](const view_of& v) { return v.indices; });
          },
          "The columns of values, [rows, k]; -1 where there are fewer.");
}

}  // namespace softfold::python

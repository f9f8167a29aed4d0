// SPDX-License-Identifier: Apache-2.0
/// \file
/// What every function of the package does around its one call of the C interface.
#pragma once

#include "array.hpp"

#include <nanobind/stl/string.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace softfold::python {

/// "nan" or "zero", as the C interface has it.
std::int32_t empty_row_of(const char* function, nb::handle policy);

/// None, "top_left" or "bottom_right", as the C interface has it.
std::int32_t corner_of(const char* function, nb::handle corner);

/// Pairs of a maximum and a sum, as the C interface counts them.
softfold_vector pairs(const softfold_vector& numbers);

/// An array that a function writes and returns: the caller's `out`, or a new one like the input.
class result {
 public:
  /// Raises ValueError where `out` has another shape or place.
  result(argument arg, nb::handle out, const array& like, extents shape, softfold_dtype type);

  [[nodiscard]] const softfold_matrix* matrix();
  [[nodiscard]] const softfold_vector* vector();
  [[nodiscard]] softfold_tensor tensor() const;
  [[nodiscard]] nb::object take();

 private:
  std::vector<std::int64_t> shape_;
  softfold_dtype type_;
  std::optional<array> given_;
  std::optional<new_array> made_;
  nb::handle out_;
  softfold_matrix matrix_{};
  softfold_vector vector_{};
};

/// Raises ValueError for an integer that is too large, otherwise TypeError, where no number was
/// given.
template <class Number>
void read_number(argument arg, nb::handle given, Number& to, const std::string& expected) {
  if (!nb::try_cast(given, to)) {
    const std::string text = is_not(arg, nb::cast<std::string>(nb::repr(given)), expected);
    if (PyLong_Check(given.ptr()) != 0) {
      throw nb::value_error(text.c_str());
    }
    throw nb::type_error(text.c_str());
  }
}

/// What a function returns, for what cannot be moved to be made in place.
template <class Make>
struct made_by {
  Make make;
  operator result() const { return make(); }
};
template <class Make>
made_by(Make) -> made_by<Make>;

/// One call of a function of the package: its input, its results, and where it runs.
class call {
 public:
  /// `x` and `axis` as given. With `copy`, x may be replaced by a copy whose last axis is `axis`.
  call(const char* function, const char* name, nb::handle x, std::int64_t axis, nb::handle stream,
       bool copy = false);
  /// `x` has axes of any strides rather than rows: there is no matrix().
  call(const char* function, const char* name, nb::handle x, nb::handle stream);

  [[nodiscard]] const char* function() const { return function_; }
  [[nodiscard]] const char* name_of_x() const { return name_; }
  [[nodiscard]] const array& x() const { return *x_; }
  [[nodiscard]] const softfold_matrix* matrix() const { return &matrix_; }
  /// Another input, of the shape and in the place of the first.
  [[nodiscard]] softfold_matrix another(const char* name, nb::handle object) const;
  /// Raises ValueError unless the array is in x's place.
  void check_place(const char* name, const array& more) const;
  /// Raises ValueError unless the array has one element for each row, in x's place.
  void check_rows(const char* name, const array& more) const;
  /// An array of one axis in x's place.
  [[nodiscard]] softfold_vector list(const char* name, const array& more) const;
  /// An array of x's shape with a last axis of 2, in x's place: a state of each row.
  [[nodiscard]] softfold_vector states(const char* name, const array& more) const;

  /// A result of the input's shape, of that with k columns, or of that without columns.
  [[nodiscard]] result like_x(const char* name, nb::handle out, softfold_dtype type) const;
  [[nodiscard]] result with_columns(const char* name, nb::handle out, std::int64_t k,
                                    softfold_dtype type) const;
  [[nodiscard]] result without_columns(const char* name, nb::handle out, softfold_dtype type) const;

  /// The type of `dtype`, or `otherwise` where none is given.
  [[nodiscard]] softfold_dtype type_or(const char* name, nb::handle dtype,
                                       softfold_dtype otherwise) const;
  /// Raises ValueError unless 0 <= k <= the columns of x.
  void check_k(std::int64_t k) const;

  /// Runs `work(library, queue)` on a queue of x's device, and raises what its status says.
  template <class Work>
  void run(Work&& work, const char* const* renamed = nullptr) const {
    const library& from = library_of(x_->where);
    softfold_status status = SOFTFOLD_SUCCESS;
    const auto on_queue = [&] {
      const lease queue(from, x_->where, stream_);
      status = queue.status() == SOFTFOLD_SUCCESS ? work(from, queue.get()) : queue.status();
    };
    // Work of a microsecond is done before another thread would have run.
    if (small_) {
      on_queue();
    } else {
      const without_gil released;
      on_queue();
    }
    check(from, status, renamed);
  }

  /// The result, its axes as those of the array that was given.
  [[nodiscard]] nb::object returned(result& y) const;

 private:
  const char* function_;
  const char* name_;
  nb::object copied_;
  std::optional<array> x_;
  std::int64_t moved_axis_ = -1;
  softfold_matrix matrix_{};
  bool small_ = false;
  void* stream_ = nullptr;
};

/// A stream as a caller gives it: a number, or an object of torch, CuPy or with __cuda_stream__.
void* stream_of(argument arg, nb::handle given, const array& x);

}  // namespace softfold::python

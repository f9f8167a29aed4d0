// SPDX-License-Identifier: Apache-2.0
/// \file
/// Views of the caller's memory. A view owns nothing; it is a pointer, a shape and a stride.
/// The typed views convert to the *_ref classes, which carry the element type as a value and
/// are what the entry points take.
#pragma once

#include <softfold/dtype.hpp>
#include <softfold/max_sum.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <type_traits>

namespace softfold {

/// A matrix of rows * cols elements; row r starts at data + r * stride. The last dimension is
/// contiguous. Sizes and strides count elements.
template <element T>
struct matrix_view {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  constexpr matrix_view() = default;
  constexpr matrix_view(T* data_, std::int64_t rows_, std::int64_t cols_) noexcept
      : matrix_view(data_, rows_, cols_, cols_) {}
  constexpr matrix_view(T* data_, std::int64_t rows_, std::int64_t cols_,
                        std::int64_t stride_) noexcept
      : data(data_), rows(rows_), cols(cols_), stride(stride_) {}

  /// From a two-dimensional std::mdspan, or anything that answers like one, with unit stride in
  /// the last dimension.
  template <class Mdspan>
  requires requires(const Mdspan& m) {
    { m.data_handle() } -> std::convertible_to<T*>;
    { m.extent(1) } -> std::convertible_to<std::int64_t>;
    { m.stride(0) } -> std::convertible_to<std::int64_t>;
    requires Mdspan::rank()
    == 2;
  }
  constexpr matrix_view(const Mdspan& m)  // NOLINT(google-explicit-constructor)
      : matrix_view(m.data_handle(), static_cast<std::int64_t>(m.extent(0)),
                    static_cast<std::int64_t>(m.extent(1)),
                    static_cast<std::int64_t>(m.stride(0))) {}
};

/// A read-only matrix_view whose element type is a value.
struct const_matrix_ref {
  const void* data = nullptr;
  dtype type = dtype::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  constexpr const_matrix_ref() = default;
  constexpr const_matrix_ref(const void* data_, dtype type_, std::int64_t rows_, std::int64_t cols_,
                             std::int64_t stride_) noexcept
      : data(data_), type(type_), rows(rows_), cols(cols_), stride(stride_) {}
  template <element T>
  constexpr const_matrix_ref(matrix_view<T> m) noexcept  // NOLINT(google-explicit-constructor)
      : const_matrix_ref(m.data, dtype_of<T>, m.rows, m.cols, m.stride) {}
};

/// A writable matrix_view whose element type is a value.
struct matrix_ref {
  void* data = nullptr;
  dtype type = dtype::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  constexpr matrix_ref() = default;
  constexpr matrix_ref(void* data_, dtype type_, std::int64_t rows_, std::int64_t cols_,
                       std::int64_t stride_) noexcept
      : data(data_), type(type_), rows(rows_), cols(cols_), stride(stride_) {}
  template <element T>
  requires(!std::is_const_v<T>) constexpr matrix_ref(
      matrix_view<T> m) noexcept  // NOLINT(google-explicit-constructor)
      : matrix_ref(m.data, dtype_of<T>, m.rows, m.cols, m.stride) {}
  constexpr operator const_matrix_ref() const noexcept {  // NOLINT(google-explicit-constructor)
    return {data, type, rows, cols, stride};
  }
};

namespace detail {
template <class Range>
using data_t = std::remove_pointer_t<decltype(std::ranges::data(std::declval<Range&>()))>;
template <class Range>
concept contiguous = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range>;

template <class T>
struct row_state {};
template <std::floating_point T>
struct row_state<max_sum<T>> : dtype_of<T> {
  static constexpr sum_kind sum = sum_kind::rounded;
};
template <std::floating_point T>
struct row_state<exact_max_sum<T>> : dtype_of<T> {
  static constexpr sum_kind sum = sum_kind::exact;
};
template <class Range>
using state_of = row_state<std::remove_cv_t<data_t<Range>>>;
template <class Range>
concept state_range = contiguous<Range> && requires {
  state_of<Range>::value;
};
}  // namespace detail

/// A writable contiguous vector, one value for each row. Converts from std::span, std::vector,
/// std::array and other contiguous ranges of an element type.
struct vector_ref {
  void* data = nullptr;
  dtype type = dtype::f32;
  std::int64_t size = 0;

  constexpr vector_ref() = default;
  constexpr vector_ref(void* data_, dtype type_, std::int64_t size_) noexcept
      : data(data_), type(type_), size(size_) {}
  template <detail::contiguous Range>
  requires element<detail::data_t<Range>> &&
      (!std::is_const_v<detail::data_t<Range>>)constexpr vector_ref(
          Range&& range) noexcept  // NOLINT
      : vector_ref(std::ranges::data(range), dtype_of<detail::data_t<Range>>,
                   static_cast<std::int64_t>(std::ranges::size(range))) {}
};

/// A read-only contiguous vector of an element type.
struct const_vector_ref {
  const void* data = nullptr;
  dtype type = dtype::f32;
  std::int64_t size = 0;

  constexpr const_vector_ref() = default;
  constexpr const_vector_ref(const void* data_, dtype type_, std::int64_t size_) noexcept
      : data(data_), type(type_), size(size_) {}
  constexpr const_vector_ref(const vector_ref& v) noexcept  // NOLINT(google-explicit-constructor)
      : const_vector_ref(v.data, v.type, v.size) {}
  template <detail::contiguous Range>
  requires element<detail::data_t<Range>>
  constexpr const_vector_ref(Range&& range) noexcept  // NOLINT
      : const_vector_ref(std::ranges::data(range), dtype_of<detail::data_t<Range>>,
                         static_cast<std::int64_t>(std::ranges::size(range))) {}
};

/// Bytes of one row's state.
[[nodiscard]] constexpr std::size_t size_of_state(dtype type, sum_kind sum) noexcept {
  const bool is_wide = type == dtype::f64;
  return sum == sum_kind::rounded ? 2 * size_of(type)
         : is_wide                ? sizeof(exact_max_sum<double>)
                                  : sizeof(exact_max_sum<float>);
}

/// Read-only row states: max_sum or exact_max_sum, of float (type f32) or double (type f64).
struct const_partials_ref {
  const void* data = nullptr;
  dtype type = dtype::f32;
  std::int64_t size = 0;
  sum_kind sum = sum_kind::rounded;

  constexpr const_partials_ref() = default;
  constexpr const_partials_ref(const void* data_, dtype type_, std::int64_t size_,
                               sum_kind sum_ = sum_kind::rounded) noexcept
      : data(data_), type(type_), size(size_), sum(sum_) {}
  template <detail::state_range Range>
  constexpr const_partials_ref(Range&& range) noexcept  // NOLINT
      : const_partials_ref(std::ranges::data(range), detail::state_of<Range>::value,
                           static_cast<std::int64_t>(std::ranges::size(range)),
                           detail::state_of<Range>::sum) {}
};

/// Writable row states.
struct partials_ref {
  void* data = nullptr;
  dtype type = dtype::f32;
  std::int64_t size = 0;
  sum_kind sum = sum_kind::rounded;

  constexpr partials_ref() = default;
  constexpr partials_ref(void* data_, dtype type_, std::int64_t size_,
                         sum_kind sum_ = sum_kind::rounded) noexcept
      : data(data_), type(type_), size(size_), sum(sum_) {}
  template <detail::state_range Range>
  requires(!std::is_const_v<detail::data_t<Range>>) constexpr partials_ref(
      Range&& range) noexcept  // NOLINT
      : partials_ref(std::ranges::data(range), detail::state_of<Range>::value,
                     static_cast<std::int64_t>(std::ranges::size(range)),
                     detail::state_of<Range>::sum) {}
  constexpr operator const_partials_ref() const noexcept {  // NOLINT
    return {data, type, size, sum};
  }
};

}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where a job's elements come from: the rows of a matrix.
#pragma once

#include <gpu/plan/shape.hpp>
#include <gpu/row/vector_range.hpp>

#include <softfold/matrix_view.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In>
struct row_source {
  const In* x;
  readable_memory<In> memory;  ///< of all rows
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;

  static row_source of(const const_matrix_ref& m) {
    const auto* const x = static_cast<const In*>(m.data);
    return {x, {x, m.rows, m.cols, m.stride}, m.rows, m.cols, m.stride};
  }
  /// Rows [first, first + count).
  [[nodiscard]] row_source part(std::int64_t first, std::int64_t count) const {
    const In* const from = x + first * stride;
    return {from, {from, count, cols, stride}, count, cols, stride};
  }
  /// Whether every row starts at a multiple of so many bytes.
  [[nodiscard]] bool starts_at(std::int64_t bytes) const {
    return begins_at(x, rows, stride, bytes);
  }
  [[nodiscard]] row_shape shape() const { return shape_of({x, dtype_of<In>, rows, cols, stride}); }

  [[nodiscard]] __device__ const In* row(std::int64_t r) const { return x + r * stride; }
  /// All of a row, or nothing.
  [[nodiscard]] __device__ vector_range<In> range(std::int64_t r, bool exists,
                                                  int row_alignment) const {
    return {row(exists ? r : 0), exists ? static_cast<int>(cols) : 0, memory, row_alignment};
  }
  /// `vectors` vectors of a row from number `first` on.
  [[nodiscard]] __device__ vector_range<In> range(std::int64_t r, std::int64_t first, int vectors,
                                                  int row_alignment = vector_bytes) const {
    return {row(r), cols, memory, first, vectors, row_alignment};
  }

  template <class T>
  static bool begins_at(const T* data, std::int64_t count, std::int64_t row_stride,
                        std::int64_t bytes) {
    const std::int64_t step = row_stride * static_cast<std::int64_t>(sizeof(T));
    return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0 &&
           (count == 1 || step % bytes == 0);
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

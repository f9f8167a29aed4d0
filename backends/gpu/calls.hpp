// SPDX-License-Identifier: Apache-2.0
/// \file
/// Checked calls with their types erased, as they go from the entry points to the launch code of
/// each element type.
#pragma once

#include "plan.hpp"
#include "runtime.hpp"

#include <softfold/dtype.hpp>
#include <softfold/softfold.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

enum class element_map : int {
  none,
  negate,  ///< negative scale
  zero,    ///< scale 0: every number becomes 0, but -infinity and NaN stay
};

/// A scale as the kernels take it: a map of the elements, then a positive factor.
struct scaling {
  double factor = 1;
  element_map map = element_map::none;

  static scaling of(double scale) {
    return scale > 0   ? scaling{scale, element_map::none}
           : scale < 0 ? scaling{-scale, element_map::negate}
                       : scaling{1, element_map::zero};
  }
};

/// Calls body with a value of the element type.
template <class Body>
void with_input(dtype type, Body&& body) {
  switch (type) {
    case dtype::f64:
      return body(double{});
    case dtype::f16:
      return body(half{});
    case dtype::bf16:
      return body(bfloat16{});
    default:
      return body(float{});
  }
}

/// Rows that are read.
struct input_rows {
  const void* data;
  dtype type;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;

  static input_rows of(const const_matrix_ref& x) {
    return {x.data, x.type, x.rows, x.cols, x.stride};
  }
  [[nodiscard]] row_shape shape() const {
    const auto bytes = static_cast<std::int64_t>(size_of(type));
    const auto starts_at = [&](std::int64_t alignment) {
      return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment) == 0 &&
             stride * bytes % alignment == 0;
    };
    const std::int64_t alignment = starts_at(32) ? 32 : starts_at(16) ? 16 : bytes;
    return {cols, static_cast<int>(bytes), static_cast<int>(alignment)};
  }
};

/// softmax or log-softmax.
struct map_call {
  input_rows x;
  void* y;
  dtype y_type;
  std::int64_t y_stride;
  scaling scale;
  empty_row policy;
  bool log;
  const void* given = nullptr;          ///< the rows' public states, if they are known
  exchange_memory* exchange = nullptr;  ///< the queue's, for a second pass that does not read
};

/// What a reduction writes for each row.
enum class result_kind : int { lse_f32, lse_f64, lse_f16, lse_bf16, partial };

inline result_kind lse_kind(dtype type) {
  switch (type) {
    case dtype::f64:
      return result_kind::lse_f64;
    case dtype::f16:
      return result_kind::lse_f16;
    case dtype::bf16:
      return result_kind::lse_bf16;
    default:
      return result_kind::lse_f32;
  }
}

struct reduction_call {
  input_rows x;
  void* result;
  result_kind kind;
  scaling scale;
};

/// Bytes of scratch memory that a call needs for the states of rows' parts.
std::size_t part_states_bytes(const row_plan& plan, std::int64_t rows, dtype input);

/// Launches a call's kernels. `scratch`: part_states_bytes; `lanes`: of the device's warps.
template <class In>
void launch_map(const map_call& call, const row_plan& plan, void* scratch, stream_handle stream,
                int lanes);
template <class In>
void launch_reduction(const reduction_call& call, const row_plan& plan, void* scratch,
                      stream_handle stream, int lanes);

/// partials[r] = partials[r] + more[r].
void launch_combine(const const_partials_ref& more, const partials_ref& partials,
                    stream_handle stream);

/// lse[r] = max(r) + log(sum(r)).
void launch_logsumexp_of_states(const const_partials_ref& partials, const vector_ref& lse,
                                stream_handle stream);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

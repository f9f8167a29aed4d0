// SPDX-License-Identifier: Apache-2.0
/// \file
/// What is written of a row's softmax state: its logsumexp, or the public state.
#pragma once

#include <gpu/state/softmax_state.hpp>

#include <core/real_types.hpp>
#include <softfold/dtype.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

enum class result_kind : int { lse_f32, lse_f64, lse_f16, lse_bf16, partial };

inline result_kind lse_kind(dtype type) {
  return core::with_real(type, []<class T>(T) {
    if constexpr (std::is_same_v<T, double>) {
      return result_kind::lse_f64;
    } else if constexpr (std::is_same_v<T, float>) {
      return result_kind::lse_f32;
    } else if constexpr (std::is_same_v<T, half>) {
      return result_kind::lse_f16;
    } else {
      static_assert(std::is_same_v<T, bfloat16>);
      return result_kind::lse_bf16;
    }
  });
}

/// One row's result, from its state.
template <class T>
__device__ inline void write_result(const softmax_state<T>& s, T scale, result_kind kind,
                                    void* results, std::int64_t row) {
  switch (kind) {
    case result_kind::partial:
      static_cast<max_sum<T>*>(results)[row] = to_public(s, scale);
      return;
    case result_kind::lse_f64:
      static_cast<double*>(results)[row] = canonical(static_cast<double>(logsumexp(s, scale)));
      return;
    default:
      break;
  }
  const float lse = canonical(static_cast<float>(logsumexp(s, scale)));
  if (kind == result_kind::lse_f32) {
    static_cast<float*>(results)[row] = lse;
  } else if (kind == result_kind::lse_f16) {
    static_cast<half*>(results)[row] = half(lse);
  } else {
    static_cast<bfloat16*>(results)[row] = bfloat16(lse);
  }
}

/// The sink of a reduction: one result for each row, or none.
template <class T>
struct row_results {
  void* data = nullptr;
  result_kind kind = result_kind::partial;

  [[nodiscard]] __device__ bool wanted() const { return data != nullptr; }
  __device__ void write(const softmax_monoid<T>& monoid, const softmax_state<T>& whole,
                        std::int64_t row) const {
    write_result(whole, monoid.scale, kind, data, row);
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

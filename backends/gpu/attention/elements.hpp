// SPDX-License-Identifier: Apache-2.0
/// \file
/// Elements of queries, keys and values in the type of the arithmetic.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/row/vector_elements.hpp>

#include <core/attention.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// n elements, which begin at a multiple of 16 bytes.
template <int n, class In>
__device__ inline void load_whole(const In* from, arithmetic_t<In> (&to)[n]) {
  constexpr int width = n < vector_width<In> ? n : vector_width<In>;
  if constexpr (width < vector_width<In>) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      to[i] = widen(from[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; i += width) {
      const block16 v = load_vector<false>(reinterpret_cast<const block16*>(from + i));
#pragma unroll
      for (int j = 0; j < width; ++j) {
        to[i + j] = element_of<In>(v, j);
      }
    }
  }
}
/// Elements [0, count) of `from` and zeros, by vectors where they begin at multiples of 16 bytes.
template <int n, class In>
__device__ inline void load_elements(const In* from, int count, bool in_vectors,
                                     arithmetic_t<In> (&to)[n]) {
  if (in_vectors && count >= n) {
    load_whole(from, to);
    return;
  }
#pragma unroll
  for (int i = 0; i < n; ++i) {
    to[i] = i < count ? widen(from[i]) : arithmetic_t<In>{0};
  }
}

template <class In>
__device__ inline bool is_in_vectors(const const_tensor_ref& t) {
  constexpr int each = vector_width<In>;
  return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.batch_stride % each == 0 &&
         t.head_stride % each == 0 && t.token_stride % each == 0;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

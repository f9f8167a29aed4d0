// SPDX-License-Identifier: Apache-2.0
/// \file
/// Products of matrices whose columns lie in shared memory, by a thread's own rows and columns.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/row/vector_elements.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Elements that shared memory moves at a time. Its words are those of the elements, so that a
/// compiler knows that one by one they are the same.
template <class A>
struct alignas(16) element_vector {
  A elements[vector_width<A>];
};
/// n elements in shared memory, by vectors where they are whole ones.
template <int n, class A>
__device__ inline void read_shared(const A* from, A (&to)[n]) {
  if constexpr (n % vector_width<A> == 0) {
#pragma unroll
    for (int i = 0; i < n; i += vector_width<A>) {
      const auto v = *reinterpret_cast<const element_vector<A>*>(from + i);
#pragma unroll
      for (int j = 0; j < vector_width<A>; ++j) {
        to[i + j] = v.elements[j];
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      to[i] = from[i];
    }
  }
}
template <int n, class A>
__device__ inline void write_shared(A* to, const A (&from)[n]) {
  if constexpr (n % vector_width<A> == 0) {
#pragma unroll
    for (int i = 0; i < n; i += vector_width<A>) {
      element_vector<A> v;
#pragma unroll
      for (int j = 0; j < vector_width<A>; ++j) {
        v.elements[j] = from[i + j];
      }
      *reinterpret_cast<element_vector<A>*>(to + i) = v;
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      to[i] = from[i];
    }
  }
}

/// sums += left right^T over `steps` columns of both. `leaves_out`: what is multiplied with 0 may
/// be anything.
template <int steps, bool leaves_out, int rows, int each, class A>
__device__ inline void add_products(const A* left, int left_stride, const A* right,
                                    int right_stride, A (&sums)[rows][each]) {
  [[maybe_unused]] constexpr int unrolled = leaves_out ? 1 : 4;  // as many operands have registers
#pragma unroll unrolled
  for (int i = 0; i < steps; ++i) {
    A own_left[rows];
    A own_right[each];
    read_shared(left + i * left_stride, own_left);
    read_shared(right + i * right_stride, own_right);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const A next = fma(own_left[r], own_right[j], sums[r][j]);
        sums[r][j] = leaves_out && own_left[r] == A{0} ? sums[r][j] : next;
      }
    }
  }
}

template <int rows, int each, class A>
__device__ inline void clear(A (&sums)[rows][each]) {
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int j = 0; j < each; ++j) {
      sums[r][j] = 0;
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

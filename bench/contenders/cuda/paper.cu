// SPDX-License-Identifier: Apache-2.0
// The kernels that "Online normalizer calculation for softmax" (arXiv 1805.02867) compares, written
// from its algorithms: a block of 256 threads for each row, scalar loads, block reductions.
#include "buffer.hpp"
#include "contenders.hpp"
#include "device.hpp"

#include <cub/block/block_reduce.cuh>

#include <cstdint>

namespace softfold::bench {
namespace {

constexpr int threads = 256;

/// The paper's pair (m, d).
struct normalizer {
  float max = -INFINITY;
  float sum = 0;
};

struct larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct sum_of {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct combined {
  __device__ normalizer operator()(const normalizer& a, const normalizer& b) const {
    const bool a_is_larger = a.max > b.max;
    const normalizer& high = a_is_larger ? a : b;
    const normalizer& low = a_is_larger ? b : a;
    // A thread without elements, in rows shorter than the block: -infinity - -infinity is NaN.
    const float factor = low.sum > 0 ? __expf(low.max - high.max) : 0;
    return {high.max, high.sum + low.sum * factor};
  }
};

/// The k largest elements, in order.
template <int K>
struct largest {
  float value[K];
  std::int32_t index[K];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < K; ++i) {
      value[i] = -INFINITY;
      index[i] = -1;
    }
  }
  // Lets an element sink in at the end, then rise to its place.
  __device__ void insert(float v, std::int32_t at) {
    if (v <= value[K - 1]) {
      return;
    }
    value[K - 1] = v;
    index[K - 1] = at;
#pragma unroll
    for (int i = K - 1; i > 0; --i) {
      if (value[i] > value[i - 1]) {
        const float v_below = value[i - 1];
        const std::int32_t at_below = index[i - 1];
        value[i - 1] = value[i];
        index[i - 1] = index[i];
        value[i] = v_below;
        index[i] = at_below;
      }
    }
  }
};

template <int K>
struct merged {
  __device__ largest<K> operator()(const largest<K>& a, const largest<K>& b) const {
    // A long list is merged element by element: unrolled, its K * K steps compile for minutes.
    constexpr int unrolled = K <= 8 ? K : 1;
    largest<K> both = a;
#pragma unroll unrolled
    for (int i = 0; i < K; ++i) {
      both.insert(b.value[i], b.index[i]);
    }
    return both;
  }
};

template <int K>
struct normalizer_and_largest {
  normalizer state;
  largest<K> top;
};

template <int K>
struct both_combined {
  __device__ normalizer_and_largest<K> operator()(const normalizer_and_largest<K>& a,
                                                  const normalizer_and_largest<K>& b) const {
    return {combined{}(a.state, b.state), merged<K>{}(a.top, b.top)};
  }
};

// The reduction of all threads' values; thread 0 has it.
template <class T, class Combine>
__device__ T reduce_to_first(const T& value, Combine combine) {
  using block = cub::BlockReduce<T, threads>;
  __shared__ typename block::TempStorage scratch;
  const T result = block(scratch).Reduce(value, combine);
  __syncthreads();
  return result;
}

// All threads have it.
template <class T, class Combine>
__device__ T reduce(const T& value, Combine combine) {
  __shared__ T result;
  const T first = reduce_to_first(value, combine);
  if (threadIdx.x == 0) {
    result = first;
  }
  __syncthreads();
  return result;
}

template <int K>
__device__ void write_largest(const largest<K>& top, float* values, std::int64_t* indices,
                              float max, float scale) {
#pragma unroll
  for (int i = 0; i < K; ++i) {
    values[i] = __expf(top.value[i] - max) * scale;
    indices[i] = top.index[i];
  }
}

__global__ void __launch_bounds__(threads)
    softmax_naive(const float* __restrict__ x, float* __restrict__ y, int cols) {
  x += std::int64_t{blockIdx.x} * cols;
  y += std::int64_t{blockIdx.x} * cols;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    sum += __expf(x[i]);
  }
  const float inverse = 1 / reduce(sum, sum_of{});
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    y[i] = __expf(x[i]) * inverse;
  }
}

__global__ void __launch_bounds__(threads)
    softmax_safe(const float* __restrict__ x, float* __restrict__ y, int cols) {
  x += std::int64_t{blockIdx.x} * cols;
  y += std::int64_t{blockIdx.x} * cols;
  float max = -INFINITY;
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    max = fmaxf(max, x[i]);
  }
  max = reduce(max, larger{});
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    sum += __expf(x[i] - max);
  }
  const float inverse = 1 / reduce(sum, sum_of{});
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    y[i] = __expf(x[i] - max) * inverse;
  }
}

__global__ void __launch_bounds__(threads)
    softmax_online(const float* __restrict__ x, float* __restrict__ y, int cols) {
  x += std::int64_t{blockIdx.x} * cols;
  y += std::int64_t{blockIdx.x} * cols;
  normalizer own;
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    own = combined{}(own, {x[i], 1});
  }
  const normalizer row = reduce(own, combined{});
  const float inverse = 1 / row.sum;
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    y[i] = __expf(x[i] - row.max) * inverse;
  }
}

// Of probabilities that a kernel before wrote.
template <int K>
__global__ void __launch_bounds__(threads)
    topk_of(const float* __restrict__ p, float* __restrict__ values,
            std::int64_t* __restrict__ indices, int cols) {
  p += std::int64_t{blockIdx.x} * cols;
  largest<K> own;
  own.clear();
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    own.insert(p[i], i);
  }
  own = reduce_to_first(own, merged<K>{});
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < K; ++i) {
      values[std::int64_t{blockIdx.x} * K + i] = own.value[i];
      indices[std::int64_t{blockIdx.x} * K + i] = own.index[i];
    }
  }
}

template <int K>
__global__ void __launch_bounds__(threads)
    softmax_topk_safe(const float* __restrict__ x, float* __restrict__ values,
                      std::int64_t* __restrict__ indices, int cols) {
  x += std::int64_t{blockIdx.x} * cols;
  float max = -INFINITY;
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    max = fmaxf(max, x[i]);
  }
  max = reduce(max, larger{});
  float sum = 0;
  largest<K> own;
  own.clear();
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    sum += __expf(x[i] - max);
    own.insert(x[i], i);
  }
  sum = reduce_to_first(sum, sum_of{});
  own = reduce_to_first(own, merged<K>{});
  if (threadIdx.x == 0) {
    write_largest(own, values + std::int64_t{blockIdx.x} * K,
                  indices + std::int64_t{blockIdx.x} * K, max, 1 / sum);
  }
}

template <int K>
__global__ void __launch_bounds__(threads)
    softmax_topk_online(const float* __restrict__ x, float* __restrict__ values,
                        std::int64_t* __restrict__ indices, int cols) {
  x += std::int64_t{blockIdx.x} * cols;
  normalizer_and_largest<K> own;
  own.top.clear();
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += threads) {
    own.state = combined{}(own.state, {x[i], 1});
    own.top.insert(x[i], i);
  }
  own = reduce_to_first(own, both_combined<K>{});
  if (threadIdx.x == 0) {
    write_largest(own.top, values + std::int64_t{blockIdx.x} * K,
                  indices + std::int64_t{blockIdx.x} * K, own.state.max, 1 / own.state.sum);
  }
}

struct problem {
  const float* x;
  float* y;
  float* values;
  std::int64_t* indices;
  unsigned rows;
  int cols;

  problem(const workload& w, void* output)
      : x(static_cast<const float*>(w.x.data)),
        y(static_cast<float*>(output)),
        values(static_cast<float*>(w.values.data)),
        indices(static_cast<std::int64_t*>(w.indices.data)),
        rows(static_cast<unsigned>(w.x.rows)),
        cols(static_cast<int>(w.x.cols)) {}
};

using softmax_kernel = void (*)(const float*, float*, int);
using topk_kernel = void (*)(const float*, float*, std::int64_t*, int);

template <softmax_kernel Kernel>
work softmax_work(const workload& w) {
  if (w.spec.op != operation::softmax || w.spec.type != dtype::f32) {
    return {};
  }
  return [p = problem(w, w.y.data)] {
    Kernel<<<p.rows, threads, 0, device_stream()>>>(p.x, p.y, p.cols);
  };
}

// The kernel for k elements; lists are in registers, so there is one for each k and none for many.
struct topk_kernels {
  std::int64_t k;
  topk_kernel after_softmax;
  topk_kernel safe;
  topk_kernel online;
};
template <int K>
constexpr topk_kernels kernels_for = {K, topk_of<K>, softmax_topk_safe<K>, softmax_topk_online<K>};

const topk_kernels* kernels_of(const workload& w) {
  static const topk_kernels all[] = {kernels_for<1>, kernels_for<5>, kernels_for<8>,
                                     kernels_for<32>};
  if (w.spec.op == operation::softmax_topk && w.spec.type == dtype::f32) {
    for (const topk_kernels& kernels : all) {
      if (kernels.k == w.spec.k) {
        return &kernels;
      }
    }
  }
  return nullptr;
}

work safe_unfused(const workload& w) {
  const topk_kernels* const kernels = kernels_of(w);
  if (kernels == nullptr) {
    return {};
  }
  static buffer probabilities;  // kept from case to case
  probabilities.resize(w.spec.input_bytes());
  return [p = problem(w, probabilities.data()), topk = kernels->after_softmax] {
    softmax_safe<<<p.rows, threads, 0, device_stream()>>>(p.x, p.y, p.cols);
    topk<<<p.rows, threads, 0, device_stream()>>>(p.y, p.values, p.indices, p.cols);
  };
}

template <topk_kernel topk_kernels::*Kernel>
work fused(const workload& w) {
  const topk_kernels* const kernels = kernels_of(w);
  if (kernels == nullptr) {
    return {};
  }
  return [p = problem(w, nullptr), kernel = kernels->*Kernel] {
    kernel<<<p.rows, threads, 0, device_stream()>>>(p.x, p.values, p.indices, p.cols);
  };
}

}  // namespace

contender paper_naive_contender() {
  return {.name = "paper_naive", .prepare = softmax_work<softmax_naive>};
}
contender paper_safe_contender() {
  return {.name = "paper_safe", .prepare = softmax_work<softmax_safe>};
}
contender paper_online_contender() {
  return {.name = "paper_online", .prepare = softmax_work<softmax_online>};
}
contender paper_safe_unfused_contender() {
  return {.name = "paper_safe_unfused", .prepare = safe_unfused};
}
contender paper_safe_fused_contender() {
  return {.name = "paper_safe_fused", .prepare = fused<&topk_kernels::safe>};
}
contender paper_online_fused_contender() {
  return {.name = "paper_online_fused", .prepare = fused<&topk_kernels::online>};
}

}  // namespace softfold::bench

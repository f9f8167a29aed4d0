// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the top-k kernels take, and how they write a row's results.
#pragma once

#include <gpu/group/select.hpp>
#include <gpu/row/vector_range.hpp>
#include <gpu/state/results.hpp>
#include <gpu/state/scaling.hpp>

#include <core/typed_memory.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In>
using key_t = std::conditional_t<std::is_same_v<In, double>, std::uint64_t, std::uint32_t>;

/// Low bits in which the keys of elements that are no NaN do not differ, if they have the same
/// sign.
template <class In>
inline constexpr int spare_key_bits = std::is_same_v<In, bfloat16> ? 16
                                      : std::is_same_v<In, half>   ? 13
                                                                   : 0;

/// A number that all elements whose keys reach `bound` are not below, and no others but +infinity:
/// one comparison instead of a key for each. A bound that only NaNs reach is +infinity.
template <class T>
__device__ inline T value_of_bound(std::uint64_t bound) {
  constexpr std::uint64_t of_infinity = core::order_key(infinity<T>);
  return core::value_of_key<T>(bound < of_infinity ? bound : of_infinity);
}

/// An output with one value for each row and rank.
struct ranked_output {
  void* data;
  dtype type;
  std::int64_t stride;
};

template <class In>
struct topk_arguments {
  using T = arithmetic_t<In>;

  const In* x;
  readable_memory<In> memory;  ///< of all rows
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t x_stride;
  std::int64_t k;
  std::int64_t column_offset;
  T scale;
  element_map map;
  bool folds;
  bool empty_is_zero;
  int group_vectors;
  std::int64_t groups;
  int chunks;
  int span;   ///< chunks of a block that makes a list
  int spans;  ///< of a row
  int capacity;
  key_t<In>* keys;          ///< in global memory, of all rows, or null
  softmax_state<T>* parts;  ///< in global memory, of all rows' chunks, or null
  void* entries;            ///< in global memory, `capacity` for each row, or null
  ranked_output indices;
  ranked_output values;
  ranked_output probabilities;
  void* lse;
  result_kind lse_kind;
  max_sum<T>* partials;

  [[nodiscard]] __device__ softmax_monoid<T> states() const { return {scale}; }
  /// Whether the kernel that selects reads all of the row, which no other has scanned.
  [[nodiscard]] __host__ __device__ bool scans() const {
    return keys == nullptr && parts == nullptr && (folds || groups > 0);
  }
};

/// A result's exponential, in its row's frame.
template <class T>
__device__ inline T ranked_exponential(const frame<T>& whole, T x, element_map map) {
  return exponential<precision::exact>(whole.exponent(mapped(x, map)));
}

/// From an element to its share of its row's sum of exponentials: a probability.
template <class T>
struct share_of_row {
  frame<T> whole;
  T sum;

  template <class In>
  __device__ static share_of_row of(const topk_arguments<In>& call, const softmax_state<T>& state) {
    const T top = call.scale * state.max;
    if (isfinite(top)) {
      return call.cols == 1 ? share_of_row{{T{0}, T{0}, T{1}}, T{1}}
                            : share_of_row{frame<T>::of(state.max, call.scale), state.sum};
    }
    return {frame<T>::of(state.max, call.scale), top == -infinity<T> && call.empty_is_zero
                                                     ? infinity<T>
                                                     : std::numeric_limits<T>::quiet_NaN()};
  }
  __device__ T operator()(T x, element_map map) const {
    return canonical(ranked_exponential(whole, x, map) / sum);
  }
};

template <class T>
__device__ inline void write_as(const ranked_output& to, std::int64_t row, std::int64_t rank,
                                T value) {
  core::write_real(to.data, to.type, row * to.stride + rank, value);
}

/// The results of one rank of a row; an entry that does not exist is an absent one.
/// probability(value): asked for where it is wanted.
template <class Entry, class In, class Probability>
__device__ inline void write_ranked(const topk_arguments<In>& call, const In* x, std::int64_t row,
                                    std::int64_t rank, const Entry& entry,
                                    const Probability& probability) {
  using T = arithmetic_t<In>;
  const bool exists = entry_of<Entry>::exists(entry);
  const std::int64_t column = exists ? entry_of<Entry>::column(entry) : 0;
  const std::int64_t index = exists ? column + call.column_offset : -1;
  core::write_integer(call.indices.data, call.indices.type, row * call.indices.stride + rank,
                      index);
  T value = exists ? core::value_of_key<T>(entry_of<Entry>::key(entry)) : -infinity<T>;
  if (call.values.data != nullptr && exists && !(value < 0) && !(value > 0)) {
    value = widen(x[column]);  // its sign, and a NaN's bits, which the key does not tell
  }
  if (call.values.data != nullptr) {
    write_as(call.values, row, rank, value);
  }
  if (call.probabilities.data != nullptr) {
    write_as(call.probabilities, row, rank, probability(value));
  }
}

/// The results of a row that have no rank.
template <class In>
__device__ inline void write_state(const topk_arguments<In>& call, std::int64_t row,
                                   const softmax_state<arithmetic_t<In>>& whole) {
  if (call.lse != nullptr) {
    write_result(whole, call.scale, call.lse_kind, call.lse, row);
  }
  if (call.partials != nullptr) {
    call.partials[row] = to_public(whole, call.scale);
  }
}

/// All results of a row from its k best in order, by all threads of the block.
template <class In>
__device__ inline void write_row(const topk_arguments<In>& call, const In* x, std::int64_t row,
                                 const packed_entry* ranked,
                                 const softmax_state<arithmetic_t<In>>& whole) {
  using T = arithmetic_t<In>;
  const auto share = share_of_row<T>::of(call, whole);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < call.k; i += static_cast<int>(blockDim.x)) {
    write_ranked<packed_entry>(call, x, row, i, ranked[i],
                               [&](T value) { return share(value, call.map); });
  }
  if (threadIdx.x == 0) {
    write_state(call, row, whole);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

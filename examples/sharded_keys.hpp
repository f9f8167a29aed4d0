// SPDX-License-Identifier: Apache-2.0
// The attention that examples/mpi and examples/nccl spread over ranks and GPUs by its keys.
#pragma once

#include <softfold/attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

inline constexpr std::int64_t batches = 2;
inline constexpr std::int64_t heads = 4;
inline constexpr std::int64_t key_heads = 2;  // two query heads share one
inline constexpr std::int64_t queries = 3;
inline constexpr std::int64_t keys = 5'000;
inline constexpr std::int64_t dim = 64;
inline constexpr std::int64_t rows = batches * heads * queries;
/// Sequences may be shorter than the tensors; what K and V hold beyond reaches nothing.
inline constexpr std::int64_t lengths[batches] = {keys, keys - 1'303};

/// What is known of every query from some of the keys: it is sent whole.
struct attention_states {
  softfold::max_sum<float> states[rows];
  float weighted[rows * dim];
};

/// The same in memory of a queue's device, where the library's calls work.
struct device_states {
  std::byte* data;

  [[nodiscard]] softfold::partials_ref states() const {
    return {data + offsetof(attention_states, states), softfold::dtype::f32, rows};
  }
  [[nodiscard]] softfold::tensor_view<float> weighted() const {
    return {reinterpret_cast<float*>(data + offsetof(attention_states, weighted)), batches, heads,
            queries, dim};
  }
};

/// Of every query or key of all batches and heads: numbers that everybody makes alike.
inline std::vector<float> make_tokens(std::int64_t count, unsigned seed) {
  std::vector<float> x(static_cast<std::size_t>(count * dim));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 1.5F);
  for (float& value : x) {
    value = normal(random);
  }
  return x;
}

inline std::vector<float> make_keys(unsigned seed) {
  std::vector<float> x = make_tokens(batches * key_heads * keys, seed);
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t h = 0; h < key_heads; ++h) {
      const auto head = x.begin() + (b * key_heads + h) * keys * dim;
      std::fill(head + lengths[b] * dim, head + keys * dim, std::nanf(""));
    }
  }
  return x;
}

template <class T>
softfold::buffer on_device(softfold::queue& q, const T* host, std::size_t count) {
  softfold::buffer memory(q, count * sizeof(T));
  memory.upload(q, host, memory.size());
  return memory;
}

inline std::vector<float> on_host(softfold::queue& q, const softfold::buffer& memory) {
  std::vector<float> host(memory.size() / sizeof(float));
  memory.download(q, host.data(), memory.size());
  q.wait();
  return host;
}

inline softfold::tensor_view<float> view_of_queries(const softfold::buffer& memory) {
  return {static_cast<float*>(memory.data()), batches, heads, queries, dim};
}

/// `count` keys, or values, of every head, from the first on, of all that the buffer holds.
inline softfold::tensor_view<float> part(const softfold::buffer& memory, std::int64_t first,
                                         std::int64_t count) {
  return {static_cast<float*>(memory.data()) + first * dim,
          batches,
          key_heads,
          count,
          dim,
          key_heads * keys * dim,
          keys * dim,
          dim};
}

/// How many of `found` are not what one call on all keys says. Values are weighted means of numbers
/// below 8; both are within some 40 2^-24 of them (docs/attention.md).
inline int wrong(const std::vector<float>& found, const std::vector<float>& expected) {
  int count = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    count += std::abs(double{found[i]} - double{expected[i]}) <= 8 * 200 * 0x1p-24 ? 0 : 1;
  }
  return count;
}

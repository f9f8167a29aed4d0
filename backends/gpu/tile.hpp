// SPDX-License-Identifier: Apache-2.0
/// \file
/// A thread's share of a range of a row, in registers, and its way from and to memory.
///
/// A row is covered by aligned vectors of 16 bytes. The first and the last may lie partly outside
/// it: they are read and written element by element, all others whole, whatever the base, the
/// stride and the number of columns. Elements outside the row are -infinity, which contributes
/// nothing.
#pragma once

#include "device.hpp"
#include "state.hpp"

#include <softfold/dtype.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The type of the arithmetic.
template <class In>
using arithmetic_t = std::conditional_t<std::is_same_v<In, double>, double, float>;

/// Elements of a 16-byte vector.
template <class In>
inline constexpr int vector_width = 16 / static_cast<int>(sizeof(In));

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(half x) { return to_float(x); }
__device__ inline float widen(bfloat16 x) { return to_float(x); }

/// The nearest Out; of a NaN, some NaN.
template <class Out, class T>
__device__ inline Out narrow(T x) {
  if constexpr (std::is_same_v<Out, half>) {
    return to_half(x);
  } else if constexpr (std::is_same_v<Out, bfloat16>) {
    return to_bfloat16(x);
  } else {
    return x;
  }
}

/// The elements of a 16-byte vector as the arithmetic's type.
template <class In>
__device__ inline arithmetic_t<In> element_of(const block16& v, int i) {
  if constexpr (std::is_same_v<In, float>) {
    return __uint_as_float(v.words[i]);
  } else if constexpr (std::is_same_v<In, double>) {
    return __hiloint2double(static_cast<int>(v.words[2 * i + 1]), static_cast<int>(v.words[2 * i]));
  } else {
    const std::uint32_t word = v.words[i / 2];
    if constexpr (std::is_same_v<In, bfloat16>) {
      return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000U);
    } else {
      return widen(In::from_bits(static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16)));
    }
  }
}

template <class In>
__device__ inline void set_element(block16& v, int i, In x) {
  if constexpr (std::is_same_v<In, float>) {
    v.words[i] = __float_as_uint(x);
  } else if constexpr (std::is_same_v<In, double>) {
    v.words[2 * i] = static_cast<std::uint32_t>(__double2loint(x));
    v.words[2 * i + 1] = static_cast<std::uint32_t>(__double2hiint(x));
  } else {
    const auto bits = static_cast<std::uint32_t>(x.bits);
    std::uint32_t& word = v.words[i / 2];
    word = i % 2 == 0 ? (word & 0xffff0000U) | bits : (word & 0xffffU) | bits << 16;
  }
}

/// A vector of value(0), value(1), ..., rounded to Out.
template <class Out, class Value>
__device__ inline block16 packed(const Value& value) {
  block16 v;
  if constexpr (std::is_same_v<Out, half>) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v.words[i] = to_half_pair(value(2 * i), value(2 * i + 1));
    }
  } else if constexpr (std::is_same_v<Out, bfloat16>) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v.words[i] = to_bfloat16_pair(value(2 * i), value(2 * i + 1));
    }
  } else {
#pragma unroll
    for (int i = 0; i < vector_width<Out>; ++i) {
      set_element<Out>(v, i, value(i));
    }
  }
  return v;
}

/// A row, or a range of one, as aligned vectors: its elements are `base`[head] to `base`[end - 1].
template <class In>
struct vector_range {
  static constexpr int width = vector_width<In>;

  const In* base;  ///< aligned to 16 bytes
  int head;
  int end;

  __device__ vector_range(const In* row, std::int64_t cols, std::int64_t first_vector = 0,
                          int vectors = std::numeric_limits<int>::max() / width) {
    const auto skew =
        static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(In));
    base = row - skew + first_vector * width;
    head = first_vector == 0 ? skew : 0;
    const std::int64_t rest = skew + cols - first_vector * width;
    end = rest < std::int64_t{vectors} * width ? static_cast<int>(rest) : vectors * width;
  }

  [[nodiscard]] __device__ int size() const { return (end + width - 1) / width; }
  /// Whether all elements of a vector belong to the range.
  [[nodiscard]] __device__ bool whole(int v) const {
    return v * width >= head && (v + 1) * width <= end;
  }
  [[nodiscard]] __device__ bool has(int element) const { return element >= head && element < end; }
};

/// Minus infinity in every element.
template <class In>
__device__ inline block16 no_elements() {
  if constexpr (std::is_same_v<In, double>) {
    return {{0, 0xfff00000U, 0, 0xfff00000U}};
  } else {
    constexpr std::uint32_t word = std::is_same_v<In, half>       ? 0xfc00fc00U
                                   : std::is_same_v<In, bfloat16> ? 0xff80ff80U
                                                                  : 0xff800000U;
    return {{word, word, word, word}};
  }
}

/// One vector, those of its elements outside the range -infinity.
template <class In>
__device__ inline block16 load_vector(const vector_range<In>& from, int v) {
  if (from.whole(v)) {
    return load_once(reinterpret_cast<const block16*>(from.base + v * vector_width<In>));
  }
  block16 result = no_elements<In>();
#pragma unroll
  for (int i = 0; i < vector_width<In>; ++i) {
    const int at = v * vector_width<In> + i;
    if (from.has(at)) {
      set_element(result, i, from.base[at]);
    }
  }
  return result;
}

/// V vectors of a thread, number first + j * step for j in [0, V).
template <class In, int V>
class tile {
 public:
  using T = arithmetic_t<In>;
  static constexpr int width = vector_width<In>;
  /// Whether exponentials can take the elements' place.
  static constexpr bool keeps = std::is_same_v<In, T>;

  /// Vectors outside the range are -infinity.
  __device__ tile(const vector_range<In>& range, int first, int step)
      : range_(range), first_(first), step_(step) {
    const int size = range.size();
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int v = first + j * step;
      vectors_[j] = v < size ? load_vector(range, v) : no_elements<In>();
    }
  }

  [[nodiscard]] __device__ T element(int j, int i) const { return element_of<In>(vectors_[j], i); }
  [[nodiscard]] __device__ int number(int j) const { return first_ + j * step_; }

  /// Maps the elements of the range; those outside it stay -infinity.
  __device__ void apply(element_map map) {
    if (map == element_map::none) {
      return;
    }
#pragma unroll
    for (int j = 0; j < V; ++j) {
#pragma unroll
      for (int i = 0; i < width; ++i) {
        if (range_.has(number(j) * width + i)) {
          set_element<In>(vectors_[j], i, narrow<In>(mapped(element(j, i), map)));
        }
      }
    }
  }

  /// The largest element of vector j; NaN if there is one.
  [[nodiscard]] __device__ T max(int j) const {
    T largest = element(j, 0);
#pragma unroll
    for (int i = 1; i < width; ++i) {
      largest = max_or_nan(largest, element(j, i));
    }
    return largest;
  }
  [[nodiscard]] __device__ T max() const {
    T largest = max(0);
#pragma unroll
    for (int j = 1; j < V; ++j) {
      largest = max_or_nan(largest, max(j));
    }
    return largest;
  }

  /// The sum of the exponentials in a frame; if `keep`, they take the elements' place.
  template <precision p, bool keep>
  __device__ T sum(const frame<T>& f) {
    T sums[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < V; ++j) {
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const T e = exponential<p>(f.exponent(element(j, i)));
        if constexpr (keep) {
          set_element<In>(vectors_[j], i, e);
        }
        sums[i % 2] += e;
      }
    }
    return sums[0] + sums[1];
  }

  /// Writes value(element) for every element of the range; `to` corresponds to the range's base.
  template <class Out, class Value>
  __device__ void store(Out* to, const Value& value) const {
    const bool aligned = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int v = number(j);
      if (aligned && range_.whole(v)) {
        constexpr int parts = width / vector_width<Out>;
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          store_once(reinterpret_cast<block16*>(to + v * width) + part, packed<Out>([&](int i) {
                       return value(element(j, part * vector_width<Out> + i));
                     }));
        }
        continue;
      }
#pragma unroll
      for (int i = 0; i < width; ++i) {
        if (range_.has(v * width + i)) {
          to[v * width + i] = narrow<Out>(value(element(j, i)));
        }
      }
    }
  }

  /// Writes one value in place of every element.
  template <class Out>
  __device__ void fill(Out* to, Out value) const {
#pragma unroll
    for (int j = 0; j < V; ++j) {
#pragma unroll
      for (int i = 0; i < width; ++i) {
        if (range_.has(number(j) * width + i)) {
          to[number(j) * width + i] = value;
        }
      }
    }
  }

 private:
  vector_range<In> range_;
  int first_;
  int step_;
  block16 vectors_[V];
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

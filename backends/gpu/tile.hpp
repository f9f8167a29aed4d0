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

/// Element i of a vector as it is stored.
template <class Out>
__device__ inline Out stored_element(const block16& v, int i) {
  if constexpr (sizeof(Out) == 2) {
    const std::uint32_t word = v.words[i / 2];
    return Out::from_bits(static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16));
  } else {
    return element_of<Out>(v, i);
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

/// Memory that may be read: from the first element of a matrix to its last.
template <class In>
struct readable_memory {
  const In* begin;
  const In* end;

  __device__ readable_memory(const In* data, std::int64_t rows, std::int64_t cols,
                             std::int64_t stride)
      : begin(data), end(data + (rows - 1) * stride + cols) {}
};

/// A row, or a range of one, as aligned vectors: its elements are `base`[head] to `base`[end - 1].
template <class In>
struct vector_range {
  static constexpr int width = vector_width<In>;

  const In* base;  ///< aligned to 16 bytes
  int head;
  int end;
  int readable_from;  ///< elements from here to `readable_to` lie inside the matrix
  int readable_to;

  __device__ vector_range(const In* row, std::int64_t cols, const readable_memory<In>& memory,
                          std::int64_t first_vector = 0, int vectors = most_vectors) {
    const auto skew = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(In));
    base = row - skew + first_vector * width;
    head = first_vector == 0 ? skew : 0;
    const std::int64_t rest = skew + cols - first_vector * width;
    end = rest < std::int64_t{vectors} * width ? static_cast<int>(rest) : vectors * width;
    readable_from = base < memory.begin ? static_cast<int>(memory.begin - base) : 0;
    const std::int64_t to = memory.end - base;
    readable_to = to < most_vectors * width ? static_cast<int>(to) : most_vectors * width;
  }

  static constexpr int most_vectors = std::numeric_limits<int>::max() / width;

  [[nodiscard]] __device__ int size() const { return (end + width - 1) / width; }
  /// Whether all elements of a vector belong to the range.
  [[nodiscard]] __device__ bool whole(int v) const {
    return v * width >= head && (v + 1) * width <= end;
  }
  /// Whether all elements of a vector belong to the matrix, if not to the range.
  [[nodiscard]] __device__ bool readable(int v) const {
    return v * width >= readable_from && (v + 1) * width <= readable_to;
  }
  [[nodiscard]] __device__ bool has(int element) const { return element >= head && element < end; }
};

template <class In>
__device__ inline In minus_infinity() {
  if constexpr (std::is_same_v<In, half>) {
    return half::from_bits(0xfc00);
  } else if constexpr (std::is_same_v<In, bfloat16>) {
    return bfloat16::from_bits(0xff80);
  } else {
    return -infinity<In>;
  }
}

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

/// Makes those elements of vector v that lie outside the range -infinity.
template <class In>
__device__ inline void mask(block16& loaded, const vector_range<In>& range, int v) {
  if (range.whole(v)) {
    return;
  }
#pragma unroll
  for (int i = 0; i < vector_width<In>; ++i) {
    if (!range.has(v * vector_width<In> + i)) {
      set_element<In>(loaded, i, minus_infinity<In>());
    }
  }
}

/// Vector v element by element, those outside the range -infinity.
template <class In>
__device__ inline block16 load_elements(const vector_range<In>& from, int v) {
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

/// Vector v, its elements outside the range -infinity.
template <class In>
__device__ inline block16 load_vector(const vector_range<In>& from, int v) {
  if (!from.readable(v)) {
    return load_elements(from, v);
  }
  block16 loaded = load_once(reinterpret_cast<const block16*>(from.base + v * vector_width<In>));
  mask(loaded, from, v);
  return loaded;
}

/// V vectors of a thread, number first + j * step for j in [0, V).
template <class In, int V>
class tile {
 public:
  using T = arithmetic_t<In>;
  static constexpr int width = vector_width<In>;
  /// Whether exponentials can take the elements' place.
  static constexpr bool keeps = std::is_same_v<In, T>;

  __device__ tile(const vector_range<In>& range, int first, int step)
      : range_(range), first_(first), step_(step) {}

  /// Reads the vectors; those outside the range are -infinity. A row's first and last vector may
  /// also hold elements of its neighbours: they are read along with it and masked, once all reads
  /// are on their way.
  __device__ void load() {
    const int size = range_.size();
    bool all_readable = true;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int v = number(j);
      vectors_[j] = no_elements<In>();
      if (v < size) {
        if (range_.readable(v)) {
          vectors_[j] =
              load_once(reinterpret_cast<const block16*>(range_.base + v * vector_width<In>));
        } else {
          all_readable = false;
        }
      }
    }
    if (!all_readable) {  // at the matrix's first or last element
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (number(j) < size && !range_.readable(number(j))) {
          vectors_[j] = load_elements(range_, number(j));
        }
      }
    }
    mask_edges();
  }

  /// Takes the vectors from a copy in shared memory.
  __device__ void load(const block16* copy) {
    const int size = range_.size();
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int v = number(j);
      vectors_[j] = v < size ? copy[v] : no_elements<In>();
    }
    mask_edges();
  }

  [[nodiscard]] __device__ T element(int j, int i) const { return element_of<In>(vectors_[j], i); }
  [[nodiscard]] __device__ int number(int j) const { return first_ + j * step_; }

  /// To be called between two passes over the elements: the vectors' numbers are computed again in
  /// the next, so that they take no registers in between.
  __device__ void next_pass() { forget_origin(first_); }

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
    next_pass();
  }

  /// The largest element of vector j; NaN if there is one.
  [[nodiscard]] __device__ T max(int j) const { return largest_of(vectors_[j]); }

  [[nodiscard]] __device__ T max() const {
    block16 largest = vectors_[0];
#pragma unroll
    for (int j = 1; j < V; ++j) {
      if constexpr (sizeof(In) == 2) {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          largest.words[w] = max_of_pairs<In>(largest.words[w], vectors_[j].words[w]);
        }
      } else {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          set_element<In>(largest, i, max_or_nan(element_of<In>(largest, i), element(j, i)));
        }
      }
    }
    return largest_of(largest);
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
    const int size = range_.size();
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int v = number(j);
      if (v >= size) {
        continue;
      }
      constexpr int parts = width / vector_width<Out>;
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        constexpr int each = vector_width<Out>;
        const block16 result =
            packed<Out>([&](int i) { return value(element(j, part * each + i)); });
        const int at = v * width + part * each;
        if (aligned && range_.whole(v)) {
          store_once(reinterpret_cast<block16*>(to + at), result);
          continue;
        }
#pragma unroll
        for (int i = 0; i < each; ++i) {
          if (range_.has(at + i)) {
            to[at + i] = stored_element<Out>(result, i);
          }
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
  __device__ void mask_edges() {
    if (range_.head > 0 && first_ == 0) {
      mask(vectors_[0], range_, 0);
    }
    if (range_.end % width != 0) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (number(j) == range_.end / width) {
          mask(vectors_[j], range_, number(j));
        }
      }
    }
  }

  __device__ static T largest_of(const block16& v) {
    if constexpr (sizeof(In) == 2) {
      const std::uint32_t pair = max_of_pairs<In>(max_of_pairs<In>(v.words[0], v.words[1]),
                                                  max_of_pairs<In>(v.words[2], v.words[3]));
      const block16 both = {{pair, pair, pair, pair}};
      return max_or_nan(element_of<In>(both, 0), element_of<In>(both, 1));
    } else {
      T largest = element_of<In>(v, 0);
#pragma unroll
      for (int i = 1; i < width; ++i) {
        largest = max_or_nan(largest, element_of<In>(v, i));
      }
      return largest;
    }
  }

  vector_range<In> range_;
  int first_;
  int step_;
  block16 vectors_[V];
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

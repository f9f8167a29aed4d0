// SPDX-License-Identifier: Apache-2.0
/// \file
/// A thread's share of a range of a row, in registers, and its way from and to memory.
///
/// A row is covered by aligned vectors of 16 bytes. The first and the last may lie partly outside
/// it: they are read whole where the matrix has all of them, and masked; only the row's elements
/// are written. All others are read and written whole, whatever the base, the stride and the number
/// of columns. Elements outside the row are -infinity, which contributes nothing.
#pragma once

#include "device.hpp"
#include "state.hpp"

#include <softfold/dtype.hpp>

#include <cstdint>
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

/// A word's bits from number `first` on; none from 32 on.
__device__ inline std::uint32_t bits_from(int first) {
  return shift_left(~std::uint32_t{0}, first > 0 ? first : 0);
}

/// Writes bytes [from, until) of a vector, from = 0 or until = 16, both multiples of 2, by one
/// store of each size at most; `to` is aligned to 16 bytes.
__device__ inline void store_part(void* to, block16 v, int from, int until) {
  auto* const bytes = static_cast<unsigned char*>(to);
  const bool low = from == 0;
  const int n = until - from;
  const auto word = [&](int w) {
    return w < 2 ? (w == 0 ? v.words[0] : v.words[1]) : (w == 2 ? v.words[2] : v.words[3]);
  };
  if ((n & 2) != 0) {
    const int at = low ? n & 12 : from;
    const std::uint32_t both = word(at / 4);
    *reinterpret_cast<std::uint16_t*>(bytes + at) =
        static_cast<std::uint16_t>(low ? both : both >> 16);
  }
  if ((n & 4) != 0) {
    const int at = low ? n & 8 : 16 - (n & 12);
    *reinterpret_cast<std::uint32_t*>(bytes + at) = word(at / 4);
  }
  if ((n & 8) != 0) {
    *reinterpret_cast<std::uint64_t*>(bytes + (low ? 0 : 8)) =
        low ? v.words[0] | std::uint64_t{v.words[1]} << 32
            : v.words[2] | std::uint64_t{v.words[3]} << 32;
  }
  if (n == 16) {
    *static_cast<block16*>(to) = v;
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

/// The same where i is not known when it is compiled.
template <class In>
__device__ inline arithmetic_t<In> element_at(const block16& v, int i) {
  if constexpr (sizeof(In) == 8) {
    return i == 0 ? element_of<In>(v, 0) : element_of<In>(v, 1);
  } else {
    constexpr int each = 4 / static_cast<int>(sizeof(In));
    const int w = i / each;
    const std::uint32_t even = (w & 2) == 0 ? v.words[0] : v.words[2];
    const std::uint32_t odd = (w & 2) == 0 ? v.words[1] : v.words[3];
    const std::uint32_t word = (w & 1) == 0 ? even : odd;
    const block16 repeated = {{word, word, word, word}};
    return each == 2 && i % 2 != 0 ? element_of<In>(repeated, 1) : element_of<In>(repeated, 0);
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

/// x in every element.
template <class Out>
__device__ inline block16 repeated(Out x) {
  block16 v{};
#pragma unroll
  for (int i = 0; i < vector_width<Out>; ++i) {
    set_element<Out>(v, i, x);
  }
  return v;
}

/// Writes those elements of a vector that are in [from, until), one by one.
template <class Out>
__device__ inline void store_singly(Out* to, const block16& v, int from, int until) {
#pragma unroll
  for (int i = 0; i < vector_width<Out>; ++i) {
    if (i >= from && i < until) {
      to[i] = stored_element<Out>(v, i);
    }
  }
}

/// The same by fewer stores; `to` is aligned to 16 bytes.
template <class Out>
__device__ inline void store_elements(Out* to, block16 v, int from, int until) {
  constexpr int each = vector_width<Out>;
  from = from > 0 ? from : 0;
  until = until < each ? until : each;
  if (from == 0 || until == each) {
    if (until > from) {
      constexpr int bytes = static_cast<int>(sizeof(Out));
      store_part(to, v, from * bytes, until * bytes);
    }
    return;
  }
  store_singly(to, v, from, until);
}

/// Memory that may be read: from the first element of a matrix to its last.
template <class In>
struct readable_memory {
  const In* begin;
  const In* end;

  readable_memory(const In* data, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : begin(data), end(data + (rows - 1) * stride + cols) {}
};

/// What is written is cut at multiples of this: the L2 cache's sectors.
inline constexpr int sector_bytes = 32;

/// A row, or a range of one, as aligned vectors: its elements are `base`[head] to `base`[end - 1].
/// The first vector may lie before the row, if `alignment` is larger than a vector.
template <class In>
struct vector_range {
  static constexpr int width = vector_width<In>;
  static constexpr int width_bits = width == 8 ? 3 : width == 4 ? 2 : 1;

  const In* base;  ///< aligned to `alignment` bytes
  int head;
  int end;
  readable_memory<In> memory;

  /// A whole row that lanes or a block hold.
  __device__ vector_range(const In* row, int cols, const readable_memory<In>& memory,
                          int alignment = 16)
      : memory(memory) {
    const auto address = reinterpret_cast<std::uintptr_t>(row);
    const auto beyond = static_cast<std::uintptr_t>(alignment - 1);
    base = reinterpret_cast<const In*>(address & ~beyond);
    head = static_cast<int>(address & beyond) / static_cast<int>(sizeof(In));
    end = head + cols;
  }
  /// `vectors` vectors from number first_vector on.
  __device__ vector_range(const In* row, std::int64_t cols, const readable_memory<In>& memory,
                          std::int64_t first_vector, int vectors, int alignment = 16)
      : vector_range(row, 0, memory, alignment) {
    const std::int64_t rest = head + cols - first_vector * width;
    end = rest < 0                               ? 0
          : rest < std::int64_t{vectors} * width ? static_cast<int>(rest)
                                                 : vectors * width;
    move_to(first_vector);
  }
  /// The part of `whole`, a range of this row from vector whole_first on, that has `vectors`
  /// vectors from number `first` of it on. The row itself takes no registers, as `whole` would.
  __device__ vector_range(const In* row, const vector_range& whole, std::int64_t whole_first,
                          int first, int vectors)
      : vector_range(row, 0, whole.memory) {
    const int rest = whole.end - first * width;
    end = rest < vectors * width ? rest : vectors * width;
    move_to(whole_first + first);
  }

  /// Vectors, and those that end inside the range.
  [[nodiscard]] __device__ int size() const { return (end + width - 1) >> width_bits; }
  [[nodiscard]] __device__ int end_whole() const { return end >> width_bits; }
  /// Elements of the last vector, if they are less than a whole one's.
  [[nodiscard]] __device__ int tail() const { return end & (width - 1); }
  /// Whether all elements of a vector belong to the matrix, if not to the range.
  [[nodiscard]] __device__ bool readable(int v) const {
    return base + v * width >= memory.begin && base + (v + 1) * width <= memory.end;
  }
  /// The same of all vectors.
  [[nodiscard]] __device__ bool readable() const {
    return base >= memory.begin && base + size() * width <= memory.end;
  }
  [[nodiscard]] __device__ bool has(int element) const { return element >= head && element < end; }

 private:
  __device__ void move_to(std::int64_t first_vector) {
    head = first_vector == 0 ? head : 0;
    base += first_vector * width;
  }
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
__device__ constexpr block16 no_elements() {
  if constexpr (std::is_same_v<In, double>) {
    return {{0, 0xfff00000U, 0, 0xfff00000U}};
  } else {
    constexpr std::uint32_t word = std::is_same_v<In, half>       ? 0xfc00fc00U
                                   : std::is_same_v<In, bfloat16> ? 0xff80ff80U
                                                                  : 0xff800000U;
    return {{word, word, word, word}};
  }
}

/// Makes those elements of vector v that lie before the range -infinity.
template <class In>
__device__ inline void mask_head(block16& loaded, const vector_range<In>& range, int v) {
  constexpr block16 none = no_elements<In>();
  const int from = (range.head - v * vector_width<In>)*8 * static_cast<int>(sizeof(In));
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const std::uint32_t inside = bits_from(from - 32 * w);
    loaded.words[w] = (loaded.words[w] & inside) | (none.words[w] & ~inside);
  }
}

/// The same of those behind it.
template <class In>
__device__ inline void mask_tail(block16& loaded, const vector_range<In>& range, int v) {
  constexpr block16 none = no_elements<In>();
  const int until = (range.end - v * vector_width<In>)*8 * static_cast<int>(sizeof(In));
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const std::uint32_t outside = bits_from(until - 32 * w);
    loaded.words[w] = (loaded.words[w] & ~outside) | (none.words[w] & outside);
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
  block16 loaded =
      load_vector<true>(reinterpret_cast<const block16*>(from.base + v * vector_width<In>));
  mask_head(loaded, from, v);
  mask_tail(loaded, from, v);
  return loaded;
}

/// Starts the copy of the vectors of a range to shared memory, by all threads of a block, each
/// those that a tile of it has; see wait_for_copies.
template <class In>
__device__ inline void copy_ahead(const vector_range<In>& from, block16* copy) {
#pragma unroll 1
  for (int v = static_cast<int>(threadIdx.x); v < from.size(); v += static_cast<int>(blockDim.x)) {
    if (from.readable(v)) {
      copy_ahead(copy + v, reinterpret_cast<const block16*>(from.base) + v);
    } else {
      copy[v] = load_elements(from, v);
    }
  }
}

/// V vectors of a thread, number first + j * step for j in [0, V).
template <class In, int V>
class tile {
 public:
  using T = arithmetic_t<In>;
  static constexpr int width = vector_width<In>;
  /// Whether there are registers for the exponentials of all elements.
  static constexpr bool keeps = V * width * sizeof(T) <= 128;

  __device__ tile(const vector_range<In>& range, int first, int step)
      : range_(range), first_(first), step_(step) {}

  /// Reads the vectors; those outside the range are -infinity. A row's first and last vector may
  /// also hold elements of its neighbours: they are read along with it and masked, once all reads
  /// are on their way. `once`: see load_vector of the device.
  template <bool once = false>
  __device__ void load() {
    const int size = range_.size();
    const auto* from = reinterpret_cast<const block16*>(range_.base) + first_;
    forget_origin(from);  // one addition a vector, not a base's and an index's conversion
#pragma unroll
    for (int j = 0; j < V; ++j) {
      vectors_[j] = no_elements<In>();
    }
    if (range_.readable()) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (number(j) < size) {
          vectors_[j] = gpu::load_vector<once>(from + static_cast<unsigned>(j * step_));
        }
      }
    } else {  // at the matrix's first or last element
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (number(j) < size) {
          vectors_[j] = range_.readable(number(j))
                            ? gpu::load_vector<once>(from + static_cast<unsigned>(j * step_))
                            : load_elements(range_, number(j));
        }
      }
    }
    mask_edges();
  }

  /// Whether all elements of all vectors are the range's, and their load if so.
  [[nodiscard]] __device__ bool is_inside() const {
    return first_ * width >= range_.head && number(V - 1) < range_.end_whole();
  }
  template <bool once = false, bool known_step = false>
  __device__ void load_inside() {
    const auto* from = reinterpret_cast<const block16*>(range_.base) + first_;
    forget_origin(from);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      vectors_[j] = gpu::load_vector<once>(from);
      from += static_cast<unsigned>(step_);
      if constexpr (!known_step) {
        forget_origin(from);
      }
    }
  }

  /// The same as load, by all lanes of a warp, and quicker if all their vectors are inside. Lanes
  /// that went different ways would wait for memory one after the other. `known_step`: the compiler
  /// knows the distance of the vectors, and puts it into the loads.
  template <bool once = false, bool known_step = false>
  __device__ void load_long() {
    if (ballot(!is_inside()) == 0) {
      load_inside<once, known_step>();
    } else {
      load<once>();
    }
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
  [[nodiscard]] __device__ const block16& vector(int j) const { return vectors_[j]; }

  /// To be called between two passes over the elements: the vectors' numbers are computed again in
  /// the next, so that they take no registers in between.
  __device__ void next_pass() { forget_origin(first_); }

  /// Maps the elements of the range; those outside it stay -infinity.
  __device__ void apply(element_map map) {
    if (map == element_map::none) {
      return;
    }
    const int size = range_.size();
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (number(j) < size) {
        vectors_[j] = map == element_map::negate ? negated(vectors_[j]) : zeroed(vectors_[j]);
      }
    }
    mask_edges();
    next_pass();
  }

  /// The largest element of vector j; NaN if there is one.
  [[nodiscard]] __device__ T max(int j) const { return largest_of(vectors_[j]); }

  /// A bit for each vector that has a NaN or an element not below `least`.
  [[nodiscard]] __device__ unsigned reaching(T least) const {
    unsigned result = 0;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      result |= max(j) < least ? 0U : 1U << j;
    }
    return result;
  }
  /// A bit for each vector that has a NaN or an element above `bound`.
  [[nodiscard]] __device__ unsigned exceeding(T bound) const {
    unsigned result = 0;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      result |= max(j) <= bound ? 0U : 1U << j;
    }
    return result;
  }

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

  /// The sum of the exponentials in a frame; if `keep`, they are kept for store. `skips`: for warps
  /// most of which have whole vectors outside the range: it is left before vectors number `skips`,
  /// 2 `skips` and so on; if 0, never. The exponentials between are computed side by side.
  template <precision p, bool keep, int skips = 0>
  __device__ T sum(const frame<T>& f) {
    T total = 0;
    [[maybe_unused]] const int size = range_.size();
    with_exponential<p>(f, [&](const auto& exponential) {
      T sums[2] = {0, 0};
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if constexpr (skips > 0) {
          if (j > 0 && j % skips == 0 && number(j) >= size) {
            break;
          }
        }
#pragma unroll
        for (int i = 0; i < width; ++i) {
          const T e = exponential(element(j, i));
          if constexpr (keep) {
            kept_[j * width + i] = e;
          }
          sums[i % 2] += e;
        }
      }
      kept_factor_ = exponential.factor;
      total = (sums[0] + sums[1]) * exponential.factor;
    });
    return total;
  }
  /// What the kept exponentials are to be multiplied with.
  [[nodiscard]] __device__ T kept_factor() const { return kept_factor_; }

  /// What store writes in place of part `part` of vector j: value(element), or value(what was kept
  /// of it), of each.
  template <bool kept, class Out, class Value>
  [[nodiscard]] __device__ block16 values(int j, int part, const Value& value) const {
    constexpr int each = vector_width<Out>;
    return packed<Out>([&](int i) {
      const int at = part * each + i;
      return value(kept ? kept_[j * width + at] : element(j, at));
    });
  }

  /// Writes result(j, part), a vector of results, for each vector of the range, which has
  /// width / vector_width<Out> parts; `to` corresponds to the range's base, in global memory if
  /// `global`, else in any.
  template <bool global, class Out, class Result>
  __device__ void store(Out* to, const Result& result) const {
    constexpr int each = vector_width<Out>;
    constexpr int parts = width / each;
    const int size = range_.size();
    const int end_whole = range_.end_whole();
    const bool aligned = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
    const auto singly = [&](int j, int part, const block16& values) {
      const int at = number(j) * width + part * each;
      store_singly(to + at, values, range_.head - at, range_.end - at);
    };
    // In shared memory by a loop of its own: a branch at each vector is slower. The tiles of long
    // rows would have too few registers for such a loop.
    if (!global && !aligned) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          if (number(j) < size) {
            singly(j, part, result(j, part));
          }
        }
      }
      return;
    }
    auto* whole = reinterpret_cast<block16*>(to) + first_ * parts;
    forget_origin(whole);  // one addition a vector, not a base's and an index's conversion
    block16 last[parts];
    bool has_last = false;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int v = number(j);
      if (v >= size) {
        continue;
      }
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        last[part] = result(j, part);
      }
      if (global && !aligned) {
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          singly(j, part, last[part]);
        }
      } else if (j == 0 && v * width < range_.head) {
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          const int at = v * width + part * each;
          store_elements(to + at, last[part], range_.head - at, range_.end - at);
        }
      } else if (v < end_whole) {
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          block16* const at = whole + static_cast<unsigned>(j * step_ * parts + part);
          if constexpr (global) {
            store_vector(at, last[part]);
          } else {
            *at = last[part];
          }
        }
      } else {
        has_last = true;
      }
    }
    if (has_last) {  // it is the thread's last vector
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        store_elements(to + end_whole * width + part * each, last[part], 0,
                       range_.tail() - part * each);
      }
    }
  }

 private:
  __device__ void mask_edges() {
    if (first_ * width < range_.head) {
      mask_head(vectors_[0], range_, first_);
    }
    if (range_.tail() > 0) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (number(j) == range_.end_whole()) {
          mask_tail(vectors_[j], range_, number(j));
        }
      }
    }
  }

  __device__ static block16 negated(block16 v) {
    constexpr block16 minus_zero =
        sizeof(In) == 8   ? block16{{0, 1U << 31, 0, 1U << 31}}
        : sizeof(In) == 4 ? block16{{1U << 31, 1U << 31, 1U << 31, 1U << 31}}
                          : block16{{0x80008000U, 0x80008000U, 0x80008000U, 0x80008000U}};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      v.words[w] ^= minus_zero.words[w];
    }
    return v;
  }
  __device__ static block16 zeroed(block16 v) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      if (element_of<In>(v, i) > -infinity<T>) {
        set_element<In>(v, i, In{});
      }
    }
    return v;
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
  T kept_[keeps ? V * width : 1];
  T kept_factor_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

// SPDX-License-Identifier: Apache-2.0
/// \file
/// A thread's share of a range of a row, in registers, and its way from and to memory: of vectors
/// that lie partly outside the range only the range's elements are written.
#pragma once

#include <gpu/row/vector_range.hpp>
#include <gpu/state/scaling.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// V vectors of a thread, number first + j * step for j in [0, V). `plain`: the range is whole
/// vectors, so is what is written, and no element is mapped. Then there is nothing to mask, and the
/// code is a third as long, most of it in one piece: a call whose caches are cold waits for its
/// code as it does for its elements.
template <class In, int V, bool plain = false, outside beyond = outside::minus_infinity>
class tile {
 public:
  using T = arithmetic_t<In>;
  static constexpr int width = vector_width<In>;
  /// Whether there are registers for the exponentials of all elements.
  static constexpr bool keeps = V * width * sizeof(T) <= 128;

  __device__ tile(const vector_range<In>& range, int first, int step)
      : range_(range), first_(first), step_(step) {}

  /// Reads the vectors; elements outside the range are what counts as outside. A row's first and
  /// last vector may also hold elements of its neighbours: they are read along with it and masked,
  /// once all reads are on their way. `once`: see load_vector of the device.
  template <bool once = false>
  __device__ void load() {
    const int size = range_.size();
    const auto* from = reinterpret_cast<const block16*>(range_.base) + first_;
    forget_origin(from);  // one addition a vector, not a base's and an index's conversion
#pragma unroll
    for (int j = 0; j < V; ++j) {
      vectors_[j] = outside_elements<In, beyond>();
    }
    if (plain || range_.readable()) {
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
                            : load_elements<beyond>(range_, number(j));
        }
      }
    }
    mask_edges();
  }

  /// The same of a range whose base is no multiple of 16 bytes, by words of 4 bytes; of 16-bit
  /// elements a vector may begin within one.
  __device__ void load_by_words() {
    const int size = range_.size();
    const bool halves = sizeof(In) == 2 && reinterpret_cast<std::uintptr_t>(range_.base) % 4 != 0;
    const In* const begin = range_.base - (halves ? 1 : 0);
    const In* const end = range_.base + size * width + (halves ? 1 : 0);
    // The vectors that are whole in the matrix: not its last, nor its first, and that before it.
    const In* const matrix = range_.memory.begin;
    const int from = begin >= matrix ? 0 : begin + width >= matrix ? 1 : 2;
    const int until = end <= range_.memory.end ? size : size - 1;
    const auto* words = reinterpret_cast<const std::uint32_t*>(begin) + first_ * 4;
    forget_origin(words);
    std::uint32_t beyond_vector[V];
#pragma unroll
    for (int j = 0; j < V; ++j) {
      vectors_[j] = outside_elements<In, beyond>();
      beyond_vector[j] = 0;
      if (number(j) >= from && number(j) < until) {
        const std::uint32_t* const vector = words + static_cast<unsigned>(j * step_ * 4);
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          vectors_[j].words[w] = load_word(vector + w);
        }
        if (halves) {
          beyond_vector[j] = load_word(vector + 4);
        }
      }
    }
    if (halves) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const std::uint32_t next = w < 3 ? vectors_[j].words[w + 1] : beyond_vector[j];
          vectors_[j].words[w] = vectors_[j].words[w] >> 16 | next << 16;
        }
      }
    }
    if (first_ < from && first_ < size) {
      vectors_[0] = load_elements<beyond>(range_, first_);
    }
    if (until < size) {
      const block16 last = load_elements<beyond>(range_, size - 1);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (number(j) == size - 1) {
          vectors_[j] = last;
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

  /// The same as load, by all lanes of a warp, and quicker if all their vectors are inside (of a
  /// plain range it is load). Lanes that went different ways would wait for memory one after the
  /// other. `known_step`: the compiler
  /// knows the distance of the vectors, and puts it into the loads.
  template <bool once = false, bool known_step = false>
  __device__ void load_long() {
    if (!plain && ballot(!is_inside()) == 0) {
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
      vectors_[j] = v < size ? copy[v] : outside_elements<In, beyond>();
    }
    mask_edges();
  }

  /// The same of a range whose base is `shift` bytes behind the copy's first.
  __device__ void load(const block16* copy, int shift) {
    const int size = range_.size();
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int v = number(j);
      vectors_[j] = v < size ? joined(copy[v], copy[v + 1], shift) : outside_elements<In, beyond>();
    }
    mask_edges();
  }

  [[nodiscard]] __device__ T element(int j, int i) const { return element_of<In>(vectors_[j], i); }
  [[nodiscard]] __device__ int number(int j) const { return first_ + j * step_; }
  [[nodiscard]] __device__ const block16& vector(int j) const { return vectors_[j]; }

  /// To be called between two passes over the elements: the vectors' numbers are computed again in
  /// the next, so that they take no registers in between.
  __device__ void next_pass() { forget_origin(first_); }

  /// The same for all that was computed of the elements.
  __device__ void forget() {
    next_pass();
#pragma unroll
    for (int j = 0; j < V; ++j) {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        forget_origin(vectors_[j].words[w]);
      }
    }
  }

  /// Maps the elements of the range; those outside it stay -infinity.
  __device__ void apply(element_map map) {
    if (plain || map == element_map::none) {
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
  /// `global`, else in any. `edges_singly`: vectors that lie partly outside are written element by
  /// element, so that nothing is held for them.
  template <bool global, bool edges_singly = false, class Out, class Result>
  __device__ void store(Out* to, const Result& result) const {
    constexpr int each = vector_width<Out>;
    constexpr int parts = width / each;
    const int size = range_.size();
    const int end_whole = range_.end_whole();
    const bool aligned = plain || reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
    const auto singly = [&](int j, int part, const block16& values) {
      const int at = number(j) * width + part * each;
      store_singly(to + at, values, range_.head - at, range_.end - at);
    };
    auto* whole = reinterpret_cast<block16*>(to) + first_ * parts;
    forget_origin(whole);  // one addition a vector, not a base's and an index's conversion
    const auto store_whole = [&](int j, const block16(&values)[parts]) {
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        block16* const at = whole + static_cast<unsigned>(j * step_ * parts + part);
        if constexpr (global) {
          store_vector(at, values[part]);
        } else {
          *at = values[part];
        }
      }
    };
    if constexpr (edges_singly && !plain) {
      const int stored_whole = aligned ? end_whole : 0;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const int v = number(j);
        if (v >= size) {
          continue;
        }
        block16 values[parts];
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          values[part] = result(j, part);
        }
        if (v < stored_whole && (j > 0 || v * width >= range_.head)) {
          store_whole(j, values);
        } else {
#pragma unroll
          for (int part = 0; part < parts; ++part) {
            singly(j, part, values[part]);
          }
        }
      }
      return;
    }
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
      } else if (!plain && j == 0 && v * width < range_.head) {
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          const int at = v * width + part * each;
          store_elements(to + at, last[part], range_.head - at, range_.end - at);
        }
      } else if (plain || v < end_whole) {
        store_whole(j, last);
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
    if (plain) {
      return;
    }
    if (first_ * width < range_.head) {
      mask_head<beyond>(vectors_[0], range_, first_);
    }
    if (range_.tail() > 0) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (number(j) == range_.end_whole()) {
          mask_tail<beyond>(vectors_[j], range_, number(j));
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

 protected:
  vector_range<In> range_;
  int first_;
  int step_;
  block16 vectors_[V];

 private:
  T kept_[keeps ? V * width : 1];
  T kept_factor_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

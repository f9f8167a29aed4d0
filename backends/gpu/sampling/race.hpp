// SPDX-License-Identifier: Apache-2.0
/// \file
/// The race of a row's elements in f32 arithmetic: 16 random bits of an element bound its key, and
/// the few elements that can still win are computed as docs/sampling.md says.
#pragma once

#include <gpu/row/vector_elements.hpp>
#include <gpu/sampling/row_reader.hpp>

#include <core/sample_problem.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Loads of a thread that are under way: so many times race_columns elements.
template <class In>
constexpr int race_ahead = sizeof(In) == 4 ? 2 : 4;

/// A row in which a NaN stands has a runner of this column, which beats all others.
constexpr std::int64_t nan_column = -1;

/// What a row is whose best runner is this one.
__device__ inline core::sampling::row_kind kind_of(const core::sampling::runner& best) {
  using core::sampling::row_kind;
  return best.column == nan_column                             ? row_kind::nan
         : best.column == core::sampling::runner{}.column      ? row_kind::empty
         : best.key == std::numeric_limits<double>::infinity() ? row_kind::infinite
                                                               : row_kind::ordinary;
}

/// What a block's threads share.
template <int threads>
struct race_memory {
  double keys[threads];
  std::int64_t columns[threads];
  std::uint32_t best;  ///< the order key of a number that is no larger than the best key
  std::uint32_t top;   ///< and of the largest element
};

/// The best of the block's threads' runners; to thread 0.
__device__ inline core::sampling::runner best_of_block(const core::sampling::runner& own,
                                                       double* keys, std::int64_t* columns) {
  const auto thread = static_cast<int>(threadIdx.x);
  core::sampling::runner best = own;
  keys[thread] = own.key;
  columns[thread] = own.column;
  for (int n = static_cast<int>(blockDim.x); n > 1;) {
    const int half = (n + 1) / 2;
    __syncthreads();
    if (thread + half < n) {
      const core::sampling::runner other = {keys[thread + half], columns[thread + half]};
      if (other.beats(best)) {
        best = other;
        keys[thread] = best.key;
        columns[thread] = best.column;
      }
    }
    n = half;
  }
  return best;
}

/// Which elements of a row may win.
struct race_limits {
  float x = 0;  ///< those that stand before this element, unless its column is negative
  std::int64_t column = -1;
  double largest = 0;
  double depth = std::numeric_limits<double>::infinity();  ///< those so far below the largest z

  [[nodiscard]] __device__ bool allow(float element, std::int64_t at, double z) const {
    const bool before = column < 0 || element > x || (element == x && at < column);
    return before && largest - z <= depth;
  }
};

/// `limited`: only some elements may win.
template <class In, bool limited, class Reader = row_reader<In>>
struct race {
  // Beyond, the bound in f32 is no use.
  static constexpr float most_bound = 1e30F;
  static constexpr float log2_e = 1.44269504F;

  Reader row;
  core::sampling::noise noise;
  double scale;
  float scale_2;              ///< the scale times log2 e
  bool noisy;                 ///< else the largest element wins
  const race_limits* limits;  ///< of all threads, or null

  /// A row with parameters in range.
  __device__ static race of(const Reader& row, const core::sampling::parameters& p,
                            std::int64_t draw, const race_limits* limits = nullptr) {
    const bool noisy = p.temperature != 0;
    const double scale = noisy ? core::sampling::scale_of<float>(p.temperature) : 1;
    return {row,   {p.seed, p.offset, static_cast<std::uint32_t>(draw)},
            scale, static_cast<float>(scale) * log2_e,
            noisy, limits};
  }

  /// +infinity stays it, whatever the scale: kind_of reads it from the key.
  [[nodiscard]] __device__ double z_of(float element) const {
    return noisy && element < infinity<float>
               ? core::sampling::scaled(scale, static_cast<double>(element))
               : static_cast<double>(element);
  }
  [[nodiscard]] __device__ bool allows(float element, std::int64_t column) const {
    return !limited || limits->allow(element, column, z_of(element));
  }
  [[nodiscard]] __device__ core::philox_words words_of(std::int64_t first) const {
    return core::sampling::first_words(noise, static_cast<std::uint64_t>(first / race_columns));
  }
  /// The random bits of element i of a block as 1 + u, u the largest multiple of 2^-16 that is not
  /// above the element's number.
  __device__ static float one_and_bits(const core::philox_words& words, int i) {
    const std::uint32_t word = i < 4 ? (i < 2 ? words.a : words.b) : (i < 6 ? words.c : words.d);
    return __uint_as_float(0x3f800000U |
                           ((i % 2 == 0 ? word << 7 : word >> 9) & std::uint32_t{0x7fff80}));
  }
  /// What f32 arithmetic may be wrong by near a key of that size, in units of log 2, generously.
  __device__ static float slack(float key_2) { return 0x1p-10F + 0x1p-20F * fabsf(key_2); }

  /// A number that the largest key of these elements is not below, times log2 e.
  __device__ float bound(std::int64_t first, const float (&elements)[race_columns]) const {
    const core::philox_words words = words_of(first);
    float best = -infinity<float>;
#pragma unroll
    for (int i = 0; i < race_columns; ++i) {
      float key = elements[i] * scale_2;
      if (noisy) {
        // E <= u / (1 - u) for the u above.
        const float u = (one_and_bits(words, i) - 1) + 0x1p-16F;
        key -= log2f(u / (1 - u));
      }
      best = allows(elements[i], first + i) ? fmaxf(best, key) : best;  // no NaN
    }
    return best < most_bound ? best - 2 * slack(best) : -infinity<float>;
  }

  /// Whether an element may win against `best`, a number as bound() gives, by what f32 tells:
  /// z - log E >= best, and E >= u, so exp(z - best) >= u. NaN may.
  __device__ bool may_win(float element, const core::philox_words& words, int i, float best) const {
    return noisy ? !(1 + fast_exp2(fmaf(element, scale_2, slack(best) - best)) <
                     one_and_bits(words, i))
                 : !(element * scale_2 < best);
  }
  __device__ bool has_candidate(std::int64_t first, const float (&elements)[race_columns],
                                float best) const {
    const core::philox_words words = words_of(first);
    bool any = false;
#pragma unroll
    for (int i = 0; i < race_columns; ++i) {
      any |= may_win(elements[i], words, i, best);
    }
    return any;
  }

  /// Computes the candidates' keys.
  __device__ void look(std::int64_t first, float best, core::sampling::runner& own) const {
    namespace sampling = core::sampling;
    constexpr double infinite = std::numeric_limits<double>::infinity();
    const core::philox_words words = words_of(first);
#pragma unroll 1
    for (int i = 0; i < race_columns && first + i < row.cols; ++i) {
      const float element = row.element(first + i);
      if (!may_win(element, words, i, best)) {
        continue;
      }
      const double z = z_of(element);
      sampling::runner other = {z, first + i};
      if (element != element) {
        other = {infinite, nan_column};
      } else if (!(z > -infinite) || !allows(element, first + i)) {
        continue;
      } else if (noisy && z < infinite) {
        other.key = sampling::key_of(
            z, sampling::all_bits(noise, first + i, sampling::first_bits(words, i)));
      }
      if (other.beats(own)) {
        own = other;
      }
    }
  }

  /// The best runner of columns [begin, end), begin a multiple of race_columns, found by the whole
  /// block; to thread 0. If `tops`, memory.top is the largest element then.
  template <bool tops, int ahead = race_ahead<In>, int threads>
  __device__ core::sampling::runner run(std::int64_t begin, std::int64_t end,
                                        race_memory<threads>& memory) const {
    constexpr std::int64_t step = threads * race_columns;
    float elements[ahead][race_columns];
    std::int64_t first = begin + std::int64_t{threadIdx.x} * race_columns;
    __syncthreads();
    if (threadIdx.x == 0) {
      memory.best = order_key(-infinity<float>);
      memory.top = order_key(-infinity<float>);
    }
    __syncthreads();
    if (first < end) {
      row.load(first, elements[0]);
      atomicMax(&memory.best, order_key(bound(first, elements[0])));
    }
    __syncthreads();
    core::sampling::runner own;
    float top = -infinity<float>;
    for (; first < end; first += ahead * step) {
      row.load(first, step, elements);
      const float best =
          core::value_of_key<float>(*static_cast<volatile std::uint32_t*>(&memory.best));
      unsigned candidates = 0;
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        candidates |= has_candidate(first + a * step, elements[a], best) ? 1U << a : 0U;
        if constexpr (tops) {
#pragma unroll
          for (int i = 0; i < race_columns; ++i) {
            top = fmaxf(top, elements[a][i]);
          }
        }
      }
      while (candidates != 0) {
        const int a = lowest_bit(candidates);
        candidates &= candidates - 1;
        if (first + a * step >= end) {
          break;
        }
        const double before = own.key;
        look(first + a * step, best, own);
        const float key = static_cast<float>(own.key) * log2_e;
        if (own.key > before && fabsf(key) < most_bound) {
          atomicMax(&memory.best, order_key(key - slack(key)));
        }
      }
    }
    if constexpr (tops) {
      atomicMax(&memory.top, order_key(top));
    }
    return best_of_block(own, memory.keys, memory.columns);
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

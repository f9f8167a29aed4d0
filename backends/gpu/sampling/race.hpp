// SPDX-License-Identifier: Apache-2.0
/// \file
/// The race of a row's elements in f32 arithmetic. The largest of a block's eight elements and the
/// least of their 16-bit numbers bound its keys; the few elements that can still win get a key in
/// f32, and those of them that f32 cannot tell apart the one of docs/sampling.md.
#pragma once

#include <gpu/row/row_reader.hpp>
#include <gpu/row/vector_elements.hpp>

#include <core/sample_problem.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

static_assert(block_columns == core::sampling::block_tokens);  // they share a block of noise

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

/// What a race finds in a part of a row: of its columns the best runner's, or few one of which is.
struct race_part {
  static constexpr int most = 4;
  /// Instead of a number of columns: any may be it.
  static constexpr int unknown = 1 << 20;

  std::uint32_t best;  ///< order key of a number that the best key times log2 e is not below
  std::uint32_t top;   ///< order key of the largest element
  std::uint32_t nan;   ///< whether there is one
  int count;           ///< of columns
  std::int64_t columns[most];

  [[nodiscard]] __device__ float bound() const { return core::value_of_key<float>(best); }
  /// Whether it may have the best runner of a row: against a part's `best` with slack().
  [[nodiscard]] __device__ bool may_beat(float other) const {
    return bound() + 4 * slack_of(bound()) >= other;
  }
  /// Whether elements race; none is listed where the bound's element fell behind the limits.
  [[nodiscard]] __device__ bool has_runner() const {
    return count > 0 || bound() > -infinity<float>;
  }
  /// Whether it may have the best runner of a row with that `best`.
  [[nodiscard]] __device__ bool may_have_best(float other) const {
    return count >= unknown || (has_runner() && may_beat(other));
  }
  /// What f32 arithmetic may be wrong by near a key of that size: four times the bound. Its scaled
  /// logit, not further from 0 than the key and 65, is rounded three times; log2 E is wrong by
  /// 2^-16 at most, where E is smallest. Keys that are nearer than that take a slower way.
  __device__ static float slack_of(float key_2) { return 0x1p-13F + 0x1p-20F * fabsf(key_2); }
};

/// Which elements of a row may win.
struct race_limits {
  float x = 0;  ///< those that stand before this element, unless its column is negative
  std::int64_t column = -1;
  double depth = std::numeric_limits<double>::infinity();  ///< those so far below the largest z
};

/// The first 16 bits of a row's numbers, as core::sampling::first_words, without what no block of
/// noise changes in the first two rounds.
class first_noise {
 public:
  __device__ explicit first_noise(const core::sampling::noise& n) {
    const auto counter = core::sampling::counter_of(n, 0, 0);
    auto low = static_cast<std::uint32_t>(n.seed);
    auto high = static_cast<std::uint32_t>(n.seed >> 32);
    const std::uint64_t of_offset = std::uint64_t{core::philox::multiplier_c} * counter.c;
    const std::uint64_t second = std::uint64_t{core::philox::multiplier_a} *
                                 (static_cast<std::uint32_t>(of_offset >> 32) ^ counter.b ^ low);
    keys_[0] = counter.d ^ high;
    advance(low, high);
    keys_[1] = static_cast<std::uint32_t>(of_offset) ^ low;
    keys_[2] = static_cast<std::uint32_t>(second >> 32) ^ high;
    advance(low, high);
    keys_[3] = low;
    keys_[4] = static_cast<std::uint32_t>(second) ^ high;
#pragma unroll
    for (int i = 5; i < count; i += 2) {
      advance(low, high);
      keys_[i] = low;
      keys_[i + 1] = high;
    }
#pragma unroll
    for (std::uint32_t& key : keys_) {
      forget_origin(key);
    }
  }
  [[nodiscard]] __device__ core::philox_words of_block(std::uint32_t number) const {
    const std::uint64_t first = product(core::philox::multiplier_a, number);
    const std::uint64_t second =
        product(core::philox::multiplier_c, static_cast<std::uint32_t>(first >> 32) ^ keys_[0]);
    core::philox_words w = {static_cast<std::uint32_t>(second >> 32) ^ keys_[1],
                            static_cast<std::uint32_t>(second),
                            static_cast<std::uint32_t>(first) ^ keys_[2], 0};
#pragma unroll
    for (int i = 3; i < count; i += 2) {
      const std::uint64_t of_a = product(core::philox::multiplier_a, w.a);
      const std::uint64_t of_c = product(core::philox::multiplier_c, w.c);
      w = {static_cast<std::uint32_t>(of_c >> 32) ^ w.b ^ keys_[i],
           static_cast<std::uint32_t>(of_c),
           static_cast<std::uint32_t>(of_a >> 32) ^ w.d ^ keys_[i + 1],
           static_cast<std::uint32_t>(of_a)};
    }
    return w;
  }

 private:
  static constexpr int count = 13;

  __device__ static void advance(std::uint32_t& low, std::uint32_t& high) {
    low += core::philox::step_low;
    high += core::philox::step_high;
  }
  __device__ static std::uint64_t product(std::uint32_t a, std::uint32_t b) {
    return wide_product(a, b);
  }

  std::uint32_t keys_[count];
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
  float scale_2;  ///< the scale times log2 e, 1 without noise
  bool noisy;     ///< else the largest element wins
  race_limits limits;

  /// A row with parameters in range.
  __device__ static race of(const Reader& row, const core::sampling::parameters& p,
                            std::int64_t draw, const race_limits& limits = {}) {
    const bool noisy = p.temperature != 0;
    const double scale = noisy ? core::sampling::scale_of<float>(p.temperature) : 1;
    return {row,   {p.seed, p.offset, static_cast<std::uint32_t>(draw)},
            scale, noisy ? static_cast<float>(scale) * log2_e : 1,
            noisy, limits};
  }

  /// +infinity stays it, whatever the scale: kind_of reads it from the key.
  [[nodiscard]] __device__ double z_of(float element) const {
    return noisy && element < infinity<float>
               ? core::sampling::scaled(scale, static_cast<double>(element))
               : static_cast<double>(element);
  }

  /// How far below the largest element one may be that wins, infinity if the depth limits nothing.
  [[nodiscard]] __device__ float most_below() const {
    return limited && limits.depth < std::numeric_limits<double>::infinity() && scale > 0
               ? static_cast<float>(limits.depth / scale)
               : infinity<float>;
  }
  /// A number that elements which may win are not below, given one that the largest is not below.
  [[nodiscard]] __device__ float least(float top, float below) const {
    constexpr float none = -std::numeric_limits<float>::max();
    if constexpr (!limited) {
      return none;
    }
    const float by_depth = fmaxf(top - below - (fabsf(top) + below) * 0x1p-20F, none);  // no NaN
    return limits.column < 0 ? by_depth : fmaxf(by_depth, limits.x);
  }
  /// Whether the limits let an element that is not below least() win, but for the depth.
  [[nodiscard]] __device__ bool allows(float element, std::int64_t column) const {
    return !limited || limits.column < 0 || element > limits.x ||
           (element == limits.x && column < limits.column);
  }

  // ---- Bounds. Keys are in units of log 2.

  [[nodiscard]] __device__ float slack(float key_2) const {
    return noisy ? race_part::slack_of(key_2) : 0;
  }
  /// A 16-bit number n, in the lower half of a word, as 2^23 + n.
  __device__ static float raised(std::uint32_t n) { return __uint_as_float(0x4b000000U | n); }

  /// An element wins against `best`, a number as a part's, only if its 16-bit number is not above
  /// most_raised(element, slack(best) + 16 - best), as raised() gives it: z - log E >= best, and
  /// E >= u, so u <= exp(z - best).
  [[nodiscard]] __device__ float most_raised(float element, float from_best) const {
    return fast_exp2(fmaf(element, scale_2, from_best)) + 0x1p23F;
  }
  /// The least of a block's 16-bit numbers.
  __device__ static std::uint32_t least_bits(const core::philox_words& words) {
    const std::uint32_t pair =
        min_of_pairs(min_of_pairs(words.a, words.b), min_of_pairs(words.c, words.d));
    return min_of_pairs(pair, pair >> 16) & 0xffffU;
  }

  /// A number that the key of the block's largest element is not below, if that element is above
  /// `least`.
  __device__ float bound(const first_noise& numbers, std::uint32_t number,
                         const column_block<In>& block, float least) const {
    float largest = block.element(0);
    int place = 0;
#pragma unroll
    for (int i = 1; i < block_columns; ++i) {
      const float element = block.element(i);
      place = element > largest ? i : place;
      largest = element > largest ? element : largest;
    }
    // E <= u + u^2 where u is not above 1/2; E < 46 always.
    const std::uint32_t bits = core::sampling::first_bits(numbers.of_block(number), place);
    const float u = (raised(bits + 1) - 0x1p23F) * 0x1p-16F;
    float key = fmaf(largest, scale_2, -fast_log2(u <= 0.5F ? fmaf(u, u, u) : 46.0F));
    key -= 2 * slack(key);
    const bool counts =
        largest > least && allows(largest, std::int64_t{number} * block_columns + place);
    return counts && fabsf(key) < most_bound ? key : -infinity<float>;
  }

  // ---- Runners.

  /// A thread's best runner by f32 keys.
  struct runner {
    float key = -infinity<float>;
    std::int64_t column = -1;
    bool alone = true;  ///< no other has a key that is as good as f32 can tell
  };

  /// log2 E for a token's 64 bits, within slack() of any number near it.
  __device__ static float log2_exponential(std::uint64_t bits) {
    constexpr float ln_2 = 0.693147182F;
    const float u = (static_cast<float>(bits) + 0.5F) * 0x1p-64F;
    const float v = (static_cast<float>(~bits) + 0.5F) * 0x1p-64F;  // 1 - u
    // -log(1 - u) by its series, or by a logarithm that is far enough from 0.
    const float series = fmaf(u * u, fmaf(u, fmaf(u, 0.25F, 1.0F / 3), 0.5F), u);
    return fast_log2(u < 0x1p-5F ? series : fast_log2(v) * -ln_2);
  }

  /// Computes the key of a column that may win.
  __device__ void look(const first_noise& numbers, std::int64_t column, float best, float from_best,
                       float least, runner& own, race_part& part) const {
    const float element = row.element(column);
    const std::uint32_t bits = core::sampling::first_bits(
        numbers.of_block(static_cast<std::uint32_t>(column / block_columns)),
        static_cast<int>(column % block_columns));
    if (!(element >= least) || most_raised(element, from_best) < raised(bits) ||
        !allows(element, column)) {
      return;
    }
    const float key =
        element * scale_2 - log2_exponential(core::sampling::all_bits(noise, column, bits));
    if (!(fabsf(key) < most_bound)) {
      atomicMax(&part.count, race_part::unknown);  // a sum of many would overflow
      return;
    }
    const float near = 2 * slack(key);
    if (key > own.key + near) {
      own = {key, column, true};
    } else if (key >= own.key - near) {
      own = {fmaxf(key, own.key), column, false};
    }
    if (key - near / 2 > best) {
      atomicMax(&part.best, order_key(key - near / 2));
    }
  }

  /// Columns [begin, end), begin a multiple of block_columns, by a block of reader_threads threads;
  /// `part`, in shared memory, is there for all when they have synchronized. `known`: an element of
  /// the row, the larger the better for a race that is limited by depth. also(blocks) is called
  /// with all that is read, once.
  template <int lanes, int ahead = reader_ahead<In>, class Also>
  __device__ void run(std::int64_t begin, std::int64_t end, race_part& part, float known,
                      const Also& also) const {
    constexpr int step = reader_threads * block_columns;
    const auto now = [](const std::uint32_t& shared) {
      return core::value_of_key<float>(*static_cast<const volatile std::uint32_t*>(&shared));
    };
    const auto raise = [](std::uint32_t& shared, float to) {
      const std::uint32_t key = max_over_warp<lanes>(order_key(to));
      if (threadIdx.x % lanes == 0) {
        atomicMax(&shared, key);
      }
    };
    column_block<In> blocks[ahead];
    row.template load<step>(begin, blocks);
    __syncthreads();
    if (threadIdx.x == 0) {
      part.best = order_key(-infinity<float>);
      part.top = order_key(known);
      part.count = 0;
      part.nan = 0;
    }
    __syncthreads();
    const first_noise numbers(noise);
    const float below = most_below();
    auto number = static_cast<std::uint32_t>(begin / block_columns) + threadIdx.x;
    float top = -infinity<float>;
    if (noisy) {
      float floor = -infinity<float>;
      if constexpr (limited) {
#pragma unroll
        for (int a = 0; a < ahead; ++a) {
          top = fmaxf(top, blocks[a].largest());
        }
        raise(part.top, top);
        __syncthreads();
        floor = least(now(part.top), below / 2);  // they still may when the largest has grown
      }
      float best = -infinity<float>;
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        best = fmaxf(best, bound(numbers, number + a * reader_threads, blocks[a], floor));
      }
      raise(part.best, best);
      __syncthreads();
    }

    runner own;
    for (std::int64_t first = begin; first < end || first == begin;) {
      const float best = now(part.best);
      const float from_best = slack(best) + 16 - best;
      const float lowest = least(limited ? now(part.top) : 0, below);
      float largest[ahead];
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        largest[a] = blocks[a].largest();
        top = max_or_nan(top, largest[a]);
      }
      also(blocks);
      // That is all that is asked of most blocks; the next ones come meanwhile.
      first += ahead * step;
      if (first < end) {
        row.template load<step>(first, blocks);
      }
      unsigned candidates = 0;
      if (noisy) {
#pragma unroll
        for (int a = 0; a < ahead; ++a) {
          if (!limited || largest[a] >= lowest) {
            const std::uint32_t bits = least_bits(numbers.of_block(number + a * reader_threads));
            candidates |= most_raised(largest[a], from_best) >= raised(bits) ? 1U << a : 0U;
          }
        }
      } else {
#pragma unroll
        for (int a = 0; a < ahead; ++a) {
          if (largest[a] > own.key) {
            own = {largest[a], std::int64_t{number + a * reader_threads} * block_columns, true};
          }
        }
      }
      // Blocks of candidates are looked at by as many lanes as they have columns.
      while (true) {
        const lane_mask waiting = ballot(candidates != 0);
        if (waiting == 0) {
          break;
        }
        const std::uint32_t next =
            number + static_cast<std::uint32_t>(lowest_bit(candidates | 1U << 31)) * reader_threads;
        lane_mask left = waiting;
        for (auto i = static_cast<int>(threadIdx.x % lanes) / block_columns; i > 0; --i) {
          left &= left - 1;
        }
        const std::uint32_t looked = shuffle(next, left != 0 ? count((left & (~left + 1)) - 1) : 0);
        const std::int64_t column =
            std::int64_t{looked} * block_columns + threadIdx.x % block_columns;
        if (left != 0 && column < row.cols) {
          look(numbers, column, best, from_best, lowest, own, part);
        }
        if (count(waiting & lanes_below()) < lanes / block_columns) {
          candidates &= candidates - 1;
        }
      }
      if constexpr (limited) {
        if (top > now(part.top)) {
          atomicMax(&part.top, order_key(top));
        }
      }
      number += ahead * reader_threads;
    }
    if (top != top) {
      atomicMax(&part.nan, std::uint32_t{1});
    } else if (noisy && top == infinity<float>) {
      atomicAdd(&part.count, race_part::unknown);
    }
    raise(part.top, top);
    if (!noisy) {
      raise(part.best, own.key);
    }
    __syncthreads();
    if (own.column >= 0 && own.key + slack(own.key) >= now(part.best)) {
      if (!noisy) {
        while (!(row.element(own.column) == own.key)) {
          ++own.column;
        }
      }
      const int place = atomicAdd(&part.count, own.alone ? 1 : race_part::unknown);
      if (place < race_part::most) {
        part.columns[place] = own.column;
      }
    }
  }

  /// A column's runner against a better one; it may not beat `best`, a number as a part's.
  __device__ void compare_exactly(std::int64_t column, float best,
                                  core::sampling::runner& better) const {
    namespace sampling = core::sampling;
    constexpr double infinite = std::numeric_limits<double>::infinity();
    const float element = row.element(column);
    const std::uint32_t bits = sampling::first_bits(
        sampling::first_words(noise, static_cast<std::uint32_t>(column / block_columns)),
        static_cast<int>(column % block_columns));
    const double z = z_of(element);
    const bool may_win = !noisy || !(most_raised(element, slack(best) + 16 - best) < raised(bits));
    if (z > -infinite && allows(element, column) && may_win) {
      const double key =
          noisy && z < infinite ? sampling::key_of(z, sampling::all_bits(noise, column, bits)) : z;
      if (key > better.key || (key == better.key && column < better.column)) {
        better.key = key;
        better.column = column;
      }
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

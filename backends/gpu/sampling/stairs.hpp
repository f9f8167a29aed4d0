// SPDX-License-Identifier: Apache-2.0
/// \file
/// The stairs of a race: the elements whose keys are above those of all elements before them in the
/// order. Filters keep a first part of the order, so whatever they cut, the token is one of these.
/// One read finds those of a part of a row, and counts the elements of each narrow range of values,
/// which bounds the masses that tell where the cut is.
#pragma once

#include <gpu/sampling/race.hpp>
#include <gpu/sampling/stair_window.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

struct stair {
  float key;  ///< times log2 e, about
  float x;
  std::int64_t column;
};

/// What the read of a part of a row finds.
struct stair_part {
  static constexpr int most = 20;
  enum flag : std::uint32_t {
    nan = 1,     ///< there is one
    lost = 2,    ///< any of its elements may be a stair
    hides = 4,   ///< among elements of one bin, not all stairs are there
    beyond = 8,  ///< elements are above the window
  };

  float low;          ///< of its window
  std::uint32_t top;  ///< order key of the largest element
  std::uint32_t flags;
  int count;
  stair stairs[most];
};

/// What the threads of a block share while they find one.
template <bool counts>
struct stair_memory {
  static constexpr std::uint32_t most = 512;
  /// From so many on those that only stand before a better one of their bin are left out.
  static constexpr std::uint32_t many = 192;

  /// For a bin the order key of the best key of its elements and of those above it, in the upper
  /// half, and that element's bits.
  std::uint64_t best[stair_window::bins + 2];
  /// By counters, and what is above them; in the end a counted_sum's, with `least`.
  alignas(16) std::uint32_t counted[counts ? stair_window::most_counters + 1 : 1];
  union {
    stair listed[most];
    alignas(16) float least[counts ? stair_window::most_counters : 1];
  };
  /// Numbers of blocks of columns that are to be looked at: of each warp as many as it has lanes,
  /// and as it looks at together.
  std::uint32_t waiting[reader_threads + reader_threads / block_columns];
  float least_of_warps[reader_threads / 32];
  std::uint64_t best_of_warps[reader_threads / 32];
  std::uint32_t top_of_warps[reader_threads / 32];
  stair_window::places places[2];
  std::uint32_t count;
  std::uint32_t top;
  std::uint32_t lost;
  int kept;
};

/// The race of a part of a row. `counts`: elements, too.
template <int lanes, bool counts, class In>
class stair_race {
 public:
  using memory_type = stair_memory<counts>;

  /// `depth`: elements whose scaled logit is so far below the largest are not kept. `counters`:
  /// most_counters of the window, or as many as there are threads.
  __device__ stair_race(const race<In, false>& race, double depth, std::int64_t begin,
                        std::int64_t end, int counters, memory_type& memory)
      : race_(race),
        numbers_(race.noise),
        below_(race.scale > 0 ? static_cast<float>(depth / race.scale) : infinity<float>),
        begin_(begin),
        end_(end),
        counters_(counters),
        memory_(memory) {}

  /// `sums`: from each counter on, if `counts`; nothing if part.low is -infinity.
  __device__ void run(stair_part& part, counted_sum* sums) {
    const auto thread = static_cast<int>(threadIdx.x);
    column_block<In> blocks[ahead];
    std::int64_t first = begin_;
    race_.row.template load<step>(first, blocks);
    clear();
    if (thread < stair_part::most) {
      part.stairs[thread] = {};  // who looks for them reads all places
    }
    float top = top_of_block(top_of(blocks));
    // Many rows begin with elements that are not there.
    while (top == -infinity<float> && first + ahead * step < end_) {
      first += ahead * step;
      race_.row.template load<step>(first, blocks);
      __syncthreads();
      top = top_of_block(top_of(blocks));
    }
    const float top_2 = top * race_.scale_2;
    const bool usable = fabsf(top_2) < stair_window::most;
    const stair_window window =
        usable ? stair_window::below(top_2) : stair_window{-infinity<float>};
    const bool exists = top != -infinity<float>;
    if (usable) {
      places_ = window.of_scale(race_.scale_2);
      if (thread == 0) {
        memory_.top = order_key(top);
      }
      if (thread < 2) {
        memory_.places[thread] = places_;
      }
      seed(first, blocks);
      // From where the compiler does not see that all threads have the same: of registers that they
      // share an instruction takes one, so that each use of two would copy one.
      places_ = memory_.places[thread % 2];
      top = go(first, blocks);
      __syncthreads();
      top = top_of_block(top);
      keep(part);
    }
    __syncthreads();
    if (thread == 0) {
      const bool is_lost = memory_.lost != 0 || memory_.count > memory_type::most ||
                           memory_.kept > stair_part::most || (!usable && exists) ||
                           top == infinity<float>;
      std::uint32_t flags = (top != top ? stair_part::nan : 0U) |
                            (is_lost ? stair_part::lost : 0U) |
                            (memory_.count > memory_type::many ? stair_part::hides : 0U);
      if constexpr (counts) {
        flags |= memory_.counted[counters_] != 0 ? stair_part::beyond : 0U;
      }
      part.low = window.low;
      part.flags = flags;
      part.top = order_key(top != top ? -infinity<float> : top);
      part.count = is_lost ? 0 : memory_.kept;
    }
    if constexpr (counts) {
      if (usable && counters_ == stair_window::most_counters) {
        add_up_counters<lanes, stair_window::most_counters / reader_threads>(memory_, sums);
      } else if (usable) {
        add_up_counters<lanes, 1>(memory_, sums);
      }
    }
  }

 private:
  static constexpr int ahead = reader_ahead<In>;
  static constexpr int step = reader_threads * block_columns;

  __device__ static std::uint64_t pair_of(float key, float x) {
    return std::uint64_t{order_key(key)} << 32 | __float_as_uint(x);
  }
  __device__ void raise(std::uint32_t bin, std::uint64_t pair) {
    using word = unsigned long long;  // what the languages call 64 bits
    atomicMax(reinterpret_cast<word*>(&memory_.best[bin]), word{pair});
  }
  [[nodiscard]] __device__ std::uint64_t best_of(std::uint32_t bin) const {
    return *static_cast<const volatile std::uint64_t*>(&memory_.best[bin]);
  }
  __device__ static float key_of(std::uint64_t pair) {
    return core::value_of_key<float>(static_cast<std::uint32_t>(pair >> 32));
  }
  /// A key of which those below it are no stairs', of elements up to x.
  [[nodiscard]] __device__ float bar(float x, bool hides) const {
    const std::uint32_t bin = places_.bin(x);
    const std::uint64_t best = best_of(bin);
    const bool is_above = x > __uint_as_float(static_cast<std::uint32_t>(best));
    return key_of(is_above && !hides ? best_of(bin + 1) : best);
  }
  [[nodiscard]] __device__ bool may_reach(float x, float key, std::uint32_t bits) const {
    return race_.most_raised(x, race_.slack(key) + 16 - key) >= race<In, false>::raised(bits);
  }

  __device__ void clear() {
    const std::uint64_t none = pair_of(-infinity<float>, -infinity<float>);
    for (int i = static_cast<int>(threadIdx.x); i < stair_window::bins + 2; i += reader_threads) {
      memory_.best[i] = none;
    }
    if constexpr (counts) {
      for (int i = static_cast<int>(threadIdx.x); i <= counters_; i += reader_threads) {
        memory_.counted[i] = 0;
      }
    }
    if (threadIdx.x == 0) {
      memory_.count = 0;
      memory_.lost = 0;
      memory_.kept = 0;
    }
  }
  /// The largest of all threads' numbers, NaN if one is NaN.
  __device__ float top_of_block(float own) {
    const std::uint32_t key = max_over_warp<lanes>(order_key(own));
    if (threadIdx.x % lanes == 0) {
      memory_.top_of_warps[threadIdx.x / lanes] = key;
    }
    __syncthreads();
    std::uint32_t top = memory_.top_of_warps[0];
#pragma unroll
    for (int w = 1; w < reader_threads / lanes; ++w) {
      top = top < memory_.top_of_warps[w] ? memory_.top_of_warps[w] : top;
    }
    return core::value_of_key<float>(top);
  }
  __device__ static float top_of(const column_block<In> (&blocks)[ahead]) {
    float top = -infinity<float>;
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      top = max_or_nan(top, blocks[a].largest());
    }
    return top;
  }

  /// The first bars, of a block of each thread's: else nearly all elements would be looked at.
  __device__ void seed(std::int64_t first, const column_block<In> (&blocks)[ahead]) {
    const auto number = static_cast<std::uint32_t>(first / block_columns) + threadIdx.x;
    float key = -infinity<float>;
    float x = -infinity<float>;
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const float own = race_.bound(numbers_, number + a * reader_threads, blocks[a],
                                    -std::numeric_limits<float>::max());
      x = own > key ? blocks[a].largest() : x;
      key = own > key ? own : key;
    }
    if (key > -infinity<float>) {
      raise(places_.bin(x), pair_of(key, x));
    }
    __syncthreads();
    // A bin's best is that of the bins above it, too; a thread for each.
    static_assert(stair_window::bins == reader_threads);
    const auto thread = static_cast<int>(threadIdx.x);
    std::uint64_t best = memory_.best[thread];
    for (int distance = 1; distance < lanes; distance *= 2) {
      const int from = thread % lanes + distance;
      const std::uint64_t other = shuffle(best, from < lanes ? from : lanes - 1);
      best = best < other ? other : best;
    }
    if (thread % lanes == 0) {
      memory_.best_of_warps[thread / lanes] = best;
    }
    __syncthreads();
    for (int w = thread / lanes + 1; w < reader_threads / lanes; ++w) {
      best = best < memory_.best_of_warps[w] ? memory_.best_of_warps[w] : best;
    }
    best = best < memory_.best[stair_window::bins] ? memory_.best[stair_window::bins] : best;
    memory_.best[thread] = best;
    __syncthreads();
  }

  /// The largest of the thread's elements.
  __device__ float go(std::int64_t first, column_block<In> (&blocks)[ahead]) {
    auto number = static_cast<std::uint32_t>(first / block_columns) + threadIdx.x;
    float top = -infinity<float>;
    const auto counters = static_cast<float>(counters_);
    int waiting = 0;
    while (first < end_) {
      const bool hides = shared_word(memory_.count) > memory_type::many;
      const float least = least_kept();
      float largest[ahead];
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        largest[a] = blocks[a].largest();
        top = max_or_nan(top, largest[a]);
        if constexpr (counts) {
#pragma unroll
          for (int i = 0; i < block_columns; ++i) {
            atomicAdd(&memory_.counted[places_.counter(blocks[a].element(i), counters)], 1U);
          }
        }
      }
      first += ahead * step;
      if (first < end_) {
        race_.row.template load<step>(first, blocks);
      }
      unsigned candidates = 0;
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        if (largest[a] >= least) {
          const std::uint32_t bits =
              race<In, false>::least_bits(numbers_.of_block(number + a * reader_threads));
          candidates |= may_reach(largest[a], bar(largest[a], hides), bits) ? 1U << a : 0U;
        }
      }
      if (count(ballot(candidates != 0)) > lanes / 4) {
        seed_again(candidates, number);
      }
      wait_for_look(candidates, number, first >= end_, least, hides, waiting);
      if (below_ < infinity<float> && order_key(top) > shared_word(memory_.top) && top == top) {
        atomicMax(&memory_.top, order_key(top));
      }
      number += ahead * reader_threads;
    }
    return top;
  }
  __device__ static std::uint32_t shared_word(const std::uint32_t& word) {
    return *static_cast<const volatile std::uint32_t*>(&word);
  }
  /// What is smaller is not kept: min-p's depth below the largest so far, and a little more.
  [[nodiscard]] __device__ float least_kept() const {
    const float top = core::value_of_key<float>(shared_word(memory_.top));
    return below_ < infinity<float> ? top - below_ - (fabsf(top) + below_) * 0x1p-20F
                                    : -std::numeric_limits<float>::max();
  }
  /// Where elements reach bins that have seen none, as ascending ones do: most are no stairs
  /// beside the others.
  __device__ void seed_again(unsigned& candidates, std::uint32_t number) {
    const auto each_block = [&](const auto& body) {
      for (unsigned left = candidates; left != 0; left &= left - 1) {
        const std::uint32_t of =
            number + static_cast<std::uint32_t>(lowest_bit(left)) * reader_threads;
        column_block<In> block;
        race_.row.load(std::int64_t{of} * block_columns, block);
        body(of, block, left & (~left + 1));
      }
    };
    each_block([&](std::uint32_t of, const column_block<In>& block, unsigned) {
      const float key = race_.bound(numbers_, of, block, -std::numeric_limits<float>::max());
      if (key > -infinity<float>) {
        raise(places_.bin(block.largest()), pair_of(key, block.largest()));
      }
    });
    synchronize_warp();
    unsigned still = 0;
    each_block([&](std::uint32_t of, const column_block<In>& block, unsigned bit) {
      const float largest = block.largest();
      const std::uint32_t bits = race<In, false>::least_bits(numbers_.of_block(of));
      still |= may_reach(largest, bar(largest, false), bits) ? bit : 0U;
    });
    candidates = still;
  }
  /// Blocks that a warp looks at together, each by as many lanes as it has columns.
  static constexpr int looked = lanes / block_columns;

  [[nodiscard]] __device__ std::uint32_t* waiting_blocks() const {
    return memory_.waiting + threadIdx.x / lanes * (lanes + looked);
  }
  /// Candidates wait until there are enough of them, as few reads of a warp find more than one, or
  /// no more come. One place looks: code that runs for the first time is slow.
  __device__ void wait_for_look(unsigned candidates, std::uint32_t number, bool is_last,
                                float least, bool hides, int& waiting) {
    while (true) {
      const lane_mask found = ballot(candidates != 0);
      const int enough = found == 0 && is_last ? 1 : looked;
      if (found == 0 && waiting < enough) {
        return;
      }
      if (candidates != 0) {
        waiting_blocks()[waiting + count(found & lanes_below())] =
            number + static_cast<std::uint32_t>(lowest_bit(candidates)) * reader_threads;
        candidates &= candidates - 1;
      }
      waiting += count(found);
      synchronize_warp();
      while (waiting >= enough) {
        const int blocks = waiting < looked ? waiting : looked;
        waiting -= blocks;
        look_at(blocks, waiting_blocks() + waiting, least, hides);
      }
      synchronize_warp();
    }
  }
  /// So many blocks, `looked` at most.
  __device__ void look_at(int blocks, const std::uint32_t* numbers, float least, bool hides) {
    const auto block = static_cast<int>(threadIdx.x) % lanes / block_columns;
    stair found = {.key = 0, .x = 0, .column = -1};
    if (block < blocks) {
      const std::int64_t column =
          std::int64_t{numbers[block]} * block_columns + threadIdx.x % block_columns;
      if (column < race_.row.cols) {
        found = look(column, least, hides);
      }
    }
    raise_from(found);
  }
  /// Lists a column if it may be a stair; else the result has none.
  __device__ stair look(std::int64_t column, float least, bool hides) {
    namespace sampling = core::sampling;
    const float x = race_.row.element(column);
    const std::uint32_t bits =
        sampling::first_bits(numbers_.of_block(static_cast<std::uint32_t>(column / block_columns)),
                             static_cast<int>(column % block_columns));
    const float lowest = bar(x, hides);
    constexpr stair none = {.key = 0, .x = 0, .column = -1};
    if (!(x >= least) || !may_reach(x, lowest, bits)) {
      return none;
    }
    const float key = x * race_.scale_2 - race<In, false>::log2_exponential(
                                              sampling::all_bits(race_.noise, column, bits));
    const float slack = race_.slack(key);
    if (!(fabsf(key) < race<In, false>::most_bound)) {
      atomicMax(&memory_.lost, std::uint32_t{1});
      return none;
    }
    if (key + 2 * slack < lowest) {
      return none;
    }
    const std::uint32_t place = atomicAdd(&memory_.count, 1U);
    if (place < memory_type::most) {
      memory_.listed[place] = {key, x, column};
    }
    return {key, x, column};
  }
  /// The lanes' stairs become the best of their bins and of those below, a bin for each lane.
  __device__ void raise_from(const stair& found) {
    const std::uint64_t own = pair_of(found.key - race_.slack(found.key), found.x);
    const auto own_bin = static_cast<int>(places_.bin(found.x));
    for (lane_mask left = ballot(found.column >= 0); left != 0; left &= left - 1) {
      const int from = count((left & (~left + 1)) - 1);
      const std::uint64_t pair = shuffle(own, from);
      auto bin = shuffle(own_bin, from) - static_cast<int>(threadIdx.x % lanes);
      bool raises = true;
      while (count(ballot(raises)) == lanes) {
        raises = bin >= 0 && best_of(static_cast<std::uint32_t>(bin)) < pair;
        if (raises) {
          raise(static_cast<std::uint32_t>(bin), pair);
        }
        bin -= lanes;
      }
    }
  }
  /// Of those listed the ones that still are stairs.
  __device__ void keep(stair_part& part) {
    const bool hides = memory_.count > memory_type::many;
    const std::uint32_t listed =
        memory_.count < memory_type::most ? memory_.count : memory_type::most;
    for (std::uint32_t i = threadIdx.x; i < listed; i += reader_threads) {
      const stair own = memory_.listed[i];
      if (own.key + 2 * race_.slack(own.key) >= bar(own.x, hides)) {
        const int place = atomicAdd(&memory_.kept, 1);
        if (place < stair_part::most) {
          part.stairs[place] = own;
        }
      }
    }
  }

  race<In, false> race_;
  first_noise numbers_;
  float below_;
  std::int64_t begin_;
  std::int64_t end_;
  int counters_;
  memory_type& memory_;
  stair_window::places places_{};
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

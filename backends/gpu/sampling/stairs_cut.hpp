// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which stair of a row is the token: the best one before the filters' cut. On which side of it one
/// is tell bounds of the masses before and after it, from the numbers of elements in bins; few
/// stand so near that masses have to be added up.
#pragma once

#include <gpu/sampling/race_chunks.hpp>
#include <gpu/sampling/stairs.hpp>

#include <core/sampling.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What a row's filters ask of its elements.
struct stair_filters {
  double depth;  ///< min-p's
  double top_p;
  std::int64_t most;  ///< top-k's; all: more than there are
  bool is_joint;      ///< top-p's share is one of all elements
  std::int64_t cols;

  __device__ static stair_filters of(const core::sampling::parameters& p, filter_order order,
                                     std::int64_t cols) {
    return {core::sampling::min_p_depth(p.min_p), p.top_p,
            p.top_k > 0 && p.top_k < cols ? p.top_k : std::numeric_limits<std::int64_t>::max(),
            order == filter_order::joint, cols};
  }
  [[nodiscard]] __device__ bool count_elements() const { return top_p < 1 || most < cols; }
};

/// Elements of several bins, and bounds of their mass over that of the largest.
struct bin_sum {
  double least;
  double most;
  std::uint32_t count;

  __device__ void add(const bin_sum& other) {
    least += other.least;
    most += other.most;
    count += other.count;
  }
};

struct cut_memory {
  static constexpr int threads = reader_threads;
  static constexpr int most_best = 64;
  static constexpr int most_listed = 384;

  double keys[threads];
  std::int64_t columns[threads];
  bin_sum from[stair_window::bins + 1];  ///< of the bins from this one on
  bin_sum of_warps[threads / 32];
  std::uint32_t counted[stair_window::bins];
  std::uint32_t top;
  std::uint32_t low;       ///< order key of the row's window
  std::uint32_t flags[4];  ///< whether a part has this one
  std::uint32_t best;      ///< order key of a number that the best key is not below
  int listed;  ///< stairs; if there are more than most_listed, they are read where they are
  stair list[most_listed];
  int count;
  stair bests[most_best];
  draw_state state;
};

/// A draw's stairs, by a block.
template <int lanes, class In>
class stair_cut {
 public:
  __device__ stair_cut(const row_reader<In>& row, const core::sampling::parameters& p,
                       std::int64_t draw, const stair_filters& filters, const stair_part* parts,
                       const std::uint32_t* counted, const row_chunks& chunks, cut_memory& memory)
      : race_(race<In, false>::of(row, p, draw)),
        filters_(filters),
        parts_(parts),
        counted_(counted),
        chunks_(chunks.count),
        memory_(memory) {}

  /// What the stairs say of the draw, for all threads; of those with elements above `below`, if
  /// what is up to there has turned out to be removed.
  __device__ const draw_state& find(float below = -infinity<float>) {
    gather();
    const float top = core::value_of_key<float>(memory_.top);
    const core::sampling::row_kind kind = has(stair_part::nan) ? core::sampling::row_kind::nan
                                          : top == -infinity<float>
                                              ? core::sampling::row_kind::empty
                                              : core::sampling::row_kind::ordinary;
    __syncthreads();
    if (has(stair_part::lost) || kind != core::sampling::row_kind::ordinary) {
      return settle({.top = top,
                     .kind = kind,
                     .judged = !has(stair_part::nan) && has(stair_part::lost) ? verdict::unraced
                                                                              : verdict::kept});
    }
    window_ = {core::value_of_key<float>(memory_.low)};
    top_place_ = fmaf(top, race_.scale_2, -window_.low);
    largest_ = core::sampling::scaled(race_.scale, static_cast<double>(top));
    if (filters_.count_elements()) {
      add_up_bins();
    }
    while (true) {
      const stair winner = best_above(below);
      // What is hidden by a removed stair of its bin may be the token.
      const bool may_hide =
          has(stair_part::hides) &&
          (below > -infinity<float> || filters_.depth < std::numeric_limits<double>::infinity());
      if (winner.column < 0 || may_hide) {
        return settle({.top = top, .judged = verdict::unraced});
      }
      const verdict judged = judge(winner.x);
      if (judged != verdict::removed) {
        return settle({.winner = winner.column, .top = top, .judged = judged});
      }
      below = winner.x;  // what is equal to it is removed, too
    }
  }

 private:
  /// What sums of so many bins in f64, exponentials in f32 and masses' rounding to integers are off
  /// by: a share, and so much an element.
  static constexpr double share = 0x1p-16;
  static constexpr double unit = 0x1p-50;

  __device__ const draw_state& settle(const draw_state& state) {
    if (threadIdx.x == 0) {
      memory_.state = state;
    }
    __syncthreads();
    return memory_.state;
  }

  [[nodiscard]] __device__ bool has(stair_part::flag flag) const {
    return memory_.flags[lowest_bit(flag)] != 0;
  }
  __device__ void gather() {
    __syncthreads();
    if (threadIdx.x == 0) {
      memory_.top = order_key(-infinity<float>);
      memory_.low = order_key(-infinity<float>);
      for (std::uint32_t& flag : memory_.flags) {
        flag = 0;
      }
      memory_.listed = 0;
    }
    memory_.counted[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 1
    for (int c = static_cast<int>(threadIdx.x); c < chunks_; c += cut_memory::threads) {
      const stair_part& part = parts_[c];
      atomicMax(&memory_.top, part.top);
      atomicMax(&memory_.low, order_key(part.low));
      for (unsigned left = part.flags; left != 0; left &= left - 1) {
        atomicMax(&memory_.flags[lowest_bit(left)], std::uint32_t{1});
      }
    }
    // What is not there is read, too: all loads are under way together.
    constexpr int together = 4;
    for (int first = static_cast<int>(threadIdx.x); first < chunks_ * stair_part::most;
         first += together * cut_memory::threads) {
      stair found[together];
      bool exists[together];
#pragma unroll
      for (int i = 0; i < together; ++i) {
        const int at = first + i * cut_memory::threads;
        const stair_part& part =
            parts_[at < chunks_ * stair_part::most ? at / stair_part::most : 0];
        found[i] = part.stairs[at % stair_part::most];
        exists[i] = at < chunks_ * stair_part::most && at % stair_part::most < part.count;
      }
#pragma unroll
      for (int i = 0; i < together; ++i) {
        if (exists[i]) {
          const int place = atomicAdd(&memory_.listed, 1);
          if (place < cut_memory::most_listed) {
            memory_.list[place] = found[i];
          }
        }
      }
    }
    __syncthreads();
  }

  /// Of the stairs with elements above `below` that min-p keeps the one with the largest key, for
  /// all threads; a column below 0 if none is known.
  __device__ stair best_above(float below) {
    if (threadIdx.x == 0) {
      memory_.best = 0;
      memory_.count = 0;
    }
    __syncthreads();
    for_each_stair(below, [&](const stair& s) {
      atomicMax(&memory_.best, order_key(s.key - race_.slack(s.key)));
    });
    __syncthreads();
    const float best = core::value_of_key<float>(memory_.best);
    for_each_stair(below, [&](const stair& s) {
      if (s.key + 2 * race_.slack(s.key) >= best) {
        const int place = atomicAdd(&memory_.count, 1);
        if (place < cut_memory::most_best) {
          memory_.bests[place] = s;
        }
      }
    });
    __syncthreads();
    if (memory_.count == 0 || memory_.count > cut_memory::most_best) {
      return {.key = 0, .x = 0, .column = -1};
    }
    if (memory_.count > 1) {
      core::sampling::runner own;
      if (threadIdx.x < static_cast<unsigned>(memory_.count)) {
        race_.compare_exactly(memory_.bests[threadIdx.x].column, best, own);
      }
      const core::sampling::runner found = best_of_block(own, memory_.keys, memory_.columns);
      if (threadIdx.x == 0) {
        memory_.bests[0] = {.key = 0, .x = race_.row.element(found.column), .column = found.column};
      }
      __syncthreads();
    }
    const stair winner = memory_.bests[0];
    __syncthreads();
    return winner;
  }

  template <class Body>
  __device__ void for_each_stair(float below, const Body& body) const {
    const bool is_listed = memory_.listed <= cut_memory::most_listed;
    const int count = is_listed ? memory_.listed : chunks_ * stair_part::most;
    for (auto i = static_cast<int>(threadIdx.x); i < count; i += cut_memory::threads) {
      const stair_part& part = parts_[is_listed ? 0 : i / stair_part::most];
      if (is_listed || i % stair_part::most < part.count) {
        const stair own = is_listed ? memory_.list[i] : part.stairs[i % stair_part::most];
        const double z = core::sampling::scaled(race_.scale, static_cast<double>(own.x));
        if (own.x > below && largest_ - z <= filters_.depth) {
          body(own);
        }
      }
    }
  }

  // ---- Bins.

  /// The mass of elements at a place, over that of the largest.
  [[nodiscard]] __device__ double mass_at(float place) const {
    return static_cast<double>(fast_exp2(place - top_place_));
  }
  /// Of so many elements in bin i.
  [[nodiscard]] __device__ bin_sum sum_of(int i, std::uint32_t count) const {
    if (count == 0) {
      return {};
    }
    const float begin = static_cast<float>(i) + stair_window::begin_of_first;
    const float low = begin / stair_window::bins_of_octave - stair_window::error;
    const float high = (begin + 1) / stair_window::bins_of_octave + stair_window::error;
    const auto n = static_cast<double>(count);
    bin_sum sum = {i > 0 ? n * mass_at(low) : 0, n * mass_at(high), count};
    if (!filters_.is_joint) {
      // What min-p removes has no mass.
      const float cut = top_place_ - static_cast<float>(filters_.depth) * race<In, false>::log2_e;
      sum.least = low < cut + stair_window::error ? 0 : sum.least;
      sum.most = high < cut - stair_window::error ? 0 : sum.most;
    }
    return sum;
  }
  /// A thread for each bin.
  __device__ void add_up_bins() {
    static_assert(stair_window::bins == cut_memory::threads);
    const auto thread = static_cast<int>(threadIdx.x);
    std::uint32_t own = 0;
    constexpr int together = 16;  // loads under way
    for (int first = 0; first < chunks_; first += together) {
      float lows[together];
      std::uint32_t counts[together];
#pragma unroll
      for (int i = 0; i < together; ++i) {
        const int c = first + i < chunks_ ? first + i : first;
        lows[i] = parts_[c].low;
        counts[i] = counted_[c * stair_window::bins + thread];
      }
#pragma unroll
      for (int i = 0; i < together; ++i) {
        const std::uint32_t count = first + i < chunks_ ? counts[i] : 0;
        if (lows[i] == window_.low) {
          own += count;
        } else if (count != 0) {
          const int bin =
              thread + static_cast<int>((lows[i] - window_.low) * stair_window::bins_of_octave);
          atomicAdd(&memory_.counted[bin > 0 ? bin : 0], count);
        }
      }
    }
    __syncthreads();
    bin_sum sum = sum_of(thread, own + memory_.counted[thread]);
    for (int distance = 1; distance < lanes; distance *= 2) {
      const int from = thread % lanes + distance;
      const int lane = from < lanes ? from : lanes - 1;
      const bin_sum other = {shuffle(sum.least, lane), shuffle(sum.most, lane),
                             shuffle(sum.count, lane)};
      if (from < lanes) {
        sum.add(other);
      }
    }
    if (thread % lanes == 0) {
      memory_.of_warps[thread / lanes] = sum;
    }
    __syncthreads();
    for (int w = thread / lanes + 1; w < cut_memory::threads / lanes; ++w) {
      sum.add(memory_.of_warps[w]);
    }
    memory_.from[thread] = sum;
    if (thread == 0) {
      memory_.from[stair_window::bins] = {};
    }
    __syncthreads();
  }

  /// By the masses and numbers of elements, of an element that min-p keeps.
  [[nodiscard]] __device__ verdict judge(float x) const {
    if (!filters_.count_elements()) {
      return verdict::kept;
    }
    if (has(stair_part::beyond)) {  // no masses are known
      return verdict::unknown;
    }
    const float place = fmaf(x, race_.scale_2, -window_.low);
    const float bin = place * stair_window::bins_of_octave - stair_window::begin_of_first;
    constexpr float error = stair_window::error * stair_window::bins_of_octave;
    if (!(bin - error >= 1 && bin + error < static_cast<float>(stair_window::bins))) {
      return verdict::unknown;
    }
    const auto first = static_cast<int>(bin - error);
    const auto last = static_cast<int>(bin + error);
    const bin_sum& before = memory_.from[last + 1];  // these are before it
    const bin_sum& reached = memory_.from[first];    // and all that are, and it
    const bin_sum& all = memory_.from[0];
    if (reached.count == 1) {
      return verdict::kept;
    }
    const bool few = reached.count <= filters_.most;
    const bool too_many = before.count >= filters_.most;
    if (too_many || filters_.top_p == 1) {
      return too_many ? verdict::removed : few ? verdict::kept : verdict::unknown;
    }
    // p of (before + after): what is before counts 1 - p times, what is after p times.
    const double p = filters_.top_p;
    const double rounding = unit * static_cast<double>(filters_.cols);
    const double most_before =
        (reached.most - mass_at(place - stair_window::error)) * (1 + share) + rounding;
    const double least_after = (all.least - reached.least) * (1 - share) - rounding;
    if (few && most_before * (1 - p) < least_after * p) {
      return verdict::kept;
    }
    const double least_before = before.least * (1 - share) - rounding;
    const double most_after = (all.most - before.most) * (1 + share) + rounding;
    return least_before * (1 - p) > most_after * p ? verdict::removed : verdict::unknown;
  }

  race<In, false> race_;
  stair_filters filters_;
  const stair_part* parts_;
  const std::uint32_t* counted_;
  int chunks_;
  cut_memory& memory_;
  stair_window window_{};
  float top_place_ = 0;
  double largest_ = 0;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

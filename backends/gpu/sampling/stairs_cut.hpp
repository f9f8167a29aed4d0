// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which stair of a row is the token: the best one before the filters' cut. On which side of it one
/// is tell bounds of the masses before and after it, from what the parts have counted; few stand so
/// near that masses have to be added up.
#pragma once

#include <gpu/group/integers.hpp>
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

/// Of a row, or a part of one: what stands before an element, and what does not but has a part in
/// top-p. Bounds of masses over that of the largest; of what stands before it the upper one has
/// the element, too.
struct counted_cut {
  float least_before;
  float most_before;
  float least_after;
  float most_after;
  std::uint32_t before;   ///< elements that are larger
  std::uint32_t reached;  ///< and those that are perhaps not smaller
};

struct cut_memory {
  static constexpr int threads = reader_threads;
  static constexpr int most_best = 64;
  static constexpr int most_listed = 384;

  double keys[threads];
  std::int64_t columns[threads];
  counted_cut cut;
  std::uint32_t top;
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
                       const counted_sum* sums, int counters, const row_chunks& chunks,
                       cut_memory& memory)
      : race_(race<In, false>::of(row, p, draw)),
        filters_(filters),
        parts_(parts),
        sums_(sums),
        counters_(counters),
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
    top_ = top;
    largest_ = core::sampling::scaled(race_.scale, static_cast<double>(top));
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
  /// What sums in f32, exponentials in f32 and masses' rounding to integers are off by: a share,
  /// and so much an element.
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
      for (std::uint32_t& flag : memory_.flags) {
        flag = 0;
      }
      memory_.listed = 0;
    }
    __syncthreads();
#pragma unroll 1
    for (int c = static_cast<int>(threadIdx.x); c < chunks_; c += cut_memory::threads) {
      const stair_part& part = parts_[c];
      atomicMax(&memory_.top, part.top);
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

  // ---- Masses.

  /// Of a part, around an element that min-p keeps.
  [[nodiscard]] __device__ counted_cut cut_of(int part, float x) const {
    const float low = parts_[part].low;
    if (!(low > -infinity<float>)) {
      return {};  // it has no elements
    }
    const counted_sum* const sums = sums_ + std::int64_t{part} * counters_;
    const auto counters = static_cast<float>(counters_);
    const float of_octave = counters / stair_window::octaves;
    constexpr float error = stair_window::error;
    const auto sum_from = [&](int i) {
      return i < counters_ ? sums[i > 0 ? i : 0] : counted_sum{0, 0};
    };
    // Counters from `kept` on have nothing that min-p removes, those before `removed` nothing else.
    int kept = 0;
    int removed = 0;
    if (!filters_.is_joint) {
      const float below = static_cast<float>(filters_.depth) * race<In, false>::log2_e;
      const float cut = fmaf(top_, race_.scale_2, -low) - below;
      const auto place = [&](float at) {
        return static_cast<int>(fminf(fmaxf(at * of_octave, 0.0F), counters));
      };
      kept = below < infinity<float> ? place(cut + 2 * error) + 2 : 0;
      removed = below < infinity<float> ? place(cut - 2 * error) - 1 : 0;
    }
    const auto own =
        static_cast<int>(stair_window{low}.of_scale(race_.scale_2).counter(x, counters));
    const counted_sum whole = sum_from(0);
    const counted_sum before = sum_from(own + 1);
    const counted_sum reached = sum_from(own);
    const counted_sum least_whole = sum_from(kept);
    const counted_sum most_whole = sum_from(removed);
    // The least mass of counter i is that at its begin; the lowest has what is below it.
    const float at_low = fast_exp2(fmaf(top_, -race_.scale_2, low) - error);
    const float ratio = fast_exp2(1 / of_octave + 2 * error);
    const float of_lowest = static_cast<float>(whole.count - sum_from(1).count) *
                            fast_exp2((1 + stair_window::begin_of_first) / of_octave + 2 * error);
    const float rounding = whole.least * 0x1p-18F;
    const auto difference = [&](const counted_sum& of, const counted_sum& without) {
      return of.least - without.least;
    };
    const float least_after = difference(least_whole, reached) - rounding;
    const float most_after = difference(most_whole, before) + rounding;
    return {
        .least_before = at_low * before.least,
        .most_before = at_low * (ratio * reached.least + (own > 0 ? 0 : of_lowest)),
        .least_after = at_low * fmaxf(least_after, 0.0F),
        .most_after = at_low * (ratio * fmaxf(most_after, 0.0F) + (removed > 0 ? 0 : of_lowest)),
        .before = before.count,
        .reached = reached.count};
  }

  /// By the masses and numbers of elements, of an element that min-p keeps.
  __device__ verdict judge(float x) {
    if (!filters_.count_elements()) {
      return verdict::kept;
    }
    if (has(stair_part::beyond)) {  // no masses are known
      return verdict::unknown;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      memory_.cut = {};
    }
    __syncthreads();
    for (int first = 0; first < chunks_; first += cut_memory::threads) {
      const int part = first + static_cast<int>(threadIdx.x);
      const counted_cut own = part < chunks_ ? cut_of(part, x) : counted_cut{};
      counted_cut& cut = memory_.cut;
      add_over_block<lanes>(own.least_before, cut.least_before);
      add_over_block<lanes>(own.most_before, cut.most_before);
      add_over_block<lanes>(own.least_after, cut.least_after);
      add_over_block<lanes>(own.most_after, cut.most_after);
      add_over_block<lanes>(own.before, cut.before);
      add_over_block<lanes>(own.reached, cut.reached);
    }
    __syncthreads();
    const counted_cut cut = memory_.cut;
    if (cut.reached == 1) {
      return verdict::kept;
    }
    const bool few = cut.reached <= filters_.most;
    const bool too_many = cut.before >= filters_.most;
    if (too_many || filters_.top_p == 1) {
      return too_many ? verdict::removed : few ? verdict::kept : verdict::unknown;
    }
    // p of (before + after): what is before counts 1 - p times, what is after p times.
    const double p = filters_.top_p;
    const double rounding = unit * static_cast<double>(filters_.cols);
    const float own = fast_exp2((x - top_) * race_.scale_2) * (1 - 2 * stair_window::error);
    const double most_before = static_cast<double>(cut.most_before - own) * (1 + share) + rounding;
    const double least_after = static_cast<double>(cut.least_after) * (1 - share) - rounding;
    if (few && most_before * (1 - p) < least_after * p) {
      return verdict::kept;
    }
    const double least_before = static_cast<double>(cut.least_before) * (1 - share) - rounding;
    const double most_after = static_cast<double>(cut.most_after) * (1 + share) + rounding;
    return least_before * (1 - p) > most_after * p ? verdict::removed : verdict::unknown;
  }

  race<In, false> race_;
  stair_filters filters_;
  const stair_part* parts_;
  const counted_sum* sums_;
  int counters_;
  int chunks_;
  cut_memory& memory_;
  float top_ = 0;
  double largest_ = 0;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

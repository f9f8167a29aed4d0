// SPDX-License-Identifier: Apache-2.0
/// \file
/// Attention of many rows of bf16 by AMX: groups of 32 rows take 32 keys, or columns of values, in
/// a step, four tiles of sums from two of each side. While a group's products become exponentials,
/// row by row, the tiles add the values of the group before and multiply those of the next: the two
/// kinds of instructions run beside each other.
#pragma once

#include <backends/host/kernels/attention_packing.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// `Tiles`: amx_tiles or what stands in for it.
template <class Tiles>
class amx_fold : attention_packing<attention_most_key_block> {
  using exponential_form = difference_exponential<V>;

 public:
  using attention_packing::most_scale;

  explicit SOFTFOLD_INLINE amx_fold(const attention_rows& rows)
      : attention_packing(rows, tile, true),
        edited_(edits_scores() || !exponential_form::takes(rows.scale)),
        scale_(edited_ ? 1.0F : static_cast<float>(rows.scale)),
        exponential_(static_cast<double>(scale_)) {}

  void run() {
    for (int g = 0; g * group < given.rows; ++g) {
      for (int r = g * group; r < rows_end(g); ++r) {
        if (given.first[r] < given.last[r]) {
          keys_[g].add(given.first[r], given.last[r]);
        }
      }
      all_keys_.add(keys_[g].first, keys_[g].last);
    }
    tiles_.configure();
    over_blocks(*this);
    tiles_.release();
    // What were products until now.
    for (int r = 0; r < given.rows; ++r) {
      maxima[r] *= scale_;
    }
  }

 private:
  friend attention_fold;
  static constexpr int tile = 16;
  static constexpr int group = 2 * tile;
  static constexpr int groups = attention_row_block * attention_most_row_blocks / group;
  /// Of a row's scores. With a power of 2 the rows of a tile would take the same few sets of the
  /// first-level cache.
  static constexpr int score_stride = block + tile;
  static_assert(2 * group * score_stride <= attention_row_block * block);

  struct key_range {
    std::int64_t first = std::int64_t{1} << 62;
    std::int64_t last = 0;

    void add(std::int64_t a, std::int64_t b) {
      first = a < first ? a : first;
      last = b > last ? b : last;
    }
  };
  /// Of a block's keys; multiples of 32.
  struct block_range {
    int from;
    int end;
  };
  [[nodiscard]] static block_range of_block(const key_range& keys, std::int64_t begin, int count) {
    const std::int64_t first = keys.first - begin;
    const std::int64_t last = keys.last - begin;
    const int from = first <= 0 ? 0 : first < count ? static_cast<int>(first) : count;
    const int end = last >= count ? count : last > from ? static_cast<int>(last) : from;
    return from == end ? block_range{0, 0}
                       : block_range{from / group * group, (end + group - 1) / group * group};
  }
  [[nodiscard]] SOFTFOLD_INLINE int rows_end(int g) const {
    return given.rows < (g + 1) * group ? given.rows : (g + 1) * group;
  }

  /// A group on its way through a block.
  struct passage {
    int g;
    block_range keys;
    float* s;  ///< its products, then its exponentials; row r's from r score_stride on
  };

  void pack_queries() {
    attention_packing::pack_queries();
    const int end = (given.rows + group - 1) / group * group;
    for (int i = given.rows * q_stride; i < end * q_stride; i += lanes) {
      pairs::all(0).store(q_pairs + i);
    }
  }

  void fold_block(std::int64_t begin, int count) {
    const block_range packed = of_block(all_keys_, begin, count);
    pack_keys(begin, packed.from, packed.end, count);
    pack_values(begin, packed.from, packed.end, count, [&](int j, int c) {
      return value_tile(2 * j, c / tile * tile) + j % tile * tile + c % tile;
    });
    begin_ = begin;
    passage way[groups];
    int n = 0;
    for (int g = 0; g * group < given.rows; ++g) {
      const block_range keys = of_block(keys_[g], begin, count);
      if (keys.from < keys.end) {
        way[n] = {g, keys, scores + n % 2 * (group * score_stride)};
        ++n;
      }
    }
    if (n == 0) {
      return;
    }
    start_scores(way[0]);
    finish_steps();
    for (int i = 0; i < n; ++i) {
      if (i > 0) {
        start_values(way[i - 1]);
      }
      if (i + 1 < n) {
        start_scores(way[i + 1]);
      }
      fold_group(way[i], count, {begin + count, i, n});
      finish_steps();
    }
    start_values(way[n - 1]);
    finish_steps();
  }

  // ---- What the tiles do, a step at a time: values first.

  void start_values(const passage& p) {
    valued_ = p;
    column_ = 0;
    value_key_ = p.keys.from;
    value_steps_ = static_cast<int>((given.weighted_stride + group - 1) / group) *
                   ((p.keys.end - p.keys.from) / group);
  }
  void start_scores(const passage& p) {
    scored_ = p;
    score_key_ = p.keys.from;
    pair_ = 0;
    score_steps_ = (q_stride / tile) * ((p.keys.end - p.keys.from) / group);
  }
  void finish_steps() {
    while (value_steps_ + score_steps_ > 0) {
      step();
    }
  }
  SOFTFOLD_INLINE void step() {
    if (value_steps_ > 0) {
      step_values();
    } else if (score_steps_ > 0) {
      step_scores();
    }
  }

  void step_scores() {
    const int j = score_key_;
    if (pair_ == 0) {
      clear_sums();
    }
    add_products(q_pairs + scored_.g * group * q_stride + pair_, q_stride, key_at(j) + pair_ * tile,
                 key_at(j + tile) + pair_ * tile);
    pair_ += tile;
    if (pair_ == q_stride) {
      store_sums(scored_.s + j, score_stride);
      pair_ = 0;
      score_key_ += group;
    }
    if (--score_steps_ == 0) {
      score_subnormal(scored_.s, scored_.g * group, rows_end(scored_.g), scored_.keys.from,
                      scored_.keys.end, score_stride, V(1.0F));
    }
  }

  /// Of 32 keys and 16 columns: pair i of the keys at 16 i.
  [[nodiscard]] SOFTFOLD_INLINE std::uint32_t* value_tile(int j, std::int64_t c) const {
    return v_pairs + (j / group) * tile * given.weighted_stride + c * tile;
  }
  void step_values() {
    const int j = value_key_;
    const int wide = column_ + tile < given.weighted_stride ? tile : 0;
    if (j == valued_.keys.from) {
      clear_sums();
    }
    const std::uint32_t* const v = value_tile(j, column_);
    add_products(reinterpret_cast<const std::uint32_t*>(valued_.s) + j / 2, score_stride, v,
                 v + wide * tile);
    value_key_ += group;
    if (value_key_ == valued_.keys.end) {
      add_sums(wide);
      value_key_ = valued_.keys.from;
      column_ += group;
    }
    if (--value_steps_ == 0) {
      add_extremes(reinterpret_cast<const std::uint32_t*>(valued_.s), valued_.g * group,
                   rows_end(valued_.g), valued_.keys.from, valued_.keys.end, begin_, score_stride);
    }
  }
  void add_sums(int wide) {
    alignas(64) float sums[group * group];
    store_sums(sums, group);
    const int first = valued_.g * group;
    for (int r = 0; r < group; ++r) {
      const V factor(factors[first + r]);
      float* const to = weighted + (first + r) * given.weighted_stride + column_;
      for (int i = 0; i < tile + wide; i += lanes) {
        fma(V::load(to + i), factor, V::load(sums + r * group + i)).store(to + i);
      }
    }
  }

  SOFTFOLD_INLINE void clear_sums() {
    tiles_.template clear<0>();
    tiles_.template clear<1>();
    tiles_.template clear<2>();
    tiles_.template clear<3>();
  }
  SOFTFOLD_INLINE void add_products(const std::uint32_t* a, std::int64_t a_stride,
                                    const std::uint32_t* b, const std::uint32_t* next_b) {
    tiles_.template load<4>(a, a_stride);
    tiles_.template load<6>(b, tile);
    tiles_.template dot<0, 4, 6>();
    tiles_.template load<7>(next_b, tile);
    tiles_.template dot<1, 4, 7>();
    tiles_.template load<5>(a + tile * a_stride, a_stride);
    tiles_.template dot<2, 5, 6>();
    tiles_.template dot<3, 5, 7>();
  }
  SOFTFOLD_INLINE void store_sums(float* to, std::int64_t stride) {
    tiles_.template store<0>(to, stride);
    tiles_.template store<1>(to + tile, stride);
    tiles_.template store<2>(to + tile * stride, stride);
    tiles_.template store<3>(to + tile * stride + tile, stride);
  }

  // ---- What the vectors do.

  /// The keys of the next block, and the group's place among those of this one.
  struct coming_keys {
    std::int64_t begin;
    int at;
    int groups;
  };
  /// Asks for a row's share of them: packed, they would wait for each line.
  SOFTFOLD_INLINE void ask_for(const coming_keys& coming, int row) const {
    const std::int64_t left = all_keys_.last - coming.begin;
    const std::int64_t count = left < block ? left : block;
    const int rows = coming.groups * group;
    const int before = coming.at * group + row;
    for (std::int64_t j = count * before / rows; j < count * (before + 1) / rows; ++j) {
      constexpr int line = 32;  // elements
      for (int i = 0; i < given.dim; i += line) {
        prefetch_l2(key(coming.begin + j) + i);
      }
      for (int i = 0; i < given.v_dim; i += line) {
        prefetch_l2(value(coming.begin + j) + i);
      }
    }
  }

  /// A group's products to exponentials, and the factors of what its rows summed before.
  void fold_group(const passage& p, int count, const coming_keys& coming) {
    const int steps = value_steps_ + score_steps_;
    int done = 0;
    const exponential_form to_exponential = exponential_;
    for (int r = 0; r < group; r += lanes) {
      const int first = p.g * group + r;
      if (first >= given.rows) {
        return;
      }
      V each[static_cast<unsigned>(lanes)];
#pragma GCC unroll 1
      for (int l = 0; l < lanes; ++l) {
        float* const s = p.s + (r + l) * score_stride;
        prepare(s, first + l, p.keys, count);
        V largest[2] = {V(-infinity<float>), V(-infinity<float>)};
        for (int j = p.keys.from; j < p.keys.end; j += 2 * lanes) {
          largest[0] = max(largest[0], V::load(s + j));
          largest[1] = max(largest[1], V::load(s + j + lanes));
        }
        each[l] = max(largest[0], largest[1]);
      }
      const V before = V::load(maxima + first);
      const V top = max(across(each, [](V a, V b) { return max(a, b); }), before);
      V::select(equal(top, before), V(1.0F), to_exponential(before - top)).store(factors + first);
      top.store(maxima + first);
      alignas(64) float references[static_cast<unsigned>(lanes)];
      alignas(64) float befores[static_cast<unsigned>(lanes)];
      before.store(befores);
      V::select(equal(top, V(-infinity<float>)), V(0.0F), top).store(references);
#pragma GCC unroll 1
      for (int l = 0; l < lanes; ++l) {
        for (; done < steps * (r + l + 1) / group; ++done) {
          step();
        }
        ask_for(coming, r + l);
        float* const s = p.s + (r + l) * score_stride;
        if (references[l] == infinity<float>) {
          each[l] = V(0.0F);
          fold_infinite(s, first + l, befores[l], p.keys);
          continue;
        }
        auto* to = reinterpret_cast<std::uint32_t*>(s) + p.keys.from / 2;
        const V reference(references[l]);
        V sums[2] = {V(0.0F), V(0.0F)};
        for (int j = p.keys.from; j < p.keys.end; j += 2 * lanes) {
          const V low = to_exponential(V::load(s + j) - reference);
          const V high = to_exponential(V::load(s + j + lanes) - reference);
          sums[0] = sums[0] + low;
          sums[1] = sums[1] + high;
          pairs::rounded(low, high).store(to);
          to += lanes;
        }
        each[l] = sums[0] + sums[1];
      }
      alignas(64) float more[static_cast<unsigned>(lanes)];
      across(each, [](V a, V b) { return a + b; }).store(more);
      for (int l = 0; l < lanes && first + l < given.rows; ++l) {
        if (references[l] == infinity<float>) {
          continue;
        }
        given.sum[first + l] = given.sum[first + l] * static_cast<double>(factors[first + l]) +
                               static_cast<double>(more[l]);
      }
    }
  }

  /// A row that has a score of infinity.
  void fold_infinite(float* s, int r, float before, block_range keys) {
    if (r >= given.rows) {
      return;
    }
    const V by(scale_);
    for (int j = keys.from; j < keys.end; j += lanes) {
      (V::load(s + j) * by).store(s + j);
    }
    maxima[r] = before * scale_;
    factors[r] = fold_edited(s, r, keys.from, keys.end);
    auto* const to = reinterpret_cast<std::uint32_t*>(s);
    for (int j = keys.from; j < keys.end; j += 2 * lanes) {
      pairs::rounded(V::load(s + j), V::load(s + j + lanes)).store(to + j / 2);
    }
  }

  /// A row's products, or scores where more is done to them; -infinity where it has no key.
  SOFTFOLD_INLINE void prepare(float* s, int r, block_range keys, int count) {
    if (r >= given.rows) {
      return;
    }
    const std::int64_t below = given.first[r] - begin_;
    const std::int64_t above = given.last[r] - begin_;
    const int most = keys.end < count ? keys.end : count;
    if (!edited_ && below <= keys.from && above >= keys.end && most == keys.end) {
      return;
    }
    const int lo = below <= keys.from ? keys.from
                   : below < keys.end ? static_cast<int>(below)
                                      : keys.end;
    const int hi = above >= most ? most : above > lo ? static_cast<int>(above) : lo;
    if (edited_) {
      const V by(static_cast<float>(given.scale));
      for (int j = keys.from; j < keys.end; j += lanes) {
        (V::load(s + j) * by).store(s + j);
      }
      edit_scores(s, r, begin_, lo, hi);
    }
    for (int j = keys.from; j < lo; ++j) {
      s[j] = -infinity<float>;
    }
    const V none(-infinity<float>);
    int j = hi / lanes * lanes;
    if (j < hi) {
      V::load(s + j, hi - j, none).store(s + j);
      j += lanes;
    }
    for (; j < keys.end; j += lanes) {
      none.store(s + j);
    }
  }

  const bool edited_;
  const float scale_;
  const exponential_form exponential_;
  key_range keys_[groups];
  key_range all_keys_;
  std::int64_t begin_ = 0;

  passage valued_{};
  std::int64_t column_ = 0;
  int value_key_ = 0;
  int value_steps_ = 0;
  passage scored_{};
  int score_key_ = 0;
  int pair_ = 0;
  int score_steps_ = 0;
  Tiles tiles_;
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Attention of many rows of bf16 by instructions that add the products of pairs of bf16 to sums in
/// f32. Pairs are neighbours in a key's elements, and of one column's values those of neighbouring
/// keys; else the tiles are those of attention_tiles.hpp.
///
/// What the instructions would lose. They take subnormal numbers for 0: scores of keys and rows
/// that have such elements are made of f32 products. They make subnormal results 0: to scores that
/// is nothing, below a scale of most_scale; to the sums of values it is what is below 2^-126.
/// Values that would often come there, and those that are not finite, which exponentials of 0 must
/// not meet, are 0 in the pairs, and their products are added apart. So all of a row's numbers
/// depend on the keys that it has, and on no other row.
#pragma once

#include <backends/host/kernels/attention_fold.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// Queries, keys and values as vectors of pairs, a type of the instruction set; and what is not
/// left to the instructions.
template <int key_block>
class attention_packing : protected attention_fold<bf16_bits, key_block> {
  using base = attention_fold<bf16_bits, key_block>;

 protected:
  using base::block;
  using base::given;
  using base::key;
  using base::lanes;
  using base::query;
  using base::value;
  using base::weighted;
  using typename base::V;

 public:
  /// Of |scale|: a score's products that are lost add up to less than dim 2^-124, times this
  /// nothing.
  static constexpr double most_scale = 0x1p64;

 protected:
  /// `key_panel`: keys whose pairs lie together. `all_padded`: keys, too, have pairs of 0 up to
  /// q_stride.
  SOFTFOLD_INLINE attention_packing(const attention_rows& rows, int key_panel, bool all_padded)
      : base(rows),
        q_stride(static_cast<int>(attention_padded((rows.dim + 1) / 2))),
        key_pairs(all_padded ? q_stride : (rows.dim + 1) / 2),
        key_panel_(key_panel),
        q_pairs(reinterpret_cast<std::uint32_t*>(this->packed_q)),
        k_pairs(reinterpret_cast<std::uint32_t*>(this->packed_k)),
        v_pairs(reinterpret_cast<std::uint32_t*>(this->packed_v)) {}

  /// Pair i of row r: q_pairs[r q_stride + i].
  void pack_queries() {
    for (int r = 0; r < given.rows; ++r) {
      const bf16_bits* const from = query(r);
      std::uint32_t subnormal = 0;
      for (int i = 0; i < q_stride; i += lanes) {
        const pairs x =
            2 * i < given.dim ? pairs::load(from + 2 * i, given.dim - 2 * i) : pairs::all(0);
        subnormal |= x.subnormal();
        x.store(q_pairs + r * q_stride + i);
      }
      q_subnormal_[r] = subnormal != 0;
      any_q_subnormal_ = any_q_subnormal_ || subnormal != 0;
    }
  }

  /// Pair 0 of key j, a multiple of the lanes, of the block; pair i is i key_panel after it.
  [[nodiscard]] SOFTFOLD_INLINE std::uint32_t* key_at(int j) const {
    return k_pairs + (j / key_panel_) * std::int64_t{key_pairs} * key_panel_ + j % key_panel_;
  }
  /// Keys [from, end) of the block, multiples of the lanes; those past `count` are 0.
  void pack_keys(std::int64_t begin, int from, int end, int count) {
    any_k_subnormal_ = false;
    for (int j = from; j < end; j += lanes) {
      std::uint32_t* const to = key_at(j);
      std::uint32_t subnormal = 0;
      for (int i = 0; i < key_pairs; i += lanes) {
        V tile[static_cast<unsigned>(lanes)];
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l) {
          tile[l] = V(0.0F);
          if (j + l < count && 2 * i < given.dim) {
            tile[l] = pairs::load(key(begin + j + l) + 2 * i, given.dim - 2 * i).bits();
          }
        }
        transpose(tile);
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l) {
          if (i + l < key_pairs) {
            const pairs x = pairs::of_bits(tile[l]);
            subnormal |= x.subnormal();
            x.store(to + (i + l) * key_panel_);
          }
        }
      }
      k_subnormal_[j / lanes] = pairs::lanes_of(subnormal);
      any_k_subnormal_ = any_k_subnormal_ || subnormal != 0;
    }
  }

  /// Column c of keys 2 j and 2 j + 1 of the block, from key `from` on, a multiple of 2, to
  /// place(j, c); 0 past the last key and column and where it is extreme.
  template <class Place>
  SOFTFOLD_INLINE void pack_values(std::int64_t begin, int from, int end, int count,
                                   const Place& place) {
    extremes_ = 0;
    for (int j = from; j < end; j += 2) {
      const bf16_bits* const first = value(begin + (j < count ? j : 0));
      const bf16_bits* const second = j + 1 < count ? value(begin + j + 1) : nullptr;
      std::uint32_t all = 0;
      for (int c = 0; c < given.weighted_stride; c += lanes) {
        const pairs x =
            c < given.v_dim && j < count
                ? pairs::load(first + c, second == nullptr ? nullptr : second + c, given.v_dim - c)
                : pairs::all(0);
        const std::uint32_t extreme = x.extreme();
        all |= extreme;
        x.without(extreme).store(place(j / 2, c));
      }
      if (all != 0) {
        if ((all & 0x55555555U) != 0) {
          extreme_keys_[extremes_++] = j;
        }
        if ((all & 0xaaaaaaaaU) != 0) {
          extreme_keys_[extremes_++] = j + 1;
        }
      }
    }
  }

  /// Scores of rows [first, last) and keys [from, end) that are subnormal, in place of the others:
  /// row r's at s + (r - first) stride.
  void score_subnormal(float* s, int first, int last, int from, int end, int stride, V scale) {
    if (!any_q_subnormal_ && !any_k_subnormal_) {
      return;
    }
    for (int j = from; j < end; j += lanes) {
      const std::uint32_t* const k = key_at(j);
      for (int r = first; r < last; ++r) {
        if (q_subnormal_[r] || V::bits(k_subnormal_[j / lanes]) != 0) {
          V sum(0.0F);
          for (int i = 0; i < key_pairs; ++i) {
            const pairs left = pairs::all(q_pairs[r * q_stride + i]);
            const pairs right = pairs::load(k + i * key_panel_);
            sum = fma(left.second(), right.second(), fma(left.first(), right.first(), sum));
          }
          sum = sum * scale;
          float* const to = s + (r - first) * stride + j;
          (q_subnormal_[r] ? sum : V::select(k_subnormal_[j / lanes], sum, V::load(to))).store(to);
        }
      }
    }
  }

  /// The products of the values of keys [from, end) that are not in the pairs, for rows that have
  /// the key: row r's exponentials at `exponentials` + (r - first) stride.
  void add_extremes(const std::uint32_t* exponentials, int first, int last, int from, int end,
                    std::int64_t begin, int stride) {
    const V zero(0.0F);
    if (extremes_ == 0) {
      return;
    }
    for (int r = first; r < last; ++r) {
      const auto* const e = reinterpret_cast<const bf16_bits*>(exponentials + (r - first) * stride);
      for (int c = 0; c < given.v_dim; c += lanes) {
        const int width = given.v_dim - c < lanes ? given.v_dim - c : lanes;
        float* const to = weighted + r * given.weighted_stride + c;
        V sum = zero;
        for (int x = 0; x < extremes_; ++x) {
          const int j = extreme_keys_[x];
          const float weight = j < from || j >= end ? 0.0F : widened(e[j]);
          if (weight != 0) {
            const V v = V::load(value(begin + j) + c, width, zero);
            const auto these = pairs::lanes_of(pairs::of_bits(v).extreme());
            sum = fma(V(weight), V::select(these, v, zero), sum);
          }
        }
        (V::load(to) + sum).store(to);
      }
    }
  }

  const int q_stride;
  const int key_pairs;

 private:
  const int key_panel_;

 protected:
  std::uint32_t* const q_pairs;
  std::uint32_t* const k_pairs;
  std::uint32_t* const v_pairs;

 private:
  bool q_subnormal_[attention_row_block * attention_most_row_blocks];
  typename V::mask k_subnormal_[block / lanes];
  bool any_q_subnormal_ = false;
  bool any_k_subnormal_ = false;
  int extremes_ = 0;
  int extreme_keys_[block];
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

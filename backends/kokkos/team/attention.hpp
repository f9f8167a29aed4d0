// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention: one team for each query of each head, over tiles of keys; and combine and normalize
/// of its states.
#pragma once

#include "lanes.hpp"

#include <core/attention.hpp>
#include <core/real_types.hpp>

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// Keys of a tile.
inline constexpr int attention_tile = 128;

template <class In>
struct attention_rows {
  using A = core::arithmetic_t<In>;

  /// Of a team.
  struct team_memory {
    A scores[attention_tile];
    A weights[attention_tile];
    A weighted[core::most_attention_dim];
    A lost[core::most_attention_dim];
  };
  static constexpr int shared_bytes = sizeof(team_memory);

  core::attention_problem p;

  /// A query, counted in [B, Hq, Sq].
  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t number) const {
    constexpr A infinity = std::numeric_limits<A>::infinity();
    auto& mine = *static_cast<team_memory*>(lanes.memory);
    const std::int64_t token = number % p.q.tokens;
    const std::int64_t pair = number / p.q.tokens;
    const auto in = core::attention_sequence::with_token(p, pair / p.q.heads, token);
    if (in.queries == 0) {
      return;
    }
    const auto row = core::attention_row<A>::of(p, in, pair % p.q.heads, token - in.first_query);
    const std::int64_t head = row.head / p.group;
    const In* const q =
        static_cast<const In*>(p.q.data) + core::offset_of(p.q, row.batch, row.head, row.token);
    const In* const k =
        static_cast<const In*>(p.k.data) + core::offset_of(p.k, row.batch, head, in.first_key);
    const In* const v =
        static_cast<const In*>(p.v.data) + core::offset_of(p.v, row.batch, head, in.first_key);
    lanes.each(p.v.dim, [&](std::int64_t c) {
      mine.weighted[c] = 0;
      mine.lost[c] = 0;
    });
    // Every lane knows the maximum and the sum.
    A max = -infinity;
    double sum = 0;
    for (std::int64_t begin = row.first; begin < row.end; begin += attention_tile) {
      const std::int64_t left = row.end - begin;
      const int count = left < attention_tile ? static_cast<int>(left) : attention_tile;
      lanes.each(count, [&](std::int64_t j) {
        const In* const key = k + (begin + j) * p.k.token_stride;
        A product = 0;
        for (std::int64_t i = 0; i < p.q.dim; ++i) {
          product = std::fma(static_cast<A>(q[i]), static_cast<A>(key[i]), product);
        }
        mine.scores[j] = row.score(product, begin + j);
      });
      lanes.sync();
      A top = max;
      for (int j = 0; j < count; ++j) {  // NaN makes the sum one
        top = mine.scores[j] > top ? mine.scores[j] : top;
      }
      lanes.each(count, [&](std::int64_t j) {
        const A s = mine.scores[j];
        mine.weights[j] = top == infinity ? (s != s          ? s
                                             : s == infinity ? A{1}
                                                             : A{0})
                                          : std::exp(s - (top == -infinity ? A{0} : top));
      });
      lanes.sync();
      A tile_sum = 0;
      for (int j = 0; j < count; ++j) {
        tile_sum += mine.weights[j];
      }
      const A factor = max == top ? A{1} : max == -infinity ? A{0} : std::exp(max - top);
      lanes.each(p.v.dim, [&](std::int64_t c) {
        A more = 0;
        for (int j = 0; j < count; ++j) {
          if (mine.weights[j] != A{0}) {  // what is no key may hold anything
            more = std::fma(mine.weights[j], static_cast<A>(v[(begin + j) * p.v.token_stride + c]),
                            more);
          }
        }
        core::add_carrying(mine.weighted[c], mine.lost[c], factor, more);
      });
      sum = sum * static_cast<double>(factor) + static_cast<double>(tile_sum);
      max = top;
      lanes.sync();
    }
    const auto finish =
        core::attention_finish<A>::of(p, row.head, core::public_state(max, static_cast<A>(sum)));
    if (lanes.lane() == 0) {
      core::write_attention_state(p, row.batch, row.head, row.token, finish.both.whole);
    }
    const std::int64_t to = core::offset_of(p.out, row.batch, row.head, row.token);
    lanes.each(p.v.dim, [&](std::int64_t c) {
      core::write_real(p.out.data, p.out.type, to + c,
                       finish.value(p, core::with_lost(mine.weighted[c], mine.lost[c])));
    });
  }
};

template <class A>
struct combine_attention_rows {
  core::combine_attention_problem p;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    auto* const state = static_cast<max_sum<A>*>(p.states.data) + row;
    const auto both = core::attention_combination<A>::of(
        *state, static_cast<const max_sum<A>*>(p.more.data)[row]);
    const A* const more =
        static_cast<const A*>(p.more_weighted.data) + core::offset_of(p.more_weighted, row);
    A* const to = static_cast<A*>(p.weighted.data) + core::offset_of(p.weighted, row);
    for (std::int64_t i = 0; i < p.weighted.dim; ++i) {
      to[i] = both.sum(to[i], more[i]);
    }
    *state = both.whole;
  }
};

template <class A>
struct normalize_attention_rows {
  core::normalize_attention_problem p;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    const auto result =
        core::attention_result<A>::of(static_cast<const max_sum<A>*>(p.states.data)[row], p.policy);
    const A* const o = static_cast<const A*>(p.weighted.data) + core::offset_of(p.weighted, row);
    const std::int64_t to = core::offset_of(p.out, row);
    for (std::int64_t i = 0; i < p.out.dim; ++i) {
      core::write_real(p.out.data, p.out.type, to + i, result.of_weighted(o[i]));
    }
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

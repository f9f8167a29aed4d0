// SPDX-License-Identifier: Apache-2.0
/// \file
/// The oracle of attention: a query of one head in wider arithmetic. Which keys exist, and what is
/// added to their scores, is the caller's to say.
#pragma once

#include <core/reference.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace softfold::core::reference {

/// A key that exists.
template <wide Wide>
struct attention_key {
  std::span<const Wide> k;
  std::span<const Wide> v;
  Wide bias = 0;
};

template <wide Wide>
struct attention_query {
  std::span<const Wide> q;
  Wide scale = 1;
  Wide softcap = 0;                                    ///< 0: none
  Wide sink = -std::numeric_limits<Wide>::infinity();  ///< a score without a value
};

template <wide Wide>
struct attention_answer {
  row_kind kind = row_kind::empty;  ///< of the scores, the sink among them
  Wide max = -std::numeric_limits<Wide>::infinity();
  Wide lse = max;
  std::vector<Wide> out;     ///< of an empty row, 0
  std::vector<Wide> spread;  ///< sum of p |v|
  /// Of a score, in units of the arithmetic's u: (dim + 2) |scale| sum |q k|, and what a bias and
  /// the score were rounded by; the largest of the keys'.
  Wide score_error = 0;
  std::int64_t keys = 0;
};

template <wide Wide>
[[nodiscard]] attention_answer<Wide> attention(const attention_query<Wide>& query,
                                               std::span<const attention_key<Wide>> keys,
                                               std::size_t v_dim) {
  attention_answer<Wide> answer;
  answer.out.resize(v_dim);
  answer.spread.resize(v_dim);
  answer.keys = static_cast<std::int64_t>(keys.size());
  constexpr Wide infinity = std::numeric_limits<Wide>::infinity();
  const Wide nan = std::numeric_limits<Wide>::quiet_NaN();
  std::vector<Wide> scores;
  bool has_nan = std::isnan(query.sink);
  answer.max = query.sink;
  for (const attention_key<Wide>& key : keys) {
    compensated_sum<Wide> product;
    Wide magnitude = 0;
    Wide plain = 0;
    for (std::size_t i = 0; i < query.q.size(); ++i) {
      const Wide term = query.q[i] * key.k[i];
      product.add(term);
      plain += term;
      magnitude += std::abs(term);
    }
    Wide score = query.scale * (std::isfinite(plain) ? product.value() : plain);
    if (query.softcap != 0) {
      score = query.softcap * std::tanh(score / query.softcap);
    }
    score += key.bias;
    scores.push_back(score);
    has_nan = has_nan || std::isnan(score);
    answer.max = std::max(answer.max, score);
    if (std::isfinite(score)) {
      const Wide error = static_cast<Wide>(query.q.size() + 2) * std::abs(query.scale) * magnitude +
                         (key.bias != 0 ? 2 * std::abs(key.bias) + std::abs(score) : 0);
      answer.score_error = std::max(answer.score_error, error);
    }
  }
  if (has_nan || answer.max == infinity) {
    answer.kind = has_nan ? row_kind::nan : row_kind::infinite;
    answer.max = has_nan ? nan : infinity;
    answer.lse = answer.max;
    answer.out.assign(v_dim, nan);
    return answer;
  }
  if (answer.max == -infinity) {
    return answer;
  }
  answer.kind = row_kind::finite;
  compensated_sum<Wide> sum;
  sum.add(std::exp(query.sink - answer.max));
  std::vector<compensated_sum<Wide>> weighted(v_dim);
  for (std::size_t j = 0; j < keys.size(); ++j) {
    if (scores[j] == -infinity) {
      continue;
    }
    const Wide weight = std::exp(scores[j] - answer.max);
    sum.add(weight);
    for (std::size_t i = 0; i < v_dim; ++i) {
      weighted[i].add(weight * keys[j].v[i]);
      answer.spread[i] += weight * std::abs(keys[j].v[i]);
    }
  }
  for (std::size_t i = 0; i < v_dim; ++i) {
    answer.out[i] = weighted[i].value() / sum.value();
    answer.spread[i] /= sum.value();
  }
  answer.lse = answer.max + std::log(sum.value());
  return answer;
}

}  // namespace softfold::core::reference

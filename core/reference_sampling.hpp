// SPDX-License-Identifier: Apache-2.0
/// \file
/// The oracle of sample(): docs/sampling.md on one row in long double, written for the reader. It
/// shares the random bits with the library, no arithmetic.
#pragma once

#include <core/reference.hpp>
#include <core/sampling.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace softfold::core::reference {

struct sample_result {
  std::int64_t token = -1;
  double log_probability = 0;
  double raw_log_probability = 0;
  double lse = 0;
  std::int64_t kept = 0;
  double kept_mass = 0;
  double margin = 0;                ///< the winner's key over the next one's, in its last places
  std::vector<std::int64_t> order;  ///< the elements that are kept, first to last
};

/// E of 64 random bits.
[[nodiscard]] inline long double exponential_number(std::uint64_t bits) {
  const auto uniform = [](std::uint64_t r) {
    return (static_cast<long double>(r) + 0.5L) * 0x1p-64L;
  };
  return bits >> 63 == 0 ? -std::log1p(-uniform(bits)) : -std::log(uniform(~bits));
}

/// The weight of an element so far below the largest, in units of 2^-50.
[[nodiscard]] inline long double weight_of(long double below) {
  return std::nearbyint(std::exp(-below) * 0x1p50L);
}

/// A draw from a row.
template <element T>
[[nodiscard]] sample_result sample(std::span<const T> row, const sampling::parameters& p,
                                   filter_order order = filter_order::top_k_first,
                                   std::uint32_t draw = 0) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> x(row.size());
  std::transform(row.begin(), row.end(), x.begin(),
                 [](T v) { return static_cast<double>(static_cast<arithmetic_t<T>>(v)); });
  const std::vector<std::int64_t> ranked = topk(std::span<const double>(x), x.size());
  const auto at = [&](std::int64_t column) { return x[static_cast<std::size_t>(column)]; };

  sample_result result;
  const bool valid = sampling::are_valid<arithmetic_t<T>>(p);
  const auto nothing = [&](double log, std::int64_t token) {
    result.token = token;
    result.log_probability = log;
    result.kept = token < 0 ? 0 : 1;
    result.kept_mass = log == -infinity ? 0 : nan;
    return result;
  };
  if (ranked.empty() || at(ranked[0]) == -infinity) {
    result.lse = -infinity;
    result.raw_log_probability = valid ? -infinity : nan;
    return nothing(valid ? -infinity : nan, -1);
  }
  result.lse = at(ranked[0]);  // if it is not finite
  result.raw_log_probability = nan;
  const auto sum_below = [&](long double largest, long double scale) {
    long double sum = 0;
    for (const double v : x) {
      sum += v == -infinity ? 0 : std::exp(scale * static_cast<long double>(v) - largest);
    }
    return sum;
  };
  const auto largest_as_it_is = static_cast<long double>(result.lse);
  long double log_of_sum = 0;
  if (std::isfinite(result.lse)) {
    log_of_sum = std::log(sum_below(largest_as_it_is, 1));
    result.lse = static_cast<double>(largest_as_it_is + log_of_sum);
  }
  if (!valid || std::isnan(at(ranked[0]))) {
    return nothing(nan, -1);
  }
  if (at(ranked[0]) == infinity) {
    return nothing(nan, ranked[0]);
  }
  const auto raw = [&](std::int64_t token) {
    return static_cast<double>(static_cast<long double>(at(token)) - largest_as_it_is - log_of_sum);
  };
  if (p.temperature == 0) {
    result.token = ranked[0];
    result.raw_log_probability = raw(result.token);
    result.kept = 1;
    result.kept_mass = 1;
    result.margin = infinity;
    result.order = {ranked[0]};
    return result;
  }

  const double scale = sampling::scale_of<arithmetic_t<T>>(p.temperature);
  const auto z = [&](std::int64_t column) {
    return scale == 0 && at(column) != -infinity ? 0.0 : scale * at(column);
  };
  const double largest = z(ranked[0]);
  if (std::isinf(largest)) {
    result.raw_log_probability = largest < 0 ? -infinity : raw(ranked[0]);
    return nothing(largest < 0 ? -infinity : nan, largest < 0 ? -1 : ranked[0]);
  }
  const auto below = [&](std::int64_t column) {
    return static_cast<long double>(largest) - static_cast<long double>(z(column));
  };
  const auto weight = [&](std::int64_t column) { return weight_of(below(column)); };

  // min-p, then top-k, then top-p; each keeps a prefix of the order.
  std::vector<std::int64_t> all;
  for (const std::int64_t column : ranked) {
    if (z(column) > -infinity) {
      all.push_back(column);
    }
  }
  const auto weight_of_first = [&](std::size_t count) {
    long double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += weight(all[i]);
    }
    return sum;
  };
  std::size_t kept = all.size();
  if (p.min_p > 0) {
    while (below(all[kept - 1]) > -std::log(static_cast<long double>(p.min_p))) {
      --kept;
    }
  }
  if (p.top_k > 0) {
    kept = std::min(kept, static_cast<std::size_t>(p.top_k));
  }
  if (p.top_p < 1) {
    const long double whole = weight_of_first(order == filter_order::joint ? all.size() : kept);
    const long double share = std::max(1.0L, std::ceil(static_cast<long double>(p.top_p) * whole));
    std::size_t n = 0;
    for (long double sum = 0; sum < share && n < kept; ++n) {
      sum += weight(all[n]);
    }
    kept = n;
  }
  result.kept = static_cast<std::int64_t>(kept);
  result.kept_mass = static_cast<double>(weight_of_first(kept) / weight_of_first(all.size()));
  result.order.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept));

  double best = -infinity;
  double second = best;
  for (const std::int64_t column : result.order) {
    const std::uint64_t bits = sampling::random_bits({p.seed, p.offset, draw}, column);
    const auto key = static_cast<double>(static_cast<long double>(z(column)) -
                                         std::log(exponential_number(bits)));
    if (key > best || (key == best && column < result.token)) {
      second = best;
      best = key;
      result.token = column;
    } else {
      second = std::max(second, key);
    }
  }
  const double size = std::max(1.0, std::abs(best));
  result.margin =
      second == -infinity ? infinity : (best - second) / (std::nextafter(size, infinity) - size);
  const long double sum_kept = weight_of_first(kept) * 0x1p-50L;
  result.log_probability = static_cast<double>(-below(result.token) - std::log(sum_kept));
  result.raw_log_probability = raw(result.token);
  return result;
}

/// The probability of each element by what a row's parameters make of it; 0 where nothing is drawn.
template <element T>
[[nodiscard]] std::vector<long double> probabilities(std::span<const T> row,
                                                     const sampling::parameters& p,
                                                     filter_order order) {
  std::vector<long double> result(row.size());
  const sample_result of = sample(row, p, order);
  if (of.token < 0) {
    return result;
  }
  if (of.order.size() < 2) {  // a single element, or an infinite one
    result[static_cast<std::size_t>(of.token)] = 1;
    return result;
  }
  const double scale = sampling::scale_of<arithmetic_t<T>>(p.temperature);
  const auto z = [&](std::int64_t c) {
    const auto x =
        static_cast<double>(static_cast<arithmetic_t<T>>(row[static_cast<std::size_t>(c)]));
    return static_cast<long double>(scale == 0 ? 0.0 : scale * x);
  };
  long double sum = 0;
  for (const std::int64_t c : of.order) {
    const long double weight = weight_of(z(of.order[0]) - z(c));
    result[static_cast<std::size_t>(c)] = weight;
    sum += weight;
  }
  for (long double& one : result) {
    one /= sum;
  }
  return result;
}

struct verify_result {
  std::vector<std::int64_t> tokens;  ///< the chain's
  /// How far from each other, relatively, the two numbers were that decided most closely.
  double margin = std::numeric_limits<double>::infinity();
};

/// One chain by ratio. targets(i), drafts(i): the row of place i; of(i): its parameters.
template <element T, class Targets, class Drafts, class Parameters>
[[nodiscard]] verify_result verify(const Targets& targets, const Drafts& drafts,
                                   std::span<const std::int64_t> draft_tokens, const Parameters& of,
                                   filter_order order) {
  verify_result result;
  const auto decide = [&](long double a, long double b) {
    const long double size = std::max(std::abs(a), std::abs(b));
    if (a != b) {
      result.margin = std::min(result.margin, static_cast<double>(std::abs(a - b) / size));
    }
    return a < b;
  };
  for (std::size_t i = 0; i <= draft_tokens.size(); ++i) {
    const std::span<const T> target = targets(i);
    const sampling::parameters own = of(i);
    const sample_result alone = sample(target, own, order);
    if (i == draft_tokens.size() || alone.token < 0) {
      result.tokens.push_back(alone.token);
      break;
    }
    const std::vector<long double> p = probabilities(target, own, order);
    const std::vector<long double> q = probabilities(drafts(i), own, order);
    const std::int64_t token = draft_tokens[i];
    const auto cols = static_cast<std::int64_t>(target.size());
    const std::uint64_t coin = sampling::random_bits({own.seed, own.offset, 1}, 0);
    const long double u = (static_cast<long double>(coin >> 12) + 0.5L) * 0x1p-52L;
    const auto at = static_cast<std::size_t>(token);
    if (token >= 0 && token < cols && decide(u * q[at], p[at])) {
      result.tokens.push_back(token);
      continue;
    }
    std::int64_t best[2] = {-1, -1};
    long double keys[2] = {0, 0};
    for (std::int64_t c = 0; c < cols; ++c) {
      const long double noise =
          std::log(exponential_number(sampling::random_bits({own.seed, own.offset, 2}, c)));
      const auto column = static_cast<std::size_t>(c);
      const long double rest[2] = {p[column] - q[column], p[column]};
      for (int which = 0; which < 2; ++which) {
        // A difference of what is equal but for its rounding is nothing.
        if (rest[which] > 1e-13L * p[column] &&
            (best[which] < 0 || decide(keys[which], std::log(rest[which]) - noise))) {
          best[which] = c;
          keys[which] = std::log(rest[which]) - noise;
        }
      }
    }
    result.tokens.push_back(best[0] >= 0 ? best[0] : best[1]);
    break;
  }
  return result;
}

}  // namespace softfold::core::reference

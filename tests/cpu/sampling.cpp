// SPDX-License-Identifier: Apache-2.0
// Sampling's distribution: millions of draws from fixed seeds, so that a run is like the last. The
// tokens are those of every backend; the cpu backend draws them soonest.
#include <core/reference_sampling.hpp>

#include <softfold/softfold.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace softfold;  // NOLINT(google-build-using-namespace)

namespace {

/// How far a chi-square of so many degrees of freedom is from its mean, as a normal number (Wilson
/// and Hilferty).
double normal_of(double chi_square, double degrees) {
  const double variance = 2 / (9 * degrees);
  return (std::cbrt(chi_square / degrees) - (1 - variance)) / std::sqrt(variance);
}

struct fit {
  double chi_square = 0;
  double likelihood = 0;  ///< G
};

/// Of counts and probabilities. Cells of few expected hits are put together.
fit fit_of(const std::vector<std::int64_t>& counts, const std::vector<double>& probabilities,
           double draws) {
  double chi = 0;
  double g = 0;
  int cells = 0;
  double rest_expected = 0;
  double rest_found = 0;
  const auto add = [&](double found, double expected) {
    chi += (found - expected) * (found - expected) / expected;
    g += found > 0 ? 2 * found * std::log(found / expected) : 0;
    ++cells;
  };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * draws;
    const auto found = static_cast<double>(counts[i]);
    if (expected < 10) {
      rest_expected += expected;
      rest_found += found;
    } else {
      add(found, expected);
    }
  }
  if (rest_expected >= 1) {
    add(rest_found, rest_expected);
  }
  return {normal_of(chi, cells - 1), normal_of(g, cells - 1)};
}

std::vector<float> logits(std::int64_t cols, float spread) {
  std::vector<float> x;
  std::uint32_t i = 77;
  for (std::int64_t c = 0; c < cols; ++c) {
    i = i * 1664525U + 1013904223U;
    const auto a = static_cast<float>(i >> 8) * 0x1p-24F;
    i = i * 1664525U + 1013904223U;
    const auto b = static_cast<float>(i >> 8) * 0x1p-24F;
    x.push_back(spread * (a + b - 1));
  }
  return x;
}

class sampler {
 public:
  explicit sampler(std::vector<float> x) : x_(std::move(x)) {}

  /// body(token) for each of `draws` draws, many of an offset.
  template <class Body>
  void each(sample_options o, std::int64_t draws, Body&& body) {
    constexpr std::int64_t most = 1 << 16;
    for (; draws > 0; draws -= most, ++o.offset) {
      tokens_.resize(static_cast<std::size_t>(std::min(draws, most)));
      const auto n = static_cast<std::int64_t>(tokens_.size());
      sample(q_, matrix_view<const float>(x_.data(), 1, static_cast<std::int64_t>(x_.size())),
             matrix_view<std::int32_t>(tokens_.data(), 1, n), o);
      std::for_each(tokens_.begin(), tokens_.end(), body);
    }
  }
  [[nodiscard]] std::vector<std::int64_t> counts(const sample_options& o, std::int64_t draws) {
    std::vector<std::int64_t> found(x_.size());
    each(o, draws, [&](std::int32_t token) { ++found[static_cast<std::size_t>(token)]; });
    return found;
  }
  /// What the oracle's filters keep, normalised.
  [[nodiscard]] std::vector<double> probabilities(const sample_options& o) const {
    const auto kept =
        core::reference::sample(std::span<const float>(x_),
                                {o.temperature, o.top_p, o.min_p, o.top_k, 0, 0}, o.order)
            .order;
    std::vector<double> p(x_.size());
    double sum = 0;
    for (const std::int64_t c : kept) {
      const auto i = static_cast<std::size_t>(c);
      p[i] = std::exp(static_cast<double>(x_[i]) / o.temperature);
      sum += p[i];
    }
    for (double& one : p) {
      one /= sum;
    }
    return p;
  }

 private:
  queue q_;
  std::vector<float> x_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace

TEST_SUITE_BEGIN("sampling");

TEST_CASE("2 million draws of each filter fit their probabilities") {
  constexpr std::int64_t draws = 2'000'000;
  sampler of(logits(256, 6));
  std::vector<sample_options> all(6);
  all[1].temperature = 0.5;
  all[2].top_k = 50;
  all[3].top_p = 0.8;
  all[4].min_p = 0.1;
  all[5].temperature = 1.5;
  all[5].top_k = 150;
  all[5].top_p = 0.6;
  all[5].min_p = 0.01;
  all[5].order = filter_order::joint;
  std::uint64_t seed = 9000;
  for (sample_options& o : all) {
    o.seed = ++seed;
    const auto counts = of.counts(o, draws);
    const auto p = of.probabilities(o);
    for (std::size_t i = 0; i < p.size(); ++i) {
      REQUIRE((p[i] > 0 || counts[i] == 0));
    }
    const fit f = fit_of(counts, p, static_cast<double>(draws));
    INFO("seed " << seed);
    CHECK(std::abs(f.chi_square) < 3.5);
    CHECK(std::abs(f.likelihood) < 3.5);
  }
}

TEST_CASE("p-values of 100 seeds are uniform") {
  constexpr std::int64_t draws = 20000;
  sampler of(logits(64, 6));
  std::vector<double> p_values;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    sample_options o;
    o.seed = seed;
    o.top_p = 0.9;
    const fit f = fit_of(of.counts(o, draws), of.probabilities(o), static_cast<double>(draws));
    p_values.push_back(0.5 * std::erfc(f.chi_square / std::sqrt(2.0)));
  }
  std::sort(p_values.begin(), p_values.end());
  double distance = 0;  // Kolmogorov and Smirnov's
  for (std::size_t i = 0; i < p_values.size(); ++i) {
    const auto n = static_cast<double>(p_values.size());
    distance = std::max({distance, static_cast<double>(i + 1) / n - p_values[i],
                         p_values[i] - static_cast<double>(i) / n});
  }
  CHECK(distance < 0.163);  // one in a hundred is above
}

// Noise of 24 bits, or an f32 uniform near 1, never draws one of these.
TEST_CASE("the tail: tokens of a probability below 2^-25 and 2^-29") {
  struct tail {
    std::int64_t tokens;
    float gap;
    std::int64_t draws, least, most;  ///< five in ten thousand are outside
  };
  // 32.1 and 6.6 hits are expected.
  for (const tail& t :
       {tail{16'384, 17.75F, 100'000, 15, 54}, tail{262'144, 20.5F, 20'000, 1, 17}}) {
    std::vector<float> x(static_cast<std::size_t>(t.tokens) + 1, -t.gap);
    x[10'000] = 0;
    sampler of(std::move(x));
    std::int64_t hits = 0;
    sample_options o;
    o.seed = 4;
    of.each(o, t.draws, [&](std::int32_t token) { hits += token != 10'000 ? 1 : 0; });
    CAPTURE(t.tokens);
    CHECK(hits >= t.least);
    CHECK(hits <= t.most);
  }
}

// Pairs of draws, of neighbours in each thing that noise depends on, fit the product.
TEST_CASE("seeds, offsets and draws do not go along with each other") {
  constexpr std::int64_t pairs = 200'000;
  constexpr std::size_t cols = 8;
  sampler of(logits(cols, 2));
  const auto p = of.probabilities({});
  std::vector<double> product;
  for (const double a : p) {
    for (const double b : p) {
      product.push_back(a * b);
    }
  }
  const auto check = [&](const char* what, const std::vector<std::int32_t>& tokens,
                         std::size_t step, std::size_t distance) {
    std::vector<std::int64_t> counts(product.size());
    for (std::size_t i = 0; i + distance < tokens.size(); i += step) {
      ++counts[static_cast<std::size_t>(tokens[i]) * cols +
               static_cast<std::size_t>(tokens[i + distance])];
    }
    std::int64_t n = 0;
    for (const std::int64_t c : counts) {
      n += c;
    }
    INFO(what);
    CHECK(std::abs(fit_of(counts, product, static_cast<double>(n)).chi_square) < 3.5);
  };
  std::vector<std::int32_t> tokens;
  const auto take = [&](std::int32_t token) { tokens.push_back(token); };
  of.each({.seed = 11}, 2 * pairs, take);
  check("draws", tokens, 2, 1);

  // Rows by rows: seeds 0, 1, 2, ... of one offset, offsets of one seed.
  const std::vector<float> row = logits(cols, 2);
  std::vector<float> x;
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < 2 * pairs; ++i) {
    x.insert(x.end(), row.begin(), row.end());
    numbers.push_back(i);
  }
  queue q;
  tokens.resize(numbers.size());
  const matrix_view<const float> rows(x.data(), 2 * pairs, cols);
  const matrix_view<std::int32_t> to(tokens.data(), 2 * pairs, 1);
  sample(q, rows, to, {.seeds = numbers});
  check("seeds", tokens, 2, 1);
  sample(q, rows, to, {.seed = 12, .offsets = numbers});
  check("offsets", tokens, 2, 1);
  check("offsets 256 apart", tokens, 1, 256);
}

// A drafter that is wrong about the target, whose drafts come from the same seeds and offsets that
// verification takes its noise from.
TEST_CASE("verified drafts have the target's distribution") {
  constexpr std::int64_t cols = 24;
  constexpr std::int64_t drafts = 2;
  constexpr std::int64_t places = drafts + 1;
  const std::vector<float> all = logits(cols * (places + drafts), 5);
  struct check {
    std::int64_t chains;
    sample_options options;
  };
  std::vector<check> checks(3);
  checks[0].chains = 150'000;
  checks[1].chains = 60'000;
  checks[1].options.top_k = 12;
  checks[1].options.top_p = 0.9;
  checks[2].chains = 60'000;
  checks[2].options.temperature = 1.5;
  checks[2].options.min_p = 0.1;
  for (check& each : checks) {
    const std::int64_t chains = each.chains;
    sample_options& o = each.options;
    std::vector<float> target, draft;
    std::vector<std::int64_t> seeds, offsets, draft_seeds, draft_offsets;
    for (std::int64_t c = 0; c < chains; ++c) {
      target.insert(target.end(), all.begin(), all.begin() + places * cols);
      draft.insert(draft.end(), all.begin() + places * cols, all.end());
      for (std::int64_t i = 0; i < places; ++i) {
        seeds.push_back(c);
        offsets.push_back(i);
      }
      for (std::int64_t i = 0; i < drafts; ++i) {
        draft_seeds.push_back(c);
        draft_offsets.push_back(i);
      }
    }
    // The draft's logits are the target's, half of them, and as much of its own.
    for (std::size_t i = 0; i < draft.size(); ++i) {
      const std::size_t chain = i / (drafts * cols);
      draft[i] = (draft[i] + target[chain * places * cols + i % (drafts * cols)]) / 2;
    }
    const matrix_view<const float> x(target.data(), chains * places, cols);
    const matrix_view<const float> d(draft.data(), chains * drafts, cols);
    std::vector<std::int32_t> drafted(draft_seeds.size()), tokens(seeds.size());
    std::vector<std::int32_t> accepted(static_cast<std::size_t>(chains));
    const matrix_view<std::int32_t> to(tokens.data(), chains, places);
    queue q;
    o.seeds = draft_seeds;
    o.offsets = draft_offsets;
    sample(q, d, matrix_view<std::int32_t>(drafted.data(), chains * drafts, 1), o);
    o.seeds = seeds;
    o.offsets = offsets;
    std::vector<std::vector<double>> p, rest;
    const auto row_of = [&](const std::vector<float>& from, std::int64_t r) {
      return std::vector<float>(from.begin() + r * cols, from.begin() + (r + 1) * cols);
    };
    for (std::int64_t i = 0; i < places; ++i) {
      p.push_back(sampler(row_of(target, i)).probabilities(o));
      rest.push_back(i < drafts ? sampler(row_of(draft, i)).probabilities(o) : p.back());
    }
    for (const bool by_ratio : {true, false}) {
      verify(q, x, by_ratio ? const_matrix_ref(d) : const_matrix_ref{},
             matrix_view<const std::int32_t>(drafted.data(), chains, drafts), to, accepted, o);
      CAPTURE(chains);
      CAPTURE(by_ratio);
      std::int64_t reached = chains;
      for (std::int64_t i = 0; i < places; ++i) {
        std::vector<std::int64_t> counts(cols);
        std::int64_t taken = 0;
        for (std::int64_t c = 0; c < chains; ++c) {
          const std::int32_t token = tokens[static_cast<std::size_t>(c * places + i)];
          const std::int32_t length = accepted[static_cast<std::size_t>(c)];
          REQUIRE((token < 0) == (i > length));
          if (token >= 0) {
            ++counts[static_cast<std::size_t>(token)];
          }
          taken += length > i ? 1 : 0;
        }
        const auto n = static_cast<double>(reached);
        const auto at = static_cast<std::size_t>(i);
        CAPTURE(i);
        for (std::size_t t = 0; t < cols; ++t) {
          REQUIRE((p[at][t] > 0 || counts[t] == 0));
        }
        CHECK(std::abs(fit_of(counts, p[at], n).chi_square) < 3.5);
        double common = 0;
        for (std::size_t t = 0; t < cols; ++t) {
          common += std::min(p[at][t], rest[at][t]);
        }
        if (i < drafts && by_ratio) {  // accepted as often as the two have in common
          CHECK(std::abs(static_cast<double>(taken) - common * n) <
                3.5 * std::sqrt(n * common * (1 - common)));
        } else if (i < drafts) {
          CHECK(static_cast<double>(taken) >
                n * common / (2 - common) - 3.5 * std::sqrt(n * common * (1 - common)));
        }
        reached = taken;
      }
    }
  }
}

TEST_CASE("the words of neighbouring tokens do not go along with each other") {
  constexpr std::int64_t n = 1'000'000;
  const core::sampling::noise noise = {21, 22, 0};
  std::vector<double> u;
  for (std::int64_t t = 0; t < n; ++t) {
    u.push_back(static_cast<double>(core::sampling::random_bits(noise, t)) * 0x1p-64 - 0.5);
  }
  for (const std::size_t distance : {1U, 2U, 7U, 8U, 64U}) {
    double sum = 0;
    for (std::size_t i = 0; i + distance < u.size(); ++i) {
      sum += u[i] * u[i + distance];
    }
    const double correlation = 12 * sum / static_cast<double>(n);
    CAPTURE(distance);
    CHECK(std::abs(correlation) * std::sqrt(static_cast<double>(n)) < 3.5);
  }
}

TEST_SUITE_END();

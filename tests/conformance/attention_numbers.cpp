// SPDX-License-Identifier: Apache-2.0
// attention of numbers near and below the least normal one, of large scores, and beside keys that a
// row does not have.
#include "attention_problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace softfold::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Out, class In>
tensor<Out> attend(queue& q, const attention_case<In>& c, const attention_options& options) {
  tensor<Out> out(c.output_layout(c.spec.v_dim), role::output);
  attention(q, c.q.view(), c.k.view(), c.v.view(), out.view(), options);
  q.wait();
  out.download();
  CHECK(out.is_clean());
  return out;
}

template <class In>
void check_attention(queue& q, attention_case<In>& c) {
  using A = typename attention_case<In>::A;
  c.commit();
  tensor<A> lse(c.output_layout(1), role::output);
  attention_options options = c.options;
  options.lse = lse.view();
  const tensor<A> out = attend<A>(q, c, options);
  lse.download();
  c.check(out, &lse, "attention");
}

TEST_SUITE("attention") {
  TEST_CASE_TEMPLATE("scores far from 0", In, SOFTFOLD_TEST_INPUT_TYPES) {
    // The first elements alone make the scores, which no step of theirs rounds, so that results are
    // bounded by what weights and sums round. Some keys have the largest; or the first 200 are far
    // below the others.
    using A = typename attention_case<In>::A;
    queue q;
    constexpr std::int64_t keys = 300;
    for (const packing how : {packing::heads_first, packing::tokens_first}) {
      for (const std::int64_t dim : {16, 136}) {
        for (const double scale : {0x1p-10, 1.0, 0x1p6, 0x1p12}) {
          for (const int kind : {0, 1, 2, 3}) {
            const bool rises = kind >= 2;
            const double sign = kind % 2 == 0 ? 1.0 : -1.0;
            attention_case<In> c({.queries = 40,
                                  .keys = keys,
                                  .dim = dim,
                                  .v_dim = dim,
                                  .how = how,
                                  .scale = scale,
                                  .seed = 40});
            std::vector<double> of_keys;
            for (std::int64_t j = 0; j < keys; ++j) {
              const auto pair = static_cast<double>(j % 64 / 2);
              of_keys.push_back(!rises ? 1024 - 8 * pair : j < 200 ? -1024 * sign : 0x1p-21 * pair);
              c.k.row(0, 0, j)[0] = make<In>(of_keys.back());
            }
            for (std::int64_t i = 0; i < 40; ++i) {
              const std::span<In> row = c.q.row(0, 0, i);
              std::fill(row.begin(), row.end(), make<In>(0));
              row[0] = make<In>(sign * 512 * static_cast<double>(1 + i % 3));
            }
            c.commit();
            tensor<A> lse(c.output_layout(1), role::output);
            attention_options options = c.options;
            options.lse = lse.view();
            const tensor<A> out = attend<A>(q, c, options);
            lse.download();
            double worst = 0;  // of what is allowed
            for (std::int64_t i = 0; i < 40; ++i) {
              const double query = sign * 512 * static_cast<double>(1 + i % 3);
              double top = -infinity;
              for (const double k : of_keys) {
                top = std::max(top, scale * query * k);
              }
              double sum = 0;
              std::vector<double> o(static_cast<std::size_t>(dim));
              std::vector<double> size(o.size());
              for (std::int64_t j = 0; j < keys; ++j) {
                const double p =
                    std::exp(scale * query * of_keys[static_cast<std::size_t>(j)] - top);
                sum += p;
                for (std::size_t n = 0; n < o.size(); ++n) {
                  const auto v = static_cast<double>(reference::widen(c.v.row(0, 0, j)[n]));
                  o[n] += p * v;
                  size[n] += p * std::fabs(v);
                }
              }
              constexpr double u = std::numeric_limits<A>::epsilon() / 2;
              for (std::size_t n = 0; n < o.size(); ++n) {
                const auto y = static_cast<double>(out.row(0, 0, i)[n]);
                const double allowed = (weight_error<In> + 64 * u) * size[n] / sum;
                worst = std::max(worst, std::fabs(y - o[n] / sum) / allowed);
                worst = y == y ? worst : infinity;
              }
              const double exact = top + std::log(sum);
              const auto y = static_cast<double>(lse.row(0, 0, i)[0]);
              worst = std::max(worst, std::fabs(y - exact) / (u * (2 * std::fabs(exact) + 64)));
              worst = y == y ? worst : infinity;
            }
            INFO("dim ", dim, ", scale ", scale, ", kind ", kind);
            CHECK(worst <= 1);
          }
        }
      }
    }
  }

  TEST_CASE_TEMPLATE("one key of many rows gives its value, whatever its score", In,
                     SOFTFOLD_TEST_INPUT_TYPES) {
    using A = typename attention_case<In>::A;
    queue q;
    for (const std::int64_t dim : {16, 136}) {
      for (const double scale : {1.0, 37.0, 999.0}) {
        attention_case<In> c({.queries = 40,
                              .keys = 40,
                              .dim = dim,
                              .v_dim = dim,
                              .scale = scale,
                              .corner = causal::top_left,
                              .window_left = 0,
                              .seed = 41});
        const tensor<A> out = attend<A>(q, c, c.options);
        bool same = true;
        for (std::int64_t i = 0; i < 40; ++i) {
          for (std::size_t n = 0; n < static_cast<std::size_t>(dim); ++n) {
            same = same && out.row(0, 0, i)[n] == reference::widen(c.v.row(0, 0, i)[n]);
          }
        }
        CHECK(same);
      }
    }
  }

  TEST_CASE_TEMPLATE("elements below the least normal number count", In, float, bfloat16) {
    queue q;
    for (const std::int64_t queries : {5, 12, 110}) {
      for (const std::int64_t dim : {3, 40}) {
        for (const bool in_keys : {false, true}) {
          // Their products with large ones are scores like others.
          attention_case<In> c(
              {.queries = queries, .keys = 300, .dim = dim, .v_dim = 20, .scale = 1.0, .seed = 40});
          for (std::int64_t i = 0; i < queries; ++i) {
            c.q.row(0, 0, i)[1] =
                make<In>(in_keys ? std::ldexp(1 + 0.25 * static_cast<double>(i % 7), 126)
                                 : std::ldexp(static_cast<double>(i % 3 * 40), -133));
          }
          for (std::int64_t j = 0; j < 300; ++j) {
            c.k.row(0, 0, j)[1] =
                make<In>(in_keys ? std::ldexp(static_cast<double>(j % 4 * 30), -133)
                                 : std::ldexp(1 + 0.25 * static_cast<double>(j % 8), 126));
          }
          check_attention(q, c);
        }
      }
    }
  }

  TEST_CASE_TEMPLATE("values near the least normal number count", In, float, bfloat16) {
    queue q;
    for (const std::int64_t queries : {5, 12, 110}) {
      // Many small weights, whose products with them are below it, beside a large one of 0.
      attention_case<In> c({.queries = queries,
                            .keys = 1000,
                            .dim = 2,
                            .v_dim = 37,
                            .scale = 1.0,
                            .equal_scores = true,
                            .seed = 41});
      for (std::int64_t i = 0; i < queries; ++i) {
        c.q.row(0, 0, i)[0] = make<In>(1);
      }
      for (std::int64_t j = 0; j < 1000; ++j) {
        c.k.row(0, 0, j)[0] = make<In>(j == 0 ? 7 : 0);
        for (In& x : c.v.row(0, 0, j)) {
          x = make<In>(j == 0 ? 0 : std::ldexp(1 + 0.125 * static_cast<double>(j % 5), -120));
        }
      }
      check_attention(q, c);
      // One key gives its value.
      for (std::size_t i = 0; i < 37; ++i) {
        c.v.row(0, 0, 0)[i] = make<In>(std::ldexp(static_cast<double>(i), -133));
      }
      c.commit();
      const std::int64_t one = 1;
      const device_vector<std::int64_t> length{std::span<const std::int64_t>(&one, 1)};
      attention_options options = c.options;
      options.key_lengths = length.ref();
      const tensor<In> out = attend<In>(q, c, options);
      for (std::int64_t i = 0; i < queries; ++i) {
        CHECK(same_bits(std::span<const In>(out.row(0, 0, i)),
                        std::span<const In>(c.v.row(0, 0, 0))));
      }
    }
  }

  TEST_CASE_TEMPLATE("weights near the least normal number count", In, float, double) {
    queue q;
    // Those of all values that are not 0.
    constexpr double score = std::is_same_v<In, float> ? -87 : -705;
    for (const std::int64_t queries : {5, 12, 110}) {
      for (const std::int64_t dim : {2, 70}) {
        attention_case<In> c({.queries = queries,
                              .keys = 100,
                              .dim = dim,
                              .v_dim = 37,
                              .scale = 1.0,
                              .equal_scores = true,
                              .seed = 43});
        for (std::int64_t i = 0; i < queries; ++i) {
          c.q.row(0, 0, i)[0] = make<In>(1);
        }
        for (std::int64_t j = 0; j < 100; ++j) {
          c.k.row(0, 0, j)[0] = make<In>(j == 40 ? 0 : score + 0.001 * static_cast<double>(j));
          for (In& x : c.v.row(0, 0, j)) {
            x = make<In>(j == 40 ? 0 : 1e6 + static_cast<double>(j));
          }
        }
        check_attention(q, c);
      }
    }
  }

  TEST_CASE_TEMPLATE("a row's bits do not know what other keys and other rows hold", In,
                     SOFTFOLD_TEST_INPUT_TYPES) {
    using A = typename attention_case<In>::A;
    queue q;
    for (const std::int64_t tokens : {40, 150}) {
      for (const std::int64_t dim : {16, 33}) {
        attention_case<In> c({.queries = tokens,
                              .keys = tokens,
                              .dim = dim,
                              .v_dim = dim + 2,
                              .corner = causal::top_left,
                              .seed = 42});
        const tensor<A> ordinary = attend<A>(q, c, c.options);
        double largest = 0;  // of the values
        for (std::int64_t j = 0; j < tokens; ++j) {
          for (const In& x : c.v.row(0, 0, j)) {
            largest = std::max(largest, std::abs(static_cast<double>(reference::widen(x))));
          }
        }
        for (const double other :
             {0x1p-133, 0x1p-100, double{std::numeric_limits<float>::max()},
              std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
          // The key and the query of one token: earlier rows have neither.
          const std::int64_t spoiled = tokens - 9;
          const In x = make<In>(other);
          c.q.row(0, 0, spoiled)[2] = x;
          c.k.row(0, 0, spoiled)[5] = x;
          c.v.row(0, 0, spoiled)[7] = x;
          c.commit();
          const tensor<A> found = attend<A>(q, c, c.options);
          // A matrix unit's kernels compute rows again, with weights that are not rounded, where a
          // key beside theirs is not finite.
          const bool is_again = is_16_bit<In> && !std::isfinite(reference::widen(x)) &&
                                q.info().isa.starts_with("sm_");
          const double error = (std::is_same_v<In, half> ? 0x1p-10 : 0x1p-7) * largest;
          for (std::int64_t i = 0; i < spoiled; ++i) {
            const std::span<const A> own(found.row(0, 0, i));
            const std::span<const A> before(ordinary.row(0, 0, i));
            if (!is_again) {
              CHECK(same_bits(own, before));
            }
            for (std::size_t column = 0; is_again && column < own.size(); ++column) {
              CHECK(std::abs(own[column] - before[column]) <= error);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace softfold::test

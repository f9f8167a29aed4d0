// SPDX-License-Identifier: Apache-2.0
// sample's results about rows as they are: the bits that docs/numerics.md defines, on every
// backend, wherever a row lies; and the oracle's numbers.
#include "sampling.hpp"

#include <core/reproducible.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace softfold::test {
namespace {

namespace sampling = core::sampling;

constexpr double inf = std::numeric_limits<double>::infinity();

template <class Out>
bool same_bits(Out a, Out b) {
  const auto x = reference::widen(a);
  const auto y = reference::widen(b);
  return std::isnan(x) ? std::isnan(y) : std::memcmp(&a, &b, sizeof a) == 0;
}

/// What sample() writes for a number.
template <class Out>
Out written(double value) {
  return static_cast<Out>(static_cast<reference::arithmetic_t<Out>>(value));
}

/// Of whatever filters: they ask for other ways, and show in no result here but the tokens.
template <class Out, class In>
void check_raw(queue& q, problem<In>& p, const setting& s, std::int64_t draws) {
  const std::int64_t rows = p.x.rows();
  const std::int64_t n = std::min<std::int64_t>(4, p.x.cols());
  matrix<std::int32_t> tokens(p.output_layout(draws), role::output);
  matrix<std::int32_t> top_columns(p.output_layout(n), role::output);
  matrix<Out> raw(p.output_layout(draws), role::output);
  matrix<Out> top(p.output_layout(n), role::output);
  matrix<Out> lse({rows, 1, 0, p.spec.offset}, role::output);
  sample_options o = options_of(s);
  o.raw_log_probability = raw.view();
  o.lse = lse.vector();
  o.top_indices = top_columns.view();
  o.top_log_probabilities = top.view();
  sample(q, p.x.view(), tokens.view(), o);
  q.wait();
  tokens.download();
  raw.download();
  top.download();
  lse.download();
  top_columns.download();
  check_guards(p, tokens, raw, top, lse, top_columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    CAPTURE(r);
    INFO(describe(p.spec));
    const std::span<const In> row = p.x.row(r);
    using A = reference::arithmetic_t<In>;
    const auto at = [&](std::int64_t column) {
      return static_cast<A>(row[static_cast<std::size_t>(column)]);
    };
    expect(p.rows[static_cast<std::size_t>(r)].check_logsumexp(lse(r, 0)), r, p.spec);
    const auto expected = core::reproducible::total_of(A{1}, p.x.cols(), at);
    const auto log_of = [&](A element) {
      return expected.kind == sampling::row_kind::ordinary
                 ? static_cast<double>(expected.log_softmax(element))
                 : sampling::log_probability_of(expected.kind);
    };
    CHECK(same_bits(lse(r, 0), written<Out>(static_cast<double>(expected.lse))));
    for (std::int64_t j = 0; j < draws; ++j) {
      const std::int64_t token = tokens(r, j);
      CHECK(
          same_bits(raw(r, j), written<Out>(token < 0 ? sampling::log_probability_of(expected.kind)
                                                      : log_of(at(token)))));
    }
    for (std::int64_t i = 0; i < n; ++i) {
      CHECK(same_bits(top(r, i), written<Out>(log_of(at(top_columns(r, i))))));
    }
  }
}

/// One draw of each row shares a read with the totals where others do not.
template <class Out, class In>
void check_raw(queue& q, problem<In>& p, const setting& s = {}) {
  check_raw<Out>(q, p, s, 1);
  check_raw<Out>(q, p, s, 2);
}

/// A number of In near x.
template <class In>
In number(double x) {
  return static_cast<In>(static_cast<reference::arithmetic_t<In>>(x));
}

}  // namespace

TEST_SUITE_BEGIN("sample_raw");

TEST_CASE_TEMPLATE("every distribution, types and lengths", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 71000;
  for (const std::int64_t cols : {1, 2, 7, 8, 100, 1027, 9001}) {
    for (const distribution kind : all_distributions) {
      problem<typename Io::input> p({2, cols, kind, 1, 3, 1, ++seed});
      check_raw<typename Io::output>(q, p);
    }
  }
}

// A row that a device's blocks share, so that parts with different places on top come together.
TEST_CASE_TEMPLATE("long rows that rise, fall and jump", In, float, bfloat16) {
  queue q;
  constexpr std::int64_t cols = 70001;
  for (const double spread : {20.0, 80.0, 1000.0, 60000.0}) {
    problem<In> p({4, cols, distribution::normal, 1, 5, 3, 72000});
    for (std::int64_t i = 0; i < cols; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(cols - 1) - 0.5;
      const auto noise = static_cast<double>(reference::widen(p.x(0, i)));
      p.x(0, i) = number<In>(spread * share + noise);
      p.x(1, i) = number<In>(-spread * share + noise);
      p.x(2, i) = number<In>(i % 2311 == 17 ? spread + noise : -spread + noise);
      p.x(3, i) = number<In>(i == cols / 2 ? 0 : -spread);
    }
    p.commit();
    check_raw<float>(q, p);
  }
}

TEST_CASE_TEMPLATE("many equal terms, far below the largest", In, float, half) {
  queue q;
  for (const double below : {0.0, 8.0, 12.0, 17.0, 22.5, 45.0}) {
    problem<In> p({3, 40009, distribution::normal, 1, 0, 0, 73000});
    for (std::int64_t r = 0; r < 3; ++r) {
      const double largest = r == 0 ? 0 : r == 1 ? 22.1875 : -9;
      std::fill(p.x.row(r).begin(), p.x.row(r).end(), number<In>(largest - below));
      p.x(r, 40008 / (r + 1)) = number<In>(largest);
    }
    p.commit();
    check_raw<float>(q, p);
  }
}

// Filters that take other ways through the row; of many equal elements the slowest.
TEST_CASE_TEMPLATE("filters do not show", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const distribution kind : {distribution::normal, distribution::two_values}) {
    problem<In> p({2, 36011, kind, 1, 0, 0, 73500});
    for (const setting& s :
         {setting{{0.7, 1, 0, 0, 1, 2}}, setting{{1, 0.5, 0, 0, 1, 2}}, setting{{1, 1, 0, 9, 1, 3}},
          setting{{1, 1, 0, 5000, 1, 3}}, setting{{1, 0.9, 0.1, 3000, 1, 4}, filter_order::joint},
          setting{{0, 1, 0, 0, 1, 5}}}) {
      check_raw<reference::arithmetic_t<In>>(q, p, s);
    }
  }
}

// Where a sum's places begin, and two places and three further down.
TEST_CASE("elements at the edges of places") {
  queue q;
  problem<float> p({9, 300, distribution::normal, 1, 0, 0, 74000});
  const int places[] = {0, 1, -1, 2, 40, -40, 2900, -2900, 2953};
  for (std::int64_t r = 0; r < 9; ++r) {
    for (std::int64_t i = 0; i < 300; ++i) {
      const auto place = static_cast<double>(places[r] - i % 4);
      auto x = static_cast<float>((32 * place - 0.5) * 0.6931471805599453);
      for (std::int64_t step = i / 4 % 9; step > 0; --step) {
        x = std::nextafter(x, i / 36 % 2 == 0 ? 1e9F : -1e9F);
      }
      p.x(r, i) = x;
    }
  }
  p.commit();
  check_raw<float>(q, p);
}

TEST_CASE_TEMPLATE("elements far from zero", In, float, bfloat16, double) {
  queue q;
  const double far[] = {65535.99, 65536, 65600, 1048576, 3e9, 1e30, 3e38};
  for (const std::int64_t cols : {1, 50, 9000}) {
    for (const double size : far) {
      // All near a large number, of either sign; one that is, among small ones; small ones among
      // what stands for removed elements; all of these.
      problem<In> p({6, cols, distribution::normal, 1, 1, 1, 75000});
      for (std::int64_t i = 0; i < cols; ++i) {
        const auto x = static_cast<double>(reference::widen(p.x(0, i)));
        p.x(0, i) = number<In>(size + x);
        p.x(1, i) = number<In>(-size + x);
        p.x(2, i) = number<In>(i == cols / 3 ? size : x);
        p.x(3, i) = number<In>(i == cols / 3 ? x : -size);
        p.x(4, i) = number<In>(i < cols / 2 ? -size : x);
        p.x(5, i) = number<In>(i % 3 == 0 ? -size : i % 3 == 1 ? x : -inf);
      }
      p.commit();
      check_raw<reference::arithmetic_t<In>>(q, p);
    }
  }
}

TEST_CASE_TEMPLATE("rows that are not ordinary, as they are", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t cols : {7, 1000, 9000}) {
    problem<In> p({7, cols, distribution::normal, 1, 1, 1, 76000});
    make_rows_unusual(p);
    p.commit();
    check_raw<reference::arithmetic_t<In>>(q, p);
    // NaN and infinity behind large numbers.
    std::fill(p.x.row(6).begin(), p.x.row(6).end(), number<In>(60000));
    p.x(6, cols - 1) = nans<In>()[0];
    std::fill(p.x.row(5).begin(), p.x.row(5).end(), number<In>(60000));
    p.x(5, cols - 1) = In(infinity<In>);
    p.commit();
    check_raw<reference::arithmetic_t<In>>(q, p);
  }
}

// The same bits alone and among others, at another address, with one thread and with all.
TEST_CASE_TEMPLATE("where a row lies does not show in its logsumexp", In, float, bfloat16) {
  const std::int64_t cols = rows_for_gpus(1) == 1 ? 30013 : 300007;
  problem<In> p({2, cols, distribution::normal, 1, 5, 3, 77000});
  problem<In> moved({1, cols, distribution::normal, 1, 0, 0, 77001});
  queue one({.threads = 1});
  queue all;
  for (queue* q : {&one, &all}) {
    check_raw<float>(*q, p);
    check_raw<float>(*q, moved);
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

// SPDX-License-Identifier: Apache-2.0
// fold, combine and normalize: rows split anywhere and put together in any order.
//
// The final results keep the bounds of a whole row, plus 2 u for each combine that they went
// through: a partial's sum is rounded to the arithmetic's type, and a combine rounds an
// exponential, a product and a sum, the first two only for the side below the maximum.
#include "problem.hpp"

#include <numeric>
#include <random>

namespace softfold::test {

namespace {

template <class T>
using state_of = max_sum<reference::arithmetic_t<T>>;

/// The ends of the parts of a row: `parts` ranges of random length, some of them empty.
std::vector<std::int64_t> random_borders(std::int64_t cols, std::size_t parts, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<std::int64_t> anywhere(0, cols);
  std::vector<std::int64_t> borders{0, cols};
  while (borders.size() < parts + 1) {
    borders.push_back(anywhere(generator));
  }
  std::sort(borders.begin(), borders.end());
  return borders;
}

/// Columns [begin, end) of the device's matrix.
template <class T>
const_matrix_ref part_of(const matrix<T>& x, std::int64_t begin, std::int64_t end) {
  const auto whole = x.view();
  return matrix_view<const T>(whole.data + begin, whole.rows, end - begin, whole.stride);
}

template <class T>
std::vector<state_of<T>> folded(queue& q, const matrix<T>& x, std::int64_t begin, std::int64_t end,
                                double scale = 1) {
  states<reference::arithmetic_t<T>> partials(x.rows());
  fold(q, part_of(x, begin, end), partials.ref(), {.scale = scale});
  q.wait();
  return partials.values();
}

template <class State>
std::vector<State> combined(queue& q, const std::vector<State>& more,
                            const std::vector<State>& to) {
  using T = decltype(State::max);
  states<T> a{std::span<const State>(more)};
  states<T> b{std::span<const State>(to)};
  combine(q, a.ref(), b.ref());
  q.wait();
  CHECK(std::memcmp(static_cast<const void*>(a.values().data()), more.data(),
                    more.size() * sizeof(State)) == 0);
  return b.values();
}

/// Normalises the whole matrix part by part and checks it against the whole row's oracle.
template <class Out, class In>
void check_normalized(queue& q, problem<In>& p, const std::vector<state_of<In>>& whole,
                      const std::vector<std::int64_t>& borders, int combines) {
  states<reference::arithmetic_t<In>> partials{std::span<const state_of<In>>(whole)};
  matrix<Out> y(p.output_layout(p.x.cols()), role::output);
  const auto to = y.view();
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    normalize(
        q, part_of(p.x, borders[i], borders[i + 1]), partials.ref(),
        matrix_view<Out>(to.data + borders[i], to.rows, borders[i + 1] - borders[i], to.stride),
        {.scale = p.spec.scale});
  }
  q.wait();
  y.download();
  check_guards(p, y);
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    auto& oracle = p.rows[static_cast<std::size_t>(r)];
    oracle.set_combines(combines);
    expect(oracle.check_softmax(std::span<const Out>(y.row(r)), empty_row::nan), r, p.spec);
    oracle.set_combines(0);
  }
}

}  // namespace

TEST_SUITE_BEGIN("partials");

TEST_CASE_TEMPLATE("fold: the maximum exactly, the sum within the bound", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  using wide = reference::wide_t<T>;
  using arithmetic = reference::arithmetic_t<T>;
  queue q;
  std::uint64_t seed = 61000;
  for (const distribution kind : all_distributions) {
    for (const std::int64_t cols : {1, 5, 1000, 30011}) {
      problem<T> p({2, cols, kind, 1, 3, 1, ++seed});
      const auto found = folded(q, p.x, 0, cols);
      const wide bound = (16 + std::log2(static_cast<wide>(cols))) *
                         std::numeric_limits<arithmetic>::epsilon() / 2;
      for (std::size_t r = 0; r < 2; ++r) {
        INFO(describe(p.spec) << ", row " << r);
        const auto& expected = p.rows[r].state();
        CHECK(static_cast<wide>(found[r].max) == expected.max());
        CHECK(std::abs(static_cast<wide>(found[r].sum) - expected.sum) <= bound * expected.sum);
      }
    }
  }
}

TEST_CASE_TEMPLATE("fold of nothing, or of -infinity only, is the identity", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t cols : {0, 1, 9, 3000, 40000}) {
    problem<T> p({3, cols, distribution::normal, 1, 0, 0, 1});
    for (std::int64_t r = 0; r < 3; ++r) {
      std::fill(p.x.row(r).begin(), p.x.row(r).end(), T(-infinity<T>));
    }
    p.commit();
    for (const double scale : {1.0, 0.7, 0.0}) {
      for (const auto& state : folded(q, p.x, 0, cols, scale)) {
        CHECK(state == state_of<T>{});
      }
    }
  }
}

TEST_CASE_TEMPLATE("fold marks NaN and +infinity in the maximum", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t cols : {1, 33, 5000}) {
    for (const std::int64_t at : {std::int64_t{0}, cols / 2, cols - 1}) {
      problem<T> p({3, cols, distribution::normal, 1, 0, 0, 1});
      p.x(0, at) = nans<T>()[2];
      p.x(1, at) = T(infinity<T>);
      p.commit();
      const auto found = folded(q, p.x, 0, cols);
      CHECK(std::isnan(found[0].max));
      CHECK(found[1].max == infinity<T>);
      CHECK(std::isfinite(found[2].max));
    }
  }
}

TEST_CASE_TEMPLATE("combine by hand", T, float, double) {
  queue q;
  using state = max_sum<T>;
  const T inf = infinity<T>;
  const T nan_value = std::numeric_limits<T>::quiet_NaN();
  const std::vector<state> a{{1, 2}, {}, {3, 4}, {}, {inf, 1}, {5, 1}, {nan_value, 1}, {inf, 1}};
  const std::vector<state> b{{1, 3}, {3, 4}, {}, {}, {5, 1}, {inf, 1}, {inf, 1}, {inf, 1}};
  for (const auto& found : {combined(q, a, b), combined(q, b, a)}) {
    CHECK(found[0] == state{1, 5});
    CHECK(found[1] == state{3, 4});
    CHECK(found[2] == state{3, 4});
    CHECK(found[3] == state{});
    CHECK(found[4].max == inf);
    CHECK(found[5].max == inf);
    CHECK(std::isnan(found[6].max));
    CHECK(found[7].max == inf);
  }
  // The same memory on both sides doubles the sum.
  states<T> own{std::span<const state>(a.data(), 1)};
  combine(q, own.ref(), own.ref());
  q.wait();
  CHECK(own.values()[0] == state{1, 4});
  // Nothing to combine.
  combine(q, const_partials_ref(nullptr, dtype_of<T>, 0), partials_ref(nullptr, dtype_of<T>, 0));
}

TEST_CASE_TEMPLATE("combine: identity, commutative and associative within its roundings", T, float,
                   double) {
  queue q;
  using state = max_sum<T>;
  using wide = reference::wide_t<T>;
  std::mt19937_64 generator(62000);
  std::normal_distribution<double> normal(0, 5);
  std::uniform_real_distribution<double> uniform(1, 100);
  const auto random_states = [&] {
    std::vector<state> all(1003);
    for (state& s : all) {
      s = {static_cast<T>(normal(generator)), static_cast<T>(uniform(generator))};
    }
    all[7] = {};
    return all;
  };
  const auto a = random_states();
  const auto b = random_states();
  const auto c = random_states();
  CHECK(combined(q, std::vector<state>(a.size()), a) == a);
  CHECK(combined(q, a, std::vector<state>(a.size())) == a);
  const auto ab = combined(q, a, b);
  const auto ba = combined(q, b, a);
  const auto bc = combined(q, b, c);
  const auto left = combined(q, ab, c);
  const auto right = combined(q, a, bc);
  const wide u = std::numeric_limits<T>::epsilon() / 2;
  const auto sum_at = [](const state& s, T max) {
    const wide below = static_cast<wide>(s.max) - static_cast<wide>(max);
    return s.sum == 0 ? wide{0} : static_cast<wide>(s.sum) * std::exp(below);
  };
  // One combine: the sum rounds, and for the side below the maximum, by its share, the
  // difference of the maxima, an exponential and a product.
  const auto rounding = [&](const state& s, const state& t) {
    const state& low = s.max < t.max ? s : t;
    const T max = std::max(s.max, t.max);
    const wide total = sum_at(s, max) + sum_at(t, max);
    const wide share = total == 0 ? wide{0} : sum_at(low, max) / total;
    const wide below = low.sum == 0 ? wide{0} : static_cast<wide>(max) - static_cast<wide>(low.max);
    return (1 + share * (static_cast<wide>(2.1) + below)) * u;
  };
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    const wide two = sum_at(a[i], ab[i].max) + sum_at(b[i], ab[i].max);
    CHECK(ab[i].max == std::max(a[i].max, b[i].max));
    CHECK(ba[i].max == ab[i].max);
    CHECK(std::abs(static_cast<wide>(ab[i].sum) - two) <= rounding(a[i], b[i]) * two);
    CHECK(std::abs(static_cast<wide>(ba[i].sum) - two) <= rounding(a[i], b[i]) * two);
    const T max = std::max(ab[i].max, c[i].max);
    const wide three = sum_at(a[i], max) + sum_at(b[i], max) + sum_at(c[i], max);
    CHECK(left[i].max == max);
    CHECK(right[i].max == max);
    CHECK(std::abs(static_cast<wide>(left[i].sum) - three) <=
          (rounding(a[i], b[i]) + rounding(ab[i], c[i])) * three);
    CHECK(std::abs(static_cast<wide>(right[i].sum) - three) <=
          (rounding(b[i], c[i]) + rounding(a[i], bc[i])) * three);
  }
}

TEST_CASE_TEMPLATE("split anywhere, combine in any order, normalize part by part", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  queue q;
  std::uint64_t seed = 63000;
  for (const distribution kind :
       {distribution::normal, distribution::wide_normal, distribution::ascending,
        distribution::offset_1e4, distribution::leading_mask, distribution::mixed_magnitude,
        distribution::huge}) {
    for (const std::int64_t cols : {10, 3001, 24000}) {
      problem<In> p({2, cols, kind, 1, 3, 1, ++seed});
      const auto borders = random_borders(cols, 8, seed);
      std::vector<std::vector<state_of<In>>> parts;
      for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
        parts.push_back(folded(q, p.x, borders[i], borders[i + 1]));
      }
      std::mt19937_64 generator(seed);
      for (int order = 0; order < 3; ++order) {  // forwards, backwards, shuffled
        INFO("order " << order << ", seed " << seed);
        std::vector<state_of<In>> whole(2);
        for (const auto& part : parts) {
          whole = combined(q, part, whole);
        }
        check_normalized<typename Io::output>(q, p, whole, borders, static_cast<int>(parts.size()));
        order == 0 ? std::reverse(parts.begin(), parts.end())
                   : std::shuffle(parts.begin(), parts.end(), generator);
      }
      // As a tree.
      while (parts.size() > 1) {
        std::vector<std::vector<state_of<In>>> next;
        for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
          next.push_back(combined(q, parts[i], parts[i + 1]));
        }
        if (parts.size() % 2 == 1) {
          next.push_back(parts.back());
        }
        parts = next;
      }
      check_normalized<typename Io::output>(q, p, parts[0], borders, 3);
    }
  }
}

TEST_CASE_TEMPLATE("an unsplit fold and normalize keep the bound of softmax", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 64000;
  for (const distribution kind : {distribution::normal, distribution::wide_normal,
                                  distribution::offset_1e4, distribution::offset_1e7}) {
    for (const double scale : {1.0, 0.7, 2.5, 0.0, -1.3, 1e-30}) {
      problem<typename Io::input> p({2, 3001, kind, scale, 0, 0, ++seed});
      const auto whole = folded(q, p.x, 0, 3001, scale);
      check_normalized<typename Io::output>(q, p, whole, {0, 3001}, 0);
    }
  }
}

TEST_CASE_TEMPLATE("a split row under a scale", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 65000;
  for (const distribution kind : {distribution::normal, distribution::wide_normal}) {
    for (const double scale : {0.7, 2.5, 0.0, -1.3}) {
      problem<typename Io::input> p({2, 3001, kind, scale, 0, 0, ++seed});
      const std::vector<std::int64_t> borders{0, 1000, 1017, 3001};
      auto whole = folded(q, p.x, borders[0], borders[1], scale);
      whole = combined(q, folded(q, p.x, borders[1], borders[2], scale), whole);
      whole = combined(q, folded(q, p.x, borders[2], borders[3], scale), whole);
      check_normalized<typename Io::output>(q, p, whole, borders, 2);
    }
  }
}

TEST_CASE_TEMPLATE("a scaled maximum so large that its rounding is no small number", T, float,
                   double) {
  queue q;
  const T large = sizeof(T) == 8 ? T(3e25) : T(3e25F);
  for (const double scale : {0.7, -1.3}) {
    problem<T> p({2, 300, distribution::normal, scale, 0, 0, 68000});
    for (std::int64_t r = 0; r < 2; ++r) {
      for (std::int64_t c = 0; c < 300; ++c) {
        p.x(r, c) *= large;
      }
      p.x(r, 40 + r) = static_cast<T>(scale < 0 ? -9 : 9) * large * (1 + static_cast<T>(r) / 7);
    }
    p.commit();
    auto whole = folded(q, p.x, 0, 100, scale);
    whole = combined(q, folded(q, p.x, 100, 300, scale), whole);
    states<T> partials{std::span<const max_sum<T>>(whole)};
    matrix<T> lse({2, 1, 0, 0}, role::output);
    logsumexp(q, partials.ref(), lse.vector());
    q.wait();
    lse.download();
    for (std::int64_t r = 0; r < 2; ++r) {
      expect(p.rows[static_cast<std::size_t>(r)].check_logsumexp(lse(r, 0)), r, p.spec);
    }
    check_normalized<T>(q, p, whole, {0, 100, 300}, 1);
  }
}

TEST_CASE_TEMPLATE("a part of -infinity only, of NaN or of +infinity among the parts", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  queue q;
  problem<In> p({4, 300, distribution::normal, 1, 0, 0, 66000});
  std::fill_n(p.x.row(0).begin() + 100, 100, In(-infinity<In>));
  p.x(1, 150) = nans<In>()[3];
  p.x(2, 150) = In(infinity<In>);
  std::fill_n(p.x.row(3).begin(), 300, In(-infinity<In>));
  p.commit();
  auto whole = folded(q, p.x, 0, 100);
  whole = combined(q, folded(q, p.x, 100, 200), whole);
  whole = combined(q, folded(q, p.x, 200, 300), whole);
  check_normalized<typename Io::output>(q, p, whole, {0, 100, 200, 300}, 2);
}

TEST_CASE_TEMPLATE("normalize in place, and by the policy of empty rows", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  problem<T> p({3, 1001, distribution::normal, 1, 0, 0, 67000});
  std::fill(p.x.row(1).begin(), p.x.row(1).end(), T(-infinity<T>));
  p.commit();
  const auto whole = folded(q, p.x, 0, 1001);
  for (const empty_row policy : {empty_row::nan, empty_row::zero}) {
    states<reference::arithmetic_t<T>> partials{std::span<const state_of<T>>(whole)};
    matrix<T> y(p.output_layout(1001), role::output);
    for (std::int64_t r = 0; r < 3; ++r) {
      std::copy_n(p.x.row(r).begin(), 1001, y.row(r).begin());
    }
    y.upload();
    normalize(q, y.view(), partials.ref(), y.view(), {.empty_row = policy});
    q.wait();
    y.download();
    expect(y.stray_writes(), -1, p.spec);
    for (std::int64_t r = 0; r < 3; ++r) {
      const auto& oracle = p.rows[static_cast<std::size_t>(r)];
      expect(oracle.check_softmax(std::span<const T>(y.row(r)), policy), r, p.spec);
    }
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

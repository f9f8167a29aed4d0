// SPDX-License-Identifier: Apache-2.0
// The laws on the states of core: (max, sum), attention's, a scan's, sorted lists of a run-time
// length, sampling's, and sums.
#include <core/attention.hpp>
#include <core/compensated_sum.hpp>
#include <core/monoid.hpp>
#include <core/reference.hpp>
#include <core/sample_state.hpp>
#include <core/scan_state.hpp>
#include <core/topk.hpp>

#include <tests/support/laws.hpp>

#include <span>

namespace core = softfold::core;
using namespace softfold::test;

namespace {

template <class T>
struct max_sum_kind {
  using real = T;
  using state = softfold::max_sum<T>;
  core::max_sum_monoid<T> monoid;

  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, const columns& part) const {
    state s = monoid.identity();
    for (const std::int64_t column : part) {
      s = monoid.combine(s, monoid.lift(row[static_cast<std::size_t>(column)]));
    }
    return s;
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<T>& row, int combines) const {
    return wrong_max_sum(s, row, 1, 6 * (static_cast<double>(row.size()) + combines));
  }
};

/// A scan's state, whose bound does not grow with the row: it is combined one element at a time.
template <class T, class W>
struct scan_kind {
  using real = T;
  using state = core::scan_state<T, W>;
  core::scan_monoid<T, W> monoid;
  T scale;

  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, const columns& part) const {
    state s = monoid.identity();
    for (const std::int64_t column : part) {
      s = monoid.combine(s, state::of(row[static_cast<std::size_t>(column)], scale));
    }
    return s;
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<T>& row, int) const {
    return wrong_max_sum(s.partial(), row, static_cast<double>(scale), 16);
  }
  [[nodiscard]] state again(const state& s) const { return state::of(s.partial()); }
};

/// core::combine_sorted as a monoid of lists of k entries.
template <class T, int k>
struct list_monoid {
  struct value_type {
    std::vector<T> values = std::vector<T>(k, -std::numeric_limits<T>::infinity());
    std::vector<std::int64_t> indices = columns(k, -1);
  };

  [[nodiscard]] static value_type identity() { return {}; }
  [[nodiscard]] static value_type combine(const value_type& a, const value_type& b) {
    value_type to = b;
    core::combine_sorted<T, std::int64_t>({a.values.data(), a.indices.data()},
                                          {to.values.data(), to.indices.data()}, k);
    return to;
  }
};

template <class T, int k>
struct list_kind {
  using real = T;
  using state = typename list_monoid<T, k>::value_type;
  list_monoid<T, k> monoid;

  /// A plain sort: NaN first, then large to small, equal ones by column.
  static columns sorted(const std::vector<T>& row, columns part) {
    std::sort(part.begin(), part.end(), [&](std::int64_t a, std::int64_t b) {
      const T x = row[static_cast<std::size_t>(a)];
      const T y = row[static_cast<std::size_t>(b)];
      return core::reference::ranks_above(x, y) || (!core::reference::ranks_above(y, x) && a < b);
    });
    part.resize(std::min<std::size_t>(part.size(), k));
    return part;
  }

  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, const columns& part) const {
    state s;
    const columns best = sorted(row, part);
    for (std::size_t i = 0; i < best.size(); ++i) {
      s.values[i] = row[static_cast<std::size_t>(best[i])];
      s.indices[i] = best[i];
    }
    return s;
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<T>& row, int) const {
    columns all(row.size());
    std::iota(all.begin(), all.end(), 0);
    const state expected = *fold(row, all);
    for (std::size_t i = 0; i < k; ++i) {
      const bool same = std::isnan(expected.values[i]) ? std::isnan(s.values[i])
                                                       : s.values[i] == expected.values[i];
      if (!same || s.indices[i] != expected.indices[i]) {
        return "rank " + std::to_string(i) + ": column " + std::to_string(s.indices[i]) +
               ", expected " + std::to_string(expected.indices[i]);
      }
    }
    return "";
  }
};

/// sample_state, whose bits do not depend on the tree at all.
template <class T>
struct sample_monoid {
  using value_type = softfold::sample_state;
  core::sampling::parameters parameters;

  [[nodiscard]] value_type identity() const {
    return core::sampling::empty_state<T>(parameters, 1, 0);
  }
  [[nodiscard]] static value_type combine(value_type a, const value_type& b) {
    core::sampling::combine(a, b);
    return a;
  }
};

template <class T>
struct sample_kind {
  using real = T;
  using state = softfold::sample_state;
  sample_monoid<T> monoid;

  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, columns part) const {
    std::sort(part.begin(), part.end());
    core::sampling::state_fold<T> folded(core::sampling::empty_state<T>(monoid.parameters, 1, 0));
    const core::sampling::noise noise = {monoid.parameters.seed, monoid.parameters.offset, 1};
    for (const std::int64_t column : part) {
      folded.add(row[static_cast<std::size_t>(column)], column,
                 static_cast<std::uint32_t>(core::sampling::random_bits(noise, column) >> 48));
    }
    return folded.finished();
  }
  [[nodiscard]] std::string wrong(const state& found, const std::vector<T>& row, int) const {
    columns all(row.size());
    std::iota(all.begin(), all.end(), 0);
    state s = found;
    state expected = *fold(row, all);
    if (std::isnan(s.largest) && std::isnan(expected.largest)) {
      s.largest = expected.largest = 0;
    }
    if (!(s == expected)) {
      return "not the whole row's state";
    }
    const exact_fold exact = fold_exactly(row, 1);
    if (exact.nan || !std::isfinite(exact.max)) {
      return "";
    }
    const double log =
        found.largest + core::sampling::relative_to(found.raw_sum, found.largest).log();
    const double error = std::abs(log - static_cast<double>(exact.lse));
    return error <= 0x1p-51 * (2 + std::abs(log)) ? ""
                                                  : "logsumexp off by " + std::to_string(error);
  }
};

/// Attention's state, of three values for each element: 1, its column's parity, and alternating
/// signs.
template <class T>
struct attention_kind {
  using real = T;
  using state = typename core::attention_monoid<T>::value_type;
  core::attention_monoid<T> monoid{3};

  static std::vector<T> values(std::int64_t column) {
    return {T{1}, static_cast<T>(column % 2), column % 2 == 0 ? T{1} : T{-1}};
  }
  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, const columns& part) const {
    state s = monoid.identity();
    for (const std::int64_t column : part) {
      const auto one = core::max_sum_monoid<T>::lift(row[static_cast<std::size_t>(column)]);
      s = monoid.combine(s, {one, one.sum == 0 ? std::vector<T>(3) : values(column)});
    }
    return s;
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<T>& row, int combines) const {
    const double relative = 6 * (static_cast<double>(row.size()) + combines);
    if (const std::string text = wrong_max_sum(s.sum, row, 1, relative); !text.empty()) {
      return text;
    }
    if (!std::isfinite(s.sum.max)) {  // no key, or no number
      return s.sum.max != -std::numeric_limits<T>::infinity() || s.weighted == std::vector<T>(3)
                 ? ""
                 : "a weighted sum of nothing";
    }
    for (std::size_t i = 0; i < 3; ++i) {
      long double sum = 0;
      long double spread = 0;
      for (std::size_t c = 0; c < row.size(); ++c) {
        const auto weight =
            std::exp(static_cast<long double>(row[c]) - static_cast<long double>(s.sum.max));
        const auto v = static_cast<long double>(values(static_cast<std::int64_t>(c))[i]);
        sum += weight * v;
        spread += weight * std::abs(v);
      }
      constexpr long double u = std::numeric_limits<T>::epsilon() / 2;
      if (std::abs(static_cast<long double>(s.weighted[i]) - sum) >
          static_cast<long double>(relative) * u * spread) {
        return "value " + std::to_string(i) + " is " + std::to_string(s.weighted[i]);
      }
    }
    return "";
  }
};

struct sum_kind {
  using real = double;
  using state = core::compensated_sum;
  core::compensated_monoid monoid;

  [[nodiscard]] std::optional<state> fold(const std::vector<double>& row,
                                          const columns& part) const {
    state s = monoid.identity();
    for (const auto column : part) {
      s.add(row[static_cast<std::size_t>(column)]);
    }
    return s;
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<double>& row, int) const {
    return wrong_sum(s.total(), row, 16);
  }
};

static_assert(core::monoid<core::max_sum_monoid<float>>);
static_assert(core::monoid<list_monoid<float, 6>>);

}  // namespace

TEST_SUITE_BEGIN("states");

TEST_CASE_TEMPLATE("the laws: (max, sum)", T, float, double) { check_laws(max_sum_kind<T>{}, 11); }

TEST_CASE("the laws: sums") { check_laws(sum_kind{}, 32); }

TEST_CASE("the laws: a scan's states") {
  for (const double scale : {1.0, 0.37, 0.0}) {
    check_laws(scan_kind<float, double>{{}, static_cast<float>(scale)}, 15);
    check_laws(scan_kind<double, double>{{}, scale}, 16);
    check_laws(scan_kind<double, long double>{{}, scale}, 17);
  }
}

TEST_CASE_TEMPLATE("the laws: attention's states", T, float, double) {
  check_laws(attention_kind<T>{}, 18);
}

TEST_CASE_TEMPLATE("the laws: sorted lists", T, float, double) {
  check_laws(list_kind<T, 1>{}, 12);
  check_laws(list_kind<T, 6>{}, 13);
  check_laws(list_kind<T, 40>{}, 14);
}

TEST_CASE_TEMPLATE("the laws: sampling's states", T, float, double) {
  for (const double temperature : {1.0, 0.37, 0.0, 1e300}) {
    check_laws(sample_kind<T>{{{.temperature = temperature, .seed = 7, .offset = 3}}}, 18);
  }
}

// Magnitudes at which exponents overflow every type, and steps where a digit's place changes.
TEST_CASE("sums of exponentials: exact logarithms at any magnitude") {
  std::mt19937_64 random(19);
  std::uniform_real_distribution<double> below(0, 3);
  for (const double at : {0.0, -1.0, 22.18, 22.1809, -709.0, 1e3, 1e6, -1e9, 1e12, 0x1p49, 0x1p51,
                          -0x1p60, 1e300, -1e300}) {
    softfold::exponential_sum sum;
    long double exact = 0;
    double largest = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < 1000; ++i) {
      const double z = at - (std::abs(at) < 0x1p50 ? below(random) : 0);
      largest = std::max(largest, z);
      exact += std::exp(static_cast<long double>(z) - static_cast<long double>(at));
      core::sampling::add_term(sum, z);
    }
    const double log = core::sampling::relative_to(sum, largest).log();
    const auto expected = static_cast<double>(
        std::log(exact) + (static_cast<long double>(at) - static_cast<long double>(largest)));
    CAPTURE(at);
    CHECK(std::abs(log - expected) <= 0x1p-50 + std::abs(at) * 0x1p-80);
    CHECK(core::sampling::relative_to(sum, largest).value() ==
          doctest::Approx(std::exp(expected)).epsilon(1e-13));
  }
}

TEST_CASE("lists of ties, absent entries and any numbers in them, against a plain sort") {
  constexpr int k = 6;
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> row(24);
    for (float& x : row) {
      x = static_cast<float>(static_cast<int>(random() % 5)) - 2;
    }
    columns parts[2];
    columns taken;
    for (std::int64_t c = 0; c < 24; ++c) {
      if (random() % 3 == 0) {
        parts[random() % 2].push_back(c);
        taken.push_back(c);
      }
    }
    const list_kind<float, k> kind;
    auto sides = std::pair{*kind.fold(row, parts[0]), *kind.fold(row, parts[1])};
    for (auto* side : {&sides.first, &sides.second}) {
      for (std::size_t i = 0; i < k; ++i) {
        if (side->indices[i] < 0) {  // what an absent entry holds does not count
          side->values[i] = 99;
          side->indices[i] = -3;
        }
      }
    }
    const auto found = kind.monoid.combine(sides.first, sides.second);
    const auto expected = *kind.fold(row, taken);
    CAPTURE(round);
    CHECK(found.indices == expected.indices);
    CHECK(found.values == expected.values);
  }
}

TEST_SUITE_END();

// SPDX-License-Identifier: Apache-2.0
// The laws on what rows in host memory fold into: the power fold of segments, and sums.
#include "each_isa.hpp"

#include <backends/host/row/state.hpp>

#include <tests/support/laws.hpp>

using namespace softfold;
using namespace softfold::host;
using softfold::test::check_laws;
using softfold::test::columns;

namespace {

template <class T>
std::vector<T> elements(const std::vector<T>& row, const columns& part) {
  std::vector<T> x;
  for (const std::int64_t column : part) {
    x.push_back(row[static_cast<std::size_t>(column)]);
  }
  return x;
}

/// The state of a row by way of the fold's kernel.
template <class T>
struct fold_kind {
  using real = T;
  using state = segment_monoid::value_type;
  const kernel_table& table;
  double scale;
  segment_monoid monoid;

  [[nodiscard]] typed_kernels kernels() const {
    return kernels_for(table, dtype_of<T>, dtype_of<T>);
  }

  /// Nothing for NaN, +infinity and rows far from zero, which the kernel must refuse.
  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, const columns& part) const {
    const std::vector<T> x = elements(row, part);
    segment_state s{.max = -std::numeric_limits<double>::infinity()};
    const auto n = static_cast<std::int64_t>(x.size());
    if (n > 0 && !kernels().input.fold(x.data(), n, scale, {}, nullptr, &s)) {
      return {};
    }
    return segment_monoid::of(s);
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<T>& row, int combines) const {
    const row_state whole = host::state_of(s, scale, dtype_of<T>);
    const double lse = logsumexp_of(whole, dtype_of<T>);
    const test::exact_fold exact = test::fold_exactly(row, static_cast<long double>(scale));
    const double bound = 16 + std::log2(static_cast<double>(row.size()) + 1) + 2 * combines;
    constexpr double u = std::numeric_limits<T>::epsilon() / 2;
    const auto exact_lse = static_cast<double>(exact.lse);
    if (!(lse == exact_lse || std::abs(lse - exact_lse) <= (bound + std::abs(exact_lse)) * u)) {
      return "logsumexp " + std::to_string(lse) + ", exactly " + std::to_string(exact_lse);
    }
    const max_sum<double> partial = partial_of(whole, dtype_of<T>);
    return test::wrong_max_sum(max_sum<T>{static_cast<T>(partial.max), static_cast<T>(partial.sum)},
                               row, scale, bound);
  }
  /// By way of the public state.
  [[nodiscard]] state again(const state& s) const {
    const row_state whole = host::state_of(s, scale, dtype_of<T>);
    const row_state read = state_of(partial_of(whole, dtype_of<T>), scale, dtype_of<T>);
    return read.what == row_state::kind::ordinary
               ? state{whole.max / scale, read.e.origin, static_cast<long double>(read.sum)}
               : segment_monoid::identity();
  }
};

/// The sum of the gradients by way of its kernel.
template <class T>
struct sums_kind {
  using real = T;
  using state = core::compensated_sum;
  const kernel_table& table;
  core::compensated_monoid monoid;

  [[nodiscard]] std::optional<state> fold(const std::vector<T>& row, const columns& part) const {
    const std::vector<T> x = elements(row, part);
    state s;
    kernels_for(table, dtype_of<T>, dtype_of<T>)
        .output.log_softmax_gradient.sum(x.data(), x.data(), static_cast<std::int64_t>(x.size()),
                                         &s);
    return s;
  }
  [[nodiscard]] std::string wrong(const state& s, const std::vector<T>& row, int) const {
    return test::wrong_sum(s.total(), row, 16);
  }
};

static_assert(core::monoid<segment_monoid>);

}  // namespace

TEST_SUITE_BEGIN("states");

TEST_CASE_TEMPLATE("the laws: folds of segments", T, float, double) {
  for (const kernel_table* table : each_isa()) {
    CAPTURE(std::string(table->isa));
    for (const double scale : {1.0, 0.7}) {
      const double used = static_cast<double>(static_cast<T>(scale));
      check_laws(fold_kind<T>{*table, used, {}}, 21);
    }
  }
}

TEST_CASE_TEMPLATE("a fold refuses what its state cannot hold", T, float, double) {
  constexpr T inf = std::numeric_limits<T>::infinity();
  for (const kernel_table* table : each_isa()) {
    const fold_kind<T> kind{*table, 1, {}};
    for (const T x : {inf, std::numeric_limits<T>::quiet_NaN(), T{20000}}) {
      CHECK_FALSE(kind.fold({T{1}, x, T{2}}, {0, 1, 2}));
    }
    CHECK(kind.fold({T{1}, -inf, T{2}}, {0, 1, 2}));
  }
}

TEST_CASE_TEMPLATE("the laws: sums", T, float, double) {
  for (const kernel_table* table : each_isa()) {
    CAPTURE(std::string(table->isa));
    check_laws(sums_kind<T>{*table, {}}, 22);
  }
}

TEST_SUITE_END();

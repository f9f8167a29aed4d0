// SPDX-License-Identifier: Apache-2.0
// log-softmax: accuracy on every distribution and scale, in place, empty rows.
#include "problem.hpp"

namespace softfold::test {

TEST_SUITE_BEGIN("log_softmax");

TEST_CASE_TEMPLATE("every distribution", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 11000;
  for (const distribution kind : all_distributions) {
    for (const std::int64_t cols : {7, 1000, 5003, 30011}) {
      problem<typename Io::input> p({2, cols, kind, 1, 3, 1, ++seed});
      check_log_softmax<typename Io::output>(q, p);
    }
  }
}

TEST_CASE_TEMPLATE("every scale", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 12000;
  for (const distribution kind :
       {distribution::normal, distribution::wide_normal, distribution::offset_1e4,
        distribution::offset_1e7, distribution::huge, distribution::subnormal}) {
    for (const double scale : {0.7, 2.5, 0.0, -1.3, 0.3, 1e-30, 1e30}) {
      for (const std::int64_t cols : {17, 1027}) {
        problem<typename Io::input> p({2, cols, kind, scale, 0, 0, ++seed});
        check_log_softmax<typename Io::output>(q, p);
      }
    }
  }
}

TEST_CASE_TEMPLATE("large elements keep their digits", T, float, double) {
  // x - (m + log d) would lose every digit of these.
  queue q;
  for (const double offset : {1e7, -1e7, 1e6}) {
    problem<T> p({1, 64, distribution::few_values, 1, 0, 0, 13000});
    for (std::int64_t c = 0; c < 64; ++c) {
      p.x(0, c) += static_cast<T>(offset);
    }
    p.commit();
    check_log_softmax<T>(q, p);
  }
}

TEST_CASE_TEMPLATE("scaled elements beyond the arithmetic's range", T, float, double) {
  queue q;
  const double scale = std::is_same_v<T, double> ? 1e300 : 1e30;
  problem<T> p({2, 40, distribution::all_equal, scale, 0, 0, 13100});
  for (std::int64_t c = 0; c < 40; ++c) {
    p.x(0, c) = static_cast<T>(5e15);
    p.x(1, c) = static_cast<T>(c < 3 ? 1e10 : -1e10);
  }
  p.commit();
  check_log_softmax<T>(q, p);
}

TEST_CASE_TEMPLATE("short rows far from 0, with a scale", T, float, double) {
  // Where a product and a sum round one by one, the product's rounding is to be made up for.
  queue q;
  const std::int64_t rows = 2000;
  for (const double scale : {7.0, 0.7, 3.3}) {
    problem<T> p({rows, 8, distribution::normal, scale, 0, 0, 13200});
    for (std::int64_t r = 0; r < rows; ++r) {
      std::fill_n(p.x.row(r).begin(), 3, static_cast<T>(2362.5972F + static_cast<float>(r) / 3));
    }
    const float broken[] = {-2.339473F, 2.8487527F, 1.0163852F, 2.5313878F, 0.94955671F};
    std::copy(std::begin(broken), std::end(broken), p.x.row(0).begin() + 3);
    p.commit();
    check_log_softmax<T>(q, p);
  }
}

TEST_CASE_TEMPLATE("in place", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 14000;
  for (const std::int64_t cols : {1, 5, 33, 1025, 20000, 70001}) {
    for (const std::int64_t padding : {0, 5}) {
      problem<T> p({3, cols, distribution::wide_normal, 1, padding, padding % 2, ++seed});
      check_in_place(q, p, true);
    }
  }
}

TEST_CASE_TEMPLATE("empty rows by either policy, among others", Io, SOFTFOLD_TEST_IO_TYPES) {
  using T = typename Io::input;
  queue q;
  for (const empty_row policy : {empty_row::nan, empty_row::zero}) {
    for (const std::int64_t cols : {1, 17, 3000, 40000}) {
      problem<T> p({4, cols, distribution::masked, 1, 2, 0, 15000});  // gaps show a write too far
      for (const std::int64_t r : {0, 2}) {
        std::fill(p.x.row(r).begin(), p.x.row(r).end(), T(-infinity<T>));
      }
      p.commit();
      check_log_softmax<typename Io::output>(q, p, policy);
    }
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

// SPDX-License-Identifier: Apache-2.0
// logsumexp: accuracy on every distribution and scale, rows of nothing, results out of range.
#include "problem.hpp"

namespace softfold::test {

TEST_SUITE_BEGIN("logsumexp");

TEST_CASE_TEMPLATE("every distribution", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 21000;
  for (const distribution kind : all_distributions) {
    for (const std::int64_t cols : {1, 7, 1000, 5003, 30011}) {
      problem<typename Io::input> p({3, cols, kind, 1, 3, 1, ++seed});
      check_logsumexp<typename Io::output>(q, p);
    }
  }
}

TEST_CASE_TEMPLATE("every scale", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 22000;
  for (const distribution kind :
       {distribution::normal, distribution::wide_normal, distribution::offset_1e4,
        distribution::offset_1e7, distribution::huge, distribution::subnormal,
        distribution::mixed_magnitude}) {
    for (const double scale : {0.7, 2.5, 0.0, -0.0, -1.3, 1e-30, 1e30}) {
      problem<typename Io::input> p({2, 1027, kind, scale, 0, 0, ++seed});
      check_logsumexp<typename Io::output>(q, p);
    }
  }
}

TEST_CASE_TEMPLATE("no columns: -infinity in every row", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  for (const std::int64_t rows : {0, 1, 3, 1000}) {
    problem<typename Io::input> p({rows, 0, distribution::normal, 1, 0, 0, 1});
    check_logsumexp<typename Io::output>(q, p);
  }
}

TEST_CASE_TEMPLATE("a result that cancels is absolutely accurate", T, float, double) {
  // n equal elements of -log n: the exact logsumexp is next to 0.
  queue q;
  for (const std::int64_t cols : {2, 10, 1000, 100000}) {
    problem<T> p({1, cols, distribution::all_equal, 1, 0, 0, 1});
    std::fill(p.x.row(0).begin(), p.x.row(0).end(),
              static_cast<T>(-std::log(static_cast<double>(cols))));
    p.commit();
    check_logsumexp<T>(q, p);
  }
}

TEST_CASE_TEMPLATE("beyond the range of the output: infinity by rounding", Io, f32_f32, f64_f64,
                   f16_f16, f16_f32, bf16_bf16) {
  using T = typename Io::input;
  queue q;
  problem<T> p({1, 100000, distribution::all_equal, 1, 0, 0, 1});
  std::fill(p.x.row(0).begin(), p.x.row(0).end(), type_limits<T>::max());
  p.commit();
  check_logsumexp<typename Io::output>(q, p);
}

TEST_SUITE_END();

}  // namespace softfold::test

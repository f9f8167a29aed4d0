// SPDX-License-Identifier: Apache-2.0
// softmax: accuracy on every distribution and scale, in place, empty rows, shift invariance.
#include "problem.hpp"

namespace softfold::test {

TEST_SUITE_BEGIN("softmax");

TEST_CASE_TEMPLATE("every distribution", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 1000;
  for (const distribution kind : all_distributions) {
    for (const std::int64_t cols : {7, 1000, 5003, 30011}) {
      problem<typename Io::input> p({2, cols, kind, 1, 3, 1, ++seed});
      check_softmax<typename Io::output>(q, p);
    }
  }
}

TEST_CASE_TEMPLATE("every scale", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 2000;
  for (const distribution kind :
       {distribution::normal, distribution::wide_normal, distribution::descending,
        distribution::offset_1e4, distribution::offset_1e7, distribution::huge,
        distribution::subnormal, distribution::mixed_magnitude}) {
    for (const double scale : {0.7, 2.5, 0.0, -0.0, -1.3, 1e-30, 1e30, 1e-60}) {
      problem<typename Io::input> p({2, 1027, kind, scale, 0, 0, ++seed});
      check_softmax<typename Io::output>(q, p);
    }
  }
  for (const double scale : {0.7, 2.5, 0.0, 1e30}) {  // a negative scale makes masks +infinity
    problem<typename Io::input> p({2, 21000, distribution::leading_mask, scale, 0, 0, ++seed});
    check_softmax<typename Io::output>(q, p);
  }
}

TEST_CASE_TEMPLATE("scaled elements beyond the arithmetic's range are still numbers", Io, f32_f32,
                   f64_f64, bf16_f32) {
  using T = typename Io::input;
  queue q;
  // s x overflows, s (x - m) only away from the maximum: one column wins, or several tie.
  const double scale = std::is_same_v<T, double> ? 1e300 : 1e30;
  for (const double sign : {1.0, -1.0}) {
    problem<T> p({3, 100, distribution::normal, sign * scale, 0, 0, 2100});
    for (std::int64_t c = 0; c < 100; ++c) {
      p.x(0, c) = make<T>(1e10 * static_cast<double>(c % 50 - 25));
      p.x(1, c) = make<T>(c == 40 ? -3e20 * sign : -4e20 * sign);
      p.x(2, c) = make<T>(5e15);
    }
    p.commit();
    check_softmax<typename Io::output>(q, p);
  }
}

TEST_CASE_TEMPLATE("a small scale brings huge elements back into range", Io, f32_f32, f64_f64,
                   bf16_f32) {
  // x - m overflows, s x - s m does not.
  queue q;
  const double scale = std::is_same_v<typename Io::input, double> ? 1e-307 : 1e-38;
  for (const double sign : {1.0, -1.0}) {
    problem<typename Io::input> p({3, 517, distribution::huge, sign * scale, 0, 0, 2200});
    check_softmax<typename Io::output>(q, p);
  }
}

TEST_CASE_TEMPLATE("in place", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 3000;
  for (const std::int64_t cols : {1, 5, 33, 1025, 20000, 70001}) {
    for (const std::int64_t padding : {0, 5}) {
      problem<T> p({3, cols, distribution::wide_normal, 1, padding, padding % 2, ++seed});
      check_in_place(q, p, false);
    }
  }
  // More than caches close to a processor hold.
  problem<T> p({1500, 1088, distribution::normal, 1, 1, 1, ++seed});
  check_in_place(q, p, false);
}

// GPUs may mask nothing where rows are whole vectors of 16 bytes and begin at multiples of 32: here
// the last vector of each is half of such a multiple, and the gap the other half.
TEST_CASE_TEMPLATE("rows of whole vectors with a gap of one", Io, SOFTFOLD_TEST_IO_TYPES) {
  using T = typename Io::input;
  queue q;
  std::uint64_t seed = 3500;
  const std::int64_t width = 16 / static_cast<std::int64_t>(sizeof(T));
  for (const std::int64_t vectors : {3, 19, 201, 1023, 6001, 40001}) {
    problem<T> p({3, vectors * width, distribution::wide_normal, 1, width, 0, ++seed});
    check_softmax<typename Io::output>(q, p);
    check_in_place(q, p, false);
  }
}

TEST_CASE_TEMPLATE("empty rows by either policy, among others", Io, SOFTFOLD_TEST_IO_TYPES) {
  using T = typename Io::input;
  queue q;
  for (const empty_row policy : {empty_row::nan, empty_row::zero}) {
    for (const std::int64_t cols : {1, 17, 3000, 40000}) {
      problem<T> p({4, cols, distribution::masked, 1, 2, 0, 4000});  // gaps show a write too far
      for (const std::int64_t r : {0, 2}) {
        std::fill(p.x.row(r).begin(), p.x.row(r).end(), T(-infinity<T>));
      }
      p.commit();
      check_softmax<typename Io::output>(q, p, policy);
    }
  }
}

TEST_CASE_TEMPLATE("a shift by a number that rounds nothing changes nothing but the last bits", T,
                   float, double) {
  queue q;
  problem<T> p({1, 4099, distribution::few_values, 1, 0, 0, 5000});
  problem<T> shifted({1, 4099, distribution::few_values, 1, 0, 0, 5000});
  for (std::int64_t c = 0; c < 4099; ++c) {
    shifted.x(0, c) += T{4096};
  }
  shifted.commit();
  REQUIRE(shifted.rows[0].state().sum == p.rows[0].state().sum);
  check_softmax<T>(q, p);
  check_softmax<T>(q, shifted);
}

TEST_SUITE_END();

}  // namespace softfold::test

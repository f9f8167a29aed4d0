// SPDX-License-Identifier: Apache-2.0
// Entry points on views: every layout gives the bits of the contiguous matrix, padding between
// elements stays as it was, and what must not compile does not.
#include <softfold/kokkos.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

using softfold::queue_on;
using execution = Kokkos::DefaultExecutionSpace;
using host = Kokkos::DefaultHostExecutionSpace;

namespace {

/// Starts Kokkos as programs that use only the library do.
struct started {
  softfold::queue first;
};

template <class T, class Layout>
using matrix = Kokkos::View<T**, Layout, Kokkos::HostSpace>;
template <class T>
using vector = Kokkos::View<T*, Kokkos::HostSpace>;

template <class View>
View filled(View x) {
  for (std::size_t r = 0; r < x.extent(0); ++r) {
    for (std::size_t c = 0; c < x.extent(1); ++c) {
      x(r, c) = static_cast<typename View::value_type>(
          static_cast<float>((r * 31 + c * 17) % 101) * 0.125F - 5);
    }
  }
  return x;
}

/// Every second row and column of a larger matrix.
template <class T>
struct with_gaps {
  matrix<T, Kokkos::LayoutRight> whole;
  Kokkos::View<T**, Kokkos::LayoutStride, Kokkos::HostSpace> part;

  with_gaps(std::size_t rows, std::size_t cols)
      : whole("whole", 2 * rows, 2 * cols),
        part(whole.data(), Kokkos::LayoutStride(rows, 4 * cols, cols, 2)) {
    Kokkos::deep_copy(whole, T(77));
  }
  [[nodiscard]] std::size_t touched_between() const {
    std::size_t count = 0;
    for (std::size_t r = 0; r < whole.extent(0); ++r) {
      for (std::size_t c = 0; c < whole.extent(1); ++c) {
        count += (r % 2 == 1 || c % 2 == 1) && whole(r, c) != T(77) ? 1u : 0u;
      }
    }
    return count;
  }
};

template <class A, class B>
std::size_t differences(const A& a, const B& b) {
  std::size_t count = 0;
  for (std::size_t r = 0; r < a.extent(0); ++r) {
    for (std::size_t c = 0; c < a.extent(1); ++c) {
      count += a(r, c) == b(r, c) ? 0u : 1u;
    }
  }
  return count;
}

}  // namespace

TEST_SUITE_BEGIN("views");

TEST_CASE_TEMPLATE("softmax and log_softmax of every layout", T, float, double) {
  const started kokkos;
  queue_on q(host{});
  constexpr std::size_t rows = 5, cols = 300;
  const auto right = filled(matrix<T, Kokkos::LayoutRight>("right", rows, cols));
  const auto left = filled(matrix<T, Kokkos::LayoutLeft>("left", rows, cols));
  with_gaps<T> gaps(rows, cols);
  filled(gaps.part);
  const matrix<T, Kokkos::LayoutRight> expected("expected", rows, cols);
  for (const bool log : {false, true}) {
    const auto run = [&](const auto& x, const auto& y) {
      log ? softfold::log_softmax(q, x, y, {.scale = 0.7})
          : softfold::softmax(q, x, y, {.scale = 0.7});
    };
    run(right, expected);
    CHECK(std::abs(static_cast<double>(expected(0, 0))) > 0);
    const matrix<T, Kokkos::LayoutRight> y_right("y", rows, cols);
    const matrix<T, Kokkos::LayoutLeft> y_left("y", rows, cols);
    const with_gaps<T> y_gaps(rows, cols);
    run(left, y_left);
    CHECK(differences(y_left, expected) == 0);
    run(left, y_right);
    CHECK(differences(y_right, expected) == 0);
    run(right, y_left);
    CHECK(differences(y_left, expected) == 0);
    run(gaps.part, y_gaps.part);
    CHECK(differences(y_gaps.part, expected) == 0);
    CHECK(y_gaps.touched_between() == 0);
    CHECK(gaps.touched_between() == 0);
    const auto in_place = filled(matrix<T, Kokkos::LayoutLeft>("in place", rows, cols));
    run(in_place, in_place);
    CHECK(differences(in_place, expected) == 0);
  }
}

TEST_CASE_TEMPLATE("the gradients of every layout", T, float, double) {
  const started kokkos;
  queue_on q(host{});
  constexpr std::size_t rows = 5, cols = 300;
  const auto right = filled(matrix<T, Kokkos::LayoutRight>("right", rows, cols));
  const auto left = filled(matrix<T, Kokkos::LayoutLeft>("left", rows, cols));
  with_gaps<T> gaps(rows, cols);
  filled(gaps.part);
  const matrix<T, Kokkos::LayoutRight> expected("expected", rows, cols);
  for (const bool log : {false, true}) {
    const auto run = [&](const auto& y, const auto& dy, const auto& dx) {
      log ? softfold::log_softmax_backward(q, y, dy, dx, {.scale = 0.7})
          : softfold::softmax_backward(q, y, dy, dx, {.scale = 0.7});
    };
    run(right, right, expected);
    CHECK(std::abs(static_cast<double>(expected(0, 0))) > 0);
    const matrix<T, Kokkos::LayoutLeft> dx_left("dx", rows, cols);
    const with_gaps<T> dx_gaps(rows, cols);
    run(left, gaps.part, dx_left);
    CHECK(differences(dx_left, expected) == 0);
    run(gaps.part, right, dx_gaps.part);
    CHECK(differences(dx_gaps.part, expected) == 0);
    CHECK(dx_gaps.touched_between() == 0);
    CHECK(gaps.touched_between() == 0);
    const auto in_place = filled(matrix<T, Kokkos::LayoutLeft>("in place", rows, cols));
    run(right, in_place, in_place);
    CHECK(differences(in_place, expected) == 0);
  }
}

TEST_CASE("a range of columns is worked on where it is") {
  const started kokkos;
  const auto whole = filled(matrix<float, Kokkos::LayoutRight>("whole", 4, 100));
  const auto part =
      Kokkos::subview(whole, Kokkos::ALL, std::make_pair(std::size_t{10}, std::size_t{60}));
  const matrix<float, Kokkos::LayoutRight> y("y", 4, 50);
  const matrix<float, Kokkos::LayoutRight> copied("copied", 4, 50);
  const matrix<float, Kokkos::LayoutRight> expected("expected", 4, 50);
  Kokkos::deep_copy(copied, part);
  softfold::softmax(host{}, part, y);
  softfold::softmax(host{}, copied, expected);
  CHECK(differences(y, expected) == 0);
  CHECK(softfold::matrix_of(part).data == part.data());
  CHECK(softfold::matrix_of(part).stride == 100);
  const auto column = Kokkos::subview(whole, Kokkos::ALL, 3);  // rank 1, its elements 100 apart
  const vector<float> y_column("y", 4);
  softfold::softmax(host{}, column, y_column);
  float sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    sum += y_column(i);
  }
  CHECK(sum == doctest::Approx(1));
}

TEST_CASE("rank 1 is one row, const elements are read") {
  const started kokkos;
  const vector<double> x("x", 6);
  for (std::size_t i = 0; i < 6; ++i) {
    x(i) = static_cast<double>(i);
  }
  const Kokkos::View<const double*, Kokkos::HostSpace> read_only = x;
  const vector<double> y("y", 6);
  const vector<double> lse("lse", 1);
  softfold::softmax(host{}, read_only, y);
  softfold::logsumexp(host{}, read_only, lse);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(y(i) == doctest::Approx(std::exp(x(i) - lse(0))));
  }
}

TEST_CASE("top-k of a LayoutLeft matrix to LayoutLeft results") {
  const started kokkos;
  queue_on q(host{});
  constexpr std::size_t rows = 7, cols = 200, k = 9;
  const auto left = filled(matrix<float, Kokkos::LayoutLeft>("left", rows, cols));
  const auto right = filled(matrix<float, Kokkos::LayoutRight>("right", rows, cols));
  const matrix<float, Kokkos::LayoutLeft> p_left("p", rows, k);
  const matrix<float, Kokkos::LayoutRight> p_right("p", rows, k), logits("logits", rows, k),
      values("values", rows, k);
  const matrix<std::int64_t, Kokkos::LayoutLeft> i_left("i", rows, k);
  const matrix<std::int64_t, Kokkos::LayoutRight> i_right("i", rows, k), i_topk("i", rows, k);
  softfold::softmax_topk(q, left, p_left, i_left);
  softfold::softmax_topk(q, right, p_right, i_right, {.logits = softfold::matrix_of(logits)});
  softfold::topk(q, left, values, i_topk);
  CHECK(differences(p_left, p_right) == 0);
  CHECK(differences(i_left, i_right) == 0);
  CHECK(differences(i_topk, i_right) == 0);
  CHECK(differences(values, logits) == 0);
  CHECK(right(0, static_cast<std::size_t>(i_right(0, 0))) == logits(0, 0));
}

TEST_CASE("states of column ranges of a LayoutLeft matrix") {
  const started kokkos;
  queue_on q(host{});
  constexpr std::size_t rows = 3, cols = 100, middle = 50, k = 4;
  const auto x = filled(matrix<float, Kokkos::LayoutLeft>("x", rows, cols));
  const auto first = Kokkos::subview(x, Kokkos::ALL, std::make_pair(std::size_t{0}, middle));
  const auto second = Kokkos::subview(x, Kokkos::ALL, std::make_pair(middle, cols));
  const vector<softfold::max_sum<float>> states("states", rows), more("more", rows);
  const matrix<float, Kokkos::LayoutRight> values("values", rows, k), more_values("more", rows, k);
  const matrix<std::int64_t, Kokkos::LayoutRight> columns("columns", rows, k),
      more_columns("more", rows, k);
  softfold::fold_topk(q, first, states, values, columns);
  softfold::fold_topk(q, second, more, more_values, more_columns, {.column_offset = middle});
  softfold::combine(q, more, states);
  softfold::combine_topk(q, more_values, more_columns, values, columns);
  const vector<softfold::max_sum<float>> only("only", rows);
  softfold::fold(q, x, only);
  const matrix<float, Kokkos::LayoutRight> expected_values("values", rows, k);
  const matrix<std::int64_t, Kokkos::LayoutRight> expected_columns("columns", rows, k);
  softfold::topk(q, x, expected_values, expected_columns);
  CHECK(differences(columns, expected_columns) == 0);
  CHECK(differences(values, expected_values) == 0);
  const vector<float> lse("lse", rows);
  softfold::logsumexp(q, states, lse);
  const matrix<float, Kokkos::LayoutLeft> y("y", rows, middle), log_y("log y", rows, middle);
  softfold::normalize(q, second, states, y);
  softfold::log_normalize(q, second, states, log_y);
  for (std::size_t r = 0; r < rows; ++r) {
    CHECK(states(r).max == only(r).max);
    CHECK(states(r).sum == doctest::Approx(only(r).sum));
    CHECK(y(r, 5) == doctest::Approx(std::exp(x(r, middle + 5) - lse(r))));
    CHECK(log_y(r, 5) == doctest::Approx(x(r, middle + 5) - lse(r)));
  }
}

TEST_CASE("a wrong shape is an error, and nothing is written") {
  const started kokkos;
  const auto x = filled(matrix<float, Kokkos::LayoutLeft>("x", 3, 5));
  const matrix<float, Kokkos::LayoutLeft> y("y", 3, 4);
  Kokkos::deep_copy(y, 7.0F);
  CHECK_THROWS_AS(softfold::softmax(host{}, x, y), softfold::error);
  CHECK(y(2, 3) == 7.0F);
  CHECK_THROWS_AS(static_cast<void>(softfold::matrix_of(x)), softfold::error);
}

TEST_CASE("a queue says which execution space it is on") {
  const started kokkos;
  queue_on q(host{});
  CHECK(q.info().backend == "kokkos");
  CHECK(q.info().device.find(std::string("Kokkos::") + host::name()) != std::string::npos);
  softfold::queue plain = softfold::make_queue(execution{});
  CHECK(plain.info().threads >= 1);
}

TEST_SUITE_END();

// SPDX-License-Identifier: Apache-2.0
// The floating-point environment of the space's own threads, which a program may have changed.
#include <softfold/kokkos.hpp>

#include <Kokkos_Core.hpp>

#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>
#include <vector>

namespace {

using host = Kokkos::DefaultHostExecutionSpace;

/// On every thread of the space, the calling one among them.
void round_all_to(int direction) {
  const int threads = host().concurrency();
  Kokkos::RangePolicy<host, Kokkos::Schedule<Kokkos::Static>, Kokkos::IndexType<int>> each(0,
                                                                                           threads);
  each.set_chunk_size(1);
  Kokkos::parallel_for("rounding", each, [=](int) { std::fesetround(direction); });
  Kokkos::fence();
}

}  // namespace

TEST_SUITE_BEGIN("floating_point");

TEST_CASE("the environment of the space's threads changes no bit") {
  constexpr std::int64_t rows = 400;
  constexpr std::int64_t cols = 1000;
  const softfold::queue starts_kokkos;
  softfold::queue q = softfold::make_queue(host());
  std::vector<float> x(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i));
  }
  const auto run = [&] {
    std::vector<float> y(x.size());
    softfold::softmax(q, softfold::matrix_view<const float>(x.data(), rows, cols),
                      softfold::matrix_view(y.data(), rows, cols));
    q.wait();
    return y;
  };
  const auto expected = run();
  for (const int direction : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    CAPTURE(direction);
    round_all_to(direction);
    const auto found = run();
    const int left = std::fegetround();
    round_all_to(FE_TONEAREST);
    CHECK(left == direction);
    CHECK(found == expected);
  }
}

TEST_SUITE_END();

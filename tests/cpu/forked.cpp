// SPDX-License-Identifier: Apache-2.0
// A process that was forked while others' threads were at work, or had been: it computes, alone.
#include <softfold/softfold.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

using namespace softfold;

namespace {

constexpr std::int64_t rows = 64;
constexpr std::int64_t cols = 20000;

std::vector<float> computed(queue& q, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  softmax(q, matrix_view<const float>(x.data(), rows, cols),
          matrix_view<float>(y.data(), rows, cols));
  return y;
}

/// Exits with 0 if the results are right, by a signal if they are late.
[[noreturn]] void be_child(queue* parents, const std::vector<float>& x,
                           const std::vector<float>& expected) {
  alarm(20);
  if (parents != nullptr) {
    _exit(computed(*parents, x) == expected ? 0 : 1);
  }
  queue own({.threads = 4});
  _exit(computed(own, x) == expected ? 0 : 1);
}

}  // namespace

TEST_SUITE_BEGIN("forked");

TEST_CASE("a child computes, on its parent's queue and its own") {
  std::vector<float> x(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 1013) / 100;
  }
  queue q({.threads = 4});
  const std::vector<float> expected = computed(q, x);
  for (int i = 0; i < 60; ++i) {
    const std::vector<float> again = computed(q, x);
    const pid_t child = fork();  // at once: the queue's threads still look for work
    REQUIRE(child >= 0);
    if (child == 0) {
      be_child(i % 2 == 0 ? &q : nullptr, x, expected);
    }
    CHECK(again == expected);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
  }
  CHECK(computed(q, x) == expected);
}

TEST_SUITE_END();

// SPDX-License-Identifier: Apache-2.0
// One queue used by two threads at once: a call that finds another at work is refused, and no
// result is wrong.
#include <softfold/softfold.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace softfold;

namespace {

constexpr std::int64_t rows = 2000;
constexpr std::int64_t cols = 1000;

/// Calls until one is refused by either thread, or the time is over.
struct caller {
  std::string refusal;
  bool wrong_code = false;
  std::int64_t wrong = 0;

  void call(queue& q, const std::vector<float>& x, std::atomic<bool>& over) {
    std::vector<float> y(x.size());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!over && std::chrono::steady_clock::now() < end) {
      std::fill(y.begin(), y.end(), -1.0F);
      float expected = 1.0F / cols;
      try {
        softmax(q, matrix_view<const float>(x.data(), rows, cols),
                matrix_view<float>(y.data(), rows, cols));
      } catch (const error& e) {
        refusal = e.what();
        wrong_code = e.code() != errc::invalid_argument;
        expected = -1.0F;
        over = true;
      }
      for (const float p : y) {
        wrong += std::abs(p / expected - 1) < 1e-3F ? 0 : 1;
      }
    }
  }
};

}  // namespace

TEST_SUITE_BEGIN("one_queue");

TEST_CASE("a queue in use by another thread is refused") {
  queue q({.threads = 1});
  const std::vector<float> x(static_cast<std::size_t>(rows * cols), 1.0F);
  std::atomic<bool> over = false;
  caller here, there;
  std::thread other([&] { there.call(q, x, over); });
  here.call(q, x, over);
  other.join();
  CHECK(here.wrong == 0);
  CHECK(there.wrong == 0);
  CHECK(!here.wrong_code);
  CHECK(!there.wrong_code);
  const std::string refusal = here.refusal.empty() ? there.refusal : here.refusal;
  CHECK(refusal.find("softmax: the queue is in use by another thread") == 0);

  // What was refused or failed leaves the queue free, and so does a move.
  float y = 0;
  CHECK_THROWS(softmax(q, matrix_view<const float>(x.data(), 1, 1), matrix_view<float>(&y, 1, 2)));
  queue moved = std::move(q);
  softmax(moved, matrix_view<const float>(x.data(), 1, 1), matrix_view<float>(&y, 1, 1));
  CHECK(y == 1);
}

// It is two pieces of work, and one call.
TEST_CASE("a verification that is refused has written nothing") {
  queue q({.threads = 1});
  const std::vector<float> x(4 * 50, 1.0F);
  const std::int32_t drafts[] = {1, 2, 3};
  std::atomic<bool> over = false;
  std::int64_t refused_there = 0;
  std::thread other([&] {
    std::vector<float> y(x.size());
    while (!over) {
      try {
        softmax(q, matrix_view<const float>(x.data(), 4, 50), matrix_view<float>(y.data(), 4, 50));
      } catch (const error&) {
        ++refused_there;
      }
    }
  });
  std::int64_t refused = 0;
  std::int64_t written = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (refused < 3000 && std::chrono::steady_clock::now() < end) {
    std::int32_t tokens[4] = {-7, -7, -7, -7};
    std::int32_t accepted[] = {-7};
    try {
      verify(q, matrix_view<const float>(x.data(), 4, 50), {},
             matrix_view<const std::int32_t>(drafts, 1, 3), matrix_view<std::int32_t>(tokens, 1, 4),
             accepted);
    } catch (const error&) {
      ++refused;
      written += std::ranges::count(tokens, -7) != 4 || accepted[0] != -7 ? 1 : 0;
    }
  }
  over = true;
  other.join();
  CHECK(refused + refused_there > 0);
  CHECK(written == 0);
}

TEST_SUITE_END();

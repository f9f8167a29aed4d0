// SPDX-License-Identifier: Apache-2.0
// The same bits every time: whatever the other rows, the number of rows and of threads, and
// beside other queues at work.
#include "problem.hpp"

#include <thread>

namespace softfold::test {

namespace {

/// The bytes of every result of every operation on some rows of a matrix.
template <class In>
struct outcome_bits {
  std::vector<std::vector<std::byte>> rows;  ///< one string of bytes for each row
};

template <class In>
outcome_bits<In> run_all(queue& q, const matrix_view<In>& x, std::int64_t k) {
  using arithmetic = reference::arithmetic_t<In>;
  const softmax_options options{.scale = 0.7};
  matrix<In> y({x.rows, x.cols, 0, 0}, role::output);
  matrix<arithmetic> log_y({x.rows, x.cols, 0, 0}, role::output);
  matrix<arithmetic> lse({x.rows, 1, 0, 0}, role::output);
  matrix<arithmetic> probabilities({x.rows, k, 0, 0}, role::output);
  matrix<std::int64_t> indices({x.rows, k, 0, 0}, role::output);
  matrix<In> values({x.rows, k, 0, 0}, role::output);
  matrix<std::int32_t> value_indices({x.rows, k, 0, 0}, role::output);
  states<arithmetic> partials(x.rows);
  matrix<In> normalized({x.rows, x.cols, 0, 0}, role::output);
  softmax(q, x, y.view(), options);
  log_softmax(q, x, log_y.view(), options);
  logsumexp(q, x, lse.vector(), {.scale = 0.7});
  softmax_topk(q, x, probabilities.view(), indices.view(), {.scale = 0.7});
  topk(q, x, values.view(), value_indices.view());
  fold(q, x, partials.ref(), {.scale = 0.7});
  normalize(q, x, partials.ref(), normalized.view(), options);
  q.wait();
  outcome_bits<In> bits;
  bits.rows.resize(static_cast<std::size_t>(x.rows));
  const auto collect = [&](auto& result) {
    result.download();
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const auto bytes = std::as_bytes(result.row(r));
      auto& row = bits.rows[static_cast<std::size_t>(r)];
      row.insert(row.end(), bytes.begin(), bytes.end());
    }
  };
  collect(y);
  collect(log_y);
  collect(lse);
  collect(probabilities);
  collect(indices);
  collect(values);
  collect(value_indices);
  collect(normalized);
  const auto& folded = partials.values();
  for (std::size_t r = 0; r < folded.size(); ++r) {
    const auto bytes = std::as_bytes(std::span(&folded[r], 1));
    bits.rows[r].insert(bits.rows[r].end(), bytes.begin(), bytes.end());
  }
  return bits;
}

template <class In>
matrix_view<In> rows_of(const matrix<In>& x, std::int64_t first, std::int64_t count) {
  const auto whole = x.view();
  return {whole.data + first * whole.stride, count, whole.cols, whole.stride};
}

struct shape {
  std::int64_t rows, cols;
};

/// From many short rows to few rows longer than any one thread's share; of each length some of
/// whole vectors: GPUs may take them another way, but only if all rows begin at one, as a row alone
/// does.
constexpr shape shapes[] = {{200, 5},  {3, 46},    {64, 129},  {64, 128},   {17, 1000}, {3, 2048},
                            {3, 8192}, {3, 40960}, {5, 50257}, {3, 300007}, {3, 300032}};

}  // namespace

TEST_SUITE_BEGIN("determinism");

TEST_CASE_TEMPLATE("a row's bits do not depend on the other rows", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const auto [rows, cols] : shapes) {
    problem_spec spec{rows, cols, distribution::wide_normal, 1, 3, 0, 81000};
    INFO(describe(spec));
    const problem<T> p(spec);
    const std::int64_t k = std::min<std::int64_t>(cols, 64);
    const auto together = run_all(q, p.x.view(), k);
    for (const std::int64_t r : {std::int64_t{0}, rows / 2, rows - 1}) {
      const auto alone = run_all(q, rows_of(p.x, r, 1), k);
      CHECK(alone.rows[0] == together.rows[static_cast<std::size_t>(r)]);
    }
    const auto pair = run_all(q, rows_of(p.x, rows - 2, 2), k);
    CHECK(pair.rows[0] == together.rows[static_cast<std::size_t>(rows - 2)]);
    CHECK(pair.rows[1] == together.rows[static_cast<std::size_t>(rows - 1)]);
    // Other contents beside it: one row is poisoned with NaN.
    problem<T> other(spec);
    other.x(0, 0) = nans<T>()[0];
    other.x.upload();
    const auto beside = run_all(q, other.x.view(), k);
    CHECK(beside.rows[1] == together.rows[1]);
    CHECK(beside.rows[0] != together.rows[0]);
  }
}

// Results that leave the caches may go another way than those of a few rows.
TEST_CASE_TEMPLATE("rows of every kind in a batch that no cache holds", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  constexpr std::int64_t rows = 1500;
  constexpr std::int64_t cols = 1088;
  problem<T> p({rows, cols, distribution::normal, 1, 0, 0, 86000});
  for (std::int64_t r = 0; r + 7 < rows; r += 50) {
    p.x(r + 1, r % cols) = nans<T>()[0];
    std::fill(p.x.row(r + 2).begin(), p.x.row(r + 2).end(), T(-infinity<T>));
    p.x(r + 3, cols - 1) = T(infinity<T>);
    for (std::int64_t c = 0; c < cols; ++c) {
      p.x(r + 4, c) = static_cast<T>(-300.0F + 0.5F * static_cast<float>(c));  // many origins
      p.x(r + 5, c) = static_cast<T>(1000.0F + static_cast<float>(c % 7));     // far from zero
    }
  }
  p.x.upload();
  queue one(queue_options{.threads = 1});
  queue q;
  const auto together = run_all(q, p.x.view(), 5);
  CHECK(run_all(one, p.x.view(), 5).rows == together.rows);
  for (std::int64_t r = 0; r < rows; r += r % 50 < 8 ? 1 : 42) {
    CAPTURE(r);
    const auto alone = run_all(one, rows_of(p.x, r, 1), 5);
    CHECK(alone.rows[0] == together.rows[static_cast<std::size_t>(r)]);
  }
}

TEST_CASE_TEMPLATE("the number of threads does not change a bit", T, SOFTFOLD_TEST_INPUT_TYPES) {
  for (const auto [rows, cols] : shapes) {
    const problem_spec spec{rows, cols, distribution::normal, 1, 0, 0, 82000};
    INFO(describe(spec));
    const problem<T> p(spec);
    const std::int64_t k = std::min<std::int64_t>(cols, 50);
    queue one(queue_options{.threads = 1});
    const auto expected = run_all(one, p.x.view(), k);
    for (const int threads : {0, 2, 3, 8}) {
      CAPTURE(threads);
      queue q(queue_options{.threads = threads});
      CHECK(run_all(q, p.x.view(), k).rows == expected.rows);
    }
  }
}

TEST_CASE_TEMPLATE("the same bits on every run", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const auto [rows, cols] : shapes) {
    const problem_spec spec{rows, cols, distribution::normal, 1, 0, 0, 83000};
    INFO(describe(spec));
    const problem<T> p(spec);
    const std::int64_t k = std::min<std::int64_t>(cols, 5);
    const auto expected = run_all(q, p.x.view(), k);
    for (int run = 0; run < 5; ++run) {
      CHECK(run_all(q, p.x.view(), k).rows == expected.rows);
    }
  }
}

TEST_CASE("queues of several threads at once") {
  constexpr int workers = 6;
  constexpr int runs = 4;
  std::vector<problem<float>> problems;
  std::vector<outcome_bits<float>> expected;
  queue q;
  for (int i = 0; i < workers; ++i) {
    const shape s = shapes[static_cast<std::size_t>(i) % std::size(shapes)];
    problems.emplace_back(problem_spec{s.rows, s.cols, distribution::normal, 1, 0, 0,
                                       84000 + static_cast<std::uint64_t>(i)});
    expected.push_back(run_all(q, problems.back().x.view(), 5));
  }
  std::vector<int> wrong(workers, runs);  // doctest's asserts stay on this thread
  std::vector<std::thread> threads;
  for (int i = 0; i < workers; ++i) {
    threads.emplace_back([&, index = static_cast<std::size_t>(i)] {
      try {
        queue own(queue_options{.threads = static_cast<int>(index) % 3});
        for (int run = 0; run < runs; ++run) {
          const auto found = run_all(own, problems[index].x.view(), 5);
          wrong[index] -= found.rows == expected[index].rows ? 1 : 0;
        }
      } catch (...) {
        wrong[index] = -1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::vector<int>(workers, 0));
}

TEST_CASE("a queue moves, and says what it runs on") {
  matrix<float> x({2, 2, 0, 0}, role::input);
  matrix<float> y({2, 2, 0, 0}, role::output);
  x(0, 0) = x(0, 1) = x(1, 0) = x(1, 1) = 1;
  x.upload();
  queue first(queue_options{.threads = 1});
  queue second(std::move(first));
  softmax(second, x.view(), y.view());
  second.wait();
  y.download();
  CHECK(y(1, 1) == 0.5F);
  first = std::move(second);
  first.reserve(1 << 20);
  y.upload();
  log_softmax(first, x.view(), y.view());
  first.wait();
  y.download();
  CHECK(y(1, 1) == doctest::Approx(-std::log(2.0)));
  CHECK_FALSE(first.info().backend.empty());
  CHECK(first.info().threads >= 1);
}

TEST_SUITE_END();

}  // namespace softfold::test

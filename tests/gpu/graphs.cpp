// SPDX-License-Identifier: Apache-2.0
// Every entry point captured in a graph and replayed: after its first call none allocates
// nor synchronises, for capture refuses both.
#include "runtime_api.hpp"

#include <softfold/attention.hpp>
#include <softfold/softfold.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace softfold::test {
namespace {

void check(api::error code) { REQUIRE_MESSAGE(code == api::success, api::error_text(code)); }

/// What one call reads and writes.
class fixture {
 public:
  fixture(queue& q, std::int64_t rows_, std::int64_t cols_, std::int64_t k_)
      : rows(rows_),
        cols(cols_),
        k(k_),
        x(q, bytes(rows * cols)),
        y(q, bytes(rows * cols)),
        lse(q, bytes(rows)),
        values(q, bytes(rows * k)),
        indices(q, bytes(rows * k)),
        partials(q, bytes(2 * rows)),
        more_values(q, bytes(rows * k)),
        more_indices(q, bytes(rows * k)),
        more_partials(q, bytes(2 * rows)) {
    std::vector<float> elements(static_cast<std::size_t>(rows * cols));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      elements[i] = static_cast<float>(static_cast<int>(i * 2654435761U % 2000U)) * 0.01F - 10;
    }
    x.upload(q, elements.data(), x.size());
    q.wait();
    spoil();
    check(api::fill(partials.data(), 0, partials.size()));
  }

  [[nodiscard]] const_matrix_ref input() const { return {x.data(), dtype::f32, rows, cols, cols}; }
  [[nodiscard]] matrix_ref output() const { return {y.data(), dtype::f32, rows, cols, cols}; }
  [[nodiscard]] matrix_ref list() const { return {values.data(), dtype::f32, rows, k, k}; }
  [[nodiscard]] matrix_ref columns() const { return {indices.data(), dtype::i32, rows, k, k}; }
  [[nodiscard]] vector_ref logs() const { return {lse.data(), dtype::f32, rows}; }
  [[nodiscard]] partials_ref states() const { return {partials.data(), dtype::f32, rows}; }

  /// Those of another part of the rows, with the same elements.
  [[nodiscard]] partials_ref more_states() const {
    return {more_partials.data(), dtype::f32, rows};
  }
  void combine_with_more(queue& q) const {
    fold_topk_options beside;
    beside.column_offset = cols;
    fold_topk(q, input(), more_states(), {more_values.data(), dtype::f32, rows, k, k},
              {more_indices.data(), dtype::i32, rows, k, k}, beside);
    fold_topk(q, input(), states(), list(), columns());
    combine(q, more_states(), states());
    combine_topk(q, {more_values.data(), dtype::f32, rows, k, k},
                 {more_indices.data(), dtype::i32, rows, k, k}, list(), columns());
  }

  /// All outputs' bytes.
  [[nodiscard]] std::vector<std::byte> results(queue& q) const {
    std::vector<std::byte> all;
    for (const buffer* b : {&y, &lse, &values, &indices, &partials}) {
      const std::size_t at = all.size();
      all.resize(at + b->size());
      b->download(q, all.data() + at, b->size());
      q.wait();
    }
    return all;
  }
  void spoil() {
    for (buffer* b : {&y, &lse, &values, &indices}) {
      check(api::fill(b->data(), 0xA5, b->size()));
    }
    check(api::synchronize_device());  // the stream of the calls does not wait for the fills'
  }

  std::int64_t rows, cols, k;
  buffer x, y, lse, values, indices, partials, more_values, more_indices, more_partials;

 private:
  static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count) * 4; }
};

/// What a call does on a stream, to be launched again.
api::replay captured(api::stream stream, const std::function<void()>& call) {
  api::graph graph = nullptr;
  check(api::begin_capture(stream));
  call();
  check(api::end_capture(stream, &graph));
  api::replay replay = nullptr;
  check(api::instantiate(&replay, graph));
  check(api::destroy(graph));
  return replay;
}

}  // namespace

TEST_SUITE_BEGIN("graphs");

TEST_CASE("every entry point is captured and replayed with the same result") {
  api::stream stream = nullptr;
  check(api::create_stream(&stream));
  {
    queue q = queue_on(stream);
    struct shape {
      int rows, cols, k;
    };
    // Lanes, block, cluster; chunks that run together, chunks in rings, more than are exchanged; of
    // rows that need no masks, and others. Top-k by lists, and from 129 on by groups: by one
    // kernel, and after a scan.
    for (const shape& s : {shape{50, 100, 7},
                           {50, 96, 7},
                           {9, 5000, 7},
                           {9, 5001, 300},
                           {4, 70000, 7},
                           {4, 70001, 300},
                           {1, 140000, 7},
                           {1, 140001, 7},
                           {64, 140000, 7},
                           {64, 140001, 7},
                           {2, 600000, 7},
                           {1, 2200000, 300}}) {
      fixture f(q, s.rows, s.cols, s.k);
      using work = std::function<void()>;
      const std::vector<std::pair<std::string, work>> calls = {
          {"softmax", [&] { softmax(q, f.input(), f.output()); }},
          {"log_softmax", [&] { log_softmax(q, f.input(), f.output()); }},
          {"logsumexp", [&] { logsumexp(q, f.input(), f.logs()); }},
          {"topk", [&] { topk(q, f.input(), f.list(), f.columns()); }},
          {"softmax_topk", [&] { softmax_topk(q, f.input(), f.list(), f.columns()); }},
          {"sample",
           [&] {
             const matrix_ref tokens = f.columns();
             const matrix_ref log = f.list();
             sample(
                 q, f.input(), {tokens.data, tokens.type, tokens.rows, 1, tokens.stride},
                 {.top_p = 0.5, .log_probability = {log.data, log.type, log.rows, 1, log.stride}});
           }},
          {"attention",
           [&] {
             // The first row's columns as keys of 50 dimensions, in chunks if there are many.
             const const_matrix_ref x = f.input();
             const matrix_ref y = f.output();
             const std::int64_t dim = 50;
             const const_tensor_ref keys(x.data, x.type, 1, 1, x.cols / dim, dim, 0, 0, dim);
             attention(q, const_tensor_ref(x.data, x.type, 1, 1, 1, dim, 0, 0, 0), keys, keys,
                       tensor_ref(y.data, y.type, 1, 1, 1, dim, 0, 0, 0));
           }},
          {"fold", [&] { fold(q, f.input(), f.states()); }},
          {"normalize", [&] { normalize(q, f.input(), f.states(), f.output()); }},
          {"log_normalize", [&] { log_normalize(q, f.input(), f.states(), f.output()); }},
          {"logsumexp of states", [&] { logsumexp(q, f.states(), f.logs()); }},
          {"fold_topk", [&] { fold_topk(q, f.input(), f.states(), f.list(), f.columns()); }},
          {"combine and combine_topk", [&] { f.combine_with_more(q); }},
      };
      for (const auto& named : calls) {
        const std::string& name = named.first;
        const work& call = named.second;
        CAPTURE(name);
        CAPTURE(s.cols);
        CAPTURE(s.k);
        f.spoil();
        call();
        const auto expected = f.results(q);
        const api::replay replay = captured(stream, call);
        for (int run = 0; run < 2; ++run) {
          f.spoil();
          check(api::launch(replay, stream));
          CHECK(f.results(q) == expected);
        }
        check(api::destroy(replay));
      }
    }
  }
  check(api::destroy(stream));
}

TEST_CASE("attention of many queries is captured also before the queue has memory") {
  api::stream stream = nullptr;
  check(api::create_stream(&stream));
  {
    queue q = queue_on(stream);
    constexpr std::int64_t batches = 150;
    constexpr std::int64_t tokens = 140;
    constexpr std::int64_t dim = 64;
    constexpr std::int64_t count = batches * tokens * dim;
    std::vector<bfloat16> elements(count);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      elements[i] = bfloat16(static_cast<float>(i * 2654435761U % 2000U) * 0.002F - 2);
    }
    buffer x(q, elements.size() * sizeof(bfloat16));
    buffer y(q, x.size());
    x.upload(q, elements.data(), x.size());
    q.wait();
    const const_tensor_ref in(x.data(), dtype::bf16, batches, 1, tokens, dim, tokens * dim, 0, dim);
    const tensor_ref out(y.data(), dtype::bf16, batches, 1, tokens, dim, tokens * dim, 0, dim);
    const auto call = [&] {
      attention(q, in, in, in, out, attention_options{.corner = causal::top_left});
    };
    const auto result_of = [&](const std::function<void()>& work) {
      check(api::fill(y.data(), 0xA5, y.size()));
      check(api::synchronize_device());
      work();
      std::vector<std::byte> all(y.size());
      y.download(q, all.data(), all.size());
      q.wait();
      return all;
    };
    const auto launch = [&](api::replay replay) {
      return result_of([&] { check(api::launch(replay, stream)); });
    };
    const api::replay without_memory = captured(stream, call);
    const auto first = launch(without_memory);
    const auto expected = result_of(call);
    const api::replay with_memory = captured(stream, call);
    CHECK(first == expected);
    CHECK(std::count(expected.begin(), expected.end(), std::byte{0xA5}) < count / 8);
    for (int run = 0; run < 2; ++run) {  // what one launch has claimed is free for the next
      CHECK(launch(with_memory) == expected);
      CHECK(launch(without_memory) == expected);
      CHECK(result_of(call) == expected);
    }
    check(api::destroy(without_memory));
    check(api::destroy(with_memory));
  }
  check(api::destroy(stream));
}

TEST_CASE("a graph's memory stays where it is when later calls need more") {
  api::stream stream = nullptr;
  check(api::create_stream(&stream));
  {
    queue q = queue_on(stream);
    fixture f(q, 4, 600000, 300);
    const auto call = [&] { softmax_topk(q, f.input(), f.list(), f.columns()); };
    call();
    const auto expected = f.results(q);
    const api::replay replay = captured(stream, call);
    q.reserve(std::size_t{1} << 28);
    check(api::synchronize_device());  // memory that was released is the device's again
    f.spoil();
    check(api::launch(replay, stream));
    CHECK(f.results(q) == expected);
    f.spoil();
    call();
    CHECK(f.results(q) == expected);
    check(api::destroy(replay));
  }
  check(api::destroy(stream));
}

TEST_CASE("a capture that would have to allocate is refused, and says what to do") {
  api::stream stream = nullptr;
  check(api::create_stream(&stream));
  {
    queue q = queue_on(stream);
    fixture f(q, 2, 600000, 7);
    api::graph graph = nullptr;
    check(api::begin_capture(stream));
    std::string text;
    try {
      softmax(q, f.input(), f.output());
    } catch (const error& e) {
      text = e.what();
    }
    check(api::end_capture(stream, &graph));
    check(api::destroy(graph));
    CHECK(text.find("reserve()") != std::string::npos);
  }
  check(api::destroy(stream));
}

TEST_CASE("memory of the host is refused by name") {
  queue q;
  std::vector<float> mine(4);
  buffer y(q, 16);
  int reads_host_memory = 0;
  check(api::reads_host_memory(&reads_host_memory));
  if (reads_host_memory == 0) {
    std::string text;
    try {
      softmax(q, matrix_view<const float>(mine.data(), 1, 4), y.matrix<float>(1, 4));
    } catch (const error& e) {
      text = e.what();
    }
    CHECK(text.find("x.data") != std::string::npos);
    CHECK(text.find("host") != std::string::npos);
  } else {
    softmax(q, matrix_view<const float>(mine.data(), 1, 4), y.matrix<float>(1, 4));
    q.wait();
    std::vector<float> result(4);
    y.download(q, result.data(), 16);
    q.wait();
    CHECK(result[3] == 0.25F);
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

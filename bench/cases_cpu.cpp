// SPDX-License-Identifier: Apache-2.0
#include "case_list.hpp"
#include "cases.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace softfold::bench {
namespace {

// From 65536 short rows to one long one, in cache and streaming.
constexpr shape peer_shapes[] = {
    {65536, 16, true},  {8192, 128, true},  {256, 1024, true},  {64, 4096, true},
    {8, 32768, true},   {2, 131072, true},  {4096, 1024, true}, {1024, 4096, true},
    {128, 32768, true}, {32, 131072, true}, {100000, 1000},     {4000, 25000, true},
    {1000, 100000},     {800, 128256},      {1, 25000, true},   {1, 128256, true},
    {1, 1048576, true}, {1, 151936},        {8, 151936},        {64, 151936},
    {8, 262144},        {64, 262144},
};

constexpr std::int64_t sweep_columns[] = {
    16,    32,    64,    100,   128,   256,    512,    1000,   1024,   2048,    4096,    8192,
    16384, 25000, 32768, 50257, 65536, 128256, 131072, 262144, 524288, 1048576, 2097152, 4194304};
constexpr std::int64_t coarse_columns[] = {16,    64,    128,    512,    1000,    4096,   16384,
                                           25000, 50257, 128256, 524288, 1048576, 4194304};
constexpr std::int64_t quick_columns[] = {16, 128, 1000, 4096, 25000, 128256, 1048576};

constexpr std::int64_t hot_elements = 1 << 16;        // 512 KiB of f32 in and out
constexpr std::int64_t hot_columns_limit = 1 << 17;   // one row of 1 MiB in and out
constexpr std::int64_t streaming_elements = 1 << 26;  // 256 MiB of f32

bool in_quick_sweep(std::int64_t cols) {
  return std::ranges::find(quick_columns, cols) != std::ranges::end(quick_columns);
}

void add_shapes(case_list& list, const std::vector<int>& threads) {
  for (const int t : threads) {
    for (const shape& s : peer_shapes) {
      list.add({.group = "shapes", .threads = t}, s);
    }
  }
  // How a long row gains from a second thread is a target of its own.
  if (threads.back() > 2 && std::ranges::find(threads, 2) == threads.end()) {
    list.add({.group = "shapes", .threads = 2}, {{1, 128256, true}, {1, 1048576, true}});
  }
}

void add_operations(case_list& list, const std::vector<int>& threads) {
  for (const int t : threads) {
    list.add({.group = "operations", .op = operation::log_softmax, .threads = t},
             {{256, 1024}, {4096, 1024}, {4000, 25000}, {1, 128256}});
    list.add({.group = "operations", .op = operation::logsumexp, .threads = t},
             {{64, 4096, true},
              {4096, 1024},
              {100000, 1000},
              {4000, 25000, true},
              {800, 128256},
              {1, 128256},
              {1, 1048576}});
    for (const operation op : {operation::softmax_backward, operation::log_softmax_backward}) {
      list.add({.group = "operations", .op = op, .threads = t},
               {{65536, 16},
                {8192, 128},
                {64, 4096, op == operation::softmax_backward},
                {4096, 1024},
                {100000, 1000},
                {4000, 25000, op == operation::softmax_backward},
                {1, 128256},
                {1, 1048576}});
    }
    for (const operation op : {operation::masked_softmax, operation::scan}) {
      list.add({.group = "operations", .op = op, .threads = t},
               {{64, 4096, true}, {4096, 1024}, {4000, 25000}, {1, 128256}});
    }
    for (const operation op : {operation::sample, operation::sample_top_k_p,
                               operation::sample_top_p, operation::sample_min_p}) {
      list.add({.group = "operations", .op = op, .k = 1, .threads = t},
               {{8192, 128}, {4096, 1024}, {4000, 25000, true}, {800, 128256}, {1, 128256}});
    }
    for (const std::int64_t k : {1, 5, 32, 64, 256, 1024}) {
      list.add({.group = "operations", .op = operation::softmax_topk, .k = k, .threads = t},
               shape{4000, 25000, k == 5});
    }
    // Routers of mixtures of experts.
    list.add({.group = "operations", .op = operation::softmax_topk, .k = 8, .threads = t},
             {{8192, 256, true}, {65536, 128}});
    for (const std::int64_t k : {5, 64}) {
      list.add({.group = "operations", .op = operation::softmax_topk, .k = k, .threads = t},
               {{64, 4096}, {4096, 1024}, {100000, 1000}, {800, 128256}, {1, 128256}});
    }
    for (const std::int64_t k : {5, 64, 1024}) {
      list.add({.group = "operations", .op = operation::topk, .k = k, .threads = t},
               {{4000, 25000}, {1, 128256}});
    }
    // Sparse attention's indexer; a large part of one row.
    list.add({.group = "operations", .op = operation::topk, .k = 2048, .threads = t},
             {{64, 32768}, {64, 131072}});
    list.add({.group = "operations", .op = operation::topk, .k = 20000, .threads = t},
             shape{1, 1000000});
  }
}

void add_types(case_list& list, int threads) {
  constexpr std::pair<operation, std::int64_t> operations[] = {{operation::softmax, 0},
                                                               {operation::softmax_backward, 0},
                                                               {operation::logsumexp, 0},
                                                               {operation::softmax_topk, 5},
                                                               {operation::sample, 1}};
  for (const auto& [op, k] : operations) {
    for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16}) {
      list.add({.group = "types", .op = op, .type = type, .k = k, .threads = threads},
               {{64, 4096}, {4096, 1024}, {4000, 25000, true}});
    }
    // Half the rows: as many bytes as f32.
    list.add({.group = "types", .op = op, .type = dtype::f64, .k = k, .threads = threads},
             {{64, 4096}, {2048, 1024}, {2000, 25000}});
  }
}

void add_inputs(case_list& list, int threads) {
  constexpr std::pair<operation, std::int64_t> operations[] = {
      {operation::softmax, 0}, {operation::softmax_topk, 5}, {operation::softmax_topk, 64}};
  for (const auto& [op, k] : operations) {
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      for (const distribution input : {distribution::normal, distribution::logits,
                                       distribution::ascending, distribution::equal}) {
        list.add(
            {.group = "inputs", .op = op, .type = type, .k = k, .input = input, .threads = threads},
            shape{1000, 32000});
      }
    }
  }
}

void add_attention(case_list& list, const std::vector<int>& threads) {
  for (const int t : threads) {
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      list.add_attention({1, 8, 8, 1, 32768, 128}, type, t, type == dtype::f32);
      for (const std::int64_t dim : {64, 128}) {
        for (const std::int64_t tokens : {1024, 4096}) {
          for (const bool causal : {false, true}) {
            list.add_attention({1, 8, 8, tokens, tokens, dim, causal}, type, t,
                               type == dtype::f32 && dim == 64 && tokens == 1024);
          }
        }
      }
    }
  }
}

// In cache: at least one row, and no row longer than fits.
void add_hot_sweep(case_list& list, bench_case c, bool quick) {
  c.group = "sweep-hot";
  for (const std::int64_t cols : sweep_columns) {
    if (cols <= hot_columns_limit) {
      list.add(c, shape{std::max<std::int64_t>(1, hot_elements / cols), cols,
                        quick && in_quick_sweep(cols)});
    }
  }
}

void add_streaming_sweep(case_list& list, bench_case c, std::span<const std::int64_t> columns,
                         bool quick) {
  c.group = "sweep-streaming";
  for (const std::int64_t cols : columns) {
    list.add(c, shape{streaming_elements / cols, cols, quick && in_quick_sweep(cols)});
  }
}

}  // namespace

std::vector<bench_case> all_cases(const std::vector<int>& threads) {
  case_list list;
  add_shapes(list, threads);
  add_operations(list, threads);
  add_types(list, threads.front());
  add_inputs(list, threads.front());
  add_attention(list, threads);
  const int one = threads.front();
  for (const int t : threads) {
    const bench_case softmax{.op = operation::softmax, .threads = t};
    add_hot_sweep(list, softmax, t == one);
    add_streaming_sweep(list, softmax,
                        t == one ? std::span<const std::int64_t>(sweep_columns)
                                 : std::span<const std::int64_t>(coarse_columns),
                        t == one);
  }
  const bench_case logsumexp{.op = operation::logsumexp, .threads = one};
  add_hot_sweep(list, logsumexp, false);
  add_streaming_sweep(list, logsumexp, coarse_columns, false);
  add_streaming_sweep(list, {.op = operation::softmax_topk, .k = 5, .threads = one}, coarse_columns,
                      false);
  return list.take();
}

}  // namespace softfold::bench

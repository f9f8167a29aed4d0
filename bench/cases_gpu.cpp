// SPDX-License-Identifier: Apache-2.0
#include "case_list.hpp"
#include "cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

namespace softfold::bench {
namespace {

constexpr std::size_t streaming_bytes = std::size_t{1} << 28;  // several times any L2 cache

// Rows of `cols` columns that take streaming_bytes.
shape streaming(std::int64_t cols, dtype type, bool quick = false) {
  return {static_cast<std::int64_t>(streaming_bytes / size_of(type)) / cols, cols, quick};
}

// Columns from 128 to 512 Ki: powers of two, the lengths that models have, and steps of 1.2
// between them, of which every second one is odd.
std::set<std::int64_t> sweep_columns() {
  std::set<std::int64_t> columns = {25000, 50257, 128256};
  for (std::int64_t power = 128; power <= 524288; power *= 2) {
    columns.insert(power);
  }
  bool odd = true;
  for (double step = 128 * 1.2; step < 524288; step *= 1.2) {
    const auto cols = static_cast<std::int64_t>(std::lround(step));
    columns.insert(odd ? cols | 1 : cols & ~std::int64_t{1});
    odd = !odd;
  }
  return columns;
}

void add_sweep(case_list& list) {
  constexpr std::int64_t quick[] = {128, 512, 1024, 4096, 16384, 25000, 50257, 128256, 524288};
  const std::set<std::int64_t> columns = sweep_columns();
  for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) {
    const bench_case c{.group = "sweep", .type = type, .threads = 0};
    for (const std::int64_t cols : columns) {
      list.add(c,
               streaming(cols, type,
                         type != dtype::f16 && std::ranges::find(quick, cols) != std::end(quick)));
    }
  }
}

void add_operations(case_list& list) {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    const bench_case lse{
        .group = "operations", .op = operation::logsumexp, .type = type, .threads = 0};
    for (const std::int64_t cols :
         {128, 512, 1000, 4096, 16384, 25000, 50257, 128256, 262144, 524288}) {
      list.add(lse, streaming(cols, type, cols == 1000 || cols == 25000 || cols == 128256));
    }
    const bench_case log{
        .group = "operations", .op = operation::log_softmax, .type = type, .threads = 0};
    for (const std::int64_t cols : {1000, 4096, 25000, 128256}) {
      list.add(log, streaming(cols, type));
    }
    for (const operation op : {operation::softmax_backward, operation::log_softmax_backward}) {
      const bench_case gradient{.group = "operations", .op = op, .type = type, .threads = 0};
      for (const std::int64_t cols : {128, 1000, 1023, 4096, 16384, 25000, 50257, 128256, 524288}) {
        list.add(gradient, streaming(cols, type, cols == 1000 || cols == 128256));
      }
    }
  }
  const bench_case wide{.group = "operations", .type = dtype::f64, .threads = 0};
  for (const std::int64_t cols : {1000, 4096, 8192, 12211, 16384, 25000, 50257, 128256}) {
    list.add(wide, streaming(cols, dtype::f64));
  }
}

// What stands before and after a softmax where text is generated.
void add_generation(case_list& list) {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    for (const operation op :
         {operation::sample, operation::sample_top_k_p, operation::sample_top_p,
          operation::sample_min_p, operation::sample_raw}) {
      list.add({.group = "operations", .op = op, .type = type, .k = 1, .threads = 0},
               {{1, 151936, true}, {64, 128256}, {256, 151936, true}, {1024, 128256}});
    }
    for (const std::int64_t cols : {1024, 4096, 25000, 128256}) {
      list.add({.group = "operations", .op = operation::scan, .type = type, .threads = 0},
               streaming(cols, type, cols == 4096));
    }
  }
}

// A softmax with half of its elements removed, and with nearly all, beside one without a mask.
void add_masks(case_list& list) {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    for (const operation op :
         {operation::softmax, operation::masked_softmax, operation::sparse_softmax}) {
      list.add({.group = "masks", .op = op, .type = type, .threads = 0},
               {{65536, 1024}, {16384, 4096}, {4096, 16384}, {256, 151936, true}, {1024, 128256}});
    }
  }
}

// What the peers measure themselves by.
void add_shapes(case_list& list) {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    list.add({.group = "shapes", .type = type, .threads = 0}, {{32768, 4096},
                                                               {8192, 16384},
                                                               {4096, 32768},
                                                               {1024, 128256},
                                                               {65536, 256, true},
                                                               {8192, 1024}});
  }
}

// So few rows that a block for each leaves most of the device idle.
void add_few_rows(case_list& list) {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    list.add({.group = "few-rows", .type = type, .threads = 0}, {{1, 4096},
                                                                 {1, 32768},
                                                                 {1, 128256, true},
                                                                 {1, 1048576, true},
                                                                 {1, 16777216, true},
                                                                 {10, 25000},
                                                                 {32, 128256}});
    for (const std::int64_t rows : {1, 8, 64, 256}) {
      list.add({.group = "few-rows", .type = type, .threads = 0},
               {{rows, 151936, rows == 64}, {rows, 262144}});
    }
    list.add({.group = "few-rows", .op = operation::logsumexp, .type = type, .threads = 0},
             {{1, 128256}, {1, 1048576}, {1, 16777216}});
  }
}

void add_topk(case_list& list) {
  constexpr shape shapes[] = {{4000, 25000, true}, {4096, 50257},     {1024, 128256, true},
                              {32, 128256},        {1, 128256, true}, {65536, 128},
                              {16384, 4096}};
  bench_case c{.group = "topk", .op = operation::softmax_topk, .threads = 0};
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    c.type = type;
    // An indexer of sparse attention. The largest first: its normal input is made once for all.
    c.op = operation::topk;
    c.k = 2048;
    list.add(c, {{2048, 131072}, {512, 131072}, {64, 131072}, {2048, 32768}, {512, 32768}});
    list.add(c, shape{64, 32768, true});
    c.k = 8;  // a router of experts
    list.add(c, {{65536, 128}, {8192, 256}});
    c.op = operation::softmax_topk;
    list.add(c, shape{8192, 256, true});
    list.add(c, {{64, 256}, {16384, 64}, {16384, 160}, {16384, 384}, {16384, 1024}});
    if (type == dtype::bf16) {
      list.add(c, shape{65536, 128});
    }
    // The shape innermost: a normal input is made once for all of them.
    for (const std::int64_t k : {1, 5, 8, 32, 64, 256, 1024}) {
      if (type == dtype::f32 || k == 5 || k == 64 || k == 1024) {
        c.k = k;
        for (shape s : shapes) {
          s.quick = s.quick && type == dtype::f32 && (k == 5 || k == 64 || k == 1024);
          list.add(c, s);
        }
      }
    }
    c.k = 16;
    list.add(c, shape{16384, 4096});
  }
  c.op = operation::topk;
  c.type = dtype::f32;
  for (const std::int64_t k : {5, 64, 1024}) {
    c.k = k;
    list.add(c, {{4000, 25000}, {1024, 128256}, {1, 128256}});
  }
}

// Beside the normal ones of "topk". One input after another: each is made once for all k.
void add_inputs(case_list& list) {
  bench_case c{.group = "inputs", .op = operation::softmax_topk, .threads = 0};
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    c.type = type;
    for (const shape& s : {shape{4000, 25000, true}, {1024, 128256}, {1, 128256}, {16384, 4096}}) {
      for (const distribution input :
           {distribution::logits, distribution::ascending, distribution::equal}) {
        c.input = input;
        for (const std::int64_t k : {5, 64, 1024}) {
          c.k = k;
          list.add(c, {s.rows, s.cols, s.quick && type == dtype::f32 && k == 5});
        }
      }
    }
  }
}

// The comparison of Milakov and Gimelshein: 4000 rows, k = 5.
void add_paper(case_list& list) {
  for (const std::int64_t cols : {100, 1000, 4000, 10000, 25000}) {
    list.add({.group = "paper", .threads = 0}, shape{4000, cols});
    list.add({.group = "paper", .op = operation::softmax_topk, .k = 5, .threads = 0},
             shape{4000, cols, cols == 25000});
  }
}

// The largest inputs first: they serve the others of their type.
void add_attention(case_list& list) {
  struct timed_shape {
    attention_shape shape;
    bool quick = false;
    bool other_types = false;  // not of bf16 alone
  };
  constexpr timed_shape shapes[] = {
      {{8, 32, 8, 1, 16384, 128}, true, true},
      {{8, 8, 8, 1, 16384, 128}},
      {{16, 32, 8, 1, 16384, 64}},
      {{8, 32, 8, 1, 2048, 128}},
      {{1, 32, 8, 1, 8192, 128}, true, true},
      {{1, 32, 8, 1, 4096, 128}},
      {{1, 16, 16, 8192, 8192, 128}, true, true},
      {{1, 16, 16, 8192, 8192, 128, true}, false, true},
      {{1, 16, 16, 8191, 8191, 128}},
      {{4, 16, 16, 2048, 2048, 128}},
      {{1, 32, 32, 8192, 8192, 64}},
      {{1, 32, 32, 8192, 8192, 64, true}},
      {{1, 8, 8, 8192, 8192, 256}},
  };
  list.add_attention(attention_shape::ragged(64, 32, 8, 128), dtype::bf16, 0);
  for (const dtype type : {dtype::bf16, dtype::f16, dtype::f32, dtype::f64}) {
    for (const timed_shape& s : shapes) {
      if (type == dtype::bf16 || s.other_types) {
        list.add_attention(s.shape, type, 0, s.quick && type == dtype::bf16);
      }
    }
  }
}

}  // namespace

std::vector<bench_case> all_cases(const std::vector<int>& /*threads*/) {
  case_list list;
  add_topk(list);  // first: its largest normal input serves all later ones of its type
  add_paper(list);
  add_sweep(list);
  add_operations(list);
  add_generation(list);
  add_masks(list);
  add_shapes(list);
  add_few_rows(list);
  add_inputs(list);
  add_attention(list);
  return list.take();
}

}  // namespace softfold::bench

// SPDX-License-Identifier: Apache-2.0
// attention, fold_attention, and combine and normalize of their states.
#include "attention_problem.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace softfold::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

/// Runs and checks attention, and the same by its states.
template <class Out, class In>
void check_attention(queue& q, attention_case<In>& c) {
  using A = typename attention_case<In>::A;
  tensor<Out> out(c.output_layout(c.spec.v_dim), role::output);
  tensor<A> lse(c.output_layout(1), role::output);
  attention_options options = c.options;
  options.lse = lse.view();
  attention(q, c.q.view(), c.k.view(), c.v.view(), out.view(), options);
  q.wait();
  out.download();
  lse.download();
  CHECK(out.is_clean());
  CHECK(lse.is_clean());
  c.check(out, &lse, "attention");
}

template <class In>
void check_fold(queue& q, attention_case<In>& c) {
  using A = typename attention_case<In>::A;
  const std::int64_t rows = c.spec.batches * c.spec.heads * c.spec.queries;
  states<A> state(rows);
  tensor<A> weighted(c.output_layout(c.spec.v_dim), role::output);
  tensor<A> out(c.output_layout(c.spec.v_dim), role::output);
  tensor<A> lse({c.spec.batches, c.spec.heads, c.spec.queries, 1, c.spec.heads * c.spec.queries,
                 c.spec.queries, 1},
                role::output);
  fold_attention(q, c.q.view(), c.k.view(), c.v.view(), state.ref(), weighted.view(), c.options);
  normalize(q, state.ref(), weighted.view(), out.view(), c.spec.empty_row);
  logsumexp(q, const_partials_ref(state.ref()), vector_ref{lse.view().data, dtype_of<A>, rows});
  q.wait();
  out.download();
  weighted.download();
  lse.download();
  CHECK(out.is_clean());
  CHECK(weighted.is_clean());
  c.check(out, &lse, "fold_attention");
}

TEST_SUITE("attention") {
  TEST_CASE_TEMPLATE("shapes and strides", Types, SOFTFOLD_TEST_IO_TYPES) {
    using In = typename Types::input;
    queue q;
    unsigned seed = 1;
    for (const attention_spec& s : std::initializer_list<attention_spec>{
             {.keys = 1, .dim = 1, .v_dim = 1},
             {.queries = 3, .keys = 5, .dim = 3, .v_dim = 2},
             {.batches = 2,
             .heads = 4,
             .key_heads = 2,
             .queries = 7,
             .keys = 33,
             .dim = 40,
             .v_dim = 24},
             {.heads = 6, .key_heads = 1, .queries = 1, .keys = 300, .dim = 64, .v_dim = 64},
             {.heads = 2, .key_heads = 2, .queries = 65, .keys = 129, .dim = 64, .v_dim = 80},
             {.queries = 2, .keys = 130, .dim = 128, .v_dim = 128},
             {.queries = 9, .keys = 20, .dim = 17, .v_dim = 130}}) {
      for (const packing how : {packing::heads_first, packing::tokens_first, packing::packed}) {
        attention_spec spec = s;
        spec.how = how;
        spec.seed = seed++;
        attention_case<In> c(spec);
        check_attention<typename Types::output>(q, c);
      }
    }
  }

  TEST_CASE_TEMPLATE("the largest dimensions", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    attention_case<In> c({.heads = 2, .queries = 5, .keys = 70, .dim = 512, .v_dim = 512});
    check_attention<In>(q, c);
    attention_case<In> other({.queries = 40, .keys = 66, .dim = 33, .v_dim = 512});
    check_attention<In>(q, other);
  }

  TEST_CASE_TEMPLATE("many rows of a key head", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    unsigned seed = 30;
    for (const std::int64_t dim : {40, 64, 128, 200, 256}) {
      attention_spec s{.heads = 4,
                       .key_heads = 2,
                       .queries = 150,
                       .keys = 333,
                       .dim = dim,
                       .v_dim = dim == 200 ? 90 : dim,
                       .seed = seed++};
      std::vector<attention_spec> specs = {s};
      s.corner = causal::bottom_right;
      s.how = packing::tokens_first;
      specs.push_back(s);
      s.window_left = 70;
      s.how = packing::packed;
      specs.push_back(s);
      s.corner = causal::none;
      s.window_right = 20;
      s.batches = 2;
      s.lengths = {300, 71};
      s.sinks = true;
      specs.push_back(s);
      s.queries = 5;
      s.window_left = s.window_right = -1;
      specs.push_back(s);
      if (dim == 64 && !reduced) {
        s = specs[0];
        s.queries = 300;
        s.keys = 1500;
        s.corner = causal::bottom_right;
        specs.push_back(s);
        s.alibi = true;
        specs.push_back(s);
      }
      for (const attention_spec& each : specs) {
        attention_case<In> c(each);
        check_attention<In>(q, c);
        check_fold(q, c);
      }
    }
  }

  TEST_CASE_TEMPLATE("more work than a device has blocks for, of sequences of many lengths", In,
                     SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    unsigned seed = 60;
    for (const std::int64_t dim : {16, 80, 136}) {
      for (const std::int64_t keys : {150, 2100}) {
        attention_spec s{.batches = reduced       ? 3
                                    : keys == 150 ? 48
                                                  : 16,
                         .heads = 6,
                         .key_heads = 2,
                         .queries = 43,
                         .keys = keys,
                         .dim = dim,
                         .v_dim = dim,
                         .corner = keys == 150 ? causal::bottom_right : causal::none,
                         .window_left = dim == 80 ? 99 : -1,
                         .sinks = dim == 80,
                         .seed = seed++};
        for (std::int64_t b = 0; b < s.batches; ++b) {
          s.lengths.push_back(b % 7 == 0 ? 0 : b * 37 % keys + 1);
        }
        attention_case<In> c(s);
        check_attention<In>(q, c);
        tensor<In> all(c.output_layout(dim), role::output);
        attention(q, c.q.view(), c.k.view(), c.v.view(), all.view(), c.options);
        q.wait();
        all.download();
        bool same = true;
        for (std::int64_t b = 0; b < s.batches; ++b) {  // each row of each
          tensor<In> alone(layout_of(packing::heads_first, 1, s.heads, s.queries, dim),
                           role::output);
          attention_options options = c.options;
          options.key_lengths.data = static_cast<const std::int64_t*>(options.key_lengths.data) + b;
          options.key_lengths.size = 1;
          attention(q, batch_of(c.q.view(), b), batch_of(c.k.view(), b), batch_of(c.v.view(), b),
                    alone.view(), options);
          q.wait();
          alone.download();
          for (std::int64_t r = 0; r < s.heads * s.queries; ++r) {
            const std::span<const In> row = all.row(b, r / s.queries, r % s.queries);
            same = same &&
                   same_bits(row, std::span<const In>(alone.row(0, r / s.queries, r % s.queries)));
          }
        }
        CHECK(same);
      }
    }
  }

  TEST_CASE_TEMPLATE("long keys", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const std::int64_t keys : {1024, 1025, reduced ? 2100 : 9000}) {
      attention_case<In> c({.heads = 4,
                            .key_heads = 2,
                            .queries = 1,
                            .keys = keys,
                            .dim = 32,
                            .v_dim = 16,
                            .seed = 5});
      check_attention<In>(q, c);
      check_fold(q, c);
      attention_case<In> even(
          {.queries = 1, .keys = keys, .dim = 8, .v_dim = 8, .equal_scores = true, .seed = 6});
      check_attention<In>(q, even);
    }
    attention_case<In> many({.heads = 1,
                             .queries = reduced ? 30 : 100,
                             .keys = 1500,
                             .dim = 16,
                             .v_dim = 16,
                             .corner = causal::bottom_right,
                             .seed = 7});
    check_attention<In>(q, many);
  }

  TEST_CASE_TEMPLATE("sums of many equal terms", In, float, double) {
    // Additions round alike.
    queue q;
    constexpr std::int64_t keys = reduced ? 9000 : 40000;
    for (const std::int64_t queries : {1, 260}) {
      attention_case<In> c({.queries = queries,
                            .keys = keys,
                            .dim = 2,
                            .v_dim = 3,
                            .equal_scores = true,
                            .seed = 8});
      for (std::int64_t j = 0; j < keys; ++j) {
        for (In& x : c.v.row(0, 0, j)) {
          x = make<In>(1.0 / 3);
        }
      }
      c.commit();
      check_attention<In>(q, c);
    }
  }

  TEST_CASE_TEMPLATE("scores that rise along the keys", In, SOFTFOLD_TEST_INPUT_TYPES) {
    // Every sum so far is rebased, and still counts.
    queue q;
    constexpr std::int64_t keys = 2500;
    for (const std::int64_t queries : {1, 20, 260}) {
      attention_case<In> c(
          {.queries = queries, .keys = keys, .dim = 4, .v_dim = 5, .scale = 1.0, .seed = 9});
      for (std::int64_t i = 0; i < queries; ++i) {
        c.q.row(0, 0, i)[0] = make<In>(1.0);
      }
      for (std::int64_t j = 0; j < keys; ++j) {
        c.k.row(0, 0, j)[0] = make<In>(0.002 * static_cast<double>(j));
      }
      c.commit();
      check_attention<In>(q, c);
      check_fold(q, c);
    }
  }

  TEST_CASE_TEMPLATE("masks, biases and sinks", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    unsigned seed = 20;
    const attention_spec base{.batches = 2,
                              .heads = 4,
                              .key_heads = 2,
                              .queries = 19,
                              .keys = 45,
                              .dim = 24,
                              .v_dim = 20};
    std::vector<attention_spec> specs;
    for (const causal corner : {causal::none, causal::top_left, causal::bottom_right}) {
      attention_spec s = base;
      s.corner = corner;
      specs.push_back(s);
      s.window_left = 6;
      specs.push_back(s);
      s.window_right = 3;
      s.lengths = {45, 17};
      specs.push_back(s);
      s.queries = 50;  // more than keys: rows without any
      s.window_right = -1;
      specs.push_back(s);
      s = base;
      s.corner = corner;
      s.alibi = true;
      s.sinks = true;
      specs.push_back(s);
      s.query_offset = 9;
      s.key_offset = 5;
      specs.push_back(s);
      s.query_offset = -12;
      s.lengths = {50, 3};
      specs.push_back(s);
    }
    for (const int dims : {8, 9, 10, 12, 15}) {
      attention_spec s = base;
      s.bias_dims = dims;
      s.how = dims % 2 == 0 ? packing::tokens_first : packing::packed;
      s.softcap = dims == 12 ? 5 : 0;
      s.sinks = dims == 15;
      specs.push_back(s);
    }
    attention_spec capped = base;
    capped.softcap = 2.5;
    capped.deviation = 3;
    specs.push_back(capped);
    attention_spec none = base;
    none.lengths = {0, -4};
    specs.push_back(none);
    none.empty_row = empty_row::nan;
    specs.push_back(none);
    for (attention_spec& s : specs) {
      s.seed = seed++;
      attention_case<In> c(s);
      check_attention<In>(q, c);
      check_fold(q, c);
    }
  }

  TEST_CASE_TEMPLATE("scales and sizes of scores", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const double scale : {0.0, 1.0, -0.7, 30.0}) {
      for (const double deviation : {0.01, 1.0, 12.0}) {
        attention_case<In> c({.heads = 2,
                              .queries = 6,
                              .keys = 150,
                              .dim = 20,
                              .v_dim = 12,
                              .scale = scale,
                              .deviation = deviation,
                              .seed = 3});
        check_attention<In>(q, c);
      }
    }
  }

  TEST_CASE_TEMPLATE("no queries, keys, heads or batches", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const attention_spec& s : std::initializer_list<attention_spec>{
             {.batches = 0}, {.heads = 0, .key_heads = 0}, {.heads = 0}, {.queries = 0}}) {
      attention_case<In> c(s);
      check_attention<In>(q, c);
      check_fold(q, c);
    }
    for (const empty_row policy : {empty_row::zero, empty_row::nan}) {
      attention_case<In> c(
          {.heads = 3, .key_heads = 3, .queries = 4, .keys = 0, .empty_row = policy});
      check_attention<In>(q, c);
      check_fold(q, c);
    }
    attention_case<In> sink({.heads = 3, .queries = 2, .keys = 0, .sinks = true});
    check_attention<In>(q, sink);
  }

  TEST_CASE_TEMPLATE("what a masked key holds reaches nothing", In, SOFTFOLD_TEST_INPUT_TYPES) {
    // Each query's own future is NaN for it, and ordinary for the next.
    queue q;
    for (const std::int64_t tokens : {5, 40, 140, 290}) {
      attention_case<In> c({.heads = 2,
                            .queries = tokens,
                            .keys = tokens,
                            .dim = 16,
                            .v_dim = 12,
                            .corner = causal::top_left,
                            .seed = 8});
      const std::int64_t spoiled = tokens / 2;
      for (In& x : c.k.row(0, 0, spoiled)) {
        x = make<In>(nan);
      }
      for (In& x : c.v.row(0, 0, spoiled)) {
        x = make<In>(infinity);
      }
      c.commit();
      check_attention<In>(q, c);
      // A value alone: the queries that see it have it, the others not.
      attention_case<In> value({.heads = 2,
                                .queries = tokens,
                                .keys = tokens,
                                .dim = 16,
                                .v_dim = 12,
                                .corner = causal::top_left,
                                .seed = 9});
      value.v.row(0, 0, spoiled)[3] = make<In>(nan);
      value.commit();
      check_attention<In>(q, value);
      // By the bias.
      attention_case<In> biased(
          {.queries = tokens, .keys = tokens, .dim = 16, .v_dim = 12, .bias_dims = 8, .seed = 10});
      for (std::int64_t j = 0; j < tokens; ++j) {
        if (!std::isfinite(static_cast<double>(reference::widen(biased.bias(j))))) {
          biased.k.row(0, 0, j)[0] = make<In>(nan);
          biased.v.row(0, 0, j)[0] = make<In>(-infinity);
        }
      }
      biased.commit();
      check_attention<In>(q, biased);
    }
  }

  TEST_CASE_TEMPLATE("NaN and infinity among live scores", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const std::int64_t at : {0, 70, 1200}) {
      for (const int what : {0, 1, 2, 3}) {
        attention_case<In> c({.queries = at == 70 ? 300 : 2,
                              .keys = 1300,
                              .dim = 4,
                              .v_dim = 5,
                              .scale = 1.0,
                              .seed = 11});
        c.q.row(0, 0, 0)[0] = make<In>(1);
        c.q.row(0, 0, 1)[0] = make<In>(0);
        c.k.row(0, 0, at)[0] = make<In>(what == 0 || what == 3 ? nan
                                        : what == 1            ? infinity
                                                               : -infinity);
        if (what == 3) {
          c.k.row(0, 0, 1299)[0] = make<In>(infinity);
        }
        c.commit();
        check_attention<In>(q, c);
        check_fold(q, c);
      }
    }
  }

  TEST_CASE_TEMPLATE("one live key gives its value, values of 1 give 1", In,
                     SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const std::int64_t keys : {1, 60, 1500}) {
      attention_case<In> c({.batches = 3,
                            .heads = 2,
                            .queries = 3,
                            .keys = keys,
                            .dim = 24,
                            .v_dim = 40,
                            .deviation = 4,
                            .seed = 12});
      const std::vector<std::int64_t> lengths = {1, 1, 1};
      const device_vector<std::int64_t> memory{std::span<const std::int64_t>(lengths)};
      tensor<In> out(c.output_layout(40), role::output);
      attention_options options = c.options;
      options.key_lengths = memory.ref();
      attention(q, c.q.view(), c.k.view(), c.v.view(), out.view(), options);
      q.wait();
      out.download();
      for (std::int64_t b = 0; b < 3; ++b) {
        for (std::int64_t h = 0; h < 2; ++h) {
          for (std::int64_t i = 0; i < 3; ++i) {
            CHECK(same_bits(std::span<const In>(out.row(b, h, i)),
                            std::span<const In>(c.v.row(b, 0, 0))));
          }
        }
      }
      for (std::int64_t b = 0; b < 3; ++b) {
        for (std::int64_t j = 0; j < keys; ++j) {
          for (In& x : c.v.row(b, 0, j)) {
            x = make<In>(1);
          }
        }
      }
      c.commit();
      check_attention<In>(q, c);
    }
  }

  TEST_CASE_TEMPLATE("parts of the keys combine to the whole", In, SOFTFOLD_TEST_INPUT_TYPES) {
    using A = typename attention_case<In>::A;
    queue q;
    const std::int64_t keys = 200;
    for (const bool packed : {false, true}) {
      attention_case<In> c({.batches = 2,
                            .heads = 4,
                            .key_heads = 2,
                            .queries = 12,
                            .keys = keys,
                            .dim = 16,
                            .v_dim = 20,
                            .how = packed ? packing::packed : packing::heads_first,
                            .alibi = true,
                            .corner = causal::bottom_right,
                            .lengths = {keys, 90},
                            .sinks = true,
                            .seed = 14});
      const std::int64_t rows = 2 * 4 * 12;
      std::vector<states<A>> parts;
      std::vector<tensor<A>> sums;
      const std::vector<std::int64_t> ends = {0, 1, 50, 50, 131, keys};
      for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
        parts.emplace_back(rows);
        sums.emplace_back(c.output_layout(20), role::output);
        attention_options options = c.options;
        options.key_offset = ends[i];
        if (i != 2) {
          options.sinks = {};
        }
        fold_attention(q, c.q.view(), tokens_of(c.k.view(), ends[i], ends[i + 1] - ends[i]),
                       tokens_of(c.v.view(), ends[i], ends[i + 1] - ends[i]), parts[i].ref(),
                       sums[i].view(), options);
      }
      const auto add = [&](std::size_t more, std::size_t to) {
        combine(q, parts[more].ref(), sums[more].view(), parts[to].ref(), sums[to].view());
      };
      add(4, 1);
      add(0, 2);
      add(3, 1);
      add(1, 2);
      tensor<A> out(c.output_layout(20), role::output);
      normalize(q, parts[2].ref(), sums[2].view(), out.view());
      q.wait();
      out.download();
      CHECK(out.is_clean());
      c.check(out, static_cast<const tensor<A>*>(nullptr), "combined");
      // With itself: twice the sums, the same result within the bounds.
      combine(q, parts[2].ref(), sums[2].view(), parts[2].ref(), sums[2].view());
      normalize(q, parts[2].ref(), sums[2].view(), out.view());
      q.wait();
      out.download();
      c.check(out, static_cast<const tensor<A>*>(nullptr), "with itself");
    }
  }

  TEST_CASE_TEMPLATE("parts of the queries are the whole's rows", In, float, half) {
    queue q;
    attention_case<In> c({.heads = 2,
                          .queries = 20,
                          .keys = 33,
                          .dim = 16,
                          .v_dim = 8,
                          .corner = causal::bottom_right,
                          .seed = 15});
    tensor<In> out(c.output_layout(8), role::output);
    for (const std::int64_t begin : {0, 7}) {
      const std::int64_t count = begin == 0 ? 7 : 13;
      attention_options options = c.options;
      options.query_offset = begin + count - 20;
      const tensor_view<In> to = out.view();
      attention(q, tokens_of(c.q.view(), begin, count), c.k.view(), c.v.view(),
                tensor_view<In>(to.data + begin * to.token_stride, 1, 2, count, 8, to.batch_stride,
                                to.head_stride, to.token_stride),
                options);
    }
    q.wait();
    out.download();
    c.check(out, static_cast<const tensor<typename attention_case<In>::A>*>(nullptr), "in parts");
  }

  TEST_CASE_TEMPLATE("a row's bits do not know the batch, the threads or the call", In,
                     SOFTFOLD_TEST_INPUT_TYPES) {
    for (const std::int64_t queries : {1, 6, 40, 50, 150}) {
      const std::int64_t batches = reduced || queries > 40 ? 3 : 64;
      attention_case<In> c({.batches = batches,
                            .heads = 4,
                            .key_heads = 2,
                            .queries = queries,
                            .keys = queries == 1 ? 2100 : 90,
                            .dim = 16,
                            .v_dim = 16,
                            .corner = causal::bottom_right,
                            .seed = 16});
      tensor<In> all(c.output_layout(16), role::output);
      tensor<In> again(c.output_layout(16), role::output);
      tensor<In> alone(layout_of(packing::heads_first, 1, 4, queries, 16), role::output);
      queue q;
      queue one(queue_options{.threads = 1});
      attention(q, c.q.view(), c.k.view(), c.v.view(), all.view(), c.options);
      q.wait();
      attention(one, c.q.view(), c.k.view(), c.v.view(), again.view(), c.options);
      one.wait();
      all.download();
      again.download();
      for (const std::int64_t b : {std::int64_t{0}, batches / 2, batches - 1}) {
        attention(q, batch_of(c.q.view(), b), batch_of(c.k.view(), b), batch_of(c.v.view(), b),
                  alone.view(), c.options);
        q.wait();
        alone.download();
        bool same = true;
        for (std::int64_t h = 0; h < 4; ++h) {
          for (std::int64_t i = 0; i < queries; ++i) {
            const std::span<const In> row = all.row(b, h, i);
            same = same && same_bits(row, std::span<const In>(again.row(b, h, i))) &&
                   same_bits(row, std::span<const In>(alone.row(0, h, i)));
          }
        }
        CHECK(same);
      }
    }
  }

  TEST_CASE_TEMPLATE("a row's bits do not know what lies beyond its length", In,
                     SOFTFOLD_TEST_INPUT_TYPES) {
    // As many keys are chunks that are combined in another way.
    queue q;
    for (const std::int64_t length : {600, 3000}) {
      for (const std::int64_t queries : {1, 40}) {
        const std::int64_t tokens = reduced ? 4500 : 20000;
        attention_case<In> c(
            {.queries = queries, .keys = tokens, .dim = 36, .v_dim = 36, .seed = 18});
        const device_vector<std::int64_t> lengths{std::span<const std::int64_t>(&length, 1)};
        attention_options options = c.options;
        options.key_lengths = lengths.ref();
        tensor<In> padded(c.output_layout(36), role::output);
        tensor<In> alone(c.output_layout(36), role::output);
        attention(q, c.q.view(), c.k.view(), c.v.view(), padded.view(), options);
        attention(q, c.q.view(), tokens_of(c.k.view(), 0, length), tokens_of(c.v.view(), 0, length),
                  alone.view());
        q.wait();
        padded.download();
        alone.download();
        for (std::int64_t i = 0; i < queries; ++i) {
          CHECK(same_bits(std::span<const In>(padded.row(0, 0, i)),
                          std::span<const In>(alone.row(0, 0, i))));
        }
      }
    }
  }

  TEST_CASE("heads and batches that share memory") {
    queue q;
    attention_case<float> c({.batches = 2, .heads = 4, .key_heads = 2, .queries = 3, .keys = 20});
    const tensor_view<float> k = c.k.view();
    const tensor_view<float> v = c.v.view();
    tensor<float> out(c.output_layout(16), role::output);
    attention(q, c.q.view(), tensor_view<float>(k.data, 2, 2, 20, 16, 0, 0, k.token_stride),
              tensor_view<float>(v.data, 2, 2, 20, 16, 0, 0, v.token_stride), out.view());
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t j = 0; j < 20; ++j) {
          std::copy_n(c.k.row(0, 0, j).begin(), 16, c.k.row(b, h, j).begin());
          std::copy_n(c.v.row(0, 0, j).begin(), 16, c.v.row(b, h, j).begin());
        }
      }
    }
    q.wait();
    out.download();
    c.check(out, static_cast<const tensor<float>*>(nullptr), "shared");
  }

  TEST_CASE("strides beyond 2^31 elements") {
    if (reduced) {
      return;
    }
    queue q;
    // Two batches of keys and values that are 4 GB apart, of which nothing else is touched.
    attention_case<bfloat16> c({.batches = 2, .queries = 3, .keys = 20, .seed = 17});
    const std::int64_t stride = (std::int64_t{1} << 31) + 40;
    buffer far(q, static_cast<std::size_t>(stride + 2 * 20 * 16) * sizeof(bfloat16));
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t j = 0; j < 20; ++j) {
        const auto at = static_cast<std::size_t>(b * stride + j * 32) * sizeof(bfloat16);
        far.upload(q, c.k.row(b, 0, j).data(), 16 * sizeof(bfloat16), at);
        far.upload(q, c.v.row(b, 0, j).data(), 16 * sizeof(bfloat16), at + 16 * sizeof(bfloat16));
      }
    }
    auto* const data = static_cast<bfloat16*>(far.data());
    tensor<bfloat16> near_by(c.output_layout(16), role::output);
    tensor<bfloat16> out(c.output_layout(16), role::output);
    attention(q, c.q.view(), c.k.view(), c.v.view(), near_by.view());
    attention(q, c.q.view(), tensor_view<bfloat16>(data, 2, 1, 20, 16, stride, 0, 32),
              tensor_view<bfloat16>(data + 16, 2, 1, 20, 16, stride, 0, 32), out.view());
    q.wait();
    near_by.download();
    out.download();
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t i = 0; i < 3; ++i) {
        CHECK(same_bits(std::span<const bfloat16>(near_by.row(b, 0, i)),
                        std::span<const bfloat16>(out.row(b, 0, i))));
      }
    }
  }

  TEST_CASE("wrong calls are refused before anything is written") {
    queue q;
    attention_case<float> c({.batches = 2, .heads = 4, .key_heads = 2, .queries = 3, .keys = 8});
    tensor<float> out(c.output_layout(16), role::output);
    tensor<float> lse(c.output_layout(1), role::output);
    states<float> state(24);
    const const_tensor_ref query = c.q.view();
    const const_tensor_ref key = c.k.view();
    const const_tensor_ref value = c.v.view();
    const tensor_ref to = out.view();
    const auto fails = [&](const char* said, const auto& call) {
      CHECK_THROWS_WITH_AS(call(), doctest::Contains(said), error);
      q.wait();
      out.download();
      lse.download();
      CHECK(out.is_untouched());
      CHECK(lse.is_untouched());
    };
    const auto changed = [](auto t, auto member, std::int64_t value_of_it) {
      t.*member = value_of_it;
      return t;
    };
    const auto run = [&](const attention_options& options) {
      return [&, options] { attention(q, query, key, value, to, options); };
    };
    using in = const_tensor_ref;
    fails("attention: query.heads is 3, expected a multiple of key.heads = 2",
          [&] { attention(q, changed(query, &in::heads, 3), key, value, to); });
    fails("attention: query.dim is 513, expected 1 to 512",
          [&] { attention(q, changed(query, &in::dim, 513), key, value, to); });
    fails("attention: value.dim is 0, expected 1 to 512",
          [&] { attention(q, query, key, changed(value, &in::dim, 0), to); });
    fails("attention: key.dim is 15, expected 16, that of query",
          [&] { attention(q, query, changed(key, &in::dim, 15), value, to); });
    fails("attention: value.tokens is 7, expected 8, that of key",
          [&] { attention(q, query, key, changed(value, &in::tokens, 7), to); });
    fails("attention: key.batches is 1, expected 2, that of query",
          [&] { attention(q, query, changed(key, &in::batches, 1), value, to); });
    fails("attention: key.token_stride is -1, expected 0 or more",
          [&] { attention(q, query, changed(key, &in::token_stride, -1), value, to); });
    fails("attention: query.tokens is -1, expected 0 or more",
          [&] { attention(q, changed(query, &in::tokens, -1), key, value, to); });
    fails("attention: key.data is null, expected a pointer", [&] {
      in without = key;
      without.data = nullptr;
      attention(q, query, without, value, to);
    });
    fails("attention: key.type is f64, expected f32, the type of query", [&] {
      in other = key;
      other.type = dtype::f64;
      attention(q, query, other, value, to);
    });
    fails("attention: out.token_stride is 8, expected at least 16",
          [&] { attention(q, query, key, value, changed(to, &tensor_ref::token_stride, 8)); });
    fails("attention: out.head_stride is 0, expected at least 16",
          [&] { attention(q, query, key, value, changed(to, &tensor_ref::head_stride, 0)); });
    fails("attention: out.type is f16", [&] {
      tensor_ref other = to;
      other.type = dtype::f16;
      attention(q, query, key, value, other);
    });
    fails(
        "attention: key.token_stride is 2305843009213693952, expected a tensor of less than 2^63 ",
        [&] {
          attention(q, query, changed(key, &in::token_stride, std::int64_t{1} << 61), value, to);
        });
    fails("attention: query is 0 x 4 x 4611686018427387904 x 16 elements, expected less than 2^63 ",
          [&] {
            in none = changed(query, &in::batches, 0);
            none.tokens = std::int64_t{1} << 62;
            attention(q, none, key, value, to);
          });
    fails("attention: out overlaps query", [&] {
      tensor_ref over = to;
      over.data = c.q.view().data;
      attention(q, query, key, value, over);
    });
    fails("attention: lse overlaps out", [&] {
      attention_options o;
      o.lse = {to.data, dtype::f32, 2, 4, 3, 1, 12, 3, 1};
      attention(q, query, key, value, to, o);
    });
    fails("attention: scale is 1.0000000000000001e+300, expected finite as f32",
          run({.scale = 1e300}));
    fails("attention: softcap is -1", run({.softcap = -1}));
    fails("attention: key_offset is -1, expected 0 to 2^60", run({.key_offset = -1}));
    fails("attention: corner is 9", run({.corner = static_cast<causal>(9)}));
    fails("attention: alibi_slopes.size is 3, expected 4",
          run({.alibi_slopes = {state.ref().data, dtype::f32, 3}}));
    fails("attention: sinks.type is i32, expected f32 or f64",
          run({.sinks = {state.ref().data, dtype::i32, 4}}));
    fails("attention: key_lengths.type is f32, expected i32 or i64",
          run({.key_lengths = {state.ref().data, dtype::f32, 2}}));
    fails("attention: bias.dim is 7, expected 8, the number of keys",
          run({.bias = {state.ref().data, dtype::f32, 1, 1, 1, 7, 0, 0, 0}}));
    fails("attention: bias.heads is 2, expected 1 or 4",
          run({.bias = {state.ref().data, dtype::f32, 1, 2, 1, 8, 0, 0, 0}}));
    fails("attention: lse.dim is 2, expected 1",
          run({.lse = {lse.view().data, dtype::f32, 2, 4, 3, 2, 24, 6, 2}}));
    fails("fold_attention: states.size is 23, expected 24", [&] {
      fold_attention(q, query, key, value, {state.ref().data, dtype::f32, 23}, to);
    });
    fails("fold_attention: lse.data is a pointer",
          [&] { fold_attention(q, query, key, value, state.ref(), to, {.lse = lse.view()}); });
    fails("fold_attention: weighted.type is f64, expected f32", [&] {
      tensor_ref other = to;
      other.type = dtype::f64;
      fold_attention(q, query, key, value, state.ref(), other);
    });
    fails("combine: weighted.tokens is 2, expected 3, that of more_weighted", [&] {
      combine(q, state.ref(), query, {state.ref().data, dtype::f32, 16},
              changed(to, &tensor_ref::tokens, 2));
    });
    fails("normalize: out.type is f64, expected f32, f16 or bf16 of f32 states", [&] {
      tensor_ref other = to;
      other.type = dtype::f64;
      normalize(q, state.ref(), query, other);
    });
    fails("normalize: out overlaps weighted", [&] { normalize(q, state.ref(), in(to), to); });
  }
}

}  // namespace
}  // namespace softfold::test

// SPDX-License-Identifier: Apache-2.0
// attention over sequences whose tokens are packed, against each sequence alone.
#include "attention_problem.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace softfold::test {
namespace {

/// Tokens of no sequence before the first and behind the last.
constexpr std::int64_t margin = 3;

template <class In>
class packed_case {
 public:
  using A = typename attention_case<In>::A;

  /// spec: all of a sequence but its tokens; sizes: its queries and keys.
  packed_case(const attention_spec& spec, const std::vector<std::array<std::int64_t, 2>>& sizes) {
    std::vector<std::int64_t> query_starts = {margin};
    std::vector<std::int64_t> key_starts = {margin};
    for (const auto& [queries, keys] : sizes) {
      attention_spec own = spec;
      own.queries = queries;
      own.keys = keys;
      own.seed = spec.seed + static_cast<unsigned>(keys);  // the same in any order
      if (!spec.lengths.empty()) {
        own.lengths = {keys / 2};
        lengths_.push_back(keys / 2);
      }
      sequences_.push_back(std::make_unique<attention_case<In>>(own));
      query_starts.push_back(query_starts.back() + queries);
      key_starts.push_back(key_starts.back() + keys);
    }
    query_starts_.assign(query_starts.begin(), query_starts.end());
    queries_ = query_starts.back() + margin;
    keys_ = key_starts.back() + margin;
    starts_memory_[0] =
        std::make_unique<device_vector<std::int64_t>>(std::span<const std::int64_t>(query_starts));
    starts_memory_[1] =
        std::make_unique<device_vector<std::int64_t>>(std::span<const std::int64_t>(key_starts));
    options = sequences_.front()->options;
    options.query_starts = starts_memory_[0]->ref();
    options.key_starts = starts_memory_[1]->ref();
    if (!lengths_.empty()) {
      lengths_memory_ =
          std::make_unique<device_vector<std::int64_t>>(std::span<const std::int64_t>(lengths_));
      options.key_lengths = lengths_memory_->ref();
    }
    const auto pack = [&](const tensor<In> attention_case<In>::*which, std::int64_t tokens,
                          const std::vector<std::int64_t>& starts) {
      const tensor_layout& w = ((*sequences_.front()).*which).where();
      tensor<In> all(layout_of(spec.how, 1, w.heads, tokens, w.dim), role::input);
      for (std::int64_t h = 0; h < w.heads; ++h) {
        for (std::int64_t t = 0; t < tokens; ++t) {
          for (In& x : all.row(0, h, t)) {
            x = make<In>(std::numeric_limits<double>::quiet_NaN());
          }
        }
        for (std::size_t s = 0; s < sequences_.size(); ++s) {
          const tensor<In>& own = (*sequences_[s]).*which;
          for (std::int64_t t = 0; t < own.where().tokens; ++t) {
            const std::span<const In> from = own.row(0, h, t);
            std::copy(from.begin(), from.end(), all.row(0, h, starts[s] + t).begin());
          }
        }
      }
      all.upload();
      return all;
    };
    q.emplace(pack(&attention_case<In>::q, queries_, query_starts));
    k.emplace(pack(&attention_case<In>::k, keys_, key_starts));
    v.emplace(pack(&attention_case<In>::v, keys_, key_starts));
  }

  template <class T>
  [[nodiscard]] tensor<T> output(std::int64_t dim) const {
    return tensor<T>(layout_of(spec().how, 1, spec().heads, queries_, dim), role::output);
  }
  [[nodiscard]] const attention_spec& spec() const { return sequences_.front()->spec; }
  [[nodiscard]] std::int64_t rows() const { return spec().heads * queries_; }

  /// What a result has of one sequence.
  template <class T>
  [[nodiscard]] tensor<T> part(const tensor<T>& all, std::size_t s) const {
    const attention_case<In>& own = *sequences_[s];
    tensor<T> result(own.output_layout(all.where().dim), role::output);
    for (std::int64_t h = 0; h < own.spec.heads; ++h) {
      for (std::int64_t t = 0; t < own.spec.queries; ++t) {
        const std::span<const T> from = all.row(0, h, query_starts_[s] + t);
        std::copy(from.begin(), from.end(), result.row(0, h, t).begin());
      }
    }
    return result;
  }
  void check(const tensor<In>& out, const tensor<A>& lse, const char* what) const {
    for (std::size_t s = 0; s < sequences_.size(); ++s) {
      const tensor<A> own_lse = part(lse, s);
      sequences_[s]->check(part(out, s), &own_lse, what);
    }
  }
  /// Whether tokens of no sequence are as they were.
  template <class T>
  [[nodiscard]] bool leaves_others(const tensor<T>& out) const {
    const tensor<T> fresh(out.where(), role::output);
    for (std::int64_t h = 0; h < spec().heads; ++h) {
      for (std::int64_t t = 0; t < queries_; ++t) {
        const bool is_own = t >= query_starts_.front() && t < query_starts_.back();
        if (!is_own && !same_bits(std::span<const T>(out.row(0, h, t)),
                                  std::span<const T>(fresh.row(0, h, t)))) {
          return false;
        }
      }
    }
    return true;
  }
  [[nodiscard]] std::size_t sequences() const { return sequences_.size(); }

  attention_options options;
  std::optional<tensor<In>> q, k, v;

 private:
  std::vector<std::unique_ptr<attention_case<In>>> sequences_;
  std::vector<std::int64_t> query_starts_;
  std::vector<std::int64_t> lengths_;
  std::int64_t queries_ = 0;
  std::int64_t keys_ = 0;
  std::unique_ptr<device_vector<std::int64_t>> starts_memory_[2];
  std::unique_ptr<device_vector<std::int64_t>> lengths_memory_;
};

template <class In>
tensor<In> attend(queue& q, const packed_case<In>& c, bool check) {
  using A = typename attention_case<In>::A;
  tensor<In> out = c.template output<In>(c.spec().v_dim);
  tensor<A> lse = c.template output<A>(1);
  attention_options options = c.options;
  options.lse = lse.view();
  attention(q, c.q->view(), c.k->view(), c.v->view(), out.view(), options);
  q.wait();
  out.download();
  lse.download();
  if (check) {
    CHECK(out.is_clean());
    CHECK(lse.is_clean());
    CHECK(c.leaves_others(out));
    CHECK(c.leaves_others(lse));
    c.check(out, lse, "packed attention");
  }
  return out;
}

template <class In>
void check_fold(queue& q, const packed_case<In>& c) {
  using A = typename attention_case<In>::A;
  states<A> state(c.rows());
  tensor<A> weighted = c.template output<A>(c.spec().v_dim);
  tensor<In> out = c.template output<In>(c.spec().v_dim);
  const tensor_layout by_rows =
      layout_of(packing::heads_first, 1, c.spec().heads, c.rows() / c.spec().heads, 1);
  tensor<A> lse(by_rows, role::output);
  fold_attention(q, c.q->view(), c.k->view(), c.v->view(), state.ref(), weighted.view(), c.options);
  normalize(q, state.ref(), weighted.view(), out.view(), c.spec().empty_row);
  logsumexp(q, const_partials_ref(state.ref()), vector_ref{lse.view().data, dtype_of<A>, c.rows()});
  q.wait();
  weighted.download();
  out.download();
  lse.download();
  CHECK(weighted.is_clean());
  CHECK(c.leaves_others(weighted));
  c.check(out, lse, "packed fold_attention");
}

const std::vector<std::array<std::int64_t, 2>> uneven = {
    {0, 3}, {5, 9}, {1, 40}, {70, 33}, {2, 0}, {0, 0}, {3, 1100}, {33, 64}, {1, 1}};

TEST_SUITE("attention") {
  TEST_CASE_TEMPLATE("packed tokens", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    const attention_spec base{.heads = 4, .key_heads = 2, .dim = 24, .v_dim = 20};
    std::vector<attention_spec> specs = {base};
    for (const causal corner : {causal::top_left, causal::bottom_right}) {
      attention_spec s = base;
      s.corner = corner;
      s.how = packing::tokens_first;
      s.window_left = 11;
      specs.push_back(s);
      s.window_left = -1;
      s.alibi = true;
      s.sinks = true;
      s.lengths = {1};
      specs.push_back(s);
    }
    attention_spec part = base;
    part.key_offset = 6;
    part.query_offset = 4;
    part.corner = causal::top_left;
    part.empty_row = empty_row::nan;
    specs.push_back(part);
    unsigned seed = 50;
    for (attention_spec& s : specs) {
      s.seed = seed;
      seed += 2000;
      packed_case<In> c(s, uneven);
      attend(q, c, true);
      c.options.most_queries = 70;
      c.options.most_keys = 1100;
      attend(q, c, true);
      check_fold(q, c);
    }
  }

  TEST_CASE_TEMPLATE("packed queries one by one", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    packed_case<In> c({.heads = 8, .key_heads = 2, .dim = 64, .v_dim = 64, .seed = 3},
                      {{1, 700}, {1, 2}, {1, 0}, {1, 1500}, {1, 513}});
    c.options.most_queries = 1;
    c.options.most_keys = 1500;
    attend(q, c, true);
    check_fold(q, c);
    // More queries than most_queries says.
    packed_case<In> more({.heads = 8, .key_heads = 2, .dim = 64, .v_dim = 64, .seed = 90},
                         {{1, 700}, {30, 20}, {0, 9}, {7, 1500}});
    more.options.most_queries = 1;
    attend(q, more, true);
    // Chunks of many keys, in one launch and in two, and a sequence that lacks most of them.
    for (const std::int64_t keys : {2100, reduced ? 2300 : 17000}) {
      packed_case<In> far({.heads = 2, .key_heads = 1, .dim = 40, .v_dim = 40, .seed = 91},
                          {{1, 3}, {1, keys}, {1, 0}, {2, 600}});
      far.options.most_queries = 2;
      attend(q, far, true);
    }
  }

  TEST_CASE_TEMPLATE("keys beyond most_keys do not exist", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const std::int64_t queries : {1, 40}) {
      packed_case<In> c({.heads = 2, .dim = 16, .v_dim = 16, .lengths = {1}, .seed = 4},
                        {{queries, 40}, {2, 40}, {queries, 41}});
      c.options.key_lengths = {};  // half of them, as most_keys says, too
      c.options.most_keys = 20;
      attend(q, c, true);
    }
  }

  TEST_CASE_TEMPLATE("a packed sequence's bits are its own", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    const attention_spec spec{
        .heads = 2, .key_heads = 1, .dim = 16, .v_dim = 16, .corner = causal::bottom_right};
    auto reversed = uneven;
    std::reverse(reversed.begin(), reversed.end());
    packed_case<In> there(spec, uneven);
    packed_case<In> back(spec, reversed);
    for (packed_case<In>* const c : {&there, &back}) {
      c->options.most_queries = 70;
      c->options.most_keys = 1100;
    }
    const tensor<In> first = attend(q, there, false);
    const tensor<In> second = attend(q, back, false);
    for (std::size_t s = 0; s < there.sequences(); ++s) {
      CAPTURE(s);
      const tensor<In> a = there.part(first, s);
      const tensor<In> b = back.part(second, there.sequences() - 1 - s);
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t t = 0; t < a.where().tokens; ++t) {
          CHECK(
              same_bits(std::span<const In>(a.row(0, h, t)), std::span<const In>(b.row(0, h, t))));
        }
      }
    }
  }

  TEST_CASE("no sequences, and starts that do not fit") {
    queue q;
    attention_case<float> c({.queries = 40, .keys = 50});
    tensor<float> out(c.output_layout(16), role::output);
    const auto attend_with = [&](const std::vector<std::int64_t>& query_starts,
                                 const std::vector<std::int64_t>& key_starts) {
      const device_vector<std::int64_t> a{std::span<const std::int64_t>(query_starts)};
      const device_vector<std::int64_t> b{std::span<const std::int64_t>(key_starts)};
      attention_options options = c.options;
      options.query_starts = a.ref();
      options.key_starts = b.ref();
      attention(q, c.q.view(), c.k.view(), c.v.view(), out.view(), options);
      q.wait();
      out.download();
      CHECK(out.is_clean());
    };
    attend_with({0}, {0});
    CHECK(out.is_untouched());
    // Whatever they are, nothing beside the tensors is read or written.
    attend_with({-5, 1000, 20}, {-9, 100, 7});
    attend_with({30, 10, 1000}, {40, 3, 1000});
    constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
    attend_with({-far, far, -far}, {far, -far, far});
  }

  TEST_CASE("packed tokens: what is refused") {
    queue q;
    attention_case<float> c({.batches = 2, .queries = 4, .keys = 5});
    tensor<float> out(c.output_layout(16), role::output);
    const std::vector<std::int64_t> starts = {0, 2, 4};
    const device_vector<std::int64_t> memory{std::span<const std::int64_t>(starts)};
    const const_vector_ref three = memory.ref();
    const const_vector_ref two(three.data, dtype::i64, 2);
    const auto refused = [&](const attention_options& options, bool one_batch) {
      const auto batch = [&](const const_tensor_ref& t) {
        const_tensor_ref some = t;
        some.batches = one_batch ? 1 : 2;
        return some;
      };
      tensor_ref to = out.view();
      to.batches = one_batch ? 1 : 2;
      try {
        attention(q, batch(c.q.view()), batch(c.k.view()), batch(c.v.view()), to, options);
      } catch (const error& e) {
        CHECK(out.is_untouched());
        return std::string(e.what());
      }
      return std::string("nothing");
    };
    const auto has = [](const std::string& text, const char* words) {
      INFO(text);
      CHECK(text.find(words) != std::string::npos);
    };
    has(refused({.query_starts = three}, true), "key_starts.size is 0, expected 3");
    has(refused({.query_starts = three, .key_starts = two}, true), "key_starts.size is 2");
    has(refused({.query_starts = three, .key_starts = three}, false), "query.batches is 2");
    has(refused({.query_starts = {three.data, dtype::f64, 3}, .key_starts = three}, true),
        "query_starts.type is f64");
    has(refused({.most_keys = -1}, true), "most_keys is -1");
    has(refused({.key_lengths = three, .query_starts = three, .key_starts = three}, true),
        "key_lengths.size is 3, expected 2");
  }
}

}  // namespace
}  // namespace softfold::test

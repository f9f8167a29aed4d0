// SPDX-License-Identifier: Apache-2.0
// attention_states: parts of the keys folded anywhere, sent as bytes and combined; and bytes that
// are none.
#include "attention_problem.hpp"
#include "state_bytes.hpp"

#include <softfold/attention_states.hpp>

namespace softfold::test {

namespace {

constexpr std::int64_t queries = 12;
constexpr std::int64_t v_dim = 20;

attention_spec spec_of_parts(std::int64_t keys) {
  return {.batches = 2,
          .heads = 4,
          .key_heads = 2,
          .queries = queries,
          .keys = keys,
          .dim = 16,
          .v_dim = v_dim,
          .corner = causal::bottom_right,
          .lengths = {keys, 90},
          .sinks = true,
          .seed = 19};
}

template <class In>
attention_states none_of(const attention_case<In>& c) {
  return {dtype_of<typename attention_case<In>::A>, c.spec.batches, c.spec.heads, c.spec.queries,
          c.spec.v_dim};
}

/// Keys [begin, end), with the sinks or without.
template <class In>
void fold(queue& q, attention_states& into, const attention_case<In>& c, std::int64_t begin,
          std::int64_t end, bool sinks) {
  attention_options options = c.options;
  options.key_offset = begin;
  if (!sinks) {
    options.sinks = {};
  }
  into.fold(q, c.q.view(), tokens_of(c.k.view(), begin, end - begin),
            tokens_of(c.v.view(), begin, end - begin), options);
}

bytes example(queue& q) {
  const attention_case<float> c(spec_of_parts(100));
  attention_states s = none_of(c);
  fold(q, s, c, 0, 30, false);
  fold(q, s, c, 40, 100, true);
  return s.to_bytes();
}

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const error& e) {
    return e.what();
  }
  return "no error";
}

constexpr std::size_t first_range = 64;
constexpr std::size_t first_state = first_range + 2 * 16;

}  // namespace

TEST_SUITE("attention_states") {
  TEST_CASE_TEMPLATE("parts sent as bytes and combined are the whole", In,
                     SOFTFOLD_TEST_INPUT_TYPES) {
    using A = typename attention_case<In>::A;
    queue q;
    const std::int64_t keys = 200;
    const attention_case<In> c(spec_of_parts(keys));
    attention_states last = none_of(c);
    fold(q, last, c, 131, keys, false);
    attention_states first = none_of(c);
    fold(q, first, c, 50, 131, false);
    fold(q, first, c, 0, 1, true);
    CHECK(first.has_sinks());
    const bytes sent = last.to_bytes();
    CHECK(sent.size() == last.byte_count());
    const attention_states received = attention_states::from_bytes(sent);
    CHECK(received.to_bytes() == sent);
    first.combine(q, received);
    first.combine(q, none_of(c));
    fold(q, first, c, 1, 50, false);
    REQUIRE(first.keys().size() == 1);
    CHECK(first.keys()[0] == column_range{0, keys});

    const auto rows = static_cast<std::size_t>(2 * 4 * queries);
    std::vector<A> out(rows * v_dim);
    std::vector<A> lse(rows);
    first.finish(q, tensor_view<A>(out.data(), 2, 4, queries, v_dim), lse);
    tensor<A> values(c.output_layout(v_dim), role::output);
    tensor<A> sums(c.output_layout(1), role::output);
    for (std::size_t r = 0; r < rows; ++r) {
      const auto row = static_cast<std::int64_t>(r);
      const auto at = [&](const tensor<A>& t) {
        return t.row(row / queries / 4, row / queries % 4, row % queries);
      };
      std::copy_n(&out[r * v_dim], v_dim, at(values).begin());
      at(sums)[0] = lse[r];
    }
    c.check(values, &sums, "of states");
  }

  TEST_CASE("what does not fit is refused, and nothing changes") {
    queue q;
    const attention_case<float> c(spec_of_parts(100));
    attention_states s = none_of(c);
    fold(q, s, c, 10, 60, true);
    const bytes before = s.to_bytes();
    const auto refused = [&](const auto& call, const char* part) {
      CHECK(mentions(message_of(call), part));
      CHECK(s.to_bytes() == before);
    };
    refused([&] { fold(q, s, c, 59, 70, false); }, "keys 59 to 59 are in both");
    refused([&] { fold(q, s, c, 60, 70, true); }, "sinks is given");
    refused([&] { s.combine(q, s); }, "keys 10 to 59 are in both");
    attention_states other(dtype::f32, 2, 4, queries, v_dim + 1);
    refused([&] { s.combine(q, other); }, "more.dim is 21, expected 20");
    refused([&] { s.combine(q, {dtype::f64, 2, 4, queries, v_dim}); }, "more.type is f64");
    attention_states more = none_of(c);
    fold(q, more, c, 60, 61, true);
    refused([&] { s.combine(q, more); }, "sinks of more");
    refused(
        [&] {
          attention_options options;
          const std::int64_t starts[] = {0, 1};
          const device_vector<std::int64_t> memory{std::span<const std::int64_t>(starts)};
          options.query_starts = memory.ref();
          options.key_starts = memory.ref();
          s.fold(q, c.q.view(), c.k.view(), c.v.view(), options);
        },
        "query_starts is given");
    refused([&] { s.fold(q, c.q.view(), c.k.view(), tokens_of(c.q.view(), 0, 12)); },
            "value.dim is 16, expected 20");
    std::vector<float> out(2 * 4 * queries * v_dim);
    refused([&] { s.finish(q, tensor_view<float>(out.data(), 2, 4, queries - 1, v_dim)); },
            "attention_states::finish: out.tokens is 11, expected 12");
    CHECK(mentions(message_of([] { attention_states(dtype::f32, 1, 1, 1, 513); }),
                   "dim is 513, expected 1 to 512"));
    CHECK(mentions(message_of([] { attention_states(dtype::f16, 1, 1, 1, 1); }), "type is f16"));
    CHECK(mentions(message_of([] { attention_states(dtype::f32, 1, -1, 1, 1); }), "heads is -1"));
    // A size of 0 leaves products of the others to be formed.
    for (const int heads : {0, 1 << 30}) {
      CHECK(mentions(
          message_of([&] { attention_states(dtype::f32, 1 << 30, heads, 1 << 30, 512); }),
          "weighted is 1073741824 x " + std::to_string(heads) + " x 1073741824 x 512 elements"));
    }
  }

  TEST_CASE("of no queries, and of no keys") {
    queue q;
    const attention_states none(dtype::f64, 0, 3, 5, 7);
    CHECK(attention_states::from_bytes(none.to_bytes()).heads() == 3);
    const attention_states empty(dtype::f32, 1, 2, 3, 4);
    const attention_states read = attention_states::from_bytes(empty.to_bytes());
    CHECK(read.keys().empty());
    std::vector<float> out(2 * 3 * 4, 1.0F);
    std::vector<float> lse(2 * 3);
    read.finish(q, tensor_view<float>(out.data(), 1, 2, 3, 4), lse);
    CHECK(std::ranges::count(out, 0.0F) == 24);
    CHECK(std::ranges::count(lse, -infinity<float>) == 6);
  }

  TEST_CASE("altered and truncated bytes are refused") {
    queue q;
    const bytes data = example(q);
    CHECK(refusal<attention_states>(data) == "accepted");
    for (std::size_t n = 0; n < data.size(); n += n < 200 ? 1 : 97) {
      CHECK(refusal<attention_states>(std::span(data).first(n)) != "accepted");
    }
    bytes longer = data;
    longer.push_back({});
    CHECK(mentions(refusal<attention_states>(longer), "bytes, expected"));
    for (std::size_t at = 0; at < data.size(); at += at < 200 ? 1 : 61) {
      bytes altered = data;
      altered[at] ^= std::byte{0x10};
      CHECK(refusal<attention_states>(altered) != "accepted");
    }
    CHECK(mentions(refusal<attention_states>(with(data, 0, 'x')), "wrong magic"));
    CHECK(mentions(refusal<attention_states>(with(data, 8, std::uint32_t{2})),
                   "version is 2, expected 3"));
    CHECK(mentions(refusal<attention_states>(with(data, 12, std::uint32_t{4})), "expected 0 to 3"));
    CHECK(mentions(refusal<attention_states>(with(data, 16, std::int64_t{-2})), "batches is -2"));
    CHECK(mentions(refusal<attention_states>(with(data, 40, std::int64_t{0})), "dim is 0"));
    CHECK(mentions(refusal<attention_states>(with(data, 48, std::int64_t{-1})), "ranges of keys"));
    CHECK(mentions(refusal<attention_states>(with(data, 56, std::int64_t{1})), "reserved"));
    CHECK(mentions(refusal<attention_states>(with(data, first_range + 16, std::int64_t{30})),
                   "keys 30 to 100"));
    CHECK(
        mentions(refusal<attention_states>(with(data, first_state + 4, 500.0F)), "which no query"));
    CHECK(mentions(refusal<attention_states>(with(data, first_state + 4, 0.0F)), "which no query"));
    CHECK(mentions(refusal<attention_states>(with(data, first_state, -infinity<float>)),
                   "which no query"));
  }
}

}  // namespace softfold::test

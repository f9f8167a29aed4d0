// SPDX-License-Identifier: Apache-2.0
// docs/numerics.md, "States": states with exact sums have the bits of core/exact_state.hpp on every
// backend and queue, and parts that meet between packets give the whole row's. Everything here is
// compared by memcmp.
#include "edited_problem.hpp"
#include "state_bytes.hpp"

#include <core/exact_state.hpp>

#include <softfold/attention.hpp>
#include <softfold/row_states.hpp>

#include <cinttypes>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace softfold::test {

namespace {

namespace definition = core::reproducible;

/// States and elements whose bits were compared: what a test counts, so that none is passed by
/// nothing.
std::int64_t compared = 0;

template <class T>
using arithmetic = reference::arithmetic_t<T>;
template <class T>
using exact_state = exact_max_sum<arithmetic<T>>;

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  compared += static_cast<std::int64_t>(a.size());
  return a.size() == b.size() && (a.empty() || std::memcmp(static_cast<const void*>(a.data()),
                                                           b.data(), a.size_bytes()) == 0);
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return same_bits(std::span<const T>(a), std::span<const T>(b));
}

template <class State>
bool same_state(const State& a, const State& b) {
  return same_bits(std::span<const State>(&a, 1), std::span<const State>(&b, 1));
}

template <class T>
const_matrix_ref part_of(const matrix<T>& x, std::int64_t begin, std::int64_t end) {
  const auto whole = x.view();
  return matrix_view<const T>(whole.data + begin, whole.rows, end - begin, whole.stride);
}

template <class T>
std::vector<exact_state<T>> folded(queue& q, const matrix<T>& x, std::int64_t begin,
                                   std::int64_t end, double scale) {
  exact_states<arithmetic<T>> partials(x.rows());
  fold(q, part_of(x, begin, end), partials.ref(), {.scale = scale});
  q.wait();
  return partials.values();
}

template <class T>
exact_state<T> defined(std::span<const T> row, double scale) {
  using A = arithmetic<T>;
  return definition::state_of(
      static_cast<A>(scale), static_cast<std::int64_t>(row.size()),
      [&](std::int64_t c) { return static_cast<A>(row[static_cast<std::size_t>(c)]); });
}

/// normalize, log_normalize and logsumexp by the states of the whole rows.
template <class T>
void check_results(queue& q, problem<T>& p, const std::vector<exact_state<T>>& whole) {
  using A = arithmetic<T>;
  exact_states<A> partials{std::span<const exact_state<T>>(whole)};
  matrix<A> lse({p.x.rows(), 1, 0, 0}, role::output);
  logsumexp(q, partials.ref(), lse.vector());
  for (const bool log : {false, true}) {
    INFO((log ? "log_normalize" : "normalize"));
    matrix<T> y(p.output_layout(p.x.cols()), role::output);
    const softmax_options options{.scale = p.spec.scale, .empty_row = empty_row::zero};
    log ? log_normalize(q, p.x.view(), partials.ref(), y.view(), options)
        : normalize(q, p.x.view(), partials.ref(), y.view(), options);
    q.wait();
    y.download();
    check_guards(p, y);
    for (std::int64_t r = 0; r < y.rows(); ++r) {
      const auto total =
          definition::total_of(static_cast<A>(p.spec.scale), whole[static_cast<std::size_t>(r)]);
      const bool ordinary = total.kind == definition::row_kind::ordinary;
      const A other = total.kind != definition::row_kind::empty
                          ? std::numeric_limits<A>::quiet_NaN()
                      : log ? -infinity<A>
                            : A{0};
      std::vector<T> expected;
      for (const T x : p.x.row(r)) {
        const A element = static_cast<A>(x);
        expected.push_back(T(!ordinary ? other
                             : log     ? total.log_softmax(element)
                                       : total.softmax(element)));
      }
      expect(same_bits(std::span<const T>(y.row(r)), std::span<const T>(expected))
                 ? ""
                 : "not as defined",
             r, p.spec);
    }
  }
  lse.download();
  for (std::int64_t r = 0; r < lse.rows(); ++r) {
    const A expected = definition::total_of(A{1}, whole[static_cast<std::size_t>(r)]).lse;
    expect(std::memcmp(&lse(r, 0), &expected, sizeof expected) == 0 ? "" : "lse not as defined", r,
           p.spec);
  }
}

template <class T>
void check_states(queue& q, problem<T>& p) {
  const auto found = folded(q, p.x, 0, p.x.cols(), p.spec.scale);
  std::vector<exact_state<T>> expected;
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    expected.push_back(defined(std::span<const T>(p.x.row(r)), p.spec.scale));
    expect(same_state(found[static_cast<std::size_t>(r)], expected.back()) ? ""
                                                                           : "state not as defined",
           r, p.spec);
  }
  check_results(q, p, expected);
}

/// Rows of all magnitudes, with what masks leave and what is not ordinary.
template <class T>
void fill_mixed(problem<T>& p) {
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    std::mt19937_64 random(static_cast<std::uint64_t>(r) + p.spec.seed);
    double mean = 0;
    for (std::int64_t c = 0; c < p.x.cols(); ++c) {
      if (c % 16 == 0) {
        mean = (random() % 2 == 0 ? 1 : 40) * (static_cast<double>(random() % 100) - 50);
      }
      const std::uint64_t kind = random() % 32;
      const double x = kind == 0   ? -std::numeric_limits<double>::infinity()
                       : kind == 1 ? -6e4 - static_cast<double>(random() % 5) * 1e4
                                   : mean + static_cast<double>(random() % 1000) * 0.01;
      p.x(r, c) = kind == 0 ? make<T>(x) : make_finite<T>(p.spec.scale < 0 ? -x : x);
    }
  }
  if (p.x.rows() > 3 && p.x.cols() > 0) {
    p.x(0, p.x.cols() / 2) = make<T>(std::numeric_limits<double>::quiet_NaN());
    p.x(1, p.x.cols() - 1) = make<T>(std::numeric_limits<double>::infinity());
    std::fill(p.x.row(2).begin(), p.x.row(2).end(),
              make<T>((p.spec.scale < 0 ? 1 : -1) * std::numeric_limits<double>::infinity()));
  }
  p.commit();
}

}  // namespace

TEST_SUITE_BEGIN("exact_states");

TEST_CASE_TEMPLATE("states and what they give are the definition's, on any queue", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  compared = 0;
  queue queues[] = {queue(queue_options{.threads = 1}),
                    queue(queue_options{.threads = 3, .numerics = numerics::reproducible})};
  std::uint64_t seed = 91000;
  for (const std::int64_t cols : {0, 1, 7, 8, 9, 100, 1021, 2056, 16391}) {
    problem<T> p({cols < 2000 ? 5 : 2, cols, distribution::normal, 1, cols % 3, cols % 5, ++seed});
    check_states(queues[cols % 2], p);
  }
  for (const distribution kind : all_distributions) {
    for (const double scale : {1.0, 0.37, -2.0, 0.0, 1e30}) {
      problem<T> p({2, 211, kind, scale, 1, 0, ++seed});
      check_states(queues[seed % 2], p);
    }
  }
  problem<T> many({300, 40, distribution::normal, 1, 0, 0, ++seed});
  check_states(queues[1], many);
  CHECK(compared > 50000);
}

/// A way to add packets' sums that are close to each other must know which ones are.
TEST_CASE_TEMPLATE("states of packets so many powers apart are the definition's", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  compared = 0;
  queue q(queue_options{.threads = 1});
  for (const std::int64_t cols : {200, 1000, 4000}) {
    for (int apart = 8; apart <= 44; apart += 4) {
      problem<T> p({3, cols, distribution::normal, 1, 1, 0, 91900});
      std::mt19937_64 random(static_cast<std::uint64_t>(apart));
      for (std::int64_t r = 0; r < p.x.rows(); ++r) {
        double power = 0;
        for (std::int64_t c = 0; c < cols; ++c) {
          if (c % definition::packet_columns == 0) {
            power = static_cast<double>(random() % static_cast<unsigned>(apart));
          }
          // From just below the power that ends a place of the sum, down to two places below.
          p.x(r, c) = make<T>(19 - power * 0.7 - static_cast<double>(random() % 1000) * 0.0005);
        }
      }
      p.commit();
      check_states(q, p);
    }
  }
  CHECK(compared > 100);
}

TEST_CASE_TEMPLATE("parts that meet between packets give the whole row's bits in any tree", T,
                   double, bfloat16) {
  using A = arithmetic<T>;
  compared = 0;
  queue q(queue_options{.numerics = numerics::reproducible});
  std::mt19937_64 random(92000);
  for (const std::int64_t cols : {5, 64, 333, 5000}) {
    for (const double scale : {1.0, 0.37, -2.0, 0.0}) {
      problem<T> p({7, cols, distribution::normal, scale, 1, 1, random() % 1000});
      fill_mixed(p);
      std::vector<exact_states<A>> parts;
      for (std::int64_t begin = 0; begin < cols;) {
        const auto packets =
            static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 + cols / 32));
        const std::int64_t end = std::min(cols, begin + 8 * packets);
        parts.emplace_back(p.x.rows());
        fold(q, part_of(p.x, begin, end), parts.back().ref(), {.scale = scale});
        begin = end;
      }
      while (parts.size() > 1) {
        std::swap(parts[random() % parts.size()], parts.back());
        const exact_states<A> last = std::move(parts.back());
        parts.pop_back();
        combine(q, last.ref(), parts[random() % parts.size()].ref());
        q.wait();
      }
      q.wait();  // for a fold that is all
      const std::vector<exact_state<T>> found = parts.at(0).values();
      CHECK_MESSAGE(same_bits(found, folded(q, p.x, 0, cols, scale)), describe(p.spec));
      check_results(q, p, found);
      // The results of the whole rows.
      matrix<T> whole(p.output_layout(cols), role::output);
      matrix<T> by_parts(p.output_layout(cols), role::output);
      matrix<A> lse({7, 1, 0, 0}, role::output);
      matrix<A> lse_by_parts({7, 1, 0, 0}, role::output);
      softmax(q, p.x.view(), whole.view(), {.scale = scale});
      logsumexp(q, p.x.view(), lse.vector(), {.scale = scale});
      normalize(q, p.x.view(), parts[0].ref(), by_parts.view(), {.scale = scale});
      logsumexp(q, parts[0].ref(), lse_by_parts.vector());
      q.wait();
      for (auto* m : {&whole, &by_parts}) {
        m->download();
      }
      lse.download();
      lse_by_parts.download();
      for (std::int64_t r = 0; r < 7; ++r) {
        INFO("row " << r << ", " << describe(p.spec));
        CHECK(same_bits(std::span<const T>(whole.row(r)), std::span<const T>(by_parts.row(r))));
        CHECK(same_bits(std::span<const A>(lse.row(r)), std::span<const A>(lse_by_parts.row(r))));
      }
    }
  }
  CHECK(compared > 100000);
}

TEST_CASE("fold_topk has the states of fold and the lists of topk") {
  using T = half;
  compared = 0;
  queue q;
  for (const std::int64_t cols : {3, 300, 9000}) {
    for (const std::int64_t k : {0, 4, 50}) {
      problem<T> p({4, cols, distribution::few_values, 0.7, 1, 2, 93000});
      matrix<T> values(p.output_layout(k), role::output);
      matrix<std::int64_t> indices(p.output_layout(k), role::output);
      matrix<T> alone_values(p.output_layout(k), role::output);
      matrix<std::int64_t> alone_indices(p.output_layout(k), role::output);
      exact_states<arithmetic<T>> partials(4);
      const fold_topk_options options{.scale = 0.7, .column_offset = 16};
      fold_topk(q, p.x.view(), partials.ref(), values.view(), indices.view(), options);
      fold_topk(q, p.x.view(), {}, alone_values.view(), alone_indices.view(), options);
      q.wait();
      values.download();
      indices.download();
      alone_values.download();
      alone_indices.download();
      check_guards(p, values, indices);
      CHECK(same_bits(partials.values(), folded(q, p.x, 0, cols, 0.7)));
      for (std::int64_t r = 0; r < 4; ++r) {
        CHECK(
            same_bits(std::span<const T>(values.row(r)), std::span<const T>(alone_values.row(r))));
        CHECK(same_bits(std::span<const std::int64_t>(indices.row(r)),
                        std::span<const std::int64_t>(alone_indices.row(r))));
      }
    }
  }
  CHECK(compared > 500);
}

TEST_CASE("edits come first") {
  using T = float;
  using A = arithmetic<T>;
  compared = 0;
  queue q;
  for (const edit_spec& edit : all_edits) {
    for (const double scale : {0.37, -2.0}) {
      edited_problem<T> p(edit, {.rows = 9, .cols = 140, .scale = scale, .padding = 2});
      INFO(p.text());
      exact_states<A> partials(9);
      exact_states<A> with_list(9);
      matrix<T> values({9, 3, 0, 0}, role::output);
      matrix<std::int32_t> indices({9, 3, 0, 0}, role::output);
      matrix<A> y({9, 140, 0, 0}, role::output);
      fold(q, p.x.view(), partials.ref(), {.scale = scale, .edits = p.edits()});
      fold_topk(q, p.x.view(), with_list.ref(), values.view(), indices.view(),
                {.scale = scale, .edits = p.edits()});
      normalize(q, p.x.view(), partials.ref(), y.view(), {.scale = scale, .edits = p.edits()});
      q.wait();
      y.download();
      const auto found = partials.values();
      CHECK(same_bits(found, with_list.values()));
      for (std::int64_t r = 0; r < 9; ++r) {
        const std::vector<A> row = p.row(r, scale < 0 ? infinity<A> : -infinity<A>);
        const auto expected = defined(std::span<const A>(row), scale);
        CHECK(same_state(found[static_cast<std::size_t>(r)], expected));
        const auto total = definition::total_of(static_cast<A>(scale), expected);
        for (std::int64_t c = 0; total.kind == definition::row_kind::ordinary && c < 140; ++c) {
          CHECK(y(r, c) == total.softmax(row[static_cast<std::size_t>(c)]));
        }
      }
    }
  }
  CHECK(compared > 300);
}

namespace {

// Of fold's states for f32, f64, f16, bf16. Another hash is another version of docs/numerics.md.
constexpr std::uint64_t golden[] = {0x5795cdd8837deed4U, 0x041ecf10f58d1891U, 0x5bce7ca1edba98e3U,
                                    0x1ccb39c7de86edf7U};

template <class T>
std::size_t column_of() {
  return static_cast<std::size_t>(dtype_of<T>);
}

}  // namespace

TEST_CASE_TEMPLATE("the states' bits are those of version 1", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (int i = 0; i < 40; ++i) {
    constexpr double scales[] = {1, 0.37, -2, 0, 1e-30};
    matrix<T> x({2, 1 + i * i * 3, i % 4, i % 5}, role::input);
    std::uint64_t state = static_cast<std::uint64_t>(i) + 1;
    for (std::int64_t r = 0; r < 2; ++r) {
      for (T& element : x.row(r)) {  // of integers alone: the same on every machine
        state = state * 6364136223846793005U + 1442695040888963407U;
        const auto number = static_cast<double>(state >> 52) - 2048;
        element = make<T>(i % 8 == 5 ? 1e5 + number : number / (i % 3 == 0 ? 256 : 16));
      }
    }
    x.upload();
    const auto found = folded(q, x, 0, x.cols(), scales[i % 5]);
    for (const std::byte b : std::as_bytes(std::span(found))) {
      hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001b3U;
    }
  }
  char text[32];
  std::snprintf(text, sizeof text, "0x%016" PRIx64 "U", hash);
  INFO("hash " << text);
  CHECK(hash == golden[column_of<T>()]);
}

namespace {

template <class Call>
std::string refused(errc code, const Call& call) {
  try {
    call();
  } catch (const error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("functions that take one kind of state refuse the other") {
  queue q;
  matrix<float> x({2, 8, 0, 0}, role::input);
  matrix<float> y({2, 8, 0, 0}, role::output);
  const exact_states<float> exact(2);
  const states<float> rounded(2);
  const auto expect_text = [](const std::string& found, const std::string& part) {
    CHECK_MESSAGE(mentions(found, part), found);
  };
  expect_text(refused(errc::unsupported_type, [&] { combine(q, exact.ref(), rounded.ref()); }),
              "combine: partials.sum is rounded, expected exact, as that of more");
  expect_text(refused(errc::unsupported_type, [&] { combine(q, rounded.ref(), exact.ref()); }),
              "combine: partials.sum is exact, expected rounded, as that of more");
  expect_text(refused(errc::unsupported_type,
                      [&] { scan(q, x.view(), y.view(), {.carry_in = exact.ref()}); }),
              "scan: carry_in.sum is exact, expected rounded: states of max_sum");
  expect_text(refused(errc::unsupported_type,
                      [&] { scan(q, x.view(), y.view(), {.carry_out = exact.ref()}); }),
              "scan: carry_out.sum is exact, expected rounded");
  const tensor_view<float> tensor(y.view().data, 1, 1, 2, 8);
  expect_text(refused(errc::unsupported_type,
                      [&] {
                        fold_attention(q, tensor_view<const float>(x.view().data, 1, 1, 2, 8),
                                       tensor_view<const float>(x.view().data, 1, 1, 2, 8),
                                       tensor_view<const float>(x.view().data, 1, 1, 2, 8),
                                       exact.ref(), tensor);
                      }),
              "fold_attention: states.sum is exact, expected rounded");
  partials_ref wrong = exact.ref();
  wrong.sum = static_cast<sum_kind>(7);
  expect_text(refused(errc::invalid_argument, [&] { fold(q, x.view(), wrong); }),
              "fold: partials.sum is 7, expected sum_kind::rounded or sum_kind::exact");
  wrong = exact.ref();
  wrong.data = static_cast<std::byte*>(wrong.data) + 4;
  expect_text(refused(errc::invalid_argument, [&] { fold(q, x.view(), wrong); }),
              "expected a multiple of the element size 8");
  wrong = exact.ref();
  wrong.type = dtype::f64;
  expect_text(refused(errc::unsupported_type, [&] { fold(q, x.view(), wrong); }),
              "fold: partials.type is f64, expected f32 states");
  y.download();
  CHECK(y.untouched().empty());
}

namespace {

template <class T>
row_states folded_states(queue& q, const problem<T>& p, std::int64_t k, std::int64_t begin,
                         std::int64_t end) {
  row_states states(dtype_of<arithmetic<T>>, p.x.rows(), k, p.spec.scale, numerics::reproducible);
  states.fold(q, part_of(p.x, begin, end), begin);
  return states;
}

}  // namespace

TEST_CASE_TEMPLATE("row_states: parts sent as bytes give the whole row's bytes", T, float, double) {
  queue q;
  problem<T> p({5, 3000, distribution::normal, 0.7, 3, 1, 94000});
  fill_mixed(p);
  const row_states whole = folded_states(q, p, 6, 0, 3000);
  CHECK(whole.numerics() == numerics::reproducible);
  std::vector<bytes> sent;
  for (const auto& [begin, end] :
       {std::pair{2000, 2008}, std::pair{0, 1000}, std::pair{2008, 3000}, std::pair{1000, 2000}}) {
    sent.push_back(folded_states(q, p, 6, begin, end).to_bytes());
    CHECK(row_states::from_bytes(sent.back()).to_bytes() == sent.back());
  }
  for (int turn = 0; turn < 4; ++turn) {
    std::rotate(sent.begin(), sent.begin() + 1, sent.end());
    row_states all = row_states::from_bytes(sent[0]);
    row_states other = row_states::from_bytes(sent[1]);
    other.combine(q, row_states::from_bytes(sent[2]));
    all.combine(q, other);
    all.combine(q, row_states::from_bytes(sent[3]));
    CHECK(all.to_bytes() == whole.to_bytes());
  }
  row_states none(dtype_of<arithmetic<T>>, 5, 6, 0.7, numerics::reproducible);
  CHECK(row_states::from_bytes(none.to_bytes()).to_bytes() == none.to_bytes());
  none.combine(q, whole);
  CHECK(none.to_bytes() == whole.to_bytes());
  row_states twice = whole;
  twice.append_rows(whole);
  CHECK(row_states::from_bytes(twice.to_bytes()).to_bytes() == twice.to_bytes());

  queue exact(queue_options{.numerics = numerics::reproducible});
  matrix<arithmetic<T>> lse({5, 1, 0, 0}, role::output);
  std::vector<arithmetic<T>> found(5);
  logsumexp(exact, p.x.view(), lse.vector(), {.scale = 0.7});
  exact.wait();
  lse.download();
  whole.finish(q, found);
  CHECK(std::memcmp(found.data(), &lse(0, 0), 5 * sizeof(found[0])) == 0);
}

TEST_CASE("row_states: with sampling, and what does not go together") {
  queue q;
  problem<float> p({2, 64, distribution::normal, 1, 0, 0, 95000});
  const row_sampling sampling{.temperature = 0.8, .top_k = 3};
  row_states states(dtype::f32, 2, 3, 1, sampling, numerics::reproducible);
  states.fold(q, p.x.view(), 0);
  const row_states again = row_states::from_bytes(states.to_bytes());
  CHECK(again.to_bytes() == states.to_bytes());
  std::vector<std::int64_t> tokens(2);
  again.finish_sample(q, tokens);
  CHECK(tokens[0] >= 0);
  row_states fast(dtype::f32, 2, 3, 1, sampling);
  const auto text = refused(errc::invalid_argument, [&] { fast.combine(q, states); });
  CHECK_MESSAGE(mentions(text, "more.numerics is reproducible, expected fast"), text);
  const auto wrong = refused(errc::invalid_argument,
                             [] { row_states(dtype::f32, 1, 1, 1, static_cast<numerics>(7)); });
  CHECK_MESSAGE(mentions(wrong, "row_states: numerics is 7"), wrong);
}

TEST_CASE("row_states: bytes of version 4 that are none") {
  queue q;
  problem<float> p({2, 64, distribution::normal, 1, 0, 0, 96000});
  p.x(1, 7) = infinity<float>;
  p.commit();
  const bytes good = folded_states(q, p, 0, 0, 64).to_bytes();
  constexpr std::size_t state = 48 + 16;  // of row 0: max, lost, top, words
  constexpr std::size_t next = state + 64;
  REQUIRE(good.size() == state + 2 * 64 + 4);
  CHECK(good[8] == std::byte{4});
  const auto says = [](const bytes& data, const std::string& part) {
    const std::string text = refusal<row_states>(data);
    CHECK_MESSAGE(mentions(text, part), text);
  };
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(refusal<row_states>(std::span(good).first(size)) != "accepted");
  }
  for (std::size_t at = 8; at < good.size(); ++at) {
    bytes altered = good;
    altered[at] ^= std::byte{1};
    CHECK(refusal<row_states>(altered) != "accepted");
  }
  says(with(good, 12, 4), "flags are 4, expected 0 to 3");
  says(with(good, 8, 5), "version is 5, expected 1, 2 or 4");
  const std::string row = "row 0 has max ";
  says(with(good, state, 1e30F), row);
  says(with(good, state, -0.0F), row);
  says(with(good, state, std::numeric_limits<float>::signaling_NaN()), row);
  says(with(good, state, -infinity<float>), row);
  says(with(good, state + 4, 0.5F), row);
  says(with(good, state + 8, std::int64_t{17}), row);
  says(with(good, state + 8, std::int64_t{1} << 40), row);
  says(with(good, state + 16, std::uint64_t{0}), row);
  says(with(good, state + 16, ~std::uint64_t{0}), row);
  says(with(good, state + 24, std::uint64_t{1}), row);
  says(with(good, state + 40, std::uint64_t{1}), row);
  says(with(good, next + 16, std::uint64_t{1}), "row 1 has max inf and an exact sum");
  says(with(good, next + 4, 1.0F), "row 1 has max inf");
}

}  // namespace softfold::test

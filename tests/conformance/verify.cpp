// SPDX-License-Identifier: Apache-2.0
// verify: chains of drafted tokens, coupled and by ratio, against the definition in long double.
#include "sampling.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

namespace softfold::test {
namespace {

/// Chains of drafts with their rows. A draft's row is like the target's, so that some are accepted.
template <class In>
struct chains_problem {
  chains_problem(std::int64_t chains_, std::int64_t drafts_, std::int64_t cols, std::uint64_t seed)
      : chains(chains_),
        drafts(drafts_),
        target({chains * (drafts + 1), cols, distribution::normal, 1, 2, 1, seed}),
        draft({chains * drafts, cols, distribution::normal, 1, 1, 3, seed + 1000}),
        draft_tokens({chains, drafts, 2, 1}, role::input) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (std::int64_t c = 0; c < chains; ++c) {
      for (std::int64_t i = 0; i < drafts; ++i) {
        for (std::int64_t t = 0; t < cols; ++t) {
          const auto x = static_cast<double>(reference::widen(target.x(target_row(c, i), t)));
          draft.x(c * drafts + i, t) = make<In>(x + 0.5 * normal(random));
        }
      }
    }
    draft.commit();
  }

  [[nodiscard]] std::int64_t target_row(std::int64_t chain, std::int64_t i) const {
    return chain * (drafts + 1) + i;
  }
  /// Tokens that the draft draws with its own noise.
  template <class Of>
  void draw(const Of& of, filter_order order) {
    for (std::int64_t c = 0; c < chains; ++c) {
      for (std::int64_t i = 0; i < drafts; ++i) {
        parameters p = of(target_row(c, i));
        p.seed += 77;
        draft_tokens(c, i) = static_cast<std::int32_t>(
            reference::sample(std::span<const In>(draft.x.row(c * drafts + i)), p, order).token);
      }
    }
    draft_tokens.upload();
  }

  std::int64_t chains, drafts;
  problem<In> target, draft;
  matrix<std::int32_t> draft_tokens;
};

template <class Index>
struct verified {
  verified(std::int64_t chains, std::int64_t places, std::int64_t padding)
      : tokens({chains, places, padding, 1}, role::output),
        accepted({chains, 1, 0, 1}, role::output) {}
  void download() {
    tokens.download();
    accepted.download();
    CHECK(tokens.stray_writes().empty());
    CHECK(accepted.stray_writes().empty());
  }
  /// What the call wrote of a chain is these tokens, then -1.
  void check(std::int64_t chain, const std::vector<std::int64_t>& expected) {
    CHECK(static_cast<std::int64_t>(accepted(chain, 0)) ==
          static_cast<std::int64_t>(expected.size()) - 1);
    for (std::int64_t i = 0; i < tokens.cols(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      CAPTURE(chain);
      CAPTURE(i);
      CHECK(static_cast<std::int64_t>(tokens(chain, i)) ==
            (at < expected.size() ? expected[at] : -1));
    }
  }

  matrix<Index> tokens;
  matrix<Index> accepted;
};

/// Seeds and offsets of every place.
struct place_noise {
  explicit place_noise(std::int64_t rows) : seeds(numbers(rows, 5)), offsets(numbers(rows, 100)) {}
  static std::vector<std::int64_t> numbers(std::int64_t count, std::int64_t first) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < count; ++i) {
      all.push_back(first + i / 3);
    }
    for (std::int64_t i = 0; first == 100 && i < count; ++i) {
      all[static_cast<std::size_t>(i)] = 100 + i;
    }
    return all;
  }
  [[nodiscard]] parameters of(parameters p, std::int64_t r) const {
    p.seed = static_cast<std::uint64_t>(seeds[static_cast<std::size_t>(r)]);
    p.offset = static_cast<std::uint64_t>(offsets[static_cast<std::size_t>(r)]);
    return p;
  }

  std::vector<std::int64_t> seeds, offsets;
};

std::vector<setting> verify_settings() {
  const auto joint = filter_order::joint;
  return {{{1, 1, 0, 0, 0, 0}},   {{0.7, 0.9, 0, 0, 0, 0}},  {{1.5, 1, 0, 5, 0, 0}},
          {{1, 1, 0.2, 0, 0, 0}}, {{2, 0.9, 0.05, 9, 0, 0}}, {{2, 0.9, 0.05, 9, 0, 0}, joint},
          {{0, 1, 0, 0, 0, 0}},   {{1e300, 1, 0, 0, 0, 0}}};
}

}  // namespace

TEST_SUITE_BEGIN("verify");

TEST_CASE_TEMPLATE("by ratio: the definition's tokens", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 91000;
  std::int64_t accepted = 0;
  std::int64_t chains = 0;
  for (const std::int64_t cols : {1, 2, 30, 300}) {
    for (const setting& s : verify_settings()) {
      chains_problem<In> p(5, 3, cols, ++seed);
      const std::int64_t rows = p.target.x.rows();
      const place_noise noise(rows);
      const auto of = [&](std::int64_t r) { return noise.of(s.p, r); };
      p.draw(of, s.order);
      p.draft_tokens(4, 1) = static_cast<std::int32_t>(cols);  // no column
      p.draft_tokens(3, 0) = -1;
      p.draft_tokens.upload();
      sample_options o = options_of(s);
      const column<std::int64_t> seeds(noise.seeds), offsets(noise.offsets);
      o.seeds = seeds.ref();
      o.offsets = offsets.ref();
      verified<std::int64_t> found(5, 4, 2);
      verify(q, p.target.x.view(), p.draft.x.view(), p.draft_tokens.view(), found.tokens.view(),
             found.accepted.vector(), o);
      q.wait();
      found.download();
      check_guards(p.target);
      check_guards(p.draft);
      for (std::int64_t c = 0; c < 5; ++c) {
        const std::vector<std::int64_t> drafted(p.draft_tokens.row(c).begin(),
                                                p.draft_tokens.row(c).end());
        const auto expected = reference::verify<In>(
            [&](std::size_t i) {
              return std::span<const In>(
                  p.target.x.row(p.target_row(c, static_cast<std::int64_t>(i))));
            },
            [&](std::size_t i) {
              return std::span<const In>(p.draft.x.row(c * 3 + static_cast<std::int64_t>(i)));
            },
            std::span<const std::int64_t>(drafted),
            [&](std::size_t i) { return of(p.target_row(c, static_cast<std::int64_t>(i))); },
            s.order);
        CHECK(expected.margin > 1e-12);
        INFO(describe(s.p));
        CAPTURE(cols);
        CAPTURE(seed);
        found.check(c, expected.tokens);
        accepted += static_cast<std::int64_t>(found.accepted(c, 0));
        ++chains;
      }
    }
  }
  CHECK(accepted > chains);  // of three
  CHECK(accepted < 3 * chains);
}

TEST_CASE_TEMPLATE("coupled: the tokens of sample", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const setting& s : verify_settings()) {
    chains_problem<In> p(6, 3, 200, 92000);
    const std::int64_t rows = p.target.x.rows();
    const place_noise noise(rows);
    const column<std::int64_t> seeds(noise.seeds), offsets(noise.offsets);
    sample_options o = options_of(s);
    o.seeds = seeds.ref();
    o.offsets = offsets.ref();
    matrix<std::int32_t> tokens({rows, 1, 0, 0}, role::output);
    sample(q, p.target.x.view(), tokens.view(), o);
    q.wait();
    tokens.download();
    for (std::int64_t c = 0; c < 6; ++c) {  // right up to place c mod 4
      for (std::int64_t i = 0; i < 3; ++i) {
        p.draft_tokens(c, i) = tokens(p.target_row(c, i), 0) + (i == c % 4 ? 1 : 0);
      }
    }
    p.draft_tokens.upload();
    verified<std::int32_t> found(6, 4, 0);
    matrix<float> lse({rows, 1, 0, 0}, role::output);
    if constexpr (!std::is_same_v<In, double>) {
      o.lse = lse.vector();
    }
    verify(q, p.target.x.view(), {}, p.draft_tokens.view(), found.tokens.view(),
           found.accepted.vector(), o);
    q.wait();
    found.download();
    lse.download();
    INFO(describe(s.p));
    for (std::int64_t c = 0; c < 6; ++c) {
      std::vector<std::int64_t> expected;
      for (std::int64_t i = 0; i <= std::min<std::int64_t>(c % 4, 3); ++i) {
        expected.push_back(tokens(p.target_row(c, i), 0));
      }
      found.check(c, expected);
      if constexpr (!std::is_same_v<In, double>) {
        const std::int64_t r = p.target_row(c, 3);
        expect(p.target.rows[static_cast<std::size_t>(r)].check_logsumexp(lse(r, 0)), r,
               p.target.spec);
      }
    }
  }
}

TEST_CASE_TEMPLATE("rows of which nothing or one element is drawn", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  chains_problem<In> p(6, 1, 40, 93000);
  const auto all = [&](matrix<In>& x, std::int64_t r, double value) {
    std::fill(x.row(r).begin(), x.row(r).end(), make<In>(value));
  };
  p.target.x(0, 7) = nans<In>()[0];
  all(p.target.x, 2, -std::numeric_limits<double>::infinity());
  p.target.x(4, 9) = In(infinity<In>);  // draft 9: accepted
  p.target.x(6, 9) = In(infinity<In>);  // draft 8: not
  p.draft.x(4, 3) = nans<In>()[0];      // no draft's probability
  p.draft.x(5, 8) = In(infinity<In>);   // certain
  for (std::int64_t c = 0; c < 6; ++c) {
    p.draft_tokens(c, 0) = static_cast<std::int32_t>(c == 2 ? 9 : 8);
  }
  p.draft_tokens.upload();
  p.target.commit();
  p.draft.commit();
  const sample_options o = {.top_p = 0.9, .seed = 3};
  for (const bool by_ratio : {true, false}) {
    verified<std::int32_t> found(6, 2, 0);
    verify(q, p.target.x.view(), by_ratio ? const_matrix_ref(p.draft.x.view()) : const_matrix_ref{},
           p.draft_tokens.view(), found.tokens.view(), found.accepted.vector(), o);
    q.wait();
    found.download();
    CAPTURE(by_ratio);
    found.check(0, {-1});
    found.check(1, {-1});
    CHECK(found.accepted(2, 0) == 1);
    CHECK(found.tokens(2, 0) == 9);
    found.check(3, {9});
    for (std::int64_t c = 2; c < 6 && by_ratio; ++c) {
      const std::vector<std::int64_t> drafted = {p.draft_tokens(c, 0)};
      const auto expected = reference::verify<In>(
          [&](std::size_t i) {
            return std::span<const In>(
                p.target.x.row(p.target_row(c, static_cast<std::int64_t>(i))));
          },
          [&](std::size_t) { return std::span<const In>(p.draft.x.row(c)); },
          std::span<const std::int64_t>(drafted),
          [](std::size_t) { return parameters{1, 0.9, 0, 0, 3, 0}; }, filter_order::top_k_first);
      found.check(c, expected.tokens);
    }
  }
}

// A target that is its own draft accepts every token that it can draw, and draws another where the
// residual is nothing.
TEST_CASE("drafts of the target itself") {
  queue q;
  chains_problem<float> p(4, 2, 50, 94000);
  for (std::int64_t c = 0; c < 4; ++c) {
    for (std::int64_t i = 0; i < 2; ++i) {
      std::copy_n(p.target.x.row(p.target_row(c, i)).begin(), 50, p.draft.x.row(2 * c + i).begin());
    }
  }
  p.draft.commit();
  const setting s = {{1, 0.8, 0, 0, 9, 0}};
  p.draw([&](std::int64_t) { return s.p; }, s.order);
  p.draft_tokens(1, 1) = 50;
  p.draft_tokens.upload();
  verified<std::int32_t> found(4, 3, 0);
  verify(q, p.target.x.view(), p.draft.x.view(), p.draft_tokens.view(), found.tokens.view(),
         found.accepted.vector(), options_of(s));
  q.wait();
  found.download();
  for (std::int64_t c = 0; c < 4; ++c) {
    CHECK(found.accepted(c, 0) == (c == 1 ? 1 : 2));
    CHECK(found.tokens(c, found.accepted(c, 0)) >= 0);
    CHECK(found.tokens(c, found.accepted(c, 0)) < 50);
  }
}

TEST_CASE("no drafts, no chains") {
  queue q;
  chains_problem<float> p(3, 0, 20, 95000);
  verified<std::int32_t> found(3, 1, 0);
  verify(q, p.target.x.view(), {}, p.draft_tokens.view(), found.tokens.view(),
         found.accepted.vector(), {.seed = 4});
  q.wait();
  found.download();
  for (std::int64_t c = 0; c < 3; ++c) {
    found.check(
        c,
        {reference::sample(std::span<const float>(p.target.x.row(c)), {1, 1, 0, 0, 4, 0}).token});
  }
  chains_problem<float> none(0, 2, 20, 95001);
  verified<std::int32_t> nothing(0, 3, 0);
  for (const bool by_ratio : {true, false}) {
    verify(q, none.target.x.view(),
           by_ratio ? const_matrix_ref(none.draft.x.view()) : const_matrix_ref{},
           none.draft_tokens.view(), nothing.tokens.view(), nothing.accepted.vector());
    q.wait();
  }
}

TEST_CASE("wrong arguments of verify: an error that names them, and nothing is written") {
  queue q;
  chains_problem<float> p(3, 2, 8, 96000);
  verified<std::int32_t> found(3, 3, 1);
  matrix<float> lse({9, 1, 0, 0}, role::output);
  const column<std::int64_t> four({1, 1, 1, 1});
  const column<std::int64_t> nine({1, 1, 1, 1, 1, 1, 1, 1, 1});
  matrix<float> log({9, 1, 0, 0}, role::output);
  struct call {
    const_matrix_ref target, draft, draft_tokens;
    matrix_ref tokens;
    vector_ref accepted;
    sample_options o;
  };
  struct mistake {
    const char* text;
    errc code;
    std::function<void(call&)> make;
  };
  const errc invalid = errc::invalid_argument;
  const errc type = errc::unsupported_type;
  const auto couple = [](call& c) {
    c.draft = {};
    c.tokens.stride = 3;
  };
  const mistake mistakes[] = {
      {"verify: target.type is i32,", type, [](call& c) { c.target.type = dtype::i32; }},
      {"verify: target.rows is 8,", invalid, [](call& c) { c.target.rows = 8; }},
      {"verify: draft.type is f64,", type, [](call& c) { c.draft.type = dtype::f64; }},
      {"verify: draft.rows is 5,", invalid, [](call& c) { c.draft.rows = 5; }},
      {"verify: draft.cols is 7,", invalid, [](call& c) { c.draft.cols = 7; }},
      {"verify: draft.data is null,", invalid, [](call& c) { c.draft.data = nullptr; }},
      {"verify: draft_tokens.type is f32,", type,
       [](call& c) { c.draft_tokens.type = dtype::f32; }},
      {"verify: draft_tokens.data is null,", invalid,
       [](call& c) { c.draft_tokens.data = nullptr; }},
      {"verify: target.rows is 9,", invalid,  // of which none plus one is no number of columns
       [](call& c) {
         const std::int64_t most = std::numeric_limits<std::int64_t>::max();
         c.draft_tokens = {nullptr, dtype::i32, 0, most, most};
       }},
      {"verify: tokens.cols is 2,", invalid, [](call& c) { c.tokens.cols = 2; }},
      {"verify: tokens.type is f32,", type, [](call& c) { c.tokens.type = dtype::f32; }},
      {"verify: tokens.stride is 4,", invalid, [](call& c) { c.draft = {}; }},
      {"verify: accepted.size is 2,", invalid, [](call& c) { c.accepted.size = 2; }},
      {"verify: accepted.type is f32,", type, [](call& c) { c.accepted.type = dtype::f32; }},
      {"verify: tokens overlaps draft_tokens,", invalid,
       [](call& c) { c.draft_tokens.data = c.tokens.data; }},
      {"verify: tokens overlaps draft,", invalid, [](call& c) { c.draft.data = c.tokens.data; }},
      {"verify: accepted overlaps log_probability,", invalid,
       [&](call& c) {
         couple(c);
         c.o.log_probability = log.view();
         c.accepted.data = log.view().data;
       }},
      {"verify: accepted overlaps seeds,", invalid,
       [&](call& c) {
         couple(c);
         c.o.seeds = nine.ref();
         c.accepted.data = const_cast<void*>(nine.ref().data);
       }},
      {"verify: accepted overlaps edits.lengths,", invalid,
       [&](call& c) {
         couple(c);
         c.o.edits.lengths = nine.ref();
         c.accepted.data = const_cast<void*>(nine.ref().data);
       }},
      {"verify: log_probability overlaps draft_tokens,", invalid,
       [&](call& c) {
         couple(c);
         c.o.log_probability = log.view();
         c.draft_tokens.data = log.view().data;
       }},
      {"verify: temperature is -1,", invalid, [](call& c) { c.o.temperature = -1; }},
      {"verify: seeds.size is 4,", invalid, [&](call& c) { c.o.seeds = four.ref(); }},
      {"verify: lse is given,", invalid, [&](call& c) { c.o.lse = lse.vector(); }},
      {"verify: edits is given,", invalid, [](call& c) { c.o.edits.softcap = 5; }},
  };
  for (const mistake& m : mistakes) {
    call c = {p.target.x.view(),   p.draft.x.view(),        p.draft_tokens.view(),
              found.tokens.view(), found.accepted.vector(), {}};
    m.make(c);
    INFO(std::string(m.text));
    try {
      verify(q, c.target, c.draft, c.draft_tokens, c.tokens, c.accepted, c.o);
      FAIL_CHECK("no error");
    } catch (const error& e) {
      INFO(std::string(e.what()));
      CHECK(e.code() == m.code);
      CHECK(std::string_view(e.what()).starts_with(m.text));
    }
    q.wait();
    found.download();
    CHECK(found.tokens.untouched().empty());
    CHECK(found.accepted.untouched().empty());
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

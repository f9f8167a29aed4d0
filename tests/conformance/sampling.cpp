// SPDX-License-Identifier: Apache-2.0
// sample: tokens that docs/sampling.md defines, on every backend; filters, special rows, results.
#include "sampling.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <vector>

namespace softfold::test {
namespace {

/// Everything that a call can give.
template <class In, class Out, class Index>
struct results {
  results(const problem<In>& p, std::int64_t draws, std::int64_t n)
      : tokens(p.output_layout(draws), role::output),
        log_probability(p.output_layout(draws), role::output),
        raw(p.output_layout(draws), role::output),
        lse({p.x.rows(), 1, 0, p.spec.offset}, role::output),
        kept_mass({p.x.rows(), 1, 0, p.spec.offset}, role::output),
        kept({p.x.rows(), 1, 0, p.spec.offset}, role::output),
        top_indices(p.output_layout(n), role::output),
        top(p.output_layout(n), role::output) {}

  sample_options wanted(sample_options o) const {
    o.log_probability = log_probability.view();
    o.raw_log_probability = raw.view();
    o.lse = lse.vector();
    o.kept = kept.vector();
    o.kept_mass = kept_mass.vector();
    o.top_indices = top_indices.view();
    o.top_log_probabilities = top.view();
    return o;
  }
  void download() {
    tokens.download();
    log_probability.download();
    raw.download();
    lse.download();
    kept_mass.download();
    kept.download();
    top_indices.download();
    top.download();
  }

  matrix<Index> tokens;
  matrix<Out> log_probability, raw, lse, kept_mass;
  matrix<Index> kept;
  matrix<Index> top_indices;
  matrix<Out> top;
};

/// What a row's first elements get.
template <class In>
double top_log_probability(const row_oracle<In>& oracle, std::size_t i) {
  const auto& state = oracle.state();
  return state.kind == reference::row_kind::empty
             ? -std::numeric_limits<double>::infinity()
             : static_cast<double>(state.log_softmax(oracle.elements()[i]));
}

/// One call with every result against the oracle; `of(r)` are the parameters of row r.
template <class Out, class Index, class In>
void check_results(problem<In>& p, results<In, Out, Index>& found, filter_order order,
                   const std::function<parameters(std::int64_t)>& of) {
  found.download();
  check_guards(p, found.tokens, found.log_probability, found.raw, found.lse, found.kept_mass,
               found.kept, found.top_indices, found.top);
  const std::int64_t n = found.top.cols();
  const auto top = expected_columns(p, n);
  const double slack = raw_slack<In>(p.x.cols());
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    const std::span<const In> row = p.x.row(r);
    for (std::int64_t j = 0; j < found.tokens.cols(); ++j) {
      const parameters own = of(r);
      const auto expected = reference::sample(row, own, order, static_cast<std::uint32_t>(j));
      CAPTURE(r);
      CAPTURE(j);
      INFO(describe(own));
      INFO(describe(p.spec));
      // Keys that long double rounds otherwise would prove nothing; none of these rows has such.
      CHECK((expected.token < 0 || expected.margin == 0 || expected.margin > 16));
      CHECK(static_cast<std::int64_t>(found.tokens(r, j)) == expected.token);
      CHECK(close(found.log_probability(r, j), expected.log_probability));
      CHECK(close(found.raw(r, j), expected.raw_log_probability, slack));
      CHECK(close(found.lse(r, 0), expected.lse, slack));
      CHECK(static_cast<std::int64_t>(found.kept(r, 0)) == expected.kept);
      CHECK(close(found.kept_mass(r, 0), expected.kept_mass));
    }
    const auto& columns = top[static_cast<std::size_t>(r)];
    expect(check_columns(std::span<const Index>(found.top_indices.row(r)), columns), r, p.spec);
    const auto& oracle = p.rows[static_cast<std::size_t>(r)];
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(columns[static_cast<std::size_t>(i)]);
      CAPTURE(i);
      INFO(describe(p.spec));
      CHECK(close(found.top(r, i), top_log_probability(oracle, at), slack));
    }
  }
}

/// The same bits.
template <class T>
bool same_elements(const matrix<T>& a, const matrix<T>& b) {
  for (std::int64_t r = 0; r < a.rows(); ++r) {
    const std::span<const T> ours = a.row(r);
    const std::span<const T> theirs = b.row(r);
    if (std::memcmp(ours.data(), theirs.data(), ours.size_bytes()) != 0) {
      return false;
    }
  }
  return true;
}

template <class Out, class Index, class In>
void check_sample(queue& q, problem<In>& p, const setting& s, std::int64_t draws = 2) {
  results<In, Out, Index> found(p, draws, std::min<std::int64_t>(3, p.x.cols()));
  sample(q, p.x.view(), found.tokens.view(), found.wanted(options_of(s)));
  q.wait();
  check_results(p, found, s.order, [&](std::int64_t) { return s.p; });
  // Fewer results may be found in other ways: the tokens alone; with what is wanted of x as it is;
  // with what the filters keep.
  for (const int wanted : {0, 1, 2}) {
    results<In, Out, Index> other(p, draws, found.top.cols());
    sample_options o = options_of(s);
    const sample_options all = other.wanted(o);
    if (wanted == 1) {
      o.raw_log_probability = all.raw_log_probability;
      o.lse = all.lse;
      o.top_indices = all.top_indices;
      o.top_log_probabilities = all.top_log_probabilities;
    } else if (wanted == 2) {
      o.log_probability = all.log_probability;
      o.kept = all.kept;
    }
    sample(q, p.x.view(), other.tokens.view(), o);
    q.wait();
    other.download();
    check_guards(p, other.tokens, other.log_probability, other.raw, other.lse, other.kept,
                 other.top_indices, other.top);
    CAPTURE(wanted);
    INFO(describe(s.p));
    INFO(describe(p.spec));
    CHECK(same_elements(other.tokens, found.tokens));
    if (wanted == 1) {
      CHECK(same_elements(other.raw, found.raw));
      CHECK(same_elements(other.lse, found.lse));
      CHECK(same_elements(other.top_indices, found.top_indices));
      CHECK(same_elements(other.top, found.top));
    } else if (wanted == 2) {
      CHECK(same_elements(other.log_probability, found.log_probability));
      CHECK(same_elements(other.kept, found.kept));
    }
  }
}

std::vector<setting> settings(std::uint64_t seed) {
  const auto joint = filter_order::joint;
  return {
      {{1, 1, 0, 0, seed, 0}},
      {{0.7, 1, 0, 0, seed, 1}},
      {{0, 1, 0, 0, seed, 2}},
      {{1.5, 0.9, 0, 0, seed, 3}},
      {{1, 0.5, 0, 7, seed, 4}},
      {{1, 0.5, 0, 7, seed, 4}, joint},
      {{0.8, 1, 0.05, 0, seed, 5}},
      {{2, 0.95, 0.01, 40, seed, 6}},
      {{2, 0.95, 0.01, 40, seed, 6}, joint},
      {{1, 0, 0, 0, seed, 7}},
      {{1, 1, 1, 0, seed, 8}},
      {{1, 1, 0, 1, seed, 9}},
      {{1, 1, 0, 1 << 20, seed, 10}},
      {{1, 0.999, 0, 600, ~seed, ~std::uint64_t{0}}},
      {{0.02, 0.9, 0, 0, seed, 11}},
      {{1e6, 0.3, 0, 0, seed, 12}},
      {{1e300, 1, 0.5, 3, seed, 13}},
  };
}

/// Logits that no library's random numbers are behind: multiples of 2^-8 in [-8, 8).
float golden_logit(std::uint32_t i) {
  i = (i ^ i >> 16) * 0x21f0aaadU;
  i = (i ^ i >> 15) * 0xd35a2d97U;
  return static_cast<float>((i ^ i >> 15) % 4096) / 256 - 8;
}

}  // namespace

TEST_SUITE_BEGIN("sampling");

// Tokens that every version of the library gives: the definition's number is 1.
TEST_CASE_TEMPLATE("golden tokens", In, SOFTFOLD_TEST_INPUT_TYPES) {
  struct golden {
    setting s;
    std::int32_t tokens[4];
  };
  const golden expected[] = {
      {{{1, 1, 0, 0, 0, 0}}, {637, 401, 538, 973}},
      {{{1, 1, 0, 0, 1, 0}}, {656, 456, 717, 480}},
      {{{1, 1, 0, 0, 1, 1}}, {593, 704, 498, 729}},
      {{{1, 1, 0, 0, 0x123456789abcdef0U, 0xfedcba9876543210U}}, {373, 773, 737, 228}},
      {{{0.75, 1, 0, 0, 2, 0}}, {496, 746, 74, 16}},
      {{{2.5, 1, 0, 0, 2, 0}}, {86, 746, 74, 16}},
      {{{0, 1, 0, 0, 2, 0}}, {488, 488, 488, 488}},
      {{{2, 0.5, 0, 0, 3, 0}}, {996, 424, 568, 910}},
      {{{2, 1, 0.25, 0, 3, 0}}, {429, 424, 568, 910}},
      {{{4, 1, 0, 10, 3, 0}}, {656, 253, 74, 656}},
      {{{8, 0.5, 0, 20, 5, 0}}, {704, 569, 569, 114}},
      {{{8, 0.5, 0, 20, 5, 0}, filter_order::joint}, {909, 925, 695, 697}},
  };
  queue q;
  problem<In> p({1, 1000, distribution::normal, 1, 0, 0, 1});
  for (std::uint32_t i = 0; i < 1000; ++i) {
    p.x(0, i) = static_cast<In>(static_cast<reference::arithmetic_t<In>>(golden_logit(i)));
  }
  p.commit();
  for (const golden& g : expected) {
    matrix<std::int32_t> tokens({1, 4, 0, 0}, role::output);
    sample(q, p.x.view(), tokens.view(), options_of(g.s));
    q.wait();
    tokens.download();
    INFO(describe(g.s.p));
    for (std::int64_t j = 0; j < 4; ++j) {
      // In bf16 logits are rounded; what the definition makes of those.
      const auto of_type = reference::sample(std::span<const In>(p.x.row(0)), g.s.p, g.s.order,
                                             static_cast<std::uint32_t>(j));
      CHECK(tokens(0, j) ==
            (std::is_same_v<In, bfloat16> ? of_type.token : std::int64_t{g.tokens[j]}));
    }
  }
}

TEST_CASE_TEMPLATE("every filter, types and lengths", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 61000;
  for (const std::int64_t cols : {1, 2, 8, 100, 1027, 9001}) {
    for (const setting& s : settings(++seed)) {
      problem<typename Io::input> p({2, cols, distribution::normal, 1, 3, 1, ++seed});
      check_sample<typename Io::output, std::int32_t>(q, p, s);
    }
  }
}

TEST_CASE_TEMPLATE("every distribution", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 62000;
  for (const distribution kind : all_distributions) {
    for (const setting& s : settings(++seed)) {
      problem<In> p({1, 523, kind, 1, 0, 0, ++seed});
      check_sample<reference::arithmetic_t<In>, std::int64_t>(q, p, s, 1);
    }
  }
}

// More elements alike than are looked at one by one.
TEST_CASE_TEMPLATE("cuts among many equal elements", In, float, bfloat16) {
  queue q;
  for (const distribution kind : {distribution::all_equal, distribution::two_values}) {
    problem<In> p({1, 36011, kind, 1, 0, 0, 62500});
    for (const setting& s : {setting{{1, 0.5, 0, 0, 1, 2}}, setting{{1, 1, 0, 5000, 1, 3}},
                             setting{{1, 0.25, 0.5, 30000, 1, 4}}}) {
      check_sample<float, std::int32_t>(q, p, s, 1);
    }
  }
}

// One read has to find the token whatever stands where the filters cut: long rows in order, of few
// values, of hardly any difference, far from 0, and ones that begin with what is not there; enough
// of them that the draws near a cut are worth a second read.
TEST_CASE_TEMPLATE("cuts of long rows", In, float, half, bfloat16) {
  constexpr std::int64_t cols = 36013;
  constexpr std::int64_t rows = 18;
  queue q;
  problem<In> p({rows, cols, distribution::normal, 1, 3, 1, 62700});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < cols; ++i) {
      const float ordinary = golden_logit(static_cast<std::uint32_t>(r * cols + i));
      const float part = static_cast<float>(i) / cols;
      const float values[] = {
          16 * part,                   // ascending
          -16 * part,                  // descending
          ordinary > 6 ? 2.0F : 1.0F,  // two values
          ordinary / 1024,             // narrow
          i < 30000 ? -infinity<float> : ordinary,
          i < 16000 ? ordinary - 60 : ordinary,  // beyond a window
          1000 + ordinary,
          i == 34000 ? 9.0F : ordinary / 2,  // one above all
          ordinary,
      };
      p.x(r, i) = static_cast<In>(values[static_cast<std::size_t>(r) % std::size(values)]);
    }
  }
  p.commit();
  const auto joint = filter_order::joint;
  for (const setting& s : {
           setting{{1, 0.95, 0, 0, 1, 0}},
           setting{{2, 0.5, 0, 0, 2, 0}},
           setting{{1, 1, 0.05, 0, 3, 0}},
           setting{{1.5, 1, 0, 700, 4, 0}},
           setting{{1.5, 0.8, 0, 3000, 5, 0}, joint},
           setting{{1, 0.9, 0.001, 0, 6, 0}},
           setting{{300, 0.9, 0, 0, 7, 0}},
           setting{{1, 1e-12, 0, 0, 8, 0}},
       }) {
    matrix<std::int32_t> tokens(p.output_layout(1), role::output);
    sample(q, p.x.view(), tokens.view(), options_of(s));
    q.wait();
    tokens.download();
    check_guards(p, tokens);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto expected = reference::sample(std::span<const In>(p.x.row(r)), s.p, s.order, 0);
      CAPTURE(r);
      INFO(describe(s.p));
      CHECK((expected.margin == 0 || expected.margin > 16));
      CHECK(tokens(r, 0) == expected.token);
    }
  }
}

// Rows that are looked at in parts: a cut at the first element, at the last, among equal ones, at a
// share that rounding decides; next to what weighs nothing, and where all weigh the same.
TEST_CASE_TEMPLATE("cuts of rows of some thousand elements", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 62600;
  const double almost = 1 - 0x1p-53;
  const auto joint = filter_order::joint;
  for (const distribution kind :
       {distribution::normal, distribution::wide_normal, distribution::ascending,
        distribution::all_equal, distribution::offset_1e7, distribution::masked, distribution::huge,
        distribution::few_values, distribution::two_values, distribution::signed_zeros}) {
    const std::int64_t cols = seed % 2 == 0 ? 2311 : 8201;
    problem<In> p({1, cols, kind, 1, 0, 0, ++seed});
    for (const setting& s :
         {setting{{1, 0x1p-60, 0, 0, seed, 1}}, setting{{1, 0.7, 0, 0, seed, 2}},
          setting{{1.5, almost, 0, 0, seed, 3}}, setting{{0.05, 0.9, 0, 0, seed, 4}},
          setting{{1e9, 0.5, 0, 0, seed, 5}}, setting{{1, 0.9, 0.02, 1500, seed, 6}},
          setting{{1, 0.9, 0.02, 1500, seed, 6}, joint}, setting{{2, 1, 0, 2000, seed, 7}}}) {
      check_sample<reference::arithmetic_t<In>, std::int32_t>(q, p, s, 1);
    }
  }
}

// From 0 to 1, in no order.
float share_of_place(std::int64_t row, std::int64_t column) {
  const auto number = static_cast<std::uint32_t>(column * 2654435761U + row * 40503U) >> 12;
  return static_cast<float>(number) * 0x1p-20F;
}

// So many tokens of each row with a seed of its own, and how many elements are kept: whoever asks
// for that goes the exact way.
struct exact_tokens {
  matrix<std::int32_t> tokens;
  matrix<std::int32_t> kept;
};
template <class In>
exact_tokens check_exact_way(queue& q, const problem<In>& p, const setting& s, std::int64_t draws) {
  const std::int64_t rows = p.x.rows();
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(rows));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{1});
  const column<std::int64_t> seeds(numbers);
  matrix<std::int32_t> tokens({rows, draws, 0, 0}, role::output);
  exact_tokens exact = {matrix<std::int32_t>({rows, draws, 0, 0}, role::output),
                        matrix<std::int32_t>({rows, 1, 0, 0}, role::output)};
  sample_options o = options_of(s);
  o.seeds = seeds.ref();
  sample(q, p.x.view(), tokens.view(), o);
  o.kept = exact.kept.vector();
  sample(q, p.x.view(), exact.tokens.view(), o);
  q.wait();
  tokens.download();
  exact.tokens.download();
  exact.kept.download();
  INFO(describe(s.p));
  CHECK(same_elements(tokens, exact.tokens));
  return exact;
}

// Of 1500 elements alike, and others that weigh nothing, half are kept. What is not exact cannot
// tell whether the next one is, too, and it is the winner among so many in some of these draws.
TEST_CASE_TEMPLATE("a winner next to the cut", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  constexpr std::int64_t rows = 64;
  problem<In> p({rows, 4096, distribution::normal, 1, 0, 0, 62700});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < 4096; ++c) {
      p.x(r, c) = In(reference::arithmetic_t<In>{c % 2 == 0 && c < 3000 ? 0.0F : -40.0F});
    }
  }
  p.commit();
  exact_tokens exact = check_exact_way(q, p, {{1, 0.5, 0, 0, 0, 0}}, 256);
  for (std::int64_t r = 0; r < rows; ++r) {
    CHECK(exact.kept(r, 0) == 750);
    CHECK(std::ranges::max(exact.tokens.row(r)) < 1500);
  }
}

// Elements that are all about as probable, so that winners are often next to the cut.
TEST_CASE_TEMPLATE("winners among much about the cut", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t cols : {9001, 33003}) {
    problem<In> p({16, cols, distribution::normal, 1, 0, 0, 62710});
    for (std::int64_t r = 0; r < 16; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        p.x(r, c) = In(reference::arithmetic_t<In>(share_of_place(r, c)));
      }
    }
    p.commit();
    CAPTURE(cols);
    for (const setting& s :
         {setting{{1, 0.5, 0, 0, 0, 0}}, setting{{1, 0.5, 0.6, 0, 0, 0}},
          setting{{1, 0.3, 0.6, cols / 4, 0, 0}, filter_order::joint},
          setting{{1, 1, 0, cols / 2, 0, 0}}, setting{{0.1, 0.4, 0.01, 0, 0, 0}}}) {
      check_exact_way(q, p, s, 4);
    }
  }
}

// The same with values as far as can be from what counting them in eighths of an octave tells of
// their masses: most that stands before the cut is at the ends of those, the rest at their begins.
TEST_CASE("winners about the cut, others where they mislead") {
  queue q;
  constexpr std::int64_t rows = 96;
  constexpr std::int64_t cols = 9001;
  problem<float> p({rows, cols, distribution::normal, 1, 0, 0, 62711});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const float part = std::floor(share_of_place(r, c) * 8);
      const std::int64_t kind = c % 16;
      const float octaves = kind < 4    ? 2 + (part + 0.85F) / 8
                            : kind == 4 ? 1 + (part - 0.1F) / 8
                                        : (part - 0.1F) / 8;
      p.x(r, c) = octaves * 0.693147182F;
    }
  }
  p.commit();
  check_exact_way(q, p, {{1, 0.565, 0, 0, 0, 0}}, 4);
}

// Two elements weigh something, at both ends of a row, and the logarithms of their random numbers
// to base 2 differ by less than 2^-24 in these draws of seed 1: f32 arithmetic cannot tell who
// wins.
TEST_CASE_TEMPLATE("two that nearly tie", In, SOFTFOLD_TEST_INPUT_TYPES) {
  const struct {
    std::int64_t cols;
    std::vector<std::int64_t> offsets;
  } all[] = {{40, {10512633,  16293478,  175368088, 233494639, 253398432, 325360231, 352398819,
                   392455490, 462843338, 510063784, 525505079, 608241600, 636289055, 684334444,
                   702540741, 778842051, 795149705, 828026521, 836356126, 848624473}},
             {3000, {35989932,  87532553,  90743231,  125343970, 125515614, 157405321, 158168444,
                     182671172, 269963589, 276190482, 436013465, 532041880, 561128407, 653591514,
                     687555704, 738786809, 807712308, 809346033, 830681820, 865305620}},
             {70001, {371676,    49226644,  49480590,  57386403,  78030931,  99271856,  105664532,
                      120011503, 143329460, 188318426, 189682426, 198879005, 264339902, 277397028,
                      362487587, 380853534, 413875335, 479475627, 508600163, 543075388}}};
  queue q;
  for (const auto& [cols, offsets] : all) {
    const auto rows = static_cast<std::int64_t>(offsets.size());
    problem<In> p({rows, cols, distribution::normal, 1, 0, 0, 62800});
    std::vector<std::int64_t> expected;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::fill(p.x.row(r).begin(), p.x.row(r).end(), In(reference::arithmetic_t<In>{-60}));
      const std::int64_t ends[] = {1, cols - 2};
      long double numbers[2] = {};
      for (int i = 0; i < 2; ++i) {
        p.x(r, ends[i]) = In(reference::arithmetic_t<In>{0});
        const auto offset = static_cast<std::uint64_t>(offsets[static_cast<std::size_t>(r)]);
        numbers[i] = core::reference::exponential_number(
            core::sampling::random_bits({1, offset, 0}, ends[i]));
      }
      CHECK(std::abs(std::log2(numbers[0] / numbers[1])) < 0x1p-24L);
      expected.push_back(ends[numbers[0] < numbers[1] ? 0 : 1]);
    }
    p.commit();
    const column<std::int64_t> each(offsets);
    for (const setting& s :
         {setting{{1, 1, 0, 0, 1, 0}}, setting{{1, 1, 0, 7, 1, 0}}, setting{{1, 0.75, 0, 0, 1, 0}},
          setting{{1, 1, 0.25, 0, 1, 0}}, setting{{1, 0.9, 0.1, 5, 1, 0}}}) {
      CAPTURE(describe(s.p));
      sample_options o = options_of(s);
      o.offsets = each.ref();
      matrix<std::int64_t> tokens({rows, 1, 0, 0}, role::output);
      sample(q, p.x.view(), tokens.view(), o);
      q.wait();
      tokens.download();
      for (std::int64_t r = 0; r < rows; ++r) {
        CHECK(tokens(r, 0) == expected[static_cast<std::size_t>(r)]);
      }
    }
  }
}

TEST_CASE_TEMPLATE("parameters of each row", In, SOFTFOLD_TEST_INPUT_TYPES) {
  using A = reference::arithmetic_t<In>;
  queue q;
  constexpr std::int64_t rows = 12;
  problem<In> p({rows, 777, distribution::normal, 1, 3, 1, 63000});
  std::vector<float> temperatures, top_ps;
  std::vector<double> min_ps;
  std::vector<std::int32_t> top_ks;
  std::vector<std::int64_t> seeds, offsets;
  std::vector<parameters> all;
  for (std::int64_t r = 0; r < rows; ++r) {
    temperatures.push_back(static_cast<float>(r % 4) * 0.5F);
    top_ps.push_back(r % 3 == 0 ? 1.0F : 0.7F);
    min_ps.push_back(r % 5 == 0 ? 0.02 : 0);
    top_ks.push_back(static_cast<std::int32_t>(r % 2 == 0 ? 0 : 3 * r));
    seeds.push_back(r < 6 ? 5 : -r);
    offsets.push_back(r < 3 ? 0 : (std::int64_t{1} << 40) + r);
  }
  // Rows 1, 4, 6 and 8 have parameters out of range.
  temperatures[1] = -1;
  top_ps[4] = std::numeric_limits<float>::quiet_NaN();
  min_ps[6] = 1.25;
  top_ks[8] = -2;
  for (std::size_t r = 0; r < rows; ++r) {
    all.push_back({temperatures[r], top_ps[r], min_ps[r], top_ks[r],
                   static_cast<std::uint64_t>(seeds[r]), static_cast<std::uint64_t>(offsets[r])});
  }
  const column<float> t(temperatures), tp(top_ps);
  const column<double> mp(min_ps);
  const column<std::int32_t> tk(top_ks);
  const column<std::int64_t> s(seeds), o(offsets);
  for (const filter_order order : {filter_order::top_k_first, filter_order::joint}) {
    results<In, A, std::int64_t> found(p, 2, 2);
    sample_options options;
    options.temperatures = t.ref();
    options.top_ps = tp.ref();
    options.min_ps = mp.ref();
    options.top_ks = tk.ref();
    options.seeds = s.ref();
    options.offsets = o.ref();
    options.order = order;
    options.temperature = -5;  // a vector wins over the number beside it
    options.top_k = -5;
    sample(q, p.x.view(), found.tokens.view(), found.wanted(options));
    q.wait();
    check_results(p, found, order,
                  [&](std::int64_t r) { return all[static_cast<std::size_t>(r)]; });
    for (const std::int64_t r : {1, 4, 6, 8}) {
      CHECK(found.tokens(r, 0) == -1);
      CHECK(std::isnan(found.log_probability(r, 0)));
    }
    // Other parameters and contents beside a row change nothing of it.
    const std::vector<std::int64_t> before(found.tokens.row(3).begin(), found.tokens.row(3).end());
    std::vector<std::int64_t> other_seeds(rows, 99);
    other_seeds[3] = seeds[3];
    const column<std::int64_t> other(other_seeds);
    std::vector<float> other_temperatures(rows, 7);
    other_temperatures[3] = temperatures[3];
    const column<float> other_t(other_temperatures);
    options.seeds = other.ref();
    options.temperatures = other_t.ref();
    matrix<std::int64_t> tokens(p.output_layout(2), role::output);
    sample(q, p.x.view(), tokens.view(), options);
    q.wait();
    tokens.download();
    CHECK(std::vector<std::int64_t>(tokens.row(3).begin(), tokens.row(3).end()) == before);
  }
}

TEST_CASE("seeds of a vector differ") {
  queue q;
  problem<float> p({4, 1000, distribution::all_equal, 1, 0, 0, 64000});
  const column<std::int64_t> different({1, 2, 3, 4}), same({1, 1, 1, 1});
  matrix<std::int32_t> tokens({4, 3, 0, 0}, role::output);
  const auto rows_of = [&](const column<std::int64_t>& seeds) {
    sample_options o;
    o.seeds = seeds.ref();
    sample(q, p.x.view(), tokens.view(), o);
    q.wait();
    tokens.download();
    std::vector<std::vector<std::int32_t>> rows;
    for (std::int64_t r = 0; r < 4; ++r) {
      rows.emplace_back(tokens.row(r).begin(), tokens.row(r).end());
    }
    return rows;
  };
  const auto equal = rows_of(same);
  const auto apart = rows_of(different);
  CHECK(equal[0] == equal[3]);
  CHECK(apart[0] == equal[0]);
  CHECK(apart[0] != apart[1]);
  CHECK(apart[1] != apart[2]);
  CHECK(apart[2] != apart[3]);
  CHECK(equal[0][0] != equal[0][1]);  // draws differ
}

TEST_CASE_TEMPLATE("rows that are not ordinary", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t cols : {7, 1000, 9000}) {
    problem<In> p({7, cols, distribution::normal, 1, 1, 1, 65000});
    make_rows_unusual(p);
    p.commit();
    for (const setting& s : settings(66000)) {
      check_sample<reference::arithmetic_t<In>, std::int32_t>(q, p, s);
    }
  }
  // No columns.
  problem<In> none({3, 0, distribution::normal, 1, 0, 0, 1});
  results<In, In, std::int32_t> found(none, 2, 0);
  sample(q, none.x.view(), found.tokens.view(), found.wanted({}));
  q.wait();
  check_results(none, found, filter_order::top_k_first, [](std::int64_t) { return parameters{}; });
}

TEST_CASE("no rows, no draws") {
  queue q;
  problem<float> p({3, 10, distribution::normal, 1, 0, 0, 67000});
  matrix<std::int32_t> tokens({3, 0, 0, 0}, role::output);
  matrix<float> lse({3, 1, 0, 0}, role::output);
  sample(q, p.x.view(), tokens.view());
  sample_options o;
  o.lse = lse.vector();
  sample(q, p.x.view(), tokens.view(), o);
  q.wait();
  lse.download();
  for (std::int64_t r = 0; r < 3; ++r) {
    expect(p.rows[static_cast<std::size_t>(r)].check_logsumexp(lse(r, 0)), r, p.spec);
  }
  problem<float> none({0, 10, distribution::normal, 1, 0, 0, 1});
  matrix<std::int32_t> no_tokens({0, 5, 0, 0}, role::output);
  sample(q, none.x.view(), no_tokens.view());
  q.wait();
}

// The same row alone and among others, at another address, with other threads: long enough to be
// shared out.
TEST_CASE_TEMPLATE("where a row lies and who works on it does not show", In,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  const std::int64_t cols = rows_for_gpus(1) == 1 ? 30013 : 300007;
  const setting wanted[] = {{{1, 1, 0, 0, 7, 1}},
                            {{1, 0.9, 0, 0, 7, 2}},
                            {{0.8, 0.95, 0.001, 2000, 7, 3}},
                            {{1, 1, 0, 40, 7, 4}},
                            {{1, 1, 0.01, 0, 7, 5}}};
  problem<In> p({3, cols, distribution::normal, 1, 5, 3, 68000});
  for (const setting& s : wanted) {
    const auto tokens_of = [&](queue& q, const matrix_view<In>& x) {
      matrix<std::int64_t> tokens({x.rows, 2, 0, 0}, role::output);
      sample(q, x, tokens.view(), options_of(s));
      q.wait();
      tokens.download();
      std::vector<std::vector<std::int64_t>> rows;
      for (std::int64_t r = 0; r < x.rows; ++r) {
        rows.emplace_back(tokens.row(r).begin(), tokens.row(r).end());
      }
      return rows;
    };
    queue one({.threads = 1});
    queue all;
    const auto together = tokens_of(one, p.x.view());
    CHECK(tokens_of(all, p.x.view()) == together);
    problem<In> moved({1, cols, distribution::normal, 1, 0, 0, 68001});
    CHECK(reference::widen(moved.x.row(0)[5]) == reference::widen(p.x.row(1)[5]));
    CHECK(tokens_of(all, moved.x.view())[0] == together[1]);
    CHECK(tokens_of(one, moved.x.view())[0] == together[1]);
  }
}

TEST_CASE("wrong arguments: an error that names them, and nothing is written") {
  queue q;
  constexpr std::int64_t rows = 3;
  constexpr std::int64_t cols = 8;
  problem<float> p({rows, cols, distribution::normal, 1, 2, 0, 69000});
  results<float, float, std::int32_t> found(p, 2, 2);
  const column<float> three({1, 1, 1});
  const column<std::int64_t> three_integers({1, 1, 1}), four({1, 1, 1, 1});
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  struct mistake {
    const char* text;
    errc code;
    std::function<void(const_matrix_ref&, matrix_ref&, sample_options&)> make;
  };
  using X = const_matrix_ref;
  using M = matrix_ref;
  using O = sample_options;
  const errc invalid = errc::invalid_argument;
  const errc type = errc::unsupported_type;
  const mistake mistakes[] = {
      {"sample: temperature is -1,", invalid, [](X&, M&, O& o) { o.temperature = -1; }},
      {"sample: temperature is nan", invalid, [=](X&, M&, O& o) { o.temperature = nan; }},
      {"sample: temperature is inf", invalid,
       [](X&, M&, O& o) { o.temperature = std::numeric_limits<double>::infinity(); }},
      {"sample: temperature is 9.99", invalid, [](X&, M&, O& o) { o.temperature = 1e-40; }},
      {"sample: top_p is 1.5,", invalid, [](X&, M&, O& o) { o.top_p = 1.5; }},
      {"sample: top_p is -0", invalid, [](X&, M&, O& o) { o.top_p = -0.5; }},
      {"sample: top_p is nan", invalid, [=](X&, M&, O& o) { o.top_p = nan; }},
      {"sample: min_p is 2,", invalid, [](X&, M&, O& o) { o.min_p = 2; }},
      {"sample: min_p is nan", invalid, [=](X&, M&, O& o) { o.min_p = nan; }},
      {"sample: top_k is -7,", invalid, [](X&, M&, O& o) { o.top_k = -7; }},
      {"sample: order is 9,", invalid,
       [](X&, M&, O& o) { o.order = static_cast<filter_order>(9); }},
      {"sample: temperatures.type is i64,", type,
       [&](X&, M&, O& o) { o.temperatures = three_integers.ref(); }},
      {"sample: top_ps.size is 2,", invalid,
       [&](X&, M&, O& o) {
         o.top_ps = three.ref();
         o.top_ps.size = 2;
       }},
      {"sample: min_ps.data is null,", invalid,
       [](X&, M&, O& o) {
         o.min_ps = {nullptr, dtype::f32, rows};
       }},
      {"sample: top_ks.type is f32,", type, [&](X&, M&, O& o) { o.top_ks = three.ref(); }},
      {"sample: seeds.type is f32,", type, [&](X&, M&, O& o) { o.seeds = three.ref(); }},
      {"sample: offsets.size is 4,", invalid, [&](X&, M&, O& o) { o.offsets = four.ref(); }},
      {"sample: x.type is i32,", type, [](X& x, M&, O&) { x.type = dtype::i32; }},
      {"sample: x.stride is 7,", invalid, [](X& x, M&, O&) { x.stride = 7; }},
      {"sample: x.rows is -1,", invalid,
       [](X& x, M& t, O&) {
         x.rows = -1;
         t.rows = -1;
       }},
      {"sample: tokens.type is f32,", type, [](X&, M& t, O&) { t.type = dtype::f32; }},
      {"sample: tokens.rows is 2,", invalid, [](X&, M& t, O&) { t.rows = 2; }},
      {"sample: tokens.data is null,", invalid, [](X&, M& t, O&) { t.data = nullptr; }},
      {"sample: tokens.cols (draws) is", invalid,
       [](X&, M& t, O&) {
         t.cols = (1 << 21) + 1;
         t.stride = t.cols;
       }},
      {"sample: log_probability.cols is 1,", invalid,
       [](X&, M&, O& o) { o.log_probability.cols = 1; }},
      {"sample: raw_log_probability.type is f64,", type,
       [](X&, M&, O& o) { o.raw_log_probability.type = dtype::f64; }},
      {"sample: lse.size is 1,", invalid, [](X&, M&, O& o) { o.lse.size = 1; }},
      {"sample: kept.type is f32,", type, [](X&, M&, O& o) { o.kept.type = dtype::f32; }},
      {"sample: kept_mass.type is i32,", type, [](X&, M&, O& o) { o.kept_mass.type = dtype::i32; }},
      {"sample: top_indices.cols (k) is 9,", invalid, [](X&, M&, O& o) { o.top_indices.cols = 9; }},
      {"sample: top_log_probabilities.data is null,", invalid,
       [](X&, M&, O& o) { o.top_log_probabilities = {}; }},
      {"sample: kept overlaps lse,", invalid, [](X&, M&, O& o) { o.kept.data = o.lse.data; }},
      {"sample: tokens overlaps x,", invalid,
       [](X& x, M& t, O&) { t.data = const_cast<void*>(x.data); }},
      {"sample: lse overlaps temperatures,", invalid,
       [](X&, M&, O& o) {
         o.temperatures = {o.lse.data, dtype::f32, rows};
       }},
  };
  for (const mistake& m : mistakes) {
    const_matrix_ref x = p.x.view();
    matrix_ref tokens = found.tokens.view();
    sample_options o = found.wanted({});
    m.make(x, tokens, o);
    INFO(m.text);
    try {
      sample(q, x, tokens, o);
      FAIL_CHECK("no error");
    } catch (const error& e) {
      CHECK(e.code() == m.code);
      INFO(e.what());
      CHECK(std::string_view(e.what()).starts_with(m.text));
    }
    q.wait();
    found.download();
    CHECK(found.tokens.untouched().empty());
    CHECK(found.log_probability.untouched().empty());
    CHECK(found.raw.untouched().empty());
    CHECK(found.lse.untouched().empty());
    CHECK(found.kept.untouched().empty());
    CHECK(found.kept_mass.untouched().empty());
    CHECK(found.top_indices.untouched().empty());
    CHECK(found.top.untouched().empty());
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

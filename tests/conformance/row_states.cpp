// SPDX-License-Identifier: Apache-2.0
// row_states: parts folded anywhere, sent as bytes and combined; and bytes that are none.
#include "problem.hpp"
#include "sampling.hpp"
#include "state_bytes.hpp"

#include <core/reference_sampling.hpp>

#include <softfold/row_states.hpp>

#include <zlib.h>

#include <random>

namespace softfold::test {

namespace {

template <class T>
const_matrix_ref part_of(const matrix<T>& x, std::int64_t begin, std::int64_t end) {
  const auto whole = x.view();
  return matrix_view<const T>(whole.data + begin, whole.rows, end - begin, whole.stride);
}

template <class T>
row_states folded(queue& q, const problem<T>& p, std::int64_t k, std::int64_t begin,
                  std::int64_t end) {
  row_states states(dtype_of<reference::arithmetic_t<T>>, p.x.rows(), k, p.spec.scale);
  states.fold(q, part_of(p.x, begin, end), begin);
  return states;
}

/// A state with every kind of content: 3 rows, 2 column ranges, absent entries.
row_states example(queue& q, std::int64_t k = 4) {
  problem<float> p({3, 20, distribution::few_values, 0.5, 0, 0, 81000});
  p.x(1, 3) = nans<float>()[0];
  p.x(2, 5) = infinity<float>;
  p.commit();
  row_states states = folded(q, p, k, 2, 9);
  states.fold(q, part_of(p.x, 12, 15), 12);
  return states;
}

bool equal(const row_states& a, const row_states& b) { return a.to_bytes() == b.to_bytes(); }

constexpr std::size_t first_state = 48 + 2 * 16;

}  // namespace

TEST_SUITE_BEGIN("row_states");

TEST_CASE_TEMPLATE("parts folded apart, sent as bytes, combined in any order", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  using arithmetic = reference::arithmetic_t<T>;
  queue q;
  for (const double scale : {1.0, 0.7}) {
    for (const std::int64_t k : {0, 5, 40}) {
      problem<T> p({3, 3000, distribution::few_values, scale, 3, 1, 80000});
      p.x(1, 2900) = nans<T>()[1];
      std::fill(p.x.row(2).begin(), p.x.row(2).end(), T(-infinity<T>));
      p.commit();
      const auto expected = expected_columns(p, k);
      std::vector<bytes> sent;
      for (const auto& [begin, end] : {std::pair{2000, 2001}, std::pair{0, 1000},
                                       std::pair{2001, 3000}, std::pair{1000, 2000}}) {
        sent.push_back(folded(q, p, k, begin, end).to_bytes());
      }
      row_states whole = row_states::from_bytes(sent[0]);
      for (std::size_t i = 1; i < sent.size(); ++i) {
        whole.combine(q, row_states::from_bytes(sent[i]));
      }
      CHECK(whole.column_count() == 3000);
      REQUIRE(whole.columns().size() == 1);
      CHECK(whole.columns()[0] == column_range{0, 3000});
      std::vector<arithmetic> lse(3);
      std::vector<arithmetic> probabilities(static_cast<std::size_t>(3 * (k + 2)), 7);
      whole.finish(q, lse, matrix_view<arithmetic>(probabilities.data(), 3, k, k + 2));
      for (std::int64_t r = 0; r < 3; ++r) {
        auto& oracle = p.rows[static_cast<std::size_t>(r)];
        oracle.set_combines(3);
        expect(oracle.check_logsumexp(lse[static_cast<std::size_t>(r)]), r, p.spec);
        const auto& columns = expected[static_cast<std::size_t>(r)];
        const std::span<const std::int64_t> found(
            static_cast<const std::int64_t*>(whole.indices().data) + r * k,
            static_cast<std::size_t>(k));
        expect(check_columns(found, columns), r, p.spec);
        for (std::int64_t i = 0; i < k; ++i) {
          expect(
              oracle.check_probability(
                  probabilities[static_cast<std::size_t>(r * (k + 2) + i)],
                  static_cast<std::size_t>(columns[static_cast<std::size_t>(i)]), empty_row::nan),
              r, p.spec);
        }
        CHECK(probabilities[static_cast<std::size_t>(r * (k + 2) + k)] == 7);  // between rows
        oracle.set_combines(0);
      }
    }
  }
}

TEST_CASE("folding part after part is folding parts and combining") {
  queue q;
  problem<float> p({2, 100, distribution::normal, 1, 0, 0, 82000});
  row_states in_turn = folded(q, p, 3, 0, 60);
  in_turn.fold(q, part_of(p.x, 60, 100), 60);
  row_states combined = folded(q, p, 3, 60, 100);
  combined.combine(q, folded(q, p, 3, 0, 60));
  CHECK(equal(in_turn, combined));
}

TEST_CASE("rows below rows") {
  queue q;
  problem<float> p({7, 50, distribution::normal, 0.5, 0, 0, 85000});
  const row_states all = folded(q, p, 4, 0, 50);
  row_states built(dtype::f32, 0, 4, 0.5);
  built.fold(q, matrix_view<const float>(p.x.view().data, 0, 50), 0);
  for (const auto& [first, count] : {std::pair{0, 3}, std::pair{3, 1}, std::pair{4, 3}}) {
    row_states block(dtype::f32, count, 4, 0.5);
    block.fold(q, matrix_view<const float>(p.x.view().data + first * 50, count, 50), 0);
    built.append_rows(block);
  }
  CHECK(equal(built, all));
  row_states twice = all;
  twice.append_rows(twice);
  CHECK(twice.rows() == 14);
  const bytes before = built.to_bytes();
  CHECK_THROWS_AS(built.append_rows(folded(q, p, 4, 0, 49)), error);
  CHECK_THROWS_AS(built.append_rows(folded(q, p, 3, 0, 50)), error);
  CHECK_THROWS_AS(built.append_rows(row_states(dtype::f64, 1, 4, 0.5)), error);
  CHECK(built.to_bytes() == before);
}

TEST_CASE("new states are the identity") {
  queue q;
  row_states none(dtype::f32, 3, 4, 0.5);
  CHECK(none.column_count() == 0);
  CHECK(equal(none, row_states::from_bytes(none.to_bytes())));
  const row_states some = example(q);
  none.combine(q, some);
  CHECK(equal(none, some));
  const row_states nothing(dtype::f64, 0, 0);
  CHECK(equal(nothing, row_states::from_bytes(nothing.to_bytes())));
}

TEST_CASE("absent entries and their probabilities") {
  queue q;
  problem<double> p({1, 3, distribution::normal, 1, 0, 0, 83000});
  const row_states states = folded(q, p, 5, 0, 3);
  std::vector<double> probabilities(5);
  states.finish(q, {}, matrix_view<double>(probabilities.data(), 1, 5));
  CHECK(probabilities[2] > 0);
  CHECK(probabilities[3] == 0);
  CHECK(probabilities[4] == 0);
}

TEST_CASE("no column is counted twice, and only like is combined with like") {
  queue q;
  problem<float> p({2, 30, distribution::normal, 1, 0, 0, 84000});
  row_states states = folded(q, p, 3, 10, 20);
  const bytes before = states.to_bytes();
  const auto rejects = [&](const char* part, auto&& call) {
    try {
      call();
      FAIL_CHECK("no error");
    } catch (const error& e) {
      CHECK(e.code() != errc::invalid_data);
      CHECK(mentions(e.what(), part));
    }
    CHECK(states.to_bytes() == before);
  };
  rejects("columns 19 to 19", [&] { states.fold(q, part_of(p.x, 19, 25), 19); });
  rejects("columns 10 to 10", [&] { states.combine(q, folded(q, p, 3, 5, 11)); });
  rejects("columns 12 to 13", [&] { states.combine(q, folded(q, p, 3, 12, 14)); });
  rejects("column_offset is -1", [&] { states.fold(q, part_of(p.x, 0, 5), -1); });
  rejects("x_part.rows is 1",
          [&] { states.fold(q, matrix_view<const float>(p.x.view().data, 1, 5), 0); });
  rejects("more.k is 4, expected 3", [&] { states.combine(q, folded(q, p, 4, 0, 5)); });
  rejects("more.scale is 2", [&] { states.combine(q, row_states(dtype::f32, 2, 3, 2)); });
  rejects("more.rows is 1", [&] { states.combine(q, row_states(dtype::f32, 1, 3)); });
  rejects("more.type is f64", [&] { states.combine(q, row_states(dtype::f64, 2, 3)); });
  const problem<double> wide({2, 5, distribution::normal, 1, 0, 0, 1});
  rejects("x_part.type is f64", [&] { states.fold(q, wide.x.view(), 0); });
  std::vector<float> lse(3);
  rejects("lse.size is 3, expected 2", [&] { states.finish(q, lse); });
  std::vector<double> wide_lse(2);
  rejects("lse.type is f64", [&] { states.finish(q, wide_lse); });
  rejects("type is f16", [] { row_states(dtype::f16, 1, 1); });
  rejects("rows is -1", [] { row_states(dtype::f32, -1, 1); });
  rejects("k is -2", [] { row_states(dtype::f32, 1, -2); });
  rejects("rows x k", [] { row_states(dtype::f32, std::int64_t{1} << 40, std::int64_t{1} << 40); });
  rejects("scale", [] { row_states(dtype::f32, 1, 1, 1e39); });
}

TEST_CASE("the bytes are as documented") {
  queue q;
  problem<float> p({1, 2, distribution::normal, 1, 0, 0, 1});
  p.x(0, 0) = 1;
  p.x(0, 1) = 1;
  p.commit();
  row_states states(dtype::f32, 1, 3, 0.5);
  states.fold(q, p.x.view(), 258);
  unsigned char expected[] = {
      0x89, 'S', 'F',  'S',  13,  10,  0x1a, 10,                                  // magic
      1,    0,   0,    0,    0,   0,   0,    0,                                   // version, f32
      1,    0,   0,    0,    0,   0,   0,    0,                                   // rows
      3,    0,   0,    0,    0,   0,   0,    0,                                   // k
      0,    0,   0,    0,    0,   0,   0xe0, 0x3f,                                // 0.5
      1,    0,   0,    0,    0,   0,   0,    0,                                   // one range
      2,    1,   0,    0,    0,   0,   0,    0,    4, 1, 0,    0,    0, 0, 0, 0,  // 258 to 260
      0,    0,   0,    0x3f, 0,   0,   0,    0x40,                                // max 0.5, sum 2
      0,    0,   0x80, 0x3f, 0,   0,   0x80, 0x3f, 0, 0, 0x80, 0xff,              // 1, 1, -infinity
      2,    1,   0,    0,    0,   0,   0,    0,                                   // 258
      3,    1,   0,    0,    0,   0,   0,    0,                                   // 259
      255,  255, 255,  255,  255, 255, 255,  255};                                // -1
  // The sum is about 2, by the rounding of the backend.
  const float sum_found = static_cast<const max_sum<float>*>(states.partials().data)[0].sum;
  CHECK(std::abs(sum_found - 2) <= 32 * 0x1p-24F);
  std::memcpy(&expected[68], &sum_found, 4);
  const bytes found = states.to_bytes();
  REQUIRE(found.size() == sizeof expected + 4);
  CHECK(std::memcmp(found.data(), expected, sizeof expected) == 0);
  const auto sum = static_cast<std::uint32_t>(crc32_z(0, expected, sizeof expected));
  CHECK(std::memcmp(&found[sizeof expected], &sum, 4) == 0);
}

TEST_CASE("every truncation and every altered byte is refused") {
  queue q;
  const bytes good = example(q).to_bytes();
  CHECK(refusal<row_states>(good) == "accepted");
  for (std::size_t size = 0; size < good.size(); ++size) {
    const bytes shorter(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    CAPTURE(size);
    CHECK(mentions(refusal<row_states>(shorter), size == 0 ? "magic" : "truncated"));
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      bytes altered = good;
      altered[at] ^= std::byte{static_cast<unsigned char>(1 << bit)};
      CAPTURE(at);
      CHECK(refusal<row_states>(altered) != "accepted");
    }
  }
  bytes longer = good;
  longer.push_back(std::byte{0});
  CHECK(mentions(refusal<row_states>(longer), "bytes after"));
}

TEST_CASE("foreign and later bytes, and wrong content under a right checksum") {
  queue q;
  const bytes good = example(q).to_bytes();
  const std::string png = "\x89PNG\r\n\x1a\n and so on";
  CHECK(mentions(refusal<row_states>(std::as_bytes(std::span(png))), "magic"));
  CHECK(mentions(refusal<row_states>(with(good, 8, 3)), "version is 3, expected 1, 2 or 4"));
  CHECK(mentions(refusal<row_states>(with(good, 12, 7)), "type is 7"));
  CHECK(mentions(refusal<row_states>(with(good, 16, std::int64_t{-1})), "rows is -1"));
  CHECK(mentions(refusal<row_states>(with(good, 24, std::int64_t{-1})), "k is -1"));
  // Sizes that no memory holds: refused by the size of the file, before anything is allocated.
  for (const std::size_t field : {16U, 24U, 40U}) {
    for (const std::int64_t size :
         {std::int64_t{1} << 60, std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::max()}) {
      CHECK(mentions(refusal<row_states>(with(good, field, size)), "truncated"));
    }
  }
  CHECK(mentions(refusal<row_states>(with(good, 32, std::nan(""))), "scale is nan"));
  CHECK(mentions(refusal<row_states>(with(good, 32, 0.1)), "scale is 0.1"));  // not of the type f32
  CHECK(mentions(refusal<row_states>(with(good, 48, std::int64_t{-4})), "column range -4 to 9"));
  CHECK(mentions(refusal<row_states>(with(good, 56, std::int64_t{2})), "column range 2 to 2"));
  CHECK(mentions(refusal<row_states>(with(good, 64, std::int64_t{9})),
                 "column range 9 to 15"));  // they meet
  CHECK(mentions(refusal<row_states>(with(good, first_state + 4, -1.0F)),
                 "and sum -1, which no row of 10"));
  const std::size_t values = first_state + 3 * 8;
  const std::size_t indices = values + 3 * 4 * 4;
  CHECK(mentions(refusal<row_states>(with(good, values + 4, 1e9F)),
                 "row 0, entry 1"));  // out of order
  CHECK(mentions(refusal<row_states>(with(good, indices, std::int64_t{10})),
                 "row 0, entry 0: index 10"));
  CHECK(mentions(refusal<row_states>(with(good, indices + 24, std::int64_t{-1})),
                 "row 0, entry 3: index -1"));
}

TEST_CASE("states and lists that no row has, under a right checksum") {
  queue q;
  problem<float> p({2, 8, distribution::normal, 0.5, 0, 0, 86000});
  const bytes good = folded(q, p, 3, 0, 8).to_bytes();
  CHECK(refusal<row_states>(good) == "accepted");
  constexpr std::size_t state = 48 + 16;
  constexpr std::size_t values = state + 2 * 8;
  constexpr std::size_t indices = values + 2 * 3 * 4;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto state_is = [&](float max, float sum) {
    return refusal<row_states>(with(with(good, state, max), state + 4, sum));
  };
  float max = 0;
  std::memcpy(&max, &good[state], sizeof max);
  for (const float sum : {0.0F, 0.1F, 17.0F, 1e30F, infinity<float>, nan, -0.0F, -1.0F}) {
    CAPTURE(sum);
    CHECK(mentions(state_is(max, sum), "which no row of 8 columns has"));
  }
  for (const float sum : {5.0F, -1.0F, nan}) {
    CAPTURE(sum);
    CHECK(mentions(state_is(-infinity<float>, sum), "which no row of 8 columns has"));
  }
  for (const float sum : {0.0F, -1.0F, nan}) {
    CAPTURE(sum);
    CHECK(mentions(state_is(infinity<float>, sum), "which no row of 8 columns has"));
  }
  CHECK(state_is(infinity<float>, 2) == "accepted");
  CHECK(state_is(nan, nan) == "accepted");
  CHECK(state_is(max, 1) == "accepted");
  CHECK(state_is(max, 8) == "accepted");
  // Far from 0 the sum is relative to a rounded maximum, and may be anything within that rounding.
  CHECK(state_is(0x1p+29F, 1e10F) == "accepted");
  CHECK(state_is(0x1p+29F, 1e-10F) == "accepted");
  CHECK(mentions(state_is(0x1p+29F, 1e20F), "which no row of 8 columns has"));

  CHECK(mentions(state_is(max - 0.001F, 2), "below the scaled first element of its list"));
  CHECK(mentions(state_is(-infinity<float>, 0), "below the scaled first element of its list"));
  CHECK(mentions(refusal<row_states>(with(good, values, nan)),
                 "below the scaled first element of its list"));
  CHECK(mentions(refusal<row_states>(with(good, values, infinity<float>)),
                 "below the scaled first element of its list"));
  std::int64_t first = 0;
  std::memcpy(&first, &good[indices], sizeof first);
  CHECK(mentions(refusal<row_states>(with(good, indices + 16, first)),
                 ("row 0: index " + std::to_string(first) + " is in the list twice").c_str()));
  // Marks for so many columns would take more memory than the bytes: the list is sorted instead.
  const bytes far = with(good, 48 + 8, std::int64_t{1} << 40);
  CHECK(refusal<row_states>(with(far, state + 4, 2.0F)) == "accepted");
  CHECK(mentions(refusal<row_states>(with(with(far, state + 4, 2.0F), indices + 16, first)),
                 "is in the list twice"));
  // States of no columns are those of no row.
  const bytes none = row_states(dtype::f32, 1, 0).to_bytes();
  CHECK(refusal<row_states>(none) == "accepted");
  CHECK(mentions(refusal<row_states>(with(with(none, 48, 1.0F), 52, 1.0F)),
                 "which no row of 0 columns has"));
}

TEST_CASE_TEMPLATE("states of any row are read back", T, float, double) {
  queue q;
  const T largest = std::numeric_limits<T>::max();
  const T least = std::numeric_limits<T>::denorm_min();
  const std::vector<std::vector<T>> rows = {
      {0, 0, 0},
      {largest, -largest, 0},
      {-largest, -largest, -largest},
      {least, -least, T(-0.0)},
      {infinity<T>, infinity<T>, 1},
      {-infinity<T>, -infinity<T>, -infinity<T>},
      {-infinity<T>, -1, -infinity<T>},
      {nans<T>()[0], infinity<T>, 0},
      {largest / 3, largest / 3, largest / 3},
      {T(1e9), T(1e9) + 64, T(1e9) - 64},
      {T(1e18), T(1e18), T(-1e18)},
  };
  matrix<T> x({static_cast<std::int64_t>(rows.size()), 3, 0, 0}, role::input);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].begin(), rows[r].end(), x.row(static_cast<std::int64_t>(r)).begin());
  }
  x.upload();
  for (const double scale : {1.0, 0.7, -1.0, -0.3, 0.0, 1e-30, 1e-3, 30.0, -30.0}) {
    for (const std::int64_t k : {0, 1, 3, 5}) {
      CAPTURE(scale);
      row_states states(dtype_of<T>, x.rows(), k, scale);
      states.fold(q, part_of(x, 0, 2), 0);
      CHECK(refusal<row_states>(states.to_bytes()) == "accepted");
      states.fold(q, part_of(x, 2, 3), 2);
      CHECK(refusal<row_states>(states.to_bytes()) == "accepted");
    }
  }
}

// ---- With sampling.

namespace {

/// Rows of every kind, their states over some of the columns.
row_states sampled(queue& q, const problem<float>& p, std::int64_t k, const row_sampling& s,
                   std::int64_t begin, std::int64_t end) {
  row_states states(dtype::f32, p.x.rows(), k, p.spec.scale, s);
  states.fold(q, part_of(p.x, begin, end), begin);
  return states;
}

problem<float> rows_to_sample() {
  problem<float> p({5, 300, distribution::normal, 0.5, 0, 0, 83000});
  p.x(1, 3) = nans<float>()[0];
  p.x(2, 5) = infinity<float>;
  std::fill(p.x.row(3).begin(), p.x.row(3).end(), -infinity<float>);
  p.x(4, 250) = 30;
  p.commit();
  return p;
}

const row_sampling samplings[] = {
    {.seed = 3, .offset = 7},
    {.temperature = 0.5, .seed = ~std::uint64_t{0}, .offset = ~std::uint64_t{1}, .draw = 2},
    {.temperature = 0, .seed = 3},
    {.temperature = 2, .top_k = 5, .top_p = 0.75, .min_p = 0.01, .seed = 3, .offset = 7},
};

}  // namespace

TEST_CASE("tokens of parts that were folded apart and sent as bytes") {
  queue q;
  const problem<float> p = rows_to_sample();
  for (const row_sampling& s : samplings) {
    for (const std::int64_t k : {std::int64_t{5}, s.top_k}) {
      const row_states parts[] = {sampled(q, p, k, s, 200, 300), sampled(q, p, k, s, 0, 90),
                                  sampled(q, p, k, s, 90, 200)};
      row_states all = row_states::from_bytes(parts[0].to_bytes());
      CHECK(equal(all, parts[0]));
      all.combine(q, row_states::from_bytes(parts[1].to_bytes()));
      all.fold(q, part_of(p.x, 90, 200), 90);
      row_states other = parts[2];
      other.combine(q, parts[0]);
      other.combine(q, parts[1]);
      std::vector<std::int64_t> tokens(5), other_tokens(5);
      std::vector<float> log(5);
      all.finish_sample(q, tokens, {.log_probability = log});
      other.finish_sample(q, other_tokens);
      CHECK(tokens == other_tokens);
      for (std::int64_t r = 0; r < 5; ++r) {
        const auto expected =
            reference::sample(std::span<const float>(const_cast<problem<float>&>(p).x.row(r)),
                              {s.temperature, s.top_p, s.min_p, s.top_k, s.seed,
                               s.offset + static_cast<std::uint64_t>(r)},
                              filter_order::top_k_first, static_cast<std::uint32_t>(s.draw));
        const auto at = static_cast<std::size_t>(r);
        CAPTURE(r);
        CAPTURE(k);
        CHECK(tokens[at] == expected.token);
        CHECK((std::isnan(expected.log_probability)
                   ? std::isnan(log[at])
                   : log[at] == static_cast<float>(expected.log_probability) ||
                         std::abs(static_cast<double>(log[at]) - expected.log_probability) < 1e-6));
      }
      // Rows below rows keep their seeds and offsets.
      row_states twice = all;
      row_states below(dtype::f32, 5, k, p.spec.scale, [&] {
        row_sampling later = s;
        later.seed += 1;
        later.offset += 100;
        return later;
      }());
      below.fold(q, p.x.view(), 0);
      twice.append_rows(below);
      const row_states read = row_states::from_bytes(twice.to_bytes());
      CHECK(equal(read, twice));
      std::vector<std::int64_t> both(10), below_tokens(5);
      read.finish_sample(q, both);
      below.finish_sample(q, below_tokens);
      CHECK(std::equal(tokens.begin(), tokens.end(), both.begin()));
      CHECK(std::equal(below_tokens.begin(), below_tokens.end(), both.begin() + 5));
    }
  }
}

TEST_CASE("states with sampling go with their like, and have parameters in range") {
  queue q;
  const problem<float> p = rows_to_sample();
  const row_states states = sampled(q, p, 5, samplings[3], 0, 100);
  const auto fails = [&](const row_states& more, const char* text) {
    row_states to = states;
    try {
      to.combine(q, more);
      FAIL_CHECK("no error");
    } catch (const error& e) {
      CHECK(e.code() == errc::invalid_argument);
      CHECK(mentions(e.what(), text));
    }
    CHECK(equal(to, states));
  };
  row_sampling other = samplings[3];
  other.top_p = 0.5;
  fails(sampled(q, p, 5, other, 100, 200), "more.sampling is temperature 2, top_k 5, top_p 0.5");
  other = samplings[3];
  other.offset = 8;
  fails(sampled(q, p, 5, other, 100, 200), "row 0 has seed 3 and offset 8, expected 3 and 7");
  fails(folded(q, p, 5, 100, 200), "more.sampling is none");
  const auto refused = [&](const row_sampling& s, const char* text) {
    try {
      row_states made(dtype::f32, 1, 3, 1, s);
      FAIL_CHECK("no error");
    } catch (const error& e) {
      CHECK(mentions(e.what(), text));
    }
  };
  refused({.temperature = -1}, "row_states: temperature is -1");
  refused({.top_k = 4}, "row_states: k is 3, expected at least top_k = 4");
  refused({.top_p = 0.5}, "row_states: top_p is 0.5");
  refused({.draw = -1}, "row_states: draw is -1");
  std::vector<std::int64_t> tokens(5);
  CHECK_THROWS_AS(folded(q, p, 5, 0, 9).finish_sample(q, tokens), error);
  row_states far = states;
  CHECK_THROWS_AS(far.fold(q, part_of(p.x, 0, 300), std::int64_t{1} << 31), error);
  CHECK(equal(far, states));
}

// What version 1 wrote is read by every later version: these bytes are not to change.
TEST_CASE("golden bytes of versions 1 and 2") {
  const auto of_hex = [](std::string_view hex) {
    bytes data;
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    for (std::size_t i = 0; i < hex.size(); i += 2) {
      data.push_back(static_cast<std::byte>(16 * digit(hex[i]) + digit(hex[i + 1])));
    }
    return data;
  };
  constexpr std::string_view first =
      "895346530d0a1a0a010000000000000001000000000000000200000000000000000000000000e03f"
      "0100000000000000020100000000000005010000000000000000c03f78b9fc3f0000404000000040"
      "030100000000000004010000000000006896b3cd";
  constexpr std::string_view second =
      "895346530d0a1a0a020000000000000001000000000000000200000000000000000000000000e03f"
      "01000000000000000000000000000040000000000000f03f00000000000000000000000000000000"
      "0100000000000000020100000000000005010000000000000000c03f78b9fc3f0000404000000040"
      "03010000000000000401000000000000050000000000000006000000000000000000000000000840"
      "0301000000000000bd0654873b610040000000000000004004010000000000000300000000000000"
      "00000000000000000700000000000000d6e343d9010000000020a75c020000000000000000000000"
      "1d00000000000000063f60310100000000a05e7301000000a8cefc55";
  const row_states plain = row_states::from_bytes(of_hex(first));
  CHECK(plain.to_bytes() == of_hex(first));
  CHECK(!plain.sampling());
  CHECK(plain.k() == 2);
  CHECK(plain.columns()[0] == column_range{258, 261});
  const row_states with_tokens = row_states::from_bytes(of_hex(second));
  CHECK(with_tokens.to_bytes() == of_hex(second));
  REQUIRE(with_tokens.sampling());
  CHECK(with_tokens.samples().data[0].seed == 5);
  queue q;
  std::vector<std::int64_t> tokens(1);
  with_tokens.finish_sample(q, tokens);
  const float row[] = {1, 3, 2};
  CHECK(tokens[0] == with_tokens.samples().data[0].column);
  // The states of the same row are the same on every backend.
  row_states made(dtype::f32, 1, 2, 0.5, {.temperature = 2, .seed = 5, .offset = 6, .draw = 1});
  matrix<float> x({1, 3, 0, 0}, role::input);
  std::copy_n(row, 3, x.row(0).begin());
  x.upload();
  made.fold(q, x.view(), 258);
  CHECK(made.samples().data[0] == with_tokens.samples().data[0]);
}

TEST_CASE("bytes with sampling that no row has, under a right checksum") {
  queue q;
  const problem<float> p = rows_to_sample();
  const bytes good = sampled(q, p, 2, samplings[0], 0, 100).to_bytes();
  CHECK(refusal<row_states>(good) == "accepted");
  for (std::size_t size = 0; size < good.size(); size += 7) {
    const bytes shorter(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(mentions(refusal<row_states>(shorter), size == 0 ? "magic" : "truncated"));
  }
  CHECK(mentions(refusal<row_states>(with(good, 48, -1.0)), "temperature is -1"));
  CHECK(mentions(refusal<row_states>(with(good, 48 + 24, std::int64_t{3})), "top_k = 3"));
  CHECK(mentions(refusal<row_states>(with(good, 48 + 32, std::int64_t{-1})), "draw is -1"));
  const std::size_t sample = good.size() - 4 - 5 * 128;
  const auto refuses = [&](std::size_t number, auto value) {
    CAPTURE(number);
    CHECK(mentions(refusal<row_states>(with(good, sample + 8 * number, value)),
                   "row 0 has a state of sampling that no row of 100 columns has"));
  };
  refuses(0, std::int64_t{4});    // the key is that of seed 3,
  refuses(1, std::int64_t{8});    // offset 7,
  refuses(2, 1e9);                // the list says what is largest
  refuses(3, std::int64_t{100});  // no such column
  refuses(4, 1e9);
  refuses(5, 0.123F * 1.0);
  refuses(6, std::int64_t{-1});
  refuses(7, std::int64_t{101});
  refuses(7, std::int64_t{-1});
  refuses(7, std::int64_t{0});
  refuses(8, std::int64_t{99});
  refuses(9, std::int64_t{0});
  refuses(10, std::int64_t{-1});
  refuses(12, std::int64_t{99});
  refuses(15, std::int64_t{-1});
}

// Sums below 1 in their own unit, lists that edits cut short, rows of which nothing is left.
TEST_CASE_TEMPLATE("what fold made is read back, with sampling and with edits", T, float, double) {
  queue q;
  std::mt19937_64 random(83000);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int i = 0; i < 400; ++i) {
    const std::int64_t cols = 1 + below(12);
    const std::int64_t k = below(5);
    const double scale = i % 3 == 0 ? 0.5 : 1;
    problem<T> p({4, cols, distribution::normal, scale, 0, 0, 83001 + static_cast<unsigned>(i)});
    for (std::int64_t r = 0; r < 4; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        p.x(r, c) = static_cast<T>(static_cast<double>(below(100'000)) / (r == 0 ? 3e5 : 1e4) - 5);
      }
      if (r == 1) {  // logarithms of probabilities, of which one is large
        p.x(r, 0) = static_cast<T>(-static_cast<double>(below(1000)) / 2000);
      }
    }
    p.commit();
    const column<std::int64_t> lengths({below(cols + 1), cols, below(cols + 1), 0});
    row_edits edits;
    if (i % 2 == 0) {
      edits.lengths = lengths.ref();
    }
    row_sampling sampling{.top_k = i % 4 < 2 ? 0 : k, .seed = 7, .offset = random()};
    sampling.temperature = i % 5 == 0 ? 0 : 0.7;
    row_states plain(dtype_of<T>, 4, k, scale);
    row_states drawing(dtype_of<T>, 4, k, scale, sampling);
    for (row_states* states : {&plain, &drawing}) {
      states->fold(q, p.x.view(), 0, edits);
      CAPTURE(i);
      const std::string answer = refusal<row_states>(states->to_bytes());
      CHECK(answer == "accepted");
      CHECK((answer != "accepted" || equal(row_states::from_bytes(states->to_bytes()), *states)));
    }
  }
}

TEST_CASE("no rows have no tokens") {
  queue q;
  for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1} << 59}) {
    row_states none(dtype::f32, 0, k, 1, row_sampling{});
    none.combine(q, row_states(none));
    std::vector<std::int64_t> tokens;
    none.finish_sample(q, tokens);
    none.finish(q, vector_ref(nullptr, dtype::f32, 0), matrix_view<float>(nullptr, 0, k));
    CHECK(row_states::from_bytes(none.to_bytes()).rows() == 0);
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

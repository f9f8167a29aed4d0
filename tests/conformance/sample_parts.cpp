// SPDX-License-Identifier: Apache-2.0
// fold_sample, combine_sample, finish_sample: rows in parts of any columns, put together in any
// order give the bits of the whole row's state and the token of sample.
#include "edited_problem.hpp"
#include "sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

namespace softfold::test {
namespace {

/// States and lists on the device.
template <class Value, class Index>
struct parts {
  parts(std::int64_t rows_, std::int64_t k)
      : rows(rows_),
        states(static_cast<std::size_t>(rows_)),
        values({rows_, k, 3, 1}, role::output),
        indices({rows_, k, 2, 1}, role::output) {}

  [[nodiscard]] sample_states_ref ref() const { return {states.data(), rows}; }
  [[nodiscard]] matrix_ref list() const {
    return values.cols() == 0 ? matrix_ref{} : matrix_ref(values.view());
  }
  [[nodiscard]] matrix_ref columns() const {
    return indices.cols() == 0 ? matrix_ref{} : matrix_ref(indices.view());
  }
  [[nodiscard]] std::vector<sample_state> download() {
    std::vector<sample_state> host(static_cast<std::size_t>(rows));
    states.download(host);
    values.download();
    indices.download();
    CHECK(values.stray_writes().empty());
    CHECK(indices.stray_writes().empty());
    return host;
  }

  std::int64_t rows;
  device_buffer<sample_state> states;
  matrix<Value> values;
  matrix<Index> indices;
};

/// Equal bits, but for a NaN's.
bool same(const sample_state& a, const sample_state& b) {
  const auto number = [](double x, double y) { return x == y || (x != x && y != y); };
  return number(a.scale, b.scale) && number(a.largest, b.largest) && a.seed == b.seed &&
         a.offset == b.offset && a.draw == b.draw && number(a.top_p, b.top_p) &&
         number(a.min_p, b.min_p) && a.top_k == b.top_k && a.largest_column == b.largest_column &&
         a.key == b.key && a.value == b.value && a.column == b.column && a.count == b.count &&
         a.sum == b.sum && a.raw_sum == b.raw_sum;
}

fold_sample_options part_options(const setting& s) {
  fold_sample_options o;
  o.temperature = s.p.temperature;
  o.top_k = s.p.top_k;
  o.top_p = s.p.top_p;
  o.min_p = s.p.min_p;
  o.seed = s.p.seed;
  o.offset = s.p.offset;
  o.draw = static_cast<std::int64_t>(s.p.seed % 3);
  return o;
}

/// Those that a state keeps enough for.
std::vector<setting> part_settings(std::uint64_t seed) {
  return {
      {{1, 1, 0, 0, seed, 0}},       {{0.7, 1, 0, 0, seed, ~std::uint64_t{0}}},
      {{0, 1, 0, 0, seed, 2}},       {{1e300, 1, 0, 0, seed, 3}},
      {{1, 1, 0, 1, seed, 4}},       {{1.5, 0.9, 0.01, 40, seed, 5}},
      {{0.02, 0.5, 0, 7, ~seed, 6}}, {{0, 0.5, 0.5, 7, seed, 7}},
  };
}

/// The results of finish_sample.
template <class Out, class Index>
struct finished {
  explicit finished(std::int64_t rows)
      : tokens({rows, 1, 0, 1}, role::output),
        log({rows, 1, 0, 1}, role::output),
        raw({rows, 1, 0, 1}, role::output),
        lse({rows, 1, 0, 1}, role::output),
        kept_mass({rows, 1, 0, 1}, role::output),
        kept({rows, 1, 0, 1}, role::output) {}

  [[nodiscard]] finish_sample_options wanted() const {
    return {log.vector(), raw.vector(), lse.vector(), kept.vector(), kept_mass.vector()};
  }
  template <class Body>
  void each(const Body& body) {
    body(tokens);
    body(log);
    body(raw);
    body(lse);
    body(kept_mass);
    body(kept);
  }
  void download() {
    each([](auto& m) {
      m.download();
      CHECK(m.stray_writes().empty());
    });
  }

  matrix<Index> tokens;
  matrix<Out> log, raw, lse, kept_mass;
  matrix<Index> kept;
};

template <class In>
const_matrix_ref columns_of(const matrix<In>& x, std::int64_t begin, std::int64_t end) {
  const auto whole = x.view();
  return matrix_view<const In>(whole.data + begin, whole.rows, end - begin, whole.stride);
}

/// One row set in parts and whole; `of(r)` are the parameters of row r.
template <class Value, class Index, class In>
void check_parts(queue& q, problem<In>& p, fold_sample_options o, std::int64_t k,
                 std::int64_t count, std::uint64_t seed,
                 const std::function<parameters(std::int64_t)>& of) {
  using A = reference::arithmetic_t<In>;
  const std::int64_t rows = p.x.rows();
  const std::int64_t cols = p.x.cols();
  parts<Value, Index> whole(rows, k);
  fold_sample(q, p.x.view(), whole.ref(), whole.list(), whole.columns(), o);

  std::mt19937_64 random(seed);
  std::vector<std::int64_t> borders = {0, cols};
  while (static_cast<std::int64_t>(borders.size()) < count + 1) {
    borders.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(cols + 1)));
  }
  std::sort(borders.begin(), borders.end());
  std::vector<std::unique_ptr<parts<Value, Index>>> left;
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    left.push_back(std::make_unique<parts<Value, Index>>(rows, k));
    o.column_offset = borders[i];
    fold_sample(q, columns_of(p.x, borders[i], borders[i + 1]), left.back()->ref(),
                left.back()->list(), left.back()->columns(), o);
  }
  while (left.size() > 1) {  // any two, until one is left
    std::swap(left[random() % left.size()], left.back());
    const auto more = std::move(left.back());
    left.pop_back();
    const parts<Value, Index>& to = *left[random() % left.size()];
    if (k == 0) {
      combine_sample(q, more->ref(), to.ref());
    } else {
      combine_sample(q, more->ref(), more->list(), more->columns(), to.ref(), to.list(),
                     to.columns());
    }
    q.wait();
  }
  finished<A, Index> found(rows);
  parts<Value, Index>& result = *left[0];
  finish_sample(q, result.ref(), result.list(), result.columns(), found.tokens.vector(),
                found.wanted());
  q.wait();
  found.download();
  check_guards(p);
  const auto expected_states = whole.download();
  const auto states = result.download();
  for (std::int64_t r = 0; r < rows; ++r) {
    const parameters own = of(r);
    CAPTURE(r);
    CAPTURE(count);
    INFO(describe(own));
    INFO(describe(p.spec));
    CHECK(same(states[static_cast<std::size_t>(r)], expected_states[static_cast<std::size_t>(r)]));
    for (std::int64_t i = 0; i < k; ++i) {
      CHECK(result.indices(r, i) == whole.indices(r, i));
      const auto a = reference::widen(result.values(r, i));
      const auto b = reference::widen(whole.values(r, i));
      CHECK((a == b || (std::isnan(a) && std::isnan(b))));
    }
    const auto expected =
        reference::sample(std::span<const In>(p.x.row(r)), own, filter_order::top_k_first,
                          static_cast<std::uint32_t>(o.draw));
    CHECK((expected.token < 0 || expected.margin == 0 || expected.margin > 16));
    CHECK(static_cast<std::int64_t>(found.tokens(r, 0)) == expected.token);
    CHECK(static_cast<std::int64_t>(found.kept(r, 0)) == expected.kept);
    CHECK(close(found.log(r, 0), expected.log_probability));
    CHECK(close(found.raw(r, 0), expected.raw_log_probability));
    CHECK(close(found.lse(r, 0), expected.lse));
    CHECK(close(found.kept_mass(r, 0), expected.kept_mass));
  }
  // To the bit what sample gives.
  const std::int64_t draws = o.draw + 1;
  matrix<Index> tokens({rows, draws, 0, 0}, role::output);
  matrix<A> log({rows, draws, 0, 0}, role::output);
  sample_options whole_row;
  whole_row.temperature = o.temperature;
  whole_row.temperatures = o.temperatures;
  whole_row.top_k = o.top_k;
  whole_row.top_ks = o.top_ks;
  whole_row.top_p = o.top_p;
  whole_row.top_ps = o.top_ps;
  whole_row.min_p = o.min_p;
  whole_row.min_ps = o.min_ps;
  whole_row.seed = o.seed;
  whole_row.seeds = o.seeds;
  whole_row.offset = o.offset;
  whole_row.offsets = o.offsets;
  whole_row.log_probability = log.view();
  sample(q, p.x.view(), tokens.view(), whole_row);
  q.wait();
  tokens.download();
  log.download();
  for (std::int64_t r = 0; r < rows; ++r) {
    CAPTURE(r);
    INFO(describe(of(r)));
    CHECK(found.tokens(r, 0) == tokens(r, o.draw));
    if (of(r).top_k > 0) {
      const A own = found.log(r, 0);
      const A whole_log = log(r, o.draw);
      CHECK((own == whole_log || (std::isnan(own) && std::isnan(whole_log))));
    }
  }
}

template <class In>
void check_setting(queue& q, problem<In>& p, const setting& s, std::int64_t count,
                   std::uint64_t seed) {
  check_parts<In, std::int32_t>(q, p, part_options(s), s.p.top_k, count, seed,
                                [&](std::int64_t) { return s.p; });
}

}  // namespace

TEST_SUITE_BEGIN("sample_parts");

TEST_CASE_TEMPLATE("rows in parts of any columns, combined in any order", In,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 81000;
  for (const std::int64_t cols : {1, 9, 100, 1027, 9001}) {
    for (const setting& s : part_settings(++seed)) {
      problem<In> p({2, cols, distribution::normal, 1, 3, 1, ++seed});
      check_setting(q, p, s, cols < 2000 ? 7 : 4, seed);
    }
  }
}

TEST_CASE_TEMPLATE("every distribution in parts", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 82000;
  for (const distribution kind : all_distributions) {
    for (const setting& s : part_settings(++seed)) {
      problem<In> p({1, 523, kind, 1, 0, 0, ++seed});
      check_setting(q, p, s, 5, seed);
    }
  }
}

TEST_CASE_TEMPLATE("lists of the arithmetic's type, longer than top_k and than the row", In,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  using A = reference::arithmetic_t<In>;
  queue q;
  for (const setting& s : part_settings(83000)) {
    problem<In> p({3, 50, distribution::normal, 1, 1, 0, 83001});
    check_parts<A, std::int64_t>(q, p, part_options(s), 64, 3, 83002,
                                 [&](std::int64_t) { return s.p; });
  }
}

TEST_CASE_TEMPLATE("parts of rows that are not ordinary", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t cols : {9, 1000}) {
    problem<In> p({7, cols, distribution::normal, 1, 1, 1, 84000});
    make_rows_unusual(p);
    p.commit();
    for (const setting& s : part_settings(85000)) {
      check_setting(q, p, s, 6, 85001);
    }
  }
  problem<In> none({3, 0, distribution::normal, 1, 0, 0, 1});
  check_setting(q, none, part_settings(85002)[0], 3, 1);
  problem<In> no_rows({0, 10, distribution::normal, 1, 0, 0, 1});
  check_setting(q, no_rows, part_settings(85002)[5], 3, 1);
}

TEST_CASE_TEMPLATE("parameters of each row, in parts", In, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  constexpr std::int64_t rows = 10;
  problem<In> p({rows, 777, distribution::normal, 1, 3, 1, 86000});
  std::vector<parameters> all;
  for (std::int64_t r = 0; r < rows; ++r) {
    const bool has_list = r % 2 == 0;
    all.push_back({static_cast<double>(r % 4) * 0.5, has_list && r % 4 != 0 ? 0.75 : 1.0,
                   has_list && r % 3 == 0 ? 0.25 : 0.0, has_list ? 3 * r + 1 : 0,
                   static_cast<std::uint64_t>(-r),
                   static_cast<std::uint64_t>((std::int64_t{1} << 40) + r)});
  }
  const parameters bad = {-1, 1, 0, 0, 0, 0};  // what such rows come out as
  // Out of range, and what no state keeps.
  all[1].temperature = -1;
  all[3].top_p = 0.5;
  all[5].min_p = 0.5;
  all[8].top_k = 41;
  const auto make = [&](auto member) {
    std::vector<double> values;
    for (const parameters& one : all) {
      values.push_back(static_cast<double>(one.*member));
    }
    return values;
  };
  std::vector<std::int64_t> ks, seeds, offsets;
  for (const parameters& one : all) {
    ks.push_back(one.top_k);
    seeds.push_back(static_cast<std::int64_t>(one.seed));
    offsets.push_back(static_cast<std::int64_t>(one.offset));
  }
  const column<double> t(make(&parameters::temperature)), tp(make(&parameters::top_p)),
      mp(make(&parameters::min_p));
  const column<std::int64_t> tk(ks), s(seeds), o(offsets);
  fold_sample_options options;
  options.temperatures = t.ref();
  options.top_ps = tp.ref();
  options.min_ps = mp.ref();
  options.top_ks = tk.ref();
  options.seeds = s.ref();
  options.offsets = o.ref();
  options.temperature = -5;  // a vector wins over the number beside it
  options.top_k = -5;
  parts<In, std::int32_t> whole(rows, 40);
  const auto check = [&] {
    for (const std::int64_t border : {0, 400}) {
      parts<In, std::int32_t> more(rows, 40);
      options.column_offset = 0;
      fold_sample(q, columns_of(p.x, 0, border), more.ref(), more.list(), more.columns(), options);
      options.column_offset = border;
      fold_sample(q, columns_of(p.x, border, 777), whole.ref(), whole.list(), whole.columns(),
                  options);
      combine_sample(q, more.ref(), more.list(), more.columns(), whole.ref(), whole.list(),
                     whole.columns());
      finished<reference::arithmetic_t<In>, std::int32_t> found(rows);
      finish_sample(q, whole.ref(), whole.list(), whole.columns(), found.tokens.vector(),
                    found.wanted());
      q.wait();
      found.download();
      for (std::int64_t r = 0; r < rows; ++r) {
        const bool is_bad = r == 1 || r == 3 || r == 5 || r == 8;
        const auto expected = reference::sample(std::span<const In>(p.x.row(r)),
                                                is_bad ? bad : all[static_cast<std::size_t>(r)]);
        CAPTURE(r);
        CHECK(found.tokens(r, 0) == expected.token);
        CHECK(close(found.log(r, 0), expected.log_probability));
        CHECK(close(found.raw(r, 0), expected.raw_log_probability));
        CHECK(close(found.lse(r, 0), expected.lse));
        CHECK(found.kept(r, 0) == expected.kept);
        CHECK(close(found.kept_mass(r, 0), expected.kept_mass));
      }
    }
  };
  check();
}

TEST_CASE("parts of other seeds, offsets or parameters make no row") {
  queue q;
  problem<float> p({1, 100, distribution::normal, 1, 0, 0, 87000});
  const fold_sample_options one = {
      .temperature = 0.5, .top_k = 3, .top_p = 0.5, .min_p = 0.25, .seed = 1, .offset = 2};
  std::vector<fold_sample_options> others(7, one);
  others[0].temperature = 0.75;
  others[1].top_k = 2;
  others[2].top_p = 0.75;
  others[3].min_p = 0.5;
  others[4].seed = 2;
  others[5].offset = 1;
  others[6].draw = 1;
  others.push_back(one);
  for (std::size_t i = 0; i < others.size(); ++i) {
    parts<float, std::int32_t> a(1, 3), b(1, 3);
    fold_sample(q, columns_of(p.x, 0, 50), a.ref(), a.list(), a.columns(), one);
    others[i].column_offset = 50;
    fold_sample(q, columns_of(p.x, 50, 100), b.ref(), b.list(), b.columns(), others[i]);
    combine_sample(q, b.ref(), b.list(), b.columns(), a.ref(), a.list(), a.columns());
    finished<float, std::int32_t> found(1);
    finish_sample(q, a.ref(), a.list(), a.columns(), found.tokens.vector(), found.wanted());
    q.wait();
    found.download();
    CAPTURE(i);
    const bool alike = i + 1 == others.size();
    CHECK((found.tokens(0, 0) >= 0) == alike);
    CHECK(std::isnan(found.log(0, 0)) == !alike);
  }
}

TEST_CASE("a state without its list makes no token") {
  queue q;
  problem<float> p({1, 100, distribution::normal, 1, 0, 0, 87500});
  parts<float, std::int32_t> a(1, 3);
  fold_sample(q, p.x.view(), a.ref(), a.list(), a.columns(), {.top_k = 3});
  finished<float, std::int32_t> found(1);
  finish_sample(q, a.ref(), found.tokens.vector(), found.wanted());
  q.wait();
  found.download();
  CHECK(found.tokens(0, 0) == -1);
  CHECK(std::isnan(found.log(0, 0)));
}

TEST_CASE("what is no state makes no token") {
  queue q;
  problem<float> p({1, 100, distribution::normal, 1, 0, 0, 87501});
  parts<float, std::int32_t> a(1, 0);
  fold_sample(q, p.x.view(), a.ref());
  q.wait();
  std::vector<sample_state> host = a.download();
  host[0].top_k = -1;
  a.states.upload(host);
  finished<float, std::int32_t> found(1);
  finish_sample(q, a.ref(), found.tokens.vector(), found.wanted());
  q.wait();
  found.download();
  CHECK(found.tokens(0, 0) == -1);
  CHECK(std::isnan(found.log(0, 0)));
}

// Where the row is long enough to be shared out.
TEST_CASE_TEMPLATE("long rows in parts, by one thread and by all", In, float, bfloat16) {
  const std::int64_t cols = rows_for_gpus(1) == 1 ? 20011 : 300007;
  problem<In> p({1, cols, distribution::normal, 1, 0, 0, 88000});
  queue one({.threads = 1});
  queue all;
  for (const std::size_t i : {0U, 5U}) {
    const setting s = part_settings(88001)[i];
    check_setting(one, p, s, 2, 88002);
    check_setting(all, p, s, 3, 88003);
  }
}

TEST_CASE_TEMPLATE("edits of a part", In, SOFTFOLD_TEST_INPUT_TYPES) {
  using A = reference::arithmetic_t<In>;
  queue q;
  for (const edit_spec& what : all_edits) {
    for (const std::int64_t top_k : {0, 5}) {
      edited_problem<In> p(what, {4, 300, distribution::normal, 1, 1, 1, 89000});
      parts<A, std::int64_t> found(4, top_k);
      fold_sample_options o;
      o.top_k = top_k;
      o.top_p = top_k > 0 ? 0.9 : 1;
      o.seed = 5;
      o.edits = p.edits();
      fold_sample(q, p.x.view(), found.ref(), found.list(), found.columns(), o);
      finished<A, std::int64_t> results(4);
      finish_sample(q, found.ref(), found.list(), found.columns(), results.tokens.vector(),
                    results.wanted());
      matrix<std::int64_t> tokens({4, 1, 0, 0}, role::output);
      sample_options whole;
      whole.top_k = o.top_k;
      whole.top_p = o.top_p;
      whole.seed = o.seed;
      whole.edits = p.edits();
      sample(q, p.x.view(), tokens.view(), whole);
      q.wait();
      results.download();
      tokens.download();
      for (std::int64_t r = 0; r < 4; ++r) {
        INFO(p.text());
        CAPTURE(r);
        CHECK(results.tokens(r, 0) == tokens(r, 0));
      }
    }
  }
}

TEST_CASE("wrong arguments of parts: an error that names them, and nothing is written") {
  queue q;
  constexpr std::int64_t rows = 3;
  problem<half> p({rows, 8, distribution::normal, 1, 2, 0, 90000});
  parts<half, std::int32_t> to(rows, 4), more(rows, 4);
  finished<float, std::int32_t> found(rows);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const column<float> three({1, 1, 1});
  const column<std::int64_t> four({1, 1, 1, 1});
  struct call {
    const_matrix_ref x;
    sample_states_ref states;
    matrix_ref values, indices;
    fold_sample_options o;
    const_sample_states_ref more;
    const_matrix_ref more_values, more_indices;
    vector_ref tokens;
    finish_sample_options wanted;
  };
  struct mistake {
    const char* text;
    errc code;
    std::function<void(call&)> make;
  };
  const errc invalid = errc::invalid_argument;
  const errc type = errc::unsupported_type;
  const mistake mistakes[] = {
      {"fold_sample: x_part.type is u8,", type, [](call& c) { c.x.type = dtype::u8; }},
      {"fold_sample: x_part.stride is 7,", invalid, [](call& c) { c.x.stride = 7; }},
      {"fold_sample: states.size is 2,", invalid, [](call& c) { c.states.size = 2; }},
      {"fold_sample: states.data is null,", invalid, [](call& c) { c.states.data = nullptr; }},
      {"fold_sample: column_offset is -1,", invalid, [](call& c) { c.o.column_offset = -1; }},
      {"fold_sample: column_offset + x_part.cols is 2147483648,", invalid,
       [](call& c) { c.o.column_offset = (std::int64_t{1} << 31) - 8; }},
      {"fold_sample: temperature is nan,", invalid, [=](call& c) { c.o.temperature = nan; }},
      {"fold_sample: top_p is 2,", invalid, [](call& c) { c.o.top_p = 2; }},
      {"fold_sample: top_p is 0.5,", invalid,
       [](call& c) {
         c.o.top_k = 0;
         c.o.top_p = 0.5;
       }},
      {"fold_sample: min_p is 0.25,", invalid,
       [](call& c) {
         c.o.top_k = 0;
         c.o.min_p = 0.25;
       }},
      {"fold_sample: draw is 2097152,", invalid, [](call& c) { c.o.draw = 1 << 21; }},
      {"fold_sample: min_p is -1,", invalid, [](call& c) { c.o.min_p = -1; }},
      {"fold_sample: top_k is -2,", invalid, [](call& c) { c.o.top_k = -2; }},
      {"fold_sample: indices.cols (k) is 4, expected at least top_k = 5", invalid,
       [](call& c) { c.o.top_k = 5; }},
      {"fold_sample: temperatures.type is i64,", type,
       [&](call& c) { c.o.temperatures = four.ref(); }},
      {"fold_sample: top_ks.type is f32,", type, [&](call& c) { c.o.top_ks = three.ref(); }},
      {"fold_sample: seeds.size is 4,", invalid, [&](call& c) { c.o.seeds = four.ref(); }},
      {"fold_sample: values.type is f64,", type, [](call& c) { c.values.type = dtype::f64; }},
      {"fold_sample: values.type is f16,", type, [](call& c) { c.o.edits.softcap = 5; }},
      {"fold_sample: values.cols is 3,", invalid, [](call& c) { c.values.cols = 3; }},
      {"fold_sample: indices.type is f32,", type, [](call& c) { c.indices.type = dtype::f32; }},
      {"fold_sample: indices overlaps states,", invalid,
       [](call& c) { c.indices.data = c.states.data; }},
      {"fold_sample: states overlaps seeds,", invalid,
       [](call& c) {
         c.o.seeds = {c.states.data, dtype::i64, rows};
       }},
      {"combine_sample: states.size is 2,", invalid, [](call& c) { c.states.size = 2; }},
      {"combine_sample: more.data is null,", invalid, [](call& c) { c.more.data = nullptr; }},
      {"combine_sample: values.cols is 3,", invalid, [](call& c) { c.values.cols = 3; }},
      {"combine_sample: values.type is bf16,", type, [](call& c) { c.values.type = dtype::bf16; }},
      {"combine_sample: more_values.rows is 2,", invalid,
       [](call& c) {
         for (const_matrix_ref* m : {&c.more_values, &c.more_indices}) {
           m->rows = 2;
         }
         c.values.rows = 2;
         c.indices.rows = 2;
       }},
      {"combine_sample: states overlaps more,", invalid,
       [](call& c) { c.more.data = c.states.data; }},
      {"finish_sample: states.data is null,", invalid, [](call& c) { c.states.data = nullptr; }},
      {"finish_sample: values.rows is 2,", invalid, [](call& c) { c.values.rows = 2; }},
      {"finish_sample: tokens.size is 1,", invalid, [](call& c) { c.tokens.size = 1; }},
      {"finish_sample: tokens.type is f32,", type, [](call& c) { c.tokens.type = dtype::f32; }},
      {"finish_sample: lse.type is f16,", type, [](call& c) { c.wanted.lse.type = dtype::f16; }},
      {"finish_sample: kept.type is f32,", type, [](call& c) { c.wanted.kept.type = dtype::f32; }},
      {"finish_sample: kept overlaps lse,", invalid,
       [](call& c) { c.wanted.kept.data = c.wanted.lse.data; }},
      {"finish_sample: tokens overlaps states,", invalid,
       [](call& c) { c.tokens.data = c.states.data; }},
  };
  const std::vector<sample_state> before = to.download();
  for (const mistake& m : mistakes) {
    call c = {p.x.view(), to.ref(),    to.list(),      to.columns(),          {.top_k = 4},
              more.ref(), more.list(), more.columns(), found.tokens.vector(), found.wanted()};
    m.make(c);
    INFO(std::string(m.text));
    try {
      const std::string_view text = m.text;
      if (text.starts_with("fold")) {
        fold_sample(q, c.x, c.states, c.values, c.indices, c.o);
      } else if (text.starts_with("combine")) {
        combine_sample(q, c.more, c.more_values, c.more_indices, c.states, c.values, c.indices);
      } else {
        finish_sample(q, c.states, c.values, c.indices, c.tokens, c.wanted);
      }
      FAIL_CHECK("no error");
    } catch (const error& e) {
      INFO(std::string(e.what()));
      CHECK(std::string_view(e.what()).starts_with(m.text));
      CHECK(e.code() == m.code);
    }
    q.wait();
    CHECK(std::memcmp(static_cast<const void*>(to.download().data()), before.data(),
                      before.size() * sizeof(sample_state)) == 0);
    CHECK(to.values.untouched().empty());
    CHECK(to.indices.untouched().empty());
    found.each([](auto& one) {
      one.download();
      CHECK(one.untouched().empty());
    });
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

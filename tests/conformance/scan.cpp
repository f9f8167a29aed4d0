// SPDX-License-Identifier: Apache-2.0
// scan: the logsumexp of every prefix of a row.
#include "problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace softfold::test {
namespace {

struct scan_spec {
  bool exclusive = false;
  bool reverse = false;
  bool carry = false;
};

constexpr scan_spec all_scans[] = {{},
                                   {.exclusive = true},
                                   {.reverse = true},
                                   {.exclusive = true, .reverse = true},
                                   {.carry = true},
                                   {.exclusive = true, .reverse = true, .carry = true}};

std::string describe(const scan_spec& s) {
  return std::string(s.exclusive ? "exclusive" : "inclusive") + (s.reverse ? ", reverse" : "") +
         (s.carry ? ", with a carry" : "");
}

/// Whether y is within the bound of logsumexp, 2 u more for a carry.
template <class In, class Out>
bool is_right(Out y, reference::wide_t<In> exact, std::int64_t cols, bool carry) {
  using wide = reference::wide_t<In>;
  using A = reference::arithmetic_t<In>;
  const wide u = std::numeric_limits<A>::epsilon() / 2;
  const wide value = reference::widen(y);
  if (std::isnan(exact)) {
    const Out canonical = Out(std::numeric_limits<reference::arithmetic_t<Out>>::quiet_NaN());
    return std::memcmp(&y, &canonical, sizeof(Out)) == 0;
  }
  if (std::isinf(exact)) {
    return value == exact;
  }
  const wide bound =
      (std::abs(exact) + 16 + (carry ? 2 : 0) + std::log2(static_cast<wide>(cols))) * u;
  if constexpr (is_16_bit<Out>) {
    return ulps_between(y, correctly_rounded<Out>(exact)) <= 1 ||
           (value >= reference::widen(correctly_rounded<Out>(exact - bound)) &&
            value <= reference::widen(correctly_rounded<Out>(exact + bound)));
  } else {
    record_margin("scan", dtype_of<A>, static_cast<double>(std::abs(value - exact) / bound));
    return std::abs(value - exact) <= bound || std::isinf(static_cast<A>(exact));
  }
}

template <class Out, class In>
void check_scan(queue& q, const problem<In>& p, const scan_spec& how) {
  using A = reference::arithmetic_t<In>;
  using wide = reference::wide_t<In>;
  const std::int64_t rows = p.x.rows();
  const std::int64_t cols = p.x.cols();
  std::vector<max_sum<A>> before;
  for (std::int64_t r = 0; r < rows; ++r) {
    before.push_back(r % 4 == 3 ? max_sum<A>{}
                                : max_sum<A>{static_cast<A>(2 - r), static_cast<A>(1 + r % 3)});
  }
  states<A> carry_in{std::span<const max_sum<A>>(before)};
  states<A> carry_out(rows);
  matrix<Out> y(p.output_layout(cols), role::output);
  scan_options options{.scale = p.spec.scale, .exclusive = how.exclusive, .reverse = how.reverse};
  options.carry_out = carry_out.ref();
  if (how.carry) {
    options.carry_in = carry_in.ref();
  }
  scan(q, p.x.view(), y.view(), options);
  matrix<A> whole({rows, 1, 0, 0}, role::output);
  logsumexp(q, const_partials_ref(carry_out.ref()), whole.vector());
  q.wait();
  y.download();
  whole.download();
  expect(y.stray_writes(), -1, p.spec);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<wide> elements(p.rows[static_cast<std::size_t>(r)].elements().begin(),
                               p.rows[static_cast<std::size_t>(r)].elements().end());
    if (how.reverse) {
      std::reverse(elements.begin(), elements.end());
    }
    const auto& given = before[static_cast<std::size_t>(r)];
    const std::vector<wide> exact = reference::scan(
        std::span<const wide>(elements), p.spec.scale,
        how.carry ? max_sum<wide>{static_cast<wide>(given.max), static_cast<wide>(given.sum)}
                  : max_sum<wide>{});
    std::string verdict;
    for (std::int64_t i = 0; i < cols && verdict.empty(); ++i) {
      const std::int64_t c = how.reverse ? cols - 1 - i : i;
      const wide expected = exact[static_cast<std::size_t>(how.exclusive ? i : i + 1)];
      if (!is_right<In>(y(r, c), expected, cols, how.carry)) {
        std::ostringstream text;
        text.precision(17);
        text << describe(how) << ", column " << c << ": " << reference::widen(y(r, c)) << ", exact "
             << expected;
        verdict = text.str();
      }
    }
    expect(verdict, r, p.spec);
    if (!is_right<In>(whole(r, 0), exact.back(), std::max<std::int64_t>(cols, 1), true)) {
      expect(describe(how) + ", carry_out", r, p.spec);
    }
  }
}

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST_SUITE("scan") {
  TEST_CASE_TEMPLATE("scans of many shapes", Types, SOFTFOLD_TEST_IO_TYPES) {
    using In = typename Types::input;
    queue q;
    for (const std::int64_t cols : {1, 2, 15, 16, 17, 100, 1000, 8192, 8193, 20000}) {
      const problem<In> p({.rows = cols > 1000 ? 2 : 5,
                           .cols = cols,
                           .padding = 3,
                           .offset = 1,
                           .seed = static_cast<std::uint64_t>(cols)});
      for (const scan_spec& how : all_scans) {
        check_scan<typename Types::output>(q, p, how);
      }
    }
  }

  TEST_CASE_TEMPLATE("scans of every distribution and scale", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const distribution kind : all_distributions) {
      for (const double scale : {1.0, 0.37, -1.0, 0.0, 1e-8}) {
        const problem<In> p({.rows = 3, .cols = 700, .kind = kind, .scale = scale, .seed = 17});
        check_scan<In>(q, p, {});
        check_scan<In>(q, p, {.exclusive = true, .reverse = true, .carry = true});
      }
    }
  }

  TEST_CASE_TEMPLATE("steep rows", In, SOFTFOLD_TEST_INPUT_TYPES) {
    // Sums of the first columns are nothing beside those of the last, and have to be right all the
    // same.
    queue q;
    problem<In> p({.rows = 5, .cols = 300});
    for (std::int64_t c = 0; c < 300; ++c) {
      p.x(4, c) = make<In>(static_cast<double>(c) / 8 - 5);
      p.x(0, c) = make<In>(static_cast<double>(c) * 10);
      p.x(1, c) = make<In>(static_cast<double>(-c) * 10);
      p.x(2, c) = make<In>(c < 150 ? -300 : static_cast<double>(c));
      p.x(3, c) =
          make<In>(c < 150 ? -std::numeric_limits<double>::infinity() : static_cast<double>(c));
    }
    p.commit();
    for (const scan_spec& how : all_scans) {
      check_scan<In>(q, p, how);
    }
  }

  TEST_CASE_TEMPLATE("rows that rise and fall as they go on", In, SOFTFOLD_TEST_INPUT_TYPES) {
    // A GPU goes through a row in steps, and its sums are relative to what it has seen so far.
    queue q;
    constexpr std::int64_t cols = 35000;
    const double infinity = std::numeric_limits<double>::infinity();
    problem<In> p({.rows = 11, .cols = cols, .seed = 30});
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto x = static_cast<double>(c);
      p.x(0, c) = make<In>(std::floor(x / 1500) * 7);
      p.x(1, c) = make<In>(std::floor(x / 1500) * -7);
      p.x(2, c) = make<In>(c % 2500 == 2400 ? x / 1000 : 0);
      p.x(3, c) = make<In>(c < 5000 ? -infinity : x / 500);
      p.x(4, c) = make<In>(100);  // a carry is far below
      p.x(5, c) = make<In>(-100);
      p.x(6, c) = make<In>(c < 1000 ? -100 : 100);
      p.x(7, c) = make<In>(x / 200);
      p.x(8, c) = make<In>(c % 17 == 0 ? -30 : std::sin(x) * 3);
      // What masks write, and elements of which so many are not nothing beside the first.
      p.x(9, c) = c % 40 == 1   ? std::numeric_limits<In>::lowest()
                  : c % 40 == 0 ? make<In>(-5)
                                : make<In>(x / 100);
      p.x(10, c) = make<In>(c == 0 ? 0 : c == 255 ? 69 : c < 255 ? -18.5 : 1);
    }
    p.commit();
    for (const scan_spec& how : all_scans) {
      check_scan<In>(q, p, how);
    }
  }

  TEST_CASE_TEMPLATE("NaN and infinity from their columns on", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    problem<In> p({.rows = 4, .cols = 9000});
    const double infinity = std::numeric_limits<double>::infinity();
    p.x(0, 100) = make<In>(std::numeric_limits<double>::quiet_NaN());
    p.x(1, 8500) = make<In>(infinity);
    p.x(2, 30) = make<In>(infinity);
    p.x(2, 8999) = make<In>(std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t c = 0; c < 9000; ++c) {
      p.x(3, c) = make<In>(-infinity);
    }
    p.commit();
    for (const scan_spec& how : all_scans) {
      check_scan<In>(q, p, how);
    }
  }

  TEST_CASE_TEMPLATE("an exclusive scan is the inclusive one, one column later", In,
                     SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    // So many columns that what is carried from one part to the next rounds otherwise somewhere.
    constexpr std::int64_t rows = 4;
    for (const std::int64_t cols : {40, 9000, 100000}) {
      for (const bool reverse : {false, true}) {
        const problem<In> p({.rows = rows, .cols = cols, .seed = 4});
        matrix<In> inclusive(p.output_layout(cols), role::output);
        matrix<In> exclusive(p.output_layout(cols), role::output);
        scan(q, p.x.view(), inclusive.view(), {.reverse = reverse});
        scan(q, p.x.view(), exclusive.view(), {.exclusive = true, .reverse = reverse});
        q.wait();
        inclusive.download();
        exclusive.download();
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::span<const In> a = std::as_const(inclusive).row(r);
          const std::span<const In> b = std::as_const(exclusive).row(r);
          const auto n = static_cast<std::size_t>(cols - 1);
          CHECK((reverse ? same_bits(a.last(n), b.first(n)) : same_bits(a.first(n), b.last(n))));
        }
      }
    }
  }

  TEST_CASE_TEMPLATE("sums before a peak", In, SOFTFOLD_TEST_INPUT_TYPES) {
    // Alike, so that the errors of their exponentials are, too.
    struct peak {
      std::int64_t cols;
      double low;
      double high;
      double scale;
    };
    constexpr peak peaks[] = {{278, -2.92120361, 2.64107394, 1.61327791},
                              {149, -3.47223878, 2.9820323, 1.39240098},
                              {262, -4.56276226, 1.21531987, 1.45592415},
                              {269, -5.20555162, 0.777253807, 1.4532876},
                              {6144, -11.7010431, 5.17630577, 0.75693959},
                              {65536, -6.95637846, 2.88667393, 1.47448301},
                              {6144, -8.1, 4.2, 1},
                              {600, -5.3, 3.6, 1},
                              {2, 0x1p-19, 60, 1},  // the maximum and the sum's logarithm cancel
                              {2, 0.0005, 60, 1},
                              {600, -60.001, 0.5, 1}};
    queue q;
    for (const peak& of : peaks) {
      problem<In> p({.rows = 1, .cols = of.cols, .scale = of.scale});
      for (std::int64_t c = 0; c < of.cols; ++c) {
        p.x(0, c) = make<In>(c + 1 < of.cols ? of.low : of.high);
      }
      p.commit();
      check_scan<In>(q, p, {});
    }
  }

  TEST_CASE_TEMPLATE("an element above those of the steps before it", In,
                     SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const std::int64_t before : {256, 512, 1024, 2048, 4096}) {
      for (const double scale : {0.99, 1.0, 1.2, 1.45592415}) {
        for (const double jump : {3.0, 7.3, 7.6203, 8.05, 9.6, 11.0, 25.3, 45.3}) {
          problem<In> p({.rows = 1, .cols = before + 1, .scale = scale});
          for (std::int64_t c = 0; c < before; ++c) {
            p.x(0, c) = make<In>(-6e4);
          }
          p.x(0, before / 3) = make<In>(0.00123456789 - jump / scale);
          p.x(0, before) = make<In>(0.00123456789);
          p.commit();
          check_scan<In>(q, p, {});
        }
      }
    }
  }

  TEST_CASE("carries and scales of any size") {
    queue q;
    for (const double scale : {3.0, 0x1.19999ap+0, 0x1p-126, 0x1.8p-110, 0x1p100}) {
      problem<float> p({.rows = 2, .cols = 40, .scale = scale});
      for (std::int64_t c = 0; c < 40; ++c) {
        p.x(0, c) = scale < 1 ? (c % 4 == 0 ? 3e38F : -3e38F) : static_cast<float>(c) * 1e9F;
        p.x(1, c) = scale < 1 ? 1e38F : -static_cast<float>(c) * 1e9F;
      }
      p.commit();
      check_scan<float>(q, p, {});
      for (const float max : {5e9F, 3e10F, -5e9F}) {
        const max_sum<float> of_row = {max, 1};
        const std::vector<max_sum<float>> before(2, of_row);
        states<float> carry_in{std::span<const max_sum<float>>(before)};
        states<float> carry_out(2);
        matrix<float> y({2, 40, 0, 0}, role::output);
        matrix<float> whole({2, 1, 0, 0}, role::output);
        scan(q, p.x.view(), y.view(),
             {.scale = scale, .carry_in = carry_in.ref(), .carry_out = carry_out.ref()});
        logsumexp(q, const_partials_ref(carry_out.ref()), whole.vector());
        q.wait();
        y.download();
        whole.download();
        for (std::int64_t r = 0; r < 2; ++r) {
          const std::vector<double> exact =
              reference::scan(p.rows[static_cast<std::size_t>(r)].elements(), scale,
                              max_sum<double>{static_cast<double>(max), 1});
          for (std::int64_t c = 0; c < 40; ++c) {
            INFO("scale " << scale << ", carry " << max << ", row " << r << ", column " << c << ": "
                          << y(r, c) << ", exact " << exact[static_cast<std::size_t>(c + 1)]);
            CHECK(is_right<float>(y(r, c), exact[static_cast<std::size_t>(c + 1)], 40, true));
          }
          INFO("scale " << scale << ", carry " << max << ", row " << r << ": " << whole(r, 0)
                        << ", exact " << exact.back());
          CHECK(is_right<float>(whole(r, 0), exact.back(), 40, true));
        }
      }
    }
  }

  TEST_CASE("a row's scan does not depend on the batch") {
    // So many rows that a GPU has a block for each, where the few have several.
    const std::int64_t rows = rows_for_gpus(300);
    constexpr std::int64_t cols = 40000;
    constexpr std::int64_t few = 3;
    queue q;
    const problem<float> p({.rows = rows, .cols = cols, .seed = 21});
    const const_matrix_ref x = p.x.view();
    matrix<float> together({rows, cols, 0, 0}, role::output);
    matrix<float> alone({few, cols, 0, 0}, role::output);
    states<float> carry(rows);
    states<float> carry_alone(few);
    scan(q, x, together.view(), {.carry_out = carry.ref()});
    scan(q, {x.data, x.type, few, cols, x.stride}, alone.view(), {.carry_out = carry_alone.ref()});
    q.wait();
    together.download();
    alone.download();
    for (std::int64_t r = 0; r < few; ++r) {
      const auto at = static_cast<std::size_t>(r);
      CHECK(same_bits(std::as_const(together).row(r), std::as_const(alone).row(r)));
      CHECK(carry.values()[at].max == carry_alone.values()[at].max);
      CHECK(carry.values()[at].sum == carry_alone.values()[at].sum);
    }
  }

  TEST_CASE_TEMPLATE("scans in place", In, SOFTFOLD_TEST_INPUT_TYPES) {
    queue q;
    for (const scan_spec& how : all_scans) {
      const problem<In> p({.rows = 3, .cols = 8500, .seed = 6});
      const scan_options options{.exclusive = how.exclusive, .reverse = how.reverse};
      matrix<In> apart(p.output_layout(8500), role::output);
      matrix<In> y(p.output_layout(8500), role::output);
      for (std::int64_t r = 0; r < 3; ++r) {
        std::copy_n(p.x.row(r).begin(), 8500, y.row(r).begin());
      }
      y.upload();
      scan(q, p.x.view(), apart.view(), options);
      scan(q, y.view(), y.view(), options);
      q.wait();
      apart.download();
      y.download();
      for (std::int64_t r = 0; r < 3; ++r) {
        CHECK(same_bits(std::as_const(apart).row(r), std::as_const(y).row(r)));
      }
    }
  }

  TEST_CASE("parts of a row chain by their carries") {
    queue q;
    const problem<float> p({.rows = 3, .cols = 3000, .seed = 12});
    matrix<float> y({3, 3000, 0, 0}, role::output);
    states<float> carry(3);
    const const_matrix_ref x = p.x.view();
    const matrix_ref to = y.view();
    std::int64_t first = 0;
    for (const std::int64_t count : {1000, 1, 0, 1999}) {
      scan_options options{.carry_out = carry.ref()};
      if (first > 0) {
        options.carry_in = carry.ref();
      }
      scan(q, {static_cast<const float*>(x.data) + first, x.type, 3, count, x.stride},
           {static_cast<float*>(to.data) + first, to.type, 3, count, to.stride}, options);
      first += count;
    }
    q.wait();
    y.download();
    for (std::int64_t r = 0; r < 3; ++r) {
      const std::vector<double> exact =
          reference::scan(p.rows[static_cast<std::size_t>(r)].elements(), 1);
      for (std::int64_t c = 0; c < 3000; ++c) {
        CHECK(is_right<float>(y(r, c), exact[static_cast<std::size_t>(c + 1)], 3000, true));
      }
    }
  }

  TEST_CASE("removed elements add nothing to a scan") {
    queue q;
    problem<float> p({.rows = 2, .cols = 200, .seed = 3});
    matrix<std::uint8_t> mask({2, 200, 0, 0}, role::input);
    problem<float> edited({.rows = 2, .cols = 200, .seed = 3});
    for (std::int64_t r = 0; r < 2; ++r) {
      for (std::int64_t c = 0; c < 200; ++c) {
        mask(r, c) = (c * 5 + r) % 3 == 0 ? 0 : 1;
        if (mask(r, c) == 0) {
          p.x(r, c) = std::numeric_limits<float>::quiet_NaN();
          edited.x(r, c) = -std::numeric_limits<float>::infinity();
        }
      }
    }
    mask.upload();
    p.commit();
    edited.commit();
    matrix<float> y({2, 200, 0, 0}, role::output);
    row_edits edits;
    edits.mask = mask.view();
    scan(q, p.x.view(), y.view(), {.edits = edits});
    q.wait();
    y.download();
    for (std::int64_t r = 0; r < 2; ++r) {
      const std::vector<double> exact =
          reference::scan(edited.rows[static_cast<std::size_t>(r)].elements(), 1);
      for (std::int64_t c = 0; c < 200; ++c) {
        CHECK(is_right<float>(y(r, c), exact[static_cast<std::size_t>(c + 1)], 200, false));
      }
    }
  }

  TEST_CASE("a scan's row does not know the others") {
    queue q;
    const problem<float> p({.rows = 60, .cols = 9001, .seed = 21});
    matrix<float> all({60, 9001, 0, 0}, role::output);
    matrix<float> alone({1, 9001, 0, 0}, role::output);
    scan(q, p.x.view(), all.view());
    q.wait();
    all.download();
    for (const std::int64_t r : {0, 31, 59}) {
      const const_matrix_ref x = p.x.view();
      scan(q, {static_cast<const float*>(x.data) + r * x.stride, x.type, 1, x.cols, x.stride},
           alone.view());
      q.wait();
      alone.download();
      CHECK(same_bits(std::as_const(alone).row(0), std::as_const(all).row(r)));
    }
  }

  TEST_CASE("wrong scans are refused") {
    queue q;
    const problem<float> p({.rows = 3, .cols = 8});
    matrix<float> y({3, 8, 0, 0}, role::output);
    matrix<float> small({3, 7, 0, 0}, role::output);
    states<float> carry(3);
    states<double> wide_carry(3);
    states<float> two(2);
    const auto fails = [&](const char* said, const auto& call) {
      CHECK_THROWS_WITH_AS(call(), doctest::Contains(said), error);
      y.download();
      CHECK(y.untouched() == "");
    };
    fails("scan: lse.cols is 7, expected 8", [&] { scan(q, p.x.view(), small.view()); });
    fails("scan: scale is nan", [&] {
      scan(q, p.x.view(), y.view(), {.scale = std::numeric_limits<double>::quiet_NaN()});
    });
    fails("scan: carry_in.type is f64, expected f32 states",
          [&] { scan(q, p.x.view(), y.view(), {.carry_in = wide_carry.ref()}); });
    fails("scan: carry_out.size is 2, expected 3",
          [&] { scan(q, p.x.view(), y.view(), {.carry_out = two.ref()}); });
    fails("scan: lse overlaps x", [&] {
      const matrix_ref to = y.view();
      scan(q, const_matrix_ref(static_cast<float*>(to.data) + 1, to.type, 3, 7, 8),
           {to.data, to.type, 3, 7, 8});
    });
    fails("scan: carry_out overlaps lse", [&] {
      scan(q, p.x.view(), y.view(), {.carry_out = {y.view().data, dtype::f32, 3}});
    });
  }
}

}  // namespace
}  // namespace softfold::test

// SPDX-License-Identifier: Apache-2.0
// docs/numerics.md: with numerics::reproducible results have the bits of core/reproducible.hpp, on
// every backend, whatever the call around a row. Everything here is compared by memcmp.
#include "edited_problem.hpp"

#include <core/reproducible.hpp>

#include <array>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::test;
namespace definition = softfold::core::reproducible;

namespace {

/// Elements whose bits were compared: what a test counts, so that none is passed by nothing.
std::int64_t compared = 0;

constexpr double all_scales[] = {1, 0.37, -2, 0, 1e-30, 1e30};

queue reproducible_queue(int threads = 0) {
  return queue(queue_options{.threads = threads, .numerics = numerics::reproducible});
}

template <class Out, class A>
Out rounded(A value) {
  return Out(value);
}

/// A row as the definition has it. Elements are those of the arithmetic after edits.
template <class A>
class defined_row {
 public:
  template <class In>
  defined_row(std::span<const In> x, double scale) {
    for (const In element : x) {
      x_.push_back(static_cast<A>(element));
    }
    total_ = definition::total_of(static_cast<A>(scale), static_cast<std::int64_t>(x_.size()),
                                  [&](std::int64_t c) { return x_[static_cast<std::size_t>(c)]; });
  }
  [[nodiscard]] A element(std::int64_t c) const { return x_[static_cast<std::size_t>(c)]; }
  [[nodiscard]] A lse() const { return total_.lse; }
  [[nodiscard]] A result(A x, bool log, empty_row policy) const {
    if (total_.kind == definition::row_kind::ordinary) {
      return log ? total_.log_softmax(x) : total_.softmax(x);
    }
    if (total_.kind == definition::row_kind::empty && policy == empty_row::zero) {
      return log ? -std::numeric_limits<A>::infinity() : A{0};
    }
    return std::numeric_limits<A>::quiet_NaN();
  }
  template <class Out>
  [[nodiscard]] std::vector<Out> results(bool log, empty_row policy) const {
    std::vector<Out> y;
    for (const A x : x_) {
      y.push_back(rounded<Out>(result(x, log, policy)));
    }
    return y;
  }

 private:
  std::vector<A> x_;
  definition::row_total<A> total_;
};

template <class Out>
std::string difference(std::span<const Out> found, const std::vector<Out>& expected) {
  compared += static_cast<std::int64_t>(expected.size());
  if (found.size() != expected.size()) {
    return "of another size";
  }
  if (found.empty() || std::memcmp(static_cast<const void*>(found.data()), expected.data(),
                                   found.size_bytes()) == 0) {
    return {};
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(static_cast<const void*>(&found[i]), &expected[i], sizeof(Out)) != 0) {
      std::ostringstream text;
      text.precision(17);
      text << "column " << i << " is " << reference::widen(found[i]) << ", defined as "
           << reference::widen(expected[i]);
      return text.str();
    }
  }
  return {};
}

/// By every queue: the definition, which takes longer than they do, is computed once.
template <class Io>
void check_rows(std::span<queue> queues, problem<typename Io::input>& p,
                empty_row policy = empty_row::nan) {
  using In = typename Io::input;
  using Out = typename Io::output;
  using A = reference::arithmetic_t<In>;
  std::vector<defined_row<A>> rows;
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    rows.emplace_back(std::span<const In>(std::as_const(p.x).row(r)), p.spec.scale);
  }
  for (const bool log : {false, true}) {
    INFO((log ? "log_softmax" : "softmax"));
    std::vector<std::vector<Out>> defined;
    for (const defined_row<A>& row : rows) {
      defined.push_back(row.template results<Out>(log, policy));
    }
    for (queue& q : queues) {
      matrix<Out> y(p.output_layout(p.x.cols()), role::output);
      const softmax_options options{.scale = p.spec.scale, .empty_row = policy};
      (log ? log_softmax : softmax)(q, p.x.view(), y.view(), options);
      q.wait();
      y.download();
      check_guards(p, y);
      for (std::int64_t r = 0; r < y.rows(); ++r) {
        expect(difference(std::span<const Out>(std::as_const(y).row(r)),
                          defined[static_cast<std::size_t>(r)]),
               r, p.spec);
      }
    }
  }
  INFO("logsumexp");
  for (queue& q : queues) {
    matrix<Out> lse({p.x.rows(), 1, 0, p.spec.offset}, role::output);
    logsumexp(q, p.x.view(), lse.vector(), {.scale = p.spec.scale});
    q.wait();
    lse.download();
    check_guards(p, lse);
    for (std::int64_t r = 0; r < lse.rows(); ++r) {
      expect(difference(std::span<const Out>(std::as_const(lse).row(r)),
                        {rounded<Out>(rows[static_cast<std::size_t>(r)].lse())}),
             r, p.spec);
    }
  }
}
template <class Io>
void check_rows(queue& q, problem<typename Io::input>& p, empty_row policy = empty_row::nan) {
  check_rows<Io>(std::span(&q, 1), p, policy);
}

/// Rows of the definition's own corners: what the distributions of data.hpp do not have.
constexpr int corner_rows = 16;
template <class In>
void fill_corner(int which, std::span<In> row) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto n = static_cast<int>(row.size());
  for (int i = 0; i < n; ++i) {
    const int packet = i / definition::packet_columns;
    const bool last = i + 1 == n;
    double x = 0;
    switch (which) {
      case 0:  // many tiny, one large last
        x = last ? 60 : -30 - i % 3;
        break;
      case 1:  // alternating magnitudes
        x = i % 2 == 0 ? 20 - i % 5 : -60 + i % 7;
        break;
      case 2:  // each packet a power of two further
        x = -0.6931471805599453 * packet;
        break;
      case 3:  // far from zero
        x = 1e5 + i % 11;
        break;
      case 4:
        x = -1e5 - i % 11;
        break;
      case 5:
        x = i % 3 == 0 ? 1e30 : -1e30;
        break;
      case 6:  // beside the border of what is far
        x = 65535 + (i % 4) * 0.5;
        break;
      case 7:
        x = -65537 + (i % 4) * 0.5;
        break;
      case 8:
        x = i % 5 == 4 ? -inf : 0.1 * (i % 9);
        break;
      case 9:
        x = -inf;
        break;
      case 10:
        x = i == n / 2 ? inf : 1;
        break;
      case 11:
        x = i == n / 2 ? std::numeric_limits<double>::quiet_NaN() : i % 2 == 0 ? inf : 1;
        break;
      case 12:  // from far below zero to near it, by packets
        x = -100000 + 1e5 * i / n;
        break;
      case 13:  // just below where the anchor rises: no word of so many packets may overflow
        x = 19.68;
        break;
      case 14:  // sums at the top of a place
        x = 0.6931471805599453 * (28 + i % 4);
        break;
      default:  // probabilities of f64 down to the least, of terms that are too low to be held
        x = last ? 0 : -690 - 0.5 * (i % 120);
        break;
    }
    row[static_cast<std::size_t>(i)] =
        which == 5 || which == 10 || which == 11 || which == 8 || which == 9 ? make<In>(x)
                                                                             : make_finite<In>(x);
  }
}

template <class In>
problem<In> corners(std::int64_t cols, double scale) {
  const bool in_vectors = cols % 8 == 0;
  problem<In> p({.rows = corner_rows,
                 .cols = cols,
                 .scale = scale,
                 .padding = in_vectors ? 0 : 3,
                 .offset = in_vectors ? 0 : 1});
  for (int r = 0; r < corner_rows; ++r) {
    fill_corner(r, p.x.row(r));
  }
  p.x.upload();
  return p;
}

}  // namespace

TEST_SUITE_BEGIN("reproducible");

TEST_CASE_TEMPLATE("rows of every length have the definition's bits", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  compared = 0;
  queue q = reproducible_queue();
  for (const std::int64_t cols :
       {1,    2,    3,    5,    7,    8,    9,    15,   16,   17,   31,    32,    33,   48,   63,
        64,   65,   100,  127,  128,  129,  191,  255,  256,  257,  511,   513,   777,  1000, 1024,
        1025, 2047, 2048, 2049, 4095, 4099, 8191, 8192, 8193, 8200, 16384, 16385, 20001}) {
    problem<In> p({.rows = cols < 2000 ? 5 : 2,
                   .cols = cols,
                   .kind = distribution::normal,
                   .padding = cols % 3,
                   .offset = cols % 5,
                   .seed = static_cast<std::uint64_t>(cols)});
    check_rows<Io>(q, p);
    if (cols % 8 == 0) {
      problem<In> in_vectors({.rows = cols < 2000 ? 37 : 3,
                              .cols = cols,
                              .kind = distribution::normal,
                              .seed = static_cast<std::uint64_t>(cols) + 1});
      check_rows<Io>(q, in_vectors);
    }
  }
  CHECK(compared > 100000);
}

TEST_CASE_TEMPLATE("rows of every distribution and scale have the definition's bits", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  compared = 0;
  queue q = reproducible_queue();
  for (const distribution kind : all_distributions) {
    for (const double scale : all_scales) {
      for (const std::int64_t cols : {1, 11, 200, 1021}) {
        problem<In> p({.rows = 2, .cols = cols, .kind = kind, .scale = scale, .seed = 3});
        check_rows<Io>(q, p, empty_row::zero);
      }
    }
    problem<In> p({.rows = 1, .cols = 25013, .kind = kind, .scale = 1, .seed = 5});
    check_rows<Io>(q, p);
    problem<In> scaled({.rows = 1, .cols = 9001, .kind = kind, .scale = 0.37, .seed = 5});
    check_rows<Io>(q, scaled);
  }
  CHECK(compared > 500000);
}

TEST_CASE_TEMPLATE("corner rows have the definition's bits", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  compared = 0;
  queue q = reproducible_queue();
  for (const double scale : all_scales) {
    for (const std::int64_t cols : {1, 8, 9, 100, 1000, 1024, 4096, 8190, 10007}) {
      problem<In> p = corners<In>(cols, scale);
      check_rows<Io>(q, p, empty_row::nan);
    }
    problem<In> p = corners<In>(130, scale);
    check_rows<Io>(q, p, empty_row::zero);
  }
  CHECK(compared > 500000);
}

// 1 over the sum, less what f32 holds of it, is as low as that in one row of some thirty.
TEST_CASE_TEMPLATE("rows whose numbers are subnormal at the largest element's power", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  compared = 0;
  queue q = reproducible_queue();
  problem<In> p({.rows = 3000, .cols = 40, .kind = distribution::normal, .seed = 31});
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    for (In& x : p.x.row(r)) {
      x = make<In>(19.4 + 0.05 * static_cast<double>(reference::widen(x)));
    }
  }
  p.x.upload();
  check_rows<Io>(q, p);
  CHECK(compared > 200000);
}

TEST_CASE_TEMPLATE("the call around a row does not change its bits", In,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  compared = 0;
  using Io = io<In, In>;
  std::vector<queue> queues;
  for (const int threads : {1, 2, 5}) {
    queues.push_back(reproducible_queue(threads));
  }
  for (const std::int64_t rows : {1, 3, 70}) {
    for (const std::int64_t offset : {0, 1, 2, 7}) {
      for (const std::int64_t cols : {900, 1100}) {
        problem<In> p({.rows = rows, .cols = cols, .padding = offset, .offset = offset});
        check_rows<Io>(queues, p);
      }
    }
  }
  problem<In> p({.rows = 2, .cols = 100003, .offset = 3});
  check_rows<Io>(queues, p);
  problem<In> scaled({.rows = 1, .cols = 70000, .scale = 0.37});
  check_rows<Io>(queues, scaled);
  queue q = reproducible_queue();
  problem<In> many({.rows = 3000, .cols = 40});
  check_rows<Io>(q, many);
  CHECK(compared > 1000000);
}

TEST_CASE_TEMPLATE("in place, results have the definition's bits", In, SOFTFOLD_TEST_INPUT_TYPES) {
  compared = 0;
  queue q = reproducible_queue();
  for (const std::int64_t cols : {10, 3000, 20000}) {
    for (const bool log : {false, true}) {
      problem<In> p({.rows = 9, .cols = cols});
      matrix<In> y(p.output_layout(cols), role::output);
      for (std::int64_t r = 0; r < y.rows(); ++r) {
        std::copy_n(p.x.row(r).begin(), cols, y.row(r).begin());
      }
      y.upload();
      (log ? log_softmax : softmax)(q, y.view(), y.view(), {});
      q.wait();
      y.download();
      for (std::int64_t r = 0; r < y.rows(); ++r) {
        const defined_row<reference::arithmetic_t<In>> row(
            std::span<const In>(std::as_const(p.x).row(r)), 1);
        expect(difference(std::span<const In>(std::as_const(y).row(r)),
                          row.template results<In>(log, empty_row::nan)),
               r, p.spec);
      }
    }
  }
  CHECK(compared > 400000);
}

namespace {

/// The results of softmax_topk on a row: `columns` are the selected ones.
template <class Io>
void check_topk(queue& q, problem<typename Io::input>& p, std::int64_t k, empty_row policy) {
  using In = typename Io::input;
  using Out = typename Io::output;
  using A = reference::arithmetic_t<In>;
  matrix<Out> probabilities(p.output_layout(k), role::output);
  matrix<Out> logits(p.output_layout(k), role::output);
  matrix<std::int64_t> indices(p.output_layout(k), role::output);
  matrix<Out> lse({p.x.rows(), 1, 0, 0}, role::output);
  softmax_topk(
      q, p.x.view(), probabilities.view(), indices.view(),
      {.scale = p.spec.scale, .empty_row = policy, .logits = logits.view(), .lse = lse.vector()});
  q.wait();
  probabilities.download();
  logits.download();
  indices.download();
  lse.download();
  check_guards(p, probabilities, logits, indices, lse);
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    const auto x = std::span<const In>(std::as_const(p.x).row(r));
    const defined_row<A> row(x, p.spec.scale);
    std::vector<Out> expected;
    std::vector<std::int64_t> columns;
    const std::vector<reference::wide_t<In>> wide = reference::widen(x);
    for (const std::int64_t c : reference::topk(std::span<const reference::wide_t<In>>(wide),
                                                static_cast<std::size_t>(k))) {
      columns.push_back(c);
      expected.push_back(rounded<Out>(row.result(row.element(c), false, policy)));
    }
    expect(difference(std::span<const std::int64_t>(std::as_const(indices).row(r)), columns), r,
           p.spec);
    expect(difference(std::span<const Out>(std::as_const(probabilities).row(r)), expected), r,
           p.spec);
    expect(difference(std::span<const Out>(std::as_const(lse).row(r)), {rounded<Out>(row.lse())}),
           r, p.spec);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("softmax_topk has the bits of softmax and logsumexp", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  compared = 0;
  queue q = reproducible_queue();
  for (const double scale : all_scales) {
    for (const std::int64_t cols : {1, 17, 300, 9000}) {
      for (const std::int64_t k : {std::int64_t{1}, std::int64_t{5}, std::int64_t{100}}) {
        if (k <= cols) {
          problem<In> p({.rows = 3, .cols = cols, .scale = scale, .padding = 1});
          check_topk<Io>(q, p, k, empty_row::nan);
        }
      }
    }
    problem<In> p = corners<In>(1000, scale);
    check_topk<Io>(q, p, 9, empty_row::zero);
  }
  problem<In> many({.rows = 500, .cols = 64});
  check_topk<Io>(q, many, 4, empty_row::nan);
  CHECK(compared > 10000);
}

namespace {

template <class Io>
void check_gradient(queue& q, const problem<typename Io::input>& y,
                    const problem<typename Io::input>& dy, bool log, double scale) {
  using In = typename Io::input;
  using Out = typename Io::output;
  using A = reference::arithmetic_t<In>;
  matrix<Out> dx(y.output_layout(y.x.cols()), role::output);
  (log ? log_softmax_backward : softmax_backward)(q, y.x.view(), dy.x.view(), dx.view(),
                                                  {.scale = scale});
  q.wait();
  dx.download();
  expect(dx.stray_writes(), -1, y.spec);
  for (std::int64_t r = 0; r < dx.rows(); ++r) {
    const auto of_y = y.x.row(r);
    const auto of_dy = dy.x.row(r);
    const auto at = [](std::span<const In> row) {
      return [row](std::int64_t c) { return static_cast<A>(row[static_cast<std::size_t>(c)]); };
    };
    const auto row =
        definition::gradient_of<A>(log, static_cast<A>(scale), y.x.cols(), at(of_y), at(of_dy));
    std::vector<Out> expected;
    for (std::int64_t c = 0; c < y.x.cols(); ++c) {
      const A a = at(of_y)(c);
      const A b = at(of_dy)(c);
      expected.push_back(rounded<Out>(log ? row.log_softmax(a, b) : row.softmax(a, b)));
    }
    INFO((log ? "log_softmax_backward" : "softmax_backward") << ", scale " << scale);
    expect(difference(std::span<const Out>(std::as_const(dx).row(r)), expected), r, y.spec);
  }
}

/// A result y of softmax or log-softmax, near enough.
template <class In>
problem<In> result_like(std::int64_t rows, std::int64_t cols, bool log, std::int64_t offset) {
  problem<In> y({.rows = rows, .cols = cols, .padding = offset, .offset = offset, .seed = 11});
  for (std::int64_t r = 0; r < rows; ++r) {
    const defined_row<reference::arithmetic_t<In>> row(
        std::span<const In>(std::as_const(y.x).row(r)), 1);
    const std::vector<In> values = row.template results<In>(log, empty_row::nan);
    std::copy(values.begin(), values.end(), y.x.row(r).begin());
  }
  y.x.upload();
  return y;
}

}  // namespace

TEST_CASE_TEMPLATE("gradients have the definition's bits", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  compared = 0;
  queue q = reproducible_queue();
  for (const bool log : {false, true}) {
    for (const std::int64_t cols :
         {1,    2,    7,    8,    9,    16,   17,   33,   127,   128,  130,
          1000, 2047, 2048, 2049, 2056, 4096, 8191, 8193, 12345, 50000}) {
      const problem<In> y = result_like<In>(cols < 40     ? 19
                                            : cols < 3000 ? 3
                                                          : 1,
                                            cols, log, cols % 4);
      const problem<In> dy(
          {.rows = y.x.rows(),
           .cols = cols,
           .kind = cols % 2 == 0 ? distribution::normal : distribution::wide_normal,
           .offset = cols % 3,
           .seed = 17});
      for (const double scale : {1.0, 0.37, -2.0, 0.0}) {
        check_gradient<Io>(q, y, dy, log, scale);
      }
    }
    for (const distribution kind : all_distributions) {
      for (const std::int64_t cols : {13, 3001}) {
        const problem<In> any({.rows = 2, .cols = cols, .kind = kind, .seed = 23});
        const problem<In> other(
            {.rows = 2, .cols = cols, .kind = distribution::normal, .seed = 29});
        for (const double scale : all_scales) {
          check_gradient<Io>(q, other, any, log, scale);
          check_gradient<Io>(q, any, other, log, scale);
        }
      }
    }
    for (const std::int64_t cols : {6, 16, 40, 2500}) {
      const problem<In> corner = corners<In>(cols, 1);
      const problem<In> dy({.rows = corner_rows, .cols = cols, .kind = distribution::normal});
      check_gradient<Io>(q, corner, dy, log, 1);
      check_gradient<Io>(q, dy, corner, log, 1);
      problem<In> zeros({.rows = corner_rows, .cols = cols});
      for (std::int64_t r = 0; r < corner_rows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          zeros.x(r, c) = make<In>(c == 1 ? 1.0 : -0.0);
        }
      }
      zeros.x.upload();
      check_gradient<Io>(q, corner, zeros, log, 1);
    }
    // Products that f64 has, but not f32: of bf16 and f32.
    problem<In> small({.rows = 2, .cols = 300, .seed = 7});
    problem<In> least({.rows = 2, .cols = 300, .seed = 8});
    for (std::int64_t c = 0; c < 300; ++c) {
      small.x(0, c) = make<In>(std::ldexp(128.0 + static_cast<double>(c * 5 % 128), -17));
      least.x(0, c) = make<In>(std::ldexp(static_cast<double>(1 + c * 7 % 61), -133));
      small.x(1, c) = make<In>(std::ldexp(1.0, c == 9 ? 100 : -1));
      least.x(1, c) = make<In>(std::ldexp(1.0, c == 9 ? 30 : -2));
    }
    small.x.upload();
    least.x.upload();
    check_gradient<Io>(q, small, least, log, 1);
  }
  CHECK(compared > 500000);
}

TEST_CASE_TEMPLATE("edits come first", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  using Out = typename Io::output;
  using A = reference::arithmetic_t<In>;
  compared = 0;
  queue q = reproducible_queue();
  for (const edit_spec& edit : all_edits) {
    for (const double scale : {1.0, 0.37, -2.0, 0.0}) {
      for (const std::int64_t cols : {40, 2000}) {
        edited_problem<In> p(edit, {.rows = 9, .cols = cols, .scale = scale, .padding = 2});
        INFO(p.text());
        const std::int64_t k = 6;
        matrix<Out> y({9, cols, 0, 0}, role::output);
        matrix<Out> logarithms({9, cols, 0, 0}, role::output);
        matrix<Out> lse({9, 1, 0, 0}, role::output);
        matrix<Out> listed({9, k, 0, 0}, role::output);
        matrix<Out> lse_of_list({9, 1, 0, 0}, role::output);
        matrix<std::int32_t> indices({9, k, 0, 0}, role::output);
        const softmax_options options{
            .scale = scale, .empty_row = empty_row::zero, .edits = p.edits()};
        softmax(q, p.x.view(), y.view(), options);
        log_softmax(q, p.x.view(), logarithms.view(), options);
        logsumexp(q, p.x.view(), lse.vector(), {.scale = scale, .edits = p.edits()});
        softmax_topk(q, p.x.view(), listed.view(), indices.view(),
                     {.scale = scale,
                      .empty_row = empty_row::zero,
                      .lse = lse_of_list.vector(),
                      .edits = p.edits()});
        q.wait();
        y.download();
        logarithms.download();
        lse.download();
        listed.download();
        lse_of_list.download();
        indices.download();
        for (std::int64_t r = 0; r < 9; ++r) {
          const std::vector<A> elements = p.row(r, scale < 0 ? infinity<A> : -infinity<A>);
          const defined_row<A> row{std::span<const A>(elements), scale};
          expect(difference(std::span<const Out>(std::as_const(y).row(r)),
                            row.template results<Out>(false, empty_row::zero)),
                 r, p.spec);
          expect(difference(std::span<const Out>(std::as_const(logarithms).row(r)),
                            row.template results<Out>(true, empty_row::zero)),
                 r, p.spec);
          for (const matrix<Out>* found : {&lse, &lse_of_list}) {
            expect(difference(found->row(r), {rounded<Out>(row.lse())}), r, p.spec);
          }
          const std::vector<std::int64_t> columns = p.columns(r);
          std::vector<Out> expected;
          std::vector<std::int32_t> selected;
          for (std::int64_t i = 0; i < k; ++i) {
            const std::int64_t c = columns[static_cast<std::size_t>(i)];
            selected.push_back(static_cast<std::int32_t>(c));
            expected.push_back(rounded<Out>(row.result(row.element(c), false, empty_row::zero)));
          }
          expect(difference(std::span<const std::int32_t>(std::as_const(indices).row(r)), selected),
                 r, p.spec);
          expect(difference(std::span<const Out>(std::as_const(listed).row(r)), expected), r,
                 p.spec);
        }
      }
    }
  }
  CHECK(compared > 1000000);
}

TEST_CASE("the environment makes queues reproducible") {
  // Rows whose fast results differ from the defined ones on every backend are not known; that the
  // name is read is.
  setenv("SOFTFOLD_NUMERICS", "exact", 1);
  CHECK_THROWS_WITH_AS(queue(), doctest::Contains("SOFTFOLD_NUMERICS is exact"), error);
  setenv("SOFTFOLD_NUMERICS", "reproducible", 1);
  compared = 0;
  queue q;
  unsetenv("SOFTFOLD_NUMERICS");
  problem<float> p({.rows = 3, .cols = 1234});
  check_rows<f32_f32>(q, p);
  CHECK(compared > 3000);
}

TEST_CASE("numerics are checked") {
  CHECK_THROWS_WITH_AS(queue(queue_options{.numerics = static_cast<numerics>(7)}),
                       doctest::Contains("options.numerics is 7"), error);
}

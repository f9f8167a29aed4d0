// SPDX-License-Identifier: Apache-2.0
// Every row of the table of special inputs in docs/semantics.md, for every operation and type,
// with expectations written out rather than taken from the oracle.
#include "problem.hpp"

#include <string>

namespace softfold::test {

namespace {

/// Where special elements are put: short rows, vector tails, several blocks.
constexpr std::int64_t columns[] = {1, 2, 7, 40, 1029, 20000, 50257};

/// What a row's results must be.
enum class outcome { canonical_nan, any_nan, zero, minus_infinity, plus_infinity };

template <class T>
bool is(outcome expected, T value) {
  const auto wide = reference::widen(value);
  switch (expected) {
    case outcome::canonical_nan: {
      const T canonical = T(std::numeric_limits<reference::arithmetic_t<T>>::quiet_NaN());
      return std::memcmp(&value, &canonical, sizeof(T)) == 0;
    }
    case outcome::any_nan:
      return std::isnan(wide);
    case outcome::zero:
      return wide == 0;
    case outcome::minus_infinity:
      return std::isinf(wide) && wide < 0;
    case outcome::plus_infinity:
      return std::isinf(wide) && wide > 0;
  }
  return false;
}

/// Whether a result whose f32 or wider value is within (16 + log2 cols) u of 0 or 1 rounds to it.
template <class In, class Out>
bool near(Out value, int expected, std::int64_t cols) {
  using arithmetic = reference::arithmetic_t<In>;
  const arithmetic bound =
      (16 + static_cast<arithmetic>(std::ceil(std::log2(static_cast<double>(cols))))) *
      (std::numeric_limits<arithmetic>::epsilon() / 2);
  const auto error = std::abs(reference::widen(value) - expected);
  return error <= reference::widen(Out(bound));
}

/// Results of every operation on one matrix.
template <class Out>
struct results {
  results(std::int64_t rows, std::int64_t cols)
      : y({rows, cols, 0, 0}, role::output),
        log_y({rows, cols, 0, 0}, role::output),
        lse({rows, 1, 0, 0}, role::output),
        probabilities({rows, 1, 0, 0}, role::output),
        indices({rows, 1, 0, 0}, role::output),
        topk_lse({rows, 1, 0, 0}, role::output) {}

  template <class In>
  void compute(queue& q, const matrix<In>& x, double scale, empty_row policy) {
    softmax(q, x.view(), y.view(), {.scale = scale, .empty_row = policy});
    log_softmax(q, x.view(), log_y.view(), {.scale = scale, .empty_row = policy});
    logsumexp(q, x.view(), lse.vector(), {.scale = scale});
    softmax_topk(q, x.view(), probabilities.view(), indices.view(),
                 {.scale = scale, .empty_row = policy, .lse = topk_lse.vector()});
    q.wait();
    y.download();
    log_y.download();
    lse.download();
    probabilities.download();
    indices.download();
    topk_lse.download();
  }

  void expect_row(std::int64_t r, outcome softmax_is, outcome log_softmax_is, outcome lse_is) {
    CAPTURE(r);
    unsigned wrong = 0;
    for (std::int64_t c = 0; c < y.cols(); ++c) {
      wrong += is(softmax_is, y(r, c)) && is(log_softmax_is, log_y(r, c)) ? 0u : 1u;
    }
    CHECK(wrong == 0);
    CHECK(is(softmax_is, probabilities(r, 0)));
    CHECK(is(lse_is, lse(r, 0)));
    CHECK(is(lse_is, topk_lse(r, 0)));
    CHECK(indices(r, 0) >= 0);
    CHECK(indices(r, 0) < y.cols());
  }

  matrix<Out> y, log_y, lse, probabilities;
  matrix<std::int32_t> indices;
  matrix<Out> topk_lse;
};

/// Runs `body(x, at)` for special elements first, in the middle and last of rows of all lengths.
template <class In, class Body>
void everywhere(Body&& body) {
  for (const std::int64_t cols : columns) {
    for (const std::int64_t at : {std::int64_t{0}, cols / 2, cols - 1}) {
      INFO("columns " << cols << ", special column " << at << ", seed 71000");
      problem<In> p({3, cols, distribution::normal, 1, 0, 0, 71000});
      body(p.x, at);
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("special_values");

TEST_CASE_TEMPLATE("NaN in the row: everything is the canonical quiet NaN", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  queue q;
  everywhere<In>([&](matrix<In>& x, std::int64_t at) {
    const auto bad = nans<In>();
    results<typename Io::output> found(3, x.cols());
    for (std::size_t which = 0; which + 1 < bad.size(); ++which) {
      x(0, at) = bad[which];                                           // among numbers
      std::fill(x.row(1).begin(), x.row(1).end(), In(-infinity<In>));  // among -infinity
      x(1, at) = bad[which + 1];
      x(2, 0) = In(infinity<In>);  // beside +infinity
      x(2, x.cols() - 1 - at) = bad[which];
      x.upload();
      for (const double scale : {1.0, 0.7, 0.0, -1.3}) {
        CAPTURE(scale);
        // A row with a NaN is never an empty row.
        found.compute(q, x, scale, which == 0 ? empty_row::zero : empty_row::nan);
        for (std::int64_t r = 0; r < 3; ++r) {
          found.expect_row(r, outcome::canonical_nan, outcome::canonical_nan,
                           outcome::canonical_nan);
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("+infinity in the row, no NaN", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  queue q;
  everywhere<In>([&](matrix<In>& x, std::int64_t at) {
    x(0, at) = In(infinity<In>);                                     // one
    std::fill(x.row(1).begin(), x.row(1).end(), In(infinity<In>));   // all
    std::fill(x.row(2).begin(), x.row(2).end(), In(-infinity<In>));  // one, all others -infinity
    x(2, at) = In(infinity<In>);
    x.upload();
    results<typename Io::output> found(3, x.cols());
    for (const double scale : {1.0, 0.7, 1e-30}) {
      CAPTURE(scale);
      found.compute(q, x, scale, empty_row::zero);
      for (std::int64_t r = 0; r < 3; ++r) {
        found.expect_row(r, outcome::any_nan, outcome::any_nan, outcome::plus_infinity);
      }
    }
  });
}

TEST_CASE_TEMPLATE("all -infinity, by either policy", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  queue q;
  for (const std::int64_t cols : columns) {
    CAPTURE(cols);
    problem<In> p({3, cols, distribution::normal, 1, 0, 0, 72000});
    std::fill(p.x.row(1).begin(), p.x.row(1).end(), In(-infinity<In>));
    p.x.upload();
    results<typename Io::output> found(3, cols);
    for (const double scale : {1.0, 0.7, 0.0, 1e30}) {
      CAPTURE(scale);
      found.compute(q, p.x, scale, empty_row::nan);
      found.expect_row(1, outcome::any_nan, outcome::any_nan, outcome::minus_infinity);
      found.compute(q, p.x, scale, empty_row::zero);
      found.expect_row(1, outcome::zero, outcome::minus_infinity, outcome::minus_infinity);
    }
  }
}

TEST_CASE_TEMPLATE("a negative scale turns the infinities round", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  queue q;
  everywhere<In>([&](matrix<In>& x, std::int64_t at) {
    x(0, at) = In(-infinity<In>);                                   // is +infinity then
    std::fill(x.row(1).begin(), x.row(1).end(), In(infinity<In>));  // is an empty row then
    std::fill(x.row(2).begin(), x.row(2).end(), In(infinity<In>));
    x(2, at) = In(2.0F);  // the only one that counts
    x.upload();
    results<typename Io::output> found(3, x.cols());
    found.compute(q, x, -1.3, empty_row::nan);
    found.expect_row(0, outcome::any_nan, outcome::any_nan, outcome::plus_infinity);
    found.expect_row(1, outcome::any_nan, outcome::any_nan, outcome::minus_infinity);
    found.compute(q, x, -1.3, empty_row::zero);
    found.expect_row(1, outcome::zero, outcome::minus_infinity, outcome::minus_infinity);
    CHECK(near<In>(found.y(2, at), 1, x.cols()));
    CHECK(near<In>(found.log_y(2, at), 0, x.cols()));
    if (x.cols() > 1) {
      const std::int64_t other = at == 0 ? 1 : 0;
      CHECK(is(outcome::zero, found.y(2, other)));
      CHECK(is(outcome::minus_infinity, found.log_y(2, other)));
    }
  });
}

TEST_CASE_TEMPLATE("some -infinity: exactly 0 and -infinity there", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  queue q;
  everywhere<In>([&](matrix<In>& x, std::int64_t at) {
    // Only `at` counts in row 0; only `at` is masked in row 1; -infinity leads in row 2.
    std::fill(x.row(0).begin(), x.row(0).end(), In(-infinity<In>));
    x(0, at) = type_limits<In>::lowest();
    if (x.cols() > 1) {
      x(1, at) = In(-infinity<In>);
    }
    std::fill_n(x.row(2).begin(), x.cols() - 1, In(-infinity<In>));
    x.upload();
    results<typename Io::output> found(3, x.cols());
    found.compute(q, x, 1, empty_row::nan);
    CHECK(near<In>(found.y(0, at), 1, x.cols()));
    CHECK(near<In>(found.log_y(0, at), 0, x.cols()));
    CHECK(found.indices(0, 0) == at);
    unsigned wrong = 0;
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t c = 0; c < x.cols(); ++c) {
        const bool masked = reference::widen(x(r, c)) == -infinity<In>;
        const bool right = masked ? is(outcome::zero, found.y(r, c)) &&
                                        is(outcome::minus_infinity, found.log_y(r, c))
                                  : std::isfinite(reference::widen(found.log_y(r, c)));
        wrong += right ? 0u : 1u;
      }
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE_TEMPLATE("scale 0: uniform over what is not -infinity, +infinity included", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  queue q;
  for (const std::int64_t cols : {8, 64, 4096}) {
    for (const double scale : {0.0, -0.0}) {
      CAPTURE(cols);
      problem<In> p({2, cols, distribution::huge, scale, 0, 0, 73000});
      for (std::int64_t c = 0; c < cols; ++c) {
        if (c % 2 == 1) {
          p.x(0, c) = In(-infinity<In>);
        }
      }
      p.x(1, 3) = In(infinity<In>);
      p.x.upload();
      results<typename Io::output> found(2, cols);
      found.compute(q, p.x, scale, empty_row::nan);
      unsigned wrong = 0;
      const auto uniform = [&](auto value, std::int64_t count) {
        const auto n = static_cast<reference::arithmetic_t<In>>(count);
        // count is a power of two: exact quotients, and products that do not round.
        return near<In>(static_cast<reference::arithmetic_t<In>>(value) * n, 1, cols);
      };
      for (std::int64_t c = 0; c < cols; ++c) {
        wrong +=
            (c % 2 == 1 ? is(outcome::zero, found.y(0, c)) : uniform(found.y(0, c), cols / 2)) &&
                    uniform(found.y(1, c), cols)
                ? 0u
                : 1u;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE_TEMPLATE("a scale that overflows: the scaled row is the row", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  using A = reference::arithmetic_t<In>;
  queue q;
  // s is the least power of two with s |x| past the arithmetic's range, for x = 2^14: a number of
  // every type.
  const double s = std::ldexp(1.0, std::numeric_limits<A>::max_exponent - 14);
  const In large = In(16384.0F);
  const In minus_large = In(-16384.0F);
  everywhere<In>([&](matrix<In>& x, std::int64_t at) {
    std::fill(x.row(0).begin(), x.row(0).end(), In(0.0F));
    x(0, at) = large;                                          // scales to +infinity
    std::fill(x.row(1).begin(), x.row(1).end(), minus_large);  // to -infinity, all of it
    std::fill(x.row(2).begin(), x.row(2).end(), minus_large);
    x(2, at) = In(-8192.0F);  // the only one that counts
    x.upload();
    results<typename Io::output> found(3, x.cols());
    for (const empty_row policy : {empty_row::nan, empty_row::zero}) {
      found.compute(q, x, s, policy);
      found.expect_row(0, outcome::any_nan, outcome::any_nan, outcome::plus_infinity);
      const bool zero = policy == empty_row::zero;
      found.expect_row(1, zero ? outcome::zero : outcome::any_nan,
                       zero ? outcome::minus_infinity : outcome::any_nan, outcome::minus_infinity);
      CHECK(near<In>(found.y(2, at), 1, x.cols()));
      CHECK(near<In>(found.log_y(2, at), 0, x.cols()));
      for (std::int64_t c = 0; c < x.cols(); ++c) {
        if (c != at) {
          REQUIRE(is(outcome::zero, found.y(2, c)));
          REQUIRE(is(outcome::minus_infinity, found.log_y(2, c)));
        }
      }
      // The same by way of states.
      states<A> partials(3);
      fold(q, const_matrix_ref(x.view()), partials.ref(), {.scale = s});
      const softmax_options options{.scale = s, .empty_row = policy};
      normalize(q, x.view(), partials.ref(), found.y.view(), options);
      log_normalize(q, x.view(), partials.ref(), found.log_y.view(), options);
      q.wait();
      found.y.download();
      found.log_y.download();
      const auto state = partials.values();
      CHECK(state[0].max == infinity<A>);
      CHECK(state[1] == max_sum<A>{});
      CHECK(state[2].max == static_cast<A>(-8192 * s));
      CHECK(near<A>(state[2].sum, 1, x.cols()));
      found.expect_row(0, outcome::any_nan, outcome::any_nan, outcome::plus_infinity);
      found.expect_row(1, zero ? outcome::zero : outcome::any_nan,
                       zero ? outcome::minus_infinity : outcome::any_nan, outcome::minus_infinity);
      CHECK(near<In>(found.y(2, at), 1, x.cols()));
      for (std::int64_t c = 0; c < x.cols(); ++c) {
        if (c != at) {
          REQUIRE(is(outcome::zero, found.y(2, c)));
          REQUIRE(is(outcome::minus_infinity, found.log_y(2, c)));
        }
      }
    }
  });
}

TEST_CASE("a scale that overflows: rows beside the limit") {
  queue q;
  const double inf = infinity<double>;
  struct overflowing {
    std::vector<float> x;
    double scale;
    double lse;
  };
  for (const overflowing& o :
       {overflowing{{3e38F, 1}, 2, inf}, overflowing{{-3.4e38F}, 100, -inf},
        overflowing{{-3.4e38F, -3.4e38F}, 100, -inf}, overflowing{{3.4e38F, 3.4e38F}, -100, -inf},
        overflowing{{-3.4e38F, 1, -2e38F}, 2, 2}, overflowing{{-3.4e38F, 3.4e38F}, -2, inf},
        overflowing{{1e38F, -3.4e38F, 2e37F}, 3, 3e38}}) {
    const std::vector<float>& row = o.x;
    const double scale = o.scale;
    const double lse = o.lse;
    CAPTURE(row);
    CAPTURE(scale);
    problem<float> p({1, static_cast<std::int64_t>(row.size()), distribution::normal, scale});
    std::copy(row.begin(), row.end(), p.x.row(0).begin());
    p.commit();
    const auto exact = static_cast<double>(p.rows[0].state().logsumexp());
    CHECK((exact == lse || exact == doctest::Approx(lse)));  // Approx has no infinity
    for (const empty_row policy : {empty_row::nan, empty_row::zero}) {
      check_softmax<float>(q, p, policy);
      check_log_softmax<float>(q, p, policy);
      check_logsumexp<float>(q, p);
      check_softmax_topk<float, std::int32_t>(q, p, p.x.cols(), expected_columns(p, p.x.cols()),
                                              true, policy);
    }
  }
}

TEST_CASE_TEMPLATE("one column: exactly 1 and 0", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  queue q;
  for (const distribution kind : {distribution::normal, distribution::huge, distribution::subnormal,
                                  distribution::offset_1e7}) {
    for (const double scale : {1.0, 0.7, 0.0, -1.3, 1e-8}) {
      problem<In> p({200, 1, kind, scale, 0, 0, 74000});
      results<typename Io::output> found(200, 1);
      found.compute(q, p.x, scale, empty_row::nan);
      for (std::int64_t r = 0; r < 200; ++r) {
        const auto& oracle = p.rows[static_cast<std::size_t>(r)];
        if (oracle.state().kind == reference::row_kind::finite) {
          const bool exact = reference::widen(found.y(r, 0)) == 1 &&
                             reference::widen(found.log_y(r, 0)) == 0 &&
                             reference::widen(found.probabilities(r, 0)) == 1;
          CHECK_MESSAGE(exact, describe(p.spec) << ", row " << r);
        }
        expect(oracle.check_logsumexp(found.lse(r, 0)), r, p.spec);
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

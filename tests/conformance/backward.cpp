// SPDX-License-Identifier: Apache-2.0
// The gradients of softmax and log-softmax: accuracy on every shape, distribution and scale, in
// place, special values, and the same bits whatever the batch and the threads.
#include "gradient.hpp"

namespace softfold::test {

namespace {

constexpr bool both[] = {false, true};

constexpr std::int64_t short_rows[] = {1,   2,   3,   4,   5,   7,    8,    9,    15,
                                       16,  17,  31,  32,  33,  63,   64,   65,   127,
                                       128, 129, 255, 256, 257, 1000, 1023, 1024, 1025};
constexpr std::int64_t long_rows[] = {4097, 8191, 8193, 16384, 25000, 50257, 128256, 300007};

/// The bytes of each row of the gradient.
template <class In>
std::vector<std::vector<std::byte>> bits_of(queue& q, gradient_problem<In>& p, std::int64_t first,
                                            std::int64_t count) {
  const auto rows = [&](const matrix<In>& m) {
    const auto all = m.view();
    return matrix_view<const In>(all.data + first * all.stride, count, all.cols, all.stride);
  };
  matrix<In> dx({count, p.spec.cols, 0, 0}, role::output);
  const backward_options options{.scale = p.spec.scale};
  p.spec.log ? log_softmax_backward(q, rows(p.y), rows(p.dy), dx.view(), options)
             : softmax_backward(q, rows(p.y), rows(p.dy), dx.view(), options);
  q.wait();
  dx.download();
  std::vector<std::vector<std::byte>> bits;
  for (std::int64_t r = 0; r < count; ++r) {
    const auto bytes = std::as_bytes(dx.row(r));
    bits.emplace_back(bytes.begin(), bytes.end());
  }
  return bits;
}

struct shape {
  std::int64_t rows, cols;
};
constexpr shape shapes[] = {{200, 5},  {64, 129},  {64, 128},  {17, 1000},  {3, 2048},
                            {3, 8192}, {3, 40960}, {5, 50257}, {3, 300032}, {1500, 1088}};

}  // namespace

TEST_SUITE_BEGIN("backward");

TEST_CASE_TEMPLATE("short rows", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 91000;
  for (const bool log : both) {
    for (const std::int64_t cols : short_rows) {
      for (const std::int64_t rows : {1, 2, 19}) {
        // An offset puts y, dy and dx on different alignments, and their rows as well.
        for (const auto& [padding, offset] : {std::pair{0, 0}, {1, 1}, {7, 0}, {0, 3}}) {
          gradient_problem<typename Io::input> p({log, rows, cols, distribution::normal,
                                                  distribution::normal, 1, padding, offset,
                                                  ++seed});
          CHECK(wrong_in<typename Io::output>(q, p) == "");
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("long rows", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 92000;
  for (const bool log : both) {
    for (const std::int64_t cols : long_rows) {
      for (const std::int64_t offset : {0, 1}) {
        gradient_problem<typename Io::input> p({log, cols < 20000 ? 9 : 2, cols,
                                                distribution::wide_normal, distribution::normal, 1,
                                                offset, offset, ++seed});
        CHECK(wrong_in<typename Io::output>(q, p) == "");
      }
    }
  }
}

TEST_CASE_TEMPLATE("a batch that no cache holds", Io, f32_f32, f16_f16, bf16_f32) {
  queue q;
  for (const bool log : both) {
    for (const std::int64_t offset : {0, 1}) {
      gradient_problem<typename Io::input> p({log, reduced ? 40 : 250, 5003, distribution::normal,
                                              distribution::normal, 0.5, 0, offset, 92500});
      CHECK(wrong_in<typename Io::output>(q, p) == "");
    }
  }
}

TEST_CASE_TEMPLATE("every distribution of logits and of gradients", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 93000;
  for (const bool log : both) {
    for (const distribution kind : all_distributions) {
      for (const std::int64_t cols : {7, 1030}) {
        for (const auto& [logits, dy] :
             {std::pair{kind, distribution::normal}, {distribution::normal, kind}, {kind, kind}}) {
          gradient_problem<typename Io::input> p({log, 2, cols, logits, dy, 1, 3, 1, ++seed});
          CHECK(wrong_in<typename Io::output>(q, p) == "");
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("every scale", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 94000;
  for (const bool log : both) {
    for (const double scale : {0.7, 2.5, 0.0, -1.3, 1e-20, 1e20}) {
      for (const std::int64_t cols : {17, 1027, 9001}) {
        gradient_problem<typename Io::input> p(
            {log, 3, cols, distribution::normal, distribution::wide_normal, scale, 0, 0, ++seed});
        CHECK(wrong_in<typename Io::output>(q, p) == "");
      }
    }
  }
}

TEST_CASE_TEMPLATE("sums that cancel", Io, SOFTFOLD_TEST_IO_TYPES) {
  // The sum is small beside its terms, whose magnitudes measure its error.
  queue q;
  for (const bool log : both) {
    for (const std::int64_t cols : {64, 1024, 8192, 70000}) {
      gradient_problem<typename Io::input> p(
          {log, 2, cols, distribution::all_equal, distribution::normal, 1, 0, 0, 94500});
      for (std::int64_t c = 1; c < cols; c += 2) {
        const auto before = reference::widen(p.dy(0, c - 1));
        p.dy(0, c) = make<typename Io::input>(-static_cast<double>(before));
        p.dy(1, c) = p.dy(1, 0);  // one large block against small elements
      }
      p.commit();
      CHECK(wrong_in<typename Io::output>(q, p) == "");
    }
  }
}

TEST_CASE_TEMPLATE("in place, over y and over dy", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  std::uint64_t seed = 95000;
  for (const bool log : both) {
    for (const bool over_y : both) {
      for (const std::int64_t cols : {1, 5, 33, 1025, 20000, 70001}) {
        for (const std::int64_t padding : {0, 5}) {
          const gradient_spec spec{log,
                                   cols < 2000 ? 40 : 2,
                                   cols,
                                   distribution::wide_normal,
                                   distribution::normal,
                                   1,
                                   padding,
                                   padding % 2,
                                   ++seed};
          CHECK(wrong_in_place<T>(q, spec, over_y) == "");
        }
      }
    }
  }
  for (const bool log : both) {  // and past the caches
    const gradient_spec spec{
        log, reduced ? 40 : 300, 5003, distribution::normal, distribution::normal, 1, 0, 0, ++seed};
    CHECK(wrong_in_place<T>(q, spec, !log) == "");
  }
}

TEST_CASE_TEMPLATE("NaN and infinities stay in their rows", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  queue q;
  for (const bool log : both) {
    for (const std::int64_t cols : {1, 6, 70, 1030, 20011}) {
      gradient_problem<In> p(
          {log, 14, cols, distribution::normal, distribution::normal, 1, 2, 1, 96000});
      const std::int64_t at[] = {0, cols / 2, cols - 1};
      const In inf = In(infinity<In>);
      const In less = In(-infinity<In>);
      const std::vector<In> nan = nans<In>();
      for (std::size_t i = 0; i < 3; ++i) {
        const auto r = static_cast<std::int64_t>(4 * i);
        p.dy(r, at[i]) = nan[i];         // its row is NaN
        p.y(r + 1, at[i]) = nan[i + 1];  // its row is NaN; log-softmax: its element
        p.dy(r + 2, at[i]) = i == 0 ? inf : less;
        p.y(r + 3, at[i]) = log ? less : make<In>(0);  // exp(-infinity) = 0
      }
      p.dy(12, 0) = inf;
      p.dy(12, cols - 1) = less;
      p.y(13, cols / 2) = inf;
      p.commit();
      CHECK(wrong_in<typename Io::output>(q, p) == "");
    }
  }
}

TEST_CASE_TEMPLATE("sums up to the largest that a number can have", Io, f32_f32, f64_f64, bf16_bf16,
                   bf16_f32) {
  // From where dy - sum overflows, half a unit in the last place of the largest, 0 times that is
  // NaN, and written as every NaN is.
  using In = typename Io::input;
  using limits = std::numeric_limits<reference::arithmetic_t<In>>;
  queue q;
  constexpr int half_unit = limits::max_exponent - limits::digits - 1;
  const int exponents[] = {half_unit - 20, half_unit - 2,  half_unit - 1,
                           half_unit,      half_unit + 1,  half_unit + 4,
                           half_unit + 15, half_unit + 16, limits::max_exponent - 1};
  const auto rows = static_cast<std::int64_t>(2 * std::size(exponents));
  for (const double scale : {1.0, 0.5}) {
    for (const std::int64_t cols : {7, 40, 1030, 20011}) {
      gradient_problem<In> p(
          {false, rows, cols, distribution::normal, distribution::normal, scale, 0, 0, 96500});
      for (std::int64_t r = 0; r < rows; ++r) {
        const double sign = r % 2 == 0 ? 1 : -1;
        const int exponent = exponents[static_cast<std::size_t>(r / 2)];
        for (const std::int64_t c : {std::int64_t{0}, cols / 2}) {
          p.y(r, c) = make<In>(0);
          p.dy(r, c) = sign > 0 ? type_limits<In>::lowest() : type_limits<In>::max();
        }
        p.y(r, cols - 1) = make<In>(1);  // the sum but for little
        p.dy(r, cols - 1) = make<In>(std::ldexp(sign, exponent));
      }
      p.commit();
      CHECK(wrong_in<typename Io::output>(q, p) == "");
    }
  }
}

TEST_CASE_TEMPLATE("exponentials of any y", T, float, double) {
  // y is the caller's: from where exp is 0 to where it is infinite.
  queue q;
  constexpr bool wide = sizeof(T) == 8;
  for (const std::int64_t cols : {40, 3000}) {
    gradient_problem<T> p(
        {true, 2, cols, distribution::normal, distribution::normal, 1, 0, 0, 97000});
    const double from = wide ? -760 : -120;
    const double to = wide ? 715 : 90;
    for (std::int64_t c = 0; c < cols; ++c) {
      p.y(0, c) = static_cast<T>(from + (to - from) * static_cast<double>(c) /
                                            static_cast<double>(cols - 1));
      p.dy(0, c) *= static_cast<T>(1e-6);
      p.y(1, c) = -p.y(0, c);
      p.dy(1, c) = p.dy(0, c);
    }
    p.commit();
    CHECK(wrong_in<T>(q, p) == "");
  }
}

TEST_CASE_TEMPLATE("no rows or no columns: nothing is written", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  using Out = typename Io::output;
  queue q;
  for (const auto& [rows, cols] : {std::pair{0, 0}, {0, 9}, {3, 0}}) {
    const matrix_view<const In> in(nullptr, rows, cols);
    matrix<Out> dx({rows, cols, 2, 0}, role::output);
    softmax_backward(q, in, in, dx.view());
    log_softmax_backward(q, in, in, dx.view());
    q.wait();
    dx.download();
    CHECK(dx.untouched() == "");
  }
}

TEST_CASE_TEMPLATE("a row's bits depend neither on the batch nor on the threads", T,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const bool log : both) {
    for (const auto [rows, cols] : shapes) {
      gradient_problem<T> p(
          {log, rows, cols, distribution::normal, distribution::normal, 0.7, 3, 0, 98000});
      INFO(describe(p.spec));
      const auto together = bits_of(q, p, 0, rows);
      CHECK(bits_of(q, p, 0, rows) == together);
      for (const std::int64_t r : {std::int64_t{0}, rows / 2, rows - 1}) {
        CHECK(bits_of(q, p, r, 1)[0] == together[static_cast<std::size_t>(r)]);
      }
      for (const int threads : {1, 3, 8}) {
        CAPTURE(threads);
        queue other(queue_options{.threads = threads});
        CHECK(bits_of(other, p, 0, rows) == together);
      }
      p.dy(0, 0) = nans<T>()[0];  // beside other contents
      p.commit();
      const auto beside = bits_of(q, p, 0, rows);
      CHECK(beside[1] == together[1]);
      CHECK(beside[0] != together[0]);
    }
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

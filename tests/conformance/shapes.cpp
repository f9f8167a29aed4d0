// SPDX-License-Identifier: Apache-2.0
// Every operation on every awkward shape: column counts around powers of two and vector widths,
// row counts, strides, bases off alignment.
#include "problem.hpp"

namespace softfold::test {

namespace {

constexpr std::int64_t short_rows[] = {1,   2,   3,   4,   5,   7,    8,    9,    15,
                                       16,  17,  31,  32,  33,  63,   64,   65,   127,
                                       128, 129, 255, 256, 257, 1000, 1023, 1024, 1025};
constexpr std::int64_t long_rows[] = {4097, 16383, 16384, 16385, 25000, 50257, 128256};

std::int64_t some_k(std::int64_t cols) { return std::min<std::int64_t>(cols, 5); }

}  // namespace

TEST_SUITE_BEGIN("shapes");

TEST_CASE_TEMPLATE("short rows", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 51000;
  for (const std::int64_t cols : short_rows) {
    for (const std::int64_t rows : {1, 2, 3}) {
      // Padding 0 keeps rows end to end; 1 and 7 move every row to another alignment.
      for (const auto& [padding, offset] : {std::pair{0, 0}, {1, 1}, {7, 0}}) {
        problem<typename Io::input> p(
            {rows, cols, distribution::wide_normal, 1, padding, offset, ++seed});
        check_all<typename Io::output>(q, p, some_k(cols));
      }
    }
  }
}

// A part of a row has a maximum of its own: here each difference to the row's is a number of the
// type, and none to those of the parts is.
TEST_CASE_TEMPLATE("elements far below the largest of their part, and further below the row's", T,
                   float, double) {
  queue q;
  for (const std::int64_t cols : {130, 1500, 5000, 12000}) {
    problem<T> p(
        {3, cols, distribution::normal, 1, 0, 0, static_cast<std::uint64_t>(51900 + cols)});
    const T unit =
        std::ldexp(T{1}, 7 - std::numeric_limits<T>::digits);  // of numbers from 64 to 128
    for (std::int64_t r = 0; r < p.x.rows(); ++r) {
      const auto row = p.x.row(r);
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = i % 64 == 5 ? T{60} + unit / 2 : T{-8} + std::round(row[i] * 100000) * unit;
      }
      row[1] = T{76};
    }
    p.commit();
    check_softmax<T>(q, p);
  }
}

TEST_CASE_TEMPLATE("many short rows", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 52000;
  for (const std::int64_t cols : {1, 2, 5, 8, 17, 33, 64, 129}) {
    const std::int64_t rows = reduced ? 200 : 1000;
    problem<typename Io::input> p({rows, cols, distribution::normal, 1, cols % 2, 1, ++seed});
    check_all<typename Io::output>(q, p, some_k(cols));
  }
}

TEST_CASE_TEMPLATE("long rows", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 53000;
  for (const std::int64_t cols : long_rows) {
    problem<typename Io::input> p({cols < 20000 ? 3 : 1, cols, distribution::normal, 1,
                                   cols % 2 == 0 ? 0 : 3, cols % 2, ++seed});
    check_all<typename Io::output>(q, p, 50);
  }
}

TEST_CASE_TEMPLATE("a million columns", Io, f32_f32, f64_f64, f16_f16, bf16_f32) {
  queue q;
  const std::int64_t cols = reduced ? 200003 : 1048579;
  problem<typename Io::input> p({1, cols, distribution::normal, 1, 0, 1, 54000});
  check_all<typename Io::output>(q, p, 64);
  problem<typename Io::input> equal({1, cols, distribution::all_equal, 1, 0, 0, 54001});
  check_softmax<typename Io::output>(q, equal);
  check_logsumexp<typename Io::output>(q, equal);
}

TEST_CASE_TEMPLATE("no rows or no columns: nothing is written", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  using Out = typename Io::output;
  queue q;
  for (const auto& [rows, cols] : {std::pair{0, 0}, {0, 9}, {3, 0}}) {
    const layout where{rows, cols, 2, 0};
    const matrix<In> x(where, role::input);
    matrix<Out> y(where, role::output);
    softmax(q, x.view(), y.view());
    log_softmax(q, x.view(), y.view());
    // Null pointers are as good as any when there is nothing to point at.
    softmax(q, matrix_view<const In>(nullptr, rows, cols), matrix_view<Out>(nullptr, rows, cols));
    log_softmax(q, matrix_view<const In>(nullptr, rows, cols),
                matrix_view<Out>(nullptr, rows, cols));
    topk(q, matrix_view<const In>(nullptr, rows, cols), matrix_view<Out>(nullptr, rows, 0),
         matrix_view<std::int32_t>(nullptr, rows, 0));
    q.wait();
    y.download();
    CHECK(y.untouched() == "");
  }
  logsumexp(q, matrix_view<const In>(nullptr, 0, 7), vector_ref(nullptr, dtype_of<Out>, 0));
  q.wait();
}

// No number of bytes is made of what such sizes multiply to: the sanitizers would see it overflow.
TEST_CASE_TEMPLATE("no rows of more columns than memory could hold: nothing happens", In,
                   SOFTFOLD_TEST_INPUT_TYPES) {
  using A = reference::arithmetic_t<In>;
  constexpr std::int64_t many = std::int64_t{1} << 62;
  queue q;
  const matrix_view<const In> x(nullptr, 0, many);
  const matrix_view<In> y(nullptr, 0, many);
  const matrix_view<std::int64_t> indices(nullptr, 0, many);
  const vector_ref none(nullptr, dtype_of<A>, 0);
  const partials_ref states(std::span<max_sum<A>>{});
  for (const double softcap : {0.0, 3.0}) {
    row_edits edits;
    edits.softcap = softcap;
    softmax(q, x, y, {.edits = edits});
    log_softmax(q, x, y, {.edits = edits});
    logsumexp(q, x, none, {.edits = edits});
    topk(q, x, y, indices, {.edits = edits});
    softmax_topk(q, x, y, indices, {.edits = edits});
    softmax_backward(q, x, x, y);
    log_softmax_backward(q, x, x, y);
    fold(q, x, states, {.edits = edits});
    fold_topk(q, x, states, y, indices, {.edits = edits});
    normalize(q, x, states, y, {.edits = edits});
    log_normalize(q, x, states, y, {.edits = edits});
  }
  scan(q, x, y);
  combine_topk(q, x, matrix_view<const std::int64_t>(nullptr, 0, many), y, indices);
  const matrix_view<const In> logits(nullptr, 0, std::int64_t{1} << 42);  // the most of sampling
  sample(q, logits, matrix_view<std::int64_t>(nullptr, 0, 9));
  for (const const_matrix_ref drafts : {const_matrix_ref(logits), const_matrix_ref{}}) {
    verify(q, logits, drafts, matrix_view<const std::int64_t>(nullptr, 0, 3),
           matrix_view<std::int64_t>(nullptr, 0, 4), {nullptr, dtype::i32, 0});
  }
  finish_sample(q, const_sample_states_ref(nullptr, 0), x,
                matrix_view<const std::int64_t>(nullptr, 0, many), {nullptr, dtype::i64, 0});
  q.wait();
}

TEST_CASE_TEMPLATE("input and output of different strides", Io, SOFTFOLD_TEST_IO_TYPES) {
  using In = typename Io::input;
  using Out = typename Io::output;
  queue q;
  for (const std::int64_t cols : {3, 64, 1001}) {
    problem<In> p({5, cols, distribution::normal, 1, 11, 1, 55000});
    matrix<Out> y({5, cols, 2, 0}, role::output);
    softmax(q, p.x.view(), y.view());
    q.wait();
    y.download();
    check_guards(p, y);
    for (std::int64_t r = 0; r < 5; ++r) {
      expect(p.rows[static_cast<std::size_t>(r)].check_softmax(std::span<const Out>(y.row(r)),
                                                               empty_row::nan),
             r, p.spec);
    }
  }
}

TEST_CASE("columns of one matrix into other columns of the same matrix") {
  // The rows interleave in memory and share no byte: this is no overlap.
  queue q;
  problem<float> p({4, 100, distribution::normal, 1, 0, 0, 56000});
  matrix<float> both({4, 200, 0, 0}, role::output);
  for (std::int64_t r = 0; r < 4; ++r) {
    std::copy_n(p.x.row(r).begin(), 100, both.row(r).begin());
  }
  both.upload();
  float* base = both.view().data;
  softmax(q, matrix_view<const float>(base, 4, 100, 200),
          matrix_view<float>(base + 100, 4, 100, 200));
  q.wait();
  both.download();
  CHECK(both.stray_writes() == "");
  for (std::int64_t r = 0; r < 4; ++r) {
    const std::span<const float> row = both.row(r);
    const auto& oracle = p.rows[static_cast<std::size_t>(r)];
    CHECK(std::equal(row.begin(), row.begin() + 100, p.x.row(r).begin()));
    expect(oracle.check_softmax(row.subspan(100), empty_row::nan), r, p.spec);
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

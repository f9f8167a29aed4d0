// SPDX-License-Identifier: Apache-2.0
// Softmax + top-k: the columns of top-k with the probabilities of softmax over the whole row.
#include "problem.hpp"

namespace softfold::test {

TEST_SUITE_BEGIN("softmax_topk");

TEST_CASE_TEMPLATE("every distribution and k", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 41000;
  for (const distribution kind : all_distributions) {
    for (const std::int64_t cols : {1, 6, 100, 2500, 20011}) {
      problem<typename Io::input> p({2, cols, kind, 1, 3, 1, ++seed});
      const auto columns = expected_columns(p, cols);
      for (const std::int64_t k : {1, 5, 64, 1024, 2500}) {
        if (k <= cols) {
          check_softmax_topk<typename Io::output, std::int32_t>(q, p, k, columns);
        }
      }
    }
  }
}

// So large a k, and so many rows, that GPUs give each row to a large block, which works on more
// than one part at once; and so long a row that it does so several times, even where little shared
// memory lets only rows with few groups for each k have a block of their own. The last part may be
// alone.
TEST_CASE_TEMPLATE("large k of many rows in several parts", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  problem<T> p({rows_for_gpus(280), 52000, distribution::normal, 1, 0, 0, 41500});
  const auto columns = expected_columns(p, 1030);
  check_softmax_topk<T, std::int32_t>(q, p, 1030, columns);
}

TEST_CASE_TEMPLATE("the elements are ranked, whatever the scale", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  std::uint64_t seed = 42000;
  for (const distribution kind : {distribution::normal, distribution::wide_normal,
                                  distribution::few_values, distribution::offset_1e4}) {
    for (const double scale : {0.7, 2.5, 0.0, -1.3, 1e-30, 1e30}) {
      for (const std::int64_t cols : {3001, 131, 30}) {
        problem<typename Io::input> p({2, cols, kind, scale, 0, 0, ++seed});
        const std::int64_t k = std::min<std::int64_t>(cols, 50);
        check_softmax_topk<typename Io::output, std::int64_t>(q, p, k, expected_columns(p, k));
      }
    }
  }
}

TEST_CASE_TEMPLATE("logits and logsumexp are optional", Io, SOFTFOLD_TEST_IO_TYPES) {
  using T = typename Io::input;
  using Out = typename Io::output;
  queue q;
  problem<T> p({3, 777, distribution::normal, 1, 0, 0, 43000});
  const auto columns = expected_columns(p, 9);
  check_softmax_topk<Out, std::int32_t>(q, p, 9, columns, true);
  check_softmax_topk<Out, std::int32_t>(q, p, 9, columns, false);
  // Each alone.
  matrix<Out> probabilities({3, 9, 0, 0}, role::output);
  matrix<std::int32_t> indices({3, 9, 0, 0}, role::output);
  matrix<Out> logits({3, 9, 2, 0}, role::output);
  matrix<Out> lse({3, 1, 0, 0}, role::output);
  softmax_topk(q, p.x.view(), probabilities.view(), indices.view(), {.logits = logits.view()});
  softmax_topk(q, p.x.view(), probabilities.view(), indices.view(), {.lse = lse.vector()});
  q.wait();
  logits.download();
  lse.download();
  check_guards(p, logits, lse);
  for (std::int64_t r = 0; r < 3; ++r) {
    const auto row = static_cast<std::size_t>(r);
    expect(check_values(std::span<const Out>(logits.row(r)), std::span<const T>(p.x.row(r)),
                        columns[row]),
           r, p.spec);
    expect(p.rows[row].check_logsumexp(lse(r, 0)), r, p.spec);
  }
}

TEST_CASE_TEMPLATE("special rows: columns of top-k, probabilities of softmax", Io,
                   SOFTFOLD_TEST_IO_TYPES) {
  using T = typename Io::input;
  queue q;
  for (const std::int64_t cols : {8, 100, 20000}) {
    for (const empty_row policy : {empty_row::nan, empty_row::zero}) {
      problem<T> p({6, cols, distribution::normal, 1, 0, 0, 44000});
      p.x(0, 3) = nans<T>()[1];
      p.x(1, 5) = T(infinity<T>);
      std::fill(p.x.row(2).begin(), p.x.row(2).end(), T(-infinity<T>));
      std::fill(p.x.row(3).begin() + 2, p.x.row(3).end(), T(-infinity<T>));
      std::fill(p.x.row(4).begin(), p.x.row(4).end(), nans<T>()[2]);
      std::fill(p.x.row(5).begin(), p.x.row(5).end(), T(infinity<T>));
      p.commit();
      const auto columns = expected_columns(p, cols);
      for (const std::int64_t k : {std::int64_t{1}, std::int64_t{5}, cols}) {
        check_softmax_topk<typename Io::output, std::int64_t>(q, p, k, columns, true, policy);
      }
    }
  }
}

TEST_CASE_TEMPLATE("nothing chosen, nothing written", T, SOFTFOLD_TEST_INPUT_TYPES) {
  queue q;
  for (const std::int64_t rows : {0, 3}) {
    problem<T> p({rows, 5, distribution::normal, 1, 0, 0, 1});
    matrix<T> probabilities({rows, 0, 4, 0}, role::output);
    matrix<std::int64_t> indices({rows, 0, 4, 0}, role::output);
    softmax_topk(q, p.x.view(), probabilities.view(), indices.view());
    q.wait();
    probabilities.download();
    indices.download();
    CHECK(probabilities.untouched() == "");
    CHECK(indices.untouched() == "");
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

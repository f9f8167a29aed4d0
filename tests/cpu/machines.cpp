// SPDX-License-Identifier: Apache-2.0
// The bits of a result depend on the row and the instruction set only: machines with other caches
// and other numbers of threads, whose plans differ, give the same ones.
#include "each_isa.hpp"

#include <backends/host/plan/plan.hpp>
#include <backends/host/run.hpp>
#include <core/reference.hpp>
#include <softfold/dtype.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace softfold;
using namespace softfold::host;

namespace {

/// A machine that need not exist, on threads that last for one call.
struct other_machine final : executor {
  other_machine(std::size_t l2_bytes, std::size_t l3_bytes, const kernel_table& k, int n)
      : executor({.processor = "other",
                  .l1_bytes = 32 << 10,
                  .l2_bytes = l2_bytes,
                  .l3_bytes = l3_bytes},
                 k) {
    threads = n;
  }

  void execute(void (*work)(void* argument, int slot), void* argument) override {
    std::vector<std::thread> others;
    for (int slot = 1; slot < threads; ++slot) {
      others.emplace_back(work, argument, slot);
    }
    work(argument, 0);
    for (std::thread& other : others) {
      other.join();
    }
  }
};

/// Rows with columns and room around them, of which every output has a copy.
template <class T>
struct rows_of {
  std::int64_t rows, cols, stride;
  std::vector<T> elements;

  rows_of(std::int64_t rows_, std::int64_t cols_, T value)
      : rows(rows_),
        cols(cols_),
        stride(cols_ + 3),
        elements(static_cast<std::size_t>(rows_ * (cols_ + 3) + 1), value) {}

  T* row(std::int64_t r) { return elements.data() + 1 + r * stride; }
  matrix_ref ref() { return {row(0), dtype_of<T>, rows, cols, stride}; }
  const_matrix_ref const_ref() { return {row(0), dtype_of<T>, rows, cols, stride}; }

  friend bool operator==(const rows_of& a, const rows_of& b) {
    return std::memcmp(a.elements.data(), b.elements.data(), a.elements.size() * sizeof(T)) == 0;
  }
};

/// One row of each kind after the other: ordinary ones, and such as are not one exponential times
/// one factor.
template <class T>
rows_of<T> some_rows(std::int64_t rows, std::int64_t cols, unsigned first_kind) {
  rows_of<T> x(rows, cols, T(0));
  std::mt19937 random(static_cast<unsigned>(rows * 7 + cols) + first_kind);
  std::normal_distribution<float> normal(0, 3);
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (std::int64_t r = 0; r < rows; ++r) {
    T* const row = x.row(r);
    for (std::int64_t c = 0; c < cols; ++c) {
      row[c] = T(normal(random));
    }
    const std::int64_t at = cols / 3;
    switch ((static_cast<unsigned>(r) + first_kind) % 8) {
      case 1:
        row[at] = T(std::numeric_limits<float>::quiet_NaN());
        break;
      case 2:
        row[at] = T(inf);
        break;
      case 3:
        std::fill(row, row + cols, T(-inf));
        break;
      case 4:  // rises through many origins
        for (std::int64_t c = 0; c < cols; ++c) {
          row[c] = T(-250 + 500 * static_cast<float>(c) / static_cast<float>(cols));
        }
        break;
      case 5:  // far from zero
        for (std::int64_t c = 0; c < cols; ++c) {
          row[c] = T(20000 + static_cast<float>(row[c]));
        }
        break;
      default:
        break;
    }
  }
  return x;
}

struct shape_of_rows {
  std::int64_t rows, cols;
};
constexpr shape_of_rows shapes[] = {{1, 70001}, {2, 40000}, {5, 20001},
                                    {12, 9000}, {40, 1000}, {300, 50}};

using way = std::tuple<spread, second_pass, bool>;

way way_of(const executor& on, const const_matrix_ref& x, const matrix_ref& y) {
  const plan chosen = choose_plan(
      {.rows = x.rows,
       .cols = x.cols,
       .input_bytes = static_cast<std::int64_t>(size_of(x.type)),
       .output_bytes = static_cast<std::int64_t>(size_of(y.type)),
       .arithmetic_bytes = static_cast<std::int64_t>(size_of(core::arithmetic_type(x.type))),
       .in_place = x.data == y.data,
       .keeps = true},
      on.machine, on.threads, on.kernels);
  return {chosen.over, chosen.second, chosen.stream};
}

/// Every operation that writes rows, on a machine.
template <class In, class Out>
struct outcome {
  rows_of<Out> softmax, log_softmax, normalized, gradient, log_gradient;
  rows_of<In> in_place;
  std::set<way> ways;

  outcome(executor& on, rows_of<In>& x)
      : softmax(x.rows, x.cols, Out(-7)),
        log_softmax(softmax),
        normalized(softmax),
        gradient(softmax),
        log_gradient(softmax),
        in_place(x) {
    using core::operation;
    const auto map = [&](operation what, const const_matrix_ref& from, const matrix_ref& to) {
      ways.insert(way_of(on, from, to));
      host::run(on, core::checked_softmax(what, from, to, {.scale = 0.7}));
    };
    map(operation::softmax, x.const_ref(), softmax.ref());
    map(operation::log_softmax, x.const_ref(), log_softmax.ref());
    map(operation::softmax, in_place.const_ref(), in_place.ref());
    std::vector<max_sum<core::reference::arithmetic_t<In>>> states(
        static_cast<std::size_t>(x.rows));
    host::run(on, core::checked_fold(x.const_ref(), states, {.scale = 0.7}));
    host::run(on, core::checked_normalize(false, x.const_ref(), states, normalized.ref(),
                                          {.scale = 0.7}));
    host::run(on, core::checked_backward(false, x.const_ref(), x.const_ref(), gradient.ref(),
                                         {.scale = 0.7}));
    host::run(on, core::checked_backward(true, x.const_ref(), x.const_ref(), log_gradient.ref(),
                                         {.scale = 0.7}));
  }
};

}  // namespace

TEST_SUITE_BEGIN("machines");

TEST_CASE_TEMPLATE("the same bits on every machine", Io, std::pair<float, float>,
                   std::pair<bfloat16, bfloat16>, std::pair<bfloat16, float>,
                   std::pair<half, float>, std::pair<double, double>) {
  using In = typename Io::first_type;
  using Out = typename Io::second_type;
  constexpr std::size_t huge = std::size_t{1} << 40;
  std::set<way> ways;
  for (const kernel_table* table : each_isa()) {
    for (const shape_of_rows& shape : shapes) {
      for (const unsigned first_kind : {0U, 5U}) {
        rows_of<In> x = some_rows<In>(shape.rows, shape.cols, first_kind);
        other_machine one(huge, huge, *table, 1);
        const outcome<In, Out> expected(one, x);
        for (const std::size_t l2_bytes : {std::size_t{4} << 10, std::size_t{80} << 10, huge}) {
          for (const std::size_t l3_bytes : {std::size_t{0}, huge}) {
            for (const int threads : {1, 3}) {
              CAPTURE(std::string(table->isa));
              CAPTURE(shape.rows);
              CAPTURE(shape.cols);
              CAPTURE(first_kind);
              CAPTURE(l2_bytes);
              CAPTURE(l3_bytes);
              CAPTURE(threads);
              other_machine other(l2_bytes, l3_bytes, *table, threads);
              const outcome<In, Out> found(other, x);
              CHECK(found.softmax == expected.softmax);
              CHECK(found.log_softmax == expected.log_softmax);
              CHECK(found.in_place == expected.in_place);
              CHECK(found.normalized == expected.normalized);
              CHECK(found.gradient == expected.gradient);
              CHECK(found.log_gradient == expected.log_gradient);
              ways.insert(found.ways.begin(), found.ways.end());
            }
          }
        }
      }
    }
  }
  for (const spread over : {spread::serial, spread::rows, spread::segments}) {
    for (const second_pass second : {second_pass::scale_output, second_pass::scale_scratch,
                                     second_pass::scale_behind, second_pass::recompute}) {
      if (over == spread::segments &&  // tasks of one row share no scratch memory
          (second == second_pass::scale_scratch || second == second_pass::scale_behind)) {
        continue;
      }
      if (second == second_pass::scale_output && sizeof(Out) < sizeof(float)) {
        continue;  // the output cannot hold exponentials
      }
      CAPTURE(static_cast<int>(over));
      CAPTURE(static_cast<int>(second));
      if (second != second_pass::scale_behind) {
        CHECK(ways.count({over, second, false}) == 1);
      }
      if (second == second_pass::scale_behind || second == second_pass::recompute) {
        CHECK(ways.count({over, second, true}) == 1);
      }
    }
  }
}

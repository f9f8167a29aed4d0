// SPDX-License-Identifier: Apache-2.0
// One input matrix with what the oracle says about it, and for each operation a function that
// runs the library on it and checks everything: values, guards, and that the input is unchanged.
#pragma once

#include "bounds.hpp"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace softfold::test {

struct problem_spec {
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  distribution kind = distribution::normal;
  double scale = 1;
  std::int64_t padding = 0;
  std::int64_t offset = 0;
  std::uint64_t seed = 1;
};

inline std::string describe(const problem_spec& s) {
  std::ostringstream text;
  text << s.rows << " x " << s.cols << ", " << name_of(s.kind) << ", scale " << s.scale
       << ", padding " << s.padding << ", offset " << s.offset << ", seed " << s.seed;
  return text.str();
}

template <class In>
class problem {
 public:
  explicit problem(const problem_spec& s)
      : spec(s), x({s.rows, s.cols, s.padding, s.offset}, role::input) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      fill(s.kind, x.row(r), s.seed + static_cast<std::uint64_t>(r));
    }
    commit();
  }

  /// After a change of x: sends it to the device and asks the oracle again.
  void commit() {
    x.upload();
    rows.clear();
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      rows.emplace_back(x.row(r), spec.scale);
    }
  }

  [[nodiscard]] layout output_layout(std::int64_t cols) const {
    return {x.rows(), cols, spec.padding, spec.offset};
  }

  problem_spec spec;
  matrix<In> x;
  std::vector<row_oracle<In>> rows;
};

/// Rows enough for a GPU's plans to tell them from few, which ask for some to 16 times its
/// multiprocessors: a tenth of them on a processor, and on one that stands in for a GPU of four.
inline std::int64_t rows_for_gpus(std::int64_t rows) {
  static const std::string target = queue().info().isa;
  return target.starts_with("sm_") || target.starts_with("gfx") ? rows : rows / 10;
}

/// The verdicts of one call, each with its row.
inline void expect(const std::string& verdict, std::int64_t row, const problem_spec& spec) {
  CHECK_MESSAGE(verdict.empty(), "row " << row << ": " << verdict << "; " << describe(spec));
}

template <class In, class... Outputs>
void check_guards(problem<In>& p, Outputs&... outputs) {
  p.x.download();
  expect(p.x.untouched(), -1, p.spec);
  (expect(outputs.stray_writes(), -1, p.spec), ...);
}

template <class Out, class In>
void check_softmax(queue& q, problem<In>& p, empty_row policy = empty_row::nan) {
  INFO("softmax to " << name_of(dtype_of<Out>));
  matrix<Out> y(p.output_layout(p.x.cols()), role::output);
  softmax(q, p.x.view(), y.view(), {.scale = p.spec.scale, .empty_row = policy});
  q.wait();
  y.download();
  check_guards(p, y);
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    const auto& oracle = p.rows[static_cast<std::size_t>(r)];
    expect(oracle.check_softmax(std::span<const Out>(y.row(r)), policy), r, p.spec);
  }
}

template <class Out, class In>
void check_log_softmax(queue& q, problem<In>& p, empty_row policy = empty_row::nan) {
  INFO("log_softmax to " << name_of(dtype_of<Out>));
  matrix<Out> y(p.output_layout(p.x.cols()), role::output);
  log_softmax(q, p.x.view(), y.view(), {.scale = p.spec.scale, .empty_row = policy});
  q.wait();
  y.download();
  check_guards(p, y);
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    const auto& oracle = p.rows[static_cast<std::size_t>(r)];
    expect(oracle.check_log_softmax(std::span<const Out>(y.row(r)), policy), r, p.spec);
  }
}

template <class Out, class In>
void check_logsumexp(queue& q, problem<In>& p) {
  INFO("logsumexp to " << name_of(dtype_of<Out>));
  matrix<Out> lse({p.x.rows(), 1, 0, p.spec.offset}, role::output);
  logsumexp(q, p.x.view(), lse.vector(), {.scale = p.spec.scale});
  q.wait();
  lse.download();
  check_guards(p, lse);
  for (std::int64_t r = 0; r < lse.rows(); ++r) {
    expect(p.rows[static_cast<std::size_t>(r)].check_logsumexp(lse(r, 0)), r, p.spec);
  }
}

/// In place: the output is the input's own memory.
template <class In>
void check_in_place(queue& q, problem<In>& p, bool log) {
  INFO((log ? "log_softmax" : "softmax") << " in place");
  matrix<In> y(p.output_layout(p.x.cols()), role::output);
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    std::copy_n(p.x.row(r).begin(), p.x.cols(), y.row(r).begin());
  }
  y.upload();
  const softmax_options options{.scale = p.spec.scale};
  log ? log_softmax(q, y.view(), y.view(), options) : softmax(q, y.view(), y.view(), options);
  q.wait();
  y.download();
  expect(y.stray_writes(), -1, p.spec);
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    const auto& oracle = p.rows[static_cast<std::size_t>(r)];
    const std::span<const In> row = y.row(r);
    expect(log ? oracle.check_log_softmax(row, empty_row::nan)
               : oracle.check_softmax(row, empty_row::nan),
           r, p.spec);
  }
}

/// The one right list of columns of each row, for the largest k asked; a prefix serves any k.
template <class In>
std::vector<std::vector<std::int64_t>> expected_columns(const problem<In>& p, std::int64_t k) {
  std::vector<std::vector<std::int64_t>> columns;
  for (const auto& oracle : p.rows) {
    columns.push_back(reference::topk(oracle.elements(), static_cast<std::size_t>(k)));
  }
  return columns;
}

template <class Index>
std::string check_columns(std::span<const Index> found, std::span<const std::int64_t> expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (static_cast<std::int64_t>(found[i]) != expected[i]) {
      std::ostringstream text;
      text << "rank " << i << ": column " << found[i] << ", expected " << expected[i];
      return text.str();
    }
  }
  return {};
}

/// Selected values are elements of x, converted exactly: equal to the bit but for a NaN's.
template <class Out, class In>
std::string check_values(std::span<const Out> found, std::span<const In> row,
                         std::span<const std::int64_t> expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto value = reference::widen(found[i]);
    const auto element = reference::widen(row[static_cast<std::size_t>(expected[i])]);
    const bool same = std::isnan(element)
                          ? std::isnan(value)
                          : value == element && std::signbit(value) == std::signbit(element);
    if (!same) {
      std::ostringstream text;
      text << "rank " << i << ": value " << value << ", expected " << element;
      return text.str();
    }
  }
  return {};
}

template <class Out, class Index, class In>
void check_topk(queue& q, problem<In>& p, std::int64_t k,
                const std::vector<std::vector<std::int64_t>>& expected) {
  INFO("topk " << k << " to " << name_of(dtype_of<Out>) << " and " << name_of(dtype_of<Index>));
  matrix<Out> values(p.output_layout(k), role::output);
  matrix<Index> indices(p.output_layout(k), role::output);
  topk(q, p.x.view(), values.view(), indices.view());
  q.wait();
  values.download();
  indices.download();
  check_guards(p, values, indices);
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    const auto& columns = expected[static_cast<std::size_t>(r)];
    expect(check_columns(std::span<const Index>(indices.row(r)), columns), r, p.spec);
    expect(
        check_values(std::span<const Out>(values.row(r)), std::span<const In>(p.x.row(r)), columns),
        r, p.spec);
  }
}

/// With the optional outputs or without.
template <class Out, class Index, class In>
void check_softmax_topk(queue& q, problem<In>& p, std::int64_t k,
                        const std::vector<std::vector<std::int64_t>>& expected,
                        bool optional_outputs = true, empty_row policy = empty_row::nan) {
  INFO("softmax_topk " << k << " to " << name_of(dtype_of<Out>) << " and "
                       << name_of(dtype_of<Index>));
  matrix<Out> probabilities(p.output_layout(k), role::output);
  matrix<Index> indices(p.output_layout(k), role::output);
  matrix<Out> logits(p.output_layout(k), role::output);
  matrix<Out> lse({p.x.rows(), 1, 0, p.spec.offset}, role::output);
  softmax_topk_options options{.scale = p.spec.scale, .empty_row = policy};
  if (optional_outputs) {
    options.logits = logits.view();
    options.lse = lse.vector();
  }
  softmax_topk(q, p.x.view(), probabilities.view(), indices.view(), options);
  q.wait();
  probabilities.download();
  indices.download();
  logits.download();
  lse.download();
  check_guards(p, probabilities, indices, logits, lse);
  for (std::int64_t r = 0; r < p.x.rows(); ++r) {
    const auto& columns = expected[static_cast<std::size_t>(r)];
    const auto& oracle = p.rows[static_cast<std::size_t>(r)];
    expect(check_columns(std::span<const Index>(indices.row(r)), columns), r, p.spec);
    for (std::int64_t i = 0; i < k; ++i) {
      const auto column = static_cast<std::size_t>(columns[static_cast<std::size_t>(i)]);
      expect(oracle.check_probability(probabilities(r, i), column, policy), r, p.spec);
    }
    if (optional_outputs && k > 0) {
      expect(check_values(std::span<const Out>(logits.row(r)), std::span<const In>(p.x.row(r)),
                          columns),
             r, p.spec);
      expect(oracle.check_logsumexp(lse(r, 0)), r, p.spec);
    }
  }
}

/// Every operation on one problem.
template <class Out, class In>
void check_all(queue& q, problem<In>& p, std::int64_t k) {
  check_softmax<Out>(q, p);
  check_log_softmax<Out>(q, p);
  check_logsumexp<Out>(q, p);
  const auto columns = expected_columns(p, k);
  check_topk<Out, std::int32_t>(q, p, k, columns);
  check_softmax_topk<Out, std::int64_t>(q, p, k, columns);
}

}  // namespace softfold::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// What fold_sample, combine_sample and finish_sample do with a row.
#pragma once

#include <core/sample_parts.hpp>
#include <core/sample_state.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::core {

namespace sampling {

/// Columns begin to end of a row whose element of column c is row(c), in the arithmetic's type A,
/// by lanes that share memory: slots has a state for each, and slots[0] becomes theirs together.
/// Group as row_sampler's.
template <class A, class Group, class Row>
SOFTFOLD_HD void fold_columns(const Group& group, sample_state* slots, const Row& row,
                              const sample_state& empty, std::int64_t begin, std::int64_t end) {
  state_fold<A> own(empty);
  add_columns(own, noise_of(empty), row, begin, end, group.lane(), group.lanes());
  slots[group.lane()] = own.finished();
  for (int lanes = group.lanes(); lanes > 1; lanes = (lanes + 1) / 2) {
    group.sync();
    const int other = group.lane() + (lanes + 1) / 2;
    if (other < lanes) {
      combine(slots[group.lane()], slots[other]);
    }
  }
}

/// A row of a part; its first element has a column.
template <class T>
struct part_of_row {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const T* x;
  std::int64_t first;
  SOFTFOLD_HD A operator()(std::int64_t column) const { return static_cast<A>(x[column - first]); }
};

/// The state of row r, before any column.
template <class A>
SOFTFOLD_HD inline sample_state empty_state_of(const fold_sample_problem& p, std::int64_t r) {
  return empty_state<A>(parameters_of(p.options, r), p.options.draw, p.values.cols);
}

/// A row's list.
struct list_of_row {
  const_matrix_ref values;
  const_matrix_ref indices;
  std::int64_t r;

  SOFTFOLD_HD double x(std::int64_t i) const {
    return real_at<double>(values.data, values.type, r * values.stride + i);
  }
  SOFTFOLD_HD std::int64_t column(std::int64_t i) const {
    return integer_at(indices.data, indices.type, r * indices.stride + i);
  }
  SOFTFOLD_HD std::int64_t size() const {
    std::int64_t present = 0;
    while (present < values.cols && column(present) >= 0) {
      ++present;
    }
    return present;
  }
};

/// A row's results.
SOFTFOLD_HD inline void finish_sample_row(const finish_sample_problem& p, std::int64_t r) {
  const list_of_row list = {p.values, p.indices, r};
  const sample_finish row = finish(p.states.data[r], list);
  const finish_sample_options& o = p.options;
  write_integer(p.tokens.data, p.tokens.type, r, row.token);
  if (o.log_probability.data != nullptr) {
    write_result(o.log_probability.data, o.log_probability.type, r, row.log_probability);
  }
  if (o.raw_log_probability.data != nullptr) {
    write_result(o.raw_log_probability.data, o.raw_log_probability.type, r,
                 row.raw_log_probability);
  }
  if (o.lse.data != nullptr) {
    write_result(o.lse.data, o.lse.type, r, row.lse);
  }
  if (o.kept.data != nullptr) {
    write_integer(o.kept.data, o.kept.type, r, row.kept);
  }
  if (o.kept_mass.data != nullptr) {
    write_result(o.kept_mass.data, o.kept_mass.type, r, row.kept_mass);
  }
}

}  // namespace sampling

}  // namespace softfold::core

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The states of rows as a value in the host's memory: what is written to files, sent to other
/// processes, and combined there, whatever backend made it.
#pragma once

#include <softfold/softfold.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace softfold {

/// Columns begin, ..., end - 1 of a row.
struct column_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const column_range&, const column_range&) = default;
};

/// How a token is drawn from each row: fold_sample_options, in numbers for all rows. The seed is
/// that of every row, row r has offset `offset` + r.
struct row_sampling {
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::int64_t draw = 0;

  friend bool operator==(const row_sampling&, const row_sampling&) = default;
};

inline namespace SOFTFOLD_BACKEND {

/// For each row of a matrix: the state, and the sorted list of the k best elements of the columns
/// folded so far, and which columns these are, so that none is counted twice.
///
/// Arithmetic runs on the queue that a function is given; functions wait for it. A function that
/// throws leaves the states as they were. Errors name the argument, its value and what was
/// expected.
class SOFTFOLD_API row_states {
 public:
  /// The states of no columns. `type`, f32 or f64, is the arithmetic's, k >= 0 the length of the
  /// lists. The scale is first rounded to the type and must be finite there. With
  /// numerics::reproducible states are exact_max_sum, whatever the queues' numerics are: parts that
  /// meet at multiples of 8 columns give the whole row's bits; else max_sum.
  row_states(dtype type, std::int64_t rows, std::int64_t k, double scale = 1,
             softfold::numerics numerics = softfold::numerics::fast);

  /// The same with sample_states, from which finish_sample() draws. top_k is at most k; columns are
  /// below 2^31 - 1.
  row_states(dtype type, std::int64_t rows, std::int64_t k, double scale,
             const row_sampling& sampling, softfold::numerics numerics = softfold::numerics::fast);

  [[nodiscard]] dtype type() const noexcept { return type_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t k() const noexcept { return k_; }
  [[nodiscard]] double scale() const noexcept { return scale_; }
  [[nodiscard]] softfold::numerics numerics() const noexcept { return numerics_; }
  /// The columns folded so far: ranges in order that neither meet nor overlap.
  [[nodiscard]] std::span<const column_range> columns() const noexcept { return columns_; }
  /// How many these are.
  [[nodiscard]] std::int64_t column_count() const noexcept;

  /// The states [rows] and the lists [rows, k], in the host's memory: values of type(), i64
  /// indices. See fold_topk. Valid until the states change.
  [[nodiscard]] const_partials_ref partials() const noexcept;
  [[nodiscard]] const_matrix_ref values() const noexcept;
  [[nodiscard]] const_matrix_ref indices() const noexcept;

  /// How tokens are drawn, if they are. After append_rows the seed and offset are those of the
  /// first rows.
  [[nodiscard]] const std::optional<row_sampling>& sampling() const noexcept { return sampling_; }
  /// The states of sampling, [rows] or none, in the host's memory. Valid until the states change.
  [[nodiscard]] const_sample_states_ref samples() const noexcept;

  /// Adds columns column_offset, ..., column_offset + x_part.cols - 1 of every row. x_part is
  /// [rows, any], in memory of the queue's device, of type f64 where type() is f64, of f32, f16 or
  /// bf16 where it is f32. `edits` are those of x_part; elements that they remove are in no list.
  /// Throws error(invalid_argument) if one of the columns was folded before.
  void fold(queue& q, const_matrix_ref x_part, std::int64_t column_offset,
            const row_edits& edits = {});

  /// Adds the states of other columns of the same rows: of the same type, rows, k, scale and
  /// numerics, and if tokens are drawn, with the same row_sampling and every row's seed and offset.
  /// Throws error(invalid_argument) if one of the columns is in both.
  void combine(queue& q, const row_states& more);

  /// Adds rows below the present ones: states of the same type, k, scale, numerics and columns, and
  /// of the same row_sampling but for seed and offset, which each row keeps.
  void append_rows(const row_states& more);

  /// The logsumexp of each row, [rows], and the probabilities of its list, [rows, k], both of
  /// type() and in the host's memory, over the columns folded so far. An output without data is
  /// not wanted. Absent entries get 0 where the scale is not negative.
  void finish(queue& q, vector_ref lse, matrix_ref probabilities = {},
              softfold::empty_row policy = softfold::empty_row::nan) const;

  /// The token of each row, [rows], i32 or i64, and what else is wanted of finish_sample(), over
  /// the columns folded so far, all in the host's memory. Throws error(invalid_argument) for states
  /// without sampling.
  void finish_sample(queue& q, vector_ref tokens, const finish_sample_options& options = {}) const;

  /// The states in the byte format of docs/state_format.md, which is the same on every machine.
  [[nodiscard]] std::vector<std::byte> to_bytes() const;
  /// How many bytes these are.
  [[nodiscard]] std::size_t byte_count() const noexcept;

  /// The states that to_bytes() wrote, here or elsewhere. Reads nothing past the end of `bytes`
  /// and allocates no more than a small multiple of their number. Throws error(invalid_data) if
  /// they are not such states, whole, unaltered and of a version that this library reads. That is
  /// found by a CRC-32 and by checks of the content, which is protection against accidents, not
  /// against malice.
  [[nodiscard]] static row_states from_bytes(std::span<const std::byte> bytes);

 private:
  dtype type_;
  std::int64_t rows_;
  std::int64_t k_;
  double scale_;
  softfold::numerics numerics_;
  std::optional<row_sampling> sampling_;
  std::vector<column_range> columns_;
  std::vector<std::byte> partials_;
  std::vector<std::byte> values_;
  std::vector<std::byte> indices_;
  std::vector<sample_state> samples_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

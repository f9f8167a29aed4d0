// SPDX-License-Identifier: Apache-2.0
/// \file
/// The k best elements of a row.
///
/// The first pass keeps the maxima of groups of elements. The k-th largest group maximum is a
/// lower bound of the k-th largest element, so only groups that reach it are looked at again,
/// and about 8 k elements at most remain to be ordered, whatever the order of the row and however
/// many elements are equal.
#pragma once

#include <backends/host/row/state.hpp>

#include <softfold/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// Columns whose group maxima are kept at a time; longer rows are worked on in chunks.
inline constexpr std::int64_t chunk_columns = 32 * segment_columns;

/// The k best elements of what a row showed so far, and the memory to find them. k >= 1.
class selection {
 public:
  /// Bytes of memory that a selection needs.
  static std::size_t bytes(std::int64_t cols, std::int64_t k, std::int64_t lanes, dtype computed);

  /// memory: bytes(cols, k, lanes, kernels.computed) bytes, aligned to a cache line.
  selection(const typed_kernels& kernels, std::int64_t lanes, std::int64_t cols, std::int64_t k,
            std::byte* memory);

  /// Where the first pass writes the group maxima of a chunk: those of segment i of the chunk
  /// start i * groups_per_segment() values in.
  [[nodiscard]] void* groups() const { return groups_; }
  [[nodiscard]] std::int64_t groups_per_segment() const { return segment_columns / group_vectors; }

  /// Takes the best of x[0, n), a chunk without NaN that starts at `column`, given its group
  /// maxima.
  void take_chunk(const void* x, std::int64_t n, std::int64_t column);

  /// Takes the best of a row of any content, without group maxima.
  void take_any_row(const void* x, std::int64_t n);

  /// Orders what was taken of the row x. Then values()[i] and columns()[i], 0 <= i < k, are the
  /// result; values are of the arithmetic's type, NaN canonical.
  void finish(const void* x);
  [[nodiscard]] void* values() const { return values_; }
  [[nodiscard]] const std::int64_t* columns() const { return columns_; }

 private:
  double threshold(std::int64_t group_count);
  template <class A>
  void take_any(const void* x, std::int64_t n);
  template <class A>
  void finish_as(const void* x);
  template <class A>
  void keep_best(bool in_order);
  template <class A, class Entry>
  void keep_best_by(bool in_order);
  template <class Entry>
  Entry keep_first(Entry* entries, std::int64_t n);
  template <class Entry>
  Entry* sorted(Entry* entries, std::int64_t n, bool in_columns);

  const typed_kernels& kernels_;
  std::int64_t lanes_;
  std::int64_t k_;
  std::int64_t cols_;
  std::int64_t capacity_;
  std::int64_t count_ = 0;
  std::uint64_t least_ = 0;  ///< key of the k-th best so far; 0, which no element has, before
  void* groups_;
  void* coarse_;
  void* values_;
  std::int64_t* columns_;
  std::byte* keys_;
  std::byte* more_keys_;  ///< where a sort moves them to
};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

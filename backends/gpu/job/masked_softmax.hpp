// SPDX-License-Identifier: Apache-2.0
/// \file
/// The softmax's jobs on rows of which a mask, lengths, a corner or a window remove elements: these
/// become -infinity in the registers of who reads them, and what is removed by whole vectors is not
/// read. Only for plain rows, so that there is one kernel more of each plan; of others, and of what
/// other edits give, core/edited.hpp makes a copy first. The bits are the copy's.
#pragma once

#include <gpu/job/softmax.hpp>
#include <gpu/row/masked_tile.hpp>

#include <core/edits.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In>
struct masked_softmax_fold : softmax_fold<In> {
  using whole = softmax_fold<In>;
  static constexpr bool only_plain = true;

  row_removals removals;

  static masked_softmax_fold of(const whole& fold, const core::edits& edits) {
    return {fold, row_removals::of(edits)};
  }
  [[nodiscard]] masked_softmax_fold part(std::int64_t first, std::int64_t rows) const {
    return {whole::part(first, rows), removals.from(first)};
  }

  template <int V, bool = true>
  using held = masked_tile<In, V>;
  template <int V, bool = true>
  [[nodiscard]] __device__ held<V> hold(std::int64_t row, const vector_range<In>& range, int first,
                                        int step) const {
    return {range, first, step, kept(row, range)};
  }
  [[nodiscard]] __device__ kept_columns kept(std::int64_t row,
                                             const vector_range<In>& range) const {
    return removals.of_row(row, range.base - this->source.row(row), this->source.cols);
  }
  template <int V>
  __device__ static void edit(masked_tile<In, V>& own) {
    own.remove();
  }
};

/// Calls body with the fold of x's rows, with their edits if there are any.
template <class In, class Body>
void with_fold(const core::edits& edits, const const_matrix_ref& x, double scale,
               const Body& body) {
  const auto fold = softmax_fold<In>::of(x, scale);
  if constexpr (sizeof(In) <= 4) {
    if (edits.any()) {
      return body(masked_softmax_fold<In>::of(fold, edits));
    }
  }
  body(fold);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

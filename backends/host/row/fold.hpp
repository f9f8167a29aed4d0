// SPDX-License-Identifier: Apache-2.0
/// \file
/// The first pass over one row, whatever it holds.
#pragma once

#include <backends/host/parallel.hpp>
#include <backends/host/row/state.hpp>

#include <atomic>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// Folds one row segment by segment; the segments may be folded by different threads.
class row_fold {
 public:
  /// A row of n columns. `segments` has room for segments_of(n) states; `kept` is where the
  /// exponentials of the whole row go, if anywhere.
  row_fold(const typed_kernels& kernels, const void* x, std::int64_t n, double scale,
           segment_state* segments, kept_row kept)
      : kernels_(kernels),
        x_(x),
        n_(n),
        scale_(scale),
        segments_(segments),
        kept_(kept),
        ordinary_(ordinary_scale(scale)) {}

  /// Folds a segment; `groups`, or null, is where its group maxima go. Returns whether they did.
  bool fold(std::int64_t segment, void* groups = nullptr) {
    if (!ordinary_.load(std::memory_order_relaxed)) {
      return false;
    }
    const column_range columns = columns_of(segment, n_);
    if (kernels_.input.fold(kernels_.at(x_, columns.begin), columns.count, scale_,
                            kept_from(columns.begin), groups, &segments_[segment])) {
      return true;
    }
    ordinary_.store(false, std::memory_order_relaxed);
    return false;
  }

  /// Folds a segment while the same segment of another row, whose kept exponentials are e, is
  /// multiplied by the factor and streamed to y.
  void fold_and_stream(std::int64_t segment, const void* e, double factor, void* y) {
    const column_range columns = columns_of(segment, n_);
    if (!ordinary_.load(std::memory_order_relaxed)) {
      kernels_.output.scaled(e, columns.count, factor, {y, true});
      return;
    }
    if (!kernels_.output.fold_and_stream(kernels_.at(x_, columns.begin), columns.count, scale_,
                                         kept_from(columns.begin), &segments_[segment], e, factor,
                                         y)) {
      ordinary_.store(false, std::memory_order_relaxed);
    }
  }

  /// For a row that is known to need the careful way.
  void give_up() { ordinary_ = false; }

  /// The row's state, after every segment was folded, or after giving up.
  [[nodiscard]] row_state state() const {
    return ordinary_ ? combine_segments(segments_, segments_of(n_), scale_, kernels_.computed)
                     : careful_state(kernels_, x_, n_, scale_);
  }

  /// The kept exponentials of a segment if they are relative to the row's origin, else null.
  [[nodiscard]] const void* kept(std::int64_t segment, const row_state& row) const {
    const bool usable = kept_.to != nullptr && ordinary_ && segments_[segment].one_origin &&
                        segments_[segment].origin == row.e.origin;
    return usable ? kernels_.computed_at(kept_.to, columns_of(segment, n_).begin) : nullptr;
  }

 private:
  [[nodiscard]] kept_row kept_from(std::int64_t column) const {
    return kept_.to == nullptr
               ? kept_row{}
               : kept_row{kernels_.computed_at(kept_.to, column), kept_.ahead_to_l2};
  }

  const typed_kernels& kernels_;
  const void* x_;
  std::int64_t n_;
  double scale_;
  segment_state* segments_;
  kept_row kept_;
  std::atomic<bool> ordinary_;
};

/// The state of a row, by one pass over it.
inline row_state state_of_row(executor& on, const plan& plan, const typed_kernels& kernels,
                              const void* x, std::int64_t n, double scale,
                              segment_state* segments) {
  row_fold row(kernels, x, n, scale, segments, {});
  over_segments(on, plan, n, [&](std::int64_t segment) { row.fold(segment); });
  return row.state();
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

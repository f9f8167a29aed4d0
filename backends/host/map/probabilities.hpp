// SPDX-License-Identifier: Apache-2.0
/// \file
/// The sink of softmax, log-softmax and their second pass over parts: each element to its
/// probability, or the logarithm of it, given the row's state.
#pragma once

#include <backends/host/row/source.hpp>

#include <new>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// What is wanted of rows.
struct probabilities {
  matrix_ref y;
  empty_row policy;
  bool log;
};

/// The same of one row.
class row_probabilities {
 public:
  row_probabilities(const source& from, const probabilities& to, std::int64_t r, bool stream)
      : from_(from),
        to_(to),
        x_(from.row(r)),
        y_(from.kernels.result_at(to.y.data, r * to.y.stride)),
        stream_(stream) {}

  /// The row's state, which `find` returns, before anything is written. It is made where it stays:
  /// a copy of what was just written would wait until all stores before it have left the processor,
  /// those past the caches too.
  template <class Find>
  void set(const Find& find) {
    static_assert(std::is_trivially_destructible_v<row_state>);
    ::new (&row_) row_state(find());
    if (to_.log && row_.what == row_state::kind::ordinary) {
      lse_ = log_of(row_, from_.kernels.computed);
    }
  }
  [[nodiscard]] const row_state& state() const { return row_; }
  /// What exponentials relative to the row's origin are multiplied by.
  [[nodiscard]] double factor() const { return 1 / row_.sum; }
  [[nodiscard]] void* y() const { return y_; }

  /// Writes the columns of a segment, from kept exponentials if they are not null.
  void write(std::int64_t segment, const void* kept = nullptr) const {
    const typed_kernels& kernels = from_.kernels;
    const auto [begin, count] = columns_of(segment, from_.x.cols);
    const void* const x = kernels.at(x_, begin);
    const destination to{kernels.result_at(y_, begin), stream_};
    if (row_.what != row_state::kind::ordinary) {
      fill(kernels, to.data, count, fill_value(row_.what, to_.policy, to_.log));
    } else if (to_.log) {
      kernels.output.log_probabilities(x, count, &row_.e, lse_.high, lse_.low, to);
    } else if (kept != nullptr) {
      kernels.output.scaled(kept, count, factor(), to);
    } else {
      kernels.output.probabilities(x, count, &row_.e, factor(), to);
    }
  }

 private:
  const source& from_;
  const probabilities& to_;
  const void* x_;
  void* y_;
  bool stream_;
  row_state row_;
  split_number lse_{};
};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The race for a row's largest key. An element can beat a key K only if its top 16 random bits b
/// fulfil b 2^-16 < exp(-K) w, w its exponential, for E is at least u. So f32 exponentials and 16
/// bits tell the few elements whose keys are worth computing.
#pragma once

#include <backends/host/parallel.hpp>
#include <backends/host/sampling/row_view.hpp>

#include <core/sampling.hpp>

#include <atomic>
#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// How e(x) of some elements, 2^-origin exp(z) by frame, compares with exp(z).
struct race_frame {
  host::frame e;
  double log_unit = 0;  ///< log(exp(z) / e(x))
};

/// The race of a part of a row.
struct part_result {
  core::sampling::runner best;
  /// Every element whose key is larger has run.
  double complete_above = -std::numeric_limits<double>::infinity();
};

class row_race {
 public:
  row_race(const row_view& row, double scale, const core::sampling::noise& noise,
           const core::sampling::kept_elements& kept);

  /// Every element of a segment whose key may be above the threshold runs.
  [[nodiscard]] part_result run(std::int64_t segment, const race_frame& frame,
                                double threshold) const;
  /// The same along with the segment's fold; false if the row is not for it.
  [[nodiscard]] bool fold_and_run(std::int64_t segment, double threshold, segment_state& state,
                                  part_result& result) const;

 private:
  [[nodiscard]] race_state start(double threshold, double log_unit) const;

  const row_view& row_;
  race_state race_;
};

inline void raise(std::atomic<double>& to, double value) {
  double now = to.load(std::memory_order_relaxed);
  while (value > now && !to.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

/// The winner of a whole row whose elements all have e(x) by one frame. Keys are expected to be
/// above `guess`, the logarithm of the mass that races less some.
core::sampling::runner winner_of(executor& on, const plan& plan, const row_view& row,
                                 const row_race& race, const race_frame& frame, double guess,
                                 part_result* parts);

/// A winner below log(mass) - this is found by a second look. Its probability is exp(-8).
inline constexpr double guess_depth = 2.0794415416798357;

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

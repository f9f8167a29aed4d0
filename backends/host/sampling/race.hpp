// SPDX-License-Identifier: Apache-2.0
/// \file
/// The race for a row's largest key, among the elements that filters keep.
#pragma once

#include <backends/host/parallel.hpp>
#include <backends/host/sampling/entry_list.hpp>
#include <backends/host/sampling/row_view.hpp>

#include <core/sampling.hpp>

#include <cstdint>
#include <optional>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

class row_race {
 public:
  row_race(const row_view& row, double scale, const first_part& kept);

  /// The winner, if an element exists that is kept; nothing if the row, of which nothing is known,
  /// has a NaN or an infinite z. `parts`: one for each segment.
  [[nodiscard]] std::optional<core::sampling::runner> winner(executor& on, const plan& plan,
                                                             const core::sampling::noise& noise,
                                                             core::sampling::runner* parts) const;

 private:
  const row_view& row_;
  race_state start_;
};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

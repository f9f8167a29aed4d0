// SPDX-License-Identifier: Apache-2.0
/// \file
/// How a row's tokens are found: by as few reads as its filters and the wanted results allow.
#pragma once

#include <gpu/topk/span_lists.hpp>

#include <core/sample_problem.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

enum class sample_way : std::uint8_t {
  race,    ///< no filter: chunks of the row race
  list,    ///< few first elements are kept, which top-k finds
  stairs,  ///< chunks of the row give what may win for some cut
  rounds,  ///< for many draws: a race, and others until the filters keep the winner
  row,     ///< the filters' cut is searched first
};

/// The ways that a call offers its rows; each takes the first that does.
struct sample_ways {
  /// Elements that a list has at most; a row with a larger k goes another way.
  static constexpr int most_listed = 64;
  /// A race reads its row for each draw.
  static constexpr std::int64_t most_draws_raced = 4;

  /// Elements are counted in 32 bits, and up to a step of what stands for more behind the row.
  static constexpr std::int64_t most_raced = (std::int64_t{1} << 32) - (1 << 14);

  bool by_row;       ///< all rows: f64, or too long
  bool is_wide;      ///< f64
  bool wants_kept;   ///< how many elements are kept, or their mass
  bool wants_share;  ///< and of what is not
  bool few_draws;
  filter_order order;
  std::int64_t cols;
  int listed;  ///< elements of the lists, 0: there are none
  core::sampling::parameters common;
  bool alike;  ///< all rows have the common parameters

  static sample_ways of(const core::sample_problem& p) {
    const sample_options& o = p.options;
    // Whoever gives each row its k as a rule has few for some.
    const std::int64_t k = o.top_ks.data != nullptr ? most_listed : o.top_k;
    const bool lists = p.x.type != dtype::f64 && k > 0 && k <= most_listed && k < p.x.cols &&
                       o.kept_mass.data == nullptr;
    return {
        .by_row = p.x.type == dtype::f64 || p.x.cols > most_raced,
        .is_wide = p.x.type == dtype::f64,
        .wants_kept = o.log_probability.data != nullptr || o.kept.data != nullptr,
        .wants_share = o.kept_mass.data != nullptr,
        .few_draws = p.tokens.cols <= most_draws_raced,
        .order = o.order,
        .cols = p.x.cols,
        .listed = lists ? static_cast<int>(k) : 0,
        .common = {.temperature = o.temperature,
                   .top_p = o.top_p,
                   .min_p = o.min_p,
                   .top_k = o.top_k},
        .alike = o.temperatures.data == nullptr && o.top_ks.data == nullptr &&
                 o.top_ps.data == nullptr && o.min_ps.data == nullptr,
    };
  }

  /// The way of a row with these parameters.
  [[nodiscard]] SOFTFOLD_HD sample_way way_of(const core::sampling::parameters& row) const {
    const bool valid =
        is_wide ? core::sampling::are_valid<double>(row) : core::sampling::are_valid<float>(row);
    if (!valid) {
      return sample_way::row;
    }
    const bool cuts_k = row.top_k > 0 && row.top_k < cols;
    const bool cuts_p = row.top_p < 1;
    const bool keeps_all = row.temperature == 0 || (!cuts_k && !cuts_p && row.min_p == 0);
    if (!by_row && keeps_all && !wants_share && few_draws) {
      return sample_way::race;
    }
    if (cuts_k && row.top_k <= listed && !(cuts_p && order == filter_order::joint)) {
      return sample_way::list;
    }
    // The mass that top-p is a share of is not known without the cut of top-k.
    const bool depends = cuts_k && cuts_p && order == filter_order::top_k_first;
    return by_row || depends || (wants_kept && !keeps_all) || wants_share ? sample_way::row
           : few_draws                                                    ? sample_way::stairs
                                                                          : sample_way::rounds;
  }
  /// Whether rows may go one way.
  [[nodiscard]] bool may_go(sample_way by) const {
    return alike                      ? way_of(common) == by
           : by == sample_way::row    ? true
           : by == sample_way::list   ? listed > 0
           : by == sample_way::rounds ? !by_row && !few_draws
                                      : !by_row && few_draws;
  }
};

/// The first elements of each row, if some rows' tokens are among them: in order, or those of its
/// spans.
struct sample_lists {
  matrix_ref values = {};
  matrix_ref columns = {};
  span_lists spans = {};
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

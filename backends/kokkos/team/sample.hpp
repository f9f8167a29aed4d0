// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample and fold_sample of a row, and verify by ratio of a chain, by a team; otherwise by a
/// thread.
#pragma once

#include "lanes.hpp"

#include <core/sample_parts_row.hpp>
#include <core/sample_row.hpp>
#include <core/verify_row.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

namespace sampling = core::sampling;

template <class T>
struct sample_rows {
  static constexpr int shared_bytes = sizeof(sampling::row_memory);
  core::sample_problem p;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    using row_of = sampling::row_of<T>;
    const row_of row{static_cast<const T*>(p.x.data) + r * p.x.stride};
    auto& memory = *static_cast<sampling::row_memory*>(lanes.memory);
    sampling::row_sampler<typename row_of::A, Lanes, row_of>(lanes, memory, row, p, r).run();
  }
};

template <class T>
struct fold_sample_rows {
  static constexpr int shared_bytes = most_lanes * static_cast<int>(sizeof(sample_state));
  core::fold_sample_problem p;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    using row_of = sampling::part_of_row<T>;
    using A = typename row_of::A;
    auto* const slots = static_cast<sample_state*>(lanes.memory);
    const row_of row{static_cast<const T*>(p.x.data) + r * p.x.stride, p.options.column_offset};
    sampling::fold_columns<A>(lanes, slots, row, sampling::empty_state_of<A>(p, r), row.first,
                              row.first + p.x.cols);
    if (lanes.lane() == 0) {
      p.states.data[r] = slots[0];
    }
  }
};

template <class T>
struct verify_chains_by_ratio {
  static constexpr int shared_bytes = sizeof(sampling::row_memory);
  core::ratio_problem p;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t chain) const {
    auto& memory = *static_cast<sampling::row_memory*>(lanes.memory);
    const auto targets = sampling::rows_in<T>(p.sampling.x);
    const auto drafts = sampling::rows_in<T>(p.draft);
    sampling::ratio_chain<core::arithmetic_t<T>, Lanes, sampling::rows_of<T>>(
        lanes, memory, targets, drafts, p, chain)
        .run();
  }
};

struct combine_sample_states {
  core::combine_sample_problem p;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    sampling::combine(p.states.data[r], p.more.data[r]);
  }
};

struct finish_sample_states {
  core::finish_sample_problem p;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const { sampling::finish_sample_row(p, r); }
};

struct verify_coupled_chains {
  core::coupled_problem p;
  KOKKOS_FUNCTION void operator()(std::int64_t chain) const { sampling::verify_coupled(p, chain); }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

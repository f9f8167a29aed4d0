// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax and log-softmax to the bits of core/reproducible.hpp as a job of rows that registers
/// hold: of f32 arithmetic and a scale above 0.
#pragma once

#include <gpu/job/softmax.hpp>
#include <gpu/reproducible/maps.hpp>
#include <gpu/reproducible/tiled_rows.hpp>
#include <gpu/reproducible/totals.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// `plain`: as tiled_rows, of x and of y. `keep`: softmax's terms are kept between the looks, else
/// computed again, which takes fewer registers.
template <map_operation op, class In, bool plain, bool keep>
struct total_map : tiled_rows<In, plain> {
  using base = tiled_rows<In, plain>;
  using base::scale;
  using base::source;
  using base::width;
  using element = In;
  using total = core::reproducible::row_total<float>;
  static constexpr bool log = op == map_operation::log_softmax;
  template <int V>
  using held = typename base::template held<V>;

  static constexpr bool keeps = keep && !log;
  /// Whether there are kernels for rows of lanes, or a block with 4 vectors a thread; and for
  /// longer ones.
  static constexpr bool has_short = log || keep;
  static constexpr bool has_long = !(width == 8 && (plain ? keeps : log));
  /// Whether short rows that are no whole sectors are put together before they are written.
  static constexpr bool stages = !plain;

  In* y;
  std::int64_t y_stride;
  bool empty_is_zero;

  /// The calling warp's part of `cols` columns of a row from `first` on.
  template <int lanes, int V>
  [[nodiscard]] __device__ held<V> hold_part(std::int64_t row, std::int64_t first, int cols) const {
    return this->template hold<V>(row, first, cols, static_cast<int>(threadIdx.x) / lanes,
                                  base::template warp_columns<lanes, V>, lanes);
  }

  template <int lanes, int V>
  __device__ total_state fold(held<V>& own, int count) const {
    return own.template total<lanes>(scale, count);
  }
  /// Rows far from 0 are folded a second time, when their largest element is known.
  [[nodiscard]] __device__ bool is_far(float largest) const {
    return is_ordinary(largest) && core::reproducible::frame<float>::of(scale, largest).is_far;
  }
  /// The same of elements that are read again, by core/reproducible.hpp's own code; what was held
  /// is dropped. Of a row near 0 it is what it was.
  template <int V>
  __device__ total_state fold_again(held<V>& own, int count, float largest) const {
    const auto& range = own.range();
    total_state state;
    state.largest = largest;
    if (is_ordinary(largest)) {
      add_plainly(row_reader<In>::of(range.base + range.head, range.end - range.head),
                  core::reproducible::frame<float>::of(scale, largest), largest,
                  std::int64_t{own.number(0)} * block_columns, std::int64_t{count} * block_columns,
                  state.sum);
    }
    own.drop();
    return combine_over_lanes(count, total_monoid(), [&](const auto& f) { f(state); });
  }

  /// What the results do not need, quotients of f64 and a logarithm, is not computed.
  [[nodiscard]] __device__ total total_of(const total_state& whole) const {
    total row = total::of(scale, whole.largest, whole.sum);
    if constexpr (log) {
      row.n = row.high = row.low = 0;
    } else {
      row.log_high = row.log_low = 0;
    }
    row.lse = 0;
    return row;
  }

  /// `to` corresponds to the base of what is held, in global memory if `global`; `dropped`: of what
  /// was held.
  template <bool global, int V>
  __device__ void write(const held<V>& own, In* to, const total& row, bool dropped) const {
    if (row.kind != core::reproducible::row_kind::ordinary) {
      const block16 same = repeated(result_of_row<log, In>(row, empty_is_zero));
      own.template store<global, true>(to, [&](int, int) { return same; });
    } else if (dropped) {
      map_plainly<V>(own.range(), own.number(0), own.step(), to,
                     [&](float x) { return log ? row.log_softmax(x) : row.softmax(x); });
    } else if constexpr (keeps) {
      write_terms<global>(own, to, row);
    } else {
      const near_function<log, false> of(row);
      const near_function<log, !plain> of_scaled(row);
      own.template store<global, true>(to, [&](int j, int part) {
        return !plain && scale != 1 ? own.template values<false, In>(j, part, of_scaled)
                                    : own.template values<false, In>(j, part, of);
      });
    }
  }

 private:
  [[nodiscard]] __device__ bool is_ordinary(float largest) const {
    return total::kind_of(scale, largest) == core::reproducible::row_kind::ordinary;
  }
  /// Terms times a power of two, which changes nothing, are those of the row's results.
  template <bool global, int V>
  __device__ static void write_terms(held<V> own, In* to, const total& row) {
    using format = core::reproducible::format<float>;
    auto power = static_cast<std::int32_t>(
        static_cast<float>(32 * own.anchor() - format::raised + total::spare_power) - row.n);
    // Part of a row may be so far below the rest that one factor is not enough.
    constexpr int step = 64;
    for (int i = 0; i < 4 && power < -100; ++i) {
      own.multiply(0x1p-64F);
      power += step;
    }
    const float factor = power < -100 ? 0.0F : core::reproducible::times_power(1.0F, power);
    // In the row's numbers where they stay normal, that is exact, else in all terms.
    constexpr float least_normal = 0x1p-126F;
    float high = row.high;
    float low = row.low;
    if (fabsf(core::reproducible::product(low, factor)) >= least_normal) {
      high = core::reproducible::product(high, factor);
      low = core::reproducible::product(low, factor);
    } else {
      own.multiply(factor);
    }
    own.template store<global, true>(to, [&](int j, int part) {
      return packed<In>([&](int i) {
        const float w = own.term(j, part * vector_width<In> + i);
        return fmaf(w, high, core::reproducible::product(w, low));
      });
    });
  }
};

/// Threads of a block with V vectors each that holds a row or a part of one, at most.
template <class Job, int V>
inline constexpr int most_sharers = V == 4                         ? (Job::is_plain ? 320 : 384)
                                    : !Job::keeps && Job::is_plain ? 512
                                    : Job::width == 8              ? 256
                                                                   : 384;
/// Such blocks on a multiprocessor.
template <class Job, int V>
inline constexpr int resident_sharers = V == 4 && Job::is_plain ? 3 : 2;

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

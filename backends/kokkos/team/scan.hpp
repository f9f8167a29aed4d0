// SPDX-License-Identifier: Apache-2.0
/// \file
/// scan: chunks of rows are folded, a thread a row makes of their states what comes before each,
/// and chunks are scanned from there.
#pragma once

#include "fold.hpp"

#include <core/scan_state.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// Elements of a thread.
inline constexpr int scan_chunk_elements = 512;

template <class In>
using scan_rows = core::scan_rows<In, scan_chunk_elements>;

template <class In>
struct fold_scan_chunks {
  scan_rows<In> rows;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    using monoid = typename scan_rows<In>::monoid;
    const std::int64_t row = i / rows.chunks;
    const std::int64_t chunk = i - row * rows.chunks;
    auto own = monoid::identity();
    for (std::int64_t c = chunk * scan_chunk_elements; c < rows.end_of(chunk); ++c) {
      own = monoid::combine(own, rows.state_of(rows.element(row, c)));
    }
    rows.carries_of(row)[chunk + 1] = own;
  }
};

template <class In>
struct carry_scan_chunks {
  using A = arithmetic_t<In>;
  scan_rows<In> rows;
  const max_sum<A>* carry_in;
  max_sum<A>* carry_out;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    using monoid = typename scan_rows<In>::monoid;
    auto* const carries = rows.carries_of(row);
    auto before = carry_in == nullptr ? monoid::identity() : monoid::value_type::of(carry_in[row]);
    carries[0] = before;
    for (std::int64_t i = 1; i <= rows.chunks; ++i) {
      before = monoid::combine(before, carries[i]);
      carries[i] = before;
    }
    if (carry_out != nullptr) {
      carry_out[row] = before.partial();
    }
  }
};

template <class In, class Out>
struct scan_chunks {
  scan_rows<In> rows;
  Out* y;
  std::int64_t y_stride;
  bool exclusive;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    using monoid = typename scan_rows<In>::monoid;
    const std::int64_t row = i / rows.chunks;
    const std::int64_t chunk = i - row * rows.chunks;
    const auto* const carries = rows.carries_of(row) + chunk;
    const std::int64_t end = rows.end_of(chunk);
    auto state = carries[0];
    auto before = state.logsumexp();
    for (std::int64_t c = chunk * scan_chunk_elements; c < end; ++c) {
      state = monoid::combine(state, rows.state_of(rows.element(row, c)));
      // The last inclusive result is that of the state the next chunk begins with, so that
      // exclusive results are the same numbers.
      const auto log = c == end - 1 ? carries[1].logsumexp() : state.logsumexp();
      y[row * y_stride + rows.column(c)] = narrow<Out>(exclusive ? before : log);
      before = log;
    }
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Edits of rows, and what their lists need after them: see core/edited.hpp.
#include <gpu/contract.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/typed.hpp>

#include <core/edits.hpp>
#include <core/real_types.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

constexpr int threads = 256;

/// Consecutive columns of a thread: they share its row's parameters, and divide 32, a mask's word.
constexpr int columns_each = 4;

/// Rows of one matrix to those of another, by threads of some columns each.
template <class From, class To>
struct row_copy {
  const From* from;
  std::int64_t from_stride;
  To* to;
  std::int64_t to_stride;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t threads_of_row;

  static row_copy of(const const_matrix_ref& x, const matrix_ref& y) {
    return {static_cast<const From*>(x.data),
            x.stride,
            static_cast<To*>(y.data),
            y.stride,
            x.rows,
            x.cols,
            divide_up(x.cols, columns_each)};
  }
  [[nodiscard]] std::int64_t blocks() const { return divide_up(rows * threads_of_row, threads); }

  /// body(row, first column, end) for this thread.
  template <class Body>
  __device__ void with_columns(const Body& body) const {
    const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    const std::int64_t row = thread / threads_of_row;
    const std::int64_t first = (thread - row * threads_of_row) * columns_each;
    if (row < rows) {
      body(row, first, first + columns_each < cols ? first + columns_each : cols);
    }
  }
};

template <class In, class To>
__global__ void __launch_bounds__(threads)
    edit_rows(const row_copy<In, To> copy, const core::edits edits, To removed) {
  using A = arithmetic_t<In>;
  copy.with_columns([&](std::int64_t r, std::int64_t first, std::int64_t end) {
    const core::edited_row<A> row(edits, r, copy.cols);
    const In* const x = copy.from + r * copy.from_stride;
    To* const y = copy.to + r * copy.to_stride;
    for (std::int64_t c = first; c < end; ++c) {
      row.edit(x + c, c, edits.changes_values(), removed, y + c);
    }
  });
}

template <class To>
__global__ void __launch_bounds__(threads) narrow_rows(const row_copy<float, To> copy) {
  copy.with_columns([&](std::int64_t r, std::int64_t first, std::int64_t end) {
    for (std::int64_t c = first; c < end; ++c) {
      copy.to[r * copy.to_stride + c] = To(copy.from[r * copy.from_stride + c]);
    }
  });
}

/// core::settled_lists, a row by a warp.
template <int lanes, class In, class Index>
__global__ void __launch_bounds__(threads) settle_lists(const core::settled_lists lists) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using A = arithmetic_t<In>;
  constexpr A none = -infinity<A>;
  const std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  if (r >= lists.x.rows) {  // the whole warp
    return;
  }
  const auto lane = static_cast<int>(threadIdx.x % lanes);
  const core::edited_row<A> row(lists.edits, r, lists.x.cols);
  const In* const x = static_cast<const In*>(lists.x.data) + r * lists.x.stride;
  Index* const list = static_cast<Index*>(lists.indices.data) + r * lists.indices.stride;
  const std::int64_t k = lists.indices.cols;
  // Entries before the first of -infinity, and entries: a list longer than the row ends before k.
  std::int64_t next = 0;
  std::int64_t end = 0;
  for (std::int64_t begin = 0; begin < k; begin += lanes) {
    const std::int64_t i = begin + lane;
    const bool present = i < k && list[i] >= 0;
    end += gpu::count(ballot(present));
    next += gpu::count(ballot(
        present && widen(x[static_cast<std::int64_t>(list[i]) - lists.column_offset]) != none));
  }
  synchronize_warp();
  for (int turn = 0; turn < 2; ++turn) {
    const bool kept = turn == 0;
    for (std::int64_t begin = 0; begin < lists.x.cols && next < end; begin += lanes) {
      const std::int64_t c = begin + lane;
      const bool chosen = c < lists.x.cols && widen(x[c]) == none && row.keeps(c) == kept;
      const lane_mask all = ballot(chosen);
      const std::int64_t at = next + gpu::count(all & lanes_below());
      if (chosen && at < end) {
        list[at] = lists.absent && !kept ? Index{-1} : static_cast<Index>(c + lists.column_offset);
      }
      next += gpu::count(all);
    }
  }
  if (lists.gathered.data != nullptr) {
    synchronize_warp();
    In* const to = static_cast<In*>(lists.gathered.data) + r * lists.gathered.stride;
    for (std::int64_t i = lane; i < k; i += lanes) {
      const std::int64_t column = static_cast<std::int64_t>(list[i]) - lists.column_offset;
      to[i] = list[i] < 0 || !row.keeps(column) ? In(-none) : x[column];
    }
  }
}

}  // namespace

void edit(executor& on, const const_matrix_ref& x, const core::edits& edits, const matrix_ref& to,
          double removed) {
  if (x.rows == 0 || x.cols == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  core::with_real(x.type, [&]<class In>(In) {
    using A = arithmetic_t<In>;
    core::with_output<In>(to.type, [&]<class To>(To) {
      const auto copy = row_copy<In, To>::of(x, to);
      launch_grid(on.stream, edit_rows<In, To>, copy.blocks(), threads, copy, edits,
                  To(static_cast<A>(removed)));
    });
  });
}

void narrow(executor& on, const const_matrix_ref& from, const matrix_ref& to) {
  if (to.rows == 0 || to.cols == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  core::with_real(to.type, [&]<class To>(To) {
    if constexpr (sizeof(To) == 2) {
      const auto copy = row_copy<float, To>::of(from, to);
      launch_grid(on.stream, narrow_rows<To>, copy.blocks(), threads, copy);
    }
  });
}

void settle(executor& on, const core::settled_lists& lists) {
  if (lists.x.rows == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  core::with_real(lists.x.type, [&]<class In>(In) {
    with_lanes(on.properties.lanes, [&](auto lanes) {
      const std::int64_t blocks = divide_up(lists.x.rows * lanes(), threads);
      if (lists.indices.type == dtype::i32) {
        launch_grid(on.stream, settle_lists<lanes(), In, std::int32_t>, blocks, threads, lists);
      } else {
        launch_grid(on.stream, settle_lists<lanes(), In, std::int64_t>, blocks, threads, lists);
      }
    });
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

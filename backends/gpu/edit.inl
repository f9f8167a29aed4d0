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

/// Consecutive columns of a thread: whole vectors of every type, and they divide 32, a mask's word.
constexpr int columns_each = 8;

/// A thread of a long row has so many times columns_each: what it needs to know of the row is had
/// once for all.
constexpr int most_turns = 4;

/// Rows of one matrix to those of another, by threads of some columns each.
template <class From, class To>
struct row_copy {
  const From* from;
  std::int64_t from_stride;
  To* to;
  std::int64_t to_stride;
  std::int64_t rows;
  std::int64_t cols;
  int turns;
  std::int64_t threads_of_row;

  static row_copy of(const const_matrix_ref& x, const matrix_ref& y) {
    const std::int64_t groups = divide_up(x.cols, columns_each);
    const std::int64_t turns = divide_up(groups, threads);
    const int most = turns < most_turns ? static_cast<int>(turns) : most_turns;
    return {static_cast<const From*>(x.data),
            x.stride,
            static_cast<To*>(y.data),
            y.stride,
            x.rows,
            x.cols,
            most,
            divide_up(groups, most)};
  }
  [[nodiscard]] std::int64_t blocks() const { return divide_up(rows * threads_of_row, threads); }

  /// The row of a thread, and its place in the row. Division of 64 bits is slow.
  __device__ void find(std::int64_t& row, std::int64_t& place) const {
    const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (rows * threads_of_row <= std::int64_t{0xffffffff} - threads) {
      row = static_cast<std::uint32_t>(thread) / static_cast<std::uint32_t>(threads_of_row);
    } else {
      row = thread / threads_of_row;
    }
    place = thread - row * threads_of_row;
  }
};

/// columns_each consecutive elements, by vectors where memory has whole ones.
template <class T>
struct column_group {
  static constexpr int width = vector_width<T>;

  __device__ static bool is_whole(const T* at, std::int64_t count) {
    return count >= columns_each && reinterpret_cast<std::uintptr_t>(at) % vector_bytes == 0;
  }
  /// The first `count`, the others 0.
  template <class A>
  __device__ static void load(const T* from, std::int64_t count, A (&to)[columns_each]) {
    if (is_whole(from, count)) {
#pragma unroll
      for (int v = 0; v < columns_each / width; ++v) {
        const block16 vector = load_vector<true>(reinterpret_cast<const block16*>(from) + v);
#pragma unroll
        for (int i = 0; i < width; ++i) {
          to[v * width + i] = element_of<T>(vector, i);
        }
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < columns_each; ++i) {
      to[i] = i < count ? static_cast<A>(widen(from[i])) : A{0};
    }
  }
  /// The first `count`; those that are not kept as `removed`.
  template <class A>
  __device__ static void store(T* to, std::int64_t count, unsigned kept, T removed,
                               const A (&from)[columns_each]) {
    const auto value = [&](int i) { return (kept >> i & 1U) != 0 ? T(from[i]) : removed; };
    if (is_whole(to, count)) {
#pragma unroll
      for (int v = 0; v < columns_each / width; ++v) {
        block16 vector{};
#pragma unroll
        for (int i = 0; i < width; ++i) {
          set_element(vector, i, value(v * width + i));
        }
        store_vector(reinterpret_cast<block16*>(to) + v, vector);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < columns_each; ++i) {
      if (i < count) {
        to[i] = value(i);
      }
    }
  }
};

/// body(Type{}) for a bias's type.
template <class Body>
__device__ inline void with_bias_type(dtype type, const Body& body) {
  switch (type) {
    case dtype::f32:
      return body(float{});
    case dtype::f64:
      return body(double{});
    case dtype::f16:
      return body(half{});
    case dtype::bf16:
      return body(bfloat16{});
    case dtype::i32:
    case dtype::i64:
    case dtype::u8:
      return;  // no real type
  }
}

/// What edits make of the values of kept elements, as core::edited_row::value.
template <class A>
__device__ inline void change_values(const core::edited_row<A>& row, std::int64_t first,
                                     unsigned kept, A (&x)[columns_each]) {
  if (row.bias != nullptr) {
    with_bias_type(row.bias_type, [&]<class Bias>(Bias) {
      const Bias* const bias = static_cast<const Bias*>(row.bias) + first;
#pragma unroll
      for (int i = 0; i < columns_each; ++i) {
        if ((kept >> i & 1U) != 0) {
          x[i] += static_cast<A>(widen(bias[i]));
        }
      }
    });
  }
  if (row.penalty < row.penalty_end) {
    for (std::int64_t entry = row.penalty_from(first); entry < row.penalty_end; ++entry) {
      const std::int64_t place = row.penalty_column(entry) - first;
      if (place >= columns_each) {
        break;
      }
      A own = 0;  // registers have no index
#pragma unroll
      for (int i = 0; i < columns_each; ++i) {
        own = i == place ? x[i] : own;
      }
      own = row.penalised(own, entry);
#pragma unroll
      for (int i = 0; i < columns_each; ++i) {
        x[i] = i == place ? own : x[i];
      }
    }
  }
  if (row.softcap != 0) {
#pragma unroll
    for (int i = 0; i < columns_each; ++i) {
      x[i] = core::softcapped(x[i], row.softcap);
    }
  }
}

template <class In, class To>
__global__ void __launch_bounds__(threads)
    edit_rows(const row_copy<In, To> copy, const core::edits edits, To removed) {
  using A = arithmetic_t<In>;
  std::int64_t r = 0;
  std::int64_t place = 0;
  copy.find(r, place);
  if (r >= copy.rows) {
    return;
  }
  const core::edited_row<A> row(edits, r, copy.cols);
  const In* const x = copy.from + r * copy.from_stride;
  To* const y = copy.to + r * copy.to_stride;
  for (int turn = 0; turn < copy.turns; ++turn, place += copy.threads_of_row) {
    const std::int64_t first = place * columns_each;
    const std::int64_t count = copy.cols - first;
    if (count <= 0) {
      return;
    }
    const unsigned kept = row.template kept<columns_each>(first, count);
    A own[columns_each];
    column_group<In>::load(x + first, kept != 0 ? count : 0, own);  // else nothing is read
    if (edits.changes_values() && kept != 0) {
      change_values(row, first, kept, own);
    }
    column_group<To>::store(y + first, count, kept, removed, own);
  }
}

template <class To>
__global__ void __launch_bounds__(threads) narrow_rows(const row_copy<float, To> copy) {
  std::int64_t r = 0;
  std::int64_t place = 0;
  copy.find(r, place);
  if (r >= copy.rows) {
    return;
  }
  for (int turn = 0; turn < copy.turns; ++turn, place += copy.threads_of_row) {
    const std::int64_t first = place * columns_each;
    const std::int64_t count = copy.cols - first;
    if (count <= 0) {
      return;
    }
    float own[columns_each];
    column_group<float>::load(copy.from + r * copy.from_stride + first, count, own);
    column_group<To>::store(copy.to + r * copy.to_stride + first, count, ~0U, To{}, own);
  }
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

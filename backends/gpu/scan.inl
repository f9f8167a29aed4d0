// SPDX-License-Identifier: Apache-2.0
/// \file
/// scan: in f32 arithmetic by steps of a block. Else chunks of rows are folded, a block a row makes
/// of their states what comes before each, and blocks scan their chunks from there.
#include <gpu/contract.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/scan/by_block.hpp>
#include <gpu/typed.hpp>

#include <core/real_types.hpp>
#include <core/scan_state.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

constexpr int threads = 256;

/// Consecutive elements of a thread, and of a block: a chunk.
constexpr int elements_each = 8;
constexpr int chunk_elements = threads * elements_each;

template <class In>
using scan_rows = core::scan_rows<In, chunk_elements>;

/// Within a block, whose elements are a tree of a few levels.
template <class In>
using block_monoid = core::scan_monoid<arithmetic_t<In>, double, arithmetic_t<In>>;

/// The combination of a block's threads' states, of each with those before it; to all threads.
template <class State>
struct scan_memory {
  double max[threads];
  double low[threads];
  double sum[threads];
  double lost[threads];

  __device__ void put(int i, const State& s) {
    max[i] = s.max;
    low[i] = s.low;
    sum[i] = s.sum;
    lost[i] = s.lost;
  }
  [[nodiscard]] __device__ State at(int i) const { return {max[i], low[i], sum[i], lost[i]}; }
};

template <class Monoid>
__device__ inline typename Monoid::value_type inclusive_over_block(
    typename Monoid::value_type own, scan_memory<typename Monoid::value_type>& memory) {
  const auto thread = static_cast<int>(threadIdx.x);
  memory.put(thread, own);
  for (int distance = 1; distance < threads; distance *= 2) {
    __syncthreads();
    if (thread >= distance) {
      own = Monoid::combine(memory.at(thread - distance), own);
    }
    __syncthreads();
    memory.put(thread, own);
  }
  __syncthreads();
  return own;
}

template <class In>
__global__ void __launch_bounds__(threads) scan_fold(const scan_rows<In> rows) {
  using monoid = block_monoid<In>;
  __shared__ scan_memory<typename monoid::value_type> memory;
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(rows.chunks);
  const std::int64_t chunk = blockIdx.x % static_cast<unsigned>(rows.chunks);
  const std::int64_t first = chunk * chunk_elements + std::int64_t{threadIdx.x} * elements_each;
  auto own = monoid::identity();
  for (std::int64_t i = first; i < first + elements_each && i < rows.cols; ++i) {
    own = monoid::combine(own, rows.state_of(rows.element(row, i)));
  }
  own = inclusive_over_block<monoid>(own, memory);
  if (threadIdx.x == threads - 1) {
    rows.carries_of(row)[chunk + 1] = own;
  }
}

/// The states of chunks to those of what comes before them.
template <class In>
__global__ void __launch_bounds__(threads)
    scan_carries(const scan_rows<In> rows, const max_sum<arithmetic_t<In>>* carry_in,
                 max_sum<arithmetic_t<In>>* carry_out) {
  using monoid = typename scan_rows<In>::monoid;
  __shared__ scan_memory<typename monoid::value_type> memory;
  const std::int64_t row = blockIdx.x;
  auto* const carries = rows.carries_of(row);
  auto before = carry_in == nullptr ? monoid::identity() : monoid::value_type::of(carry_in[row]);
  for (int begin = 0; begin < rows.chunks; begin += threads) {
    const int i = begin + static_cast<int>(threadIdx.x);
    const auto own =
        inclusive_over_block<monoid>(i < rows.chunks ? carries[i + 1] : monoid::identity(), memory);
    if (i < rows.chunks) {
      carries[i + 1] = monoid::combine(before, own);
    }
    before = monoid::combine(before, memory.at(threads - 1));
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    carries[0] = carry_in == nullptr ? monoid::identity() : monoid::value_type::of(carry_in[row]);
    if (carry_out != nullptr) {
      carry_out[row] = before.partial();
    }
  }
}

template <class In, class Out>
__global__ void __launch_bounds__(threads)
    scan_chunks(const scan_rows<In> rows, Out* y, std::int64_t y_stride, bool exclusive) {
  using T = arithmetic_t<In>;
  using monoid = block_monoid<In>;
  __shared__ scan_memory<typename monoid::value_type> memory;
  __shared__ T ends[threads];
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(rows.chunks);
  const std::int64_t chunk = blockIdx.x % static_cast<unsigned>(rows.chunks);
  const auto* const carries = rows.carries_of(row) + chunk;
  const std::int64_t begin = chunk * chunk_elements;
  const std::int64_t end = rows.end_of(chunk);
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = begin + thread * elements_each;
  const std::int64_t last = first + elements_each < end ? first + elements_each : end;
  T elements[elements_each];
  auto own = monoid::identity();
#pragma unroll
  for (int k = 0; k < elements_each; ++k) {
    elements[k] = first + k < last ? rows.element(row, first + k) : T{0};
    if (first + k < last) {
      own = monoid::combine(own, rows.state_of(elements[k]));
    }
  }
  inclusive_over_block<monoid>(own, memory);
  auto state = carries[0];
  if (thread > 0) {
    state = monoid::combine(state, memory.at(thread - 1));
  }
  // A chunk's last inclusive result is that of the state the next one begins with, so that
  // exclusive results are the same numbers.
  T logs[elements_each];
#pragma unroll
  for (int k = 0; k < elements_each; ++k) {
    if (first + k < last) {
      state = monoid::combine(state, rows.state_of(elements[k]));
    }
    logs[k] = first + k == end - 1 ? carries[1].logsumexp() : state.logsumexp();
  }
  ends[thread] = logs[elements_each - 1];
  __syncthreads();
  T before = thread == 0 ? carries[0].logsumexp() : ends[thread - 1];
#pragma unroll
  for (int k = 0; k < elements_each; ++k) {
    if (first + k < last) {
      y[row * y_stride + rows.column(first + k)] = Out(exclusive ? before : logs[k]);
    }
    before = logs[k];
  }
}

/// Whether the steps' arithmetic is for a problem: differences are made before they are scaled, and
/// a carry's maximum is divided by the scale.
bool goes_by_block(const core::scan_problem& p) {
  const double scale = p.scale < 0 ? -p.scale : p.scale;
  if (p.x.type == dtype::f64 || scale > 0x1p100 || (scale > 0 && scale < 0x1p-100)) {
    return false;
  }
  int exponent = 0;
  const bool is_power_of_2 = std::frexp(scale, &exponent) == 0.5;
  return p.carry_in.data == nullptr || scale == 0 || (scale >= 1 && is_power_of_2);
}

/// Warps of a block. A row's bits depend on them, and so they depend on its columns alone; spans
/// are a multiple of their steps.
template <int lanes, class In>
int warps_of_row(std::int64_t cols) {
  constexpr int most = scan_threads<In> / lanes;
  constexpr std::int64_t few_steps = std::int64_t{4} * lanes * scan_each<In>;
  if (cols <= few_steps) {
    return 1;  // which waits for no other
  }
  return cols <= 2 * few_steps && most > 2 ? 2 : most;
}

template <int of_lane, class In>
void run_scan_by_block(executor& on, const core::scan_problem& p) {
  using rows_type = core::scan_rows<In, scan_span>;
  const auto how = scan_arithmetic::of(p.scale);
  const int spans = static_cast<int>(divide_up(p.x.cols, scan_span));
  // Blocks of a row each read it once, if they are enough for the device.
  const bool by_span = spans > 1 && p.x.rows < 2 * on.properties.multiprocessors;
  const std::int64_t grid = by_span ? p.x.rows * spans : p.x.rows;
  core::with_output<In>(p.lse.type, [&]<class Out>(Out) {
    with_lanes(on.properties.lanes, [&](auto lanes) {
      const int threads_of_row = lanes() * warps_of_row<lanes(), In>(p.x.cols);
      const std::int64_t step = std::int64_t{threads_of_row} * of_lane;
      const scan_blocks blocks = {
          .steps = p.x.cols > 0 ? static_cast<int>(divide_up(p.x.cols, step)) : 1,
          .spans = spans,
          .by_span = by_span,
          .carry_in = static_cast<const max_sum<float>*>(p.carry_in.data),
          .carry_out = static_cast<max_sum<float>*>(p.carry_out.data),
          .carries = by_span ? static_cast<scan_carry*>(on.scratch.at_least(
                                   static_cast<std::size_t>(grid) * sizeof(scan_carry)))
                             : nullptr};
      auto* const y = static_cast<Out*>(p.lse.data);
      const auto launch_for = [&]<bool reverse>(std::bool_constant<reverse>) {
        if constexpr (of_lane == scan_each<In>) {
          if (by_span) {
            launch_grid(on.stream, scan_by_block<lanes(), of_lane, true, reverse, In, In>, grid,
                        threads_of_row, rows_type::of(p), nullptr, 0, false, how, blocks);
            launch_grid(on.stream, scan_spans, divide_up(p.x.rows, scan_span_threads),
                        scan_span_threads, p.x.rows, how, blocks);
          }
        }
        launch_grid(on.stream, scan_by_block<lanes(), of_lane, false, reverse, In, Out>, grid,
                    threads_of_row, rows_type::of(p), y, p.lse.stride, p.exclusive, how, blocks);
      };
      if (p.reverse) {
        launch_for(std::true_type());
      } else {
        launch_for(std::false_type());
      }
    });
  });
}

template <class In>
void run_scan(executor& on, const core::scan_problem& p) {
  if constexpr (sizeof(arithmetic_t<In>) == 4) {
    if (goes_by_block(p)) {
      return p.x.cols <= on.properties.lanes * scan_each_of_short
                 ? run_scan_by_block<scan_each_of_short, In>(on, p)
                 : run_scan_by_block<scan_each<In>, In>(on, p);
    }
  }
  auto rows = scan_rows<In>::of(p);
  using T = arithmetic_t<In>;
  rows.carries = static_cast<core::scan_state<T>*>(on.scratch.at_least(rows.carry_bytes()));
  if (rows.chunks > 0) {
    launch_grid(on.stream, scan_fold<In>, rows.rows * rows.chunks, threads, rows);
  }
  launch_grid(on.stream, scan_carries<In>, rows.rows, threads, rows,
              static_cast<const max_sum<T>*>(p.carry_in.data),
              static_cast<max_sum<T>*>(p.carry_out.data));
  if (rows.chunks > 0) {
    core::with_output<In>(p.lse.type, [&]<class Out>(Out) {
      launch_grid(on.stream, scan_chunks<In, Out>, rows.rows * rows.chunks, threads, rows,
                  static_cast<Out*>(p.lse.data), p.lse.stride, p.exclusive);
    });
  }
}

}  // namespace

void scan(executor& on, const core::scan_problem& p) {
  if (p.x.rows == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  core::with_real(p.x.type, [&]<class In>(In) { run_scan<In>(on, p); });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention and fold_attention: a block has some rows, queries of the heads that share keys, and a
/// chunk of the keys, tile by tile; where rows are few, keys are cut into chunks, whose states a
/// second kernel combines in their order. And combine and normalize of states.
#include <gpu/attention/parts.hpp>
#include <gpu/contract.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/typed.hpp>

#include <core/attention.hpp>
#include <core/real_types.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

constexpr int threads = 256;

/// Keys of a tile, and dimensions that its products have in shared memory at a time.
constexpr int tile_keys = 64;
constexpr int tile_dims = 32;

/// A block's rows; of a thread: rows and columns of the weighted sum, rows and keys of the scores.
template <int rows_, int own_rows_, int own_columns_>
struct attention_shape {
  static constexpr int rows = rows_;
  static constexpr int own_rows = own_rows_;
  static constexpr int own_columns = own_columns_;
  static constexpr int own_values = own_rows_ * own_columns_;
  static constexpr int column_threads = threads / (rows / own_rows);
  static constexpr int most_columns = column_threads * own_columns;

  static constexpr int scores = rows * tile_keys / threads;
  static constexpr int score_keys = scores < 4 ? scores : 4;
  static constexpr int score_rows = scores / score_keys;
  static constexpr int key_threads = tile_keys / score_keys;
};

using few_rows = attention_shape<4, 1, 8>;
using many_rows = attention_shape<32, 4, 4>;
using wide_rows = attention_shape<16, 2, 16>;
static_assert(few_rows::most_columns == 512 && wide_rows::most_columns == 512);

/// e^t for t <= 0; NaN stays.
template <class A>
__device__ inline A exponential_or_nan(A t) {
  return t != t ? t : exponential<precision::exact>(t);
}

template <class In, class Shape>
struct attention_memory {
  using A = arithmetic_t<In>;
  core::attention_row<A> row[Shape::rows];
  A q[Shape::rows][tile_dims + 1];
  A k[tile_keys][tile_dims + 1];
  A scores[Shape::rows][tile_keys + 1];
  A max[Shape::rows];
  A factor[Shape::rows];
  double sum[Shape::rows];
};

/// The exponentials of a tile's scores, and the rows' maxima and sums; 8 threads a row.
template <class In, class Shape>
__device__ inline void fold_scores(attention_memory<In, Shape>& memory) {
  using A = arithmetic_t<In>;
  constexpr int lanes_each = 8;
  constexpr int keys_each = tile_keys / lanes_each;
  const int row = static_cast<int>(threadIdx.x) / lanes_each;
  const int lane = static_cast<int>(threadIdx.x) % lanes_each;
  const bool works = row < Shape::rows;
  const int at = works ? row : 0;
  const A before = memory.max[at];
  A s[keys_each];
  A top = before;
#pragma unroll
  for (int i = 0; i < keys_each; ++i) {
    s[i] = works ? memory.scores[at][lane + i * lanes_each] : -infinity<A>;
    top = s[i] > top ? s[i] : top;
  }
  for (int mask = lanes_each / 2; mask > 0; mask /= 2) {
    const A other = shuffle_xor(top, mask);
    top = other > top ? other : top;
  }
  const A reference = top == -infinity<A> ? A{0} : top;
  A sum = 0;
#pragma unroll
  for (int i = 0; i < keys_each; ++i) {
    if (top == infinity<A>) {
      s[i] = s[i] != s[i] ? s[i] : s[i] == infinity<A> ? A{1} : A{0};
    } else {
      s[i] = exponential_or_nan(s[i] - reference);
    }
    sum += s[i];
  }
  for (int mask = lanes_each / 2; mask > 0; mask /= 2) {
    sum += shuffle_xor(sum, mask);
  }
  if (works) {
#pragma unroll
    for (int i = 0; i < keys_each; ++i) {
      memory.scores[at][lane + i * lanes_each] = s[i];
    }
  }
  __syncthreads();  // all have read the maximum
  if (works && lane == 0) {
    const A factor = before == top            ? A{1}
                     : before == -infinity<A> ? A{0}
                                              : exponential_or_nan(before - top);
    memory.max[at] = top;
    memory.factor[at] = factor;
    memory.sum[at] = memory.sum[at] * static_cast<double>(factor) + static_cast<double>(sum);
  }
}

/// Whether sums over tiles carry their roundings along, which many tiles would show: where a thread
/// has registers for them.
template <class A, class Shape>
inline constexpr bool carries_roundings = sizeof(A) * Shape::own_values <= 128;

template <class In, class Shape>
__global__ void __launch_bounds__(threads)
    attention_rows(const core::attention_problem p, const attention_parts<arithmetic_t<In>> parts) {
  using A = arithmetic_t<In>;
  __shared__ attention_memory<In, Shape> memory;
  const auto thread = static_cast<int>(threadIdx.x);
  std::int64_t block = blockIdx.x;
  const std::int64_t chunk = block % parts.chunks;
  block /= parts.chunks;
  const std::int64_t row_block = block % parts.blocks;
  block /= parts.blocks;
  const std::int64_t key_head = block % p.k.heads;
  std::int64_t first_row = 0;
  const auto in =
      core::attention_sequence::with_block(p, block / p.k.heads, row_block, Shape::rows, first_row);
  const std::int64_t batch = in.batch;
  const std::int64_t all_rows = p.group() * in.queries;
  if (first_row >= all_rows) {
    return;  // a packed sequence leaves a block
  }

  if (thread < Shape::rows) {
    // Rows past the last are the last without keys.
    const std::int64_t row = first_row + thread;
    core::attention_row<A> own = row_of<A>(p, in, key_head, row < all_rows ? row : all_rows - 1);
    if (row >= all_rows) {
      own.end = own.first;
    }
    memory.row[thread] = own;
    memory.max[thread] = -infinity<A>;
    memory.sum[thread] = 0;
  }
  __syncthreads();
  std::int64_t first = (chunk + 1) * parts.chunk_keys;
  std::int64_t end = chunk * parts.chunk_keys;
  {
    const std::int64_t begin = end;
    const std::int64_t past = first < in.keys ? first : in.keys;
    for (int r = 0; r < Shape::rows; ++r) {
      if (memory.row[r].first < memory.row[r].end) {
        first = memory.row[r].first < first ? memory.row[r].first : first;
        end = memory.row[r].end > end ? memory.row[r].end : end;
      }
    }
    first = first > begin ? first / tile_keys * tile_keys : begin;
    end = end < past ? end : past;
  }

  const In* const q = static_cast<const In*>(p.q.data);
  const In* const k =
      static_cast<const In*>(p.k.data) + core::offset_of(p.k, batch, key_head, in.first_key);
  const In* const v =
      static_cast<const In*>(p.v.data) + core::offset_of(p.v, batch, key_head, in.first_key);
  const int dim = static_cast<int>(p.q.dim);
  const int v_dim = static_cast<int>(p.v.dim);
  const int score_key = thread % Shape::key_threads;
  const int score_row = thread / Shape::key_threads * Shape::score_rows;
  const int column = thread % Shape::column_threads;
  const int own_row = thread / Shape::column_threads * Shape::own_rows;

  constexpr bool compensated = carries_roundings<A, Shape>;
  A o[Shape::own_rows][Shape::own_columns];
  A lost[Shape::own_rows][compensated ? Shape::own_columns : 1];
#pragma unroll
  for (int r = 0; r < Shape::own_rows; ++r) {
#pragma unroll
    for (int c = 0; c < Shape::own_columns; ++c) {
      o[r][c] = 0;
      lost[r][compensated ? c : 0] = 0;
    }
  }
  for (std::int64_t begin = first; begin < end; begin += tile_keys) {
    const int count = end - begin < tile_keys ? static_cast<int>(end - begin) : tile_keys;
    A products[Shape::score_rows][Shape::score_keys];
#pragma unroll
    for (int r = 0; r < Shape::score_rows; ++r) {
#pragma unroll
      for (int j = 0; j < Shape::score_keys; ++j) {
        products[r][j] = 0;
      }
    }
    for (int d = 0; d < dim; d += tile_dims) {
      for (int i = thread; i < Shape::rows * tile_dims; i += threads) {
        const int r = i / tile_dims;
        const int at = d + i % tile_dims;
        const core::attention_row<A>& row = memory.row[r];
        memory.q[r][i % tile_dims] =
            at < dim ? widen(q[core::offset_of(p.q, row.batch, row.head, row.token) + at]) : A{0};
      }
#pragma unroll
      for (int i = 0; i < tile_keys * tile_dims / threads; ++i) {
        const int element = thread + i * threads;
        const int j = element / tile_dims;
        const int at = d + element % tile_dims;
        memory.k[j][element % tile_dims] =
            j < count && at < dim ? widen(k[(begin + j) * p.k.token_stride + at]) : A{0};
      }
      __syncthreads();
#pragma unroll 8
      for (int i = 0; i < tile_dims; ++i) {
        A left[Shape::score_rows];
#pragma unroll
        for (int r = 0; r < Shape::score_rows; ++r) {
          left[r] = memory.q[score_row + r][i];
        }
#pragma unroll
        for (int j = 0; j < Shape::score_keys; ++j) {
          const A right = memory.k[score_key + j * Shape::key_threads][i];
#pragma unroll
          for (int r = 0; r < Shape::score_rows; ++r) {
            products[r][j] = fma(left[r], right, products[r][j]);
          }
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < Shape::score_rows; ++r) {
#pragma unroll
      for (int j = 0; j < Shape::score_keys; ++j) {
        const int key = score_key + j * Shape::key_threads;
        memory.scores[score_row + r][key] =
            key < count ? memory.row[score_row + r].score(products[r][j], begin + key)
                        : -infinity<A>;
      }
    }
    __syncthreads();
    fold_scores(memory);
    __syncthreads();
    constexpr int together = Shape::own_columns < 4 ? Shape::own_columns : 4;
#pragma unroll
    for (int c = 0; c < Shape::own_columns; c += together) {
      A sums[Shape::own_rows][together];
#pragma unroll
      for (int r = 0; r < Shape::own_rows; ++r) {
#pragma unroll
        for (int i = 0; i < together; ++i) {
          sums[r][i] = 0;
        }
      }
      if (column + c * Shape::column_threads < v_dim) {
        for (int j = 0; j < count; ++j) {
          const In* const from = v + (begin + j) * p.v.token_stride;
          A values[together];
#pragma unroll
          for (int i = 0; i < together; ++i) {
            const int at = column + (c + i) * Shape::column_threads;
            values[i] = at < v_dim ? widen(from[at]) : A{0};
          }
#pragma unroll
          for (int r = 0; r < Shape::own_rows; ++r) {
            const A weight = memory.scores[own_row + r][j];
#pragma unroll
            for (int i = 0; i < together; ++i) {
              // What is no key may hold anything.
              sums[r][i] = weight != A{0} ? fma(weight, values[i], sums[r][i]) : sums[r][i];
            }
          }
        }
      }
#pragma unroll
      for (int r = 0; r < Shape::own_rows; ++r) {
#pragma unroll
        for (int i = 0; i < together; ++i) {
          A& own = o[r][c + i];
          const A factor = memory.factor[own_row + r];
          if constexpr (compensated) {
            core::add_carrying(own, lost[r][c + i], factor, sums[r][i]);
          } else {
            own = fma(own, factor, sums[r][i]);
          }
        }
      }
    }
    __syncthreads();
  }

  if constexpr (compensated) {
#pragma unroll
    for (int r = 0; r < Shape::own_rows; ++r) {
#pragma unroll
      for (int c = 0; c < Shape::own_columns; ++c) {
        o[r][c] = core::with_lost(o[r][c], lost[r][c]);
      }
    }
  }
  const std::int64_t row_base =
      p.group() * ((batch * p.k.heads + key_head) * p.q.tokens + in.first_query);
  const std::int64_t rows_of_all = p.rows();
#pragma unroll
  for (int r = 0; r < Shape::own_rows; ++r) {
    const std::int64_t row = first_row + own_row + r;
    if (row >= all_rows) {
      continue;
    }
    const A max = memory.max[own_row + r];
    const double sum = memory.sum[own_row + r];
    if (parts.chunks > 1) {
      const std::int64_t place = chunk * rows_of_all + row_base + row;
      if (column == 0) {
        parts.states[place] = {static_cast<double>(max), sum};
      }
#pragma unroll
      for (int c = 0; c < Shape::own_columns; ++c) {
        const int to = column + c * Shape::column_threads;
        if (to < v_dim) {
          parts.weighted[place * v_dim + to] = o[r][c];
        }
      }
      continue;
    }
    const core::attention_row<A>& at = memory.row[own_row + r];
    const auto finish =
        core::attention_finish<A>::of(p, at.head, core::public_state(max, static_cast<A>(sum)));
    if (column == 0) {
      core::write_attention_state(p, at.batch, at.head, at.token, finish.both.whole);
    }
    const auto output = attention_output<A>::of(p, finish);
    const std::int64_t to = core::offset_of(p.out, at.batch, at.head, at.token) + column;
#pragma unroll
    for (int c = 0; c < Shape::own_columns; ++c) {
      if (column + c * Shape::column_threads < v_dim) {
        store_value<In>(p.out, to + c * Shape::column_threads, output(o[r][c]));
      }
    }
  }
}

template <class In, class Shape>
void run_rows(executor& on, const core::attention_problem& p, std::int64_t chunk_keys) {
  const auto parts = parts_of_keys<arithmetic_t<In>>(on, p, chunk_keys, Shape::rows);
  launch_grid(on.stream, attention_rows<In, Shape>,
              p.q.batches * p.k.heads * parts.blocks * parts.chunks, threads, p, parts);
  combine_chunks<In>(on, p, parts);
}

/// Chunks and kernels by what a key head's rows are, whatever the batch.
template <class In>
void run_attention(executor& on, const core::attention_problem& p) {
  if constexpr (sizeof(In) == 2) {
    if (run_by_matrix_unit<In>(on, p)) {
      return;
    }
  }
  const std::int64_t rows = p.group() * p.most_queries();
  constexpr std::int64_t few = 8;
  constexpr std::int64_t some = 256;
  if (rows <= few) {
    run_rows<In, few_rows>(on, p, 512);
  } else if (p.v.dim <= many_rows::most_columns) {
    run_rows<In, many_rows>(on, p, rows <= some ? 1024 : 0);
  } else {
    run_rows<In, wide_rows>(on, p, rows <= some ? 1024 : 0);
  }
}

/// A block a row.
template <class A>
__global__ void __launch_bounds__(threads)
    attention_combine_states(const core::combine_attention_problem p) {
  const std::int64_t row = blockIdx.x;
  auto* const state = static_cast<max_sum<A>*>(p.states.data) + row;
  const auto both =
      core::attention_combination<A>::of(*state, static_cast<const max_sum<A>*>(p.more.data)[row]);
  const A* const more =
      static_cast<const A*>(p.more_weighted.data) + core::offset_of(p.more_weighted, row);
  A* const to = static_cast<A*>(p.weighted.data) + core::offset_of(p.weighted, row);
  for (std::int64_t i = threadIdx.x; i < p.weighted.dim; i += threads) {
    to[i] = both.sum(to[i], more[i]);
  }
  __syncthreads();  // all have read the states
  if (threadIdx.x == 0) {
    *state = both.whole;
  }
}

template <class A>
__global__ void __launch_bounds__(threads)
    attention_normalize_states(const core::normalize_attention_problem p) {
  const std::int64_t row = blockIdx.x;
  const auto result =
      core::attention_result<A>::of(static_cast<const max_sum<A>*>(p.states.data)[row], p.policy);
  const A* const o = static_cast<const A*>(p.weighted.data) + core::offset_of(p.weighted, row);
  const std::int64_t to = core::offset_of(p.out, row);
  for (std::int64_t i = threadIdx.x; i < p.out.dim; i += threads) {
    core::write_real(p.out.data, p.out.type, to + i, result.of_weighted(o[i]));
  }
}

}  // namespace

void attention(executor& on, const core::attention_problem& p) {
  if (!p.has_work()) {
    return;
  }
  const runtime::current_device current(on.device);
  core::with_real(p.q.type, [&]<class In>(In) { run_attention<In>(on, p); });
}

void combine_attention(executor& on, const core::combine_attention_problem& p) {
  if (p.states.size == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  p.states.type == dtype::f64
      ? launch_grid(on.stream, attention_combine_states<double>, p.states.size, threads, p)
      : launch_grid(on.stream, attention_combine_states<float>, p.states.size, threads, p);
}

void normalize_attention(executor& on, const core::normalize_attention_problem& p) {
  if (p.states.size == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  p.states.type == dtype::f64
      ? launch_grid(on.stream, attention_normalize_states<double>, p.states.size, threads, p)
      : launch_grid(on.stream, attention_normalize_states<float>, p.states.size, threads, p);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

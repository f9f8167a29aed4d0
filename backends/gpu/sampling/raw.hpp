// SPDX-License-Identifier: Apache-2.0
/// \file
/// What is wanted of rows as they are: log-probabilities and their logsumexp. Chunks of rows are
/// read once, by core/raw_sum.hpp's terms.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/job/row_source.hpp>
#include <gpu/sampling/measure.hpp>
#include <gpu/sampling/race_chunks.hpp>
#include <gpu/sampling/results.hpp>
#include <gpu/uninitialised.hpp>

#include <core/raw_sum.hpp>

#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

struct raw_part {
  core::sampling::raw_sum sum;  ///< of elements below raw_terms::near, or nothing
  float largest;                ///< NaN if there is one
};

/// The largest of the block's threads' numbers, NaN if one is NaN; to all of them.
template <int lanes>
__device__ inline float max_of_block(float own) {
  __shared__ float tops[reader_threads / lanes];
  own = max_over_lanes(own, lanes);
  __syncthreads();
  if (threadIdx.x % lanes == 0) {
    tops[threadIdx.x / lanes] = own;
  }
  __syncthreads();
  own = tops[0];
  for (int i = 1; i < reader_threads / lanes; ++i) {
    own = max_or_nan(own, tops[i]);
  }
  return own;
}

/// The block's threads' sums, of elements up to `largest`, in memory.
template <int lanes>
__device__ inline void add_over_block(core::sampling::raw_sum own, float largest,
                                      core::sampling::raw_sum& memory) {
  const std::int32_t top = core::sampling::raw_top(largest);
  if (threadIdx.x == 0) {
    memory = {};
    memory.top = top;
  }
  __syncthreads();
  own.raise(top);
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    add_over_block<lanes>(own.words[i], memory.words[i]);
  }
  __syncthreads();
}

/// One thread's sum. Elements come without their maximum being known; where one is of a higher
/// place than those before it, sums change places.
template <class In>
class raw_thread {
 public:
  /// Blocks between two calls of carry(): a place's sum has room for 2^9 terms.
  static constexpr int most_blocks = 512 / block_columns;

  __device__ raw_thread() { set_top(core::sampling::raw_terms::lowest_top); }

  __device__ void add(const column_block<In>& block) {
    const float most = block.largest();
    largest_ = max_or_nan(largest_, most);
    if (!(most <= limit_)) {
      raise(most);
    }
#pragma unroll
    for (int i = 0; i < block_columns; ++i) {
      add(block.element(i));
    }
  }
  __device__ void carry() {
    sums_[1] -= sums_[0];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      high_[i] += sums_[i] >> 32;
      sums_[i] &= 0xffffffffU;
    }
    sums_[1] += sums_[0];
  }
  [[nodiscard]] __device__ float largest() const { return largest_; }
  [[nodiscard]] __device__ core::sampling::raw_sum sum() const {
    core::sampling::raw_sum result;
    result.top = top_;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      result.words[i] = {high_[i] << 32, high_[i] >> 32};
      result.words[i].add(i == 1 ? sums_[1] - sums_[0] : sums_[i]);
    }
    return result;
  }

 private:
  __device__ void set_top(std::int32_t top) {
    namespace terms = core::sampling::raw_terms;
    top_ = top;
    magic_ = terms::magic - static_cast<float>(32 * top);
    limit_ = terms::end_of(top);
  }
  /// From elements beyond raw_terms::near, and NaN, on the sum does not matter.
  __device__ void raise(float most) {
    namespace sampling = core::sampling;
    if (!(most < sampling::raw_terms::near)) {
      limit_ = infinity<float>;
      return;
    }
    const std::int32_t top = sampling::raw_term_of(most).place();
    const std::int32_t up = top - top_;
    if (up == 0) {
      return;
    }
    const auto move = [&](std::uint64_t(&to)[3]) {
      to[2] = up == 1 ? to[1] : up == 2 ? to[0] : 0;
      to[1] = up == 1 ? to[0] : 0;
      to[0] = 0;
    };
    sums_[1] -= sums_[0];  // 0 again when it has moved
    move(sums_);
    move(high_);
    set_top(top);
  }
  /// core::sampling::raw_sum's add. What is too low for the three places, -infinity too, is below
  /// all of them by its shifted n.
  __device__ void add(float x) {
    namespace terms = core::sampling::raw_terms;
    const float shifted = fmaf(x, terms::log2_e, magic_);
    const float rest = fmaf(shifted - magic_, -terms::ln2, x);
    const std::uint32_t factor = __float_as_uint(terms::polynomial(rest)) - terms::last_bits;
    const std::uint32_t power = 1U << (__float_as_uint(shifted) & 31U);
    constexpr float least[3] = {terms::magic, terms::magic - 32, terms::magic - 64};
    add_product_where(sums_, shifted, least, factor, power);
  }

  std::uint64_t sums_[3] = {};  ///< the second with the first
  std::uint64_t high_[3] = {};  ///< in units of 2^32
  float largest_ = -infinity<float>;
  float magic_;
  float limit_;
  std::int32_t top_;
};

/// The sums of chunks.
template <int lanes, class In>
__global__ void __launch_bounds__(reader_threads, least_resident(race_resident))
    raw_chunks(const row_source<In> source, const row_chunks chunks, raw_part* parts) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<core::sampling::raw_sum> shared;
  let_next_begin();
  const auto row = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(chunks.count));
  const auto chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(chunks.count));
  const auto reader = row_reader<In>::of(source.row(row), source.cols);
  constexpr int ahead = reader_ahead<In>;
  constexpr int step = reader_threads * block_columns;
  raw_thread<In> own;
  int left = own.most_blocks / ahead;
  for (std::int64_t first = chunks.begin(chunk); first < chunks.end(chunk, source.cols);
       first += ahead * step) {
    column_block<In> blocks[ahead];
    reader.template load<step>(first, blocks);
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      own.add(blocks[a]);
    }
    if (--left == 0) {
      own.carry();
      left = own.most_blocks / ahead;
    }
  }
  const float largest = max_of_block<lanes>(own.largest());
  if (largest < core::sampling::raw_terms::near) {
    add_over_block<lanes>(own.sum(), largest, shared.get());
  }
  if (threadIdx.x == 0) {
    raw_part& part = parts[blockIdx.x];
    part.largest = largest;
    part.sum = shared.get();
  }
}

__device__ inline core::sampling::row_kind kind_of_top(float top) {
  using core::sampling::row_kind;
  return top != top                ? row_kind::nan
         : top == -infinity<float> ? row_kind::empty
         : top == infinity<float>  ? row_kind::infinite
                                   : row_kind::ordinary;
}

/// raws, for the tokens' kernels, and the results that need no token.
template <int lanes, class In>
__global__ void __launch_bounds__(reader_threads)
    raw_finish(const row_source<In> source, const sample_options options, const row_chunks chunks,
               const raw_part* parts, raw_row* raws) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace sampling = core::sampling;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  __shared__ uninitialised<sampling::raw_sum> shared;
  __shared__ uninitialised<raw_row> shared_row;
  wait_for_launch_before();
  const std::int64_t row = blockIdx.x;
  parts += row * chunks.count;
  float largest = -infinity<float>;
  for (auto i = static_cast<int>(threadIdx.x); i < chunks.count; i += reader_threads) {
    largest = max_or_nan(largest, parts[i].largest);
  }
  largest = max_of_block<lanes>(largest);
  const sampling::row_kind kind = kind_of_top(largest);
  const float base = sampling::raw_base(largest);
  if (kind == sampling::row_kind::ordinary) {
    sampling::raw_sum own;
    if (base == 0) {
      for (auto i = static_cast<int>(threadIdx.x); i < chunks.count; i += reader_threads) {
        own.add(parts[i].sum);
      }
    } else {  // another read
      const In* const x = source.row(row);
      for (std::int64_t i = threadIdx.x; i < source.cols; i += reader_threads) {
        own.add(widen(x[i]) - base);
      }
    }
    add_over_block<lanes>(own, largest - base, shared.get());
  }
  raw_row& raw = shared_row.get();
  if (threadIdx.x == 0) {
    raw = {kind, static_cast<double>(largest),
           kind == sampling::row_kind::ordinary ? shared.get().log_over(largest - base) : 0};
    raws[row] = raw;
    if (options.lse.data != nullptr) {
      const double lse = kind == sampling::row_kind::nan ? std::numeric_limits<double>::quiet_NaN()
                         : kind == sampling::row_kind::empty    ? -infinite
                         : kind == sampling::row_kind::infinite ? infinite
                                                                : raw.largest + raw.log_of_sum;
      sampling::write_result(options.lse.data, options.lse.type, row, lse);
    }
  }
  const matrix_ref& log_probabilities = options.top_log_probabilities;
  if (log_probabilities.data != nullptr) {
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < log_probabilities.cols; i += blockDim.x) {
      const std::int64_t at = row * log_probabilities.stride + i;
      sampling::write_result(
          log_probabilities.data, log_probabilities.type, at,
          raw.log_of(core::real_at<double>(log_probabilities.data, log_probabilities.type, at)));
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

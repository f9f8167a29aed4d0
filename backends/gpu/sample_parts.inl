// SPDX-License-Identifier: Apache-2.0
/// \file
/// fold_sample by blocks, one for each row; combine_sample and finish_sample, one thread for each.
#include <gpu/contract.hpp>
#include <gpu/group/block_lanes.hpp>
#include <gpu/job/row_source.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/typed.hpp>

#include <core/real_types.hpp>
#include <core/sample_parts_row.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

namespace sampling = core::sampling;

constexpr int fold_threads = 128;  // a state each fits into any block's shared memory
constexpr int state_threads = 64;

template <class In>
__global__ void __launch_bounds__(fold_threads)
    fold_sample_by_block(const row_source<In> source, const core::fold_sample_problem problem) {
  auto* const slots = reinterpret_cast<sample_state*>(dynamic_shared_memory());
  const std::int64_t r = blockIdx.x;
  const sampling::part_of_row<In> row = {source.row(r), problem.options.column_offset};
  const sample_state empty = sampling::empty_state_of<core::arithmetic_t<In>>(problem, r);
  sampling::fold_columns<core::arithmetic_t<In>>(block_lanes{}, slots, row, empty, row.first,
                                                 row.first + problem.x.cols);
  if (threadIdx.x == 0) {
    problem.states.data[r] = slots[0];
  }
}

__global__ void __launch_bounds__(state_threads)
    combine_sample_states(const sample_state* more, sample_state* states, std::int64_t count) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r < count) {
    sampling::combine(states[r], more[r]);
  }
}

__global__ void __launch_bounds__(state_threads)
    finish_sample_states(const core::finish_sample_problem problem) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r < problem.states.size) {
    sampling::finish_sample_row(problem, r);
  }
}

}  // namespace

void fold_sample_rows(executor& on, const core::fold_sample_problem& p) {
  const runtime::current_device current(on.device);
  core::with_real(p.x.type, [&]<class In>(In) {
    launch_shared(on.stream, fold_sample_by_block<In>, p.x.rows, fold_threads,
                  fold_threads * sizeof(sample_state), row_source<In>::of(p.x), p);
  });
}

void combine_sample_rows(executor& on, const core::combine_sample_problem& p) {
  const runtime::current_device current(on.device);
  launch_grid(on.stream, combine_sample_states, divide_up(p.more.size, state_threads),
              state_threads, p.more.data, p.states.data, p.more.size);
}

void finish_sample_rows(executor& on, const core::finish_sample_problem& p) {
  const runtime::current_device current(on.device);
  launch_grid(on.stream, finish_sample_states, divide_up(p.states.size, state_threads),
              state_threads, p);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

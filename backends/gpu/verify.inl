// SPDX-License-Identifier: Apache-2.0
/// \file
/// verify: one thread for each coupled chain, one block for each by ratio.
#include <gpu/contract.hpp>
#include <gpu/group/block_lanes.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/typed.hpp>

#include <core/real_types.hpp>
#include <core/verify_row.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

namespace sampling = core::sampling;

constexpr int chain_threads = 64;
constexpr int ratio_threads = sampling::row_memory::most_lanes;

__global__ void __launch_bounds__(chain_threads)
    verify_coupled_chains(const core::coupled_problem problem) {
  const std::int64_t chain = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (chain < problem.draft_tokens.rows) {
    sampling::verify_coupled(problem, chain);
  }
}

template <class In>
__global__ void __launch_bounds__(ratio_threads)
    verify_chains_by_ratio(const core::ratio_problem problem) {
  auto& memory = *reinterpret_cast<sampling::row_memory*>(dynamic_shared_memory());
  // Arguments that are referred to would be copied to each thread's memory.
  auto& shared_problem = *reinterpret_cast<core::ratio_problem*>(&memory + 1);
  if (threadIdx.x == 0) {
    shared_problem = problem;
  }
  __syncthreads();
  const block_lanes lanes;
  const auto targets = sampling::rows_in<In>(problem.sampling.x);
  const auto drafts = sampling::rows_in<In>(problem.draft);
  sampling::ratio_chain<core::arithmetic_t<In>, block_lanes, sampling::rows_of<In>>(
      lanes, memory, targets, drafts, shared_problem, blockIdx.x)
      .run();
}

}  // namespace

void verify_coupled(executor& on, const core::coupled_problem& p) {
  const runtime::current_device current(on.device);
  launch_grid(on.stream, verify_coupled_chains, divide_up(p.draft_tokens.rows, chain_threads),
              chain_threads, p);
}

void verify_by_ratio(executor& on, const core::ratio_problem& p) {
  const runtime::current_device current(on.device);
  core::with_real(p.draft.type, [&]<class In>(In) {
    launch_shared(on.stream, verify_chains_by_ratio<In>, p.draft_tokens.rows, ratio_threads,
                  sizeof(sampling::row_memory) + sizeof(core::ratio_problem), p);
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

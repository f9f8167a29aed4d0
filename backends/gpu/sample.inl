// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample: one block for each row.
#include <gpu/contract.hpp>
#include <gpu/job/row_source.hpp>
#include <gpu/typed.hpp>

#include <core/real_types.hpp>
#include <core/sample_row.hpp>

#include <algorithm>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

constexpr int sample_threads = core::sampling::row_memory::most_lanes;

/// The threads of a block.
struct block_lanes {
  // The host's half of nvcc has no such functions.
#if defined(__CUDACC__) && !defined(__CUDA_ARCH__)
  SOFTFOLD_HD static int lane() { return 0; }
  SOFTFOLD_HD static int lanes() { return 1; }
  SOFTFOLD_HD static void sync() {}
  SOFTFOLD_HD static std::uint64_t add(std::uint64_t*, std::uint64_t) { return 0; }
#else
  SOFTFOLD_HD static int lane() { return static_cast<int>(threadIdx.x); }
  SOFTFOLD_HD static int lanes() { return static_cast<int>(blockDim.x); }
  SOFTFOLD_HD static void sync() { __syncthreads(); }
  SOFTFOLD_HD static std::uint64_t add(std::uint64_t* to, std::uint64_t value) {
    using word = unsigned long long;  // what the languages call 64 bits
    return atomicAdd(reinterpret_cast<word*>(to), static_cast<word>(value));
  }
#endif
};

template <class In>
__global__ void __launch_bounds__(sample_threads)
    sample_rows_by_block(const row_source<In> source, const core::sample_problem problem) {
  namespace sampling = core::sampling;
  auto& memory = *reinterpret_cast<sampling::row_memory*>(dynamic_shared_memory());
  // Arguments that are referred to would be copied to each thread's memory.
  auto& shared_problem = *reinterpret_cast<core::sample_problem*>(&memory + 1);
  if (threadIdx.x == 0) {
    shared_problem = problem;
  }
  __syncthreads();
  const std::int64_t r = blockIdx.x;
  const sampling::row_of<In> row{source.row(r)};
  const block_lanes lanes;
  sampling::row_sampler<core::arithmetic_t<In>, block_lanes, sampling::row_of<In>>(
      lanes, memory, row, shared_problem, r)
      .run();
}

}  // namespace

void sample_rows(executor& on, const core::sample_problem& p) {
  const runtime::current_device current(on.device);
  core::with_real(p.x.type, [&]<class In>(In) {
    launch_shared(on.stream, sample_rows_by_block<In>, p.x.rows, sample_threads,
                  sizeof(core::sampling::row_memory) + sizeof(core::sample_problem),
                  row_source<In>::of(p.x), p);
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The threads of a block as the lanes that core's code on rows works with.
#pragma once

#include <gpu/contract.hpp>

#include <softfold/config.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

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

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

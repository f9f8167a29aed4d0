// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the blocks of a cluster send each other: states, in shared memory.
#pragma once

#include "hopper.hpp"

#include <gpu/group/combine.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

inline constexpr int most_cluster_blocks = 16;

#if SOFTFOLD_GPU_HOPPER

/// Shared memory in which a cluster's blocks exchange their states, `each` of every block, once.
template <class State, int each = 1>
struct cluster_memory {
  transfer_barrier arrived;
  alignas(16) shared_array<State, each * most_cluster_blocks> blocks;
};

#endif

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

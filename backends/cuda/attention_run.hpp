// SPDX-License-Identifier: Apache-2.0
/// \file
/// Launches of attention's kernels by the matrix unit, and the kernels for groups of warps, which
/// are compiled by themselves.
#pragma once

#include "attention_keys.hpp"

#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

inline attention_way attention_way::of(const core::attention_problem& p) {
  const attention_options& o = p.options;
  constexpr double log2_e = 1.4426950408889634;
  // Products are compared before they are scaled.
  const bool edited = o.softcap != 0 || o.bias.data != nullptr || o.alibi_slopes.data != nullptr ||
                      !(p.scale >= 1e-30 && p.scale <= 1e30);
  const auto in_pieces = [](const const_tensor_ref& t) {
    return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.batch_stride % 8 == 0 &&
           t.head_stride % 8 == 0 && t.token_stride % 8 == 0;
  };
  const bool writes_pieces = p.out.type == p.q.type && in_pieces(p.out) && p.out.dim % 8 == 0;
  const auto unit = edited ? 1.0F : static_cast<float>(p.scale);
  return {edited,        in_pieces(p.q) && in_pieces(p.k) && in_pieces(p.v),
          writes_pieces, p.is_unmasked(),
          unit,          static_cast<float>(static_cast<double>(unit) * log2_e)};
}

inline std::int64_t largest_dim(const core::attention_problem& p) {
  return p.q.dim > p.v.dim ? p.q.dim : p.v.dim;
}

/// A block for each Shape::rows rows and each chunk.
template <class Shape, class A, class Kernel>
void launch_parts(executor& on, const core::attention_problem& p, const attention_parts<A>& parts,
                  Kernel* kernel) {
  launch_shared(on.stream, kernel, parts.units(p), Shape::threads, Shape::shared_bytes, p, parts,
                attention_way::of(p));
}

#if SOFTFOLD_CUDA_HAS_GROUPS
/// attention_groups.cu: for compute capability 9.0.
template <class In>
void launch_by_groups(executor& on, const core::attention_problem& p,
                      const attention_parts<float>& parts);
inline constexpr int rows_of_groups = 128;

/// Whether it is for a problem. Products add up in the matrix unit there, which does not round, it
/// cuts off: that would show after more keys.
template <class In>
bool goes_by_groups(const executor& on, const core::attention_problem& p) {
  const attention_way way = attention_way::of(p);
  constexpr std::int64_t most_keys = std::is_same_v<In, half> ? 1 << 15 : 1 << 18;
  if (way.edited || !way.in_pieces || p.most_keys() > most_keys) {
    return false;
  }
  int major = 0;
  int minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, on.device),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, on.device),
        "cudaDeviceGetAttribute");
  return major == 9 && minor == 0;
}
#endif

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

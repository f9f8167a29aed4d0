// SPDX-License-Identifier: Apache-2.0
/// \file
/// Combinations of states over lanes and a block, for any monoid whose states are an anchor and a
/// payload that adds: the largest anchor goes over the group first, each member rebases its
/// payload to it, once, and the payloads are summed. The order depends on the number of states
/// only.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/plan/plan.hpp>
#include <gpu/state/sum_state.hpp>

#include <core/topk.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Over groups of `lanes` lanes, a power of two; every lane gets the result. log2(lanes) shuffles.
template <class T>
__device__ inline T max_over_lanes(T value, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    value = max_or_nan(value, shuffle_xor(value, mask));
  }
  return value;
}

/// max_over_lanes of floats, which gives one NaN for all.
__device__ inline float largest_over_lanes(float value, int lanes) {
  constexpr int all = 32;  // of a warp that has an instruction for it
  return has_max_over_warp && lanes == all
             ? core::value_of_key<float>(max_over_warp<all>(core::order_key(value)))
             : max_over_lanes(value, lanes);
}

template <class T>
__device__ inline T sum_over_lanes(T value, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    value += shuffle_xor(value, mask);
  }
  return value;
}

/// Adds the value of the lane `distance` below, if there is one. A backend may have its own for
/// f32.
template <int lanes, class T>
__device__ inline void add_of_lane_below(T& to, T value, int distance) {
  auto lane = static_cast<int>(threadIdx.x) % lanes;
  forget_origin(lane);  // comparisons with it are made anew each time
  const T other = shuffle(value, lane - distance);
  if (lane >= distance) {
    to += other;
  }
}

/// Numbers of a warp's lanes become their sums up to the own lane, each of several by itself.
template <int lanes, class T, int count>
__device__ inline void sum_up_to_lane(T (&own)[count]) {
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      add_of_lane_below<lanes>(own[i], own[i], distance);
    }
  }
}

/// Up to so many states are combined by as many lanes, each group of them doing the same.
inline constexpr int few_states = 8;

/// The number of the first state that a lane combines, of `count`; the others follow at distance
/// `lanes`.
template <int lanes>
__device__ inline int first_combined(int count) {
  const int members = count <= few_states ? few_states : lanes;  // a power of two
  return static_cast<int>(threadIdx.x) & (members - 1);
}

/// The combination of the states that a group of `members` lanes has: each(f) calls f with all of
/// the lane's, in order. Every lane gets the result. A lane's sum is Kahan's, for many states may
/// be of about one size.
template <class Monoid, class Each>
__device__ inline typename Monoid::value_type combine_over_lanes(int members, const Monoid& monoid,
                                                                 const Each& each) {
  using state = typename Monoid::value_type;
  auto anchor = Monoid::anchor(Monoid::identity());
  each([&](const state& s) { anchor = Monoid::larger(anchor, Monoid::anchor(s)); });
  if constexpr (!std::is_empty_v<decltype(anchor)>) {
    for (int mask = members / 2; mask > 0; mask /= 2) {
      anchor = Monoid::larger(anchor, shuffle_xor(anchor, mask));
    }
  }
  using payload = decltype(monoid.rebased(Monoid::identity(), anchor));
  payload sum = 0;
  payload excess = 0;
  each([&](const state& s) {
    const payload term = monoid.rebased(s, anchor) - excess;
    const payload next = sum + term;
    excess = (next - sum) - term;
    sum = next;
  });
  return Monoid::state_of(anchor, sum_over_lanes(sum, members));
}

/// The combination of `count` states, of which each lane of a warp brings those from number
/// first_combined on. The order depends on `count` only, up to few_states of them, else on `lanes`,
/// too.
template <int lanes, class Monoid, class Each>
__device__ inline typename Monoid::value_type combine_each(int count, const Monoid& monoid,
                                                           const Each& each) {
  return combine_over_lanes(count <= few_states ? few_states : lanes, monoid, each);
}

/// The same of states in shared or global memory.
template <int lanes, class Monoid>
__device__ inline typename Monoid::value_type combine_states(
    const typename Monoid::value_type* states, int count, const Monoid& monoid) {
  using state = typename Monoid::value_type;
  const int first = first_combined<lanes>(count);
  if (count <= few_states) {
    const state own = first < count ? states[first] : Monoid::identity();
    return combine_each<lanes>(count, monoid, [&](const auto& f) {
      if (first < count) {
        f(own);
      }
    });
  }
  return combine_each<lanes>(count, monoid, [&](const auto& f) {
    for (int i = first; i < count; i += lanes) {
      f(states[i]);
    }
  });
}

/// The same of no more states than a warp has lanes, with the same bits. `short_code`: in one way
/// for all numbers of them, which is a fifth of the code, with a few more exchanges between lanes
/// for few_states or less.
template <int lanes, bool short_code, class Monoid>
__device__ inline typename Monoid::value_type combine_up_to_lanes(
    const typename Monoid::value_type* states, int count, const Monoid& monoid) {
  if constexpr (short_code) {
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    const typename Monoid::value_type own = lane < count ? states[lane] : Monoid::identity();
    return combine_over_lanes(lanes, monoid, [&](const auto& f) {
      if (lane < count) {
        f(own);
      }
    });
  } else {
    return combine_states<lanes>(states, count, monoid);
  }
}

/// An array in shared memory, where variables have no constructors.
template <class T, int count>
struct shared_array {
  alignas(T) unsigned char bytes[count * sizeof(T)];

  __device__ T* data() { return reinterpret_cast<T*>(bytes); }
  __device__ T& operator[](int i) { return data()[i]; }
};

/// Shared memory of a block's fold.
inline constexpr int most_warps = 32;
template <class State>
struct fold_memory {
  shared_array<State, most_warps> warps;
};

/// The combination of the states of a block's warps. All threads call it, each lane with its
/// warp's state; `memory` may be used again after the block's next barrier. `short_code`: see
/// combine_up_to_lanes. On an H200 softmax of bf16 rows of 21,100 columns takes 3 % less time with
/// it, logsumexp of 25,000 columns, which has less to do beside, 4 % more; f64 was not tried.
template <int lanes, bool short_code = false, class Monoid>
__device__ inline typename Monoid::value_type combine_over_block(
    const typename Monoid::value_type& warp, const Monoid& monoid,
    fold_memory<typename Monoid::value_type>& memory) {
  const int warps = static_cast<int>(blockDim.x) / lanes;
  if (warps == 1) {
    return warp;
  }
  if (threadIdx.x % lanes == 0) {
    memory.warps[threadIdx.x / lanes] = warp;
  }
  __syncthreads();
  return combine_up_to_lanes<lanes, short_code>(memory.warps.data(), warps, monoid);
}

/// Groups of many chunks whose states are combined first, and shared memory for them.
inline constexpr int chunk_groups = 16;
template <class State>
using chunk_memory = shared_array<State, chunk_groups>;

/// The combination of the states of a row's chunks, the same by one warp as by more. Beyond
/// most_chunks_read_by_all states all threads of the block have to call it, and share the work.
template <int lanes, class Monoid>
__device__ inline typename Monoid::value_type combine_chunks(
    const typename Monoid::value_type* chunks, int count, const Monoid& monoid,
    chunk_memory<typename Monoid::value_type>& memory) {
  if (count <= most_chunks_read_by_all) {
    return combine_states<lanes>(chunks, count, monoid);
  }
  const int each = (count + chunk_groups - 1) / chunk_groups;
  const int warps = static_cast<int>(blockDim.x) / lanes;
  for (int i = static_cast<int>(threadIdx.x) / lanes; i < chunk_groups; i += warps) {
    const int rest = count - i * each;
    const typename Monoid::value_type group =
        combine_states<lanes>(chunks + i * each, rest < each ? rest : each, monoid);
    if (threadIdx.x % lanes == 0) {
      memory[i] = group;
    }
  }
  __syncthreads();
  return combine_states<lanes>(memory.data(), chunk_groups, monoid);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

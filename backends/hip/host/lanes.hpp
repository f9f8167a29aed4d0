// SPDX-License-Identifier: Apache-2.0
/// \file
/// The part of device.hpp for lanes that the processor runs.
#pragma once

#include "simt.hpp"

#include <gpu/row/block16.hpp>
#include <softfold/config.hpp>
#include <softfold/dtype.hpp>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

// The words of the language, which are no names of C++.
#define __global__
#define __device__
#define __host__
#define __shared__ thread_local
#define __launch_bounds__(...)

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

using std::exp;
using std::fma;
using std::isfinite;
using std::log;

// Functions of the language that the kernels call.
inline float __uint_as_float(std::uint32_t x) { return std::bit_cast<float>(x); }
inline std::uint32_t __float_as_uint(float x) { return std::bit_cast<std::uint32_t>(x); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(std::uint64_t{static_cast<std::uint32_t>(high)} << 32 |
                               static_cast<std::uint32_t>(low));
}
inline int __double2loint(double x) { return static_cast<int>(std::bit_cast<std::uint64_t>(x)); }
inline int __double2hiint(double x) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 32);
}
inline void __syncthreads() { simt::synchronize_block(); }
inline int __syncthreads_or(int predicate) { return simt::any_of_block(predicate != 0) ? 1 : 0; }
template <class T>
T atomicAdd(T* to, T value) {
  return std::atomic_ref<T>(*to).fetch_add(value, std::memory_order_relaxed);
}
template <class T>
T atomicMax(T* to, T value) {
  const std::atomic_ref<T> at(*to);
  T before = at.load(std::memory_order_relaxed);
  while (before < value && !at.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
  return before;
}

template <int lanes>
inline constexpr bool target_has_lanes = true;
inline void stop_wrong_lanes() {}

inline int lane_number() { return static_cast<int>(simt::lane()); }
template <class T>
T shuffle(T value, int from) {
  const std::byte* const values = simt::exchange(&value, sizeof(T));
  const int lane = from > 0 ? from : 0;  // what another lane has of a negative one is not used
  std::memcpy(&value, values + lane * simt::place_bytes, sizeof(T));
  return value;
}
template <class T>
T shuffle_xor(T value, int mask) {
  return shuffle(value, lane_number() ^ mask);
}
inline void synchronize_warp() { simt::exchange(nullptr, 0); }

inline std::uint64_t ballot(bool predicate) { return simt::ballot(predicate); }

/// As the hardware's instruction: results below 2^-126 are 0.
inline float fast_exp2(float x) { return x < -126 ? 0.0F : std::exp2(x); }
inline float fast_log2(float x) { return std::log2(x); }
inline float fast_reciprocal(float x) { return 1 / x; }

inline float to_float(half x) { return static_cast<float>(x); }
inline half to_half(float x) { return half(x); }

inline unsigned char* dynamic_shared_memory() { return simt::shared_memory(); }
inline void forget_origin(int&) {}
inline void forget_origin(std::uint32_t&) {}
inline void forget_origin(float&) {}
template <class T>
void forget_origin(T*&) {}
inline std::uint32_t shift_left(std::uint32_t x, int n) { return n >= 32 ? 0 : x << n; }
template <bool once>
block16 load_vector(const block16* from) {
  return *from;
}
inline std::uint32_t load_word(const std::uint32_t* from) { return *from; }
inline void store_vector(block16* to, const block16& v) { *to = v; }

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

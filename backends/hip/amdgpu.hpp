// SPDX-License-Identifier: Apache-2.0
/// \file
/// The part of device.hpp that is the hardware's.
#pragma once

#include <gpu/row/block16.hpp>
#include <softfold/config.hpp>
#include <softfold/dtype.hpp>

#include <hip/hip_runtime.h>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Whether kernels for `lanes` lanes are code for the target that is compiled for. A program has
/// every kernel for both widths; the one that a device cannot run is a trap.
#ifdef __HIP_DEVICE_COMPILE__
template <int lanes>
inline constexpr bool target_has_lanes = lanes == __AMDGCN_WAVEFRONT_SIZE;
#else
template <int lanes>
inline constexpr bool target_has_lanes = true;
#endif
__device__ inline void stop_wrong_lanes() { __builtin_trap(); }

/// The caller's number in its wavefront.
__device__ inline int lane_number() {
  return static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0U, __builtin_amdgcn_mbcnt_lo(~0U, 0)));
}

namespace detail {

/// Calls move(word) for each 32-bit word of a value.
template <class T, class Move>
__device__ inline T by_words(T value, const Move& move) {
  static_assert(sizeof(T) % 4 == 0);
  int words[sizeof(T) / 4];
  __builtin_memcpy(words, &value, sizeof(T));
#pragma unroll
  for (int& word : words) {
    word = move(word);
  }
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}

/// A data-parallel primitive: a move between lanes as part of an instruction, not through the LDS.
template <int control>
__device__ inline int dpp(int word) {
  return __builtin_amdgcn_update_dpp(0, word, control, 0xf, 0xf, true);
}
// Controls of "Data Parallel Primitives" in AMD's instruction set references.
constexpr int quad_xor_1 = 0xb1;        // quad_perm:[1,0,3,2]
constexpr int quad_xor_2 = 0x4e;        // quad_perm:[2,3,0,1]
constexpr int quad_xor_3 = 0x1b;        // quad_perm:[3,2,1,0]
constexpr int row_rotate_8 = 0x128;     // within 16 lanes: lane ^ 8
constexpr int row_half_mirror = 0x141;  // within 8 lanes: lane ^ 7

__device__ inline int read_lane(int word, int from) {
  return __builtin_amdgcn_ds_bpermute(4 * from, word);
}

}  // namespace detail

/// The value of lane (own ^ mask). All lanes are active. Moves within 16 lanes take no LDS.
template <class T>
__device__ inline T shuffle_xor(T value, int mask) {
  using namespace detail;
  switch (mask) {
    case 1:
      return by_words(value, [](int w) { return dpp<quad_xor_1>(w); });
    case 2:
      return by_words(value, [](int w) { return dpp<quad_xor_2>(w); });
    case 4:
      return by_words(value, [](int w) { return dpp<quad_xor_3>(dpp<row_half_mirror>(w)); });
    case 8:
      return by_words(value, [](int w) { return dpp<row_rotate_8>(w); });
    case 16:  // the swizzle's "bit mask" mode: and 31, or 0, xor 16
      return by_words(value, [](int w) { return __builtin_amdgcn_ds_swizzle(w, 0x401f); });
    default:
      return by_words(value, [mask](int w) { return read_lane(w, lane_number() ^ mask); });
  }
}

/// The value of lane `from`.
template <class T>
__device__ inline T shuffle(T value, int from) {
  return detail::by_words(value, [from](int w) { return detail::read_lane(w, from); });
}

/// What lanes of a wavefront wrote to memory is seen by its other lanes after it: they run in step
/// and their accesses are in order, so only the compiler has to be told.
__device__ inline void synchronize_warp() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}

__device__ inline std::uint64_t ballot(bool predicate) { return __ballot(predicate ? 1 : 0); }

__device__ inline float to_float(half x) {
  return static_cast<float>(__builtin_bit_cast(_Float16, x.bits));
}
/// Rounded to nearest even. The NaN of the hardware is not the canonical one.
__device__ inline half to_half(float x) {
  return half::from_bits(__builtin_bit_cast(std::uint16_t, static_cast<_Float16>(x)));
}

/// 2^x within 2^-22; 0 below 2^-126 and for -infinity: the instruction v_exp_f32.
__device__ inline float fast_exp2(float x) {
#if __has_builtin(__builtin_amdgcn_exp2f)
  return __builtin_amdgcn_exp2f(x);
#else  // before clang 17 the generic builtin is that instruction
  return __builtin_exp2f(x);
#endif
}
/// log2 x for x in [1, 2], within 2^-22: the instruction v_log_f32.
__device__ inline float fast_log2(float x) {
#if __has_builtin(__builtin_amdgcn_logf)
  return __builtin_amdgcn_logf(x);
#else  // before clang 17 the generic builtin is that instruction
  return __builtin_log2f(x);
#endif
}
/// 1 / x within 2^-22, for x and 1 / x of ordinary size.
__device__ inline float fast_reciprocal(float x) { return __builtin_amdgcn_rcpf(x); }

/// x * 2^n; 0 from n = 32 on.
__device__ inline std::uint32_t shift_left(std::uint32_t x, int n) { return n >= 32 ? 0 : x << n; }

/// A launch's dynamic shared memory, aligned to 16 bytes.
__device__ inline unsigned char* dynamic_shared_memory() {
  extern __shared__ block16 dynamic[];
  return reinterpret_cast<unsigned char*>(dynamic);
}

/// Hides a value's origin from the compiler, which would otherwise keep what it computed from it
/// in registers for a second use.
__device__ inline void forget_origin(int& v) { asm volatile("" : "+v"(v)); }
__device__ inline void forget_origin(std::uint32_t& v) { asm volatile("" : "+v"(v)); }
__device__ inline void forget_origin(float& v) { asm volatile("" : "+v"(v)); }
template <class T>
__device__ inline void forget_origin(T*& p) {
  asm volatile("" : "+v"(p));
}

namespace detail {
using words4 = std::uint32_t __attribute__((ext_vector_type(4)));
// In global memory, which the compiler does not see where an address was computed as a number.
using global_words4 = __attribute__((address_space(1))) words4;
}  // namespace detail
template <bool once>
__device__ inline block16 load_vector(const block16* from) {
  const detail::words4 v = __builtin_nontemporal_load((const detail::global_words4*)from);
  return {{v.x, v.y, v.z, v.w}};
}
__device__ inline std::uint32_t load_word(const std::uint32_t* from) {
  return *(const __attribute__((address_space(1))) std::uint32_t*)from;
}
__device__ inline void store_vector(block16* to, const block16& v) {
  const detail::words4 words = {v.words[0], v.words[1], v.words[2], v.words[3]};
  __builtin_nontemporal_store(words, (detail::global_words4*)to);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the kernels of backends/gpu need of the CUDA device language. backends/hip has the same
/// names.
#pragma once

#include <core/topk.hpp>
#include <gpu/row/block16.hpp>
#include <softfold/config.hpp>
#include <softfold/dtype.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Calls body with the number of lanes of the device's warps as a compile-time constant.
template <class Body>
void with_lanes(int /*lanes*/, Body&& body) {
  body(std::integral_constant<int, 32>());
}

/// Whether kernels for `lanes` lanes are code for the target that is compiled for.
template <int lanes>
inline constexpr bool target_has_lanes = lanes == 32;
__device__ inline void stop_wrong_lanes() { __trap(); }

/// Whether short rows are put together in shared memory before they are written.
inline constexpr bool stages_rows = true;

inline constexpr int vectors_under_way = 16;

/// The second argument of launch bounds for `blocks` blocks on a multiprocessor.
constexpr int least_resident(int blocks) { return blocks; }

/// Before functions that are called seldom: their code is not in their callers', nor are their
/// registers.
#define SOFTFOLD_OUT_OF_LINE __noinline__

/// The value of lane (own ^ mask).
template <class T>
__device__ inline T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask);
}

/// The largest and the least value of a warp's lanes, each by one instruction.
inline constexpr bool has_max_over_warp = true;
template <int lanes>
__device__ inline std::uint32_t max_over_warp(std::uint32_t value) {
  return __reduce_max_sync(0xffffffffU, value);
}
template <int lanes>
__device__ inline std::uint32_t min_over_warp(std::uint32_t value) {
  return __reduce_min_sync(0xffffffffU, value);
}
template <int lanes>
__device__ inline std::uint32_t sum_over_warp(std::uint32_t value) {
  return __reduce_add_sync(0xffffffffU, value);
}

/// The value of lane `from`.
template <class T>
__device__ inline T shuffle(T value, int from) {
  return __shfl_sync(0xffffffffU, value, from);
}

/// The shuffle says whether there is such a lane.
template <int lanes>
__device__ inline void add_of_lane_below(float& to, float value, int distance) {
  asm volatile(
      "{\n\t.reg .pred is_lane;\n\t"
      ".reg .f32 other;\n\t"
      "shfl.sync.up.b32 other|is_lane, %1, %2, 0, -1;\n\t"
      "@is_lane add.f32 %0, %0, other;\n\t}"
      : "+f"(to)
      : "f"(value), "r"(distance));
}

/// What lanes of a warp wrote to memory is seen by its other lanes after it.
__device__ inline void synchronize_warp() { __syncwarp(); }

/// A bit for each lane.
using lane_mask = std::uint32_t;
__device__ inline lane_mask ballot(bool predicate) { return __ballot_sync(0xffffffffU, predicate); }
__device__ inline int count(lane_mask lanes) { return __popc(lanes); }
__device__ inline int count_bits(unsigned bits) { return __popc(bits); }
__device__ inline int lowest_bit(unsigned bits) { return __ffs(static_cast<int>(bits)) - 1; }
/// The lanes below the caller's.
__device__ inline lane_mask lanes_below() {
  lane_mask mask;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
  return mask;
}
__device__ inline int leading_zeros(std::uint64_t x) { return __clzll(static_cast<long long>(x)); }

/// core::order_key without its branches: the only NaN that a sum can be is 0x7fffffff, and -0 + 0
/// is +0.
__device__ inline std::uint32_t order_key(float x) {
  const std::int32_t bits = __float_as_int(__fadd_rn(x, 0.0F));
  return static_cast<std::uint32_t>(bits) ^ (static_cast<std::uint32_t>(bits >> 31) | 0x80000000U);
}
__device__ inline std::uint64_t order_key(double x) { return core::order_key(x); }

/// Two 16-bit elements as numbers in the order of their keys, in a word.
template <class In>
__device__ inline std::uint32_t order_keys_of_pair(std::uint32_t pair) {
  std::uint32_t sum;  // -0 + 0 is +0, and there is one NaN, which is positive
  if constexpr (std::is_same_v<In, half>) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(pair), "r"(0x3c003c00U), "r"(0U));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(pair), "r"(0x3f803f80U), "r"(0U));
  }
  std::uint32_t signs;
  asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(signs) : "r"(sum));
  return sum ^ (signs | 0x80008000U);
}

__device__ inline std::uint32_t half_above(std::uint32_t pair, int i, std::uint32_t low) {
  return __byte_perm(low, pair, i == 0 ? 0x5410U : 0x7610U);
}

/// By multiplications with numbers that the compiler does not know to be 1 and -1: additions would
/// take the units that compare.
__device__ inline std::uint32_t other_of(std::uint32_t a, std::uint32_t b, std::uint32_t one) {
  const std::uint32_t plus = blockDim.z;
  const std::uint32_t minus = 0 - plus;
  std::uint32_t sum;
  asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(plus), "r"(b));
  asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(one), "r"(minus), "r"(sum));
  return sum;
}

/// The larger; NaN if one is NaN.
__device__ inline float max_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ inline double max_or_nan(double a, double b) { return a > b || a != a ? a : b; }

/// The smaller; NaN if one is NaN.
__device__ inline float min_or_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ inline double min_or_nan(double a, double b) { return a < b || a != a ? a : b; }

/// The larger halves of two pairs of 16-bit elements; NaN if one is NaN.
template <class In>
__device__ inline std::uint32_t max_of_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t result;
  if constexpr (std::is_same_v<In, half>) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
}

/// The smaller halves of two pairs of 16-bit integers.
__device__ inline std::uint32_t min_of_pairs(std::uint32_t a, std::uint32_t b) {
  return __vminu2(a, b);
}

/// Of 32-bit integers; the compiler's own adds 0 to the upper half.
__device__ inline std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) {
  std::uint64_t result;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(result) : "r"(a), "r"(b));
  return result;
}

/// Adds a * b to sums[0] if x >= least[0], to sums[1] if x >= least[1], to sums[2] if least[2] <=
/// x < least[1]. In this form ptxas makes three predicated instructions of it: it has selections
/// for predicates, and two additions for mad.wide.
__device__ inline void add_product_where(std::uint64_t (&sums)[3], float x, const float (&least)[3],
                                         std::uint32_t a, std::uint32_t b) {
  asm("{\n\t.reg .pred in_first, in_both, in_third;\n\t"
      ".reg .u64 product;\n\t"
      "setp.ge.f32 in_first, %3, %4;\n\t"
      "setp.ge.f32 in_both, %3, %5;\n\t"
      "setp.ge.and.f32 in_third, %3, %6, !in_both;\n\t"
      "@!in_first bra not_first;\n\t"
      "mul.wide.u32 product, %7, %8;\n\t"
      "add.u64 %0, %0, product;\n\tnot_first:\n\t"
      "@!in_both bra not_both;\n\t"
      "mul.wide.u32 product, %7, %8;\n\t"
      "add.u64 %1, %1, product;\n\tnot_both:\n\t"
      "@!in_third bra not_third;\n\t"
      "mul.wide.u32 product, %7, %8;\n\t"
      "add.u64 %2, %2, product;\n\tnot_third:\n\t}"
      : "+l"(sums[0]), "+l"(sums[1]), "+l"(sums[2])
      : "f"(x), "f"(least[0]), "f"(least[1]), "f"(least[2]), "r"(a), "r"(b));
}

/// 2^x within 2^-22; 0 below 2^-126 and for -infinity.
__device__ inline float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// log2 x within 2^-22 for x in [1/2, 2], else within a share of 2^-22.
__device__ inline float fast_log2(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// a b + c, between 0 and 1.
__device__ inline float saturated_fma(float a, float b, float c) {
  float result;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}

/// 1 / x within 2^-22, for x and 1 / x of ordinary size.
__device__ inline float fast_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ inline float to_float(half x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline float to_float(bfloat16 x) {
  return __uint_as_float(static_cast<std::uint32_t>(x.bits) << 16);
}
/// Two numbers, the first in the low half, rounded to nearest even. The NaN of the hardware is not
/// the canonical one.
__device__ inline std::uint32_t to_half_pair(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return static_cast<std::uint32_t>(__half_as_ushort(__low2half(pair))) |
         static_cast<std::uint32_t>(__half_as_ushort(__high2half(pair))) << 16;
}
__device__ inline std::uint32_t to_bfloat16_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// A launch's dynamic shared memory, aligned to 128 bytes: copies from global memory to what is not
/// come by parts of sectors.
__device__ inline unsigned char* dynamic_shared_memory() {
  extern __shared__ __align__(128) block16 dynamic[];
  return reinterpret_cast<unsigned char*>(dynamic);
}

/// Whether blocks ask for what later ones will read, and how.
inline constexpr bool prefetches = true;
__device__ inline void prefetch_line(const void* in_line) {  // of 128 bytes, to the L2 cache
  asm volatile("prefetch.global.L2 [%0];" ::"l"(in_line));
}
/// Whether copies from global to shared memory go on while their threads do, and such a copy.
inline constexpr bool copies_ahead = true;
__device__ inline void copy_ahead(block16* shared, const block16* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(from)
               : "memory");
}
/// Waits for the thread's own copies.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
__device__ inline int multiprocessors() {
  int n;
  asm("mov.u32 %0, %%nsmid;" : "=r"(n));
  return n;
}

/// See launch_next. What the launch before wrote is seen after the wait.
__device__ inline void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ inline void wait_for_launch_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Hides a value's origin from the compiler, which would otherwise keep what it computed from it
/// in registers for a second use.
__device__ inline void forget_origin(int& v) { asm volatile("" : "+r"(v)); }
__device__ inline void forget_origin(std::uint32_t& v) { asm volatile("" : "+r"(v)); }
__device__ inline void forget_origin(float& v) { asm volatile("" : "+f"(v)); }
template <class T>
__device__ inline void forget_origin(T*& p) {
  asm volatile("" : "+l"(p));
}

/// x * 2^n; 0 from n = 32 on.
__device__ inline std::uint32_t shift_left(std::uint32_t x, int n) {
  std::uint32_t result;
  asm("shl.b32 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(n));
  return result;
}

/// Of four bits: 0xffff if bit 2 w is set, 0xffff0000 if bit 2 w + 1 is. The product has each of
/// them as a byte's highest, which a permutation of bytes can repeat (that of __byte_perm cannot).
__device__ inline std::uint32_t pair_mask(std::uint32_t four, int w) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, 0, %2;"
      : "=r"(result)
      : "r"(four * 0x10204080U), "r"(w == 0 ? 0x9988 : 0xbbaa));
  return result;
}

/// From global memory. `once`: for kernels that write little; those that write as much as they read
/// are slower, measured, if what they read is the first to leave the cache.
template <bool once>
__device__ inline block16 load_vector(const block16* from) {
  uint4 v;
  if constexpr (once) {
    v = __ldcs(reinterpret_cast<const uint4*>(from));
  } else {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
  }
  return {{v.x, v.y, v.z, v.w}};
}
__device__ inline std::uint32_t load_word(const std::uint32_t* from) {
  std::uint32_t v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
}
__device__ inline void store_vector(block16* to, const block16& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.words[0]),
               "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3])
               : "memory");
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

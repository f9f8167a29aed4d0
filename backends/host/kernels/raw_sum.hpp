// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sums of a row as it is, by core/raw_sum.hpp's terms.
#pragma once

#include <backends/host/kernels/lanes.hpp>
#include <backends/host/kernels/table.hpp>

#include <core/raw_sum.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// a * b + c, rounded once on every processor.
template <class A>
SOFTFOLD_INLINE vec<A> fused(vec<A> a, vec<A> b, vec<A> c) {
  if constexpr (vec<A>::fma_rounds_once) {
    return fma(a, b, c);
  } else {
    vec<A> r;
    for (int i = 0; i < vec<A>::lanes; ++i) {
      if constexpr (sizeof(A) == 4) {
        r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
      } else {
        r.v[i] = __builtin_fma(a.v[i], b.v[i], c.v[i]);
      }
    }
    return r;
  }
}

typedef std::uint32_t key_words __attribute__((vector_size(sizeof(key_vector))));
typedef std::int64_t signed_keys __attribute__((vector_size(sizeof(key_vector))));

/// The sums of the three places of terms in vectors V. Keys: a vector of as many bytes of 64-bit
/// numbers.
template <class V, class Keys>
class term_places {
  static constexpr int lanes = static_cast<int>(sizeof(Keys) / 8);

 public:
  /// Vectors between two calls of carry(): a lane's sum has room for 2^9 terms.
  static constexpr int most = 256;

  /// shifted: raw_terms::magic + n, less 32 times the top place; p: a value of the polynomial.
  SOFTFOLD_INLINE void add(V shifted, V p) {
    namespace terms = core::sampling::raw_terms;
    const key_words n = reinterpret_cast<key_words>(shifted.v);
    const key_words factor = reinterpret_cast<key_words>(p.v) - terms::last_bits;
    const key_words power = (key_words{} + 1U) << (n & 31U);
    const Keys f = reinterpret_cast<Keys>(factor);
    const Keys s = reinterpret_cast<Keys>(power);
    const Keys even = multiply_low_halves(f, s);
    const Keys odd = multiply_low_halves(f >> 32, s >> 32);
    // As integers, floats that are not negative have their order, and -infinity is below them.
    const signed_keys odd_n = reinterpret_cast<signed_keys>(n);
    const signed_keys even_n = reinterpret_cast<signed_keys>(reinterpret_cast<Keys>(n) << 32);
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      const signed_keys least =
          signed_keys{} + (static_cast<std::int64_t>(terms::magic_bits - 32U * unsigned(i)) << 32);
      sums_[i] = even_n >= least ? sums_[i] + even : sums_[i];
      sums_[i] = odd_n >= least ? sums_[i] + odd : sums_[i];
    }
  }
  SOFTFOLD_INLINE void carry() {
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      const Keys own = i == 0 ? sums_[0] : sums_[i] - sums_[i - 1];
      low_[i] += own & 0xffffffffU;
      high_[i] += own >> 32;
    }
    sums_[0] = sums_[1] = sums_[2] = Keys{};
  }
  SOFTFOLD_INLINE void finish(raw_halves& to) const {
    for (int i = 0; i < 3; ++i) {
      for (int lane = 0; lane < lanes; ++lane) {
        to.low[i] += low_[i][lane];
        to.high[i] += high_[i][lane];
      }
    }
  }

 private:
  Keys sums_[3] = {};  ///< of terms of a place or above it
  Keys low_[3] = {};
  Keys high_[3] = {};
};

/// Where there are none.
template <class V>
class term_places<V, std::uint64_t> {
 public:
  static constexpr int most = 512 / V::lanes;

  SOFTFOLD_INLINE void add(V shifted, V p) {
    namespace terms = core::sampling::raw_terms;
    for (int i = 0; i < V::lanes; ++i) {
      const float one = shifted.v[i];
      const float factor = p.v[i];
      const auto n = __builtin_bit_cast(std::uint32_t, one);
      if (const std::uint32_t place = (terms::magic_bits + 31U - n) >> 5; place < 3) {
        sums_[place] += std::uint64_t{__builtin_bit_cast(std::uint32_t, factor) - terms::last_bits}
                        << (n & 31U);
      }
    }
  }
  SOFTFOLD_INLINE void carry() {
    for (int i = 0; i < 3; ++i) {
      halves_.low[i] += sums_[i] & 0xffffffffU;
      halves_.high[i] += sums_[i] >> 32;
      sums_[i] = 0;
    }
  }
  SOFTFOLD_INLINE void finish(raw_halves& to) const {
    for (int i = 0; i < 3; ++i) {
      to.low[i] += halves_.low[i];
      to.high[i] += halves_.high[i];
    }
  }

 private:
  std::uint64_t sums_[3] = {};
  raw_halves halves_;
};

/// Adds the terms of x[0, n) - base, none of a place above `top`.
template <class T>
void raw_sum_kernel(const void* x, std::int64_t n, float base, std::int32_t top, raw_halves* to) {
  namespace terms = core::sampling::raw_terms;
  using V = vec<float>;
  const T* const in = static_cast<const T*>(x);
  const V less(base);
  const V magic(terms::magic - static_cast<float>(32 * top));
  term_places<V, key_vector> places;
  const auto take = [&](V v) {
    v = v - less;
    const V shifted = fused(v, V(terms::log2_e), magic);
    const V rest = fused(shifted - magic, V(-terms::ln2), v);
    places.add(shifted, terms::polynomial(rest));
  };
  constexpr std::int64_t step = std::int64_t{decltype(places)::most} * V::lanes;
  for (std::int64_t begin = 0; begin < n; begin += step) {
    const std::int64_t end = n - begin < step ? n : begin + step;
    std::int64_t i = begin;
    for (; i + V::lanes <= end; i += V::lanes) {
      take(V::load(in + i));
    }
    if (i < end) {
      take(V::load(in + i, static_cast<int>(end - i), V(-infinity<float>)));
    }
    places.carry();
  }
  places.finish(*to);
}

template <class T>
constexpr auto raw_sum_kernel_of() {
  using kernel = void (*)(const void*, std::int64_t, float, std::int32_t, raw_halves*);
  if constexpr (sizeof(arithmetic_t<T>) == sizeof(float)) {
    return kernel{raw_sum_kernel<T>};
  } else {
    return kernel{nullptr};
  }
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

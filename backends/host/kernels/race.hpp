// SPDX-License-Identifier: Apache-2.0
/// \file
/// The race for the largest key. An element with the top 16 random bits b can have the key K or a
/// larger one only if
///
///     log2(b) - 16 <= (z - K) log2 e,
///
/// for its exponential number is at least b 2^-16. A float's bits, taken as an integer, are a lower
/// bound of its logarithm: so 16 bits and a fused multiply-add tell the few elements whose keys are
/// worth computing, and no exponential is.
#pragma once

#include <backends/host/kernels/elements.hpp>
#include <backends/host/kernels/noise.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// One element after the other, exactly.
class contest {
 public:
  explicit SOFTFOLD_INLINE contest(race_state& state)
      : state_(state), noise_{state.seed, state.offset, state.draw} {
    set_least();
  }

  [[nodiscard]] SOFTFOLD_INLINE const core::sampling::noise& noise() const { return noise_; }

  /// What vectors of load_logarithms are compared with, for an element whose z is the key; some
  /// more, for all that rounds in f32.
  static SOFTFOLD_INLINE double least_logarithm(double key) {
    const double magnitude = key < 0 ? -key : key;
    return unit * (16 + 127 + 0x1p-9 + magnitude * 0x1p-44);
  }
  static constexpr double unit = 0x1p23;
  static constexpr double log2_e = 1.4426950408889634;

  /// Runs an element; whether it leads now.
  SOFTFOLD_INLINE bool run(double x, std::int64_t column, std::uint16_t bits) {
    namespace sampling = core::sampling;
    const double z = sampling::scaled(state_.scale, x);
    if (!(z < infinity<double>) || x == infinity<double>) {
      state_.ordinary = false;
      return false;
    }
    if (z == -infinity<double> || x < state_.lowest ||
        (x == state_.lowest && column > state_.last_column)) {
      return false;
    }
    const auto number = static_cast<float>(bits);
    if (state_.key > -infinity<double> &&
        (z - state_.key) * (log2_e * unit) + least_ <=
            static_cast<double>(__builtin_bit_cast(std::int32_t, number))) {
      return false;
    }
    const double key = sampling::key_of(z, sampling::all_bits(noise_, column, bits));
    if (key > state_.key || (key == state_.key && column < state_.column)) {
      state_.key = key;
      state_.column = column;
      set_least();
      return true;
    }
    return false;
  }

 private:
  void set_least() { least_ = least_logarithm(state_.key); }

  race_state& state_;
  core::sampling::noise noise_;
  double least_;
};

/// The race of consecutive elements, block by block.
template <class T, bool filters>
class row_race_kernel {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  static constexpr std::int64_t block = 512;

 public:
  SOFTFOLD_INLINE row_race_kernel(const T* x, std::int64_t column, race_state& state)
      : x_(x), column_(column), state_(state), contest_(state), blocks_(contest_.noise(), column) {}

  SOFTFOLD_INLINE void run(std::int64_t n) {
    for (std::int64_t begin = 0; begin < n && state_.ordinary; begin += block) {
      run_block(begin, n - begin < block ? n - begin : block);
    }
  }

 private:
  static constexpr double largest = sizeof(A) == 4 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
  /// Where products by the scale are large, elements are taken relative to one of the leader's
  /// size.
  static constexpr double near_zero = 256;

  SOFTFOLD_INLINE void run_block(std::int64_t begin, std::int64_t n) {
    begin_ = begin;
    const bool leads = state_.key > -infinity<double>;
    A top = 0;
    if (filters || !leads) {
      top = largest_of(n);
      if (filters && top == -infinity<A>) {
        blocks_.skip(block);
        return;
      }
    }
    blocks_.write(bits_, n);
    const double z = state_.scale * static_cast<double>(top);
    floor_ = !leads && z > -infinity<double> && z < infinity<double> ? promising_key(n, z)
                                                                     : -infinity<double>;
    set_limit();
    scan(n);
    if (state_.key < floor_) {  // nobody was as good: once more, for less
      floor_ = -infinity<double>;
      set_limit();
      scan(n);
    }
  }

  SOFTFOLD_INLINE V load(std::int64_t i) const { return kept(V::load(x_ + begin_ + i)); }
  SOFTFOLD_INLINE V load(std::int64_t i, std::int64_t n) const {
    return n - i >= V::lanes
               ? load(i)
               : kept(V::load(x_ + begin_ + i, static_cast<int>(n - i), V(-infinity<A>)));
  }
  SOFTFOLD_INLINE V kept(V x) const {
    if constexpr (filters) {
      const V lowest(static_cast<A>(state_.lowest));
      return V::select(greater(lowest, x), V(-infinity<A>), x);
    } else {
      return x;
    }
  }

  SOFTFOLD_INLINE A largest_of(std::int64_t n) const {
    V top(-infinity<A>);
    for (std::int64_t i = 0; i < n; i += V::lanes) {
      top = max(load(i, n), top);
    }
    return top.reduce_max();
  }

  /// A key that the block's winner has, or nearly so, by what the vectors see of keys: all of them
  /// are looked at before one runs. z: the largest.
  SOFTFOLD_INLINE double promising_key(std::int64_t n, double z) {
    set_limit_of(z);
    V best(static_cast<A>(-largest));
    for (std::int64_t i = 0; i < n; i += V::lanes) {
      const V t = fma(load(i, n) - centre_, factor_, offset_);
      best = max(t - V::load_logarithms(bits_ + i), best);
    }
    const double above = static_cast<double>(best.reduce_max()) * (1 / contest::unit) - 1;
    return z + above * 0.6931471805599453;
  }

  void set_limit() { set_limit_of(state_.key > floor_ ? state_.key : floor_); }

  /// An element runs if (x - centre) factor + offset is above its bits' logarithm.
  void set_limit_of(double key) {
    if (key == -infinity<double>) {  // any but -infinity, whatever the scale
      centre_ = V(A{0});
      factor_ = V(sizeof(A) == 4 ? static_cast<A>(0x1p-100) : static_cast<A>(0x1p-1000));
      offset_ = V(static_cast<A>(0x1p40));
      return;
    }
    double centre = 0;
    if (key > near_zero || key < -near_zero) {
      centre = key / state_.scale;
      centre = centre > largest ? largest : centre < -largest ? -largest : centre;
      centre = static_cast<double>(static_cast<A>(centre));
    }
    constexpr double unit = contest::log2_e * contest::unit;
    centre_ = V(static_cast<A>(centre));
    factor_ = V(static_cast<A>(state_.scale * unit));
    offset_ =
        V(static_cast<A>((state_.scale * centre - key) * unit + contest::least_logarithm(key)));
  }

  SOFTFOLD_INLINE typename V::mask test(std::int64_t i, V x) const {
    return not_at_most(fma(x - centre_, factor_, offset_), V::load_logarithms(bits_ + i));
  }

  SOFTFOLD_INLINE void scan(std::int64_t n) {
    constexpr int vectors = 4;
    std::int64_t i = 0;
    for (; i + vectors * V::lanes <= n; i += vectors * V::lanes) {
      typename V::mask hits[vectors];
#pragma GCC unroll 4
      for (int k = 0; k < vectors; ++k) {
        const std::int64_t at = i + k * V::lanes;
        prefetch_ahead(x_ + begin_ + at);
        hits[k] = test(at, load(at));
      }
      if (V::bits(V::either(V::either(hits[0], hits[1]), V::either(hits[2], hits[3]))) != 0)
          [[unlikely]] {
        for (int k = 0; k < vectors; ++k) {
          run_hits(i + k * V::lanes, V::bits(hits[k]));
        }
      }
    }
    for (; i < n; i += V::lanes) {
      const unsigned exist = n - i >= V::lanes ? ~0U : (1U << (n - i)) - 1;
      run_hits(i, V::bits(test(i, load(i, n))) & exist);
    }
  }

  SOFTFOLD_INLINE static double element(const T* x) {
    if constexpr (sizeof(T) == sizeof(A)) {
      return static_cast<double>(*x);
    } else {
      return static_cast<double>(V::load(x, 1, V(A{0})).first_lane());
    }
  }

  __attribute__((noinline)) void run_hits(std::int64_t i, unsigned hits) {
    bool changed = false;
    for (; hits != 0; hits &= hits - 1) {
      const std::int64_t at = i + __builtin_ctz(hits);
      changed =
          contest_.run(element(x_ + begin_ + at), column_ + begin_ + at, bits_[at]) || changed;
    }
    if (changed) {
      set_limit();
    }
  }

  const T* x_;
  std::int64_t column_;
  race_state& state_;
  contest contest_;
  noise_blocks blocks_;
  std::int64_t begin_ = 0;
  double floor_ = -infinity<double>;  ///< below this key nobody runs for now
  V centre_;
  V factor_;
  V offset_;
  alignas(64) std::uint16_t bits_[unsigned{block} + 64];
};

template <class T>
struct race_kernels {
  static void race(const void* x, std::int64_t n, std::int64_t column, race_state* state) {
    const T* const in = static_cast<const T*>(x);
    if (state->lowest > -infinity<double>) {
      row_race_kernel<T, true>(in, column, *state).run(n);
    } else {
      row_race_kernel<T, false>(in, column, *state).run(n);
    }
  }

  static void race_of_list(const void* values, const std::int64_t* columns, std::int64_t n,
                           race_state* state) {
    namespace sampling = core::sampling;
    const auto* const x = static_cast<const arithmetic_t<T>*>(values);
    contest runs(*state);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto column = static_cast<std::uint64_t>(columns[i]);
      const std::uint32_t bits =
          sampling::first_bits(sampling::first_words(runs.noise(), column / sampling::block_tokens),
                               static_cast<int>(column % sampling::block_tokens));
      runs.run(static_cast<double>(x[i]), columns[i], static_cast<std::uint16_t>(bits));
    }
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

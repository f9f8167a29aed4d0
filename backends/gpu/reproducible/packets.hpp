// SPDX-License-Identifier: Apache-2.0
/// \file
/// One thread's part of a row's exact sum: core/reproducible.hpp's terms of packets of columns.
/// What is largest is not known before; where a packet has a larger element than those before it,
/// sums change places.
#pragma once

#include <gpu/row/row_reader.hpp>

#include <core/reproducible.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

static_assert(block_columns == core::reproducible::packet_columns);

/// A row's elements in the order of the scaled ones: of f32 arithmetic, and a scale that is not 0.
/// `scaled`: by another than 1.
template <bool scaled>
struct ordered_scale {
  float size = 1;
  std::uint32_t sign = 0;  ///< bit of a negative scale

  SOFTFOLD_HD static ordered_scale of(float scale) {
    return {scale < 0 ? -scale : scale, scale < 0 ? 0x80000000U : 0U};
  }
  /// And back from it.
  [[nodiscard]] __device__ float ordered(float x) const {
    return scaled ? __uint_as_float(__float_as_uint(x) ^ sign) : x;
  }
};

/// p 2^(n + k) of exp(z + lost), about p 2^n: k is what `magic` has beyond the format's. Of z that
/// leave it normal. `has_lost`: lost is not 0.
template <bool has_lost>
__device__ inline float shifted_term(float z, float lost, float magic) {
  using format = core::reproducible::format<float>;
  const float shifted = fmaf(z, format::log2_e, magic);
  float rest = fmaf(shifted - magic, -format::ln2, z);
  if constexpr (has_lost) {
    rest += lost;
  }
  return __uint_as_float(__float_as_uint(core::reproducible::polynomial(rest)) +
                         (__float_as_uint(shifted) << format::digits));
}

/// Below the anchors of all elements that have terms.
inline constexpr std::int32_t lowest_anchor = -5944;
/// A term's biased exponent over 32 is its place over this less the anchor.
inline constexpr int place_of_anchor =
    (core::reproducible::bias_of<float> + core::reproducible::format<float>::raised) / 32;
/// The least number of a place, of numbers that are no less than 0.
__device__ inline float at_place(int place) {
  return __uint_as_float(static_cast<std::uint32_t>(place) << 28);
}
__device__ inline int place_of(float packet) {
  return static_cast<int>(__float_as_uint(packet) >> 28);
}
/// A packet's sum as digits of its place are a product of its fraction and a power of two.
struct digit_factors {
  std::uint32_t fraction;
  std::uint32_t power;

  __device__ static digit_factors of(float packet) {
    using format = core::reproducible::format<float>;
    constexpr std::uint32_t one = 1U << format::digits;
    const std::uint32_t bits = __float_as_uint(packet);
    return {(bits & (one - 1)) | one, 1U << (bits >> format::digits & 31U)};
  }
};
__device__ inline std::uint64_t digits_of(float packet) {
  const auto f = digit_factors::of(packet);
  return std::uint64_t{f.fraction} * f.power;
}
/// Adds a packet's sum to the word of its place; words[1] is with words[0], see
/// add_product_where.
__device__ inline void deposit(float packet, const float (&least)[3], std::uint64_t (&words)[3]) {
  const auto f = digit_factors::of(packet);
  add_product_where(words, packet, least, f.fraction, f.power);
}

template <class In, bool scaled>
class packet_thread {
  using format = core::reproducible::format<float>;
  static constexpr float far_from = core::reproducible::far_from<float>;

 public:
  /// Packets between two calls of carry(): a place's sum has room for 2^9.
  static constexpr int most_packets = 512;

  __device__ explicit packet_thread(const ordered_scale<scaled>& scale) : scale_(scale) {
    set_anchor(lowest_anchor);
    set_place(lowest_place);
  }

  /// Columns of block number a from columns_left(a) on, if that is below block_columns, are absent.
  template <int blocks, class Left>
  __device__ void add(const column_block<In> (&block)[blocks], const Left& columns_left) {
    float most = -infinity<float>;
    float packets[blocks];
    if constexpr (scaled) {
#pragma unroll
      for (int a = 0; a < blocks; ++a) {
#pragma unroll
        for (int i = 0; i < block_columns; ++i) {
          most = max_or_nan(most, ordered(block[a], i, columns_left(a)));
        }
      }
    } else {
      most = largest_of(block);
    }
    largest_ = max_or_nan(largest_, most);
    const float most_z = scaled ? most * scale_.size : most;
    if (!(most_z <= limit_)) {
      raise(most_z);
    }
    float highest = 0;
#pragma unroll
    for (int a = 0; a < blocks; ++a) {
      float terms[block_columns];
#pragma unroll
      for (int i = 0; i < block_columns; ++i) {
        terms[i] = term(ordered(block[a], i, columns_left(a)));
      }
      packets[a] = core::reproducible::sum_of_packet(terms);
      highest = fmaxf(highest, packets[a]);
    }
    if (highest >= next_) {
      const int place = place_of(highest);
      shift(place - place_);
      set_place(place);
    }
#pragma unroll
    for (int a = 0; a < blocks; ++a) {
      deposit(packets[a], least_, sums_);
    }
  }
  __device__ void carry() {
    sums_[1] -= sums_[0];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      high_[i] += sums_[i] >> 32;
      sums_[i] &= 0xffffffffU;
    }
    sums_[1] += sums_[0];
  }

  /// In the order of scaled elements, NaN if there is one.
  [[nodiscard]] __device__ float largest() const { return largest_; }
  /// What has that place in the order.
  [[nodiscard]] __device__ float element(float ordered_x) const {
    return scale_.ordered(ordered_x);
  }
  [[nodiscard]] __device__ core::reproducible::exact_sum<float> sum() const {
    core::reproducible::exact_sum<float> result;
    result.top = top();
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      result.words[i] = {high_[i] << 32, high_[i] >> 32};
      result.words[i].add(i == 1 ? sums_[1] - sums_[0] : sums_[i]);
    }
    return result;
  }

 private:
  /// That of the largest packet's sum at least: the largest term's is in [1/2, 2^32).
  static constexpr int lowest_place = place_of_anchor - 1;
  [[nodiscard]] __device__ std::int32_t top() const { return place_ - place_of_anchor + anchor_; }
  __device__ void set_anchor(std::int32_t anchor) {
    anchor_ = anchor;
    const auto n = static_cast<float>(32 * anchor);
    magic_ = format::magic + (format::raised - n);
    // No n up to here is of a higher anchor.
    limit_ = (n + 31.484375F) * format::ln2;
    lowest_ = (n - 185) * format::ln2;
  }
  __device__ void set_place(int place) {
    place_ = place;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      least_[i] = at_place(place - i);
    }
    next_ = place < 7 ? at_place(place + 1) : infinity<float>;
  }
  __device__ void shift(int places) {
    const auto move = [&](std::uint64_t(&to)[3]) {
      to[2] = places == 1 ? to[1] : places == 2 ? to[0] : 0;
      to[1] = places == 1 ? to[0] : 0;
      to[0] = 0;
    };
    sums_[1] -= sums_[0];  // 0 again when it has moved
    move(sums_);
    move(high_);
  }
  /// Rows with an element beyond far_from, and NaN, are summed up otherwise.
  __device__ void raise(float most) {
    if (!(most < far_from)) {
      limit_ = infinity<float>;
      return;
    }
    const std::int32_t anchor =
        core::reproducible::anchor_of(fmaf(most, format::log2_e, format::magic) - format::magic);
    const std::int32_t up = anchor - anchor_;
    if (up <= 0) {
      return;
    }
    set_anchor(anchor);
    const std::int32_t place = place_ - up;
    if (place < lowest_place) {
      shift(lowest_place - place);
    }
    set_place(place < lowest_place ? lowest_place : place);
  }
  __device__ float term(float x) const {
    float z = x;
    float lost = 0;
    if constexpr (scaled) {
      z = core::reproducible::product(x, scale_.size);
      lost = z > lowest_ ? fmaf(x, scale_.size, -z) : 0;
    }
    return shifted_term<scaled>(fmaxf(z, lowest_), lost, magic_);
  }
  [[nodiscard]] __device__ float ordered(const column_block<In>& block, int i,
                                         std::int64_t left) const {
    return !scaled    ? block.element(i)
           : i < left ? scale_.ordered(block.element(i))
                      : -infinity<float>;
  }

  ordered_scale<scaled> scale_;
  std::uint64_t sums_[3] = {};  ///< the second with the first
  std::uint64_t high_[3] = {};  ///< in units of 2^32
  float largest_ = -infinity<float>;
  float magic_;
  float limit_;
  float lowest_;
  float least_[3];
  float next_;
  std::int32_t anchor_;
  int place_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

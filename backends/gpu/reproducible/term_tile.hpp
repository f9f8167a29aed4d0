// SPDX-License-Identifier: Apache-2.0
/// \file
/// A lane's share of a part of a row, its elements' terms, which are core/reproducible.hpp's
/// relative to an anchor, and what they add up to.
#pragma once

#include <gpu/group/integers.hpp>
#include <gpu/reproducible/packets.hpp>
#include <gpu/reproducible/total_state.hpp>
#include <gpu/row/tile.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// How elements become terms: x to p 2^(n - 32 anchor + raised). Of a positive scale, which is 1
/// unless it `may_scale`.
template <bool may_scale>
class term_function {
  using format = core::reproducible::format<float>;

 public:
  /// Of elements up to this one.
  __device__ term_function(float largest, float scale) : scale_(scale) {
    const float z = may_scale ? core::reproducible::product(largest, scale) : largest;
    const float n = fmaf(z, format::log2_e, format::magic) - format::magic;
    // Of none, and of those that have no terms, the anchor is below all that count. Rows with an
    // element beyond far_from, or a NaN, have their sum otherwise.
    anchor_ = z < -2 * core::reproducible::far_from<float> ? lowest_anchor
              : z < core::reproducible::far_from<float>    ? core::reproducible::anchor_of(n)
                                                           : 0;
    const auto from = static_cast<float>(32 * anchor_);
    magic_ = format::magic + (format::raised - from);
    const float lowest = (from - 185) * format::ln2;
    least_ = may_scale ? lowest / scale : lowest;
  }
  [[nodiscard]] __device__ std::int32_t anchor() const { return anchor_; }
  [[nodiscard]] __device__ bool is_scaled() const { return may_scale && scale_ != 1; }

  /// What is too far below the anchor becomes some number of no account. `scaled`: is_scaled().
  template <bool scaled>
  [[nodiscard]] __device__ float of(float x) const {
    const float least = fmaxf(x, least_);
    const float z = scaled ? core::reproducible::product(least, scale_) : least;
    return shifted_term<scaled>(z, scaled ? fmaf(least, scale_, -z) : 0.0F, magic_);
  }

 private:
  float scale_;
  float magic_;
  float least_;
  std::int32_t anchor_;
};

/// Calls body with each number from 0 to count - 1 as a constant, until it is false.
template <int count, class Body>
__device__ inline void for_each_number(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (void)(body(std::integral_constant<int, i>()) && ...);
  }
  (std::make_integer_sequence<int, count>());
}

/// V vectors of a lane, number first + j * lanes for j in [0, V), of a range that begins at a
/// packet, though not at a vector unless it is `plain`; see tile. `lanes` hold all of the range: 2
/// or more of f32, whose packets are two vectors.
template <class In, int V, bool plain>
class term_tile : public tile<In, V, plain> {
  using base = tile<In, V, plain>;
  using base::width;
  static constexpr int packet_lanes = core::reproducible::packet_columns / width;
  static_assert(packet_lanes == 1 || (packet_lanes == 2 && V % 2 == 0));

 public:
  using base::base;

  /// Where the range's vectors begin.
  [[nodiscard]] __device__ const vector_range<In>& range() const { return this->range_; }
  [[nodiscard]] __device__ int step() const { return this->step_; }

  /// The total of the range; the terms are kept, if they are used again.
  template <int lanes>
  __device__ total_state total(float scale, int count) {
    const float largest = largest_over_lanes(this->max(), count);
    this->next_pass();
    const term_function<!plain> term(largest, scale);
    return sum_of_terms<lanes>(largest, count, term);
  }

  /// Nothing that is held is used again: it takes no registers beside what comes before.
  __device__ void drop() {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      this->vectors_[j] = block16{};
    }
#pragma unroll
    for (int i = 0; i < V * width; ++i) {
      terms_[i] = 0;
    }
    anchor_ = 0;
  }

  /// Element i of vector j by its term: p 2^(n - 32 anchor + raised).
  [[nodiscard]] __device__ float term(int j, int i) const { return terms_[j * width + i]; }
  [[nodiscard]] __device__ std::int32_t anchor() const { return anchor_; }
  /// All terms become times `factor`.
  __device__ void multiply(float factor) {
#pragma unroll
    for (int i = 0; i < V * width; ++i) {
      terms_[i] *= factor;
    }
  }

 private:
  template <int lanes>
  __device__ total_state sum_of_terms(float largest, int count, const term_function<!plain>& term) {
    anchor_ = term.anchor();
    constexpr int packets = V / packet_lanes;
    float sums[packets] = {};
    float highest = 0;
    constexpr int ahead = plain ? 0 : 1;
    const auto is_present = [&](int p) {
      return this->number(p * packet_lanes) < this->range_.size();
    };
    // Of a plain range what is outside is of no account: asked once of a full tile.
    const bool is_full = plain && ballot(!is_present(packets - 1)) == 0;
    fill<ahead - 1>(term);
    for_each_number<packets>([&](auto p) {
      if (plain && p() > 0 && !is_full && ballot(is_present(p())) == 0) {
        return false;
      }
      bool has_next = true;
      for_each_number<packet_lanes>([&](auto v) {
        has_next = fill<p() * packet_lanes + v() + ahead>(term);
        return true;
      });
      sums[p()] = plain ? packet<p()>() : packet_between<lanes, p()>(count);
      highest = fmaxf(highest, sums[p()]);
      return plain || has_next;  // none in short rows
    });
    const std::int32_t place = highest_over_lanes(place_of(highest), count);
    const float least[3] = {at_place(place), at_place(place - 1), at_place(place - 2)};
    std::uint64_t words[3] = {};
    float lowest = highest;
#pragma unroll
    for (int p = 0; p < packets; ++p) {
      lowest = fminf(lowest, sums[p]);
    }
    const bool in_one_place = ballot(lowest < least[0]) == 0;  // as where no element is far below
    if (in_one_place) {
#pragma unroll
      for (int p = 0; p < packets; ++p) {
        words[0] += digits_of(sums[p]);
      }
    } else {
#pragma unroll
      for (int p = 0; p < packets; ++p) {
        deposit(sums[p], least, words);
      }
      words[1] -= words[0];
    }
    static_assert(packets * lanes <= 512);  // whose sum has 64 bits
    total_state state;
    state.largest = largest;
    state.sum.top = place - place_of_anchor + anchor_;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      if (i > 0 && (in_one_place || ballot(words[i] != 0) == 0)) {
        state.sum.words[i] = {};
      } else if (count == lanes) {
        state.sum.words[i] = {sum_over_warp_of<lanes>(words[i]), 0};
      } else {
        state.sum.words[i] = {sum_over_lanes(words[i], count), 0};
      }
    }
    this->next_pass();
    return state;
  }

  /// The terms of vector j, of a range that is not plain if any lane has it, and whether one has.
  /// Nothing else is asked: there are terms of no account of what a lane has not. A scale that is 1
  /// costs nothing.
  template <int j>
  __device__ bool fill(const term_function<!plain>& term) {
    if constexpr (j < 0 || j >= V) {
      return false;
    } else {
      const auto set = [&](auto scaled) {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          terms_[j * width + i] = term.template of<scaled()>(this->element(j, i));
        }
      };
      const bool exists = plain || j == 0 || ballot(this->number(j) < this->range_.size()) != 0;
      if (exists) {
        term.is_scaled() ? set(std::true_type()) : set(std::false_type());
      } else {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          terms_[j * width + i] = 0;
        }
      }
      return exists;
    }
  }

  /// The sum of this lane's packet number p, where packets begin with vectors: of f32 even lanes
  /// have those of the vectors 2 p, odd ones those of 2 p + 1.
  template <int p>
  __device__ float packet() const {
    if constexpr (packet_lanes == 1) {
      float t[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        t[i] = term(p, i);
      }
      return core::reproducible::sum_of_packet(t);
    } else {
      const auto of_vector = [&](int j) {
        float s[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          s[i] = term(j, i) + shuffle_xor(term(j, i), 1);
        }
        return (s[0] + s[2]) + (s[1] + s[3]);
      };
      const float even = of_vector(2 * p);
      const float odd = of_vector(2 * p + 1);
      return is_odd() ? odd : even;
    }
  }

  /// The same where packets begin at element `head` of vectors: the next lane has the elements
  /// before that of its own vector. Terms may be added up from any place on, cyclically:
  /// sum_of_packet's pairs are those of half, then a quarter of them.
  template <int lanes, int p>
  __device__ float packet_between(int count) const {
    const int head = this->range_.head;
    // Lane 0 has the vectors behind the last lane's. Both first: no choice of a place, which would
    // have all in memory.
    const auto ahead = [&](int j, const auto& value) {
      const float own = value(j);
      const float last = j + 1 < V ? value(j + 1 < V ? j + 1 : j) : 0.0F;
      return this->first_ == 0 ? last : own;
    };
    const int next = (this->first_ + 1) & (count - 1);
    const auto from_lane = [&](float value, int lane) {  // of the `count` lanes
      return shuffle(value, (static_cast<int>(threadIdx.x) % lanes & ~(count - 1)) + lane);
    };
    if constexpr (packet_lanes == 1) {
      float pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // Of elements i and i + 4 a vector's first packet has none, the first or both, its second
        // the rest. Finite terms times 0 or 1 are a choice and an addition in one.
        const float both = i + 4 < head ? 1.0F : 0.0F;
        const auto of_first = [&](int j) {
          return i < 3 ? fmaf(both, term(j, i + 4), term(j, i)) : term(j, i);
        };
        const float behind = from_lane(ahead(p, of_first), next);
        pairs[i] = fmaf(i < 3 ? 1 - both : 1.0F, term(p, i + 4), i < head ? behind : term(p, i));
      }
      return (pairs[0] + pairs[2]) + (pairs[1] + pairs[3]);
    } else {
      // An odd lane's vector is all in one packet, with the rest of the vectors on both sides.
      const auto around = [&](int j) {
        float s[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const auto of = [&](int v) { return term(v, i); };
          const bool is_behind = i < head;
          s[i] = of(j) + from_lane(is_behind ? ahead(j, of) : of(j),
                                   is_behind ? next : (this->first_ - 1) & (count - 1));
        }
        return (s[0] + s[2]) + (s[1] + s[3]);
      };
      const float even = around(2 * p);
      const float odd = around(2 * p + 1);
      // Even lanes have nothing of their own, and take one of two.
      const float other = shuffle_xor(odd, 1);
      return is_odd() ? even : other;
    }
  }

  [[nodiscard]] __device__ bool is_odd() const { return (this->first_ & 1) != 0; }

  float terms_[V * width];
  std::int32_t anchor_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

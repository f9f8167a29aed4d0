// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample_state's monoid: elements added, states combined, a token drawn from one. Every backend
/// runs this code.
#pragma once

#include <core/exponential_sum.hpp>
#include <core/sampling.hpp>
#include <core/topk.hpp>

#include <softfold/config.hpp>
#include <softfold/sample_state.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace softfold::core::sampling {

/// Whether a race is run over all elements: not where a list has what is kept, or the first element
/// is the token.
SOFTFOLD_HD SOFTFOLD_INLINE bool has_race(const sample_state& s) {
  return s.top_k == 0 && s.scale < std::numeric_limits<double>::infinity();
}

/// The state of no columns of a row with such parameters, by arithmetic in A and with lists of
/// `listed` elements.
template <class A>
SOFTFOLD_HD inline sample_state empty_state(const parameters& p, std::int64_t draw,
                                            std::int64_t listed) {
  sample_state s;
  s.seed = p.seed;
  s.offset = p.offset;
  s.draw = draw;
  s.top_p = p.top_p;
  s.min_p = p.min_p;
  s.top_k = p.top_k;
  const bool has_filters = p.top_p != 1 || p.min_p != 0;
  s.scale = !are_valid<A>(p) || p.top_k > listed || (p.top_k == 0 && has_filters)
                ? std::numeric_limits<double>::quiet_NaN()
            : p.temperature == 0 ? std::numeric_limits<double>::infinity()
                                 : scale_of<A>(p.temperature);
  return s;
}

/// The noise of a state's row.
SOFTFOLD_HD SOFTFOLD_INLINE noise noise_of(const sample_state& s) {
  return {s.seed, s.offset, static_cast<std::uint32_t>(s.draw)};
}

/// What log E of a column with those first bits is at least: E >= u >= bits 2^-16, of which the
/// exponent tells enough.
SOFTFOLD_HD SOFTFOLD_INLINE double least_log(std::uint32_t bits) {
  if (bits == 0) {
    return -std::numeric_limits<double>::infinity();
  }
  constexpr double ln2 = 0.6931471805599453;
  constexpr double slack = 1e-3;
  const auto exponent =
      static_cast<int>(__builtin_bit_cast(std::uint32_t, static_cast<float>(bits)) >> 23) - 127;
  return product(static_cast<double>(exponent - 16), ln2) - slack;
}

/// A state that elements are added to, in ascending order of columns.
template <class A>
class state_fold {
 public:
  SOFTFOLD_HD SOFTFOLD_INLINE explicit state_fold(const sample_state& empty)
      : state_(empty), races_(has_race(empty)) {}

  SOFTFOLD_HD SOFTFOLD_INLINE bool races() const { return races_; }

  /// bits: the first 16 of the column's, if there is a race.
  SOFTFOLD_HD SOFTFOLD_INLINE void add(A x, std::int64_t column, std::uint32_t bits) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const auto wide = static_cast<double>(x);
    if (x != x) {
      if (state_.largest == state_.largest) {
        state_.largest = std::numeric_limits<double>::quiet_NaN();
        state_.largest_column = column;
      }
      return;
    }
    if (wide > state_.largest) {
      state_.largest = wide;
      state_.largest_column = column;
    }
    const bool is_finite = wide > -infinity && wide < infinity;
    if (is_finite) {
      add_term(state_.raw_sum, wide);
    }
    if (!(state_.scale < infinity)) {
      return;
    }
    const double z = scaled(state_.scale, wide);
    if (!(z > -infinity)) {
      return;
    }
    ++state_.count;
    if (state_.scale != 1 && z < infinity) {
      add_term(state_.sum, z);
    }
    if (!races_ || z - least_log(bits) < state_.key) {
      return;
    }
    const double key = key_of(z, all_bits(noise_of(state_), column, bits));
    if (key > state_.key) {
      // The column not last, as above: one store for both would keep the state in memory.
      state_.column = column;
      state_.value = wide;
      state_.key = key;
    }
  }

  SOFTFOLD_HD SOFTFOLD_INLINE sample_state finished() const {
    sample_state s = state_;
    if (s.scale == 1) {
      s.sum = s.raw_sum;
    }
    return s;
  }

 private:
  sample_state state_;
  bool races_;
};

/// Adds columns [begin, end) of a row whose element of column c is row(c), in the blocks that are
/// this lane's of so many.
template <class A, class Row>
SOFTFOLD_HD SOFTFOLD_INLINE void add_columns(state_fold<A>& to, const noise& n, const Row& row,
                                             std::int64_t begin, std::int64_t end, int lane,
                                             int lanes) {
  for (std::int64_t block = begin / block_tokens + lane; block * block_tokens < end;
       block += lanes) {
    const philox_words words =
        to.races() ? first_words(n, static_cast<std::uint64_t>(block)) : philox_words{};
    for (int j = 0; j < block_tokens; ++j) {
      const std::int64_t column = block * block_tokens + j;
      if (column >= begin && column < end) {
        to.add(row(column), column, first_bits(words, j));
      }
    }
  }
}

SOFTFOLD_HD inline std::uint64_t bits_of(double x) { return __builtin_bit_cast(std::uint64_t, x); }

/// Columns as the order of places compares them: none comes last.
SOFTFOLD_HD inline bool is_lower_column(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b);
}

/// into becomes the state of both parts.
SOFTFOLD_HD inline void combine(sample_state& into, const sample_state& more) {
  const bool alike = into.seed == more.seed && into.offset == more.offset &&
                     into.draw == more.draw && into.scale == more.scale &&
                     bits_of(into.top_p) == bits_of(more.top_p) &&
                     bits_of(into.min_p) == bits_of(more.min_p) && into.top_k == more.top_k;
  if (!alike) {
    into.scale = std::numeric_limits<double>::quiet_NaN();
  }
  const std::uint64_t own_order = order_key(into.largest);
  const std::uint64_t other_order = order_key(more.largest);
  if (other_order > own_order ||
      (other_order == own_order && is_lower_column(more.largest_column, into.largest_column))) {
    into.largest = more.largest;
    into.largest_column = more.largest_column;
  }
  if (more.key > into.key || (more.key == into.key && is_lower_column(more.column, into.column))) {
    into.key = more.key;
    into.value = more.value;
    into.column = more.column;
  }
  into.count += more.count;
  add_sum(into.sum, more.sum);
  add_sum(into.raw_sum, more.raw_sum);
}

/// What a row's state says in the end.
struct sample_finish {
  std::int64_t token = -1;
  double log_probability = 0;
  double raw_log_probability = 0;
  double lse = 0;
  std::int64_t kept = 0;
  double kept_mass = 0;
};

/// The elements that a row's filters keep. List: x(i), column(i) of the entries in order, size() of
/// those that there are.
template <class List>
class kept_in_list {
 public:
  SOFTFOLD_HD kept_in_list(const List& list, const sample_state& s, double largest)
      : list_(list), scale_(s.scale), largest_(largest) {
    size_ = list.size() < s.top_k ? list.size() : s.top_k;
    const double depth = min_p_depth(s.min_p);
    while (size_ > 1 && (z(size_ - 1) == -std::numeric_limits<double>::infinity() ||
                         !(largest_ - z(size_ - 1) <= depth))) {
      --size_;
    }
    if (s.top_p < 1) {
      const mass share = share_of(s.top_p, weight());
      mass sum;
      for (std::int64_t i = 0; i < size_; ++i) {
        sum.add(weight_of(largest_ - z(i)));
        if (sum.reaches(share)) {
          size_ = i + 1;
        }
      }
    }
  }

  SOFTFOLD_HD std::int64_t size() const { return size_; }
  SOFTFOLD_HD double z(std::int64_t i) const { return scaled(scale_, list_.x(i)); }
  SOFTFOLD_HD mass weight() const {
    mass sum;
    for (std::int64_t i = 0; i < size_; ++i) {
      sum.add(weight_of(largest_ - z(i)));
    }
    return sum;
  }
  /// The entry that wins the race.
  SOFTFOLD_HD std::int64_t winner(const noise& n) const {
    runner best;
    std::int64_t entry = 0;
    for (std::int64_t i = 0; i < size_; ++i) {
      const runner own = {key_of(z(i), random_bits(n, list_.column(i))), list_.column(i)};
      if (own.beats(best)) {
        best = own;
        entry = i;
      }
    }
    return entry;
  }

 private:
  const List& list_;
  double scale_;
  double largest_;
  std::int64_t size_;
};

/// log of exp(z) over a sum whose largest term is exp(largest).
SOFTFOLD_HD inline double log_share(double largest, double z, const exponential_sum& sum) {
  const double log = (z - largest) - relative_to(sum, largest).log();
  return log < 0 ? log : 0.0;
}

template <class List>
SOFTFOLD_HD inline sample_finish finish(const sample_state& s, const List& list) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const row_kind raw_kind = s.largest != s.largest   ? row_kind::nan
                            : s.largest == -infinity ? row_kind::empty
                            : s.largest == infinity  ? row_kind::infinite
                                                     : row_kind::ordinary;
  sample_finish result;
  result.lse = s.largest;
  if (raw_kind == row_kind::ordinary) {
    result.lse = s.largest + relative_to(s.raw_sum, s.largest).log();
  }
  const auto raw_log = [&](double x) {
    return raw_kind == row_kind::ordinary ? log_share(s.largest, x, s.raw_sum)
                                          : log_probability_of(raw_kind);
  };
  row_kind kind = s.scale != s.scale ? row_kind::invalid : raw_kind;
  if (kind == row_kind::ordinary && s.scale == infinity) {
    result.token = s.largest_column;
    result.raw_log_probability = raw_log(s.largest);
    result.kept = 1;
    result.kept_mass = 1;
    return result;
  }
  const double largest = kind == row_kind::ordinary ? scaled(s.scale, s.largest) : nan;
  kind = largest == infinity ? row_kind::infinite : largest == -infinity ? row_kind::empty : kind;
  if (kind == row_kind::ordinary && (s.top_k < 0 || (s.top_k > 0 && list.size() == 0))) {
    kind = row_kind::invalid;  // no state, or not its list
  }
  if (kind != row_kind::ordinary) {
    result.log_probability = log_probability_of(kind);
    result.raw_log_probability = result.log_probability;
    result.kept_mass = kind == row_kind::empty ? 0 : nan;
    if (kind == row_kind::infinite) {
      result.token = s.largest_column;
      result.raw_log_probability = raw_log(s.largest);
      result.kept = 1;
    }
    return result;
  }
  if (s.top_k == 0) {
    result.token = s.column;
    result.log_probability = log_share(largest, scaled(s.scale, s.value), s.sum);
    result.raw_log_probability = raw_log(s.value);
    result.kept = s.count;
    result.kept_mass = 1;
    return result;
  }
  const kept_in_list<List> kept(list, s, largest);
  const mass weight = kept.weight();
  const std::int64_t entry = kept.winner(noise_of(s));
  result.token = list.column(entry);
  result.log_probability = log_probability(largest, kept.z(entry), weight);
  result.raw_log_probability = raw_log(list.x(entry));
  result.kept = kept.size();
  const double mass = weight.value() / relative_to(s.sum, largest).value();
  result.kept_mass = mass < 1 ? mass : 1;
  return result;
}

}  // namespace softfold::core::sampling

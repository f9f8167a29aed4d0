// SPDX-License-Identifier: Apache-2.0
/// \file
/// One row of sample() by a group of lanes that share memory: a block of a GPU's threads, a team of
/// Kokkos'. Thresholds come from counting digits, eight bits a pass, so no pass needs memory that
/// grows with the row. What is summed are integers, so the order of additions does not matter.
#pragma once

#include <core/reproducible.hpp>
#include <core/row_distribution.hpp>
#include <core/sample_problem.hpp>
#include <core/sampling.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::core::sampling {

/// What the lanes share.
struct row_memory {
  static constexpr int most_lanes = 256;
  static constexpr int bins = 256;
  struct pair {
    std::uint64_t first;
    std::int64_t second;
  };
  mass masses[bins];
  pair slots[most_lanes];
  mass left;
  std::uint64_t digit;
};

/// A group has lane() and lanes(), at most most_lanes; sync(), a barrier that orders their memory;
/// and add(to, value), an addition to shared memory that returns what was there. A row(i) is
/// element i of the row in the arithmetic's type A.
template <class A, class Group, class Row>
class row_sampler {
 public:
  SOFTFOLD_HD row_sampler(const Group& group, row_memory& memory, const Row& row,
                          const sample_problem& problem, std::int64_t r)
      : group_(group),
        memory_(memory),
        row_(row),
        problem_(problem),
        r_(r),
        cols_(problem.x.cols),
        parameters_(parameters_of(problem.options, r)) {}

  /// All of the row's results.
  SOFTFOLD_HD void run() {
    find_first();
    find_raw();
    find_kept();
    if (group_.lane() == 0) {
      write_numbers(problem_.options, r_, numbers_);
    }
    write_top();
    for (std::int64_t draw = 0; draw < problem_.tokens.cols; ++draw) {
      write_draw(draw);
    }
  }

  /// What the row's elements come to, of a problem that weighs them; nothing is written.
  SOFTFOLD_HD row_distribution look() {
    find_first();
    find_kept();
    return {numbers_.kind, numbers_.kind == row_kind::infinite || parameters_.temperature == 0,
            first_,        scale_,
            kept_,         numbers_.kept_weight};
  }

  /// Draw 0 of a row that look() found ordinary and not certain.
  SOFTFOLD_HD std::int64_t first_draw() { return drawn({parameters_.seed, parameters_.offset, 0}); }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

  struct measure {
    std::int64_t count;
    mass weight;
  };

  SOFTFOLD_HD place place_of(A x, std::int64_t column) const {
    return {static_cast<std::uint64_t>(order_key(x)), column};
  }
  SOFTFOLD_HD double z_of(A x) const { return scaled(scale_, static_cast<double>(x)); }

  // ---- What a row is.

  SOFTFOLD_HD void find_first() {
    place own;
    for (std::int64_t i = group_.lane(); i < cols_; i += group_.lanes()) {
      const place at = place_of(row_(i), i);
      if (at.stands_before(own)) {
        own = at;
      }
    }
    memory_.slots[group_.lane()] = {own.key, own.column};
    const row_memory::pair best = reduce([](const row_memory::pair& a, const row_memory::pair& b) {
      return place{a.first, a.second}.stands_before({b.first, b.second});
    });
    first_ = best.second;
    if (cols_ == 0) {
      raw_kind_ = row_kind::empty;
      return;
    }
    first_x_ = row_(first_);
    numbers_.largest_x = static_cast<double>(first_x_);
    raw_kind_ = first_x_ != first_x_              ? row_kind::nan
                : numbers_.largest_x == -infinity ? row_kind::empty
                : numbers_.largest_x == infinity  ? row_kind::infinite
                                                  : row_kind::ordinary;
  }

  /// The sum over x as it is.
  SOFTFOLD_HD void find_raw() {
    const sample_options& o = problem_.options;
    numbers_.lse = raw_kind_ == row_kind::nan     ? nan
                   : raw_kind_ == row_kind::empty ? -infinity
                                                  : infinity;
    if (raw_kind_ != row_kind::ordinary ||
        (o.lse.data == nullptr && o.raw_log_probability.data == nullptr &&
         o.top_indices.data == nullptr)) {
      return;
    }
    raw_ = reproducible::row_total<A>::of(A{1}, first_x_, raw_sum());
    numbers_.lse = static_cast<double>(raw_.lse);
  }

  /// By core/reproducible.hpp.
  SOFTFOLD_HD reproducible::exact_sum<A> raw_sum() {
    const auto exponents = reproducible::frame<A>::of(A{1}, first_x_);
    const std::int32_t anchor =
        reproducible::anchor_of(reproducible::term_of(exponents(first_x_)).n);
    constexpr int columns = reproducible::packet_columns;
    reproducible::exact_sum<A> sum;
    for (std::int64_t first = std::int64_t{group_.lane()} * columns; first < cols_;
         first += std::int64_t{group_.lanes()} * columns) {
      reproducible::exponent<A> e[columns];
      for (int i = 0; i < columns; ++i) {
        e[i] = exponents(first + i < cols_ ? row_(first + i) : -std::numeric_limits<A>::infinity());
      }
      reproducible::add_packet(e, anchor, sum);
    }
    memory_.slots[group_.lane()] = {static_cast<std::uint64_t>(sum.top - sum.lowest_top), 0};
    const row_memory::pair top = reduce(
        [](const row_memory::pair& a, const row_memory::pair& b) { return a.first > b.first; });
    sum.raise(static_cast<std::int32_t>(top.first) + sum.lowest_top);
    clear_bins(sum.words_of);
    for (int i = 0; i < sum.words_of; ++i) {
      add(memory_.masses[i], sum.words[i]);
    }
    group_.sync();
    for (int i = 0; i < sum.words_of; ++i) {
      sum.words[i] = memory_.masses[i];
    }
    group_.sync();
    return sum;
  }

  SOFTFOLD_HD double raw_log(A x) const {
    return raw_kind_ == row_kind::ordinary ? static_cast<double>(raw_.log_softmax(x))
                                           : log_probability_of(raw_kind_);
  }

  /// What the filters keep, and its numbers if they are wanted.
  SOFTFOLD_HD void find_kept() {
    numbers_.kind = !are_valid<A>(parameters_) ? row_kind::invalid : raw_kind_;
    if (numbers_.kind != row_kind::ordinary) {
      numbers_.kept = numbers_.kind == row_kind::infinite ? 1 : 0;
      return;
    }
    if (parameters_.temperature == 0) {
      numbers_.kept = 1;
      numbers_.kept_weight.add(1);
      numbers_.weight.add(1);
      return;
    }
    scale_ = scale_of<A>(parameters_.temperature);
    kept_.largest = z_of(first_x_);
    numbers_.largest = kept_.largest;
    if (kept_.largest == infinity || kept_.largest == -infinity) {
      numbers_.kind = kept_.largest > 0 ? row_kind::infinite : row_kind::empty;
      numbers_.kept = kept_.largest > 0 ? 1 : 0;
      return;
    }
    filter();
  }

  SOFTFOLD_HD void filter() {
    const sample_options& o = problem_.options;
    const bool cuts_k = parameters_.top_k > 0 && parameters_.top_k < cols_;
    const bool cuts_p = parameters_.top_p < 1;
    const bool joint = o.order == filter_order::joint;
    measure all = {};
    if (cuts_k || (cuts_p && joint) || o.kept_mass.data != nullptr) {
      all = measured({kept_.largest});
    }
    kept_.depth = min_p_depth(parameters_.min_p);
    if (cuts_k && parameters_.top_k < all.count) {
      kept_.last = end_of_prefix(false, {static_cast<std::uint64_t>(parameters_.top_k), 0});
    }
    if (cuts_p) {
      mass whole = all.weight;
      if (!joint) {
        whole = measured(kept_).weight;
      }
      const place last = end_of_prefix(true, share_of(parameters_.top_p, whole));
      if (last.stands_before(kept_.last)) {
        kept_.last = last;
      }
    }
    if (problem_.weighs || o.kept.data != nullptr || o.kept_mass.data != nullptr ||
        o.log_probability.data != nullptr) {
      const measure left = measured(kept_);
      numbers_.kept = left.count;
      numbers_.kept_weight = left.weight;
      numbers_.weight = all.weight;
    }
  }

  // ---- Passes over the row.

  /// body(x, z, place) for this lane's share of the elements that exist.
  template <class Body>
  SOFTFOLD_HD void each(const Body& body) const {
    for (std::int64_t i = group_.lane(); i < cols_; i += group_.lanes()) {
      const A x = row_(i);
      const double z = z_of(x);
      if (z > -infinity) {
        body(x, z, i);
      }
    }
  }

  /// How many elements a filter keeps, and their weight.
  SOFTFOLD_HD measure measured(const kept_elements& kept) {
    mass weight;
    std::uint64_t count = 0;
    each([&](A x, double z, std::int64_t i) {
      if (kept.has(z, place_of(x, i))) {
        weight.add(weight_of(kept.largest - z));
        ++count;
      }
    });
    clear_bins(2);
    add(memory_.masses[0], weight);
    add(memory_.masses[1], {count, 0});
    group_.sync();
    const measure all = {static_cast<std::int64_t>(memory_.masses[1].low), memory_.masses[0]};
    group_.sync();
    return all;
  }

  /// The end of the shortest prefix in the order of top-k that has so much weight, or so many
  /// elements, given that all elements have it.
  SOFTFOLD_HD place end_of_prefix(bool by_weight, mass target) {
    constexpr int key_bits = 8 * static_cast<int>(sizeof(A));
    place end = {0, 0};
    const auto weigh = [&](double z) {
      return by_weight ? weight_of(kept_.largest - z) : std::uint64_t{1};
    };
    for (int shift = key_bits - 8; shift >= 0; shift -= 8) {
      clear_bins(row_memory::bins);
      each([&](A x, double z, std::int64_t) {
        const auto key = static_cast<std::uint64_t>(order_key(x));
        if (above(key, shift) == above(end.key, shift)) {
          add(memory_.masses[key >> shift & 0xff], {weigh(z), 0});
        }
      });
      end.key |= digit_that_reaches(target) << shift;
    }
    // Equal elements: the lower the column, the larger its rest.
    int shift = 0;
    while (shift + 8 < 64 && (cols_ - 1) >> (shift + 8) != 0) {
      shift += 8;
    }
    const std::uint64_t most = ~std::uint64_t{0} >> (56 - shift);
    std::uint64_t rest = 0;
    for (; shift >= 0; shift -= 8) {
      clear_bins(row_memory::bins);
      each([&](A x, double z, std::int64_t i) {
        const std::uint64_t own = most - static_cast<std::uint64_t>(i);
        if (static_cast<std::uint64_t>(order_key(x)) == end.key &&
            above(own, shift) == above(rest, shift)) {
          add(memory_.masses[own >> shift & 0xff], {weigh(z), 0});
        }
      });
      rest |= digit_that_reaches(target) << shift;
    }
    end.column = static_cast<std::int64_t>(most - rest);
    return end;
  }

  /// The bits above a digit.
  SOFTFOLD_HD static std::uint64_t above(std::uint64_t bits, int shift) {
    return shift + 8 < 64 ? bits >> (shift + 8) : 0;
  }

  /// The digit in whose bin, from the largest down, the target is reached; the target becomes what
  /// is left of it there.
  SOFTFOLD_HD std::uint64_t digit_that_reaches(mass& target) {
    group_.sync();
    if (group_.lane() == 0) {
      int digit = row_memory::bins - 1;
      mass left = target;
      while (digit > 0 && !memory_.masses[digit].reaches(left)) {
        left.subtract(memory_.masses[digit]);
        --digit;
      }
      memory_.left = left;
      memory_.digit = static_cast<std::uint64_t>(digit);
    }
    group_.sync();
    target = memory_.left;
    const std::uint64_t digit = memory_.digit;
    group_.sync();
    return digit;
  }

  SOFTFOLD_HD void clear_bins(int count) {
    for (int i = group_.lane(); i < count; i += group_.lanes()) {
      memory_.masses[i] = {};
    }
    group_.sync();
  }

  SOFTFOLD_HD void add(mass& to, const mass& more) const {
    std::uint64_t high = more.high;
    if (more.low != 0) {
      const std::uint64_t before = group_.add(&to.low, more.low);
      high += before + more.low < before ? 1 : 0;
    }
    if (high != 0) {
      group_.add(&to.high, high);
    }
  }

  /// The first of the lanes' slots; every lane gets it.
  template <class Before>
  SOFTFOLD_HD row_memory::pair reduce(const Before& before) {
    for (int n = group_.lanes(); n > 1; n = (n + 1) / 2) {
      group_.sync();
      const int other = group_.lane() + (n + 1) / 2;
      if (other < n && before(memory_.slots[other], memory_.slots[group_.lane()])) {
        memory_.slots[group_.lane()] = memory_.slots[other];
      }
    }
    group_.sync();
    const row_memory::pair best = memory_.slots[0];
    group_.sync();
    return best;
  }

  // ---- Results.

  SOFTFOLD_HD void write_top() {
    const matrix_ref& to = problem_.options.top_log_probabilities;
    if (to.data == nullptr) {
      return;
    }
    for (std::int64_t i = group_.lane(); i < to.cols; i += group_.lanes()) {
      const std::int64_t at = r_ * to.stride + i;
      write_result(to.data, to.type, at, raw_log(real_at<A>(to.data, to.type, at)));
    }
  }

  SOFTFOLD_HD void write_draw(std::int64_t draw) {
    std::int64_t token = -1;
    double log = log_probability_of(numbers_.kind);
    if (numbers_.kind == row_kind::infinite) {
      token = first_;
    } else if (numbers_.kind == row_kind::ordinary && parameters_.temperature == 0) {
      token = first_;
      log = 0;
    } else if (numbers_.kind == row_kind::ordinary) {
      token = drawn({parameters_.seed, parameters_.offset, static_cast<std::uint32_t>(draw)});
    }
    if (group_.lane() != 0) {
      return;
    }
    double raw = log;
    if (token >= 0) {
      const A x = row_(token);
      raw = raw_log(x);
      if (numbers_.kind == row_kind::ordinary && parameters_.temperature != 0 &&
          problem_.options.log_probability.data != nullptr) {
        log = log_probability(kept_.largest, z_of(x), numbers_.kept_weight);
      }
    }
    write_token(problem_, r_, draw, token, log, raw);
  }

  SOFTFOLD_HD std::int64_t drawn(const noise& n) {
    runner own;
    for (std::int64_t block = group_.lane(); block * block_tokens < cols_;
         block += group_.lanes()) {
      const philox_words words = first_words(n, static_cast<std::uint64_t>(block));
      for (int j = 0; j < block_tokens; ++j) {
        const std::int64_t i = block * block_tokens + j;
        if (i < cols_) {
          race(n, first_bits(words, j), i, own);
        }
      }
    }
    memory_.slots[group_.lane()] = {std::bit_cast<std::uint64_t>(own.key), own.column};
    return reduce([](const row_memory::pair& a, const row_memory::pair& b) {
             return runner{std::bit_cast<double>(a.first), a.second}.beats(
                 {std::bit_cast<double>(b.first), b.second});
           })
        .second;
  }

  SOFTFOLD_HD void race(const noise& n, std::uint32_t bits, std::int64_t i, runner& best) const {
    using std::log;
    const A x = row_(i);
    const double z = z_of(x);
    if (bits != 0) {  // E >= u >= bits 2^-16 bounds the key from above
      constexpr float log_2_16 = 11.09035489F;
      constexpr double slack = 1e-3;
      const float least = log(static_cast<float>(bits)) - log_2_16;
      if (z - static_cast<double>(least) + slack < best.key) {
        return;
      }
    }
    if (!kept_.has(z, place_of(x, i))) {
      return;
    }
    const runner own = {key_of(z, all_bits(n, i, bits)), i};
    if (own.beats(best)) {
      best = own;
    }
  }

  const Group& group_;
  row_memory& memory_;
  const Row& row_;
  const sample_problem& problem_;
  std::int64_t r_;
  std::int64_t cols_;
  parameters parameters_;
  row_kind raw_kind_ = row_kind::ordinary;
  std::int64_t first_ = 0;
  A first_x_ = 0;
  double scale_ = 1;
  reproducible::row_total<A> raw_;  ///< of an ordinary row, if it is wanted
  kept_elements kept_;
  row_numbers numbers_;
};

/// A row of a matrix.
template <class T>
struct row_of {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const T* x;
  SOFTFOLD_HD A operator()(std::int64_t i) const { return static_cast<A>(x[i]); }
};

/// The only lane.
struct one_lane {
  static constexpr int lane() { return 0; }
  static constexpr int lanes() { return 1; }
  static constexpr void sync() {}
  static std::uint64_t add(std::uint64_t* to, std::uint64_t value) {
    const std::uint64_t before = *to;
    *to += value;
    return before;
  }
};

}  // namespace softfold::core::sampling

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k's first and last look at a row: group maxima, and the elements that pass a threshold.
#pragma once

#include <backends/host/kernels/fold.hpp>
#include <backends/host/kernels/sort_keys.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T>
struct select_kernels {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  static constexpr std::int64_t group_columns = group_vectors * V::lanes;

  /// Unsigned numbers in the order of the values, without NaN. Both zeros have +0's: a middle of
  /// two ordinals is then above the lower value, too.
  using ordinal = typename core::exponential<A>::bits;
  static constexpr ordinal sign = ordinal{1} << (8 * sizeof(A) - 1);
  static SOFTFOLD_INLINE ordinal ordinal_of(A x) {
    const auto bits = __builtin_bit_cast(ordinal, x);
    return (bits & sign) != 0 && bits != sign ? ~bits : bits | sign;
  }
  static SOFTFOLD_INLINE A value_of(ordinal o) {
    return __builtin_bit_cast(A, (o & sign) != 0 ? o ^ sign : ~o);
  }

  static bool group_maxima(const void* x, std::int64_t n, void* groups) {
    const T* const in = static_cast<const T*>(x);
    A* to = static_cast<A*>(groups);
    const V none(-infinity<A>);
    typename V::mask nan = V::none();
    const auto take = [&](V v, std::int64_t i, V& largest) {
      prefetch_ahead(in + i);
      largest = max(v, largest);
      nan = V::either(nan, unordered(v, v));
    };
    std::int64_t i = 0;
    for (; i + group_columns <= n; i += group_columns, to += V::lanes) {
      V largest[2] = {none, none};
#pragma GCC unroll 8
      for (int k = 0; k < group_vectors; ++k) {
        take(V::load(in + i + k * V::lanes), i + k * V::lanes, largest[k % 2]);
      }
      max(largest[0], largest[1]).store(to);
    }
    if (i < n) {
      V largest = none;
      for (; i + V::lanes <= n; i += V::lanes) {
        take(V::load(in + i), i, largest);
      }
      if (i < n) {
        take(V::load(in + i, static_cast<int>(n - i), none), i, largest);
      }
      largest.store(to);
    }
    return V::bits(nan) == 0;
  }

  /// max of each half with the other until about `target` values are left.
  static std::int64_t fold_groups(const void* groups, std::int64_t n, std::int64_t target,
                                  void* folded) {
    const A* from = static_cast<const A*>(groups);
    A* const to = static_cast<A*>(folded);
    while (n > target && n > V::lanes) {
      const std::int64_t kept = (n / V::lanes + 1) / 2 * V::lanes;
      for (std::int64_t i = 0; i < kept; i += V::lanes) {
        const V a = V::load(from + i);
        (kept + i < n ? max(a, V::load(from + kept + i)) : a).store(to + i);
      }
      from = to;
      n = kept;
    }
    if (from != to) {
      for (std::int64_t i = 0; i < n; i += V::lanes) {
        V::load(from + i).store(to + i);
      }
    }
    return n;
  }

  /// A bit for each lane of v that is not below the limit; v has no NaN.
  static SOFTFOLD_INLINE unsigned reaching(V v, V limit) {
    return ~V::bits(greater(limit, v)) & ((1u << V::lanes) - 1u);
  }

  /// The same for those above it, and for those of either kind.
  static SOFTFOLD_INLINE unsigned passing(V v, V limit, bool ties) {
    return ties ? reaching(v, limit) : V::bits(greater(v, limit));
  }

  /// A vector that has elements which pass the limit: its column and their bits.
  struct hit {
    std::int32_t column;
    std::uint32_t bits;
  };

  /// The bits of the vector at x[column], of which n - column elements are there.
  template <class Element>
  static SOFTFOLD_INLINE unsigned passing_at(const Element* x, std::int64_t column, std::int64_t n,
                                             V limit, bool ties) {
    if (n - column >= V::lanes) {
      return passing(V::load(x + column), limit, ties);
    }
    const auto left = static_cast<int>(n - column);
    return passing(V::load(x + column, left, limit), limit, ties) & ((1u << left) - 1u);
  }

  /// Appends those of the group at x[begin], without branches, which would go either way. `hits`
  /// has room for a group's vectors more than that.
  template <class Element>
  static SOFTFOLD_INLINE int list_hits(const Element* x, std::int64_t begin, std::int64_t n,
                                       V limit, bool ties, hit* hits, int count) {
    const auto append = [&](std::int64_t column, unsigned bits) {
      hits[count] = {static_cast<std::int32_t>(column), bits};
      count += bits != 0 ? 1 : 0;
    };
    if (n - begin >= group_columns) {
#pragma GCC unroll 8
      for (int k = 0; k < group_vectors; ++k) {
        const std::int64_t column = begin + k * V::lanes;
        append(column, passing(V::load(x + column), limit, ties));
      }
      return count;
    }
    for (; begin < n; begin += V::lanes) {
      append(begin, passing_at(x, begin, n, limit, ties));
    }
    return count;
  }

  static std::int64_t keep_above(const void* values, std::int64_t n, double threshold, void* kept) {
    constexpr int batch = 64;  // groups of vectors whose hits are listed before they are copied
    const A* const x = static_cast<const A*>(values);
    A* const to = static_cast<A*>(kept);
    const V limit(static_cast<A>(threshold));
    hit hits[unsigned{batch * group_vectors}];
    std::int64_t count = 0;
    for (std::int64_t next = 0; next < n;) {
      int hit_count = 0;
      for (int i = 0; next < n && i < batch; ++i, next += group_columns) {
        hit_count = list_hits(x, next, n, limit, false, hits, hit_count);
      }
      for (int i = 0; i < hit_count; ++i) {
        for (unsigned bits = hits[i].bits; bits != 0; bits &= bits - 1) {
          to[count] = x[hits[i].column + __builtin_ctz(bits)];
          ++count;
        }
      }
    }
    for (std::int64_t i = count; i % V::lanes != 0; ++i) {
      to[i] = -infinity<A>;
    }
    return count;
  }

  static double nearly_kth(const void* values, std::int64_t n, std::int64_t k, std::int64_t slack,
                           double at_least) {
    const A* const x = static_cast<const A*>(values);
    const V inf(infinity<A>);
    const V none(-infinity<A>);
    V largest = none;
    V smallest = inf;
    for (std::int64_t i = 0; i < n; i += V::lanes) {
      const V v = V::load(x + i);
      largest = max(v, largest);
      smallest = min(v, smallest);
    }
    const A least = smallest.reduce_min();
    // At least k values reach `low`; less than k exceed `high`.
    A low = static_cast<A>(at_least) < least ? least : static_cast<A>(at_least);
    A high = largest.reduce_max();
    // Halving the interval of values is quick as a rule; halving that of their ordinals, every
    // fourth time, ends after as many turns as an ordinal has bits, whatever the values are.
    constexpr int turn = 4;
    constexpr int most_steps = turn * static_cast<int>(8 * sizeof(A) + 1);
    for (int step = 0; low < high && step < most_steps; ++step) {
      A middle = low * A{0.5} + high * A{0.5};
      if (step % turn == turn - 1 || !(middle > low && middle < high)) {
        const ordinal lower = ordinal_of(low);
        const ordinal upper = ordinal_of(high);
        middle = value_of(upper - (upper - lower) / 2);  // rounded up: above low
      }
      const V limit(middle);
      V below(A{0});  // a count; exact, as no lane sees 2^24 values
      V least_reaching = inf;
      V largest_below = none;
      for (std::int64_t i = 0; i < n; i += V::lanes) {
        const V v = V::load(x + i);
        const auto is_below = greater(limit, v);
        below = below + V::select(is_below, V(A{1}), V(A{0}));
        least_reaching = min(V::select(is_below, inf, v), least_reaching);
        largest_below = max(V::select(is_below, v, none), largest_below);
      }
      // Both ends move to values that are there, so that ties end the search too.
      const std::int64_t reached = n - static_cast<std::int64_t>(below.reduce_add());
      if (reached >= k) {
        low = least_reaching.reduce_min();
        if (reached <= k + slack) {
          break;
        }
      } else {
        high = largest_below.reduce_max();
      }
    }
    return static_cast<double>(low);
  }

  static void rank(const std::uint64_t* keys, std::int64_t n, std::int64_t k,
                   std::uint64_t* sorted) {
    if (sizeof(key_vector) > sizeof(std::uint64_t) && k <= most_listed) {
      __builtin_memcpy(sorted, keys, static_cast<std::size_t>(n) * sizeof(std::uint64_t));
      if constexpr (sizeof(key_vector) > sizeof(std::uint64_t)) {
        k <= 16 ? keep_largest<key_vector, 16>(sorted, n) : keep_largest<key_vector, 64>(sorted, n);
      }
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t key = keys[i];
      std::uint64_t before = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        before += keys[j] > key ? 1 : 0;
      }
      sorted[before] = key;
    }
  }

  static constexpr int word_columns = group_columns < 64 ? static_cast<int>(group_columns) : 64;

  /// A bit for each of the up to word_columns elements x[column, n) that reach the limit.
  static SOFTFOLD_INLINE std::uint64_t reaching_word(const T* x, std::int64_t column,
                                                     std::int64_t n, V limit) {
    constexpr int vectors = word_columns / V::lanes;
    std::uint64_t word = 0;
    if (n - column >= word_columns) {
#pragma GCC unroll 16
      for (int i = 0; i < vectors; ++i) {
        word |= std::uint64_t{reaching(V::load(x + column + i * V::lanes), limit)}
                << (i * V::lanes);
      }
      return word;
    }
    for (int i = 0; i < vectors && column + i * V::lanes < n; ++i) {
      const std::int64_t left = n - column - i * V::lanes;
      const unsigned inside = left >= V::lanes ? ~0u : (1u << left) - 1u;
      const V v = left >= V::lanes
                      ? V::load(x + column + i * V::lanes)
                      : V::load(x + column + i * V::lanes, static_cast<int>(left), limit);
      word |= std::uint64_t{reaching(v, limit) & inside} << (i * V::lanes);
    }
    return word;
  }

  static SOFTFOLD_INLINE A element(const T* x) {
    if constexpr (sizeof(T) == sizeof(A)) {
      return *x;
    } else {
      return V::load(x, 1, V(A{0})).first_lane();
    }
  }

  static void filter(const void* x, std::int64_t n, const void* groups, double threshold,
                     std::int64_t column, candidates* found) {
    constexpr int batch = 64;  // groups whose hits are listed before they are looked at
    const T* in = static_cast<const T*>(x);
    const A* group = static_cast<const A*>(groups);
    const A least = static_cast<A>(threshold);
    const V limit(least);
    A* const values = static_cast<A*>(found->values);
    std::int64_t count = found->count;
    std::int64_t equal_left = found->equal_left;
    std::int64_t begins[unsigned{batch}];
    hit hits[unsigned{batch * group_vectors}];
    std::int64_t next = 0;
    while (next < n) {
      const bool ties = equal_left > 0;
      int listed = 0;
      for (; next < n && listed < batch; next += group_columns, group += V::lanes) {
        begins[listed] = next;
        listed += passing(V::load(group), limit, ties) != 0 ? 1 : 0;
      }
      int hit_count = 0;
      for (int i = 0; i < listed; ++i) {
        hit_count = list_hits(in, begins[i], n, limit, ties, hits, hit_count);
      }
      for (int i = 0; i < hit_count; ++i) {
        unsigned bits = hits[i].bits;
        if (ties && equal_left == 0) {
          bits = passing_at(in, hits[i].column, n, limit, false);
        }
        for (; bits != 0; bits &= bits - 1) {
          const std::int64_t at = hits[i].column + __builtin_ctz(bits);
          const A value = element(in + at);
          if (!(value > least)) {  // the lowest columns of those equal to the threshold
            if (equal_left == 0) {
              continue;
            }
            --equal_left;
          }
          values[count] = value;
          found->columns[count] = column + at;
          ++count;
        }
      }
    }
    found->count = count;
    found->equal_left = equal_left;
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

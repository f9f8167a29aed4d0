// SPDX-License-Identifier: Apache-2.0
/// \file
/// The k best elements of rows of at most one segment, k <= most_listed: a row from its fold to
/// its results in one go, since what is paid once a row counts here.
///
/// The k-th largest of the maxima of parts of the row bounds its k-th element from below. What
/// reaches the bound becomes a 64-bit key, larger first, then lower column, and a network sorts
/// the keys.
#pragma once

#include <backends/host/kernels/select.hpp>
#include <backends/host/kernels/sort_keys.hpp>
#include <backends/host/kernels/topk_batch.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// `count` keys are kept in order.
template <class T, int count>
class topk_row_writer {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  using select = select_kernels<T>;
  static constexpr std::int64_t group_columns = group_vectors * V::lanes;
  static constexpr int word_columns = select::word_columns;
  /// So many elements may reach the bound.
  static constexpr int most_candidates = 1024;
  static constexpr unsigned most_maxima = segment_columns / group_vectors;

 public:
  explicit SOFTFOLD_INLINE topk_row_writer(const topk_rows& rows) : rows_(rows) {}

  /// Row r, if it is an ordinary one.
  template <bool scaled>
  SOFTFOLD_INLINE bool write(std::int64_t r) {
    const T* const x = static_cast<const T*>(rows_.x) + r * rows_.x_stride;
    segment_state state;
    if (rows_.fold) {
      if (!fold_segment<scaled, false, true>(one_row<T>{x}, rows_.cols, rows_.scale, nullptr,
                                             groups_, &state) ||
          !(state.max > -static_cast<double>(infinity<A>))) {
        return false;
      }
    } else if (!select::group_maxima(x, rows_.cols, groups_)) {
      return false;
    }
    if (!list(x)) {
      return false;
    }
    write_list(x, r);
    if (rows_.states != nullptr) {
      rows_.states[r] = state;
    }
    if (rows_.probabilities != nullptr) {
      write_probabilities<scaled>(r, state);
    }
    return true;
  }

 private:
  /// The k best elements' keys in order. False if too many elements reach the bound.
  SOFTFOLD_INLINE bool list(const T* x) {
    const std::int64_t n = rows_.cols;
    const V limit(bound());
    std::int64_t found = 0;
    const A* group = groups_;
    for (std::int64_t begin = 0; begin < n; begin += group_columns, group += V::lanes) {
      if (select::reaching(V::load(group), limit) == 0) {
        continue;
      }
      if (found > most_candidates - group_columns) [[unlikely]] {
        return false;
      }
      found = take_group(x, begin, limit, found);
    }
    if constexpr (V::compresses) {
      for (std::int64_t i = 0; i < found; ++i) {
        keys_[i] = key_of(found_values_[i], found_columns_[i]);
      }
    }
    if constexpr (sizeof(key_vector) > sizeof(std::uint64_t)) {
      keep_largest<key_vector, count>(keys_, found);
    } else {
      constexpr std::int64_t most_counted = 256;
      if (found > most_counted) {
        return false;
      }
      std::uint64_t sorted[unsigned{most_counted}];
      select::rank(keys_, found, rows_.k, sorted);
      __builtin_memcpy(keys_, sorted, static_cast<std::size_t>(found) * sizeof(std::uint64_t));
      for (std::int64_t i = found; i < count; ++i) {  // as keep_largest leaves it
        keys_[i] = 0;
      }
    }
    return true;
  }

  /// Not above the k-th element.
  SOFTFOLD_INLINE A bound() {
    const std::int64_t k = rows_.k;
    const std::int64_t maxima = (rows_.cols + group_columns - 1) / group_columns * V::lanes;
    if (2 * k <= V::lanes) {
      V best = V::load(groups_);
      for (std::int64_t i = V::lanes; i < maxima; i += V::lanes) {
        best = max(V::load(groups_ + i), best);
      }
      alignas(64) A sorted[V::lanes];
      sort_lanes(best).store(sorted);
      return sorted[k - 1];
    }
    if (maxima < k) {
      return -infinity<A>;
    }
    const std::int64_t folded = select::fold_groups(groups_, maxima, 4 * k, coarse_);
    return static_cast<A>(
        select::nearly_kth(coarse_, folded, k, k / 8 + 2, -static_cast<double>(infinity<A>)));
  }

  /// Appends the elements of a group that reach the limit, or their keys.
  SOFTFOLD_INLINE std::int64_t take_group(const T* x, std::int64_t begin, V limit,
                                          std::int64_t found) {
    const std::int64_t n = rows_.cols;
    const std::int64_t end = n - begin < group_columns ? n : begin + group_columns;
    if constexpr (V::compresses) {  // without branches, which would go either way
      const auto append = [&](V v, unsigned inside, std::int64_t column) {
        found += V::compress(static_cast<typename V::mask>(select::reaching(v, limit) & inside), v,
                             static_cast<std::int32_t>(column), found_values_ + found,
                             found_columns_ + found);
      };
      for (; end - begin >= V::lanes; begin += V::lanes) {
        append(V::load(x + begin), ~0u, begin);
      }
      if (begin < end) {
        const auto left = static_cast<int>(end - begin);
        append(V::load(x + begin, left, limit), (1u << left) - 1u, begin);
      }
    } else {
      for (; begin < end; begin += word_columns) {
        for (std::uint64_t word = select::reaching_word(x, begin, n, limit); word != 0;
             word &= word - 1) {
          const std::int64_t c = begin + __builtin_ctzll(word);
          keys_[found] = key_of(select::element(x + c), c);
          ++found;
        }
      }
    }
    return found;
  }

  static SOFTFOLD_INLINE std::uint64_t key_of(A x, std::int64_t column) {
    const auto bits = __builtin_bit_cast(std::uint32_t, x + A{0});  // +0 for -0
    const std::uint32_t order =
        bits ^ (static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31) | 0x80000000u);
    return std::uint64_t{order} << 32 | (0xffffffffu - static_cast<std::uint32_t>(column));
  }

  /// Values and columns from the sorted keys, and the results that need no state.
  SOFTFOLD_INLINE void write_list(const T* x, std::int64_t r) {
    const std::int64_t k = rows_.k;
    for (int i = 0; i < count; ++i) {
      const auto order = static_cast<std::uint32_t>(keys_[i] >> 32);
      const auto negative = static_cast<std::uint32_t>(static_cast<std::int32_t>(order) >> 31);
      values_[i] = __builtin_bit_cast(A, order ^ (~negative | 0x80000000u));
      columns_[i] = static_cast<std::int32_t>(~static_cast<std::uint32_t>(keys_[i]));
    }
    unsigned zeros = 0;
    for (std::int64_t i = 0; i < k; i += V::lanes) {
      zeros |= V::bits(equal(V::load(values_ + i), V(A{0})));
    }
    if (zeros != 0) [[unlikely]] {  // a key does not tell -0 from +0
      for (std::int64_t i = 0; i < k; ++i) {
        if (values_[i] == 0) {
          values_[i] = select::element(x + columns_[i]);
        }
      }
    }
    if (rows_.wide_indices) {
      auto* const to = static_cast<std::int64_t*>(rows_.indices) + r * rows_.indices_stride;
      for (std::int64_t i = 0; i < k; ++i) {
        to[i] = columns_[i] + rows_.column_offset;
      }
    } else {
      auto* const to = static_cast<std::int32_t*>(rows_.indices) + r * rows_.indices_stride;
      const auto offset = static_cast<std::int32_t>(rows_.column_offset);
      for (std::int64_t i = 0; i < k; ++i) {
        to[i] = columns_[i] + offset;
      }
    }
    if (rows_.values != nullptr) {
      store(rows_.values, rows_.values_as_input, r * rows_.values_stride, [](V v) { return v; });
    }
  }

  template <bool scaled>
  SOFTFOLD_INLINE void write_probabilities(std::int64_t r, const segment_state& state) {
    frame f;
    f.scale = rows_.scale;
    f.origin = state.origin;
    const power_form<A, scaled> form(f);
    const V factor(static_cast<A>(1 / state.sum));
    store(rows_.probabilities, rows_.probabilities_as_input, r * rows_.probabilities_stride,
          [&](V v) { return form.exp(v) * factor; });
  }

  /// f of the values to a row of results.
  template <class F>
  SOFTFOLD_INLINE void store(void* y, bool as_input, std::int64_t at, F&& f) const {
    if (as_input) {
      store_as(static_cast<T*>(y) + at, f);
    } else {
      store_as(static_cast<A*>(y) + at, f);
    }
  }
  template <class Out, class F>
  SOFTFOLD_INLINE void store_as(Out* y, F&& f) const {
    const std::int64_t k = rows_.k;
    std::int64_t i = 0;
    for (; i + V::lanes <= k; i += V::lanes) {
      f(V::load(values_ + i)).store(y + i);
    }
    if (i < k) {  // past the k-th stands NaN, on which f would raise exceptions
      const auto left = static_cast<int>(k - i);
      f(V::load(values_ + i, left, V(values_[0]))).store(y + i, left);
    }
  }

  const topk_rows& rows_;
  alignas(64) A groups_[most_maxima];
  alignas(64) A coarse_[most_maxima];
  alignas(64) std::uint64_t keys_[unsigned{most_candidates + count}];
  alignas(64) A found_values_[V::compresses ? unsigned{most_candidates + V::lanes} : 1];
  alignas(64) std::int32_t found_columns_[V::compresses ? unsigned{most_candidates + V::lanes} : 1];
  alignas(64) A values_[unsigned{count}];
  alignas(64) std::int32_t columns_[unsigned{count}];
};

/// The rows whose bits are set in `wanted`. Returns the bits of those that are left undone.
template <class T, int count, bool scaled>
std::uint64_t topk_one_by_one(const topk_rows& rows, std::uint64_t wanted) {
  topk_row_writer<T, count> writer(rows);
  std::uint64_t undone = 0;
  for (; wanted != 0; wanted &= wanted - 1) {
    const int r = __builtin_ctzll(wanted);
    undone |= std::uint64_t{!writer.template write<scaled>(r)} << r;
  }
  return undone;
}

template <class T, int count>
std::uint64_t topk_by_scale(const topk_rows& rows, std::uint64_t wanted) {
  return rows.scale == 1 || !rows.fold ? topk_one_by_one<T, count, false>(rows, wanted)
                                       : topk_one_by_one<T, count, true>(rows, wanted);
}

template <class T>
std::uint64_t topk_of(const topk_rows* rows) {
  std::uint64_t wanted = ~std::uint64_t{0} >> (64 - rows->rows);
  // States are those of the fold without a list, whose order of additions is another one.
  if constexpr (sizeof(key_vector) > sizeof(std::uint64_t)) {
    if (rows->states == nullptr && rows->k <= most_batched && rows->cols <= most_batched_columns) {
      wanted = topk_by_batches<T>(*rows);
    }
  }
  return wanted == 0     ? 0
         : rows->k <= 16 ? topk_by_scale<T, 16>(*rows, wanted)
                         : topk_by_scale<T, 64>(*rows, wanted);
}

/// Keys of f64 elements would need more than 64 bits.
template <class T>
constexpr auto topk_rows_kernel() {
  std::uint64_t (*kernel)(const topk_rows*) = nullptr;
  if constexpr (sizeof(arithmetic_t<T>) == 4) {
    kernel = topk_of<T>;
  }
  return kernel;
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

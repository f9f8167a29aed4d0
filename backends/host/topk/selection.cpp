// SPDX-License-Identifier: Apache-2.0
#include <backends/host/topk/selection.hpp>

#include <core/real_types.hpp>
#include <core/topk.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// An element as a key that orders like the result, larger first, and its column. It has digits of
/// 8 bits, the least significant first, of a number that is smaller for what stands before; digit i
/// is in word_of(i).
struct wide_entry {
  std::uint64_t key;
  std::int64_t at;

  static wide_entry of(std::uint64_t key, std::int64_t column) { return {key, column}; }
  [[nodiscard]] std::uint64_t order() const { return key; }
  [[nodiscard]] std::int64_t column() const { return at; }
  static constexpr int column_digits = 8;
  static constexpr int digits = 16;
  [[nodiscard]] std::uint64_t word_of(int i) const {
    return i < column_digits ? static_cast<std::uint64_t>(at) : ~key;
  }
  friend bool operator<(const wide_entry& a, const wide_entry& b) {  // a stands before b
    return a.key != b.key ? a.key > b.key : a.at < b.at;
  }
};

/// The same in one word, for keys and columns of 32 bits.
struct packed_entry {
  std::uint64_t word;

  static packed_entry of(std::uint64_t key, std::int64_t column) {
    return {key << 32 | (0xffffffffU - static_cast<std::uint64_t>(column))};
  }
  [[nodiscard]] std::uint64_t order() const { return word >> 32; }
  [[nodiscard]] std::int64_t column() const {
    return static_cast<std::int64_t>(0xffffffffU - (word & 0xffffffffU));
  }
  static constexpr int column_digits = 4;
  static constexpr int digits = 8;
  [[nodiscard]] std::uint64_t word_of(int) const { return ~word; }
  friend bool operator<(const packed_entry& a, const packed_entry& b) { return a.word > b.word; }
};

namespace {

/// Up to this many entries are sorted without branches.
constexpr std::int64_t few = 192;

/// Up to this many are cut by comparisons, which is the quicker where they are in some order: that
/// of digits costs as much for any.
constexpr std::int64_t few_to_cut = 1024;

/// How many groups more than k may reach the threshold: finding an exact one is not worth it.
constexpr std::int64_t slack_of(std::int64_t k) { return k / 8 + 2; }

constexpr std::size_t line = 64;

std::size_t round_up(std::size_t bytes) { return (bytes + line - 1) / line * line; }

std::int64_t group_columns(std::int64_t lanes) { return group_vectors * lanes; }

/// Group maxima of n columns.
std::int64_t group_count(std::int64_t n, std::int64_t lanes) {
  return (n + group_columns(lanes) - 1) / group_columns(lanes) * lanes;
}

/// Room for what a chunk can add to k kept elements: above the threshold k + slack groups of
/// group_vectors elements, equal to it k; or, where there are fewer than k groups, all.
std::int64_t capacity_of(std::int64_t cols, std::int64_t k) {
  const std::int64_t chunk = std::min(cols, chunk_columns);
  return k > chunk ? k + chunk : k + std::min(chunk, group_vectors * (k + slack_of(k)) + k);
}

/// Whether an element and its column fit one word.
bool packs(dtype computed, std::int64_t cols) {
  return computed == dtype::f32 && cols <= std::int64_t{1} << 32;
}

template <class Entry>
std::uint8_t digit(const Entry& e, int i) {
  return static_cast<std::uint8_t>(e.word_of(i) >> 8 * (i % 8));
}

/// The digits in which n entries are not all the same: bit i for digit i.
template <class Entry>
unsigned differing_digits(const Entry* entries, std::int64_t n) {
  unsigned found = 0;
  for (int word = 0; word < Entry::digits; word += 8) {
    std::uint64_t bits = 0;
    for (std::int64_t i = 1; i < n; ++i) {
      bits |= entries[i].word_of(word) ^ entries[0].word_of(word);
    }
    for (int i = 0; i < 8; ++i) {
      found |= (bits >> 8 * i & 0xff) != 0 ? 1U << (word + i) : 0U;
    }
  }
  return found;
}

/// Sorts n entries by their digits from `first` on, least significant first, each pass keeping the
/// order of those before (Knuth, TAOCP 3, 5.2.5, algorithm R). Where the result is: in `from` or in
/// `room`, which holds as many.
template <class Entry>
Entry* sort_by_digits(Entry* from, Entry* room, std::int64_t n, int first) {
  for (unsigned left = differing_digits(from, n) >> first << first; left != 0; left &= left - 1) {
    const int d = std::countr_zero(left);
    std::int64_t starts[256] = {};
    for (std::int64_t i = 0; i < n; ++i) {
      ++starts[digit(from[i], d)];
    }
    std::exclusive_scan(std::begin(starts), std::end(starts), std::begin(starts), std::int64_t{0});
    for (std::int64_t i = 0; i < n; ++i) {
      room[starts[digit(from[i], d)]++] = from[i];
    }
    std::swap(from, room);
  }
  return from;
}

/// The entry before which k - 1 of n stand, 1 <= k <= n, digit by digit. `room` holds n.
template <class Entry>
Entry kth_by_digits(const Entry* from, Entry* room, std::int64_t n, std::int64_t k) {
  for (unsigned left = differing_digits(from, n); left != 0 && n > 1;) {
    const int d = 31 - std::countl_zero(left);
    left &= ~(1U << d);
    std::int64_t counts[256] = {};
    for (std::int64_t i = 0; i < n; ++i) {
      ++counts[digit(from[i], d)];
    }
    int wanted = 0;
    for (; counts[wanted] < k; ++wanted) {
      k -= counts[wanted];
    }
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      room[kept] = from[i];
      kept += digit(from[i], d) == wanted ? 1 : 0;
    }
    from = room;
    n = kept;
  }
  return *from;
}

template <class A>
A element_as(const void* x, dtype type, std::int64_t i) {
  return core::with_real(type, [&]<class T>(T) {
    return static_cast<A>(static_cast<core::arithmetic_t<T>>(static_cast<const T*>(x)[i]));
  });
}

}  // namespace

std::size_t selection::bytes(std::int64_t cols, std::int64_t k, std::int64_t lanes,
                             dtype computed) {
  const auto element = size_of(computed);
  const auto capacity = static_cast<std::size_t>(capacity_of(cols, k));
  const auto groups = static_cast<std::size_t>(group_count(std::min(cols, chunk_columns), lanes));
  return 2 * round_up(groups * element) + round_up(capacity * element) +
         round_up(capacity * sizeof(std::int64_t)) +
         2 * round_up(capacity *
                      (packs(computed, cols) ? sizeof(packed_entry) : sizeof(wide_entry)));
}

selection::selection(const typed_kernels& kernels, std::int64_t lanes, std::int64_t cols,
                     std::int64_t k, std::byte* memory)
    : kernels_(kernels), lanes_(lanes), k_(k), cols_(cols), capacity_(capacity_of(cols, k)) {
  const auto element = size_of(kernels.computed);
  const auto capacity = static_cast<std::size_t>(capacity_);
  const auto part = [&](std::size_t bytes) {
    std::byte* const start = memory;
    memory += round_up(bytes);
    return start;
  };
  const auto groups =
      static_cast<std::size_t>(group_count(std::min(cols, chunk_columns), lanes)) * element;
  groups_ = part(groups);
  coarse_ = part(groups);
  values_ = part(capacity * element);
  columns_ = reinterpret_cast<std::int64_t*>(part(capacity * sizeof(std::int64_t)));
  const std::size_t entries =
      capacity * (packs(kernels.computed, cols) ? sizeof(packed_entry) : sizeof(wide_entry));
  keys_ = part(entries);
  more_keys_ = part(entries);
}

/// A lower bound of the k-th largest element that at most k + slack groups exceed.
/// -infinity if there are fewer groups.
double selection::threshold(std::int64_t group_total) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  if (group_total < k_) {
    return none;
  }
  // Folding the groups into fewer, larger ones leaves few to choose from, and their k-th largest
  // maximum is a lower bound too, as a rule hardly a lower one.
  const input_kernels& kernels = kernels_.input;
  const std::int64_t slack = slack_of(k_);
  const std::int64_t folded = kernels.fold_groups(groups_, group_total, 8 * k_, coarse_);
  const double bound = folded < k_ ? none : kernels.nearly_kth(coarse_, folded, k_, slack, none);
  // The groups above it, if they are too many, give the bound itself.
  const std::int64_t above = kernels.keep_above(groups_, group_total, bound, coarse_);
  const std::int64_t filled = (above + lanes_ - 1) / lanes_ * lanes_;
  return above <= k_ + slack ? bound : kernels.nearly_kth(coarse_, filled, k_, slack, bound);
}

void selection::take_chunk(const void* x, std::int64_t n, std::int64_t column) {
  const std::int64_t total = group_count(n, lanes_);
  const bool wide = kernels_.computed == dtype::f64;
  if (wide) {
    keep_best<double>(false);
  } else {
    keep_best<float>(false);
  }
  double limit = threshold(total);
  std::int64_t equal_wanted = k_;
  if (least_ != 0) {
    const double least = wide ? core::value_of_key<double>(least_)
                              : static_cast<double>(core::value_of_key<float>(least_));
    if (least >= limit) {
      limit = least;
      equal_wanted = 0;  // later columns lose ties
    }
  }
  candidates found{
      .values = values_, .columns = columns_, .count = count_, .equal_left = equal_wanted};
  kernels_.input.filter(x, n, groups_, limit, column, &found);
  count_ = found.count;
}

void selection::take_any_row(const void* x, std::int64_t n) {
  count_ = 0;
  least_ = 0;
  if (kernels_.computed == dtype::f64) {
    take_any<double>(x, n);
  } else {
    take_any<float>(x, n);
  }
}

/// A reservoir: elements above the k-th best so far, cut to k whenever it is full.
template <class A>
void selection::take_any(const void* x, std::int64_t n) {
  A* const values = static_cast<A*>(values_);
  for (std::int64_t i = 0; i < n; ++i) {
    const A value = element_as<A>(x, kernels_.in, i);
    if (core::order_key(value) <= least_) {  // later columns lose ties
      continue;
    }
    values[count_] = value;
    columns_[count_] = i;
    if (++count_ == capacity_) {
      keep_best<A>(false);
    }
  }
}

void selection::finish(const void* x) {
  if (kernels_.computed == dtype::f64) {
    finish_as<double>(x);
  } else {
    finish_as<float>(x);
  }
}

template <class A>
void selection::finish_as(const void* x) {
  keep_best<A>(true);
  A* const values = static_cast<A*>(values_);
  for (std::int64_t i = 0; i < k_; ++i) {
    if (values[i] == 0) {  // a key does not tell -0 from +0
      values[i] = element_as<A>(x, kernels_.in, columns_[i]);
    }
  }
}

/// Cuts the candidates to the best k, in order if asked.
template <class A>
void selection::keep_best(bool in_order) {
  if (count_ < k_ || (count_ == k_ && !in_order && least_ != 0)) {
    return;
  }
  packs(kernels_.computed, cols_) ? keep_best_by<A, packed_entry>(in_order)
                                  : keep_best_by<A, wide_entry>(in_order);
}

/// The k best of n entries become the first k, more than `few_to_cut` in the order that they had.
/// The last of them.
template <class Entry>
Entry selection::keep_first(Entry* entries, std::int64_t n) {
  if (n <= few_to_cut) {
    std::nth_element(entries, entries + k_ - 1, entries + n);
    return entries[k_ - 1];
  }
  const Entry last = kth_by_digits(entries, reinterpret_cast<Entry*>(more_keys_), n, k_);
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    entries[kept] = entries[i];
    kept += last < entries[i] ? 0 : 1;
  }
  return last;
}

/// The k best of n entries in order. `in_columns`: they stand in the order of their columns.
template <class Entry>
Entry* selection::sorted(Entry* entries, std::int64_t n, bool in_columns) {
  if (n > few) {
    return sort_by_digits(entries, reinterpret_cast<Entry*>(more_keys_), n,
                          in_columns ? Entry::column_digits : 0);
  }
  if constexpr (std::is_same_v<Entry, packed_entry>) {
    static_assert(sizeof(packed_entry) == sizeof(std::uint64_t));
    static_assert(few % most_listed == 0);
    std::uint64_t sorted[few];
    kernels_.table.rank(&entries->word, n, k_, sorted);
    std::memcpy(entries, sorted, static_cast<std::size_t>(k_) * sizeof(packed_entry));
  } else {
    std::sort(entries, entries + n);
  }
  return entries;
}

template <class A, class Entry>
void selection::keep_best_by(bool in_order) {
  A* const values = static_cast<A*>(values_);
  auto* entries = reinterpret_cast<Entry*>(keys_);
  bool in_columns = true;
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < count_; ++i) {
    entries[i] = Entry::of(core::order_key(values[i]), columns_[i]);
    in_columns = in_columns && columns_[i] > last;
    last = columns_[i];
  }
  if (!in_order || count_ > std::max(2 * k_, few)) {
    least_ = keep_first(entries, count_).order();
    in_columns = in_columns && count_ > few_to_cut;
    count_ = k_;
  }
  if (in_order) {
    entries = sorted(entries, count_, in_columns);
    least_ = entries[k_ - 1].order();
  }
  for (std::int64_t i = 0; i < k_; ++i) {
    values[i] = core::value_of_key<A>(entries[i].order());
    columns_[i] = entries[i].column();
  }
  count_ = k_;
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

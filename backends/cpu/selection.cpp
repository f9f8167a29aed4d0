// SPDX-License-Identifier: Apache-2.0
#include "selection.hpp"

#include <core/topk.hpp>

#include <algorithm>
#include <functional>
#include <limits>

namespace softfold::cpu_backend {
namespace {

/// An element as a key that orders like the result, larger first, and its column.
struct entry {
  std::uint64_t key;
  std::int64_t column;

  friend bool operator<(const entry& a, const entry& b) {  // a stands before b
    return a.key != b.key ? a.key > b.key : a.column < b.column;
  }
};

constexpr std::size_t line = 64;

std::size_t round_up(std::size_t bytes) { return (bytes + line - 1) / line * line; }

std::int64_t group_columns(std::int64_t lanes) { return group_vectors * lanes; }

/// Group maxima of n columns.
std::int64_t group_count(std::int64_t n, std::int64_t lanes) {
  return (n + group_columns(lanes) - 1) / group_columns(lanes) * lanes;
}

/// Room for what a chunk can add to k kept elements: above the threshold less than k groups of
/// group_vectors elements, equal to it k; or, where there are fewer than k groups, all.
std::int64_t capacity_of(std::int64_t cols, std::int64_t k) {
  const std::int64_t chunk = std::min(cols, chunk_columns);
  return k > chunk ? k + chunk : k + std::min(chunk, (group_vectors + 1) * k);
}

template <class A>
A element_as(const void* x, dtype type, std::int64_t i) {
  switch (type) {
    case dtype::f16:
      return static_cast<A>(static_cast<float>(static_cast<const half*>(x)[i]));
    case dtype::bf16:
      return static_cast<A>(static_cast<float>(static_cast<const bfloat16*>(x)[i]));
    case dtype::f64:
      return static_cast<A>(static_cast<const double*>(x)[i]);
    default:
      return static_cast<A>(static_cast<const float*>(x)[i]);
  }
}

}  // namespace

std::size_t selection::bytes(std::int64_t cols, std::int64_t k, std::int64_t lanes,
                             dtype computed) {
  const auto element = size_of(computed);
  const auto capacity = static_cast<std::size_t>(capacity_of(cols, k));
  const auto groups = static_cast<std::size_t>(group_count(std::min(cols, chunk_columns), lanes));
  return 2 * round_up(groups * element) + round_up(capacity * element) +
         round_up(capacity * sizeof(std::int64_t)) + round_up(capacity * sizeof(entry));
}

selection::selection(const typed_kernels& kernels, std::int64_t lanes, std::int64_t cols,
                     std::int64_t k, std::byte* memory)
    : kernels_(kernels), lanes_(lanes), k_(k), capacity_(capacity_of(cols, k)) {
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
  keys_ = part(capacity * sizeof(entry));
}

/// The k-th largest group maximum; -infinity if there are fewer groups.
template <class A>
double selection::threshold(std::int64_t group_total) {
  constexpr A none = -std::numeric_limits<A>::infinity();
  if (group_total < k_) {
    return static_cast<double>(none);
  }
  const A* const groups = static_cast<const A*>(groups_);
  A* const coarse = static_cast<A*>(coarse_);

  // Fold the groups into fewer, larger ones. Their k-th largest maximum is a lower bound too,
  // and leaves few of the groups to choose from.
  std::int64_t folded = group_total;
  std::copy(groups, groups + group_total, coarse);
  while (folded >= std::max<std::int64_t>(8 * k_, 64)) {
    const std::int64_t rest = folded / 2;
    const std::int64_t kept = folded - rest;
    for (std::int64_t i = 0; i < rest; ++i) {
      coarse[i] = std::max(coarse[i], coarse[kept + i]);
    }
    folded = kept;
  }
  std::nth_element(coarse, coarse + k_ - 1, coarse + folded, std::greater<>());
  const A bound = coarse[k_ - 1];
  if (folded == group_total) {
    return static_cast<double>(bound);
  }
  std::int64_t above = 0;
  for (std::int64_t i = 0; i < group_total; ++i) {
    coarse[above] = groups[i];
    above += groups[i] > bound ? 1 : 0;
  }
  if (above < k_) {
    return static_cast<double>(bound);
  }
  std::nth_element(coarse, coarse + k_ - 1, coarse + above, std::greater<>());
  return static_cast<double>(coarse[k_ - 1]);
}

void selection::take_chunk(const void* x, std::int64_t n, std::int64_t column) {
  const std::int64_t total = group_count(n, lanes_);
  const bool wide = kernels_.computed == dtype::f64;
  double limit = wide ? threshold<double>(total) : threshold<float>(total);
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
  if (wide) {
    keep_best<double>(false);
  } else {
    keep_best<float>(false);
  }
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
  A* const values = static_cast<A*>(values_);
  auto* const entries = reinterpret_cast<entry*>(keys_);
  for (std::int64_t i = 0; i < count_; ++i) {
    entries[i] = {core::order_key(values[i]), columns_[i]};
  }
  std::nth_element(entries, entries + k_ - 1, entries + count_);
  least_ = entries[k_ - 1].key;
  if (in_order) {
    std::sort(entries, entries + k_);
  }
  for (std::int64_t i = 0; i < k_; ++i) {
    values[i] = core::value_of_key<A>(entries[i].key);
    columns_[i] = entries[i].column;
  }
  count_ = k_;
}

}  // namespace softfold::cpu_backend

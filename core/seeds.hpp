// SPDX-License-Identifier: Apache-2.0
/// \file
/// The algorithms this library grew from, as plain loops over one row: what tests and the
/// benchmark compare with. They keep the faults of their sources: a naive row overflows, a NaN
/// can be lost, a row of -infinity divides zero by zero.
///
/// Naive, safe and online softmax and the fused top-k follow M. Milakov and N. Gimelshein,
/// "Online normalizer calculation for softmax", arXiv 1805.02867.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace softfold::core::seeds {

/// Two reads: exponentials as they are, then the quotient. Overflows above log(max of T).
template <std::floating_point T>
void softmax_naive(std::span<const T> x, std::span<T> y) {
  T total = 0;
  for (const T value : x) {
    total += std::exp(value);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = std::exp(x[i]) / total;
  }
}

/// Three reads: the maximum, the sum relative to it, the quotient.
template <std::floating_point T>
void softmax_safe(std::span<const T> x, std::span<T> y) {
  T max = -std::numeric_limits<T>::infinity();
  for (const T value : x) {
    max = value > max ? value : max;
  }
  T total = 0;
  for (const T value : x) {
    total += std::exp(value - max);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = std::exp(x[i] - max) / total;
  }
}

/// The running pair of the online normaliser. A new maximum rescales what was summed before.
template <std::floating_point T>
struct online_normalizer {
  T max = -std::numeric_limits<T>::infinity();
  T total = 0;

  void add(T value) {
    if (value > max) {
      total = total * std::exp(max - value) + T{1};
      max = value;
    } else if (value != -std::numeric_limits<T>::infinity()) {
      total += std::exp(value - max);
    }
  }
};

/// Two reads: maximum and sum together, then the quotient.
template <std::floating_point T>
void softmax_online(std::span<const T> x, std::span<T> y) {
  online_normalizer<T> normalizer;
  for (const T value : x) {
    normalizer.add(value);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = std::exp(x[i] - normalizer.max) / normalizer.total;
  }
}

/// One read: the online normaliser beside a sorted list of the k = probabilities.size() largest
/// elements, into which each element sinks past the smaller ones. An element equal to a listed
/// one stays behind it. Columns without an element are -1.
template <std::floating_point T>
void softmax_topk_online(std::span<const T> x, std::span<T> probabilities,
                         std::span<std::int64_t> columns) {
  const std::size_t k = probabilities.size();
  online_normalizer<T> normalizer;
  for (std::size_t i = 0; i < k; ++i) {
    probabilities[i] = -std::numeric_limits<T>::infinity();
    columns[i] = -1;
  }
  for (std::size_t j = 0; j < x.size(); ++j) {
    normalizer.add(x[j]);
    std::size_t place = k;
    while (place > 0 && probabilities[place - 1] < x[j]) {
      --place;
      if (place + 1 < k) {
        probabilities[place + 1] = probabilities[place];
        columns[place + 1] = columns[place];
      }
    }
    if (place < k) {
      probabilities[place] = x[j];
      columns[place] = static_cast<std::int64_t>(j);
    }
  }
  for (T& value : probabilities) {
    value = std::exp(value - normalizer.max) / normalizer.total;
  }
}

}  // namespace softfold::core::seeds

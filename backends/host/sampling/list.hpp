// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sampling with a small top-k: all that is kept stands in a list, in order.
#pragma once

#include <backends/host/parallel.hpp>
#include <backends/host/sampling/row_view.hpp>
#include <backends/host/topk/selection.hpp>

#include <core/sampling.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// The largest k that is listed.
inline constexpr std::int64_t most_listed_to_sample = 1024;

/// The first elements of a row that has no NaN and whose largest z is a number.
class kept_list {
 public:
  static std::size_t bytes(std::int64_t cols, std::int64_t k, std::int64_t lanes, dtype computed) {
    return weights_bytes(k) + selection::bytes(cols, k, lanes, computed);
  }

  kept_list(executor& on, const plan& plan, const row_view& row, double scale, std::int64_t k,
            std::byte* memory);

  /// How many exist and are at most so far below the largest; no more than before.
  void cut_below(double depth);
  /// Cuts to the shortest prefix that reaches a mass.
  void cut_at(const core::sampling::mass& target);
  /// The mass of what is left.
  [[nodiscard]] core::sampling::mass weight();
  [[nodiscard]] std::int64_t size() const { return size_; }

  [[nodiscard]] core::sampling::runner winner(const core::sampling::noise& noise) const;

 private:
  /// Of whole vectors, and of values beside them.
  static std::size_t weights_bytes(std::int64_t k) {
    return static_cast<std::size_t>(k + 127) / 64 * 64 * 2 * sizeof(std::uint64_t);
  }

  [[nodiscard]] double x(std::int64_t i) const;
  [[nodiscard]] double z(std::int64_t i) const { return core::sampling::scaled(scale_, x(i)); }
  void weigh();

  const row_view& row_;
  double scale_;
  selection best_;
  std::int64_t size_;
  double largest_;
  std::uint64_t* weights_;  ///< of all
  bool weighed_ = false;
};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

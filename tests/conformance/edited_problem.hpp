// SPDX-License-Identifier: Apache-2.0
// A matrix with edits, and each of its rows as it is after them, by a way of its own.
#pragma once

#include "problem.hpp"

#include <core/softcap.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace softfold::test {

enum class bias_kind { none, rows, one_row, f64_rows, with_infinity };

struct edit_spec {
  const char* name = "";
  int keep_bits = 0;   ///< of 100 columns; 0: no bit mask
  int keep_bytes = 0;  ///< the same of bytes
  bool one_mask = false;
  bool lengths = false;
  causal corner = causal::none;
  std::int64_t window = 0;
  bias_kind bias = bias_kind::none;
  bool penalties = false;
  double softcap = 0;

  [[nodiscard]] bool changes_values() const {
    return bias != bias_kind::none || penalties || softcap != 0;
  }
};

inline const edit_spec all_edits[] = {
    {.name = "half of the bits", .keep_bits = 50},
    {.name = "few of the bits, of one row", .keep_bits = 3, .one_mask = true},
    {.name = "bytes", .keep_bytes = 50},
    {.name = "lengths", .lengths = true},
    {.name = "top left", .corner = causal::top_left},
    {.name = "bottom right with a window", .corner = causal::bottom_right, .window = 5},
    {.name = "bias", .bias = bias_kind::rows},
    {.name = "bias of one row", .bias = bias_kind::one_row},
    {.name = "bias in f64", .bias = bias_kind::f64_rows},
    {.name = "bias with -infinity", .bias = bias_kind::with_infinity},
    {.name = "penalties", .penalties = true},
    {.name = "softcap", .softcap = 1.5},
    {.name = "everything",
     .keep_bytes = 80,
     .lengths = true,
     .corner = causal::bottom_right,
     .window = 700,
     .bias = bias_kind::with_infinity,
     .penalties = true,
     .softcap = 30},
    {.name = "top left with a window", .corner = causal::top_left, .window = 120},
};

/// A matrix, its edits, and each row as it is after them.
template <class In>
class edited_problem {
 public:
  using A = reference::arithmetic_t<In>;
  static constexpr A none = -std::numeric_limits<A>::infinity();

  edited_problem(const edit_spec& edit, const problem_spec& s)
      : spec(s),
        what_(edit),
        x({s.rows, s.cols, s.padding, s.offset}, role::input),
        words_({edit.one_mask ? 1 : s.rows, (s.cols + 31) / 32, s.padding, 0}, role::input),
        bytes_({edit.one_mask ? 1 : s.rows, s.cols, s.padding, s.offset}, role::input),
        lengths_({s.rows, 1, 0, 0}, role::input),
        bias_({edit.bias == bias_kind::one_row ? 1 : s.rows, s.cols, 0, s.offset}, role::input),
        bias64_({s.rows, s.cols, 0, 0}, role::input),
        penalty_rows_({s.rows + 1, 1, 0, 0}, role::input),
        penalty_columns_({s.rows * entries_each, 1, 0, 0}, role::input),
        penalty_counts_({s.rows * entries_each, 1, 0, 0}, role::input),
        factors_({s.rows, 1, 0, 0}, role::input),
        one_({1, 1, 0, 0}, role::input) {
    random_.seed(s.seed);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      fill(s.kind, x.row(r), s.seed + static_cast<std::uint64_t>(r));
      make_edits(r);
    }
    penalty_rows_(s.rows, 0) = s.rows * entries_each;
    one_(0, 0) = 0.25F;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      make_row(r);
    }
    spoil();
    upload();
  }

  [[nodiscard]] row_edits edits() const {
    row_edits e;
    if (what_.keep_bits > 0) {
      e.mask = words_.view();
    } else if (what_.keep_bytes > 0) {
      e.mask = bytes_.view();
    }
    if (what_.lengths) {
      e.lengths = lengths_.vector();
    }
    e.corner = what_.corner;
    e.queries = what_.corner == causal::none ? 0 : queries();
    e.window = what_.window;
    if (what_.bias == bias_kind::f64_rows) {
      e.bias = bias64_.view();
    } else if (what_.bias != bias_kind::none) {
      e.bias = bias_.view();
    }
    if (what_.penalties) {
      e.penalty_rows = penalty_rows_.vector();
      e.penalty_columns = penalty_columns_.vector();
      e.penalty_counts = penalty_counts_.vector();
      e.repetition = factors_.vector();
      e.frequency = one_.vector();
      e.presence = factors_.vector();
    }
    e.softcap = what_.softcap;
    return e;
  }

  [[nodiscard]] bool kept(std::int64_t r, std::int64_t c) const {
    return kept_[static_cast<std::size_t>(r * spec.cols + c)];
  }
  /// The row after its edits, removed elements as given.
  [[nodiscard]] std::vector<A> row(std::int64_t r, A removed) const {
    std::vector<A> result(static_cast<std::size_t>(spec.cols));
    for (std::int64_t c = 0; c < spec.cols; ++c) {
      result[static_cast<std::size_t>(c)] =
          kept(r, c) ? values_[static_cast<std::size_t>(r * spec.cols + c)] : removed;
    }
    return result;
  }
  [[nodiscard]] row_oracle<A> oracle(std::int64_t r) const {
    const std::vector<A> elements = row(r, spec.scale < 0 ? -none : none);
    return {std::span<const A>(elements), spec.scale};
  }
  /// Columns in the order of top-k, removed ones at the end.
  [[nodiscard]] std::vector<std::int64_t> columns(std::int64_t r) const {
    std::vector<std::int64_t> order;
    std::vector<std::int64_t> removed;
    const std::vector<A> elements = row(r, none);
    for (const std::int64_t c : reference::topk(std::span<const A>(elements), elements.size())) {
      (kept(r, c) ? order : removed).push_back(c);
    }
    std::sort(removed.begin(), removed.end());
    order.insert(order.end(), removed.begin(), removed.end());
    return order;
  }
  [[nodiscard]] std::int64_t kept_count(std::int64_t r) const {
    const auto row = kept_.begin() + r * spec.cols;
    return std::count(row, row + spec.cols, true);
  }
  [[nodiscard]] std::string text() const { return std::string(what_.name) + ", " + describe(spec); }

  problem_spec spec;

 private:
  static constexpr std::int64_t entries_each = 4;

  const edit_spec what_;

 public:
  matrix<In> x;

 private:
  [[nodiscard]] std::int64_t queries() const {
    return spec.rows % 2 == 0 ? spec.rows / 2 : spec.rows;
  }
  [[nodiscard]] std::int64_t mask_row(std::int64_t r) const { return what_.one_mask ? 0 : r; }

  void make_edits(std::int64_t r) {
    const auto chance = [&](int of_100) { return static_cast<int>(random_() % 100) < of_100; };
    if (mask_row(r) == r) {
      for (std::int64_t w = 0; w < words_.cols(); ++w) {
        std::uint32_t word = 0;
        for (int bit = 0; bit < 32; ++bit) {
          word |= static_cast<std::uint32_t>(chance(what_.keep_bits)) << bit;
        }
        words_(r, w) = static_cast<std::int32_t>(w % 5 == 3 ? 0U : w % 5 == 4 ? ~0U : word);
      }
      for (std::int64_t c = 0; c < spec.cols; ++c) {
        bytes_(r, c) =
            chance(what_.keep_bytes) ? static_cast<std::uint8_t>(1 + random_() % 255) : 0;
      }
    }
    const auto length =
        static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(spec.cols + 2));
    lengths_(r, 0) = static_cast<std::int32_t>(r % 7 == 6   ? -3
                                               : r % 7 == 5 ? spec.cols + 9
                                                            : length);
    std::normal_distribution<double> normal;
    for (std::int64_t c = 0; c < spec.cols; ++c) {
      if (r < bias_.rows()) {
        bias_(r, c) = what_.bias == bias_kind::with_infinity && chance(30)
                          ? make<In>(-std::numeric_limits<double>::infinity())
                          : make<In>(normal(random_));
      }
      bias64_(r, c) = normal(random_);
    }
    penalty_rows_(r, 0) = r * entries_each;
    // Ascending, once, some past the row's ends.
    std::int64_t column = -1;
    for (std::int64_t i = 0; i < entries_each; ++i) {
      penalty_columns_(r * entries_each + i, 0) = static_cast<std::int32_t>(column);
      penalty_counts_(r * entries_each + i, 0) = static_cast<std::int32_t>(i % 3);
      column +=
          1 + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(spec.cols / 2 + 1));
    }
    factors_(r, 0) = 1.5F + static_cast<float>(r);
  }

  [[nodiscard]] bool computes_kept(std::int64_t r, std::int64_t c) {
    bool result = true;
    if (what_.keep_bits > 0) {
      result = (static_cast<std::uint32_t>(words_(mask_row(r), c / 32)) >> (c % 32) & 1U) != 0;
    } else if (what_.keep_bytes > 0) {
      result = bytes_(mask_row(r), c) != 0;
    }
    if (what_.lengths) {
      result = result && c < lengths_(r, 0);
    }
    if (what_.corner != causal::none) {
      const std::int64_t query = r % queries();
      const std::int64_t last =
          what_.corner == causal::top_left ? query : query + (spec.cols - queries());
      result = result && c <= last && (what_.window == 0 || c > last - what_.window);
    }
    if (what_.bias == bias_kind::with_infinity) {
      result = result && !std::isinf(reference::widen(bias_(r, c)));
    }
    return result;
  }

  [[nodiscard]] A computes_value(std::int64_t r, std::int64_t c) {
    auto value = static_cast<A>(x(r, c));
    if (what_.bias == bias_kind::f64_rows) {
      value += static_cast<A>(bias64_(r, c));
    } else if (what_.bias != bias_kind::none) {
      value += static_cast<A>(bias_(what_.bias == bias_kind::one_row ? 0 : r, c));
    }
    if (what_.penalties) {
      for (std::int64_t i = 0; i < entries_each; ++i) {
        if (penalty_columns_(r * entries_each + i, 0) == c) {
          const A factor = static_cast<A>(factors_(r, 0));
          const A count = static_cast<A>(penalty_counts_(r * entries_each + i, 0));
          value = value > 0 ? value / factor : value * factor;
          value = std::fma(-static_cast<A>(one_(0, 0)), count, value);
          value = count > 0 ? value - factor : value;
        }
      }
    }
    return what_.softcap != 0 ? core::softcapped(value, static_cast<A>(what_.softcap)) : value;
  }

  void make_row(std::int64_t r) {
    for (std::int64_t c = 0; c < spec.cols; ++c) {
      kept_.push_back(computes_kept(r, c));
      values_.push_back(computes_value(r, c));
    }
  }

  /// What is removed is spoilt by NaN, or +infinity.
  void spoil() {
    for (std::int64_t r = 0; r < spec.rows; ++r) {
      for (std::int64_t c = 0; c < spec.cols; ++c) {
        if (!kept(r, c)) {
          x(r, c) = make<In>(c % 2 == 0 ? std::numeric_limits<double>::quiet_NaN()
                                        : std::numeric_limits<double>::infinity());
        }
      }
    }
  }

  void upload() {
    x.upload();
    words_.upload();
    bytes_.upload();
    lengths_.upload();
    bias_.upload();
    bias64_.upload();
    penalty_rows_.upload();
    penalty_columns_.upload();
    penalty_counts_.upload();
    factors_.upload();
    one_.upload();
  }

  matrix<std::int32_t> words_;
  matrix<std::uint8_t> bytes_;
  matrix<std::int32_t> lengths_;
  matrix<In> bias_;
  matrix<double> bias64_;
  matrix<std::int64_t> penalty_rows_;
  matrix<std::int32_t> penalty_columns_;
  matrix<std::int32_t> penalty_counts_;
  matrix<float> factors_;
  matrix<float> one_;
  std::mt19937_64 random_;
  std::vector<bool> kept_;
  std::vector<A> values_;
};

}  // namespace softfold::test

// SPDX-License-Identifier: Apache-2.0
/// \file
/// One row from its segments' folds to the numbers that the second pass needs.
#pragma once

#include <backends/host/kernels/logarithm.hpp>
#include <backends/host/kernels/table.hpp>

#include <core/monoid.hpp>
#include <core/typed_memory.hpp>

#include <softfold/dtype.hpp>
#include <softfold/max_sum.hpp>
#include <softfold/softfold.hpp>

#include <cstdint>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// The kernels of one call and the sizes that go with them.
struct typed_kernels {
  const kernel_table& table;
  const input_kernels& input;
  const output_kernels& output;
  const input_kernels& arithmetic;  ///< those that read the arithmetic's type
  dtype in;
  dtype out;
  dtype computed;

  [[nodiscard]] const std::byte* at(const void* x, std::int64_t i) const {
    return static_cast<const std::byte*>(x) + i * static_cast<std::int64_t>(size_of(in));
  }
  [[nodiscard]] std::byte* result_at(void* y, std::int64_t i) const {
    return static_cast<std::byte*>(y) + i * static_cast<std::int64_t>(size_of(out));
  }
  [[nodiscard]] std::byte* computed_at(void* e, std::int64_t i) const {
    return static_cast<std::byte*>(e) + i * static_cast<std::int64_t>(size_of(computed));
  }
};

/// The place of a real type's kernels in a table.
int input_type_of(dtype type);

typed_kernels kernels_for(const kernel_table& table, dtype in, dtype out);

/// The state of a whole row, of any kind.
struct row_state {
  enum class kind : std::uint8_t {
    ordinary,  ///< finite sum
    empty,     ///< nothing above -infinity after scaling
    infinite,  ///< +infinity after scaling, no NaN
    nan,
  };
  kind what = kind::empty;
  frame e;         ///< ordinary: how e(x) is computed
  double sum = 0;  ///< ordinary: of e(x)
  double max = 0;  ///< ordinary: the scaled maximum, which only far rows' states need
};

/// Whether the power form may be tried with this scale; other scales take the careful way.
bool ordinary_scale(double scale);

/// What segments' power folds add up to: sums of e(x), relative to the largest origin.
struct segment_monoid {
  struct value_type {
    double max = -std::numeric_limits<double>::infinity();  ///< of x, unscaled
    double origin = 0;                                      ///< meaningless while max = -infinity
    long double sum = 0;
  };
  static constexpr value_type identity() { return {}; }
  static value_type of(const segment_state& s) {
    return s.max > identity().max ? value_type{s.max, s.origin, static_cast<long double>(s.sum)}
                                  : identity();
  }
  static value_type combine(const value_type& a, const value_type& b);
};
static_assert(core::monoid<segment_monoid>);

/// The state of a row from its elements'.
row_state state_of(const segment_monoid::value_type& sum, double scale, dtype computed);

/// The same from the power folds of its segments.
row_state combine_segments(const segment_state* segments, std::int64_t count, double scale,
                           dtype computed);

/// The state of a row of any content, by three reads. For the rows that the power fold refuses.
row_state careful_state(const typed_kernels& kernels, const void* x, std::int64_t n, double scale);

/// logsumexp of a row as high + low, where high has the arithmetic's type.
split_number log_of(const row_state& row, dtype computed);

double logsumexp_of(const row_state& row, dtype computed);

/// The state as the public value.
max_sum<double> partial_of(const row_state& row, dtype computed);

/// The state of a row from the public value, for the same scale.
row_state state_of(max_sum<double> partial, double scale, dtype computed);

/// Public state r of an array of max_sum<float> (type f32) or max_sum<double> (f64).
max_sum<double> read_partial(const void* partials, dtype type, std::int64_t r);
void write_partial(void* partials, dtype type, std::int64_t r, max_sum<double> value);

/// The value that fills a row that is not ordinary, for softmax (log = false) or log-softmax.
double fill_value(row_state::kind what, empty_row policy, bool log);

/// y[0, n) = value, in the result's type.
void fill(const typed_kernels& kernels, void* y, std::int64_t n, double value);

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

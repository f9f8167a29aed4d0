// SPDX-License-Identifier: Apache-2.0
#include <backends/host/row/state.hpp>

#include <core/check.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

double to_type(double x, dtype computed) {
  return computed == dtype::f64 ? x : static_cast<double>(static_cast<float>(x));
}

/// Whether the rounding of a public state's maximum is at most 32, so that a sum relative to it
/// stays in range. Beyond, scaled elements count as rounded to the arithmetic's type.
bool max_is_near_exact(double max, dtype computed) {
  return std::fabs(max) < (computed == dtype::f64 ? 0x1p59 : 0x1p30);
}

/// The sum of exponentials relative to the maximum, of a form that has them so.
double sum_of_relative(const row_state& row) {
  return row.e.how == form::careful ? std::ldexp(row.sum, static_cast<int>(careful_origin))
                                    : row.sum;
}

/// The state of a row whose sum is relative to that origin; of an empty one if max = -infinity.
row_state power_state(double max, double origin, double sum, double scale, dtype computed) {
  row_state row;
  row.max = max;
  if (max == -inf) {
    return row;
  }
  row.what = row_state::kind::ordinary;
  row.e.scale = scale;
  row.e.origin = origin;
  row.sum = sum;
  row.max = to_type(max * scale, computed);
  return row;
}

}  // namespace

int input_type_of(dtype type) {
  return core::with_real(type, []<class T>(T) {
    if constexpr (std::is_same_v<T, double>) {
      return input_f64;
    } else if constexpr (std::is_same_v<T, float>) {
      return input_f32;
    } else if constexpr (std::is_same_v<T, half>) {
      return input_f16;
    } else {
      static_assert(std::is_same_v<T, bfloat16>);
      return input_bf16;
    }
  });
}

typed_kernels kernels_for(const kernel_table& table, dtype in, dtype out) {
  const dtype computed = core::arithmetic_type(in);
  return {.table = table,
          .input = table.input[input_type_of(in)],
          .output = table.output[input_type_of(in)][out == in ? output_same : output_arithmetic],
          .arithmetic = table.input[input_type_of(computed)],
          .in = in,
          .out = out,
          .computed = computed};
}

bool ordinary_scale(double scale) {
  // Below, the scaled distance to an element that is flushed might not be finite.
  return scale >= 1e-6;
}

segment_monoid::value_type segment_monoid::combine(const value_type& a, const value_type& b) {
  if (!(a.max > identity().max)) {
    return b;
  }
  if (!(b.max > identity().max)) {
    return a;
  }
  const double origin = std::max(a.origin, b.origin);
  const auto at_origin = [&](const value_type& s) {
    return s.origin == origin  // as a rule
               ? s.sum
               : std::ldexp(s.sum, static_cast<int>(s.origin - origin));
  };
  return {std::max(a.max, b.max), origin, at_origin(a) + at_origin(b)};
}

row_state state_of(const segment_monoid::value_type& sum, double scale, dtype computed) {
  return power_state(sum.max, sum.origin, static_cast<double>(sum.sum), scale, computed);
}

row_state combine_segments(const segment_state* segments, std::int64_t count, double scale,
                           dtype computed) {
  if (count == 1) {  // the same, without going through long double, which short rows would feel
    return power_state(segments->max, segments->origin, segments->sum, scale, computed);
  }
  auto sum = segment_monoid::identity();
  for (std::int64_t i = 0; i < count; ++i) {
    sum = segment_monoid::combine(sum, segment_monoid::of(segments[i]));
  }
  return state_of(sum, scale, computed);
}

row_state careful_state(const typed_kernels& kernels, const void* x, std::int64_t n, double scale) {
  row_state row;
  double max = -inf;
  double min = inf;
  bool has_nan = false;
  for (std::int64_t begin = 0; begin < n; begin += segment_columns) {
    row_extremes part;
    kernels.input.extremes(kernels.at(x, begin), std::min(segment_columns, n - begin), &part);
    max = std::max(max, part.max);
    min = std::min(min, part.min);
    has_nan = has_nan || part.has_nan;
  }
  const double top = scale < 0 ? min : max;  // the element whose scaled value is largest
  const double largest = scale == 0 ? (max == -inf ? -inf : 0) : scale * top;
  row.max = to_type(largest, kernels.computed);
  if (has_nan) {
    row.what = row_state::kind::nan;
    return row;
  }
  if (std::isinf(row.max)) {  // also of finite elements: the scaled row is the row
    row.what = row.max > 0 ? row_state::kind::infinite : row_state::kind::empty;
    return row;
  }
  row.what = row_state::kind::ordinary;
  row.e.scale = scale;
  if (scale == 0) {
    row.e.how = form::uniform;
  } else {
    row.e.how = form::careful;
    row.e.origin = careful_origin;
    row.e.a = 0.5;
    row.e.b = top * 0.5;
    row.e.c = 0;
    row.e.g = 2;
  }
  long double sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += segment_columns) {
    sum += static_cast<long double>(
        kernels.input.sum(kernels.at(x, begin), std::min(segment_columns, n - begin), &row.e));
  }
  row.sum = static_cast<double>(sum);
  return row;
}

split_number log_of(const row_state& row, dtype computed) {
  if (row.e.how != form::power) {
    return {0, std::log(sum_of_relative(row))};  // these forms' log is relative to the maximum
  }
  const split_number log = log_of_scaled(row.sum, row.e.origin);
  const double high = to_type(log.high + log.low, computed);
  return {high, (log.high - high) + log.low};
}

double logsumexp_of(const row_state& row, dtype computed) {
  switch (row.what) {
    case row_state::kind::empty:
      return -inf;
    case row_state::kind::infinite:
      return inf;
    case row_state::kind::nan:
      return nan_value;
    case row_state::kind::ordinary:
      break;
  }
  if (row.e.how == form::uniform) {
    return std::log(row.sum);
  }
  if (row.e.how == form::careful) {
    // The maximum itself, not rounded to the arithmetic's type.
    return std::fma(row.e.scale, row.e.b * row.e.g, std::log(sum_of_relative(row)));
  }
  const split_number log = log_of(row, computed);
  return log.high + log.low;
}

max_sum<double> partial_of(const row_state& row, dtype computed) {
  switch (row.what) {
    case row_state::kind::empty:
      return {};
    case row_state::kind::infinite:
      return {inf, 1};
    case row_state::kind::nan:
      return {nan_value, nan_value};
    case row_state::kind::ordinary:
      break;
  }
  if (row.e.how == form::uniform) {
    return {0, row.sum};
  }
  if (row.e.how == form::careful) {
    // Relative to the exact scaled maximum, which row.max is the rounding of.
    const double rounding = max_is_near_exact(row.max, computed)
                                ? std::fma(row.e.scale, row.e.b * row.e.g, -row.max)
                                : 0;
    return {row.max, sum_of_relative(row) * std::exp(rounding)};
  }
  const normalised_sum s = normalise(row.sum, row.e.origin);
  return {row.max, s.fraction * std::exp(s.log.high - row.max) * (1 + s.log.low)};
}

row_state state_of(max_sum<double> partial, double scale, dtype computed) {
  row_state row;
  if (std::isnan(partial.max) || std::isnan(partial.sum)) {
    row.what = row_state::kind::nan;
    return row;
  }
  if (partial.max == inf) {
    row.what = row_state::kind::infinite;
    return row;
  }
  if (!(partial.sum > 0) || partial.max == -inf) {
    return row;
  }
  row.what = row_state::kind::ordinary;
  row.max = partial.max;
  row.sum = partial.sum;
  row.e.scale = scale;
  if (scale == 0) {
    row.e.how = form::uniform;
    return row;
  }
  const double exponent = partial.max * 1.4426950408889634;
  const double quantum =
      computed == dtype::f64 ? power_limits<double>::quantum : power_limits<float>::quantum;
  const double far = computed == dtype::f64 ? power_limits<double>::far : power_limits<float>::far;
  if (ordinary_scale(scale) && std::fabs(exponent) < far) {
    row.e.origin = quantum * std::floor((exponent - origin_margin) / quantum);
    // By way of the nearest power of two, so that only a small number goes through exp.
    const double nearest = std::rint(exponent);
    const split_number log = times_ln2(nearest);
    row.sum = std::ldexp(row.sum * std::exp((partial.max - log.high) - log.low),
                         static_cast<int>(nearest - row.e.origin));
  } else {
    row.e.how = form::careful;
    row.e.origin = careful_origin;
    row.sum = std::ldexp(row.sum, -static_cast<int>(careful_origin));
    row.e.a = 1;
    row.e.b = 0;
    row.e.c = partial.max;
    row.e.g = 1;
    row.e.exact = max_is_near_exact(partial.max, computed);
  }
  return row;
}

max_sum<double> read_partial(const void* partials, dtype type, std::int64_t r) {
  if (type == dtype::f64) {
    return static_cast<const max_sum<double>*>(partials)[r];
  }
  const auto p = static_cast<const max_sum<float>*>(partials)[r];
  return {static_cast<double>(p.max), static_cast<double>(p.sum)};
}

void write_partial(void* partials, dtype type, std::int64_t r, max_sum<double> value) {
  if (type == dtype::f64) {
    static_cast<max_sum<double>*>(partials)[r] = value;
  } else {
    static_cast<max_sum<float>*>(partials)[r] = {static_cast<float>(value.max),
                                                 static_cast<float>(value.sum)};
  }
}

double fill_value(row_state::kind what, empty_row policy, bool log) {
  if (what == row_state::kind::empty && policy == empty_row::zero) {
    return log ? -inf : 0;
  }
  return nan_value;
}

void fill(const typed_kernels& kernels, void* y, std::int64_t n, double value) {
  for (std::int64_t i = 0; i < n; ++i) {
    core::write_real(y, kernels.out, i, value);
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

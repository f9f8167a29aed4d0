// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample()'s arguments as one checked value, and what a row reads and writes of it.
#pragma once

#include <core/check_edits.hpp>
#include <core/sampling.hpp>
#include <core/typed_memory.hpp>

#include <softfold/softfold.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace softfold::core {

/// Outputs without data are not wanted.
struct sample_problem {
  const_matrix_ref x;
  matrix_ref tokens;
  sample_options options;
  core::edits edits = {};
  bool weighs = false;  ///< row_sampler's look() wants the mass of what is kept

  [[nodiscard]] bool wants_numbers() const {
    return options.lse.data != nullptr || options.kept.data != nullptr ||
           options.kept_mass.data != nullptr || options.top_indices.data != nullptr;
  }
  [[nodiscard]] bool empty() const { return x.rows == 0 || (tokens.cols == 0 && !wants_numbers()); }
};

constexpr const char* function_of(const sample_problem&) { return "sample"; }

namespace sampling {

/// Entry r of a vector with one for each row, or the number for all.
SOFTFOLD_HD inline double real_of(const const_vector_ref& v, std::int64_t r, double otherwise) {
  return v.data == nullptr ? otherwise : real_at<double>(v.data, v.type, r);
}
SOFTFOLD_HD inline std::int64_t integer_of(const const_vector_ref& v, std::int64_t r,
                                           std::int64_t otherwise) {
  return v.data == nullptr ? otherwise : integer_at(v.data, v.type, r);
}

/// The parameters of row r: sample_options, or those of a part.
template <class Options>
SOFTFOLD_HD inline parameters parameters_of(const Options& o, std::int64_t r) {
  return {
      real_of(o.temperatures, r, o.temperature),
      real_of(o.top_ps, r, o.top_p),
      real_of(o.min_ps, r, o.min_p),
      integer_of(o.top_ks, r, o.top_k),
      static_cast<std::uint64_t>(integer_of(o.seeds, r, static_cast<std::int64_t>(o.seed))),
      static_cast<std::uint64_t>(integer_of(o.offsets, r, static_cast<std::int64_t>(o.offset)))};
}

/// A result in a type, rounded to the arithmetic's first. NaN is the canonical one.
SOFTFOLD_HD inline void write_result(void* to, dtype type, std::int64_t i, double value) {
  write_real(to, type, i, value == value ? value : std::numeric_limits<double>::quiet_NaN());
}

/// The results of a row that do not depend on the draw.
SOFTFOLD_HD inline void write_numbers(const sample_options& o, std::int64_t r,
                                      const row_numbers& row) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (o.lse.data != nullptr) {
    write_result(o.lse.data, o.lse.type, r, row.lse);
  }
  if (o.kept.data != nullptr) {
    write_integer(o.kept.data, o.kept.type, r, row.kept);
  }
  if (o.kept_mass.data != nullptr) {
    const bool has_one = row.kind == row_kind::ordinary;
    write_result(o.kept_mass.data, o.kept_mass.type, r,
                 has_one                       ? row.kept_weight.value() / row.weight.value()
                 : row.kind == row_kind::empty ? 0
                                               : nan);
  }
}

/// The results of a draw.
SOFTFOLD_HD inline void write_token(const sample_problem& p, std::int64_t r, std::int64_t draw,
                                    std::int64_t token, double log, double raw_log) {
  write_integer(p.tokens.data, p.tokens.type, r * p.tokens.stride + draw, token);
  const matrix_ref& processed = p.options.log_probability;
  if (processed.data != nullptr) {
    write_result(processed.data, processed.type, r * processed.stride + draw, log);
  }
  const matrix_ref& raw = p.options.raw_log_probability;
  if (raw.data != nullptr) {
    write_result(raw.data, raw.type, r * raw.stride + draw, raw_log);
  }
}

}  // namespace sampling

// ---- The check.

/// A number that sampling takes, given for all rows or for each.
inline void check_parameter(argument one, const char* names, double value, bool in_range,
                            const char* expected, const const_vector_ref& values,
                            std::int64_t rows) {
  if (values.data == nullptr && values.size == 0) {
    if (!in_range) {
      fail(errc::invalid_argument, one, "", text_of(value), expected);
    }
    return;
  }
  if (values.type != dtype::f32 && values.type != dtype::f64) {
    fail(errc::unsupported_type, {one.function, names}, ".type", name_of(values.type),
         "f32 or f64");
  }
  check_vector({one.function, names}, values.data, values.type, values.size, rows);
}

inline void check_integers(argument arg, const const_vector_ref& values, bool wide_only,
                           std::int64_t rows) {
  if (values.data == nullptr && values.size == 0) {
    return;
  }
  if (values.type != dtype::i64 && (wide_only || values.type != dtype::i32)) {
    fail(errc::unsupported_type, arg, ".type", name_of(values.type),
         wide_only ? "i64" : "i32 or i64");
  }
  check_vector(arg, values.data, values.type, values.size, rows);
}

/// The parameters of sample() or of a part of its rows.
template <class Options>
void check_sample_parameters(const char* function, const Options& o, dtype computed,
                             std::int64_t rows) {
  const bool cold_enough =
      o.temperature == 0 ||
      (computed == dtype::f64 ? std::isfinite(sampling::scale_of<double>(o.temperature))
                              : std::isfinite(sampling::scale_of<float>(o.temperature)));
  check_parameter({function, "temperature"}, "temperatures", o.temperature,
                  o.temperature >= 0 && std::isfinite(o.temperature) && cold_enough,
                  "0, or a finite number above it whose inverse is finite in the arithmetic",
                  o.temperatures, rows);
  check_parameter({function, "top_p"}, "top_ps", o.top_p, o.top_p >= 0 && o.top_p <= 1, "0 to 1",
                  o.top_ps, rows);
  check_parameter({function, "min_p"}, "min_ps", o.min_p, o.min_p >= 0 && o.min_p <= 1, "0 to 1",
                  o.min_ps, rows);
  if (o.top_ks.data == nullptr && o.top_ks.size == 0 && o.top_k < 0) {
    fail(errc::invalid_argument, {function, "top_k"}, "", std::to_string(o.top_k), "0 or more");
  }
  check_integers({function, "top_ks"}, o.top_ks, false, rows);
  check_integers({function, "seeds"}, o.seeds, true, rows);
  check_integers({function, "offsets"}, o.offsets, true, rows);
}

/// body(name, column) for each vector of parameters, a column of none if it is not given.
template <class Options, class Body>
void each_parameter_vector(const Options& o, const Body& body) {
  const auto column = [](const const_vector_ref& v) -> const_matrix_ref {
    return {v.data, v.type, v.data == nullptr ? 0 : v.size, 1, 1};
  };
  body("temperatures", column(o.temperatures));
  body("top_ks", column(o.top_ks));
  body("top_ps", column(o.top_ps));
  body("min_ps", column(o.min_ps));
  body("seeds", column(o.seeds));
  body("offsets", column(o.offsets));
}

/// `x_name`: what the entry point calls the rows. `also_read`, `also_written`: of its other
/// arguments.
inline sample_problem checked_sample(const char* name, const char* x_name,
                                     const const_matrix_ref& x, const matrix_ref& tokens,
                                     const sample_options& o, const operand& also_read = {"", {}},
                                     const operand& also_written = {"", {}}) {
  check_input({name, x_name}, x);
  check_index_rows({name, "tokens"}, tokens, x.rows);
  if (tokens.cols > sampling::most_draws) {
    fail(errc::invalid_argument, {name, "tokens"}, ".cols (draws)", std::to_string(tokens.cols),
         "at most 2^21");
  }
  check_matrix({name, "tokens"}, tokens);
  if (x.cols > sampling::most_columns) {
    fail(errc::invalid_argument, {name, x_name}, ".cols", std::to_string(x.cols), "at most 2^42");
  }
  constexpr std::int64_t most_in_32_bits = std::numeric_limits<std::int32_t>::max();
  const auto check_wide = [&](const char* argument_name, dtype type) {
    if (type == dtype::i32 && x.cols > most_in_32_bits) {
      fail(errc::unsupported_type, {name, argument_name}, ".type", "i32",
           "i64 for x.cols = " + std::to_string(x.cols));
    }
  };
  check_wide("tokens", tokens.type);
  check_sample_parameters(name, o, arithmetic_type(x.type), x.rows);
  if (o.order != filter_order::top_k_first && o.order != filter_order::joint) {
    fail(errc::invalid_argument, {name, "order"}, "", std::to_string(static_cast<int>(o.order)),
         "filter_order::top_k_first or filter_order::joint");
  }

  const auto check_drawn = [&](const char* output, const matrix_ref& m) {
    if (m.data != nullptr) {
      check_output({name, output}, m, x.rows, tokens.cols, x.type);
    }
  };
  check_drawn("log_probability", o.log_probability);
  check_drawn("raw_log_probability", o.raw_log_probability);
  const auto check_number = [&](const char* output, const vector_ref& v) -> const_matrix_ref {
    if (v.data == nullptr) {
      return {};
    }
    check_output_type({name, output}, v.type, x.type);
    return check_vector({name, output}, v.data, v.type, v.size, x.rows);
  };
  const const_matrix_ref lse = check_number("lse", o.lse);
  const const_matrix_ref kept_mass = check_number("kept_mass", o.kept_mass);
  const_matrix_ref kept;
  if (o.kept.data != nullptr) {
    check_index_type({name, "kept"}, o.kept.type);
    check_wide("kept", o.kept.type);
    kept = check_vector({name, "kept"}, o.kept.data, o.kept.type, o.kept.size, x.rows);
  }
  if ((o.top_indices.data != nullptr) != (o.top_log_probabilities.data != nullptr)) {
    fail(errc::invalid_argument,
         {name, o.top_indices.data == nullptr ? "top_indices" : "top_log_probabilities"}, ".data",
         "null", "a pointer, as the other of the two has one");
  }
  if (o.top_indices.data != nullptr) {
    check_indices({name, "top_indices"}, o.top_indices, x);
    check_output({name, "top_log_probabilities"}, o.top_log_probabilities, x.rows,
                 o.top_indices.cols, x.type);
  }
  const auto if_wanted = [](const matrix_ref& m) { return m.data != nullptr ? m : matrix_ref{}; };
  const std::initializer_list<operand> outputs = {
      {"tokens", tokens},
      {"log_probability", if_wanted(o.log_probability)},
      {"raw_log_probability", if_wanted(o.raw_log_probability)},
      {"lse", lse},
      {"kept", kept},
      {"kept_mass", kept_mass},
      {"top_indices", if_wanted(o.top_indices)},
      {"top_log_probabilities", if_wanted(o.top_log_probabilities)},
      also_written};
  const auto check_apart = [&](const char* input, const const_matrix_ref& m) {
    check_overlap(name, {input, m}, outputs, false);
  };
  check_apart(x_name, x);
  check_apart(also_read.name, also_read.matrix);
  each_parameter_vector(o, check_apart);
  return {x, tokens, o, checked_edits(name, o.edits, x, outputs)};
}

}  // namespace softfold::core

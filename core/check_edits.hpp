// SPDX-License-Identifier: Apache-2.0
/// \file
/// Argument checks of row_edits.
#pragma once

#include <core/check.hpp>
#include <core/edits.hpp>

#include <softfold/row_edits.hpp>

#include <initializer_list>
#include <string>

namespace softfold::core {

/// The edits of rows of x, none of whose memory is written to: that is, of `outputs`.
class edits_check {
 public:
  edits_check(const char* function, const row_edits& given, const const_matrix_ref& x,
              std::initializer_list<operand> outputs)
      : function_(function), given_(given), x_(x), outputs_(outputs) {}

  [[nodiscard]] edits checked() {
    bias();
    penalties();
    softcap();
    mask();
    lengths();
    corner();
    return result_;
  }

 private:
  [[nodiscard]] argument named(const char* name) const { return {function_, name}; }

  void check_separate(const char* name, const const_matrix_ref& m) const {
    check_overlap(function_, {name, m}, outputs_, false);
  }

  /// A matrix of as many rows as x, or of one for all.
  [[nodiscard]] edits::matrix matrix(const char* name, const const_matrix_ref& m,
                                     std::int64_t cols) const {
    if (m.rows != 1 && m.rows != x_.rows) {
      fail(errc::invalid_argument, named(name), ".rows", std::to_string(m.rows),
           "1 or x.rows = " + std::to_string(x_.rows));
    }
    check_shape(named(name), m, m.rows, cols);
    check_matrix(named(name), m);
    check_separate(name, m);
    return {m.data, m.rows == 1 ? 0 : m.stride, m.type};
  }

  /// A vector of so many values.
  void check_values(const char* name, const const_vector_ref& v, std::int64_t size) const {
    check_separate(name, check_vector(named(name), v.data, v.type, v.size, size));
  }

  /// A null pointer with sizes is an error, of the checks that follow.
  static bool is_given(const const_matrix_ref& m) {
    return m.data != nullptr || m.rows != 0 || m.cols != 0;
  }
  static bool is_given(const const_vector_ref& v) { return v.data != nullptr || v.size != 0; }

  void bias() {
    const const_matrix_ref& m = given_.bias;
    if (!is_given(m)) {
      return;
    }
    if (!is_real(m.type)) {
      fail(errc::unsupported_type, named("edits.bias"), ".type", name_of(m.type),
           "f32, f64, f16 or bf16");
    }
    result_.bias = matrix("edits.bias", m, x_.cols);
  }

  /// One number for each row, or one for all.
  [[nodiscard]] edits::vector numbers(const char* name, const const_vector_ref& v) const {
    if (!is_given(v)) {
      return {};
    }
    if (v.type != dtype::f32 && v.type != dtype::f64) {
      fail(errc::unsupported_type, named(name), ".type", name_of(v.type), "f32 or f64");
    }
    check_values(name, v, v.size == 1 ? 1 : x_.rows);
    return {v.data, v.size == 1 ? 0 : 1, v.type};
  }

  void penalties() {
    const const_vector_ref& rows = given_.penalty_rows;
    result_.repetition = numbers("edits.repetition", given_.repetition);
    result_.frequency = numbers("edits.frequency", given_.frequency);
    result_.presence = numbers("edits.presence", given_.presence);
    if (!is_given(rows)) {
      return;
    }
    const auto check_type = [&](const char* name, dtype found, dtype expected) {
      if (found != expected) {
        fail(errc::unsupported_type, named(name), ".type", name_of(found), name_of(expected));
      }
    };
    check_type("edits.penalty_rows", rows.type, dtype::i64);
    if (rows.size < 1 || rows.size - 1 != x_.rows) {
      fail(errc::invalid_argument, named("edits.penalty_rows"), ".size", std::to_string(rows.size),
           "x.rows + 1 for x.rows = " + std::to_string(x_.rows));
    }
    check_values("edits.penalty_rows", rows, rows.size);
    const const_vector_ref& columns = given_.penalty_columns;
    check_index_type(named("edits.penalty_columns"), columns.type);
    check_values("edits.penalty_columns", columns, columns.size);
    const const_vector_ref& counts = given_.penalty_counts;
    check_type("edits.penalty_counts", counts.type, dtype::i32);
    check_values("edits.penalty_counts", counts, columns.size);
    result_.penalty_rows = static_cast<const std::int64_t*>(rows.data);
    result_.penalty_columns = {columns.data, 1, columns.type};
    result_.penalty_counts = static_cast<const std::int32_t*>(counts.data);
    result_.penalties = columns.size;
  }

  void softcap() {
    const double used = arithmetic_type(x_.type) == dtype::f64
                            ? given_.softcap
                            : static_cast<double>(static_cast<float>(given_.softcap));
    if (!std::isfinite(used) || used < 0) {
      fail(errc::invalid_argument, named("edits.softcap"), "", text_of(given_.softcap),
           std::string("0 or more, finite as ") + name_of(arithmetic_type(x_.type)));
    }
    result_.softcap = used;
  }

  void mask() {
    const const_matrix_ref& m = given_.mask;
    if (!is_given(m)) {
      return;
    }
    if (m.type != dtype::i32 && m.type != dtype::u8) {
      fail(errc::unsupported_type, named("edits.mask"), ".type", name_of(m.type),
           "i32 for bits or u8 for bytes");
    }
    result_.mask =
        matrix("edits.mask", m, m.type == dtype::u8 ? x_.cols : x_.cols / 32 + (x_.cols % 32 > 0));
  }

  void lengths() {
    const const_vector_ref& v = given_.lengths;
    if (!is_given(v)) {
      return;
    }
    check_index_type(named("edits.lengths"), v.type);
    check_values("edits.lengths", v, x_.rows);
    result_.lengths = {v.data, 1, v.type};
  }

  void corner() {
    const causal corner = given_.corner;
    if (corner != causal::none && corner != causal::top_left && corner != causal::bottom_right) {
      fail(errc::invalid_argument, named("edits.corner"), "",
           std::to_string(static_cast<int>(corner)),
           "causal::none, causal::top_left or causal::bottom_right");
    }
    if (given_.window < 0) {
      fail(errc::invalid_argument, named("edits.window"), "", std::to_string(given_.window),
           "0 or more");
    }
    if (corner == causal::none) {
      if (given_.window > 0) {
        fail(errc::invalid_argument, named("edits.window"), "", std::to_string(given_.window),
             "0 without a causal corner");
      }
      return;
    }
    if (given_.queries < 1 || x_.rows % given_.queries != 0) {
      fail(errc::invalid_argument, named("edits.queries"), "", std::to_string(given_.queries),
           "1 or more, a divisor of x.rows = " + std::to_string(x_.rows));
    }
    result_.corner = corner;
    result_.queries = given_.queries;
    result_.window = given_.window;
  }

  const char* function_;
  const row_edits& given_;
  const const_matrix_ref& x_;
  std::initializer_list<operand> outputs_;
  edits result_;
};

inline edits checked_edits(const char* function, const row_edits& given, const const_matrix_ref& x,
                           std::initializer_list<operand> outputs) {
  return edits_check(function, given, x, outputs).checked();
}

/// Those of a function whose input is a result: what changed values then has no place here.
inline edits checked_removals(const char* function, const row_edits& given,
                              const const_matrix_ref& x, std::initializer_list<operand> outputs) {
  const auto refuse = [&](bool is_there, const char* name) {
    if (is_there) {
      fail(errc::invalid_argument, {function, name}, "", "given",
           "nothing: the gradient of values that were changed needs them");
    }
  };
  refuse(given.penalty_rows.data != nullptr, "edits.penalty_rows");
  refuse(given.softcap != 0, "edits.softcap");
  return checked_edits(function, given, x, outputs);
}

}  // namespace softfold::core

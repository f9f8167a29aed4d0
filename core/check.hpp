// SPDX-License-Identifier: Apache-2.0
/// \file
/// Argument checks: the first step of every entry point of every backend. Each throws
/// softfold::error naming the function, the argument, its value and what was expected.
#pragma once

#include <core/real_types.hpp>

#include <softfold/softfold.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <string>

namespace softfold::core {

/// A named argument of a named function, for the error text.
struct argument {
  const char* function;
  const char* name;
};

[[noreturn]] inline void fail(errc code, argument arg, const std::string& property,
                              const std::string& value, const std::string& expected) {
  throw error(code, std::string(arg.function) + ": " + arg.name + property + " is " + value +
                        ", expected " + expected);
}

/// A number as it was given: std::to_string has six decimals only.
inline std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

/// rows * cols elements of `size` bytes: that their bytes can be counted.
inline void check_sizes(argument arg, std::int64_t rows, std::int64_t cols, std::int64_t size) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(rows, cols, &bytes) || __builtin_mul_overflow(bytes, size, &bytes)) {
    fail(errc::invalid_argument, arg, "",
         std::to_string(rows) + " x " + std::to_string(cols) + " elements", "less than 2^63 bytes");
  }
}

/// Bytes from the first to past the last element of a matrix; 0 if it has none.
/// Checks sizes, stride, pointer and alignment on the way.
inline std::int64_t check_matrix(argument arg, const const_matrix_ref& m) {
  const auto invalid = [&](const char* property, const std::string& value, const char* expected) {
    fail(errc::invalid_argument, arg, property, value, expected);
  };
  if (m.rows < 0) {
    invalid(".rows", std::to_string(m.rows), "0 or more");
  }
  if (m.cols < 0) {
    invalid(".cols", std::to_string(m.cols), "0 or more");
  }
  if (m.stride < m.cols) {
    fail(errc::invalid_argument, arg, ".stride", std::to_string(m.stride),
         "at least cols = " + std::to_string(m.cols));
  }
  if (m.rows == 0 || m.cols == 0) {
    return 0;
  }
  const auto size = static_cast<std::int64_t>(size_of(m.type));
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(m.rows - 1, m.stride, &elements) ||
      __builtin_add_overflow(elements, m.cols, &elements) ||
      __builtin_mul_overflow(elements, size, &bytes)) {
    invalid("", std::to_string(m.rows) + " x " + std::to_string(m.stride) + " elements",
            "less than 2^63 bytes");
  }
  if (m.data == nullptr) {
    invalid(".data", "null", "a pointer");
  }
  if (reinterpret_cast<std::uintptr_t>(m.data) % static_cast<std::uintptr_t>(size) != 0) {
    fail(errc::invalid_argument, arg, ".data",
         std::to_string(reinterpret_cast<std::uintptr_t>(m.data)),
         "a multiple of the element size " + std::to_string(size));
  }
  return bytes;
}

inline bool is_real(dtype type) {
  return type == dtype::f32 || type == dtype::f64 || type == dtype::f16 || type == dtype::bf16;
}

/// An input: a real element type.
inline std::int64_t check_input(argument arg, const const_matrix_ref& x) {
  if (!is_real(x.type)) {
    fail(errc::unsupported_type, arg, ".type", name_of(x.type), "f32, f64, f16 or bf16");
  }
  return check_matrix(arg, x);
}

/// An output's type: the input's, or the arithmetic's.
inline void check_output_type(argument arg, dtype output, dtype input) {
  if (output != input && output != arithmetic_type(input)) {
    const std::string expected = input == dtype::f64 || input == dtype::f32
                                     ? std::string(name_of(input))
                                     : std::string(name_of(input)) + " or f32";
    fail(errc::unsupported_type, arg, ".type", name_of(output),
         expected + " for " + name_of(input) + " input");
  }
}

/// The shape of another argument.
inline void check_shape(argument arg, const const_matrix_ref& m, std::int64_t rows,
                        std::int64_t cols) {
  if (m.rows != rows) {
    fail(errc::invalid_argument, arg, ".rows", std::to_string(m.rows), std::to_string(rows));
  }
  if (m.cols != cols) {
    fail(errc::invalid_argument, arg, ".cols", std::to_string(m.cols), std::to_string(cols));
  }
}

/// A matrix output of a given shape.
inline std::int64_t check_output(argument arg, const matrix_ref& y, std::int64_t rows,
                                 std::int64_t cols, dtype input) {
  check_output_type(arg, y.type, input);
  check_shape(arg, y, rows, cols);
  return check_matrix(arg, y);
}

/// A vector with one value for each row: a one-column matrix. Returns its view as such.
inline const_matrix_ref check_vector(argument arg, const void* data, dtype type, std::int64_t size,
                                     std::int64_t rows) {
  if (size != rows) {
    fail(errc::invalid_argument, arg, ".size", std::to_string(size), std::to_string(rows));
  }
  const const_matrix_ref column{data, type, rows, 1, 1};
  check_matrix(arg, column);
  return column;
}

/// A type that row states come in.
inline void check_state_type(argument arg, dtype type) {
  if (type != dtype::f32 && type != dtype::f64) {
    fail(errc::unsupported_type, arg, ".type", name_of(type), "f32 or f64 states");
  }
}

/// Row states as a matrix, for the overlap check; of none if there are none.
inline const_matrix_ref states_matrix(const const_partials_ref& p) {
  const dtype member = p.sum == sum_kind::exact ? dtype::i64 : p.type;
  const auto members = static_cast<std::int64_t>(size_of_state(p.type, p.sum) / size_of(member));
  return {p.data, member, p.data == nullptr ? 0 : p.size, members, members};
}

/// Row states of f32 or f64, with either sum. Returns their view as a matrix.
inline const_matrix_ref check_partials(argument arg, const const_partials_ref& p, std::int64_t rows,
                                       dtype arithmetic) {
  if (p.type != arithmetic) {
    fail(errc::unsupported_type, arg, ".type", name_of(p.type),
         std::string(name_of(arithmetic)) + " states");
  }
  if (p.sum != sum_kind::rounded && p.sum != sum_kind::exact) {
    fail(errc::invalid_argument, arg, ".sum", std::to_string(static_cast<int>(p.sum)),
         "sum_kind::rounded or sum_kind::exact");
  }
  if (p.size != rows) {
    fail(errc::invalid_argument, arg, ".size", std::to_string(p.size), std::to_string(rows));
  }
  const_matrix_ref all = states_matrix(p);
  all.rows = rows;
  check_matrix(arg, all);
  return states_matrix(p);
}

/// The same of functions that take max_sum alone.
inline const_matrix_ref check_rounded_partials(argument arg, const const_partials_ref& p,
                                               std::int64_t rows, dtype arithmetic) {
  if (p.sum == sum_kind::exact) {
    fail(errc::unsupported_type, arg, ".sum", "exact", "rounded: states of max_sum");
  }
  return check_partials(arg, p, rows, arithmetic);
}

/// The scale as the arithmetic uses it.
inline double check_scale(const char* function, double scale, dtype input) {
  const double used =
      arithmetic_type(input) == dtype::f64 ? scale : static_cast<double>(static_cast<float>(scale));
  if (!std::isfinite(used)) {
    fail(errc::invalid_argument, {function, "scale"}, "", text_of(scale),
         std::string("finite as ") + name_of(arithmetic_type(input)));
  }
  return used;
}

inline void check_empty_row(const char* function, empty_row policy) {
  if (policy != empty_row::nan && policy != empty_row::zero) {
    fail(errc::invalid_argument, {function, "empty_row"}, "",
         std::to_string(static_cast<int>(policy)), "empty_row::nan or empty_row::zero");
  }
}

inline void check_index_type(argument arg, dtype type) {
  if (type != dtype::i32 && type != dtype::i64) {
    fail(errc::unsupported_type, arg, ".type", name_of(type), "i32 or i64");
  }
}

/// Indices of rows of x: i32 or i64, as many rows as x.
inline void check_index_rows(argument arg, const matrix_ref& indices, std::int64_t rows) {
  check_index_type(arg, indices.type);
  if (indices.rows != rows) {
    fail(errc::invalid_argument, arg, ".rows", std::to_string(indices.rows), std::to_string(rows));
  }
}

/// Indices of a top-k: i32 or i64, [rows, k] with k <= cols, wide enough for cols.
inline std::int64_t check_indices(argument arg, const matrix_ref& indices,
                                  const const_matrix_ref& x) {
  check_index_rows(arg, indices, x.rows);
  if (indices.cols < 0 || indices.cols > x.cols) {
    fail(errc::invalid_argument, arg, ".cols (k)", std::to_string(indices.cols),
         "0 to x.cols = " + std::to_string(x.cols));
  }
  if (indices.type == dtype::i32 && x.cols > std::numeric_limits<std::int32_t>::max()) {
    fail(errc::unsupported_type, arg, ".type", "i32", "i64 for x.cols = " + std::to_string(x.cols));
  }
  return check_matrix(arg, indices);
}

/// Whether two matrices share a byte. Rows of equal stride may interleave without sharing any.
inline bool overlaps(const const_matrix_ref& a, const const_matrix_ref& b) {
  const auto bytes = [](const const_matrix_ref& m, std::int64_t elements) {
    return static_cast<std::uint64_t>(elements) * size_of(m.type);
  };
  if (a.rows == 0 || a.cols == 0 || b.rows == 0 || b.cols == 0) {
    return false;
  }
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a.data);
  const auto begin_b = reinterpret_cast<std::uintptr_t>(b.data);
  const auto end_a = begin_a + bytes(a, (a.rows - 1) * a.stride + a.cols);
  const auto end_b = begin_b + bytes(b, (b.rows - 1) * b.stride + b.cols);
  if (end_a <= begin_b || end_b <= begin_a) {
    return false;
  }
  if (a.rows == 1 && b.rows == 1) {
    return true;
  }
  // A single row lies in the other's grid of rows, whatever its own stride says.
  const std::uint64_t step = a.rows > 1 ? bytes(a, a.stride) : bytes(b, b.stride);
  if (b.rows > 1 && step != bytes(b, b.stride)) {
    return true;
  }
  const std::uint64_t offset =
      begin_b >= begin_a ? (begin_b - begin_a) % step : (step - (begin_a - begin_b) % step) % step;
  return offset < bytes(a, a.cols) || offset + bytes(b, b.cols) > step;
}

/// Whether y is x itself: in-place operation. The stride of a single row does not matter.
inline bool same_matrix(const const_matrix_ref& x, const const_matrix_ref& y) {
  return x.data == y.data && size_of(x.type) == size_of(y.type) && x.cols == y.cols &&
         x.rows == y.rows && (x.stride == y.stride || x.rows <= 1);
}

/// A checked argument, for the overlap check.
struct operand {
  const char* name;
  const_matrix_ref matrix;
};

/// No output may share memory with another output or with the input; with `in_place`, an output
/// may be the input itself.
inline void check_overlap(const char* function, const operand& input,
                          std::initializer_list<operand> outputs, bool in_place) {
  const auto fail_overlap = [&](const operand& a, const operand& b) {
    throw error(errc::invalid_argument,
                std::string(function) + ": " + a.name + " overlaps " + b.name + ", expected " +
                    (in_place ? "separate memory or exactly the same matrix" : "separate memory"));
  };
  for (const operand* a = outputs.begin(); a != outputs.end(); ++a) {
    if (overlaps(input.matrix, a->matrix) && !(in_place && same_matrix(input.matrix, a->matrix))) {
      fail_overlap(*a, input);
    }
    for (const operand* b = outputs.begin(); b != a; ++b) {
      if (overlaps(a->matrix, b->matrix)) {
        fail_overlap(*a, *b);
      }
    }
  }
}

/// A copy between the host's memory and a buffer's.
inline void check_buffer_copy(const char* function, const void* host, std::size_t bytes,
                              std::size_t offset, std::size_t size) {
  if (offset > size || bytes > size - offset) {
    fail(errc::invalid_argument, {function, "offset + bytes"}, "",
         std::to_string(offset) + " + " + std::to_string(bytes),
         "at most the buffer's size " + std::to_string(size));
  }
  if (bytes > 0 && host == nullptr) {
    fail(errc::invalid_argument, {function, "the host's pointer"}, "", "null", "a pointer");
  }
}

}  // namespace softfold::core

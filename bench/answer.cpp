// SPDX-License-Identifier: Apache-2.0
#include "answer.hpp"

#include "buffer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace softfold::bench {
namespace {

matrix_ref output_of(const workload& w) {
  if (w.spec.writes_matrix() || w.spec.is_attention()) {
    return w.y;
  }
  if (w.spec.draws()) {
    return w.indices;
  }
  return w.spec.op == operation::logsumexp ? matrix_ref{w.lse.data, w.lse.type, w.lse.size, 1, 1}
                                           : w.values;
}

std::array<std::int64_t, 3> some_rows(const matrix_ref& m) { return {0, m.rows / 2, m.rows - 1}; }

std::byte* row_of(const matrix_ref& m, std::int64_t r) {
  return static_cast<std::byte*>(m.data) + static_cast<std::size_t>(r * m.stride) * size_of(m.type);
}

template <class T>
double element_at(const std::vector<std::byte>& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  if constexpr (sizeof(T) == 2) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

double element_at(const std::vector<std::byte>& bytes, dtype type, std::size_t i) {
  switch (type) {
    case dtype::f32:
      return element_at<float>(bytes, i);
    case dtype::f64:
      return element_at<double>(bytes, i);
    case dtype::f16:
      return element_at<half>(bytes, i);
    case dtype::bf16:
      return element_at<bfloat16>(bytes, i);
    case dtype::i64:
      return element_at<std::int64_t>(bytes, i);
    default:
      throw std::invalid_argument("output of integers");
  }
}

bool agree(double a, double b, double least) {
  return std::abs(a - b) <= least + 0.02 * std::abs(b);
}

}  // namespace

void spoil_answer(const workload& w) {
  const matrix_ref out = output_of(w);
  for (const std::int64_t r : some_rows(out)) {
    spoil_memory(row_of(out, r), static_cast<std::size_t>(out.cols) * size_of(out.type));
  }
}

std::vector<double> read_answer(const workload& w) {
  const matrix_ref out = output_of(w);
  const auto cols = static_cast<std::size_t>(out.cols);
  std::vector<std::byte> row(cols * size_of(out.type));
  std::vector<double> answer;
  for (const std::int64_t r : some_rows(out)) {
    read_memory(row_of(out, r), row.size(), row.data());
    for (std::size_t i = 0; i < cols; ++i) {
      answer.push_back(element_at(row, out.type, i));
    }
  }
  return answer;
}

void check_answer(const workload& w, const std::string& contender,
                  const std::vector<double>& answer, const std::vector<double>& expected) {
  if (w.spec.draws()) {  // no two libraries draw the same
    for (const double column : answer) {
      if (!(column >= 0 && column < static_cast<double>(w.spec.cols))) {
        throw std::runtime_error(name_of(w.spec) + ": " + contender + " draws " +
                                 std::to_string(column));
      }
    }
    return;
  }
  double least = 1e-6;
  // A difference, or a sum of both signs, whose error is a part of what it is of.
  const double part = w.spec.is_gradient() ? 1e-5 : w.spec.is_attention() ? 1e-2 : 0;
  for (const double value : expected) {
    least = std::max(least, part * std::abs(value));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!agree(answer[i], expected[i], least)) {
      throw std::runtime_error(name_of(w.spec) + ": " + contender + " gives " +
                               std::to_string(answer[i]) + " where softfold gives " +
                               std::to_string(expected[i]));
    }
  }
}

}  // namespace softfold::bench

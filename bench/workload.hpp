// SPDX-License-Identifier: Apache-2.0
/// \file
/// A case with its memory.
#pragma once

#include "buffer.hpp"
#include "case.hpp"
#include "input.hpp"

#include <softfold/matrix_view.hpp>

#include <cstdint>
#include <string>

namespace softfold::bench {

/// What a contender is given. All outputs are there whatever the operation, but for y, which
/// is empty unless the operation writes a matrix or is attention.
struct workload {
  bench_case spec;
  const_matrix_ref x;   ///< the gradients' y: any numbers, which cost the same; attention's Q, K, V
  const_matrix_ref dy;  ///< empty unless the operation is a gradient; behind x
  const_matrix_ref mask;  ///< of bits; empty unless the operation has one
  vector_ref starts;      ///< of packed sequences: where keys begin, then where queries do
  matrix_ref y;           ///< of x's shape; of attention [query_rows, dim]
  vector_ref lse;         ///< [rows], f32 (f64 for f64 input)
  matrix_ref values;      ///< [rows, k], type of the input
  matrix_ref indices;     ///< [rows, k], i64
};

/// Makes workloads, one at a time, in memory that it keeps: the next one invalidates the last.
class workspace {
 public:
  explicit workspace(std::string logits_path) : logits_path_(std::move(logits_path)) {}

  [[nodiscard]] workload prepare(const bench_case& c);

 private:
  std::string logits_path_;
  logits_table logits_;
  bench_case held_;  // what x_ holds
  buffer x_, y_, mask_, starts_, lse_, values_, indices_;
};

}  // namespace softfold::bench

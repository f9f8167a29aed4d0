// SPDX-License-Identifier: Apache-2.0
/// \file
/// The elements of a case's input.
#pragma once

#include "case.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace softfold::bench {

/// Logits of a language model, [rows, cols].
struct logits_table {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> values = {};
};

/// Reads a two-dimensional .npy file of float16 or float32. Throws std::runtime_error with the
/// file's name if it cannot.
[[nodiscard]] logits_table read_logits(const std::string& path);

/// Writes the input of `c`, c.input_bytes() bytes. Rows differ from each other: a processor
/// learns the branches of a row that it sees again and again. `logits` is read for
/// distribution::logits only.
void write_input(const bench_case& c, const logits_table& logits, std::byte* out);

}  // namespace softfold::bench

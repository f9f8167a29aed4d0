// SPDX-License-Identifier: Apache-2.0
/// \file
/// Prints the result of top-k, row by row, as it is made.
#pragma once

#include "labels.hpp"

#include <CLI/CLI.hpp>

#include <softfold/matrix_view.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace softfold::tool {

enum class table_format { table, csv, json };

/// --labels, --row-labels and --format.
void add_list_options(CLI::App& command, std::string& labels, std::string& row_labels,
                      std::optional<table_format>& format);

class table {
 public:
  /// Writes to standard output.
  explicit table(table_format format) : format_(format) {}

  void set_labels(std::vector<std::string> labels) { labels_ = std::move(labels); }
  void set_row_labels(row_labels labels) { row_labels_.emplace(std::move(labels)); }

  /// What comes before the first row; whether rows have logits, and a logsumexp.
  void begin(bool with_logits, bool with_lse = false);
  /// Prints a block of rows. probabilities, logits and logsumexps (no data: none) are f32 or f64,
  /// indices i64.
  void print(const_matrix_ref probabilities, const_matrix_ref indices, const_matrix_ref logits,
             const_matrix_ref lse = {});
  /// What comes after the last row. Throws failure if not everything could be written.
  void end();

 private:
  struct entry {
    std::int64_t index;
    const std::string* label;  // null: none
    double probability;
    double logit;
  };

  void print_table(const std::vector<entry>& entries);
  void print_csv(const std::vector<entry>& entries);
  void print_json(const std::vector<entry>& entries);
  void append_number(double value);
  void flush();

  table_format format_;
  std::vector<std::string> labels_;
  std::optional<row_labels> row_labels_;
  bool logits_ = false;
  bool with_lse_ = false;
  double lse_ = 0;
  bool wide_ = false;  // whether numbers are printed with the digits of a double
  std::int64_t row_ = 0;
  std::string row_label_;
  std::string text_;  // not yet written
};

}  // namespace softfold::tool

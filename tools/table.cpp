// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include "commands.hpp"
#include "standard_output.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace softfold::tool {
namespace {

double number_at(const_matrix_ref m, std::int64_t row, std::int64_t col) {
  const std::int64_t i = row * m.stride + col;
  return m.type == dtype::f64 ? static_cast<const double*>(m.data)[i]
                              : double{static_cast<const float*>(m.data)[i]};
}

/// Columns that UTF-8 text occupies, one for each character.
std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

template <class... Values>
void append_formatted(std::string& text, const char* format, Values... values) {
  char buffer[64];
  const int size = std::snprintf(buffer, sizeof buffer, format, values...);
  text.append(buffer, static_cast<std::size_t>(size));
}

/// A CSV field; `json` is the inside of a JSON string.
std::string csv_field(const std::string& json) {
  std::string field = "\"";
  for (const char c : json) {
    field += c;
    if (c == '"') {
      field += '"';
    }
  }
  return field + '"';
}

}  // namespace

void add_list_options(CLI::App& command, std::string& labels, std::string& row_labels,
                      std::optional<table_format>& format) {
  command
      .add_option("--labels", labels,
                  "Print texts for the indices: line i of FILE, escaped as in JSON, is that of "
                  "column i")
      ->type_name("FILE");
  command
      .add_option("--row-labels", row_labels,
                  "Print texts for the rows: line i of FILE is that of row i")
      ->type_name("FILE");
  add_choice(
      command, "--format", format,
      {{"table", table_format::table}, {"csv", table_format::csv}, {"json", table_format::json}},
      "Print a table (default), CSV or JSON");
}

void table::begin(bool with_logits, bool with_lse) {
  logits_ = with_logits;
  with_lse_ = with_lse;
  if (format_ == table_format::csv) {
    text_ += "row,";
    text_ += row_labels_ ? "row_label," : "";
    text_ += "rank,index,";
    text_ += labels_.empty() ? "" : "label,";
    text_ += "probability";
    text_ += with_logits ? ",logit" : "";
    text_ += with_lse ? ",logsumexp\n" : "\n";
  } else if (format_ == table_format::json) {
    text_ += "[";
  }
}

void table::print(const_matrix_ref probabilities, const_matrix_ref indices, const_matrix_ref logits,
                  const_matrix_ref lse) {
  wide_ = probabilities.type == dtype::f64;
  std::vector<entry> entries(static_cast<std::size_t>(indices.cols));
  for (std::int64_t r = 0; r < indices.rows; ++r, ++row_) {
    for (std::int64_t j = 0; j < indices.cols; ++j) {
      const std::int64_t index =
          static_cast<const std::int64_t*>(indices.data)[r * indices.stride + j];
      const auto i = static_cast<std::size_t>(index);
      entries[static_cast<std::size_t>(j)] = {index, i < labels_.size() ? &labels_[i] : nullptr,
                                              number_at(probabilities, r, j),
                                              logits_ ? number_at(logits, r, j) : 0};
    }
    if (row_labels_) {
      row_label_ = row_labels_->next();
    }
    lse_ = with_lse_ ? number_at(lse, r, 0) : 0;
    switch (format_) {
      case table_format::table:
        print_table(entries);
        break;
      case table_format::csv:
        print_csv(entries);
        break;
      case table_format::json:
        print_json(entries);
        break;
    }
    if (text_.size() > (std::size_t{1} << 16)) {
      flush();
    }
  }
}

void table::end() {
  if (format_ == table_format::json) {
    text_ += row_ == 0 ? "]\n" : "\n]\n";
  }
  flush();
  close_standard_output();
}

void table::print_table(const std::vector<entry>& entries) {
  text_ += row_labels_ ? '"' + row_label_ + '"' : "row " + std::to_string(row_);
  if (with_lse_) {
    append_formatted(text_, "   logsumexp %g", std::isnan(lse_) ? std::fabs(lse_) : lse_);
  }
  text_ += '\n';
  std::size_t label_width = 0;
  int index_width = 0;
  for (const entry& e : entries) {
    label_width = std::max(label_width, e.label != nullptr ? display_width(*e.label) : 0);
    index_width = std::max(index_width, static_cast<int>(std::to_string(e.index).size()));
  }
  for (const entry& e : entries) {
    text_ += "  ";
    if (!labels_.empty()) {
      const std::size_t width = e.label != nullptr ? display_width(*e.label) + 2 : 0;
      text_ += e.label != nullptr ? '"' + *e.label + '"' : std::string();
      text_.append(label_width + 4 - width, ' ');
    }
    append_formatted(text_, e.probability < 1e-4 ? "%-9.2g" : "%-9.4f", e.probability);
    append_formatted(text_, "index %*lld", index_width, static_cast<long long>(e.index));
    if (logits_) {
      append_formatted(text_, "  logit %g", e.logit);
    }
    text_ += '\n';
  }
}

void table::print_csv(const std::vector<entry>& entries) {
  std::int64_t rank = 0;
  for (const entry& e : entries) {
    text_ += std::to_string(row_) + ',';
    if (row_labels_) {
      text_ += csv_field(row_label_) + ',';
    }
    text_ += std::to_string(++rank) + ',' + std::to_string(e.index) + ',';
    if (!labels_.empty()) {
      text_ += (e.label != nullptr ? csv_field(*e.label) : std::string()) + ',';
    }
    append_number(e.probability);
    if (logits_) {
      text_ += ',';
      append_number(e.logit);
    }
    if (with_lse_) {
      text_ += ',';
      append_number(lse_);
    }
    text_ += '\n';
  }
}

void table::print_json(const std::vector<entry>& entries) {
  text_ += row_ == 0 ? "\n" : ",\n";
  text_ += "{\"row\": " + std::to_string(row_);
  if (row_labels_) {
    text_ += ", \"label\": \"" + row_label_ + '"';
  }
  if (with_lse_) {
    text_ += ", \"logsumexp\": ";
    append_number(lse_);
  }
  text_ += ", \"top\": [";
  for (const entry& e : entries) {
    text_ += &e == entries.data() ? "\n  " : ",\n  ";
    text_ += "{\"index\": " + std::to_string(e.index);
    if (!labels_.empty()) {
      text_ += ", \"label\": " + (e.label != nullptr ? '"' + *e.label + '"' : "null");
    }
    text_ += ", \"probability\": ";
    append_number(e.probability);
    if (logits_) {
      text_ += ", \"logit\": ";
      append_number(e.logit);
    }
    text_ += '}';
  }
  text_ += "]}";
}

void table::append_number(double value) {
  if (format_ == table_format::json && !std::isfinite(value)) {
    text_ += "null";  // JSON has no word for it
    return;
  }
  if (std::isnan(value)) {
    text_ += "nan";  // whatever its sign
    return;
  }
  char buffer[32];
  const std::to_chars_result end =
      wide_ ? std::to_chars(buffer, buffer + sizeof buffer, value)
            : std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value));
  text_.append(buffer, end.ptr);
}

void table::flush() {
  softfold::tool::print(text_);
  text_.clear();
}

}  // namespace softfold::tool

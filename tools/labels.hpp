// SPDX-License-Identifier: Apache-2.0
/// \file
/// Texts that name columns and rows. All are kept as the inside of a JSON string: one line,
/// without control characters (printable.hpp), safe to print.
#pragma once

#include "input_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace softfold::tool {

/// `text` as the inside of a JSON string; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string json_escaped(const std::string& text);

/// The lines of a text file, one at a time.
class line_reader {
 public:
  /// Throws failure unless it is a regular file that can be read.
  explicit line_reader(const std::string& path);

  /// Reads the next line, without its end, into `line`; false after the last one.
  bool next(std::string& line);
  /// The next line is the first one again.
  void rewind();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  bool fill();

  std::string path_;
  input_file file_;
  std::string buffer_;        // what was read last
  std::size_t position_ = 0;  // of the first byte there that next() has not seen
};

/// The texts of the columns. Line i of the file is the text of column i, as the inside of a
/// JSON string. Throws failure if a line is not that, or if there are more lines than columns;
/// columns without a line (padding of a vocabulary) have no text.
[[nodiscard]] std::vector<std::string> read_column_labels(const std::string& path,
                                                          std::int64_t cols);

/// The texts of the rows, read as they are needed: line i is the plain text of row i.
class row_labels {
 public:
  /// Throws failure unless the file has a line for each row.
  row_labels(const std::string& path, std::int64_t rows);

  /// The next row's text.
  [[nodiscard]] std::string next();

 private:
  line_reader lines_;
};

}  // namespace softfold::tool

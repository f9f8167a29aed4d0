// SPDX-License-Identifier: Apache-2.0
#include "labels.hpp"

#include "failure.hpp"
#include "printable.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>

namespace softfold::tool {
namespace {

std::string count_text(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

std::string json_escaped(const std::string& text) {
  using handler = nlohmann::json::error_handler_t;
  const std::string json = nlohmann::json(text).dump(-1, ' ', false, handler::replace);
  return printable(std::string_view(json).substr(1, json.size() - 2));
}

line_reader::line_reader(const std::string& path) : path_(path), file_(path) {}

bool line_reader::next(std::string& line) {
  line.clear();
  bool found = false;
  for (bool ended = false; !ended && (position_ < buffer_.size() || fill());) {
    const std::size_t end = buffer_.find('\n', position_);
    ended = end != buffer_.npos;
    line.append(buffer_, position_, ended ? end - position_ : buffer_.npos);
    position_ = ended ? end + 1 : buffer_.size();
    found = true;
  }
  if (line.ends_with('\r')) {
    line.pop_back();
  }
  return found;
}

void line_reader::rewind() {
  if (lseek(file_.number(), 0, SEEK_SET) != 0) {
    throw system_failure(path_, "cannot read");
  }
  buffer_.clear();
  position_ = 0;
}

/// Reads more of the file; false at its end.
bool line_reader::fill() {
  buffer_.resize(std::size_t{1} << 16);
  position_ = 0;
  ssize_t size = 0;
  do {
    size = read(file_.number(), buffer_.data(), buffer_.size());
  } while (size < 0 && errno == EINTR);
  buffer_.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (size < 0) {
    throw system_failure(path_, "cannot read");
  }
  return size > 0;
}

std::vector<std::string> read_column_labels(const std::string& path, std::int64_t cols) {
  line_reader lines(path);
  std::vector<std::string> labels;
  std::string line;
  while (lines.next(line)) {
    const std::string number = std::to_string(labels.size() + 1);
    if (labels.size() == static_cast<std::size_t>(cols)) {
      throw failure(path, "more lines than the input's " + count_text(cols, "column"));
    }
    const nlohmann::json text = nlohmann::json::parse('"' + line + '"', nullptr, false);
    if (!text.is_string()) {
      throw failure(path, "line " + number + " is not the inside of a JSON string");
    }
    labels.push_back(json_escaped(text.get_ref<const std::string&>()));
  }
  return labels;
}

row_labels::row_labels(const std::string& path, std::int64_t rows) : lines_(path) {
  std::string line;
  std::int64_t count = 0;
  while (lines_.next(line)) {
    ++count;
  }
  if (count != rows) {
    throw failure(path, count_text(count, "line") + " for the input's " + count_text(rows, "row"));
  }
  lines_.rewind();
}

std::string row_labels::next() {
  std::string line;
  if (!lines_.next(line)) {
    throw failure(lines_.path(), "cannot read: the file has become shorter");
  }
  return json_escaped(line);
}

}  // namespace softfold::tool

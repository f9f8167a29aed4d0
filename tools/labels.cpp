// SPDX-License-Identifier: Apache-2.0
#include "labels.hpp"

#include "failure.hpp"

#include <nlohmann/json.hpp>

#include <sys/stat.h>

namespace softfold::tool {
namespace {

std::string count_text(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

std::string json_escaped(const std::string& text) {
  using handler = nlohmann::json::error_handler_t;
  const std::string json = nlohmann::json(text).dump(-1, ' ', false, handler::replace);
  std::string result;
  for (std::size_t i = 1; i + 1 < json.size(); ++i) {
    if (json[i] == '\x7f') {  // a control character that JSON allows as it is
      result += "\\u007f";
    } else {
      result += json[i];
    }
  }
  return result;
}

line_reader::line_reader(const std::string& path) : path_(path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    throw system_failure(path, "cannot open");
  }
  if (S_ISDIR(status.st_mode)) {
    throw failure(path, "is a directory");
  }
  errno = 0;
  stream_.open(path, std::ios::binary);
  if (!stream_) {
    throw system_failure(path, "cannot open");
  }
}

bool line_reader::next(std::string& line) {
  if (!std::getline(stream_, line)) {
    if (stream_.bad()) {
      throw system_failure(path_, "cannot read");
    }
    return false;
  }
  if (line.ends_with('\r')) {
    line.pop_back();
  }
  return true;
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
  line_reader counter(path);
  std::string line;
  std::int64_t count = 0;
  while (counter.next(line)) {
    ++count;
  }
  if (count != rows) {
    throw failure(path, count_text(count, "line") + " for the input's " + count_text(rows, "row"));
  }
}

std::string row_labels::next() {
  std::string line;
  lines_.next(line);
  return json_escaped(line);
}

}  // namespace softfold::tool

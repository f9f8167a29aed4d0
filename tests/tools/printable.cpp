// SPDX-License-Identifier: Apache-2.0
// What a terminal would act on is never printed: neither from labels nor from file names.
#include "support.hpp"

#include <doctest/doctest.h>
#include <printable.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::test;

TEST_SUITE_BEGIN("printable");

namespace {

std::string utf8(unsigned code) {
  const auto byte = [](unsigned value) { return static_cast<char>(value); };
  if (code < 0x80) {
    return {byte(code)};
  }
  if (code < 0x800) {
    return {byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f))};
  }
  return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
}

bool is_dangerous(unsigned code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029 ||
         (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

std::string escaped(unsigned code) {
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", code & 0xffff);
  return text;
}

/// ESC, CSI as one character, a right-to-left override, a line separator, an isolate.
const std::string dangerous =
    "a\x1b[31m\xc2\x9b"
    "31m\xe2\x80\xae"
    "b\xe2\x80\xa8"
    "c\xe2\x81\xa6";
const std::string shown = "a\\u001b[31m\\u009b31m\\u202eb\\u2028c\\u2066";

}  // namespace

TEST_CASE("every character of the first plane") {
  for (unsigned code = 0; code < 0x10000; ++code) {
    if (code >= 0xd800 && code < 0xe000) {
      continue;  // surrogates are no characters
    }
    const std::string text = utf8(code);
    const std::string found = tool::printable(text);
    if (found != (is_dangerous(code) ? escaped(code) : text)) {
      FAIL_CHECK("U+" << escaped(code) << " is printed as " << found);
    }
  }
}

TEST_CASE("bytes that are not UTF-8") {
  CHECK(tool::printable("\x9b"
                        "31m") == "\\x9b31m");  // CSI in Latin-1
  CHECK(tool::printable("\xc2") == "\\xc2");
  CHECK(tool::printable("\xc1\x9b") == "\\xc1\\x9b");  // overlong
  CHECK(tool::printable("\xe0\x82\x9b") == "\\xe0\\x82\\x9b");
  CHECK(tool::printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(tool::printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
  CHECK(tool::printable("\xf0\x9f\x98\x80\xff") == "\xf0\x9f\x98\x80\\xff");
  CHECK(tool::printable("").empty());
}

TEST_CASE("labels") {
  const work_directory directory;
  write_file(directory.path("x.npy"), npy_bytes({dtype::f32, {1, 2}, {0, 1}}));
  write_file(directory.path("rows.txt"), dangerous + "\n");
  write_file(directory.path("raw.txt"),
             "\x9b"
             "31m\n");
  write_file(directory.path("labels.txt"),
             "none\n\\u001b[31m\\u009b31m\xe2\x80\xae"
             "b\\u2028c\\u2066\n");
  for (const std::string format : {"table", "csv", "json"}) {
    const outcome result = directory.run({"topk", "x.npy", "-k", "1", "--labels", "labels.txt",
                                          "--row-labels", "rows.txt", "--format", format});
    CHECK(result.exit_code == 0);
    CHECK(result.out.find(shown + '"') != std::string::npos);
    CHECK(result.out.find('"' + shown.substr(1) + '"') != std::string::npos);
    if (format == "json") {
      CHECK(nlohmann::json::parse(result.out)[0]["label"] == dangerous);
    }
    const outcome raw =
        directory.run({"topk", "x.npy", "-k", "1", "--row-labels", "raw.txt", "--format", format});
    CHECK(raw.out.find("\"\xef\xbf\xbd"
                       "31m\"") != std::string::npos);
  }
}

TEST_CASE("file names and values in messages") {
  const work_directory directory;
  write_file(directory.path("x.npy"), npy_bytes({dtype::f32, {1, 2}, {0, 1}}));
  const auto message = [&](const std::vector<std::string>& arguments) {
    return directory.run(arguments).err;
  };
  const std::string hostile = dangerous + "\xff";
  const std::string harmless = shown + "\\xff";
  CHECK(message({"softmax", hostile, "-o", "y.npy"}) ==
        "softfold: " + harmless + ": cannot open: No such file or directory\n");
  CHECK(message({"softmax", "x.npy", "-o", hostile + "/y"}) ==
        "softfold: " + harmless + "/y: cannot write: No such file or directory\n");
  CHECK(message({"softmax", "x.npy", "-o", "y.npy", "--scale", hostile}).find(harmless) !=
        std::string::npos);
  CHECK(message({hostile}).find(harmless) != std::string::npos);
}

TEST_SUITE_END();

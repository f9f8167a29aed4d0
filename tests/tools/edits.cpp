// SPDX-License-Identifier: Apache-2.0
// --bias, --mask, --lengths and --softcap: the same as the command on a file that was edited
// before.
#include "support.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::test;

TEST_SUITE_BEGIN("edits");

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

/// What the options say, done to an array before: what is removed becomes -infinity.
struct edited_files {
  array x;       ///< with NaN where it is removed
  array edited;  ///< what it stands for
  std::vector<std::uint8_t> mask;
  std::vector<std::int64_t> lengths;
  array bias;

  edited_files(dtype type, std::int64_t rows, std::int64_t cols)
      : x(random_array(type, {rows, cols}, 3)), bias(random_array(type, {1, cols}, 4)) {
    bias.values[0] = -infinity;
    edited = x;
    if (type != dtype::f64) {
      edited.type = dtype::f32;  // its elements are sums
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      lengths.push_back(r % 3 == 0 ? cols + 4 : cols - cols / (r + 2));
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto i = static_cast<std::size_t>(r * cols + c);
        mask.push_back(static_cast<std::uint8_t>((c * 7 + r) % 3));
        const double b = bias.values[static_cast<std::size_t>(c)];
        const bool kept = mask.back() != 0 && c < lengths.back() && b != -infinity;
        const double sum =
            edited.type == dtype::f64
                ? x.values[i] + b
                : static_cast<double>(static_cast<float>(x.values[i]) + static_cast<float>(b));
        edited.values[i] = kept ? sum : -infinity;
        x.values[i] = kept ? x.values[i] : nan_value;
      }
    }
  }

  void write(const work_directory& directory) const {
    write_file(directory.path("x.npy"), npy_bytes(x));
    write_file(directory.path("edited.npy"), npy_bytes(edited));
    write_file(directory.path("b.npy"), npy_bytes(bias));
    write_file(directory.path("m.npy"), integer_npy("|u1", x.shape, mask));
    write_file(directory.path("l.npy"), integer_npy("<i8", {x.rows()}, lengths));
  }
};

const std::vector<std::string> options = {"--bias", "b.npy",     "--mask",
                                          "m.npy",  "--lengths", "l.npy"};

void run_well(const work_directory& directory, std::vector<std::string> words,
              const std::vector<std::string>& more = {}) {
  words.insert(words.end(), more.begin(), more.end());
  const outcome result = directory.run(words);
  CHECK(result.err == "");
  REQUIRE(result.exit_code == 0);
}

void check_near(const array& found, const array& expected) {
  REQUIRE(found.shape == expected.shape);
  double worst = 0;
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    const double a = found.values[i];
    const double b = expected.values[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      continue;
    }
    worst = std::max(worst, std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : infinity);
  }
  CHECK(worst <= 1e-5);
}

void check_command(std::int64_t rows, std::int64_t cols, dtype type) {
  const work_directory directory;
  const edited_files files(type, rows, cols);
  files.write(directory);
  const std::vector<std::string> out = {"--out-dtype", "f32"};
  const auto wide = type == dtype::f64 ? std::vector<std::string>{} : out;
  auto with_options = options;
  with_options.insert(with_options.end(), wide.begin(), wide.end());
  run_well(directory, {"softmax", "x.npy", "-o", "y.npy", "--scale", "0.5"}, with_options);
  run_well(directory, {"softmax", "edited.npy", "-o", "expected.npy", "--scale", "0.5"}, wide);
  check_near(read_npy(directory.path("y.npy")), read_npy(directory.path("expected.npy")));

  run_well(directory, {"logsumexp", "x.npy", "-o", "lse.npy"}, options);
  run_well(directory, {"logsumexp", "edited.npy", "-o", "expected_lse.npy"});
  check_near(read_npy(directory.path("lse.npy")), read_npy(directory.path("expected_lse.npy")));

  run_well(directory, {"topk", "x.npy", "-k", "3", "-o", "best", "--logits"}, options);
  run_well(directory, {"topk", "edited.npy", "-k", "3", "-o", "expected", "--logits"});
  run_well(directory, {"fold", "x.npy", "-k", "3", "-o", "x.state"}, options);
  run_well(directory, {"finish", "x.state", "-o", "folded", "--logits"});
  for (const char* result : {".probabilities.npy", ".logits.npy"}) {
    const array expected = read_npy(directory.path(std::string("expected") + result));
    check_near(read_npy(directory.path(std::string("best") + result)), expected);
    check_near(read_npy(directory.path(std::string("folded") + result)), expected);
  }
  for (const char* stem : {"best", "folded"}) {
    CHECK(read_file(directory.path(std::string(stem) + ".indices.npy")) ==
          read_file(directory.path("expected.indices.npy")));
  }
}

}  // namespace

TEST_CASE("edits by files") {
  for (const dtype type : {dtype::f32, dtype::f16, dtype::f64}) {
    check_command(7, 300, type);
  }
}

TEST_CASE("edits of more rows than a block has") { check_command(3000, 2000, dtype::f32); }

TEST_CASE("edits of rows longer than a block") { check_command(2, 5000000, dtype::f32); }

TEST_CASE("bits, one mask for all rows, and softcap") {
  const work_directory directory;
  array x = random_array(dtype::f32, {2, 3, 40}, 8);
  array edited = x;
  const std::vector<std::uint32_t> bits = {0xf0f0f0f0U, 0x0fU};
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::size_t c = i % 40;
    const bool kept = (bits[c / 32] >> (c % 32) & 1U) != 0;
    edited.values[i] = kept ? 2 * std::tanh(x.values[i] / 2) : -infinity;
  }
  write_file(directory.path("x.npy"), npy_bytes(x));
  write_file(directory.path("edited.npy"), npy_bytes(edited));
  write_file(directory.path("m.npy"), integer_npy("<u4", {2}, bits));
  run_well(directory, {"softmax", "x.npy", "-o", "y.npy", "--mask", "m.npy", "--softcap", "2"});
  run_well(directory, {"softmax", "edited.npy", "-o", "expected.npy"});
  check_near(read_npy(directory.path("y.npy")), read_npy(directory.path("expected.npy")));
}

TEST_CASE("edits that do not go with the input") {
  const work_directory directory;
  write_file(directory.path("x.npy"), npy_bytes(random_array(dtype::f32, {4, 40}, 1)));
  write_file(directory.path("f32.npy"), npy_bytes(random_array(dtype::f32, {4, 39}, 1)));
  write_file(directory.path("rows.npy"), npy_bytes(random_array(dtype::f32, {3, 40}, 1)));
  write_file(directory.path("words.npy"), integer_npy<std::int32_t>("<i4", {4, 1}, {1, 1, 1, 1}));
  write_file(directory.path("i8.npy"), integer_npy<std::int64_t>("<i8", {3}, {1, 1, 1}));
  write_file(directory.path("big.npy"), integer_npy<std::int32_t>(">i4", {4}, {1, 1, 1, 1}));
  write_file(directory.path("bytes.npy"), integer_npy<std::uint8_t>("|b1", {4}, {1, 1, 1, 1}));
  const auto fails = [&](const std::vector<std::string>& more, const std::string& said) {
    std::vector<std::string> words = {"softmax", "x.npy", "-o", "y.npy"};
    words.insert(words.end(), more.begin(), more.end());
    const outcome result = directory.run(words);
    CHECK(result.exit_code == 2);
    CHECK_MESSAGE(result.err.find(said) != std::string::npos, result.err);
    CHECK(directory.names().count("y.npy") == 0);
  };
  fails({"--bias", "f32.npy"}, "f32.npy: has 39 columns, expected 40");
  fails({"--bias", "rows.npy"}, "rows.npy: has 3 rows, expected 4");
  fails({"--bias", "words.npy"}, "expected float16, float32 or float64");
  fails({"--mask", "words.npy"}, "words.npy: has 1 words of 32 bits in a row, expected 2");
  fails({"--mask", "f32.npy"},
        "f32.npy: elements are '<f4'; expected bool, uint8, or int32 for bits");
  fails({"--mask", "i8.npy"}, "expected bool, uint8, or int32 for bits");
  fails({"--lengths", "i8.npy"}, "i8.npy: has 3 lengths, expected 4");
  fails({"--lengths", "f32.npy"}, "f32.npy: elements are '<f4'; expected int32 or int64\n");
  fails({"--lengths", "big.npy"}, "big-endian");
  fails({"--lengths", "bytes.npy"}, "elements are bytes; expected int32 or int64");
  fails({"--lengths", "none.npy"}, "none.npy");
  fails({"--softcap", "-1"}, "-1 is not a finite number of 0 or more");
  fails({"--softcap", "nan"}, "nan is not a finite number of 0 or more");
}

TEST_SUITE_END();

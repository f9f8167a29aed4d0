// SPDX-License-Identifier: Apache-2.0
// What the command computes: files against a plain reference in double.
#include "support.hpp"

#include <core/reproducible.hpp>

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <cmath>
#include <limits>

using namespace softfold;
using namespace softfold::test;

TEST_SUITE_BEGIN("results");

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double unit(dtype type) {
  return type == dtype::f16    ? 0x1p-11
         : type == dtype::bf16 ? 0x1p-8
         : type == dtype::f32  ? 0x1p-24
                               : 0x1p-53;
}

/// The bound of docs/semantics.md for arithmetic in float32 or wider, plus the rounding to `out`
/// and, for float64, that of the reference itself.
double softmax_bound(dtype in, dtype out, std::int64_t cols) {
  const double arithmetic = unit(in == dtype::f64 ? dtype::f64 : dtype::f32);
  return (16 + std::log2(static_cast<double>(cols))) * arithmetic * (in == dtype::f64 ? 2 : 1) +
         (size_of(out) == 2 ? 2 * unit(out) : 0);
}

void run_well(const work_directory& directory, const std::vector<std::string>& arguments) {
  const outcome result = directory.run(arguments);
  INFO("command: " << arguments[0]);
  CHECK(result.err == "");
  REQUIRE(result.exit_code == 0);
}

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Runs softmax on `x` and compares all of the result.
void check_softmax(const array& x, dtype out, bool log, double scale,
                   const std::vector<std::string>& options) {
  const work_directory directory;
  write_file(directory.path("x.npy"), npy_bytes(x));
  run_well(directory, with({"softmax", "x.npy", "-o", "y.npy"}, options));
  CHECK(directory.names() == std::set<std::string>{"x.npy", "y.npy"});
  const array y = read_npy(directory.path("y.npy"));
  CHECK(y.type == out);
  CHECK(y.shape == x.shape);
  const double bound = softmax_bound(x.type, out, x.cols());
  // 16-bit outputs below their smallest normal have an absolute error.
  const double tiny = out == dtype::f16 ? 0x1p-24 : 1e-37;
  std::int64_t wrong = 0;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const double* row = x.values.data() + r * x.cols();
    const double lse = reference_logsumexp(row, x.cols(), scale);
    for (std::int64_t i = 0; i < x.cols(); ++i) {
      const double exact = log ? scale * row[i] - lse : std::exp(scale * row[i] - lse);
      const double found = y.values[static_cast<std::size_t>(r * x.cols() + i)];
      const double size =
          log ? std::fabs(scale * row[i]) + std::fabs(lse) + std::fabs(exact) + 1 : exact;
      wrong += !(std::fabs(found - exact) <= bound * size + tiny);
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("softmax of every type") {
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
    INFO("type: " << name_of(type));
    const array x = random_array(type, {37, 1001}, 1);
    const std::vector<std::string> bf16 =
        type == dtype::bf16 ? std::vector<std::string>{"--bf16"} : std::vector<std::string>{};
    check_softmax(x, type, false, 1, bf16);
    check_softmax(x, type, true, 1, with({"--log"}, bf16));
    check_softmax(x, type, false, 0.25, with({"--scale", "0.25", "--threads", "1"}, bf16));
    if (type != dtype::f64) {
      check_softmax(x, dtype::f32, false, 1, with({"--out-dtype", "f32"}, bf16));
    }
    check_softmax(x, type, false, -1, with({"--scale", "-1", "--out-dtype", "same"}, bf16));
  }
}

TEST_CASE("reproducible results are the defined ones") {
  const work_directory directory;
  const array x = random_array(dtype::f32, {5, 1003}, 8);
  write_file(directory.path("x.npy"), npy_bytes(x));
  for (const char* command : {"softmax", "logsumexp"}) {
    run_well(directory, {command, "x.npy", "-o", std::string(command) + ".npy", "--scale", "0.5",
                         "--numerics", "reproducible"});
  }
  run_well(directory, {"topk", "x.npy", "-k", "1", "-o", "top", "--scale", "0.5", "--numerics",
                       "reproducible"});
  const array y = read_npy(directory.path("softmax.npy"));
  const array lse = read_npy(directory.path("logsumexp.npy"));
  const array top = read_npy(directory.path("top.probabilities.npy"));
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto element = [&](std::int64_t c) {
      return static_cast<float>(x.values[static_cast<std::size_t>(r * x.cols() + c)]);
    };
    const auto row = core::reproducible::total_of(0.5F, x.cols(), element);
    CHECK(lse.values[static_cast<std::size_t>(r)] == static_cast<double>(row.lse));
    double largest = 0;
    std::int64_t wrong = 0;
    for (std::int64_t c = 0; c < x.cols(); ++c) {
      const auto expected = static_cast<double>(row.softmax(element(c)));
      wrong += y.values[static_cast<std::size_t>(r * x.cols() + c)] != expected;
      largest = std::max(largest, expected);
    }
    CHECK(wrong == 0);
    CHECK(top.values[static_cast<std::size_t>(r)] == largest);
  }
}

TEST_CASE("any rank, and more than one block of rows") {
  check_softmax(random_array(dtype::f32, {5}, 2), dtype::f32, false, 1, {});
  check_softmax(random_array(dtype::f32, {2, 3, 4, 5}, 3), dtype::f32, false, 1, {});
  check_softmax(random_array(dtype::f64, {7, 1}, 4), dtype::f64, false, 1, {});
  check_softmax(random_array(dtype::f32, {1200, 2003}, 5), dtype::f32, false, 1, {});
  check_softmax(random_array(dtype::f16, {3, 2500000}, 6), dtype::f32, false, 1,
                {"--out-dtype", "f32"});
}

TEST_CASE("empty arrays") {
  const work_directory directory;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0}, {0, 5}, {5, 0}, {2, 0, 3}}) {
    const array x = {dtype::f32, shape, {}};
    write_file(directory.path("x.npy"), npy_bytes(x));
    run_well(directory, {"softmax", "x.npy", "-o", "y.npy"});
    CHECK(read_file(directory.path("y.npy")) == npy_bytes(x));
    run_well(directory, {"logsumexp", "x.npy", "-o", "y.npy"});
    const array y = read_npy(directory.path("y.npy"));
    CHECK(y.shape == std::vector<std::int64_t>(shape.begin(), shape.end() - 1));
    for (const double value : y.values) {
      CHECK(value == -infinity);
    }
    run_well(directory, {"topk", "x.npy", "-k", "0", "-o", "t"});
    CHECK(read_npy(directory.path("t.indices.npy")).values.empty());
  }
}

TEST_CASE("special values") {
  const work_directory directory;
  array x = random_array(dtype::f32, {4, 9}, 7);
  for (std::size_t i = 0; i < 9; ++i) {
    x.values[9 + i] = -infinity;
  }
  x.values[18] = std::numeric_limits<double>::quiet_NaN();
  x.values[27] = infinity;
  write_file(directory.path("x.npy"), npy_bytes(x));
  const auto row = [](const array& y, std::size_t r) {
    return std::vector<double>(y.values.begin() + static_cast<std::ptrdiff_t>(9 * r),
                               y.values.begin() + static_cast<std::ptrdiff_t>(9 * r + 9));
  };
  const auto all_nan = [](const std::vector<double>& values) {
    for (const double value : values) {
      if (!std::isnan(value)) {
        return false;
      }
    }
    return true;
  };
  for (const bool zero : {false, true}) {
    for (const bool log : {false, true}) {
      std::vector<std::string> command = {"softmax", "x.npy", "-o", "y.npy"};
      command = zero ? with(command, {"--empty-row", "zero"}) : command;
      command = log ? with(command, {"--log"}) : command;
      run_well(directory, command);
      const array y = read_npy(directory.path("y.npy"));
      CHECK(!all_nan(row(y, 0)));
      CHECK((zero ? row(y, 1) == std::vector<double>(9, log ? -infinity : 0) : all_nan(row(y, 1))));
      CHECK(all_nan(row(y, 2)));
      CHECK(all_nan(row(y, 3)));
    }
  }
  run_well(directory, {"logsumexp", "x.npy", "-o", "y.npy"});
  const array y = read_npy(directory.path("y.npy"));
  CHECK(y.values[1] == -infinity);
  CHECK(std::isnan(y.values[2]));
  CHECK(y.values[3] == infinity);
}

TEST_CASE("logsumexp") {
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
    for (const double scale : {1.0, 0.5}) {
      const work_directory directory;
      const array x = random_array(type, {3, 5, 777}, 8);
      write_file(directory.path("x.npy"), npy_bytes(x));
      std::vector<std::string> command = {"logsumexp", "x.npy",   "-o",
                                          "y.npy",     "--scale", std::to_string(scale)};
      run_well(directory, type == dtype::bf16 ? with(command, {"--bf16"}) : command);
      CHECK(directory.names() == std::set<std::string>{"x.npy", "y.npy"});
      const array y = read_npy(directory.path("y.npy"));
      CHECK(y.type == (type == dtype::f64 ? dtype::f64 : dtype::f32));
      CHECK(y.shape == std::vector<std::int64_t>{3, 5});
      for (std::size_t r = 0; r < 15; ++r) {
        const double exact = reference_logsumexp(x.values.data() + 777 * r, 777, scale);
        const double bound = softmax_bound(type, y.type, 777) + 2 * std::fabs(exact) * unit(y.type);
        CHECK(std::fabs(y.values[r] - exact) <= bound);
      }
    }
  }
  const work_directory directory;
  write_file(directory.path("x.npy"), npy_bytes(random_array(dtype::f32, {10}, 9)));
  run_well(directory, {"logsumexp", "x.npy", "-o", "y.npy"});
  CHECK(read_npy(directory.path("y.npy")).shape.empty());
}

TEST_CASE("elements at an odd offset") {
  const work_directory directory;
  const array x = random_array(dtype::f64, {9, 33}, 10);
  write_file(directory.path("x.npy"), npy_bytes(x));
  std::string bytes = read_file(directory.path("x.npy"));
  bytes.insert(10, 3, ' ');
  bytes[8] = static_cast<char>(bytes[8] + 3);
  write_file(directory.path("odd.npy"), bytes);
  run_well(directory, {"softmax", "x.npy", "-o", "y.npy"});
  run_well(directory, {"softmax", "odd.npy", "-o", "z.npy"});
  CHECK(read_file(directory.path("y.npy")) == read_file(directory.path("z.npy")));
}

TEST_CASE("an existing output is replaced, with its permissions and behind its link") {
  const work_directory directory;
  write_file(directory.path("x.npy"), npy_bytes(random_array(dtype::f32, {3, 4}, 11)));
  write_file(directory.path("old"), "old");
  std::filesystem::permissions(directory.path("old"), std::filesystem::perms(0640));
  std::filesystem::create_symlink("old", directory.path("link"));
  run_well(directory, {"softmax", "x.npy", "-o", "link"});
  CHECK(directory.names() == std::set<std::string>{"x.npy", "old", "link"});
  CHECK(std::filesystem::is_symlink(directory.path("link")));
  CHECK(read_npy(directory.path("old")).shape == std::vector<std::int64_t>{3, 4});
  CHECK(std::filesystem::status(directory.path("old")).permissions() ==
        std::filesystem::perms(0640));
}

TEST_CASE("memory stays bounded") {
  const work_directory directory;
  const array x = {dtype::f32, {12000, 32768}, {}};  // 1.5 GB of zeros, without disk space
  const std::string header = npy_bytes(x);
  write_file(directory.path("x.npy"), header);
  std::filesystem::resize_file(directory.path("x.npy"),
                               header.size() + std::uintmax_t{12000} * 32768 * 4);
  const int process = directory.start({"logsumexp", "x.npy", "-o", "y.npy"});
  std::int64_t peak = 0;
  while (!std::filesystem::exists(directory.path("y.npy"))) {
    const std::int64_t now = peak_resident_bytes(process);
    if (now == 0) {
      break;
    }
    peak = now;
  }
  const outcome ended = directory.finish(process);
  CHECK(ended.err == "");
  CHECK(ended.exit_code == 0);
  MESSAGE("peak resident memory: " << peak / 1000000 << " MB");
  CHECK(peak > 0);
  CHECK(peak < 500000000);
  const array y = read_npy(directory.path("y.npy"));
  CHECK(std::fabs(y.values.front() - std::log(32768.0)) < 1e-5);
  CHECK(std::fabs(y.values.back() - std::log(32768.0)) < 1e-5);
}

TEST_SUITE_END();

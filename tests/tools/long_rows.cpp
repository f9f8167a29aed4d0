// SPDX-License-Identifier: Apache-2.0
// Rows longer than a block, which are worked on by columns: the same results, in bounded memory.
#include "support.hpp"

#include <core/reproducible.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

using namespace softfold;
using namespace softfold::test;

TEST_SUITE_BEGIN("long_rows");

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

void run_well(const work_directory& directory, const std::vector<std::string>& arguments) {
  const outcome result = directory.run(arguments);
  INFO("command: " << arguments[0]);
  CHECK(result.err == "");
  REQUIRE(result.exit_code == 0);
}

/// Every command on `x`, against a plain reference in double.
void check_all(const array& x, double scale) {
  const work_directory directory;
  const std::string factor = std::to_string(scale);
  write_file(directory.path("x.npy"), npy_bytes(x));
  for (const char* log : {"", "--log"}) {
    std::vector<std::string> command = {"softmax", "x.npy", "-o", std::string("y") + log,
                                        "--scale", factor};
    if (x.type == dtype::f16) {
      command.insert(command.end(), {"--out-dtype", "f32"});
    }
    if (*log != '\0') {
      command.emplace_back(log);
    }
    run_well(directory, command);
  }
  run_well(directory, {"logsumexp", "x.npy", "-o", "lse.npy", "--scale", factor});
  run_well(directory, {"topk", "x.npy", "-k", "5", "-o", "t", "--logits", "--scale", factor});
  run_well(directory, {"fold", "x.npy", "-k", "5", "-o", "x.st", "--scale", factor});
  run_well(directory, {"finish", "x.st", "-o", "f"});
  const array y = read_npy(directory.path("y"));
  const array log_y = read_npy(directory.path("y--log"));
  const array lse = read_npy(directory.path("lse.npy"));
  const array indices = read_npy(directory.path("t.indices.npy"));
  const array chances = read_npy(directory.path("t.probabilities.npy"));
  const array logits = read_npy(directory.path("t.logits.npy"));
  CHECK(read_npy(directory.path("f.indices.npy")).values == indices.values);
  CHECK(read_npy(directory.path("f.logsumexp.npy")).values == lse.values);
  CHECK(y.shape == x.shape);
  // That of a whole row, and 2 u for each level of the tree.
  const double bound = x.type == dtype::f64 ? 1e-13 : 50 * 0x1p-24;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const double* row = x.values.data() + r * x.cols();
    const double exact = reference_logsumexp(row, x.cols(), scale);
    CHECK(std::fabs(lse.values[static_cast<std::size_t>(r)] - exact) <=
          bound * (1 + std::fabs(exact)));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < x.cols(); ++i) {
      const auto at = static_cast<std::size_t>(r * x.cols() + i);
      const double log_p = scale * row[i] - exact;
      wrong += !(std::fabs(y.values[at] - std::exp(log_p)) <= bound * std::exp(log_p) + 1e-37);
      wrong += !(row[i] == -infinity ? log_y.values[at] == -infinity
                                     : std::fabs(log_y.values[at] - log_p) <=
                                           bound * (1 + std::fabs(log_p) + std::fabs(row[i])));
    }
    CHECK(wrong == 0);
    std::vector<std::int64_t> order(static_cast<std::size_t>(x.cols()));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(
        order.begin(), order.begin() + 5, order.end(),
        [&](std::int64_t a, std::int64_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
    for (std::size_t i = 0; i < 5; ++i) {
      const std::size_t at = static_cast<std::size_t>(r) * 5 + i;
      CHECK(indices.values[at] == static_cast<double>(order[i]));
      CHECK(logits.values[at] == row[order[i]]);
      const double p = std::exp(scale * row[order[i]] - exact);
      CHECK(std::fabs(chances.values[at] - p) <= bound * p);
    }
  }
}

/// Runs a command and returns the most memory that it had resident.
std::int64_t peak_of(const work_directory& directory, const std::vector<std::string>& command,
                     const std::string& result) {
  const int process = directory.start(command);
  std::int64_t peak = 0;
  while (!std::filesystem::exists(directory.path(result))) {
    const std::int64_t now = peak_resident_bytes(process);
    if (now == 0) {
      break;
    }
    peak = now;
  }
  const outcome ended = directory.finish(process);
  CHECK(ended.err == "");
  CHECK(ended.exit_code == 0);
  MESSAGE(command[0] << ", peak resident memory: " << peak / 1000000 << " MB");
  CHECK(peak > 0);
  return peak;
}

}  // namespace

TEST_CASE("several blocks of columns") {
  check_all(random_array(dtype::f32, {9500000}, 60), 1);
  check_all(random_array(dtype::f16, {2, 9000000}, 61), 0.5);
  array x = random_array(dtype::f64, {1, 5000001}, 62);
  std::fill_n(x.values.begin(), 2500000, -infinity);  // a block of nothing, and ties across blocks
  x.values[2600000] = x.values[4600000] = 9;
  check_all(x, 1);
}

TEST_CASE("rows of special values") {
  const work_directory directory;
  array x = random_array(dtype::f32, {3, 4500000}, 63);
  x.values[4300000] = std::nan("");
  x.values[4500000 + 7] = infinity;
  std::fill(x.values.begin() + 9000000, x.values.end(), -infinity);
  write_file(directory.path("x.npy"), npy_bytes(x));
  run_well(directory, {"logsumexp", "x.npy", "-o", "lse.npy"});
  const array lse = read_npy(directory.path("lse.npy"));
  CHECK(std::isnan(lse.values[0]));
  CHECK(lse.values[1] == infinity);
  CHECK(lse.values[2] == -infinity);
  run_well(directory, {"softmax", "x.npy", "-o", "y.npy", "--empty-row", "zero"});
  const array y = read_npy(directory.path("y.npy"));
  CHECK(std::isnan(y.values[0]));
  CHECK(std::isnan(y.values[4500000]));
  CHECK(y.values.back() == 0);
  run_well(directory, {"topk", "x.npy", "-k", "1", "-o", "t"});
  CHECK(read_npy(directory.path("t.indices.npy")).values == std::vector<double>{4300000, 7, 0});
}

TEST_CASE("reproducible results of several blocks of columns are those of whole rows") {
  const work_directory directory;
  const array x = random_array(dtype::f32, {1, 4200001}, 64);
  write_file(directory.path("x.npy"), npy_bytes(x));
  const std::vector<std::string> reproducible = {"--scale", "0.5", "--numerics", "reproducible"};
  const auto run = [&](std::vector<std::string> command) {
    command.insert(command.end(), reproducible.begin(), reproducible.end());
    run_well(directory, command);
  };
  run({"softmax", "x.npy", "-o", "y.npy"});
  run({"softmax", "x.npy", "-o", "log.npy", "--log"});
  run({"logsumexp", "x.npy", "-o", "lse.npy"});
  run({"topk", "x.npy", "-k", "2", "-o", "t"});
  run({"fold", "x.npy", "-k", "2", "-o", "x.st"});
  run_well(directory, {"finish", "x.st", "-o", "f"});
  const auto element = [&](std::int64_t c) {
    return static_cast<float>(x.values[static_cast<std::size_t>(c)]);
  };
  const auto whole = core::reproducible::total_of(0.5F, x.cols(), element);
  const array y = read_npy(directory.path("y.npy"));
  const array log_y = read_npy(directory.path("log.npy"));
  std::int64_t wrong = 0;
  for (std::int64_t c = 0; c < x.cols(); ++c) {
    const auto at = static_cast<std::size_t>(c);
    wrong += y.values[at] != static_cast<double>(whole.softmax(element(c)));
    wrong += log_y.values[at] != static_cast<double>(whole.log_softmax(element(c)));
  }
  CHECK(wrong == 0);
  const auto lse = static_cast<double>(whole.lse);
  CHECK(read_npy(directory.path("lse.npy")).values == std::vector{lse});
  CHECK(read_npy(directory.path("f.logsumexp.npy")).values == std::vector{lse});
  const auto indices = read_npy(directory.path("t.indices.npy")).values;
  const double best =
      static_cast<double>(whole.softmax(element(static_cast<std::int64_t>(indices[0]))));
  CHECK(read_npy(directory.path("t.probabilities.npy")).values[0] == best);
  CHECK(read_npy(directory.path("f.probabilities.npy")).values[0] == best);
}

// The same elements in half the bytes are worked on by whole rows.
TEST_CASE("sampling from several blocks of columns") {
  const work_directory directory;
  array x = random_array(dtype::f16, {2, 5000000}, 64);
  write_file(directory.path("short.npy"), npy_bytes(x));
  x.type = dtype::f32;
  write_file(directory.path("long.npy"), npy_bytes(x));
  for (const std::vector<std::string>& filters :
       {std::vector<std::string>{"--temperature", "0.5"},
        {"--top-k", "50", "--top-p", "0.75", "--min-p", "0.01"},
        {"--top-k", "9", "--top-p", "0.75", "--joint"},
        {"--top-p", "0.75"}}) {
    for (const char* rows : {"short", "long"}) {
      std::vector<std::string> command = {"sample",   std::string(rows) + ".npy",
                                          "-n",       "3",
                                          "-o",       std::string(rows) + ".tokens.npy",
                                          "--seed",   "9",
                                          "--offset", "3"};
      command.insert(command.end(), filters.begin(), filters.end());
      run_well(directory, command);
    }
    CHECK(read_file(directory.path("short.tokens.npy")) ==
          read_file(directory.path("long.tokens.npy")));
  }
}

TEST_CASE("memory does not grow with the row") {
  const work_directory directory;
  // 1.2 GB of zeros, as a file with nothing in it; softmax on a quarter, as it writes as much.
  for (const std::int64_t cols : {300000000, 75000000}) {
    const std::string header = npy_bytes({dtype::f32, {cols}, {}});
    write_file(directory.path("x.npy"), header);
    std::filesystem::resize_file(directory.path("x.npy"),
                                 header.size() + static_cast<std::uintmax_t>(cols) * 4);
    const double lse = std::log(static_cast<double>(cols));
    if (cols == 300000000) {
      CHECK(peak_of(directory, {"logsumexp", "x.npy", "-o", "lse.npy"}, "lse.npy") < 250000000);
      CHECK(std::fabs(read_npy(directory.path("lse.npy")).values[0] - lse) < 1e-5);
      CHECK(peak_of(directory, {"topk", "x.npy", "-k", "3", "-o", "t"}, "t.indices.npy") <
            250000000);
      CHECK(read_npy(directory.path("t.indices.npy")).values == std::vector<double>{0, 1, 2});
    } else {
      CHECK(peak_of(directory, {"sample", "x.npy", "-o", "s.npy"}, "s.npy") < 250000000);
      CHECK(read_npy(directory.path("s.npy")).values[0] < static_cast<double>(cols));
      CHECK(peak_of(directory, {"softmax", "x.npy", "-o", "y.npy"}, "y.npy") < 250000000);
      const std::string y = read_file(directory.path("y.npy"));
      float last = 0;
      std::memcpy(&last, y.data() + y.size() - 4, 4);
      CHECK(std::fabs(static_cast<double>(last) * static_cast<double>(cols) - 1) < 1e-5);
    }
  }
}

TEST_SUITE_END();

// SPDX-License-Identifier: Apache-2.0
// softfold sample: the tokens of the oracle, in a file and printed.
#include "support.hpp"

#include <core/reference_sampling.hpp>

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <sstream>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::test;

namespace {

/// The oracle's tokens, row after row.
std::vector<std::int64_t> expected_tokens(const array& x, core::sampling::parameters p,
                                          filter_order order, std::int64_t draws) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t r = 0; r < x.rows(); ++r, ++p.offset) {
    std::vector<float> row;
    for (std::int64_t c = 0; c < x.cols(); ++c) {
      row.push_back(static_cast<float>(x.values[static_cast<std::size_t>(r * x.cols() + c)]));
    }
    for (std::int64_t j = 0; j < draws; ++j) {
      tokens.push_back(core::reference::sample(std::span<const float>(row), p, order,
                                               static_cast<std::uint32_t>(j))
                           .token);
    }
  }
  return tokens;
}

}  // namespace

TEST_SUITE_BEGIN("sample");

TEST_CASE("a file, and lines") {
  const array x = random_array(dtype::f32, {2, 3, 501}, 71);
  const work_directory directory;
  write_file(directory.path("x.npy"), npy_bytes(x));
  const std::vector<std::string> options = {
      "sample",   "x.npy",   "-n",   "4",       "--temperature", "1.5",    "--top-k",
      "60",       "--top-p", "0.75", "--min-p", "0.01",          "--seed", "18446744073709551615",
      "--offset", "9"};
  const core::sampling::parameters p = {1.5, 0.75, 0.01, 60, ~std::uint64_t{0}, 9};
  for (const bool joint : {false, true}) {
    std::vector<std::string> command = options;
    if (joint) {
      command.emplace_back("--joint");
    }
    const auto tokens =
        expected_tokens(x, p, joint ? filter_order::joint : filter_order::top_k_first, 4);
    const outcome printed = directory.run(command);
    CHECK(printed.exit_code == 0);
    std::istringstream text(printed.out);
    std::string line;
    for (std::size_t r = 0; r < 6; ++r) {
      std::getline(text, line);
      std::string expected;
      for (std::size_t j = 0; j < 4; ++j) {
        expected += j > 0 ? " " : "";
        expected += std::to_string(tokens[4 * r + j]);
      }
      CHECK(line == expected);
    }
    CHECK(!std::getline(text, line));
    command.insert(command.end(), {"-o", "y.npy"});
    const outcome written = directory.run(command);
    CHECK(written.exit_code == 0);
    CHECK(written.out.empty());
    const std::string bytes = read_file(directory.path("y.npy"));
    const std::size_t size = tokens.size() * sizeof(std::int64_t);
    CHECK(bytes.find("(2, 3, 4)") != std::string::npos);
    CHECK(bytes.find("<i8") != std::string::npos);
    REQUIRE(bytes.size() > size);
    CHECK(bytes.compare(bytes.size() - size, size, reinterpret_cast<const char*>(tokens.data()),
                        size) == 0);
  }
}

TEST_CASE("labels, and temperature 0") {
  const array x = {dtype::f32, {2, 3}, {0, 5, 1, 2, 1, 7}};
  const work_directory directory;
  write_file(directory.path("x.npy"), npy_bytes(x));
  write_file(directory.path("labels.txt"), "a\n\\\"b\n");
  const outcome result =
      directory.run({"sample", "x.npy", "-n", "2", "--temperature", "0", "--labels", "labels.txt"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == "\"\\\"b\" \"\\\"b\"\n2 2\n");
}

TEST_CASE("no draws from rows without end") {
  const work_directory directory;
  write_file(directory.path("x.npy"), npy_bytes({dtype::f32, {std::int64_t{1} << 40, 0}, {}}));
  const auto short_of_time = [] {
    const rlimit seconds = {10, 10};
    setrlimit(RLIMIT_CPU, &seconds);
  };
  const outcome result =
      directory.run({"sample", "x.npy", "-n", "0", "-o", "y.npy"}, short_of_time);
  CHECK(result.err == "");
  CHECK(result.exit_code == 0);
  CHECK(read_npy(directory.path("y.npy")).shape ==
        std::vector<std::int64_t>{std::int64_t{1} << 40, 0});
  const outcome bad =
      directory.run({"sample", "x.npy", "-n", "0", "-o", "z.npy", "--top-p", "2"}, short_of_time);
  CHECK(bad.exit_code == 2);
  CHECK(bad.err.find("top_p is 2") != std::string::npos);
}

TEST_CASE("what is wrong") {
  const array x = {dtype::f32, {1, 3}, {0, 5, 1}};
  const work_directory directory;
  write_file(directory.path("x.npy"), npy_bytes(x));
  const auto fails = [&](std::vector<std::string> options, const std::string& text) {
    options.insert(options.begin(), {"sample", "x.npy", "-o", "y.npy"});
    const outcome result = directory.run(options);
    CHECK(result.exit_code == 2);
    INFO(result.err);
    CHECK(result.err.find(text) != std::string::npos);
    CHECK(directory.names() == std::set<std::string>{"x.npy"});
  };
  fails({"--top-p", "1.5"}, "top_p is 1.5, expected 0 to 1");
  fails({"--temperature", "-1"}, "temperature is -1");
  fails({"--min-p", "nan"}, "min_p is nan");
  fails({"--top-k", "-3"}, "top_k is -3");
  fails({"-n", "-1"}, "-n -1 is negative");
  fails({"--seed", "x"}, "--seed");
}

TEST_SUITE_END();

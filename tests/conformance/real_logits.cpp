// SPDX-License-Identifier: Apache-2.0
// Logits of a language model for 16 prompts, 32000 words each, as every input type.
#include "problem.hpp"

#include <fstream>
#include <iterator>

namespace softfold::test {

namespace {

constexpr std::int64_t prompts = 16;
constexpr std::int64_t vocabulary = 32000;

/// The payload of a version 1.0 .npy file of '<f2' and the known shape.
std::vector<half> load_logits() {
  std::ifstream file(SOFTFOLD_TEST_LOGITS, std::ios::binary);
  INFO("reading " << SOFTFOLD_TEST_LOGITS);
  REQUIRE(file.good());
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  REQUIRE(bytes.size() > 10);
  REQUIRE(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  const std::size_t header = byte(8) + 256 * byte(9);
  REQUIRE(bytes.substr(10, header).find("'<f2'") != std::string::npos);
  REQUIRE(bytes.substr(10, header).find("(16, 32000)") != std::string::npos);
  REQUIRE(bytes.size() == 10 + header + prompts * vocabulary * sizeof(half));
  std::vector<half> logits(prompts * vocabulary);
  std::memcpy(static_cast<void*>(logits.data()), bytes.data() + 10 + header,
              logits.size() * sizeof(half));
  return logits;
}

template <class T>
problem<T> problem_of(double scale = 1) {
  const auto logits = load_logits();
  problem<T> p({prompts, vocabulary, distribution::normal, scale, 0, 0, 0});
  for (std::int64_t r = 0; r < prompts; ++r) {
    for (std::int64_t c = 0; c < vocabulary; ++c) {
      const half value = logits[static_cast<std::size_t>(r * vocabulary + c)];
      p.x(r, c) = make<T>(reference::widen(value));
    }
  }
  p.commit();
  return p;
}

}  // namespace

TEST_SUITE_BEGIN("real_logits");

TEST_CASE_TEMPLATE("every operation", Io, SOFTFOLD_TEST_IO_TYPES) {
  queue q;
  auto p = problem_of<typename Io::input>();
  check_all<typename Io::output>(q, p, 50);
  check_softmax_topk<typename Io::output, std::int32_t>(q, p, 1000, expected_columns(p, 1000));
}

TEST_CASE_TEMPLATE("at a temperature", Io, f16_f32, f32_f32) {
  queue q;
  auto p = problem_of<typename Io::input>(1 / 0.8);
  check_softmax<typename Io::output>(q, p);
  check_log_softmax<typename Io::output>(q, p);
  check_softmax_topk<typename Io::output, std::int64_t>(q, p, 5, expected_columns(p, 5));
}

// Worked out once from the same file in double precision by another program.
TEST_CASE("the most probable word of the first prompts") {
  queue q;
  const auto p = problem_of<half>();
  matrix<float> probabilities({prompts, 1, 0, 0}, role::output);
  matrix<std::int64_t> indices({prompts, 1, 0, 0}, role::output);
  softmax_topk(q, p.x.view(), probabilities.view(), indices.view());
  q.wait();
  probabilities.download();
  indices.download();
  struct top {
    std::int64_t index;
    double probability;
  };
  const top expected[] = {
      {2304, 0.6347071549}, {2583, 0.3825659189}, {1682, 0.3418730075}, {1060, 0.2413213816}};
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(std::size(expected)); ++r) {
    const top& e = expected[r];
    CHECK(indices(r, 0) == e.index);
    // The bound of 16 + log2 32000 < 31 units, and the ten digits given here.
    CHECK(std::abs(static_cast<double>(probabilities(r, 0)) - e.probability) <=
          31 * 0x1p-24 * e.probability + 1e-10);
  }
}

TEST_SUITE_END();

}  // namespace softfold::test

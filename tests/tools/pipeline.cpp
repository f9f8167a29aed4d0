// SPDX-License-Identifier: Apache-2.0
// Blocks that go through memory of a device give the same results in the same order as blocks
// that do not, and nothing is left in flight when a step fails.
#include "support.hpp"

#include <pipeline.hpp>
#include <softfold/softfold.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>

using namespace softfold;
using namespace softfold::test;
using namespace softfold::tool;

TEST_SUITE_BEGIN("pipeline");

namespace {

// Blocks of 32 rows: 16 MiB in and out.
constexpr std::int64_t cols = 65535;
constexpr std::int64_t block_rows = 32;

struct collected {
  std::vector<std::byte> softmax;
  std::vector<std::byte> logsumexp;
  std::vector<std::int64_t> blocks;  // rows of each
};

void append(std::vector<std::byte>& to, const matrix_ref& m) {
  const auto* begin = static_cast<const std::byte*>(m.data);
  to.insert(to.end(), begin, begin + m.rows * m.cols * static_cast<std::int64_t>(size_of(m.type)));
}

block_work make_work(const npy_input& x, collected& all) {
  return {.results = {{x.type(), x.cols()}, {dtype::f32, 1}},
          .compute =
              [](queue& q, std::int64_t, const_matrix_ref block, block_results result) {
                softmax(q, block, result[0]);
                logsumexp(q, block, {result[1].data, dtype::f32, block.rows});
              },
          .take =
              [&all](block_results result) {
                append(all.softmax, result[0]);
                append(all.logsumexp, result[1]);
                all.blocks.push_back(result[0].rows);
              }};
}

npy_input written(const work_directory& directory, const array& x) {
  write_file(directory.path("x.npy"), npy_bytes(x));
  return {directory.path("x.npy").string(), false};
}

collected run(const npy_input& x, transfer copies) {
  collected all;
  int begun = 0;
  block_work work = make_work(x, all);
  work.begin = [&] {
    CHECK(all.blocks.empty());
    ++begun;
  };
  compute_blocks(x, {.threads = 1}, nullptr, work, copies);
  CHECK(begun == 1);
  return all;
}

}  // namespace

TEST_CASE("blocks through a device's memory: the same results in the same order") {
  for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, block_rows, block_rows + 1,
                                  2 * block_rows, 3 * block_rows + 5}) {
    CAPTURE(rows);
    const work_directory directory;
    const npy_input x = written(directory, random_array(dtype::f32, {rows, cols}, 71));
    const collected direct = run(x, transfer::automatic);
    const collected copied = run(x, transfer::always);
    CHECK(copied.blocks == direct.blocks);
    CHECK(static_cast<std::int64_t>(copied.blocks.size()) == (rows + block_rows - 1) / block_rows);
    CHECK(direct.softmax.size() == static_cast<std::size_t>(rows * cols) * sizeof(float));
    CHECK(copied.softmax == direct.softmax);
    CHECK(copied.logsumexp == direct.logsumexp);
  }
}

TEST_CASE("rows without elements go through a device's memory too") {
  const work_directory directory;
  const npy_input x = written(directory, random_array(dtype::f16, {5, 0}, 72));
  const collected copied = run(x, transfer::always);
  CHECK(copied.softmax.empty());
  CHECK(copied.logsumexp == run(x, transfer::automatic).logsumexp);
}

TEST_CASE("a failure between blocks ends the work") {
  const work_directory directory;
  const npy_input x = written(directory, random_array(dtype::f32, {4 * block_rows, cols}, 73));
  for (const transfer copies : {transfer::automatic, transfer::always}) {
    collected all;
    block_work work = make_work(x, all);
    int taken = 0;
    work.take = [&](block_results) {
      if (++taken == 2) {
        throw std::runtime_error("the disk is full");
      }
    };
    CHECK_THROWS_WITH(compute_blocks(x, {.threads = 1}, nullptr, work, copies), "the disk is full");
    CHECK(taken == 2);
  }
}

TEST_SUITE_END();

// SPDX-License-Identifier: Apache-2.0
// Rows too long for one place: each shard holds a range of columns of every row. A shard folds
// what it holds to one small state per row; the states combine in any order; then each shard
// normalizes its own columns. Here the shards are in one program; they may as well be files,
// processes or machines, for a state is two numbers.
#include <softfold/softfold.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <type_traits>
#include <vector>

using softfold::matrix_view;

namespace {

constexpr std::int64_t rows = 4;
constexpr std::int64_t cols = 100'000;
constexpr std::int64_t shards = 7;

// The columns of one shard, of all rows. The row stride stays that of the whole matrix.
template <class T>
matrix_view<T> shard_of(std::vector<std::remove_const_t<T>>& whole, std::int64_t shard) {
  const std::int64_t first = cols * shard / shards;
  const std::int64_t last = cols * (shard + 1) / shards;
  return {whole.data() + first, rows, last - first, cols};
}

}  // namespace

int main() {
  std::vector<float> x(rows * cols);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  std::ranges::generate(x, [&] { return normal(random); });

  softfold::queue queue;
  std::vector<softfold::max_sum<float>> states(rows);  // the identity: no elements yet
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    std::vector<softfold::max_sum<float>> part(rows);
    softfold::fold(queue, shard_of<const float>(x, shard), part);
    softfold::combine(queue, part, states);
  }
  std::vector<float> y(rows * cols);
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    softfold::normalize(queue, shard_of<const float>(x, shard), states, shard_of<float>(y, shard));
  }

  std::vector<float> whole(rows * cols);
  softfold::softmax(queue, matrix_view<const float>(x.data(), rows, cols),
                    matrix_view(whole.data(), rows, cols));
  queue.wait();

  double difference = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    difference = std::max(difference, std::abs(double{y[i]} / double{whole[i]} - 1));
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto& state = states[static_cast<std::size_t>(row)];
    std::printf("row %d: max %.3f, sum %.3f, logsumexp %.4f\n", static_cast<int>(row), state.max,
                state.sum, state.max + std::log(state.sum));
  }
  std::printf("%d shards against one call: largest relative difference %.1e\n",
              static_cast<int>(shards), difference);
  // Both are within (16 + log2 cols) 2^-24 of the exact value; see docs/semantics.md.
  return difference <= 2 * (16 + std::log2(double(cols))) * 0x1p-24 ? 0 : 1;
}

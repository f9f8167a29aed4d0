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
#include <vector>

namespace {

constexpr std::int64_t rows = 4;
constexpr std::int64_t cols = 100'000;
constexpr std::int64_t shards = 7;

using state = softfold::max_sum<float>;

// The columns of one shard, of all rows. The row stride stays that of the whole matrix.
softfold::matrix_view<float> shard_of(const softfold::buffer& whole, std::int64_t shard) {
  const std::int64_t first = cols * shard / shards;
  const std::int64_t last = cols * (shard + 1) / shards;
  return {whole.matrix<float>(rows, cols).data + first, rows, last - first, cols};
}

softfold::partials_ref states_in(const softfold::buffer& memory) {
  return {memory.data(), softfold::dtype::f32, rows};
}

// Uploads what the host has; memory of the queue's device, whatever it is.
template <class T>
softfold::buffer on_device(softfold::queue& queue, const std::vector<T>& values) {
  softfold::buffer memory(queue, values.size() * sizeof(T));
  memory.upload(queue, values.data(), memory.size());
  return memory;
}

}  // namespace

int main() {
  std::vector<float> elements(rows * cols);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  std::ranges::generate(elements, [&] { return normal(random); });
  std::vector<state> states(rows);  // the identity: no elements yet

  softfold::queue queue;
  const softfold::buffer x = on_device(queue, elements);
  const softfold::buffer total = on_device(queue, states);
  const softfold::buffer part(queue, total.size());
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    softfold::fold(queue, shard_of(x, shard), states_in(part));
    softfold::combine(queue, states_in(part), states_in(total));
  }
  const softfold::buffer y(queue, x.size());
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    softfold::normalize(queue, shard_of(x, shard), states_in(total), shard_of(y, shard));
  }

  const softfold::buffer y_whole(queue, x.size());
  softfold::softmax(queue, x.matrix<float>(rows, cols), y_whole.matrix<float>(rows, cols));

  std::vector<float> sharded(rows * cols);
  std::vector<float> whole(rows * cols);
  total.download(queue, states.data(), total.size());
  y.download(queue, sharded.data(), y.size());
  y_whole.download(queue, whole.data(), y_whole.size());
  queue.wait();

  double difference = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    difference = std::max(difference, std::abs(double{sharded[i]} / double{whole[i]} - 1));
  }
  for (std::size_t row = 0; row < states.size(); ++row) {
    std::printf("row %d: max %.3f, sum %.3f, logsumexp %.4f\n", static_cast<int>(row),
                states[row].max, states[row].sum, states[row].max + std::log(states[row].sum));
  }
  std::printf("%d shards against one call: largest relative difference %.1e\n",
              static_cast<int>(shards), difference);
  // Both are within (16 + log2 cols) 2^-24 of the exact value; see docs/semantics.md.
  return difference <= 2 * (16 + std::log2(double(cols))) * 0x1p-24 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// A vocabulary that is spread over the GPUs of one host: each holds some columns of every row of
// logits. One all-gather of small states by NCCL, combined on each GPU in the same order, gives
// every GPU the exact softmax of its own columns and the exact top-k of the whole rows. All of it
// is enqueued on one stream for each GPU; the host waits once, at the end.
//
//   example_nccl_sharded_vocabulary [GPUs]    (default: all)
//
// For the check at the end the first GPU also works on the whole matrix; a program would not.
#include "gpus.hpp"

#include <softfold/cuda.hpp>
#include <softfold/softfold.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using softfold::matrix_view;

namespace {

constexpr std::int64_t rows = 64;
constexpr std::int64_t cols = 128'256;
constexpr std::int64_t k = 10;

/// What a GPU knows of every row; NCCL gathers it as bytes.
struct row_states {
  softfold::max_sum<float> partials[rows];
  float values[rows * k];
  std::int64_t indices[rows * k];
};

/// One of them on the device.
struct device_states {
  std::byte* data;

  [[nodiscard]] softfold::partials_ref partials() const {
    return {data + offsetof(row_states, partials), softfold::dtype::f32, rows};
  }
  [[nodiscard]] matrix_view<float> values() const {
    return {reinterpret_cast<float*>(data + offsetof(row_states, values)), rows, k};
  }
  [[nodiscard]] matrix_view<std::int64_t> indices() const {
    return {reinterpret_cast<std::int64_t*>(data + offsetof(row_states, indices)), rows, k};
  }
};

/// A GPU with its share of the columns. The streams live as long as the program.
struct gpu {
  gpu(int device_, std::int64_t first_, std::int64_t own_, int gpus,
      const std::vector<float>& whole)
      : device(device_),
        first(first_),
        own(own_),
        stream(new_stream(device_)),
        queue(softfold::cuda::queue_on(stream)),
        x(queue, static_cast<std::size_t>(rows * own_) * sizeof(float)),
        y(queue, x.size()),
        gathered(queue, sizeof(row_states) * static_cast<std::size_t>(gpus)),
        mine(queue, sizeof(row_states)),
        chances(queue, rows * k * sizeof(float)) {
    for (std::int64_t r = 0; r < rows; ++r) {
      x.upload(queue, whole.data() + r * cols + first,
               static_cast<std::size_t>(own) * sizeof(float),
               static_cast<std::size_t>(r * own) * sizeof(float));
    }
  }

  [[nodiscard]] device_states state() const { return {static_cast<std::byte*>(mine.data())}; }
  [[nodiscard]] device_states gathered_state(int i) const {
    return {static_cast<std::byte*>(gathered.data()) +
            sizeof(row_states) * static_cast<std::size_t>(i)};
  }
  [[nodiscard]] matrix_view<const float> columns() const {
    return {static_cast<const float*>(x.data()), rows, own};
  }

  int device;
  std::int64_t first, own;
  cudaStream_t stream;
  softfold::queue queue;
  softfold::buffer x, y, gathered, mine, chances;
};

/// Logits with ties across GPUs and rows that are not ordinary.
std::vector<float> make_logits() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(rows * cols);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  std::generate(x.begin(), x.end(), [&] { return normal(random); });
  const auto row = [&](std::int64_t r) { return x.begin() + r * cols; };
  for (std::int64_t c = 0; c < cols; ++c) {
    row(1)[c] = static_cast<float>(c % 3);  // the top k is a matter of ties alone
  }
  std::fill(row(2), row(3), -infinity);
  std::fill(row(3), row(3) + cols - 2, -infinity);
  row(4)[cols / 2] = std::nanf("");
  row(5)[cols - 1] = infinity;
  return x;
}

template <class T>
std::vector<T> on_host(softfold::queue& q, const softfold::buffer& memory) {
  std::vector<T> host(memory.size() / sizeof(T));
  memory.download(q, host.data(), memory.size());
  q.wait();
  return host;
}

bool same(float found, float expected, int gpus) {
  // Both within (16 + log2 cols) 2^-24 of the exact value, and 2 * 2^-24 more per combine.
  const double bound = (2 * (16 + std::log2(double(cols))) + 2 * gpus) * 0x1p-24;
  const double a = found;
  const double b = expected;
  return std::isnan(b) ? std::isnan(a) : std::abs(a - b) <= bound * b + 1e-37;
}

int run(int gpus) {
  const std::vector<float> logits = make_logits();
  std::vector<gpu> all;
  all.reserve(static_cast<std::size_t>(gpus));
  for (int i = 0; i < gpus; ++i) {
    const std::int64_t first = cols * i / gpus;
    all.emplace_back(i, first, cols * (i + 1) / gpus - first, gpus, logits);
  }
  const communicators between(gpus);

  for (gpu& g : all) {
    check(cudaSetDevice(g.device));
    softfold::fold_topk(g.queue, g.columns(), g.state().partials(), g.state().values(),
                        g.state().indices(), {.column_offset = g.first});
  }
  between.all_gather(all, sizeof(row_states));
  for (gpu& g : all) {
    check(cudaSetDevice(g.device));
    const device_states whole = g.gathered_state(0);
    for (int i = 1; i < gpus; ++i) {
      const device_states more = g.gathered_state(i);
      softfold::combine(g.queue, more.partials(), whole.partials());
      softfold::combine_topk(g.queue, more.values(), more.indices(), whole.values(),
                             whole.indices());
    }
    softfold::normalize(g.queue, g.columns(), whole.partials(),
                        matrix_view<float>(static_cast<float*>(g.y.data()), rows, g.own));
    softfold::normalize(g.queue, whole.values(), whole.partials(),
                        matrix_view<float>(static_cast<float*>(g.chances.data()), rows, k));
  }
  for (gpu& g : all) {
    g.queue.wait();
  }

  // The check: one call on the whole matrix, on the first GPU.
  check(cudaSetDevice(0));
  softfold::queue& q = all[0].queue;
  softfold::buffer x(q, logits.size() * sizeof(float));
  x.upload(q, logits.data(), x.size());
  const softfold::buffer y(q, x.size());
  const softfold::buffer chances(q, rows * k * sizeof(float));
  const softfold::buffer indices(q, rows * k * sizeof(std::int64_t));
  const matrix_view<const float> whole(static_cast<const float*>(x.data()), rows, cols);
  softfold::softmax(q, whole, matrix_view<float>(static_cast<float*>(y.data()), rows, cols));
  softfold::softmax_topk(
      q, whole, matrix_view<float>(static_cast<float*>(chances.data()), rows, k),
      matrix_view<std::int64_t>(static_cast<std::int64_t*>(indices.data()), rows, k));
  const auto expected = on_host<float>(q, y);
  const auto expected_chances = on_host<float>(q, chances);
  const auto expected_indices = on_host<std::int64_t>(q, indices);

  int failures = 0;
  for (gpu& g : all) {
    check(cudaSetDevice(g.device));
    const auto columns = on_host<float>(g.queue, g.y);
    const auto probabilities = on_host<float>(g.queue, g.chances);
    std::vector<std::int64_t> found(rows * k);
    g.gathered.download(g.queue, found.data(), found.size() * sizeof(std::int64_t),
                        offsetof(row_states, indices));
    g.queue.wait();
    failures += found == expected_indices ? 0 : 1;
    for (std::size_t i = 0; i < probabilities.size(); ++i) {
      failures += same(probabilities[i], expected_chances[i], gpus) ? 0 : 1;
    }
    for (std::int64_t i = 0; i < rows * g.own; ++i) {
      const std::int64_t at = i / g.own * cols + g.first + i % g.own;
      failures +=
          same(columns[static_cast<std::size_t>(i)], expected[static_cast<std::size_t>(at)], gpus)
              ? 0
              : 1;
    }
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  return run_on_gpus(argc, argv, run, "results differ from one call on the whole matrix");
}

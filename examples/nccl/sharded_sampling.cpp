// SPDX-License-Identifier: Apache-2.0
// The next tokens from a vocabulary that is spread over the GPUs of one host: each holds some
// columns of every row of logits. One all-gather of small states by NCCL gives every GPU the tokens
// that sample() draws from the whole rows; no logits are gathered. All of it is enqueued on one
// stream for each GPU; the host waits once, at the end.
//
//   example_nccl_sharded_sampling [GPUs]    (default: all)
//
// For the check at the end the first GPU also works on the whole matrix; a program would not.
#include "gpus.hpp"

#include <softfold/cuda.hpp>
#include <softfold/softfold.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using softfold::matrix_view;

namespace {

constexpr std::int64_t rows = 64;
constexpr std::int64_t cols = 128'256;
constexpr std::int64_t k = 40;

/// What a GPU knows of every row; NCCL gathers it as bytes.
struct row_states {
  softfold::sample_state states[rows];
  float values[rows * k];
  std::int64_t indices[rows * k];
};

/// One of them on the device.
struct device_states {
  std::byte* data;

  [[nodiscard]] softfold::sample_states_ref states() const {
    return {reinterpret_cast<softfold::sample_state*>(data + offsetof(row_states, states)), rows};
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
        gathered(queue, sizeof(row_states) * static_cast<std::size_t>(gpus)),
        mine(queue, sizeof(row_states)),
        tokens(queue, rows * sizeof(std::int64_t)) {
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
  softfold::buffer x, gathered, mine, tokens;
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
    row(1)[c] = static_cast<float>(c % 3);
  }
  std::fill(row(2), row(3), -infinity);
  std::fill(row(3), row(3) + cols - 2, -infinity);
  row(4)[cols / 2] = std::nanf("");
  row(5)[cols - 1] = infinity;
  return x;
}

std::vector<std::int64_t> tokens_of(softfold::queue& q, const softfold::buffer& memory) {
  std::vector<std::int64_t> host(rows);
  memory.download(q, host.data(), memory.size());
  q.wait();
  return host;
}

/// Draws one token for every row on every GPU, and counts what differs from one call on the whole
/// matrix, which is on the first.
int draw(std::vector<gpu>& all, const communicators& between, const softfold::buffer& whole,
         softfold::fold_sample_options how) {
  for (gpu& g : all) {
    check(cudaSetDevice(g.device));
    how.column_offset = g.first;
    softfold::fold_sample(g.queue, g.columns(), g.state().states(), g.state().values(),
                          g.state().indices(), how);
  }
  between.all_gather(all, sizeof(row_states));
  for (gpu& g : all) {
    check(cudaSetDevice(g.device));
    const device_states row = g.gathered_state(0);
    for (int i = 1; i < static_cast<int>(all.size()); ++i) {
      const device_states more = g.gathered_state(i);
      softfold::combine_sample(g.queue, more.states(), more.values(), more.indices(), row.states(),
                               row.values(), row.indices());
    }
    softfold::finish_sample(g.queue, row.states(), row.values(), row.indices(),
                            {g.tokens.data(), softfold::dtype::i64, rows});
  }

  check(cudaSetDevice(0));
  softfold::queue& q = all[0].queue;
  const softfold::buffer tokens(q, rows * sizeof(std::int64_t));
  softfold::sample(
      q, matrix_view<const float>(static_cast<const float*>(whole.data()), rows, cols),
      matrix_view<std::int64_t>(static_cast<std::int64_t*>(tokens.data()), rows, 1),
      {.temperature = how.temperature, .top_k = how.top_k, .top_p = how.top_p, .seed = how.seed});
  const std::vector<std::int64_t> expected = tokens_of(q, tokens);
  int failures = 0;
  for (gpu& g : all) {
    check(cudaSetDevice(g.device));
    const std::vector<std::int64_t> found = tokens_of(g.queue, g.tokens);
    for (std::size_t r = 0; r < rows; ++r) {
      failures += found[r] == expected[r] ? 0 : 1;
    }
  }
  return failures;
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
  check(cudaSetDevice(0));
  softfold::buffer whole(all[0].queue, logits.size() * sizeof(float));
  whole.upload(all[0].queue, logits.data(), whole.size());

  int failures = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    failures += draw(all, between, whole, {.temperature = 0.8, .seed = seed});
    failures += draw(all, between, whole, {.top_k = k, .top_p = 0.95, .seed = seed});
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  return run_on_gpus(argc, argv, run, "tokens differ from one call on the whole matrix");
}

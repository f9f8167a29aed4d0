// SPDX-License-Identifier: Apache-2.0
// The next tokens from a vocabulary that is spread over MPI ranks: each holds some columns of every
// row of logits. One all-gather of small states gives every rank the tokens that sample() draws
// from the whole rows, and their log-probabilities; no logits are gathered.
//
//   mpirun -n 4 example_mpi_sharded_sampling
//
// For the check at the end every rank also makes the whole matrix; a program would not.
#include "ranks.hpp"

#include <softfold/softfold.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

using softfold::matrix_view;

namespace {

constexpr std::int64_t rows = 6;
constexpr std::int64_t cols = 50'000;
constexpr std::int64_t k = 40;

/// What a rank knows of every row.
struct row_states {
  softfold::sample_state states[rows];
  float values[rows * k];
  std::int64_t indices[rows * k];
};

/// The same in memory of the queue's device, where the library's calls work.
class device_states {
 public:
  explicit device_states(softfold::queue& q) : memory_(q, sizeof(row_states)) {}

  [[nodiscard]] softfold::sample_states_ref states() const {
    return {static_cast<softfold::sample_state*>(at(offsetof(row_states, states))), rows};
  }
  [[nodiscard]] matrix_view<float> values() const {
    return {static_cast<float*>(at(offsetof(row_states, values))), rows, k};
  }
  [[nodiscard]] matrix_view<std::int64_t> indices() const {
    return {static_cast<std::int64_t*>(at(offsetof(row_states, indices))), rows, k};
  }
  void upload(softfold::queue& q, const row_states& from) {
    memory_.upload(q, &from, sizeof(row_states));
  }
  void download(softfold::queue& q, row_states& to) const {
    memory_.download(q, &to, sizeof(row_states));
    q.wait();
  }

 private:
  [[nodiscard]] void* at(std::size_t offset) const {
    return static_cast<std::byte*>(memory_.data()) + offset;
  }
  softfold::buffer memory_;
};

/// Logits that every rank makes alike, with ties across ranks and rows that are not ordinary.
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
  std::fill(row(3), row(3) + cols - 2, -infinity);  // all but the last rank's last two
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

/// Draws one token for every row, `how` from this rank's columns alone, and counts what differs
/// from one call on the whole matrix.
int draw(softfold::queue& q, const softfold::buffer& whole, int rank, int ranks,
         softfold::fold_sample_options how, bool says) {
  const std::int64_t first = cols * rank / ranks;
  const std::int64_t own = cols * (rank + 1) / ranks - first;
  const auto* const logits = static_cast<const float*>(whole.data());
  const matrix_view<const float> part(logits + first, rows, own,
                                      cols);  // what this rank would hold

  device_states states(q);
  device_states more(q);
  how.column_offset = first;
  softfold::fold_sample(q, part, states.states(), states.values(), states.indices(), how);
  row_states mine;
  states.download(q, mine);
  std::vector<row_states> all(static_cast<std::size_t>(ranks));
  MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
  states.upload(q, all[0]);
  for (std::size_t i = 1; i < all.size(); ++i) {
    more.upload(q, all[i]);
    softfold::combine_sample(q, more.states(), more.values(), more.indices(), states.states(),
                             states.values(), states.indices());
  }
  const softfold::buffer tokens(q, rows * sizeof(std::int64_t));
  const softfold::buffer logs(q, rows * sizeof(float));
  softfold::finish_sample(
      q, states.states(), states.values(), states.indices(),
      {tokens.data(), softfold::dtype::i64, rows},
      {.log_probability = softfold::vector_ref(logs.data(), softfold::dtype::f32, rows)});
  const auto found = on_host<std::int64_t>(q, tokens);
  const auto found_logs = on_host<float>(q, logs);

  // The check: one call on the whole matrix.
  softfold::sample(
      q, matrix_view<const float>(logits, rows, cols),
      matrix_view<std::int64_t>(static_cast<std::int64_t*>(tokens.data()), rows, 1),
      {.temperature = how.temperature,
       .top_k = how.top_k,
       .top_p = how.top_p,
       .seed = how.seed,
       .log_probability = matrix_view<float>(static_cast<float*>(logs.data()), rows, 1)});
  const auto expected = on_host<std::int64_t>(q, tokens);
  const auto expected_logs = on_host<float>(q, logs);
  int failures = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const double a = found_logs[r];
    const double b = expected_logs[r];
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) < 1e-6;
    failures += found[r] == expected[r] && same ? 0 : 1;
    if (rank == 0 && says) {
      std::printf("row %d: token %6d, log-probability %.4f\n", static_cast<int>(r),
                  static_cast<int>(found[r]), a);
    }
  }
  return failures;
}

int run(int rank, int ranks) {
  const std::vector<float> logits = make_logits();
  softfold::queue q;
  softfold::buffer whole(q, logits.size() * sizeof(float));
  whole.upload(q, logits.data(), whole.size());
  int failures = draw(q, whole, rank, ranks, {.temperature = 0.8, .seed = 7}, true);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    failures += draw(q, whole, rank, ranks, {.seed = seed}, false);
    failures += draw(q, whole, rank, ranks, {.top_k = k, .top_p = 0.95, .seed = seed}, false);
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) { return run_on_ranks(argc, argv, run, "the whole matrix"); }

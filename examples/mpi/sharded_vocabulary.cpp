// SPDX-License-Identifier: Apache-2.0
// A vocabulary that is spread over MPI ranks: each holds some columns of every row of logits. One
// all-reduce of small states, whose MPI_Op is the library's combine, gives every rank the exact
// softmax of its own columns and the exact top-k of the whole rows, with their probabilities.
//
//   mpirun -n 4 example_mpi_sharded_vocabulary
//
// For the check at the end every rank also makes the whole matrix; a program would not.
#include "ranks.hpp"

#include <softfold/softfold.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using softfold::matrix_view;

namespace {

constexpr std::int64_t rows = 6;
constexpr std::int64_t cols = 50'000;
constexpr std::int64_t k = 10;

/// What a rank knows of every row: MPI sends and combines it whole, as one element.
struct row_states {
  softfold::max_sum<float> partials[rows];
  float values[rows * k];
  std::int64_t indices[rows * k];
};

/// The same in memory of the queue's device, where the library's calls work.
class device_states {
 public:
  explicit device_states(softfold::queue& q) : memory_(q, sizeof(row_states)) {}

  [[nodiscard]] softfold::partials_ref partials() const {
    return {at(offsetof(row_states, partials)), softfold::dtype::f32, rows};
  }
  [[nodiscard]] matrix_view<float> values() const {
    return {static_cast<float*>(at(offsetof(row_states, values))), rows, k};
  }
  [[nodiscard]] matrix_view<std::int64_t> indices() const {
    return {static_cast<std::int64_t*>(at(offsetof(row_states, indices))), rows, k};
  }
  void upload(softfold::queue& q, const void* from) { memory_.upload(q, from, sizeof(row_states)); }
  void download(softfold::queue& q, void* to) const {
    memory_.download(q, to, sizeof(row_states));
    q.wait();
  }

 private:
  [[nodiscard]] void* at(std::size_t offset) const {
    return static_cast<std::byte*>(memory_.data()) + offset;
  }
  softfold::buffer memory_;
};

/// The MPI_Op: inout = in + inout. MPI is C: nothing may be thrown through it.
void combine_states(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  try {
    softfold::queue q;
    device_states more(q);
    device_states states(q);
    for (int i = 0; i < *count; ++i) {
      auto* const to = static_cast<row_states*>(inout) + i;
      more.upload(q, static_cast<row_states*>(in) + i);
      states.upload(q, to);
      softfold::combine(q, more.partials(), states.partials());
      softfold::combine_topk(q, more.values(), more.indices(), states.values(), states.indices());
      states.download(q, to);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "combine: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

/// Logits that every rank makes alike, with ties across ranks and rows that are not ordinary.
std::vector<float> make_logits() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(rows * cols);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  for (float& value : x) {
    value = normal(random);
  }
  const auto row = [&](std::int64_t r) { return x.begin() + r * cols; };
  for (std::int64_t c = 0; c < cols; ++c) {
    row(1)[c] = static_cast<float>(c % 3);  // the top k is a matter of ties alone
  }
  std::fill(row(2), row(3), -infinity);
  std::fill(row(3), row(3) + cols - 2, -infinity);  // all but the last rank's last two
  row(4)[cols / 2] = std::nanf("");
  row(5)[cols - 1] = infinity;
  return x;
}

template <class T>
softfold::buffer on_device(softfold::queue& q, const std::vector<T>& host) {
  softfold::buffer memory(q, host.size() * sizeof(T));
  memory.upload(q, host.data(), memory.size());
  return memory;
}

template <class T>
std::vector<T> on_host(softfold::queue& q, const softfold::buffer& memory) {
  std::vector<T> host(memory.size() / sizeof(T));
  memory.download(q, host.data(), memory.size());
  q.wait();
  return host;
}

template <class T>
matrix_view<T> matrix(const softfold::buffer& memory, std::int64_t columns,
                      std::int64_t first = 0) {
  return {static_cast<T*>(memory.data()) + first, rows, columns,
          static_cast<std::int64_t>(memory.size() / sizeof(T)) / rows};
}

/// How many of `found` are not what one call on the whole row says. Both are within
/// (16 + log2 cols) 2^-24 of the exact value, the combined ones within 2 * 2^-24 more per combine.
int wrong(const std::vector<float>& found, const float* expected, int ranks) {
  const double bound = (2 * (16 + std::log2(double(cols))) + 2 * ranks) * 0x1p-24;
  int count = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double a = found[i];
    const double b = expected[i];
    const bool same = std::isnan(b) ? std::isnan(a) : std::abs(a - b) <= bound * b + 1e-37;
    count += same ? 0 : 1;
  }
  return count;
}

int run(int rank, int ranks) {
  const std::vector<float> logits = make_logits();
  const std::int64_t first = cols * rank / ranks;
  const std::int64_t own = cols * (rank + 1) / ranks - first;

  softfold::queue q;
  const softfold::buffer whole = on_device(q, logits);
  const auto part = matrix<const float>(whole, own, first);  // what this rank would hold

  device_states states(q);
  softfold::fold_topk(q, part, states.partials(), states.values(), states.indices(),
                      {.column_offset = first});
  row_states mine;
  states.download(q, &mine);

  const row_states all = reduced_over_ranks(mine, combine_states);

  states.upload(q, &all);
  const softfold::buffer y(q, static_cast<std::size_t>(rows * own) * sizeof(float));
  const softfold::buffer chances(q, rows * k * sizeof(float));
  softfold::normalize(q, part, states.partials(), matrix<float>(y, own));
  softfold::normalize(q, states.values(), states.partials(), matrix<float>(chances, k));
  const std::vector<float> columns = on_host<float>(q, y);
  const std::vector<float> probabilities = on_host<float>(q, chances);

  // The check: one call on the whole matrix.
  const softfold::buffer whole_y(q, rows * cols * sizeof(float));
  const softfold::buffer whole_chances(q, rows * k * sizeof(float));
  const softfold::buffer whole_indices(q, rows * k * sizeof(std::int64_t));
  softfold::softmax(q, matrix<const float>(whole, cols), matrix<float>(whole_y, cols));
  softfold::softmax_topk(q, matrix<const float>(whole, cols), matrix<float>(whole_chances, k),
                         matrix<std::int64_t>(whole_indices, k));
  const auto expected = on_host<float>(q, whole_y);
  const auto expected_chances = on_host<float>(q, whole_chances);
  const auto expected_indices = on_host<std::int64_t>(q, whole_indices);
  int failures = wrong(probabilities, expected_chances.data(), ranks);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::vector<float> row(columns.begin() + r * own, columns.begin() + (r + 1) * own);
    failures += wrong(row, expected.data() + r * cols + first, ranks);
  }
  failures += std::memcmp(all.indices, expected_indices.data(), sizeof all.indices) == 0 ? 0 : 1;

  if (rank == 0) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::printf("row %d: best column %6d, probability %.4f\n", static_cast<int>(r),
                  static_cast<int>(all.indices[r * k]),
                  double{probabilities[static_cast<std::size_t>(r * k)]});
    }
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) { return run_on_ranks(argc, argv, run, "the whole matrix"); }

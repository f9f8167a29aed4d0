// SPDX-License-Identifier: Apache-2.0
// Keys and values that are spread over MPI ranks, as of a context too long for one device: each
// rank folds the attention of all queries over its own keys. One all-reduce of the states (m, d,
// o), whose MPI_Op is the library's combine, then gives every rank the attention over all keys.
//
//   mpirun -n 4 example_mpi_sharded_keys
//
// For the check at the end every rank also makes all keys; a program would not.
#include "ranks.hpp"

#include <softfold/attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <vector>

using softfold::dtype;

namespace {

constexpr std::int64_t batches = 2;
constexpr std::int64_t heads = 4;
constexpr std::int64_t key_heads = 2;  // two query heads share one
constexpr std::int64_t queries = 3;
constexpr std::int64_t keys = 5'000;
constexpr std::int64_t dim = 64;
constexpr std::int64_t rows = batches * heads * queries;
/// Sequences may be shorter than the tensors; what K and V hold beyond reaches nothing.
constexpr std::int64_t lengths[batches] = {keys, keys - 1'303};

/// What a rank knows of every query: MPI sends and combines it whole, as one element.
struct attention_states {
  softfold::max_sum<float> states[rows];
  float weighted[rows * dim];
};

/// The same in memory of the queue's device, where the library's calls work.
class device_states {
 public:
  explicit device_states(softfold::queue& q) : memory_(q, sizeof(attention_states)) {}

  [[nodiscard]] softfold::partials_ref states() const {
    return {at(offsetof(attention_states, states)), dtype::f32, rows};
  }
  [[nodiscard]] softfold::tensor_view<float> weighted() const {
    return {static_cast<float*>(at(offsetof(attention_states, weighted))), batches, heads, queries,
            dim};
  }
  void upload(softfold::queue& q, const void* from) {
    memory_.upload(q, from, sizeof(attention_states));
  }
  void download(softfold::queue& q, void* to) const {
    memory_.download(q, to, sizeof(attention_states));
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
      auto* const to = static_cast<attention_states*>(inout) + i;
      more.upload(q, static_cast<attention_states*>(in) + i);
      states.upload(q, to);
      softfold::combine(q, more.states(), more.weighted(), states.states(), states.weighted());
      states.download(q, to);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "combine: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

/// Numbers that every rank makes alike.
std::vector<float> make_tokens(std::int64_t count, unsigned seed) {
  std::vector<float> x(static_cast<std::size_t>(count * dim));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 1.5F);
  for (float& value : x) {
    value = normal(random);
  }
  return x;
}

std::vector<float> make_keys(unsigned seed) {
  std::vector<float> x = make_tokens(batches * key_heads * keys, seed);
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t h = 0; h < key_heads; ++h) {
      const auto head = x.begin() + (b * key_heads + h) * keys * dim;
      std::fill(head + lengths[b] * dim, head + keys * dim, std::nanf(""));
    }
  }
  return x;
}

template <class T>
softfold::buffer on_device(softfold::queue& q, const T* host, std::size_t count) {
  softfold::buffer memory(q, count * sizeof(T));
  memory.upload(q, host, memory.size());
  return memory;
}

std::vector<float> on_host(softfold::queue& q, const softfold::buffer& memory) {
  std::vector<float> host(memory.size() / sizeof(float));
  memory.download(q, host.data(), memory.size());
  q.wait();
  return host;
}

/// `count` tokens of every head, from the first on, of all that the buffer holds.
softfold::tensor_view<float> part(const softfold::buffer& memory, std::int64_t first,
                                  std::int64_t count) {
  return {static_cast<float*>(memory.data()) + first * dim,
          batches,
          key_heads,
          count,
          dim,
          key_heads * keys * dim,
          keys * dim,
          dim};
}

/// How many of `found` are not what one call on all keys says. Values are weighted means of numbers
/// below 8; both are within some 40 2^-24 of them (docs/attention.md).
int wrong(const std::vector<float>& found, const std::vector<float>& expected) {
  int count = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    count += std::abs(double{found[i]} - double{expected[i]}) <= 8 * 200 * 0x1p-24 ? 0 : 1;
  }
  return count;
}

int run(int rank, int ranks) {
  const std::int64_t first = keys * rank / ranks;
  const std::int64_t own = keys * (rank + 1) / ranks - first;

  softfold::queue q;
  const std::vector<float> host_queries = make_tokens(rows, 1);
  const std::vector<float> host_keys = make_keys(2);
  const std::vector<float> host_values = make_keys(3);
  const softfold::buffer query_memory = on_device(q, host_queries.data(), host_queries.size());
  const softfold::buffer key_memory = on_device(q, host_keys.data(), host_keys.size());
  const softfold::buffer value_memory = on_device(q, host_values.data(), host_values.size());
  const softfold::buffer length_memory = on_device(q, lengths, batches);
  const softfold::tensor_view<float> query(static_cast<float*>(query_memory.data()), batches, heads,
                                           queries, dim);
  softfold::attention_options options;
  options.corner = softfold::causal::bottom_right;
  options.key_lengths = {length_memory.data(), dtype::i64, batches};  // of the whole sequences

  device_states states(q);
  softfold::attention_options of_part = options;
  of_part.key_offset = first;
  softfold::fold_attention(q, query, part(key_memory, first, own), part(value_memory, first, own),
                           states.states(), states.weighted(), of_part);
  attention_states mine;
  states.download(q, &mine);

  const attention_states all = reduced_over_ranks(mine, combine_states);

  states.upload(q, &all);
  const softfold::buffer out(q, rows * dim * sizeof(float));
  const softfold::tensor_view<float> out_view(static_cast<float*>(out.data()), batches, heads,
                                              queries, dim);
  softfold::normalize(q, states.states(), states.weighted(), out_view);
  const std::vector<float> found = on_host(q, out);

  // The check: one call on all keys.
  softfold::attention(q, query, part(key_memory, 0, keys), part(value_memory, 0, keys), out_view,
                      options);
  const int failures = wrong(found, on_host(q, out));
  if (rank == 0) {
    std::printf("%d queries of %d keys; the first value is %.5f\n", static_cast<int>(rows),
                static_cast<int>(keys), double{found[0]});
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) { return run_on_ranks(argc, argv, run, "all keys"); }

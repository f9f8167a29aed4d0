// SPDX-License-Identifier: Apache-2.0
// Keys and values that are spread over MPI ranks, as of a context too long for one device: each
// rank folds the attention of all queries over its own keys. One all-reduce of the states (m, d,
// o), whose MPI_Op is the library's combine, then gives every rank the attention over all keys.
//
//   mpirun -n 4 example_mpi_sharded_keys
//
// For the check at the end every rank also makes all keys; a program would not.
#include "ranks.hpp"

#include "../sharded_keys.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

namespace {

/// The MPI_Op: inout = in + inout. MPI is C: nothing may be thrown through it.
void combine_states(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  try {
    softfold::queue q;
    softfold::buffer memory(q, 2 * sizeof(attention_states));
    auto* const bytes = static_cast<std::byte*>(memory.data());
    const device_states more{bytes};
    const device_states states{bytes + sizeof(attention_states)};
    for (int i = 0; i < *count; ++i) {
      auto* const to = static_cast<attention_states*>(inout) + i;
      memory.upload(q, static_cast<attention_states*>(in) + i, sizeof(attention_states));
      memory.upload(q, to, sizeof(attention_states), sizeof(attention_states));
      softfold::combine(q, more.states(), more.weighted(), states.states(), states.weighted());
      memory.download(q, to, sizeof(attention_states), sizeof(attention_states));
      q.wait();
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "combine: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
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
  const softfold::tensor_view<float> query = view_of_queries(query_memory);
  softfold::attention_options options;
  options.corner = softfold::causal::bottom_right;
  options.key_lengths = {length_memory.data(), softfold::dtype::i64, batches};  // of all keys

  softfold::buffer state_memory(q, sizeof(attention_states));
  const device_states states{static_cast<std::byte*>(state_memory.data())};
  softfold::attention_options of_part = options;
  of_part.key_offset = first;
  softfold::fold_attention(q, query, part(key_memory, first, own), part(value_memory, first, own),
                           states.states(), states.weighted(), of_part);
  attention_states mine;
  state_memory.download(q, &mine, sizeof mine);
  q.wait();

  const attention_states all = reduced_over_ranks(mine, combine_states);

  state_memory.upload(q, &all, sizeof all);
  const softfold::buffer out(q, rows * dim * sizeof(float));
  softfold::normalize(q, states.states(), states.weighted(), view_of_queries(out));
  const std::vector<float> found = on_host(q, out);

  // The check: one call on all keys.
  softfold::attention(q, query, part(key_memory, 0, keys), part(value_memory, 0, keys),
                      view_of_queries(out), options);
  const int failures = wrong(found, on_host(q, out));
  if (rank == 0) {
    std::printf("%d queries of %d keys; the first value is %.5f\n", static_cast<int>(rows),
                static_cast<int>(keys), double{found[0]});
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) { return run_on_ranks(argc, argv, run, "all keys"); }

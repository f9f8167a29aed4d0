// SPDX-License-Identifier: Apache-2.0
// Keys and values that are spread over the GPUs of one host, as of a context too long for one: each
// folds the attention of all queries over its own keys. One all-gather of the states (m, d, o) by
// NCCL, combined on each GPU in the same order, gives every GPU the attention over all keys. All of
// it is enqueued on one stream for each GPU; the host waits once, at the end.
//
//   example_nccl_sharded_keys [GPUs]    (default: all)
//
// For the check at the end every GPU has all keys; in a program it would have its own alone.
#include "gpus.hpp"

#include "../sharded_keys.hpp"

#include <softfold/cuda.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

/// A GPU with its share of the keys. The streams live as long as the program.
struct gpu {
  gpu(int device_, int gpus)
      : device(device_),
        first(keys * device_ / gpus),
        own(keys * (device_ + 1) / gpus - first),
        stream(new_stream(device_)),
        queue(softfold::cuda::queue_on(stream)),
        query(on_device(make_tokens(rows, 1))),
        key(on_device(make_keys(2))),
        value(on_device(make_keys(3))),
        length(::on_device(queue, lengths, batches)),
        mine(queue, sizeof(attention_states)),
        gathered(queue, sizeof(attention_states) * static_cast<std::size_t>(gpus)),
        out(queue, rows * dim * sizeof(float)) {}

  [[nodiscard]] softfold::attention_options options() const {
    softfold::attention_options o;
    o.corner = softfold::causal::bottom_right;
    o.key_lengths = {length.data(), softfold::dtype::i64, batches};  // of all keys
    return o;
  }
  [[nodiscard]] device_states gathered_state(int i) const {
    return {static_cast<std::byte*>(gathered.data()) +
            sizeof(attention_states) * static_cast<std::size_t>(i)};
  }

  int device;
  std::int64_t first, own;
  cudaStream_t stream;
  softfold::queue queue;
  softfold::buffer query, key, value, length, mine, gathered, out;

 private:
  softfold::buffer on_device(const std::vector<float>& host) {
    softfold::buffer memory = ::on_device(queue, host.data(), host.size());
    queue.wait();
    return memory;
  }
};

int run(int gpus) {
  std::vector<gpu> all;
  all.reserve(static_cast<std::size_t>(gpus));
  for (int i = 0; i < gpus; ++i) {
    all.emplace_back(i, gpus);
  }
  const communicators between(gpus);

  for (gpu& g : all) {
    check(cudaSetDevice(g.device));
    softfold::attention_options of_part = g.options();
    of_part.key_offset = g.first;
    const device_states mine{static_cast<std::byte*>(g.mine.data())};
    softfold::fold_attention(g.queue, view_of_queries(g.query), part(g.key, g.first, g.own),
                             part(g.value, g.first, g.own), mine.states(), mine.weighted(),
                             of_part);
  }
  between.all_gather(all, sizeof(attention_states));
  for (gpu& g : all) {
    check(cudaSetDevice(g.device));
    const device_states whole = g.gathered_state(0);
    for (int i = 1; i < gpus; ++i) {
      const device_states more = g.gathered_state(i);
      softfold::combine(g.queue, more.states(), more.weighted(), whole.states(), whole.weighted());
    }
    softfold::normalize(g.queue, whole.states(), whole.weighted(), view_of_queries(g.out));
  }

  int failures = 0;
  for (gpu& g : all) {
    check(cudaSetDevice(g.device));
    const std::vector<float> found = on_host(g.queue, g.out);
    // The check: one call on all keys.
    softfold::attention(g.queue, view_of_queries(g.query), part(g.key, 0, keys),
                        part(g.value, 0, keys), view_of_queries(g.out), g.options());
    failures += wrong(found, on_host(g.queue, g.out));
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  return run_on_gpus(argc, argv, run, "results differ from one call on all keys");
}

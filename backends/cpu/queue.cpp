// SPDX-License-Identifier: Apache-2.0
#include "queue_state.hpp"

#include <backends/host/launch.hpp>
#include <core/launch.hpp>

#include <softfold/error.hpp>

#include <tbb/blocked_range.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace softfold {
inline namespace cpu {
namespace {

int thread_count(int requested) {
  if (requested < 0) {
    throw error(errc::invalid_argument,
                "queue: options.threads is " + std::to_string(requested) + ", expected 0 or more");
  }
  return requested == 0 ? tbb::info::default_concurrency() : requested;
}

}  // namespace

queue::state::state(const queue_options& options)
    : executor(host::read_machine(), host::choose_kernels(std::getenv("SOFTFOLD_ISA"))),
      arena(thread_count(options.threads)) {
  threads = arena.max_concurrency();
  info = {.backend = "cpu",
          .device = machine.processor,
          .isa = kernels.isa,
          .threads = threads,
          .l1_bytes = machine.l1_bytes,
          .l2_bytes = machine.l2_bytes,
          .l3_bytes = machine.l3_bytes};
  constexpr auto parallelism = tbb::global_control::max_allowed_parallelism;
  if (const auto wanted = static_cast<std::size_t>(threads);
      wanted > tbb::global_control::active_value(parallelism)) {
    more_threads.emplace(parallelism, wanted);
  }
}

void queue::state::run(void (*work)(void* argument, int slot), void* argument) {
  arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<int>(0, threads, 1),
        [&](const tbb::blocked_range<int>&) {
          work(argument, tbb::this_task_arena::current_thread_index());
        },
        tbb::simple_partitioner{});
  });
}

queue::queue() : queue(queue_options{}) {}
queue::queue(const queue_options& options) : state_(std::make_unique<state>(options)) {}
queue::queue(std::unique_ptr<state> made) : state_(std::move(made)) {}
queue::~queue() = default;
queue::queue(queue&& other) noexcept = default;
queue& queue::operator=(queue&& other) noexcept = default;

void queue::wait() {}
void queue::reserve(std::size_t bytes) { state_->scratch.at_least(bytes); }
const device_info& queue::info() const noexcept { return state_->info; }

void launch(queue& q, const core::row_problem& p) { host::launch(q.self(), p); }
void launch(queue& q, const core::topk_problem& p) { host::launch(q.self(), p); }
void launch(queue& q, const core::fold_problem& p) { host::launch(q.self(), p); }
void launch(queue& q, const core::combine_problem& p) { host::launch(q.self(), p); }
void launch(queue& q, const core::normalize_problem& p) { host::launch(q.self(), p); }
void launch(queue& q, const core::state_problem& p) { host::launch(q.self(), p); }
void launch(queue& q, const core::lists_problem& p) { host::launch(q.self(), p); }

}  // namespace cpu
}  // namespace softfold

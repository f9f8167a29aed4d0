// SPDX-License-Identifier: Apache-2.0
#include "queue_state.hpp"
#include "threads.hpp"

#include <backends/host/run.hpp>
#include <core/floating_point.hpp>
#include <core/numerics.hpp>
#include <core/run.hpp>

#include <softfold/error.hpp>

#include <tbb/blocked_range.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>

#include <atomic>
#include <cstdlib>
#include <exception>
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
  numerics = core::numerics_of(options.numerics);
  threads = arena.max_concurrency();
  info = {.backend = "cpu",
          .device = machine.processor,
          .isa = kernels.isa,
          .threads = threads,
          .l1_bytes = machine.l1_bytes,
          .l2_bytes = machine.l2_bytes,
          .l3_bytes = machine.l3_bytes};
}

void queue::state::start() {
  concurrency = 1 + startable_threads(threads - 1);
  if (concurrency == 1) {
    return;
  }
  threads_are_used();
  constexpr auto parallelism = tbb::global_control::max_allowed_parallelism;
  // Fewer than wanted are no more for all arenas together.
  if (const auto usable = static_cast<std::size_t>(concurrency);
      concurrency < threads || usable > tbb::global_control::active_value(parallelism)) {
    parallelism_here.emplace(parallelism, usable);
  }
  arena.initialize(concurrency);
}

void queue::state::execute(void (*work)(void* argument, int slot), void* argument) {
  if (threads_are_gone()) {
    concurrency = 1;
  } else if (concurrency == 0) {
    start();
  }
  if (concurrency == 1) {
    work(argument, 0);
    return;
  }
  std::atomic<bool> work_threw = false;
  try {
    arena.execute([&] {
      tbb::parallel_for(
          tbb::blocked_range<int>(0, concurrency, 1),
          [&](const tbb::blocked_range<int>&) {
            const core::default_floating_point environment;
            try {
              work(argument, tbb::this_task_arena::current_thread_index());
            } catch (...) {
              work_threw = true;
              throw;
            }
          },
          tbb::simple_partitioner{});
    });
  } catch (const std::exception&) {
    if (work_threw) {
      throw;
    }
    // No thread could be started after all. Those that run have done what they began; the rest is
    // this thread's, and all of later calls.
    concurrency = 1;
    work(argument, 0);
  }
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

queue queue_on_stream(const char* function, void* /*stream*/, numerics /*asked*/) {
  throw error(
      errc::invalid_argument,
      std::string(function) + ": the cpu backend has no streams, expected a queue of queue_create");
}

std::atomic<bool>& in_use(queue& q) { return q.self().in_use; }
void run(queue& q, const core::problem& p) { host::run(q.self(), p); }

std::span<const char* const> plan_names(queue& /*q*/) { return host::plan_names; }
void force_plan(queue& q, std::string_view name) { host::force_plan(q.self(), name); }
std::string last_plan(queue& q) { return host::last_plan(q.self()); }

}  // namespace cpu
}  // namespace softfold

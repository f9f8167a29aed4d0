// SPDX-License-Identifier: Apache-2.0
#include "queue_state.hpp"

#include <softfold/error.hpp>

#include <tbb/info.h>

#include <cstdlib>
#include <new>
#include <string>
#include <utility>

namespace softfold::cpu_backend {
namespace {

constexpr std::align_val_t line{64};

int thread_count(int requested) {
  if (requested < 0) {
    throw error(errc::invalid_argument,
                "queue: options.threads is " + std::to_string(requested) + ", expected 0 or more");
  }
  return requested == 0 ? tbb::info::default_concurrency() : requested;
}

}  // namespace

void scratch::release::operator()(std::byte* p) const noexcept { ::operator delete(p, line); }

std::byte* scratch::at_least(std::size_t bytes) {
  if (bytes > size_) {
    memory_.reset();
    size_ = 0;
    auto* grown = static_cast<std::byte*>(::operator new(bytes, line, std::nothrow));
    if (grown == nullptr) {
      throw error(errc::out_of_memory,
                  "queue: no memory for " + std::to_string(bytes) + " bytes of scratch");
    }
    memory_.reset(grown);
    size_ = bytes;
  }
  return memory_.get();
}

}  // namespace softfold::cpu_backend

namespace softfold {
inline namespace cpu {

queue::state::state(const queue_options& options)
    : machine(cpu_backend::read_machine()),
      kernels(cpu_backend::choose_kernels(std::getenv("SOFTFOLD_ISA"))),
      info{.backend = "cpu",
           .device = machine.processor,
           .isa = kernels.isa,
           .threads = cpu_backend::thread_count(options.threads),
           .l1_bytes = machine.l1_bytes,
           .l2_bytes = machine.l2_bytes,
           .l3_bytes = machine.l3_bytes},
      arena(info.threads) {
  constexpr auto parallelism = tbb::global_control::max_allowed_parallelism;
  if (const auto wanted = static_cast<std::size_t>(info.threads);
      wanted > tbb::global_control::active_value(parallelism)) {
    more_threads.emplace(parallelism, wanted);
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

}  // namespace cpu
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
#include "queue_state.hpp"
#include "runtime.hpp"

#include <core/numerics.hpp>
#include <core/run.hpp>

#include <softfold/error.hpp>

#include <string>

namespace softfold {
inline namespace kokkos {
namespace {

std::unique_ptr<kokkos_backend::space> make_space(const queue_options& options) {
  if (options.threads < 0) {
    throw error(
        errc::invalid_argument,
        "queue: options.threads is " + std::to_string(options.threads) + ", expected 0 or more");
  }
  const numerics asked = core::numerics_of(options.numerics);
  runtime::start();
  return kokkos_backend::default_space(options.threads, asked);
}

}  // namespace

queue::queue() : queue(queue_options{}) {}
queue::queue(const queue_options& options) : state_(std::make_unique<state>(make_space(options))) {}
queue::queue(std::unique_ptr<state> made) : state_(std::move(made)) {}
queue::~queue() = default;
queue::queue(queue&& other) noexcept = default;
queue& queue::operator=(queue&& other) noexcept = default;

void queue::wait() { state_->space->wait(); }
void queue::reserve(std::size_t bytes) { state_->space->reserve(bytes); }
const device_info& queue::info() const noexcept { return state_->info; }

queue queue_on_stream(const char* function, void* /*stream*/, numerics /*asked*/) {
  throw error(errc::invalid_argument, std::string(function) +
                                          ": the kokkos backend has no streams, expected a queue "
                                          "of queue_create or, in C++, of make_queue");
}

std::atomic<bool>& in_use(queue& q) { return q.self().in_use; }
void run(queue& q, const core::problem& p) { q.self().space->run(p); }

std::span<const char* const> plan_names(queue& q) { return q.self().space->plan_names(); }
void force_plan(queue& q, std::string_view name) { q.self().space->force_plan(name); }
std::string last_plan(queue& q) { return q.self().space->last_plan(); }

}  // namespace kokkos
}  // namespace softfold

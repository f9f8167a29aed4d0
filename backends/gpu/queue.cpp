// SPDX-License-Identifier: Apache-2.0
#include <gpu/queue_state.hpp>
#include <gpu/run.hpp>

#include <core/check.hpp>
#include <core/run.hpp>

#include <string>
#include <utility>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

int checked_device(int requested) {
  if (requested < -1) {
    core::fail(errc::invalid_argument, {"queue", "options.device"}, "", std::to_string(requested),
               "-1 or more");
  }
  const int count = runtime::device_count();
  if (requested >= count) {
    core::fail(errc::invalid_argument, {"queue", "options.device"}, "", std::to_string(requested),
               "less than the number of devices " + std::to_string(count));
  }
  return requested < 0 ? runtime::device() : requested;
}

int device_of(const queue_options& options) {
  if (options.threads < 0) {
    core::fail(errc::invalid_argument, {"queue", "options.threads"}, "",
               std::to_string(options.threads), "0 or more");
  }
  return checked_device(options.device);
}

}  // namespace
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

using namespace gpu;

device_info queue::state::info_of_device() const {
  device_info result;
  result.backend = backend_name;
  result.device = executor.properties.name;
  result.isa = executor.properties.architecture;
  result.threads = 1;
  result.l2_bytes = executor.properties.l2_bytes;
  return result;
}

queue::queue() : queue(queue_options{}) {}
queue::queue(const queue_options& options) {
  const int device = device_of(options);
  const runtime::current_device current(device);
  state_ = std::make_unique<state>(device);
  state_->executor.numerics = core::numerics_of(options.numerics);
}
queue::queue(std::unique_ptr<state> made) : state_(std::move(made)) {}
queue::~queue() = default;
queue::queue(queue&& other) noexcept = default;
queue& queue::operator=(queue&& other) noexcept = default;

void queue::wait() { runtime::synchronize(state_->stream.get()); }
void queue::reserve(std::size_t bytes) { state_->executor.reserve(bytes); }

const device_info& queue::info() const noexcept { return state_->info; }

std::atomic<bool>& in_use(queue& q) { return q.self().in_use; }
void run(queue& q, const core::problem& p) { gpu::run(q.self().executor, p); }

std::span<const char* const> plan_names(queue& /*q*/) { return gpu::plan_names; }
void force_plan(queue& q, std::string_view name) { gpu::force_plan(q.self().executor, name); }
std::string last_plan(queue& q) { return gpu::last_plan(q.self().executor); }

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

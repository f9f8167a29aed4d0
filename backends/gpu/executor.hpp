// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a call on a GPU runs on: a device, a stream, and scratch memory in the stream's order.
#pragma once

#include <gpu/plan/plan.hpp>
#include <gpu/runtime.hpp>

#include <core/numerics.hpp>
#include <core/plan_names.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Device memory that only grows, in a stream's order.
class scratch {
 public:
  /// `exchanges`: with an exchange_memory beside it.
  scratch(stream_handle stream, bool exchanges)
      : stream_(stream),
        exchange_bytes_(exchanges ? (sizeof(exchange_memory) + 255) / 256 * 256 : 0) {}
  ~scratch();
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;

  /// At least `bytes` bytes, contents undefined. Throws error(out_of_memory); so it does where it
  /// would have to grow inside a graph capture. What a graph was given stays where it is, also when
  /// later calls need more.
  void* at_least(std::size_t bytes);

  /// Beside the memory of the last at_least() of more than 0 bytes; null if there is none.
  [[nodiscard]] exchange_memory* exchange() const noexcept {
    return exchange_bytes_ == 0 ? nullptr : static_cast<exchange_memory*>(memory_);
  }

 private:
  stream_handle stream_;
  std::size_t exchange_bytes_;
  void* memory_ = nullptr;  ///< the exchange_memory, then what is asked for
  std::size_t size_ = 0;    ///< of that
  bool captured_ = false;   ///< a graph has the memory
  std::vector<void*> of_graphs_;
};

struct executor {
  /// On a stream of the device, which has to outlive it.
  executor(int device, stream_handle stream);

  int device;
  device_properties properties;
  stream_handle stream;
  softfold::numerics numerics = core::numerics_of(softfold::numerics::fast);
  gpu::scratch scratch;
  gpu::scratch edited;  ///< rows whose edits were made
  gpu::scratch listed;  ///< lists that tokens are drawn from
  plan_name forced = core::plan_of_environment<plan_name>(plan_names);
  std::variant<std::monostate, row_plan, topk_plan> last;  ///< a call's plan

  /// Grows the scratch memory.
  void reserve(std::size_t bytes);

  [[nodiscard]] device_limits limits() const {
    return {properties.lanes,
            properties.cluster_blocks,
            properties.multiprocessors,
            properties.runs_together,
            properties.copies_in_bulk,
            static_cast<std::int64_t>(properties.shared_bytes),
            static_cast<std::int64_t>(properties.cache_bytes),
            properties.bytes_a_clock};
  }
  /// Throws error(invalid_argument) if the argument's memory is the host's and the device cannot
  /// read it.
  void check_memory(const char* function, const char* argument, const void* data) const;
};

/// See core/run.hpp.
void force_plan(executor& on, std::string_view name);
std::string last_plan(const executor& on);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

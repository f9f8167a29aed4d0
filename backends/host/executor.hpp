// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a call on host memory runs on. The work on rows is the same for every backend that has a
/// host's threads; who brings the threads is the backend's own.
#pragma once

#include <backends/host/machine.hpp>
#include <backends/host/plan/plan.hpp>
#include <backends/host/scratch.hpp>

#include <core/plan_names.hpp>

#include <softfold/queue.hpp>

#include <optional>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

struct executor {
  executor(host::machine m, const kernel_table& k) : machine(std::move(m)), kernels(k) {}
  executor(const executor&) = delete;
  executor& operator=(const executor&) = delete;
  virtual ~executor() = default;

  /// work(argument, slot) on up to `threads` threads, the caller among them; returns when all
  /// calls are done. 0 <= slot < threads tells concurrent calls apart. One thread may make
  /// several calls, one after the other.
  virtual void execute(void (*work)(void* argument, int slot), void* argument) = 0;

  host::machine machine;
  const kernel_table& kernels;
  int threads = 1;
  softfold::numerics numerics = softfold::numerics::fast;
  host::scratch scratch;
  host::scratch edited;  ///< rows whose edits were made
  host::scratch totals;  ///< of reproducible rows while something is selected of them
  plan_name forced = core::plan_of_environment<plan_name>(plan_names);
  std::optional<plan> last;  ///< a call's
};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

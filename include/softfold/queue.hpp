// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where work runs.
#pragma once

#include <softfold/config.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace softfold {

/// What a queue runs on.
struct device_info {
  std::string backend;       ///< "cpu", "cuda", "hip" or "kokkos"
  std::string device;        ///< the processor's name, as the system reports it
  std::string isa;           ///< instruction set of the selected kernels; a GPU's architecture
  int threads = 0;           ///< host threads that work on a call
  std::size_t l1_bytes = 0;  ///< data cache of one core
  std::size_t l2_bytes = 0;  ///< second-level cache of one core
  std::size_t l3_bytes = 0;  ///< last-level cache, 0 if there is none
};

/// How a row's results are computed, where the contract leaves their last bits open.
///
/// `reproducible`: a row's results have the same bits on every backend, instruction set and device,
/// for any number of threads, in any batch, at any alignment and by any plan: those that
/// docs/numerics.md defines, version 1. Obeyed by softmax, log_softmax, logsumexp, softmax_topk,
/// softmax_backward and log_softmax_backward, with all scales, types and edits. topk, sample and
/// verify need not be told, their results are the same everywhere. The functions on parts of rows
/// go by their states: with exact_max_sum they are reproducible on every queue. scan and attention
/// take no notice of it.
enum class numerics : int {
  fast = 0,  ///< the quickest within the bounds; the bits are the backend's
  reproducible = 1,
};

struct queue_options {
  /// Host threads to use; 0 means all that the process may run on. Where the system does not let
  /// the process start as many, the cpu backend makes do with fewer. GPU backends use none.
  int threads = 0;
  /// Number of the GPU; -1 means the thread's current one. The CPU ignores it.
  int device = -1;
  /// SOFTFOLD_NUMERICS=reproducible in the environment makes every queue a reproducible one.
  softfold::numerics numerics = softfold::numerics::fast;
};

inline namespace SOFTFOLD_BACKEND {

/// An ordered sequence of work and the scratch memory it needs. On the CPU a call is complete
/// when it returns and wait() has nothing to do; on a GPU calls are asynchronous and in order.
/// Used by two threads at once, it refuses the second; different queues may run concurrently.
class SOFTFOLD_API queue {
 public:
  /// The default device, all threads that the process may run on. SOFTFOLD_ISA in the
  /// environment (baseline, avx2, avx512, avx512_bf16, amx) forces the kernels' instruction set on
  /// the CPU.
  queue();
  /// Throws error(invalid_argument) if options.threads is negative, if options.device is no GPU of
  /// a GPU backend, if options.numerics is none of the enumerators, if SOFTFOLD_NUMERICS is neither
  /// of their names, or if SOFTFOLD_ISA names an instruction set that is unknown or that the
  /// processor lacks.
  explicit queue(const queue_options& options);
  ~queue();
  queue(queue&& other) noexcept;
  queue& operator=(queue&& other) noexcept;

  /// Returns when all work on the queue is complete. Throws error(backend_failure) if some of
  /// it failed.
  void wait();

  /// Grows the scratch memory to at least `bytes`, so that no later call that needs at most
  /// that much allocates. A call that has to allocate cannot be captured in a graph.
  void reserve(std::size_t bytes);

  [[nodiscard]] const device_info& info() const noexcept;

  /// The backend's part of the queue; for the library's own use.
  struct state;
  explicit queue(std::unique_ptr<state> made);
  [[nodiscard]] state& self() noexcept { return *state_; }

 private:
  std::unique_ptr<state> state_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

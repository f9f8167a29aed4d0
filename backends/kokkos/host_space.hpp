// SPDX-License-Identifier: Apache-2.0
/// \file
/// Execution spaces that work on host memory (Serial, OpenMP, Threads, HPX): the vector kernels of
/// backends/host, their tasks spread over the space's threads as teams of one.
#pragma once

#include "memory.hpp"
#include "space.hpp"

#include <backends/host/run.hpp>
#include <core/floating_point.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

template <class Exec>
class host_space final : public space, private host::executor {
 public:
  host_space(const Exec& exec, int threads_wanted, softfold::numerics asked)
      : executor(host::read_machine(), host::choose_kernels(std::getenv("SOFTFOLD_ISA"))),
        exec_(exec) {
    numerics = asked;
    const int concurrency = std::max(1, static_cast<int>(exec_.concurrency()));
    threads = threads_wanted == 0 ? concurrency : std::min(threads_wanted, concurrency);
  }

  [[nodiscard]] device_info info() const override {
    return {.backend = "kokkos",
            .device = machine.processor + ", Kokkos::" + Exec::name(),
            .isa = kernels.isa,
            .threads = threads,
            .l1_bytes = machine.l1_bytes,
            .l2_bytes = machine.l2_bytes,
            .l3_bytes = machine.l3_bytes};
  }

  void wait() override { exec_.fence(); }
  void reserve(std::size_t bytes) override { scratch.at_least(bytes); }

  [[nodiscard]] allocation allocate(std::size_t bytes, memory kind) override {
    return allocate_for<Exec>(bytes, kind);
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    copy<Kokkos::HostSpace, Kokkos::HostSpace>(exec_, to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    copy<Kokkos::HostSpace, Kokkos::HostSpace>(exec_, to, from, bytes);
  }

  void run(const core::problem& p) override {
    exec_.fence();  // earlier work on the instance; Kokkos lets a host space be asynchronous
    host::run(*this, p);
  }

  [[nodiscard]] std::span<const char* const> plan_names() const override {
    return host::plan_names;
  }
  void force_plan(std::string_view name) override { host::force_plan(*this, name); }
  [[nodiscard]] std::string last_plan() const override { return host::last_plan(*this); }

 private:
  /// One team of one thread for each slot. A range, not a TeamPolicy: the same teams without the
  /// memory that a team policy shares between calls, so that queues may run at once.
  void execute(void (*work)(void* argument, int slot), void* argument) override {
    using policy =
        Kokkos::RangePolicy<Exec, Kokkos::Schedule<Kokkos::Static>, Kokkos::IndexType<int>>;
    policy slots(exec_, 0, threads);
    slots.set_chunk_size(1);
    Kokkos::parallel_for("softfold", slots, [=](int slot) {
      const core::default_floating_point environment;
      work(argument, slot);
    });
    exec_.fence();
  }

  Exec exec_;
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

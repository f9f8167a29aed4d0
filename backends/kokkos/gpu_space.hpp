// SPDX-License-Identifier: Apache-2.0
/// \file
/// Kokkos::Cuda or Kokkos::HIP: the kernels of backends/gpu, as the cuda or hip backend has them,
/// on the instance's stream. A Kokkos has one of the two.
#pragma once

#include "guarded.hpp"
#include "memory.hpp"
#include "space.hpp"

#include <backends/gpu/run.hpp>

#include <Kokkos_Core.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

#ifdef KOKKOS_ENABLE_CUDA
using gpu_execution_space = Kokkos::Cuda;
inline gpu::executor executor_on(const gpu_execution_space& exec) {
  return {exec.cuda_device(), exec.cuda_stream()};
}
#else
#if KOKKOS_VERSION >= 40000
using gpu_execution_space = Kokkos::HIP;
#else
using gpu_execution_space = Kokkos::Experimental::HIP;
#endif
inline gpu::executor executor_on(const gpu_execution_space& exec) {
  return {exec.hip_device(), exec.hip_stream()};
}
#endif

class gpu_space final : public space {
 public:
  gpu_space(const gpu_execution_space& exec, numerics asked)
      : exec_(exec), executor_(executor_on(exec)) {
    executor_.numerics = asked;
  }

  [[nodiscard]] device_info info() const override {
    device_info info;
    info.backend = "kokkos";
    info.device = executor_.properties.name + ", Kokkos::" + gpu_execution_space::name();
    info.isa = executor_.properties.architecture;
    info.threads = 1;
    info.l2_bytes = executor_.properties.l2_bytes;
    return info;
  }

  void wait() override {
    guarded("wait", [&] { exec_.fence(); });
  }
  void reserve(std::size_t bytes) override { executor_.reserve(bytes); }

  [[nodiscard]] allocation allocate(std::size_t bytes, memory kind) override {
    return allocate_for<gpu_execution_space>(bytes, kind);
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    gpu::runtime::copy(to, from, bytes, executor_.stream);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    gpu::runtime::copy(to, from, bytes, executor_.stream);
  }

  void run(const core::problem& p) override { gpu::run(executor_, p); }

  [[nodiscard]] std::span<const char* const> plan_names() const override { return gpu::plan_names; }
  void force_plan(std::string_view name) override { gpu::force_plan(executor_, name); }
  [[nodiscard]] std::string last_plan() const override { return gpu::last_plan(executor_); }

 private:
  gpu_execution_space exec_;
  gpu::executor executor_;
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"
#include "compiled.hpp"

#include <gpu/runtime.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace runtime {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

/// The first call of a process. The runtime calls a driver that is not there an insufficient one.
void check_first(cudaError_t code, const char* what) {
  int driver = 0;
  if (code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
      driver == 0) {
    static_cast<void>(cudaGetLastError());
    throw error(errc::backend_failure,
                std::string(what) + ": there is no GPU here that CUDA can use, nor its driver");
  }
  check(code, what);
}

/// What memory moves in a clock of the multiprocessors, for each of them; 0 where it is not told.
int bytes_a_clock(int device, int multiprocessors) {
  int bits = 0;
  int cycles = 0;  // of the memory, in a millisecond; it moves the bus's width twice in each
  int clocks = 0;  // the same of the multiprocessors
  if (cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&cycles, cudaDevAttrMemoryClockRate, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&clocks, cudaDevAttrClockRate, device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return clocks > 0 ? static_cast<int>(bits / 8 * 2.0 * cycles / (1.0 * clocks * multiprocessors))
                    : 0;
}

}  // namespace

int device() {
  int current = 0;
  check_first(cudaGetDevice(&current), "cudaGetDevice");
  return current;
}

int device_count() {
  int count = 0;
  check_first(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

device_properties properties(int device) {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  const bool hopper = runs_hopper_code(p.major, p.minor);
  return {.name = p.name,
          .architecture = "sm_" + std::to_string(p.major) + std::to_string(p.minor),
          .lanes = p.warpSize,
          .multiprocessors = p.multiProcessorCount,
          .cluster_blocks = hopper && attribute(cudaDevAttrClusterLaunch, device) != 0 ? 16 : 0,
          .runs_together = attribute(cudaDevAttrCooperativeLaunch, device) != 0,
          .copies_in_bulk = hopper,
          .shared_bytes = p.sharedMemPerBlockOptin,
          .l2_bytes = static_cast<std::size_t>(p.l2CacheSize),
          .bytes_a_clock = bytes_a_clock(device, p.multiProcessorCount),
          .reads_host_memory = attribute(cudaDevAttrPageableMemoryAccess, device) != 0};
}

stream_handle create_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

void destroy_stream(stream_handle stream) noexcept { static_cast<void>(cudaStreamDestroy(stream)); }

void synchronize(stream_handle stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

bool is_capturing(stream_handle stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void* allocate(std::size_t bytes, stream_handle stream) {
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, bytes, stream), "cudaMallocAsync");
  return memory;
}

void release(void* memory, stream_handle stream) noexcept {
  static_cast<void>(cudaFreeAsync(memory, stream));
}

void* allocate(std::size_t bytes, bool host) {
  void* memory = nullptr;
  if (host) {
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  } else {
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
  }
  return memory;
}

void release(void* memory, bool host) noexcept {
  static_cast<void>(host ? cudaFreeHost(memory) : cudaFree(memory));
}

void clear(void* memory, std::size_t bytes, stream_handle stream) {
  check(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync");
}

void copy(void* to, const void* from, std::size_t bytes, stream_handle stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

bool is_host_memory(const void* pointer) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeUnregistered;
}

current_device::current_device(int device) : before_(runtime::device()), device_(device) {
  if (device_ != before_) {
    check(cudaSetDevice(device_), "cudaSetDevice");
  }
}

current_device::~current_device() {
  if (device_ != before_) {
    static_cast<void>(cudaSetDevice(before_));
  }
}

}  // namespace runtime
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

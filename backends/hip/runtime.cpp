// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include <gpu/runtime.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace runtime {
namespace {

int attribute(hipDeviceAttribute_t which, int device) {
  int value = 0;
  check(hipDeviceGetAttribute(&value, which, device), "hipDeviceGetAttribute");
  return value;
}

/// Whether memory can be had in a stream's order: the driver may lack it where the headers do not.
bool has_memory_pools() noexcept {
  int value = 0;
  int device = 0;
  if (hipGetDevice(&device) != hipSuccess ||
      hipDeviceGetAttribute(&value, hipDeviceAttributeMemoryPoolsSupported, device) !=
          hipSuccess) {
    static_cast<void>(hipGetLastError());
    return false;
  }
  return value != 0;
}

}  // namespace

int device() {
  int current = 0;
  check(hipGetDevice(&current), "hipGetDevice");
  return current;
}

int device_count() {
  int count = 0;
  const hipError_t code = hipGetDeviceCount(&count);
  if (code == hipErrorNoDevice) {
    static_cast<void>(hipGetLastError());
    return 0;
  }
  check(code, "hipGetDeviceCount");
  return count;
}

device_properties properties(int device) {
  hipDeviceProp_t p{};
  check(hipGetDeviceProperties(&p, device), "hipGetDeviceProperties");
  const std::string target = p.gcnArchName;  // "gfx90a:sramecc+:xnack-"
  if (p.warpSize != 32 && p.warpSize != 64) {
    throw error(errc::backend_failure,
                "queue: a device with wavefronts of " + std::to_string(p.warpSize) + " lanes");
  }
  return {.name = p.name,
          .architecture = target.substr(0, target.find(':')),
          .lanes = p.warpSize,
          .multiprocessors = p.multiProcessorCount,
          .cluster_blocks = 0,
          .shared_bytes = p.sharedMemPerBlock,
          .l2_bytes = static_cast<std::size_t>(p.l2CacheSize),
          .reads_host_memory = attribute(hipDeviceAttributePageableMemoryAccess, device) != 0};
}

stream_handle create_stream() {
  hipStream_t stream = nullptr;
  check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "hipStreamCreateWithFlags");
  return stream;
}

void destroy_stream(stream_handle stream) noexcept { static_cast<void>(hipStreamDestroy(stream)); }

void synchronize(stream_handle stream) {
  check(hipStreamSynchronize(stream), "hipStreamSynchronize");
}

bool is_capturing(stream_handle stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  check(hipStreamIsCapturing(stream, &status), "hipStreamIsCapturing");
  return status != hipStreamCaptureStatusNone;
}

void* allocate(std::size_t bytes, stream_handle stream) {
  void* memory = nullptr;
  if (has_memory_pools()) {
    check(hipMallocAsync(&memory, bytes, stream), "hipMallocAsync");
  } else {
    check(hipMalloc(&memory, bytes), "hipMalloc");
  }
  return memory;
}

void release(void* memory, stream_handle stream) noexcept {
  // hipFree waits for the device, so the stream's work is done with the memory.
  static_cast<void>(has_memory_pools() ? hipFreeAsync(memory, stream) : hipFree(memory));
}

void* allocate(std::size_t bytes, bool host) {
  void* memory = nullptr;
  if (host) {
    check(hipHostMalloc(&memory, bytes, hipHostMallocDefault), "hipHostMalloc");
  } else {
    check(hipMalloc(&memory, bytes), "hipMalloc");
  }
  return memory;
}

void release(void* memory, bool host) noexcept {
  static_cast<void>(host ? hipHostFree(memory) : hipFree(memory));
}

void copy(void* to, const void* from, std::size_t bytes, stream_handle stream) {
  check(hipMemcpyAsync(to, from, bytes, hipMemcpyDefault, stream), "hipMemcpyAsync");
}

bool is_host_memory(const void* pointer) {
  hipPointerAttribute_t attributes{};
  const hipError_t code = hipPointerGetAttributes(&attributes, pointer);
  if (code == hipErrorInvalidValue) {  // what runtimes before 6.0 answer for memory they don't know
    static_cast<void>(hipGetLastError());
    return true;
  }
  check(code, "hipPointerGetAttributes");
#if HIP_VERSION_MAJOR >= 6
  return attributes.type == hipMemoryTypeUnregistered;
#else
  return false;
#endif
}

current_device::current_device(int device) : before_(runtime::device()), device_(device) {
  if (device_ != before_) {
    check(hipSetDevice(device_), "hipSetDevice");
  }
}

current_device::~current_device() {
  if (device_ != before_) {
    static_cast<void>(hipSetDevice(before_));
  }
}

}  // namespace runtime
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

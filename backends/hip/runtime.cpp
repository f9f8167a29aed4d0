// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include <gpu/runtime.hpp>

#ifdef SOFTFOLD_HIP_ON_HOST
#include "host/simt.hpp"
#endif

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace runtime {
namespace {

/// The runtime's own type, where that is another than AMD's.
hipStream_t native(stream_handle stream) { return reinterpret_cast<hipStream_t>(stream); }

int attribute(hipDeviceAttribute_t which, int device) {
  int value = 0;
  check(hipDeviceGetAttribute(&value, which, device), "hipDeviceGetAttribute");
  return value;
}

/// Bytes of the memory-side cache ("Infinity Cache"), which the runtime does not tell. An L2 cache
/// of 4 to 8 MiB is not worth the launches: it is read in a few microseconds.
std::size_t cache_bytes_of(const std::string& target) {
  struct entry {
    const char* target;
    std::size_t mebibytes;
  };
  constexpr entry entries[] = {{"gfx942", 256}, {"gfx1030", 128}, {"gfx1031", 96},
                               {"gfx1032", 32}, {"gfx1100", 96},  {"gfx1101", 64}};
  for (const entry& e : entries) {
    if (target == e.target) {
      return e.mebibytes << 20;
    }
  }
  return 0;
}

/// Whether memory can be had in a stream's order: the driver may lack it where the headers do not.
bool has_memory_pools() noexcept {
  int value = 0;
  int device = 0;
  if (hipGetDevice(&device) != hipSuccess ||
      hipDeviceGetAttribute(&value, hipDeviceAttributeMemoryPoolsSupported, device) != hipSuccess) {
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
#ifdef SOFTFOLD_HIP_ON_HOST
  const std::string target = "host";
  p.warpSize = simt::width;
  p.sharedMemPerBlock = simt::shared_bytes;
#else
  std::string target = p.gcnArchName;  // "gfx90a:sramecc+:xnack-"
  target = target.substr(0, target.find(':'));
#endif
  if (p.warpSize != 32 && p.warpSize != 64) {
    throw error(errc::backend_failure,
                "queue: a device with wavefronts of " + std::to_string(p.warpSize) + " lanes");
  }
  return {.name = p.name,
          .architecture = target,
          .lanes = p.warpSize,
          .multiprocessors = p.multiProcessorCount,
          .cluster_blocks = 0,
          .shared_bytes = p.sharedMemPerBlock,
          .l2_bytes = static_cast<std::size_t>(p.l2CacheSize),
          .cache_bytes = cache_bytes_of(target),
          .reads_host_memory = attribute(hipDeviceAttributePageableMemoryAccess, device) != 0};
}

stream_handle create_stream() {
  hipStream_t stream = nullptr;
  check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "hipStreamCreateWithFlags");
  return reinterpret_cast<stream_handle>(stream);
}

void destroy_stream(stream_handle stream) noexcept {
  static_cast<void>(hipStreamDestroy(native(stream)));
}

void synchronize(stream_handle stream) {
  check(hipStreamSynchronize(native(stream)), "hipStreamSynchronize");
}

bool is_capturing(stream_handle stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  check(hipStreamIsCapturing(native(stream), &status), "hipStreamIsCapturing");
  return status != hipStreamCaptureStatusNone;
}

void* allocate(std::size_t bytes, stream_handle stream) {
  void* memory = nullptr;
  if (has_memory_pools()) {
    check(hipMallocAsync(&memory, bytes, native(stream)), "hipMallocAsync");
  } else {
    check(hipMalloc(&memory, bytes), "hipMalloc");
  }
  return memory;
}

void release(void* memory, stream_handle stream) noexcept {
  if (has_memory_pools()) {
    static_cast<void>(hipFreeAsync(memory, native(stream)));
  } else {
    static_cast<void>(hipStreamSynchronize(native(stream)));
    static_cast<void>(hipFree(memory));
  }
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

void clear(void* memory, std::size_t bytes, stream_handle stream) {
  check(hipMemsetAsync(memory, 0, bytes, native(stream)), "hipMemsetAsync");
}

void copy(void* to, const void* from, std::size_t bytes, stream_handle stream) {
  check(hipMemcpyAsync(to, from, bytes, hipMemcpyDefault, native(stream)), "hipMemcpyAsync");
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

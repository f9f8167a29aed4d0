// SPDX-License-Identifier: Apache-2.0
/// \file
/// DLPack's C exchange interface (dlpack.h, version 1.3), which a type offers as the capsule
/// __dlpack_c_exchange_api__: a tensor is read, made and turned into an object in tens of
/// nanoseconds, where __dlpack__ takes microseconds.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

namespace softfold::python {

using dl_tensor = nanobind::dlpack::dltensor;

struct dl_version {
  std::uint32_t major;
  std::uint32_t minor;
};

struct managed_tensor {
  dl_version version;
  void* context;
  void (*deleter)(managed_tensor*);
  std::uint64_t flags;
  dl_tensor tensor;
};

/// Functions return 0, or -1 with a Python exception set (the allocator by `fail`).
struct exchange_api {
  dl_version version;
  const exchange_api* previous;
  int (*allocate)(dl_tensor* prototype, managed_tensor** made, void* fail_context,
                  void (*fail)(void* context, const char* kind, const char* text));
  int (*managed_from_object)(void* object, managed_tensor** made);
  int (*object_from_managed)(managed_tensor* tensor, void** object);
  int (*tensor_of_object)(void* object, dl_tensor* tensor);
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** stream);
};

}  // namespace softfold::python

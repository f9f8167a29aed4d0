// SPDX-License-Identifier: Apache-2.0
/// \file
/// What of XLA's foreign function interface the handlers read: its C ABI, version 0 (c_api.h of
/// jaxlib), written down here so that the build needs no jaxlib. Every struct begins with its size
/// and grows at its end only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softfold::python::xla {

struct error;
struct context;
struct future;

struct extension {
  std::size_t size;
  std::int32_t kind;  ///< 1: the caller asks for metadata
  extension* next;
};

struct api_version {
  std::size_t size;
  extension* extensions;
  std::int32_t major;
  std::int32_t minor;
};

struct metadata {
  std::size_t size;
  api_version version;
  std::uint32_t traits;
};

struct metadata_extension {
  extension base;
  metadata* about;
};

struct error_request {
  std::size_t size;
  extension* extensions;
  const char* text;
  std::int32_t code;
};

struct stream_request {
  std::size_t size;
  extension* extensions;
  xla::context* context;
  void* stream;
};

struct api {
  std::size_t size;
  extension* extensions;
  api_version version;
  const void* internal;
  error* (*error_create)(error_request*);
  void (*error_text)(void*);
  void (*error_destroy)(void*);
  error* (*handler_register)(void*);
  error* (*stream_get)(stream_request*);
};

enum class data_type : std::int32_t {
  pred = 1,  ///< a bool, in a byte
  s32 = 4,
  s64 = 5,
  u8 = 6,
  f16 = 10,
  f32 = 11,
  f64 = 12,
  bf16 = 16
};

struct buffer {
  std::size_t size;
  extension* extensions;
  data_type type;
  void* data;
  std::int64_t rank;
  const std::int64_t* extents;
};

struct byte_span {
  const char* begin;
  std::size_t size;
};

struct scalar {
  data_type type;
  const void* value;
};

/// Arguments or results.
struct values {
  std::size_t struct_size;
  extension* extensions;
  std::int64_t size;
  const std::int32_t* types;
  void** values;
};

struct named_values {
  std::size_t struct_size;
  extension* extensions;
  std::int64_t size;
  const std::int32_t* types;
  byte_span** names;
  void** values;
};

struct call_frame {
  std::size_t size;
  extension* extensions;
  const xla::api* api;
  xla::context* context;
  std::int32_t stage;
  xla::values arguments;
  xla::values results;
  named_values attributes;
};

}  // namespace softfold::python::xla

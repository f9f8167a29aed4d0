// SPDX-License-Identifier: Apache-2.0
/// \file
/// A library with the C interface's names that has no GPU: what test_cuda.py loads in the place of
/// the cuda backend's, to see which functions are called with what. Softmax doubles each element;
/// row states are bytes, which a fold replaces by stub_folded.
#include <softfold/softfold.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {
char last_text[200] = "";
softfold_status failed(const char* text) {
  std::snprintf(last_text, sizeof last_text, "%s", text);
  return SOFTFOLD_BACKEND_FAILURE;
}
}  // namespace

extern "C" {

void* stub_stream = nullptr;
int stub_queues = 0;
int64_t stub_offset = 0;

const char* softfold_last_error(void) { return last_text; }
const char* softfold_version(void) {
  const char* const other = std::getenv("STUB_VERSION");
  return other != nullptr ? other : STUB_VERSION;
}

softfold_status softfold_queue_create_on_with_options(void* stream, const softfold_queue_options*,
                                                      softfold_queue** queue) {
  if (std::getenv("STUB_NO_GPU") != nullptr) {
    return failed("cudaGetDevice: no CUDA-capable device is detected");
  }
  ++stub_queues;
  *queue = reinterpret_cast<softfold_queue*>(new void*(stream));
  return SOFTFOLD_SUCCESS;
}
void softfold_queue_destroy(softfold_queue* queue) { delete reinterpret_cast<void**>(queue); }

softfold_status softfold_softmax(softfold_queue* queue, const softfold_matrix* x,
                                 const softfold_matrix* y, const softfold_softmax_options*) {
  stub_stream = *reinterpret_cast<void**>(queue);
  for (int64_t i = 0; i < x->rows * x->cols; ++i) {
    static_cast<float*>(y->data)[i] = 2 * static_cast<const float*>(x->data)[i];
  }
  return SOFTFOLD_SUCCESS;
}

const char* stub_folded = nullptr;  // of as many bytes as the states have

softfold_status softfold_row_states_from_bytes(const void* bytes, size_t size,
                                               softfold_row_states** states) {
  *states = reinterpret_cast<softfold_row_states*>(
      new std::string(static_cast<const char*>(bytes), size));
  return SOFTFOLD_SUCCESS;
}
void softfold_row_states_destroy(softfold_row_states* states) {
  delete reinterpret_cast<std::string*>(states);
}
softfold_status softfold_row_states_to_bytes(const softfold_row_states* states, void* bytes,
                                             size_t capacity, size_t* size) {
  const auto& held = *reinterpret_cast<const std::string*>(states);
  *size = held.size();
  if (bytes != nullptr) {
    std::memcpy(bytes, held.data(), capacity);
  }
  return SOFTFOLD_SUCCESS;
}
softfold_status softfold_row_states_fold_with_options(softfold_queue*, softfold_row_states* states,
                                                      const softfold_matrix* x,
                                                      const softfold_row_states_fold_options* how) {
  if (stub_folded == nullptr) {
    return failed("softfold_row_states_fold_with_options: no");
  }
  auto& held = *reinterpret_cast<std::string*>(states);
  stub_offset = how->column_offset + 1000 * x->cols;
  held.assign(stub_folded, held.size());
  return SOFTFOLD_SUCCESS;
}

// The rest, STUB(name) a line. By the assembler's name, since the header declares them otherwise.
#define STUB(name)                                              \
  softfold_status stub_##name(void) __asm__("softfold_" #name); \
  softfold_status stub_##name(void) { return failed("softfold_" #name " is not in the stub"); }
#include "stubs.inc"
}

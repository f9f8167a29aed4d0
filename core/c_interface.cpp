// SPDX-License-Identifier: Apache-2.0
/// \file
/// softfold.h by way of the entry points in C++. The opaque types of C are never defined: their
/// pointers are those of the C++ objects, so that two backends' translation units share no type.
#include <core/check.hpp>

#include <softfold/softfold.h>
#include <softfold/row_states.hpp>
#include <softfold/softfold.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#define SOFTFOLD_TEXT_OF_(name) #name
#define SOFTFOLD_TEXT_OF(name) SOFTFOLD_TEXT_OF_(name)

namespace {

using namespace softfold;  // NOLINT(google-build-using-namespace)

thread_local char last_error[1024] = "";

softfold_status failed(softfold_status status, const char* text) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", text);
  return status;
}

softfold_status status_of(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument:
      return SOFTFOLD_INVALID_ARGUMENT;
    case errc::unsupported_type:
      return SOFTFOLD_UNSUPPORTED_TYPE;
    case errc::out_of_memory:
      return SOFTFOLD_OUT_OF_MEMORY;
    case errc::backend_failure:
      return SOFTFOLD_BACKEND_FAILURE;
    case errc::invalid_data:
      return SOFTFOLD_INVALID_DATA;
  }
  return SOFTFOLD_INTERNAL_ERROR;
}

template <class Call>
softfold_status guarded(Call&& call) noexcept {
  try {
    call();
    return SOFTFOLD_SUCCESS;
  } catch (const error& e) {
    return failed(status_of(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    return failed(SOFTFOLD_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return failed(SOFTFOLD_INTERNAL_ERROR, e.what());
  } catch (...) {
    return failed(SOFTFOLD_INTERNAL_ERROR, "an exception of unknown type");
  }
}

using core::argument;

template <class T>
T& not_null(argument arg, T* pointer) {
  if (pointer == nullptr) {
    core::fail(errc::invalid_argument, arg, "", "null", "a pointer");
  }
  return *pointer;
}

void check_reserved(argument arg, std::int32_t reserved) {
  if (reserved != 0) {
    core::fail(errc::invalid_argument, arg, ".reserved", std::to_string(reserved), "0");
  }
}

// The numbers of C are those of C++.
static_assert(SOFTFOLD_F32 == static_cast<int>(dtype::f32));
static_assert(SOFTFOLD_F64 == static_cast<int>(dtype::f64));
static_assert(SOFTFOLD_F16 == static_cast<int>(dtype::f16));
static_assert(SOFTFOLD_BF16 == static_cast<int>(dtype::bf16));
static_assert(SOFTFOLD_I32 == static_cast<int>(dtype::i32));
static_assert(SOFTFOLD_I64 == static_cast<int>(dtype::i64));
static_assert(SOFTFOLD_EMPTY_ROW_NAN == static_cast<int>(empty_row::nan));
static_assert(SOFTFOLD_EMPTY_ROW_ZERO == static_cast<int>(empty_row::zero));
static_assert(SOFTFOLD_MEMORY_DEVICE == static_cast<int>(memory::device));
static_assert(SOFTFOLD_MEMORY_HOST == static_cast<int>(memory::host));

dtype type_of(argument arg, softfold_dtype type) {
  if (type < SOFTFOLD_F32 || type > SOFTFOLD_I64) {
    core::fail(errc::unsupported_type, arg, ".type", std::to_string(type), "a SOFTFOLD_ type");
  }
  return static_cast<dtype>(type);
}

empty_row policy_of(const char* function, std::int32_t policy) {
  if (policy != SOFTFOLD_EMPTY_ROW_NAN && policy != SOFTFOLD_EMPTY_ROW_ZERO) {
    core::fail(errc::invalid_argument, {function, "empty_row"}, "", std::to_string(policy),
               "SOFTFOLD_EMPTY_ROW_NAN or SOFTFOLD_EMPTY_ROW_ZERO");
  }
  return static_cast<empty_row>(policy);
}

/// Matrices, vectors and states of one function's arguments.
struct arguments {
  const char* function;

  [[nodiscard]] matrix_ref matrix(const char* name, const softfold_matrix* m) const {
    const argument arg{function, name};
    const softfold_matrix& given = not_null(arg, m);
    check_reserved(arg, given.reserved);
    return {given.data, type_of(arg, given.type), given.rows, given.cols, given.stride};
  }
  [[nodiscard]] vector_ref vector(const char* name, const softfold_vector* v) const {
    const argument arg{function, name};
    const softfold_vector& given = not_null(arg, v);
    check_reserved(arg, given.reserved);
    return {given.data, type_of(arg, given.type), given.size};
  }
  [[nodiscard]] partials_ref partials(const char* name, const softfold_vector* v) const {
    const vector_ref given = vector(name, v);
    return {given.data, given.type, given.size};
  }
  [[nodiscard]] softfold::queue& queue(softfold_queue* q) const {
    return *reinterpret_cast<softfold::queue*>(&not_null({function, "queue"}, q));
  }
  [[nodiscard]] softfold::buffer& buffer(softfold_buffer* b) const {
    return *reinterpret_cast<softfold::buffer*>(&not_null({function, "buffer"}, b));
  }
  [[nodiscard]] row_states& states(const char* name, softfold_row_states* s) const {
    return *reinterpret_cast<row_states*>(&not_null({function, name}, s));
  }

  /// The options as this library knows them: defaults for what the caller's struct lacks.
  template <class Options>
  [[nodiscard]] Options options(const Options* given, Options defaults) const {
    if (given == nullptr) {
      return defaults;
    }
    const std::size_t size = check_size("options", given->struct_size);
    std::memcpy(&defaults, given, std::min(size, sizeof defaults));
    const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
    if (size > sizeof defaults && std::any_of(bytes + sizeof defaults, bytes + size,
                                              [](unsigned char b) { return b != 0; })) {
      core::fail(errc::invalid_argument, {function, "options"}, ".struct_size",
                 std::to_string(size),
                 "at most " + std::to_string(sizeof defaults) +
                     ", or 0 in the members that this version does not know");
    }
    return defaults;
  }

  /// Fills the caller's struct as far as it goes.
  template <class Struct>
  void fill(const char* name, Struct* to, Struct values) const {
    const std::size_t size = check_size(name, not_null({function, name}, to).struct_size);
    values.struct_size = size;
    std::memcpy(to, &values, std::min(size, sizeof values));
  }

  [[nodiscard]] softmax_options softmax(const softfold_softmax_options* given) const {
    const auto o = options(given, softfold_softmax_options SOFTFOLD_SOFTMAX_OPTIONS_INIT);
    check_reserved({function, "options"}, o.reserved);
    return {.scale = o.scale, .empty_row = policy_of(function, o.empty_row)};
  }
  [[nodiscard]] logsumexp_options logsumexp(const softfold_logsumexp_options* given) const {
    const auto o = options(given, softfold_logsumexp_options SOFTFOLD_LOGSUMEXP_OPTIONS_INIT);
    return {.scale = o.scale};
  }

 private:
  [[nodiscard]] std::size_t check_size(const char* name, std::size_t size) const {
    if (size < sizeof size) {
      core::fail(errc::invalid_argument, {function, name}, ".struct_size", std::to_string(size),
                 "the size of the struct");
    }
    return size;
  }
};

/// *to = a new object for C, or null if make() throws.
template <class C, class Make>
softfold_status create(arguments a, const char* name, C** to, Make&& make) noexcept {
  return guarded([&] {
    C*& result = not_null({a.function, name}, to);
    result = nullptr;
    result = reinterpret_cast<C*>(make().release());
  });
}

}  // namespace

extern "C" {

const char* softfold_last_error(void) { return last_error; }

const char* softfold_status_name(softfold_status status) {
  static constexpr const char* names[] = {"success",       "invalid_argument", "unsupported_type",
                                          "out_of_memory", "backend_failure",  "invalid_data",
                                          "internal_error"};
  return status >= SOFTFOLD_SUCCESS && status <= SOFTFOLD_INTERNAL_ERROR ? names[status]
                                                                         : "unknown";
}

const char* softfold_version(void) {
  return SOFTFOLD_TEXT_OF(SOFTFOLD_VERSION_MAJOR) "." SOFTFOLD_TEXT_OF(
      SOFTFOLD_VERSION_MINOR) "." SOFTFOLD_TEXT_OF(SOFTFOLD_VERSION_PATCH);
}

const char* softfold_backend(void) { return SOFTFOLD_TEXT_OF(SOFTFOLD_BACKEND); }

softfold_status softfold_queue_create(const softfold_queue_options* options,
                                      softfold_queue** queue) {
  const arguments a{"queue_create"};
  return create(a, "queue", queue, [&] {
    const auto o = a.options(options, softfold_queue_options SOFTFOLD_QUEUE_OPTIONS_INIT);
    check_reserved({a.function, "options"}, o.reserved);
    return std::make_unique<softfold::queue>(queue_options{.threads = o.threads});
  });
}

void softfold_queue_destroy(softfold_queue* queue) {
  delete reinterpret_cast<softfold::queue*>(queue);
}

softfold_status softfold_queue_wait(softfold_queue* queue) {
  return guarded([&] { arguments{"queue_wait"}.queue(queue).wait(); });
}

softfold_status softfold_queue_reserve(softfold_queue* queue, size_t bytes) {
  return guarded([&] { arguments{"queue_reserve"}.queue(queue).reserve(bytes); });
}

softfold_status softfold_queue_info(const softfold_queue* queue, softfold_device_info* info) {
  return guarded([&] {
    const arguments a{"queue_info"};
    const device_info& found = a.queue(const_cast<softfold_queue*>(queue)).info();
    a.fill("info", info,
           {.struct_size = 0,
            .backend = found.backend.c_str(),
            .device = found.device.c_str(),
            .isa = found.isa.c_str(),
            .threads = found.threads,
            .reserved = 0,
            .l1_bytes = found.l1_bytes,
            .l2_bytes = found.l2_bytes,
            .l3_bytes = found.l3_bytes});
  });
}

softfold_status softfold_buffer_create(softfold_queue* queue, size_t bytes, int32_t memory,
                                       softfold_buffer** buffer) {
  const arguments a{"buffer_create"};
  return create(a, "buffer", buffer, [&] {
    if (memory != SOFTFOLD_MEMORY_DEVICE && memory != SOFTFOLD_MEMORY_HOST) {
      core::fail(errc::invalid_argument, {a.function, "memory"}, "", std::to_string(memory),
                 "SOFTFOLD_MEMORY_DEVICE or SOFTFOLD_MEMORY_HOST");
    }
    return std::make_unique<softfold::buffer>(a.queue(queue), bytes,
                                              static_cast<softfold::memory>(memory));
  });
}

void softfold_buffer_destroy(softfold_buffer* buffer) {
  delete reinterpret_cast<softfold::buffer*>(buffer);
}

void* softfold_buffer_data(const softfold_buffer* buffer) {
  return buffer == nullptr ? nullptr : reinterpret_cast<const softfold::buffer*>(buffer)->data();
}

size_t softfold_buffer_size(const softfold_buffer* buffer) {
  return buffer == nullptr ? 0 : reinterpret_cast<const softfold::buffer*>(buffer)->size();
}

softfold_status softfold_buffer_upload(softfold_queue* queue, softfold_buffer* buffer,
                                       const void* from, size_t bytes, size_t offset) {
  return guarded([&] {
    const arguments a{"buffer_upload"};
    a.buffer(buffer).upload(a.queue(queue), from, bytes, offset);
  });
}

softfold_status softfold_buffer_download(softfold_queue* queue, const softfold_buffer* buffer,
                                         void* to, size_t bytes, size_t offset) {
  return guarded([&] {
    const arguments a{"buffer_download"};
    a.buffer(const_cast<softfold_buffer*>(buffer)).download(a.queue(queue), to, bytes, offset);
  });
}

softfold_status softfold_softmax(softfold_queue* queue, const softfold_matrix* x,
                                 const softfold_matrix* y,
                                 const softfold_softmax_options* options) {
  return guarded([&] {
    const arguments a{"softmax"};
    softmax(a.queue(queue), a.matrix("x", x), a.matrix("y", y), a.softmax(options));
  });
}

softfold_status softfold_log_softmax(softfold_queue* queue, const softfold_matrix* x,
                                     const softfold_matrix* y,
                                     const softfold_softmax_options* options) {
  return guarded([&] {
    const arguments a{"log_softmax"};
    log_softmax(a.queue(queue), a.matrix("x", x), a.matrix("y", y), a.softmax(options));
  });
}

softfold_status softfold_logsumexp(softfold_queue* queue, const softfold_matrix* x,
                                   const softfold_vector* lse,
                                   const softfold_logsumexp_options* options) {
  return guarded([&] {
    const arguments a{"logsumexp"};
    logsumexp(a.queue(queue), const_matrix_ref(a.matrix("x", x)), a.vector("lse", lse),
              a.logsumexp(options));
  });
}

softfold_status softfold_topk(softfold_queue* queue, const softfold_matrix* x,
                              const softfold_matrix* values, const softfold_matrix* indices) {
  return guarded([&] {
    const arguments a{"topk"};
    topk(a.queue(queue), a.matrix("x", x), a.matrix("values", values),
         a.matrix("indices", indices));
  });
}

softfold_status softfold_softmax_topk(softfold_queue* queue, const softfold_matrix* x,
                                      const softfold_matrix* probabilities,
                                      const softfold_matrix* indices,
                                      const softfold_softmax_topk_options* options) {
  return guarded([&] {
    const arguments a{"softmax_topk"};
    const auto o =
        a.options(options, softfold_softmax_topk_options SOFTFOLD_SOFTMAX_TOPK_OPTIONS_INIT);
    check_reserved({a.function, "options"}, o.reserved);
    softmax_topk(a.queue(queue), a.matrix("x", x), a.matrix("probabilities", probabilities),
                 a.matrix("indices", indices),
                 {.scale = o.scale,
                  .empty_row = policy_of(a.function, o.empty_row),
                  .logits = o.logits == nullptr ? matrix_ref{} : a.matrix("logits", o.logits),
                  .lse = o.lse == nullptr ? vector_ref{} : a.vector("lse", o.lse)});
  });
}

softfold_status softfold_fold(softfold_queue* queue, const softfold_matrix* x_part,
                              const softfold_vector* partials,
                              const softfold_logsumexp_options* options) {
  return guarded([&] {
    const arguments a{"fold"};
    fold(a.queue(queue), a.matrix("x_part", x_part), a.partials("partials", partials),
         a.logsumexp(options));
  });
}

softfold_status softfold_combine(softfold_queue* queue, const softfold_vector* more,
                                 const softfold_vector* partials) {
  return guarded([&] {
    const arguments a{"combine"};
    combine(a.queue(queue), a.partials("more", more), a.partials("partials", partials));
  });
}

softfold_status softfold_normalize(softfold_queue* queue, const softfold_matrix* x_part,
                                   const softfold_vector* partials, const softfold_matrix* y,
                                   const softfold_softmax_options* options) {
  return guarded([&] {
    const arguments a{"normalize"};
    normalize(a.queue(queue), a.matrix("x_part", x_part), a.partials("partials", partials),
              a.matrix("y", y), a.softmax(options));
  });
}

softfold_status softfold_log_normalize(softfold_queue* queue, const softfold_matrix* x_part,
                                       const softfold_vector* partials, const softfold_matrix* y,
                                       const softfold_softmax_options* options) {
  return guarded([&] {
    const arguments a{"log_normalize"};
    log_normalize(a.queue(queue), a.matrix("x_part", x_part), a.partials("partials", partials),
                  a.matrix("y", y), a.softmax(options));
  });
}

softfold_status softfold_logsumexp_of_partials(softfold_queue* queue,
                                               const softfold_vector* partials,
                                               const softfold_vector* lse) {
  return guarded([&] {
    const arguments a{"logsumexp_of_partials"};
    logsumexp(a.queue(queue), const_partials_ref(a.partials("partials", partials)),
              a.vector("lse", lse));
  });
}

softfold_status softfold_fold_topk(softfold_queue* queue, const softfold_matrix* x_part,
                                   const softfold_vector* partials, const softfold_matrix* values,
                                   const softfold_matrix* indices,
                                   const softfold_fold_topk_options* options) {
  return guarded([&] {
    const arguments a{"fold_topk"};
    const auto o = a.options(options, softfold_fold_topk_options SOFTFOLD_FOLD_TOPK_OPTIONS_INIT);
    fold_topk(a.queue(queue), a.matrix("x_part", x_part),
              partials == nullptr ? partials_ref{} : a.partials("partials", partials),
              a.matrix("values", values), a.matrix("indices", indices),
              {.scale = o.scale, .column_offset = o.column_offset});
  });
}

softfold_status softfold_combine_topk(softfold_queue* queue, const softfold_matrix* more_values,
                                      const softfold_matrix* more_indices,
                                      const softfold_matrix* values,
                                      const softfold_matrix* indices) {
  return guarded([&] {
    const arguments a{"combine_topk"};
    combine_topk(a.queue(queue), a.matrix("more_values", more_values),
                 a.matrix("more_indices", more_indices), a.matrix("values", values),
                 a.matrix("indices", indices));
  });
}

softfold_status softfold_row_states_create(softfold_dtype type, int64_t rows, int64_t k,
                                           double scale, softfold_row_states** states) {
  const arguments a{"row_states_create"};
  return create(a, "states", states, [&] {
    return std::make_unique<row_states>(type_of({a.function, "states"}, type), rows, k, scale);
  });
}

void softfold_row_states_destroy(softfold_row_states* states) {
  delete reinterpret_cast<row_states*>(states);
}

softfold_status softfold_row_states_get(const softfold_row_states* states,
                                        softfold_row_states_view* view) {
  return guarded([&] {
    const arguments a{"row_states_get"};
    const row_states& s = a.states("states", const_cast<softfold_row_states*>(states));
    static_assert(sizeof(softfold_column_range) == sizeof(column_range));
    a.fill("view", view,
           {.struct_size = 0,
            .type = static_cast<softfold_dtype>(s.type()),
            .reserved = 0,
            .rows = s.rows(),
            .k = s.k(),
            .scale = s.scale(),
            .column_ranges = static_cast<std::int64_t>(s.columns().size()),
            .columns = reinterpret_cast<const softfold_column_range*>(s.columns().data()),
            .partials = s.partials().data,
            .values = s.values().data,
            .indices = static_cast<const std::int64_t*>(s.indices().data)});
  });
}

softfold_status softfold_row_states_fold(softfold_queue* queue, softfold_row_states* states,
                                         const softfold_matrix* x_part, int64_t column_offset) {
  return guarded([&] {
    const arguments a{"row_states_fold"};
    a.states("states", states).fold(a.queue(queue), a.matrix("x_part", x_part), column_offset);
  });
}

softfold_status softfold_row_states_combine(softfold_queue* queue, softfold_row_states* states,
                                            const softfold_row_states* more) {
  return guarded([&] {
    const arguments a{"row_states_combine"};
    a.states("states", states)
        .combine(a.queue(queue), a.states("more", const_cast<softfold_row_states*>(more)));
  });
}

softfold_status softfold_row_states_append_rows(softfold_row_states* states,
                                                const softfold_row_states* more) {
  return guarded([&] {
    const arguments a{"row_states_append_rows"};
    a.states("states", states)
        .append_rows(a.states("more", const_cast<softfold_row_states*>(more)));
  });
}

softfold_status softfold_row_states_finish(softfold_queue* queue, const softfold_row_states* states,
                                           const softfold_vector* lse,
                                           const softfold_matrix* probabilities,
                                           int32_t empty_row) {
  return guarded([&] {
    const arguments a{"row_states_finish"};
    a.states("states", const_cast<softfold_row_states*>(states))
        .finish(a.queue(queue), lse == nullptr ? vector_ref{} : a.vector("lse", lse),
                probabilities == nullptr ? matrix_ref{} : a.matrix("probabilities", probabilities),
                policy_of(a.function, empty_row));
  });
}

softfold_status softfold_row_states_to_bytes(const softfold_row_states* states, void* bytes,
                                             size_t capacity, size_t* size) {
  return guarded([&] {
    const arguments a{"row_states_to_bytes"};
    const row_states& s = a.states("states", const_cast<softfold_row_states*>(states));
    std::size_t& length = not_null({a.function, "size"}, size);
    length = s.byte_count();
    if (bytes == nullptr) {
      return;
    }
    if (capacity < length) {
      core::fail(errc::invalid_argument, {a.function, "capacity"}, "", std::to_string(capacity),
                 "at least " + std::to_string(length));
    }
    const std::vector<std::byte> made = s.to_bytes();
    std::memcpy(bytes, made.data(), made.size());
  });
}

softfold_status softfold_row_states_from_bytes(const void* bytes, size_t size,
                                               softfold_row_states** states) {
  const arguments a{"row_states_from_bytes"};
  return create(a, "states", states, [&] {
    if (bytes == nullptr && size > 0) {
      core::fail(errc::invalid_argument, {a.function, "bytes"}, "", "null", "a pointer");
    }
    return std::make_unique<row_states>(
        row_states::from_bytes({static_cast<const std::byte*>(bytes), size}));
  });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
/// \file
/// softfold.h by way of the entry points in C++. The opaque types of C are never defined: their
/// pointers are those of the C++ objects, so that two backends' translation units share no type.
#include <core/c_arguments.hpp>
#include <core/run.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#define SOFTFOLD_TEXT_OF_(name) #name
#define SOFTFOLD_TEXT_OF(name) SOFTFOLD_TEXT_OF_(name)

using namespace softfold;     // NOLINT(google-build-using-namespace)
using namespace softfold::c;  // NOLINT(google-build-using-namespace)

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
    return std::make_unique<softfold::queue>(queue_options{
        .threads = o.threads, .device = o.device, .numerics = numerics_named(a.function, o)});
  });
}

softfold_status softfold_queue_create_on(void* stream, softfold_queue** queue) {
  const arguments a{"queue_create_on"};
  return create(a, "queue", queue, [&] {
    return std::make_unique<softfold::queue>(queue_on_stream(a.function, stream, numerics::fast));
  });
}

softfold_status softfold_queue_create_on_with_options(void* stream,
                                                      const softfold_queue_options* options,
                                                      softfold_queue** queue) {
  const arguments a{"queue_create_on_with_options"};
  return create(a, "queue", queue, [&] {
    const auto o = a.options(options, softfold_queue_options SOFTFOLD_QUEUE_OPTIONS_INIT);
    return std::make_unique<softfold::queue>(
        queue_on_stream(a.function, stream, numerics_named(a.function, o)));
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

softfold_status softfold_scan(softfold_queue* queue, const softfold_matrix* x,
                              const softfold_matrix* lse, const softfold_scan_options* options) {
  return guarded([&] {
    const arguments a{"scan"};
    const auto o = a.options(options, softfold_scan_options SOFTFOLD_SCAN_OPTIONS_INIT);
    const auto flag = [&](const char* name, std::int32_t value) {
      if (value != 0 && value != 1) {
        core::fail(errc::invalid_argument, {a.function, name}, "", std::to_string(value), "0 or 1");
      }
      return value == 1;
    };
    scan_options how{.scale = o.scale,
                     .exclusive = flag("exclusive", o.exclusive),
                     .reverse = flag("reverse", o.reverse),
                     .edits = a.edits(o.edits)};
    if (o.carry_in != nullptr) {
      how.carry_in = a.partials("carry_in", o.carry_in);
    }
    if (o.carry_out != nullptr) {
      how.carry_out = a.partials("carry_out", o.carry_out);
    }
    scan(a.queue(queue), a.matrix("x", x), a.matrix("lse", lse), how);
  });
}

softfold_status softfold_attention(softfold_queue* queue, const softfold_tensor* query,
                                   const softfold_tensor* key, const softfold_tensor* value,
                                   const softfold_tensor* out,
                                   const softfold_attention_options* options) {
  return guarded([&] {
    const arguments a{"attention"};
    attention(a.queue(queue), a.tensor("query", query), a.tensor("key", key),
              a.tensor("value", value), a.tensor("out", out), a.attention(options));
  });
}

softfold_status softfold_fold_attention(softfold_queue* queue, const softfold_tensor* query,
                                        const softfold_tensor* key, const softfold_tensor* value,
                                        const softfold_vector* states,
                                        const softfold_tensor* weighted,
                                        const softfold_attention_options* options) {
  return guarded([&] {
    const arguments a{"fold_attention"};
    fold_attention(a.queue(queue), a.tensor("query", query), a.tensor("key", key),
                   a.tensor("value", value), a.partials("states", states),
                   a.tensor("weighted", weighted), a.attention(options));
  });
}

softfold_status softfold_combine_attention(softfold_queue* queue, const softfold_vector* more,
                                           const softfold_tensor* more_weighted,
                                           const softfold_vector* states,
                                           const softfold_tensor* weighted) {
  return guarded([&] {
    const arguments a{"combine_attention"};
    a.call("combine", [&] {
      combine(a.queue(queue), a.partials("more", more), a.tensor("more_weighted", more_weighted),
              a.partials("states", states), a.tensor("weighted", weighted));
    });
  });
}

softfold_status softfold_normalize_attention(softfold_queue* queue, const softfold_vector* states,
                                             const softfold_tensor* weighted,
                                             const softfold_tensor* out, int32_t empty_row) {
  return guarded([&] {
    const arguments a{"normalize_attention"};
    a.call("normalize", [&] {
      normalize(a.queue(queue), a.partials("states", states), a.tensor("weighted", weighted),
                a.tensor("out", out), policy_of(a.function, empty_row));
    });
  });
}

softfold_status softfold_softmax_backward(softfold_queue* queue, const softfold_matrix* y,
                                          const softfold_matrix* dy, const softfold_matrix* dx,
                                          const softfold_backward_options* options) {
  return guarded([&] {
    const arguments a{"softmax_backward"};
    softmax_backward(a.queue(queue), a.matrix("y", y), a.matrix("dy", dy), a.matrix("dx", dx),
                     a.backward(options));
  });
}

softfold_status softfold_log_softmax_backward(softfold_queue* queue, const softfold_matrix* y,
                                              const softfold_matrix* dy, const softfold_matrix* dx,
                                              const softfold_backward_options* options) {
  return guarded([&] {
    const arguments a{"log_softmax_backward"};
    log_softmax_backward(a.queue(queue), a.matrix("y", y), a.matrix("dy", dy), a.matrix("dx", dx),
                         a.backward(options));
  });
}

softfold_status softfold_topk(softfold_queue* queue, const softfold_matrix* x,
                              const softfold_matrix* values, const softfold_matrix* indices) {
  return softfold_topk_with_options(queue, x, values, indices, nullptr);
}

softfold_status softfold_topk_with_options(softfold_queue* queue, const softfold_matrix* x,
                                           const softfold_matrix* values,
                                           const softfold_matrix* indices,
                                           const softfold_topk_options* options) {
  return guarded([&] {
    const arguments a{"topk"};
    const auto o = a.options(options, softfold_topk_options SOFTFOLD_TOPK_OPTIONS_INIT);
    topk(a.queue(queue), a.matrix("x", x), a.matrix("values", values), a.matrix("indices", indices),
         {.edits = a.edits(o.edits)});
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
                  .lse = o.lse == nullptr ? vector_ref{} : a.vector("lse", o.lse),
                  .edits = a.edits(o.edits)});
  });
}

softfold_status softfold_sample(softfold_queue* queue, const softfold_matrix* x,
                                const softfold_matrix* tokens,
                                const softfold_sample_options* options) {
  return guarded([&] {
    const arguments a{"sample"};
    sample(a.queue(queue), a.matrix("x", x), a.matrix("tokens", tokens), a.sample(options));
  });
}

softfold_status softfold_verify(softfold_queue* queue, const softfold_matrix* target,
                                const softfold_matrix* draft, const softfold_matrix* draft_tokens,
                                const softfold_matrix* tokens, const softfold_vector* accepted,
                                const softfold_sample_options* options) {
  return guarded([&] {
    const arguments a{"verify"};
    verify(a.queue(queue), a.matrix("target", target), a.optional_matrix("draft", draft),
           a.matrix("draft_tokens", draft_tokens), a.matrix("tokens", tokens),
           a.vector("accepted", accepted), a.sample(options));
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
    a.call("logsumexp", [&] {
      logsumexp(a.queue(queue), const_partials_ref(a.partials("partials", partials)),
                a.vector("lse", lse));
    });
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
              {.scale = o.scale, .column_offset = o.column_offset, .edits = a.edits(o.edits)});
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

softfold_status softfold_fold_sample(softfold_queue* queue, const softfold_matrix* x_part,
                                     softfold_sample_state* states, int64_t rows,
                                     const softfold_matrix* values, const softfold_matrix* indices,
                                     const softfold_fold_sample_options* options) {
  return guarded([&] {
    const arguments a{"fold_sample"};
    fold_sample(a.queue(queue), a.matrix("x_part", x_part), states_of(states, rows),
                a.optional_matrix("values", values), a.optional_matrix("indices", indices),
                a.fold_sample(options));
  });
}

softfold_status softfold_combine_sample(softfold_queue* queue, const softfold_sample_state* more,
                                        int64_t rows, const softfold_matrix* more_values,
                                        const softfold_matrix* more_indices,
                                        softfold_sample_state* states,
                                        const softfold_matrix* values,
                                        const softfold_matrix* indices) {
  return guarded([&] {
    const arguments a{"combine_sample"};
    combine_sample(a.queue(queue), states_of(more, rows),
                   a.optional_matrix("more_values", more_values),
                   a.optional_matrix("more_indices", more_indices), states_of(states, rows),
                   a.optional_matrix("values", values), a.optional_matrix("indices", indices));
  });
}

softfold_status softfold_finish_sample(softfold_queue* queue, const softfold_sample_state* states,
                                       int64_t rows, const softfold_matrix* values,
                                       const softfold_matrix* indices,
                                       const softfold_vector* tokens,
                                       const softfold_finish_sample_options* options) {
  return guarded([&] {
    const arguments a{"finish_sample"};
    finish_sample(a.queue(queue), states_of(states, rows), a.optional_matrix("values", values),
                  a.optional_matrix("indices", indices), a.vector("tokens", tokens),
                  a.finish_sample(options));
  });
}

softfold_status softfold_row_states_create(softfold_dtype type, int64_t rows, int64_t k,
                                           double scale, softfold_row_states** states) {
  const arguments a{"row_states_create"};
  return create(a, "states", states, [&] {
    return std::make_unique<row_states>(type_of({a.function, "states"}, type), rows, k, scale);
  });
}

softfold_status softfold_row_states_create_sampling(softfold_dtype type, int64_t rows, int64_t k,
                                                    double scale,
                                                    const softfold_row_sampling* sampling,
                                                    softfold_row_states** states) {
  const arguments a{"row_states_create_sampling"};
  return create(a, "states", states, [&] {
    return std::make_unique<row_states>(type_of({a.function, "states"}, type), rows, k, scale,
                                        a.row_sampling(sampling));
  });
}

softfold_status softfold_row_states_create_with_options(softfold_dtype type, int64_t rows,
                                                        int64_t k,
                                                        const softfold_row_states_options* options,
                                                        softfold_row_states** states) {
  const arguments a{"row_states_create_with_options"};
  return create(a, "states", states, [&] {
    const auto o = a.options(options, softfold_row_states_options SOFTFOLD_ROW_STATES_OPTIONS_INIT);
    const dtype of = type_of({a.function, "states"}, type);
    const numerics how = numerics_named(a.function, o);
    return o.sampling == nullptr ? std::make_unique<row_states>(of, rows, k, o.scale, how)
                                 : std::make_unique<row_states>(of, rows, k, o.scale,
                                                                a.row_sampling(o.sampling), how);
  });
}

void softfold_row_states_destroy(softfold_row_states* states) {
  delete reinterpret_cast<row_states*>(states);
}

softfold_status softfold_row_states_get(const softfold_row_states* states,
                                        softfold_row_states_view* view) {
  return guarded([&] {
    const arguments a{"row_states_get"};
    const row_states& s = a.states("states", states);
    static_assert(sizeof(softfold_column_range) == sizeof(column_range));
    a.fill(
        "view", view,
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
         .indices = static_cast<const std::int64_t*>(s.indices().data),
         .samples = s.sampling() ? reinterpret_cast<const softfold_sample_state*>(s.samples().data)
                                 : nullptr,
         .numerics = static_cast<std::int32_t>(s.numerics()),
         .reserved_2 = 0});
  });
}

softfold_status softfold_row_states_fold(softfold_queue* queue, softfold_row_states* states,
                                         const softfold_matrix* x_part, int64_t column_offset) {
  softfold_row_states_fold_options options = SOFTFOLD_ROW_STATES_FOLD_OPTIONS_INIT;
  options.column_offset = column_offset;
  return softfold_row_states_fold_with_options(queue, states, x_part, &options);
}

softfold_status softfold_row_states_fold_with_options(
    softfold_queue* queue, softfold_row_states* states, const softfold_matrix* x_part,
    const softfold_row_states_fold_options* options) {
  return guarded([&] {
    const arguments a{"row_states_fold"};
    const auto o =
        a.options(options, softfold_row_states_fold_options SOFTFOLD_ROW_STATES_FOLD_OPTIONS_INIT);
    a.states("states", states)
        .fold(a.queue(queue), a.matrix("x_part", x_part), o.column_offset, a.edits(o.edits));
  });
}

softfold_status softfold_row_states_combine(softfold_queue* queue, softfold_row_states* states,
                                            const softfold_row_states* more) {
  return guarded([&] {
    const arguments a{"row_states_combine"};
    a.states("states", states).combine(a.queue(queue), a.states("more", more));
  });
}

softfold_status softfold_row_states_append_rows(softfold_row_states* states,
                                                const softfold_row_states* more) {
  return guarded([&] {
    const arguments a{"row_states_append_rows"};
    a.states("states", states).append_rows(a.states("more", more));
  });
}

softfold_status softfold_row_states_finish(softfold_queue* queue, const softfold_row_states* states,
                                           const softfold_vector* lse,
                                           const softfold_matrix* probabilities,
                                           int32_t empty_row) {
  return guarded([&] {
    const arguments a{"row_states_finish"};
    a.states("states", states)
        .finish(a.queue(queue), lse == nullptr ? vector_ref{} : a.vector("lse", lse),
                probabilities == nullptr ? matrix_ref{} : a.matrix("probabilities", probabilities),
                policy_of(a.function, empty_row));
  });
}

softfold_status softfold_row_states_finish_sample(softfold_queue* queue,
                                                  const softfold_row_states* states,
                                                  const softfold_vector* tokens,
                                                  const softfold_finish_sample_options* options) {
  return guarded([&] {
    const arguments a{"row_states_finish_sample"};
    a.states("states", states)
        .finish_sample(a.queue(queue), a.vector("tokens", tokens), a.finish_sample(options));
  });
}

softfold_status softfold_row_states_to_bytes(const softfold_row_states* states, void* bytes,
                                             size_t capacity, size_t* size) {
  return guarded([&] {
    const arguments a{"row_states_to_bytes"};
    a.write_bytes(a.states("states", states), bytes, capacity, size);
  });
}

softfold_status softfold_row_states_from_bytes(const void* bytes, size_t size,
                                               softfold_row_states** states) {
  const arguments a{"row_states_from_bytes"};
  return create(a, "states", states, [&] {
    return std::make_unique<row_states>(row_states::from_bytes(a.bytes(bytes, size)));
  });
}

softfold_status softfold_attention_states_create(softfold_dtype type, int64_t batches,
                                                 int64_t heads, int64_t tokens, int64_t dim,
                                                 softfold_attention_states** states) {
  const arguments a{"attention_states_create"};
  return create(a, "states", states, [&] {
    return std::make_unique<attention_states>(type_of({a.function, "states"}, type), batches, heads,
                                              tokens, dim);
  });
}

void softfold_attention_states_destroy(softfold_attention_states* states) {
  delete reinterpret_cast<attention_states*>(states);
}

softfold_status softfold_attention_states_get(const softfold_attention_states* states,
                                              softfold_attention_states_view* view) {
  return guarded([&] {
    const arguments a{"attention_states_get"};
    const attention_states& s = a.states("states", states);
    a.fill("view", view,
           {.struct_size = 0,
            .type = static_cast<softfold_dtype>(s.type()),
            .has_sinks = s.has_sinks() ? 1 : 0,
            .batches = s.batches(),
            .heads = s.heads(),
            .tokens = s.tokens(),
            .dim = s.dim(),
            .key_ranges = static_cast<std::int64_t>(s.keys().size()),
            .keys = reinterpret_cast<const softfold_column_range*>(s.keys().data()),
            .states = s.states().data,
            .weighted = s.weighted().data});
  });
}

softfold_status softfold_attention_states_fold(softfold_queue* queue,
                                               softfold_attention_states* states,
                                               const softfold_tensor* query,
                                               const softfold_tensor* key,
                                               const softfold_tensor* value,
                                               const softfold_attention_options* options) {
  return guarded([&] {
    const arguments a{"attention_states_fold"};
    a.states("states", states)
        .fold(a.queue(queue), a.tensor("query", query), a.tensor("key", key),
              a.tensor("value", value), a.attention(options));
  });
}

softfold_status softfold_attention_states_combine(softfold_queue* queue,
                                                  softfold_attention_states* states,
                                                  const softfold_attention_states* more) {
  return guarded([&] {
    const arguments a{"attention_states_combine"};
    a.states("states", states).combine(a.queue(queue), a.states("more", more));
  });
}

softfold_status softfold_attention_states_finish(softfold_queue* queue,
                                                 const softfold_attention_states* states,
                                                 const softfold_tensor* out,
                                                 const softfold_vector* lse, int32_t empty_row) {
  return guarded([&] {
    const arguments a{"attention_states_finish"};
    a.states("states", states)
        .finish(a.queue(queue), a.tensor("out", out),
                lse == nullptr ? vector_ref{} : a.vector("lse", lse),
                policy_of(a.function, empty_row));
  });
}

softfold_status softfold_attention_states_to_bytes(const softfold_attention_states* states,
                                                   void* bytes, size_t capacity, size_t* size) {
  return guarded([&] {
    const arguments a{"attention_states_to_bytes"};
    a.write_bytes(a.states("states", states), bytes, capacity, size);
  });
}

softfold_status softfold_attention_states_from_bytes(const void* bytes, size_t size,
                                                     softfold_attention_states** states) {
  const arguments a{"attention_states_from_bytes"};
  return create(a, "states", states, [&] {
    return std::make_unique<attention_states>(attention_states::from_bytes(a.bytes(bytes, size)));
  });
}

}  // extern "C"

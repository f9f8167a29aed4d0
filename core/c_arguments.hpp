// SPDX-License-Identifier: Apache-2.0
/// \file
/// The arguments of the C interface as those of the entry points in C++, and exceptions as
/// statuses.
#pragma once

#include <core/check.hpp>

#include <softfold/softfold.h>
#include <softfold/attention.hpp>
#include <softfold/attention_states.hpp>
#include <softfold/buffer.hpp>
#include <softfold/queue.hpp>
#include <softfold/row_states.hpp>
#include <softfold/softfold.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace c {

inline thread_local char last_error[1024] = "";

inline softfold_status failed(softfold_status status, const char* text) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", text);
  return status;
}

inline softfold_status status_of(errc code) noexcept {
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

inline void check_reserved(argument arg, std::int32_t reserved) {
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
static_assert(SOFTFOLD_U8 == static_cast<int>(dtype::u8));
static_assert(SOFTFOLD_CAUSAL_NONE == static_cast<int>(causal::none));
static_assert(SOFTFOLD_CAUSAL_TOP_LEFT == static_cast<int>(causal::top_left));
static_assert(SOFTFOLD_CAUSAL_BOTTOM_RIGHT == static_cast<int>(causal::bottom_right));
static_assert(SOFTFOLD_EMPTY_ROW_NAN == static_cast<int>(empty_row::nan));
static_assert(SOFTFOLD_EMPTY_ROW_ZERO == static_cast<int>(empty_row::zero));
static_assert(SOFTFOLD_TOP_K_FIRST == static_cast<int>(filter_order::top_k_first));
static_assert(SOFTFOLD_JOINT == static_cast<int>(filter_order::joint));
static_assert(SOFTFOLD_MEMORY_DEVICE == static_cast<int>(memory::device));
static_assert(SOFTFOLD_MEMORY_HOST == static_cast<int>(memory::host));
static_assert(SOFTFOLD_NUMERICS_FAST == static_cast<int>(numerics::fast));
static_assert(SOFTFOLD_NUMERICS_REPRODUCIBLE == static_cast<int>(numerics::reproducible));

// A state in C is the one of C++.
static_assert(sizeof(softfold_sample_state) == sizeof(sample_state));
static_assert(alignof(softfold_sample_state) == alignof(sample_state));
static_assert(offsetof(softfold_sample_state, scale) == offsetof(sample_state, scale));
static_assert(offsetof(softfold_sample_state, top_k) == offsetof(sample_state, top_k));
static_assert(offsetof(softfold_sample_state, largest) == offsetof(sample_state, largest));
static_assert(offsetof(softfold_sample_state, column) == offsetof(sample_state, column));
static_assert(offsetof(softfold_sample_state, sum) == offsetof(sample_state, sum));
static_assert(offsetof(softfold_sample_state, raw_sum) == offsetof(sample_state, raw_sum));

template <class C, class T>
inline constexpr bool is_state_of_c = sizeof(C) == sizeof(exact_max_sum<T>) &&
                                      alignof(C) == alignof(exact_max_sum<T>) &&
                                      offsetof(C, lost) == offsetof(exact_max_sum<T>, lost) &&
                                      offsetof(C, top) == offsetof(exact_max_sum<T>, top) &&
                                      offsetof(C, words) == offsetof(exact_max_sum<T>, words);
static_assert(is_state_of_c<softfold_exact_max_sum_f32, float>);
static_assert(is_state_of_c<softfold_exact_max_sum_f64, double>);

inline sample_states_ref states_of(softfold_sample_state* states, std::int64_t rows) {
  return {reinterpret_cast<sample_state*>(states), rows};
}
inline const_sample_states_ref states_of(const softfold_sample_state* states, std::int64_t rows) {
  return {reinterpret_cast<const sample_state*>(states), rows};
}

inline dtype type_of(argument arg, softfold_dtype type) {
  if (type < SOFTFOLD_F32 || type > SOFTFOLD_U8) {
    core::fail(errc::unsupported_type, arg, ".type", std::to_string(type), "a SOFTFOLD_ type");
  }
  return static_cast<dtype>(type);
}

inline empty_row policy_of(const char* function, std::int32_t policy) {
  if (policy != SOFTFOLD_EMPTY_ROW_NAN && policy != SOFTFOLD_EMPTY_ROW_ZERO) {
    core::fail(errc::invalid_argument, {function, "empty_row"}, "", std::to_string(policy),
               "SOFTFOLD_EMPTY_ROW_NAN or SOFTFOLD_EMPTY_ROW_ZERO");
  }
  return static_cast<empty_row>(policy);
}

/// Of options that have them.
template <class Options>
numerics numerics_named(const char* function, const Options& options) {
  check_reserved({function, "options"}, options.reserved);
  if (options.numerics != SOFTFOLD_NUMERICS_FAST &&
      options.numerics != SOFTFOLD_NUMERICS_REPRODUCIBLE) {
    core::fail(errc::invalid_argument, {function, "options"}, ".numerics",
               std::to_string(options.numerics),
               "SOFTFOLD_NUMERICS_FAST or SOFTFOLD_NUMERICS_REPRODUCIBLE");
  }
  return static_cast<numerics>(options.numerics);
}

/// Matrices, vectors and states of one function's arguments.
struct arguments {
  const char* function;

  /// work(), which calls an entry point that C++ knows by another name: its errors get this one's.
  template <class Work>
  void call(std::string_view overload, const Work& work) const {
    try {
      work();
    } catch (const error& e) {
      const std::string_view text = e.what();
      if (!text.starts_with(std::string(overload) + ": ")) {
        throw;
      }
      throw error(e.code(), function + std::string(text.substr(overload.size())));
    }
  }

  [[nodiscard]] matrix_ref matrix(const char* name, const softfold_matrix* m) const {
    const argument arg{function, name};
    const softfold_matrix& given = not_null(arg, m);
    check_reserved(arg, given.reserved);
    return {given.data, type_of(arg, given.type), given.rows, given.cols, given.stride};
  }
  [[nodiscard]] tensor_ref tensor(const char* name, const softfold_tensor* t) const {
    const argument arg{function, name};
    const softfold_tensor& given = not_null(arg, t);
    check_reserved(arg, given.reserved);
    return {
        given.data, type_of(arg, given.type), given.batches,     given.heads,       given.tokens,
        given.dim,  given.batch_stride,       given.head_stride, given.token_stride};
  }
  [[nodiscard]] vector_ref vector(const char* name, const softfold_vector* v) const {
    const argument arg{function, name};
    const softfold_vector& given = not_null(arg, v);
    check_reserved(arg, given.reserved);
    return {given.data, type_of(arg, given.type), given.size};
  }
  [[nodiscard]] partials_ref partials(const char* name, const softfold_vector* v) const {
    const argument arg{function, name};
    const softfold_vector& given = not_null(arg, v);
    if (given.type != SOFTFOLD_EXACT_F32 && given.type != SOFTFOLD_EXACT_F64) {
      const vector_ref pairs = vector(name, v);
      return {pairs.data, pairs.type, pairs.size};
    }
    check_reserved(arg, given.reserved);
    return {given.data, given.type == SOFTFOLD_EXACT_F64 ? dtype::f64 : dtype::f32, given.size,
            sum_kind::exact};
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
  [[nodiscard]] const row_states& states(const char* name, const softfold_row_states* s) const {
    return states(name, const_cast<softfold_row_states*>(s));
  }
  [[nodiscard]] attention_states& states(const char* name, softfold_attention_states* s) const {
    return *reinterpret_cast<attention_states*>(&not_null({function, name}, s));
  }
  [[nodiscard]] const attention_states& states(const char* name,
                                               const softfold_attention_states* s) const {
    return states(name, const_cast<softfold_attention_states*>(s));
  }
  /// The states' bytes, if there is memory for them, and how many they are.
  template <class States>
  void write_bytes(const States& s, void* bytes, std::size_t capacity, std::size_t* size) const {
    std::size_t& length = not_null({function, "size"}, size);
    length = s.byte_count();
    if (bytes == nullptr) {
      return;
    }
    if (capacity < length) {
      core::fail(errc::invalid_argument, {function, "capacity"}, "", std::to_string(capacity),
                 "at least " + std::to_string(length));
    }
    const std::vector<std::byte> made = s.to_bytes();
    std::memcpy(bytes, made.data(), made.size());
  }
  [[nodiscard]] std::span<const std::byte> bytes(const void* given, std::size_t size) const {
    if (given == nullptr && size > 0) {
      core::fail(errc::invalid_argument, {function, "bytes"}, "", "null", "a pointer");
    }
    return {static_cast<const std::byte*>(given), size};
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

  [[nodiscard]] softfold::row_sampling row_sampling(const softfold_row_sampling* given) const {
    const auto s = options(given, softfold_row_sampling SOFTFOLD_ROW_SAMPLING_INIT);
    return {.temperature = s.temperature,
            .top_k = s.top_k,
            .top_p = s.top_p,
            .min_p = s.min_p,
            .seed = s.seed,
            .offset = s.offset,
            .draw = s.draw};
  }

  /// NULL is no edits, and in them nothing of what it stands for.
  [[nodiscard]] row_edits edits(const softfold_row_edits* given) const {
    if (given == nullptr) {
      return {};
    }
    const auto e = options(given, softfold_row_edits SOFTFOLD_ROW_EDITS_INIT);
    check_reserved({function, "edits"}, e.reserved);
    if (e.corner < SOFTFOLD_CAUSAL_NONE || e.corner > SOFTFOLD_CAUSAL_BOTTOM_RIGHT) {
      core::fail(errc::invalid_argument, {function, "edits.corner"}, "", std::to_string(e.corner),
                 "a SOFTFOLD_CAUSAL_ corner");
    }
    return {.bias = optional_matrix("edits.bias", e.bias),
            .penalty_rows = optional_vector("edits.penalty_rows", e.penalty_rows),
            .penalty_columns = optional_vector("edits.penalty_columns", e.penalty_columns),
            .penalty_counts = optional_vector("edits.penalty_counts", e.penalty_counts),
            .repetition = optional_vector("edits.repetition", e.repetition),
            .frequency = optional_vector("edits.frequency", e.frequency),
            .presence = optional_vector("edits.presence", e.presence),
            .softcap = e.softcap,
            .mask = optional_matrix("edits.mask", e.mask),
            .lengths = optional_vector("edits.lengths", e.lengths),
            .corner = static_cast<causal>(e.corner),
            .queries = e.queries,
            .window = e.window};
  }
  [[nodiscard]] softmax_options softmax(const softfold_softmax_options* given) const {
    const auto o = options(given, softfold_softmax_options SOFTFOLD_SOFTMAX_OPTIONS_INIT);
    check_reserved({function, "options"}, o.reserved);
    return {
        .scale = o.scale, .empty_row = policy_of(function, o.empty_row), .edits = edits(o.edits)};
  }
  [[nodiscard]] attention_options attention(const softfold_attention_options* given) const {
    const auto o = options(given, softfold_attention_options SOFTFOLD_ATTENTION_OPTIONS_INIT);
    const auto optional_tensor = [&](const char* name, const softfold_tensor* t) {
      return t == nullptr ? tensor_ref{} : tensor(name, t);
    };
    if (o.corner < SOFTFOLD_CAUSAL_NONE || o.corner > SOFTFOLD_CAUSAL_BOTTOM_RIGHT) {
      core::fail(errc::invalid_argument, {function, "corner"}, "", std::to_string(o.corner),
                 "a SOFTFOLD_CAUSAL_ corner");
    }
    return {.scale = o.scale == nullptr ? std::nullopt : std::optional(*o.scale),
            .softcap = o.softcap,
            .bias = optional_tensor("bias", o.bias),
            .alibi_slopes = optional_vector("alibi_slopes", o.alibi_slopes),
            .corner = static_cast<causal>(o.corner),
            .window_left = o.window_left,
            .window_right = o.window_right,
            .key_lengths = optional_vector("key_lengths", o.key_lengths),
            .key_offset = o.key_offset,
            .query_offset = o.query_offset,
            .sinks = optional_vector("sinks", o.sinks),
            .empty_row = policy_of(function, o.empty_row),
            .lse = optional_tensor("lse", o.lse),
            .query_starts = optional_vector("query_starts", o.query_starts),
            .key_starts = optional_vector("key_starts", o.key_starts),
            .most_queries = o.most_queries,
            .most_keys = o.most_keys};
  }
  [[nodiscard]] logsumexp_options logsumexp(const softfold_logsumexp_options* given) const {
    const auto o = options(given, softfold_logsumexp_options SOFTFOLD_LOGSUMEXP_OPTIONS_INIT);
    return {.scale = o.scale, .edits = edits(o.edits)};
  }
  [[nodiscard]] backward_options backward(const softfold_backward_options* given) const {
    const auto o = options(given, softfold_backward_options SOFTFOLD_BACKWARD_OPTIONS_INIT);
    return {.scale = o.scale, .edits = edits(o.edits)};
  }
  [[nodiscard]] sample_options sample(const softfold_sample_options* given) const {
    const auto o = options(given, softfold_sample_options SOFTFOLD_SAMPLE_OPTIONS_INIT);
    check_reserved({function, "options"}, o.reserved);
    if (o.order != SOFTFOLD_TOP_K_FIRST && o.order != SOFTFOLD_JOINT) {
      core::fail(errc::invalid_argument, {function, "order"}, "", std::to_string(o.order),
                 "SOFTFOLD_TOP_K_FIRST or SOFTFOLD_JOINT");
    }
    auto result = parameters<sample_options>(o);
    result.order = static_cast<filter_order>(o.order);
    result.log_probability = optional_matrix("log_probability", o.log_probability);
    result.raw_log_probability = optional_matrix("raw_log_probability", o.raw_log_probability);
    result.lse = optional_vector("lse", o.lse);
    result.kept = optional_vector("kept", o.kept);
    result.kept_mass = optional_vector("kept_mass", o.kept_mass);
    result.top_indices = optional_matrix("top_indices", o.top_indices);
    result.top_log_probabilities =
        optional_matrix("top_log_probabilities", o.top_log_probabilities);
    return result;
  }
  [[nodiscard]] fold_sample_options fold_sample(const softfold_fold_sample_options* given) const {
    const auto o = options(given, softfold_fold_sample_options SOFTFOLD_FOLD_SAMPLE_OPTIONS_INIT);
    auto result = parameters<fold_sample_options>(o);
    result.draw = o.draw;
    result.column_offset = o.column_offset;
    return result;
  }
  [[nodiscard]] finish_sample_options finish_sample(
      const softfold_finish_sample_options* given) const {
    const auto o =
        options(given, softfold_finish_sample_options SOFTFOLD_FINISH_SAMPLE_OPTIONS_INIT);
    return {.log_probability = optional_vector("log_probability", o.log_probability),
            .raw_log_probability = optional_vector("raw_log_probability", o.raw_log_probability),
            .lse = optional_vector("lse", o.lse),
            .kept = optional_vector("kept", o.kept),
            .kept_mass = optional_vector("kept_mass", o.kept_mass)};
  }

  /// NULL: without data.
  [[nodiscard]] vector_ref optional_vector(const char* name, const softfold_vector* v) const {
    return v == nullptr ? vector_ref{} : vector(name, v);
  }
  [[nodiscard]] matrix_ref optional_matrix(const char* name, const softfold_matrix* m) const {
    return m == nullptr ? matrix_ref{} : matrix(name, m);
  }

 private:
  /// What a row is sampled with, and its edits.
  template <class Options, class Given>
  [[nodiscard]] Options parameters(const Given& o) const {
    Options result;
    result.temperature = o.temperature;
    result.temperatures = optional_vector("temperatures", o.temperatures);
    result.top_k = o.top_k;
    result.top_ks = optional_vector("top_ks", o.top_ks);
    result.top_p = o.top_p;
    result.top_ps = optional_vector("top_ps", o.top_ps);
    result.min_p = o.min_p;
    result.min_ps = optional_vector("min_ps", o.min_ps);
    result.seed = o.seed;
    result.seeds = optional_vector("seeds", o.seeds);
    result.offset = o.offset;
    result.offsets = optional_vector("offsets", o.offsets);
    result.edits = edits(o.edits);
    return result;
  }
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

}  // namespace c
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The functions as custom calls of XLA, for softfold.jax: the handlers of jax.ffi, whose frame of
/// arguments is a C ABI (xla_ffi.hpp).
#include "array.hpp"
#include "module.hpp"
#include "xla_ffi.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace softfold::python {
namespace {

using namespace xla;

std::optional<softfold_dtype> type_of(data_type type) {
  switch (type) {
    case data_type::f32:
      return SOFTFOLD_F32;
    case data_type::f64:
      return SOFTFOLD_F64;
    case data_type::f16:
      return SOFTFOLD_F16;
    case data_type::bf16:
      return SOFTFOLD_BF16;
    case data_type::s32:
      return SOFTFOLD_I32;
    case data_type::s64:
      return SOFTFOLD_I64;
    case data_type::pred:
    case data_type::u8:
      return SOFTFOLD_U8;
  }
  return std::nullopt;
}

/// XLA gives dense arrays in the order of their axes.
softfold_matrix matrix_of(const buffer& b) {
  const std::int64_t cols = b.rank > 0 ? b.extents[b.rank - 1] : 1;
  softfold_matrix m{b.data, 1, cols, cols, type_of(b.type).value_or(-1), 0};
  for (std::int64_t i = 0; i + 1 < b.rank; ++i) {
    m.rows *= b.extents[i];
  }
  return m;
}

softfold_vector vector_of(const buffer& b) {
  const softfold_matrix m = matrix_of(b);
  return {m.data, m.rows * m.cols, m.type, 0};
}

/// Of at most four axes.
softfold_tensor tensor_of(const buffer& b) {
  return dense_tensor(b.data, {b.extents, static_cast<std::size_t>(b.rank)},
                      type_of(b.type).value_or(-1));
}

/// What a handler's work sees of its call.
struct frame {
  const call_frame& given;
  const library& from;
  softfold_queue* queue;

  [[nodiscard]] softfold_matrix in(int i) const { return matrix_of(argument(i)); }
  [[nodiscard]] softfold_tensor in_tensor(int i) const { return tensor_of(argument(i)); }
  [[nodiscard]] softfold_matrix out(int i) const { return matrix_of(result(i)); }
  [[nodiscard]] softfold_vector out_vector(int i) const { return vector_of(result(i)); }
  [[nodiscard]] softfold_tensor out_tensor(int i) const { return tensor_of(result(i)); }

  template <class T>
  [[nodiscard]] T attribute(std::string_view name, T otherwise) const {
    for (std::int64_t i = 0; i < given.attributes.size; ++i) {
      const byte_span& found = *given.attributes.names[i];
      if (name == std::string_view(found.begin, found.size)) {
        std::memcpy(&otherwise, static_cast<const scalar*>(given.attributes.values[i])->value,
                    sizeof otherwise);
      }
    }
    return otherwise;
  }
  [[nodiscard]] double scale() const { return attribute("scale", 1.0); }
  [[nodiscard]] std::int32_t empty_row() const {
    return attribute<std::int32_t>("empty_row", SOFTFOLD_EMPTY_ROW_NAN);
  }
  /// Bit `bit` of an attribute, which says that an operand was given or a result is wanted.
  [[nodiscard]] bool flag(std::string_view name, int bit) const {
    return (attribute<std::int32_t>(name, 0) >> bit & 1) != 0;
  }

 private:
  [[nodiscard]] const buffer& argument(int i) const {
    return *static_cast<const buffer*>(given.arguments.values[i]);
  }
  [[nodiscard]] const buffer& result(int i) const {
    return *static_cast<const buffer*>(given.results.values[i]);
  }
};

/// The operands from `next` on, those that the bits of the attribute `given` have.
class optional_operands {
 public:
  optional_operands(const frame& f, const char* given, int& next)
      : f_(f), given_(given), next_(next) {}

  const softfold_matrix* matrix(int bit, softfold_matrix& to) {
    if (!f_.flag(given_, bit)) {
      return nullptr;
    }
    to = f_.in(next_++);
    return &to;
  }
  const softfold_tensor* tensor(int bit, softfold_tensor& to) {
    if (!f_.flag(given_, bit)) {
      return nullptr;
    }
    to = f_.in_tensor(next_++);
    return &to;
  }
  const softfold_vector* vector(int bit, softfold_vector& to) {
    softfold_matrix m;
    if (matrix(bit, m) == nullptr) {
      return nullptr;
    }
    to = {m.data, m.rows * m.cols, m.type, 0};
    return &to;
  }
  /// Integers of 64 bits as pairs of 32, the low ones first: JAX may have no others.
  const softfold_vector* words(int bit, softfold_vector& to) {
    if (vector(bit, to) == nullptr) {
      return nullptr;
    }
    to = {to.data, to.size / 2, SOFTFOLD_I64, 0};
    return &to;
  }

 private:
  const frame& f_;
  const char* given_;
  int& next_;
};

/// The edits of a call: operands from `next` on, and attributes. In the order of softfold.jax.
class edits {
 public:
  edits(const frame& f, int next) {
    optional_operands given(f, "edits", next);
    edits_.bias = given.matrix(0, bias_);
    edits_.mask = given.matrix(1, mask_);
    edits_.lengths = given.vector(2, lengths_);
    edits_.penalty_rows = given.words(3, penalty_rows_);
    edits_.penalty_columns = given.vector(3, penalty_columns_);
    edits_.penalty_counts = given.vector(3, penalty_counts_);
    edits_.repetition = given.vector(4, repetition_);
    edits_.frequency = given.vector(5, frequency_);
    edits_.presence = given.vector(6, presence_);
    edits_.corner = f.attribute<std::int32_t>("causal", SOFTFOLD_CAUSAL_NONE);
    edits_.queries = f.attribute<std::int64_t>("queries", 0);
    edits_.window = f.attribute<std::int64_t>("window", 0);
    edits_.softcap = f.attribute("softcap", 0.0);
  }
  edits(const edits&) = delete;
  edits& operator=(const edits&) = delete;

  [[nodiscard]] const softfold_row_edits* get() const { return &edits_; }

 private:
  softfold_row_edits edits_ = SOFTFOLD_ROW_EDITS_INIT;
  softfold_matrix bias_{};
  softfold_matrix mask_{};
  softfold_vector lengths_{}, penalty_rows_{}, penalty_columns_{}, penalty_counts_{}, repetition_{},
      frequency_{}, presence_{};
};

template <auto function>
softfold_status softmax_work(const frame& f) {
  const edits e(f, 1);
  softfold_softmax_options options = SOFTFOLD_SOFTMAX_OPTIONS_INIT;
  options.edits = e.get();
  options.scale = f.scale();
  options.empty_row = f.empty_row();
  const softfold_matrix x = f.in(0);
  const softfold_matrix y = f.out(0);
  return (f.from.*function)(f.queue, &x, &y, &options);
}

softfold_status logsumexp_work(const frame& f) {
  const edits e(f, 1);
  softfold_logsumexp_options options = SOFTFOLD_LOGSUMEXP_OPTIONS_INIT;
  options.edits = e.get();
  options.scale = f.scale();
  const softfold_matrix x = f.in(0);
  const softfold_vector lse = f.out_vector(0);
  return f.from.logsumexp(f.queue, &x, &lse, &options);
}

template <auto function>
softfold_status backward_work(const frame& f) {
  const edits e(f, 2);
  softfold_backward_options options = SOFTFOLD_BACKWARD_OPTIONS_INIT;
  options.edits = e.get();
  options.scale = f.scale();
  const softfold_matrix y = f.in(0);
  const softfold_matrix dy = f.in(1);
  const softfold_matrix dx = f.out(0);
  return (f.from.*function)(f.queue, &y, &dy, &dx, &options);
}

softfold_status softmax_topk_work(const frame& f) {
  const edits e(f, 1);
  softfold_softmax_topk_options options = SOFTFOLD_SOFTMAX_TOPK_OPTIONS_INIT;
  options.edits = e.get();
  options.scale = f.scale();
  options.empty_row = f.empty_row();
  const softfold_matrix x = f.in(0);
  const softfold_matrix probabilities = f.out(0);
  const softfold_matrix indices = f.out(1);
  return f.from.softmax_topk(f.queue, &x, &probabilities, &indices, &options);
}

softfold_status logcumsumexp_work(const frame& f) {
  const edits e(f, 1);
  softfold_scan_options options = SOFTFOLD_SCAN_OPTIONS_INIT;
  options.scale = f.scale();
  options.exclusive = f.attribute<std::int32_t>("exclusive", 0);
  options.reverse = f.attribute<std::int32_t>("reverse", 0);
  options.edits = e.get();
  const softfold_matrix x = f.in(0);
  const softfold_matrix lse = f.out(0);
  return f.from.scan(f.queue, &x, &lse, &options);
}

softfold_status sample_work(const frame& f) {
  softfold_sample_options options = SOFTFOLD_SAMPLE_OPTIONS_INIT;
  options.temperature = f.attribute("temperature", 1.0);
  options.top_k = f.attribute<std::int64_t>("top_k", 0);
  options.top_p = f.attribute("top_p", 1.0);
  options.min_p = f.attribute("min_p", 0.0);
  options.seed = f.attribute<std::uint64_t>("seed", 0);
  options.offset = f.attribute<std::uint64_t>("offset", 0);
  options.order = f.attribute<std::int32_t>("order", SOFTFOLD_TOP_K_FIRST);

  int next = 1;
  softfold_vector temperatures, top_ks, top_ps, min_ps, seeds, offsets;
  optional_operands given(f, "of_rows", next);
  options.temperatures = given.vector(0, temperatures);
  options.top_ks = given.vector(1, top_ks);
  options.top_ps = given.vector(2, top_ps);
  options.min_ps = given.vector(3, min_ps);
  options.seeds = given.words(4, seeds);
  options.offsets = given.words(5, offsets);
  const edits e(f, next);
  options.edits = e.get();

  int made = 1;
  softfold_matrix log_probability, raw_log_probability, top_indices, top_log_probabilities;
  softfold_vector lse, kept, kept_mass;
  const auto matrix = [&](int bit, softfold_matrix& to) {
    return f.flag("with", bit) ? &(to = f.out(made++)) : nullptr;
  };
  const auto vector = [&](int bit, softfold_vector& to) {
    return f.flag("with", bit) ? &(to = f.out_vector(made++)) : nullptr;
  };
  options.log_probability = matrix(0, log_probability);
  options.raw_log_probability = matrix(1, raw_log_probability);
  options.lse = vector(2, lse);
  options.kept = vector(3, kept);
  options.kept_mass = vector(3, kept_mass);
  options.top_indices = matrix(4, top_indices);
  options.top_log_probabilities = matrix(4, top_log_probabilities);

  const softfold_matrix x = f.in(0);
  const softfold_matrix tokens = f.out(0);
  return f.from.sample(f.queue, &x, &tokens, &options);
}

softfold_status attention_work(const frame& f) {
  softfold_attention_options options = SOFTFOLD_ATTENTION_OPTIONS_INIT;
  const double scale = f.scale();
  options.scale = &scale;
  options.softcap = f.attribute("softcap", 0.0);
  options.corner = f.attribute<std::int32_t>("causal", SOFTFOLD_CAUSAL_NONE);
  options.empty_row = f.empty_row();
  options.window_left = f.attribute<std::int64_t>("window_left", -1);
  options.window_right = f.attribute<std::int64_t>("window_right", -1);
  options.key_offset = f.attribute<std::int64_t>("key_offset", 0);
  options.query_offset = f.attribute<std::int64_t>("query_offset", 0);

  int next = 3;
  softfold_tensor bias;
  softfold_vector alibi_slopes, key_lengths, sinks;
  optional_operands given(f, "scores", next);
  options.bias = given.tensor(0, bias);
  options.alibi_slopes = given.vector(1, alibi_slopes);
  options.key_lengths = given.vector(2, key_lengths);
  options.sinks = given.vector(3, sinks);

  const softfold_tensor query = f.in_tensor(0);
  const softfold_vector to_lse = f.out_vector(1);
  const softfold_tensor lse = dense_numbers(to_lse.data, query, to_lse.type);
  options.lse = &lse;
  const softfold_tensor key = f.in_tensor(1);
  const softfold_tensor value = f.in_tensor(2);
  const softfold_tensor out = f.out_tensor(0);
  return f.from.attention(f.queue, &query, &key, &value, &out, &options);
}

/// The cuda backend's library, once register_cuda() has loaded it: a handler has no GIL.
const library* cuda_of_handlers = nullptr;

template <bool cuda, softfold_status (*work)(const frame&)>
error* handler(call_frame* given) {
  if (extension* const asked = given->extensions; asked != nullptr && asked->kind == 1) {
    metadata& about = *reinterpret_cast<metadata_extension*>(asked)->about;
    about.version.major = given->api->version.major;
    about.version.minor = given->api->version.minor;
    about.traits =
        0;  // not to be recorded: a first call may still allocate the queue's scratch memory
    return nullptr;
  }
  place where;
  void* stream = nullptr;
  if (cuda) {
    where = {2, place::of_stream};
    stream_request request{sizeof request, nullptr, given->context, nullptr};
    if (error* const failed = given->api->stream_get(&request)) {
      return failed;
    }
    stream = request.stream;
  }
  const library& from = cuda ? *cuda_of_handlers : cpu_library();
  const lease queue(from, where, stream);
  softfold_status status = queue.status();
  if (status == SOFTFOLD_SUCCESS) {
    status = work({*given, from, queue.get()});
  }
  if (status == SOFTFOLD_SUCCESS) {
    return nullptr;
  }
  constexpr int invalid_argument = 3;
  constexpr int internal = 13;
  error_request request{sizeof request, nullptr, from.last_error(),
                        status == SOFTFOLD_INVALID_ARGUMENT || status == SOFTFOLD_UNSUPPORTED_TYPE
                            ? invalid_argument
                            : internal};
  return given->api->error_create(&request);
}

}  // namespace

/// name -> the capsule of its handler, for jax.ffi.register_ffi_target.
template <bool cuda>
nb::dict handlers() {
  nb::dict all;
  constexpr const char* no_name = nullptr;
  const auto add = [&](const char* name, error* (*function)(call_frame*)) {
    all[name] = nb::capsule(reinterpret_cast<void*>(function), no_name);
  };
  add("softfold_softmax", &handler<cuda, &softmax_work<&library::softmax>>);
  add("softfold_log_softmax", &handler<cuda, &softmax_work<&library::log_softmax>>);
  add("softfold_logsumexp", &handler<cuda, &logsumexp_work>);
  add("softfold_softmax_backward", &handler<cuda, &backward_work<&library::softmax_backward>>);
  add("softfold_log_softmax_backward",
      &handler<cuda, &backward_work<&library::log_softmax_backward>>);
  add("softfold_softmax_topk", &handler<cuda, &softmax_topk_work>);
  add("softfold_logcumsumexp", &handler<cuda, &logcumsumexp_work>);
  add("softfold_sample", &handler<cuda, &sample_work>);
  add("softfold_attention", &handler<cuda, &attention_work>);
  return all;
}

void bind_xla(nb::module_& m) {
  m.def("_xla_handlers", [](bool cuda) {
    if (cuda) {
      cuda_of_handlers = &cuda_library();
    }
    return cuda ? handlers<true>() : handlers<false>();
  });
}

}  // namespace softfold::python

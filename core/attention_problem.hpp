// SPDX-License-Identifier: Apache-2.0
/// \file
/// The arguments of attention() and its relatives as checked values.
#pragma once

#include <core/check.hpp>

#include <softfold/attention.hpp>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace softfold::core {

/// attention and fold_attention.
struct attention_problem {
  bool folds = false;
  const_tensor_ref q;
  const_tensor_ref k;
  const_tensor_ref v;
  tensor_ref out;       ///< attention's out, or fold_attention's weighted
  partials_ref states;  ///< fold_attention's
  attention_options options;
  double scale = 1;
  /// Query heads that share a key head: q.heads / k.heads, which devices would find for each row.
  std::int64_t group = 1;

  [[nodiscard]] SOFTFOLD_HD std::int64_t rows() const { return q.batches * q.heads * q.tokens; }
  [[nodiscard]] bool has_work() const { return rows() > 0 && sequences() > 0; }
  [[nodiscard]] SOFTFOLD_HD bool is_packed() const { return options.query_starts.data != nullptr; }
  /// Whether each query has all keys that its sequence has, as far as lengths go.
  [[nodiscard]] bool is_unmasked() const {
    const attention_options& o = options;
    const bool last_alone =
        o.corner == causal::bottom_right && !is_packed() && q.tokens == 1 && o.query_offset >= 0;
    return (o.corner == causal::none || last_alone) && o.window_left < 0 && o.window_right < 0;
  }
  /// What attends to itself alone.
  [[nodiscard]] SOFTFOLD_HD std::int64_t sequences() const {
    return is_packed() ? options.query_starts.size - 1 : q.batches;
  }
  /// No sequence has more of them, as far as the host knows.
  [[nodiscard]] SOFTFOLD_HD std::int64_t most_queries() const {
    return most(options.most_queries, q.tokens);
  }
  [[nodiscard]] SOFTFOLD_HD std::int64_t most_keys() const {
    return most(options.most_keys, k.tokens);
  }

 private:
  [[nodiscard]] SOFTFOLD_HD std::int64_t most(std::int64_t given, std::int64_t tokens) const {
    return is_packed() && given > 0 && given < tokens ? given : tokens;
  }
};

constexpr const char* function_of(const attention_problem& p) {
  return p.folds ? "fold_attention" : "attention";
}

/// combine of attention's states.
struct combine_attention_problem {
  const_partials_ref more;
  const_tensor_ref more_weighted;
  partials_ref states;
  tensor_ref weighted;
};

/// normalize of attention's states.
struct normalize_attention_problem {
  const_partials_ref states;
  const_tensor_ref weighted;
  tensor_ref out;
  empty_row policy;
};

// ---- The checks.

inline constexpr std::int64_t most_attention_dim = 512;

/// A tensor as a matrix with the same elements, and perhaps more, for the overlap check: tokens of
/// all heads as rows where batches and tokens have one stride, else the bytes from its first to its
/// last element.
inline const_matrix_ref covering_matrix(const const_tensor_ref& t) {
  if (t.data == nullptr || t.batches == 0 || t.heads == 0 || t.tokens == 0 || t.dim == 0) {
    return {nullptr, t.type, 0, 0, 0};
  }
  const std::int64_t within = (t.heads - 1) * t.head_stride + t.dim;
  const bool chain = t.batches == 1 || (t.token_stride > 0 && t.batch_stride % t.token_stride == 0);
  if (t.token_stride >= within && chain) {
    const std::int64_t before =
        t.batches == 1 ? 0 : (t.batches - 1) * (t.batch_stride / t.token_stride);
    return {t.data, t.type, before + t.tokens, within, t.token_stride};
  }
  const std::int64_t elements =
      (t.batches - 1) * t.batch_stride + (t.tokens - 1) * t.token_stride + within;
  return {t.data, t.type, 1, elements, elements};
}

/// That the bytes of a tensor's elements can be counted, and no size of 0 hides others that cannot:
/// then products of any of the sizes can.
inline void check_shape(argument arg, const const_tensor_ref& t) {
  auto bytes = static_cast<std::int64_t>(size_of(t.type));
  for (const std::int64_t size : {t.batches, t.heads, t.tokens, t.dim}) {
    if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) {
      fail(errc::invalid_argument, arg, "",
           std::to_string(t.batches) + " x " + std::to_string(t.heads) + " x " +
               std::to_string(t.tokens) + " x " + std::to_string(t.dim) + " elements",
           "less than 2^63 bytes");
    }
  }
}

/// Sizes, strides, pointer and alignment; of an output that no two elements are one.
inline void check_tensor(argument arg, const const_tensor_ref& t, bool output) {
  const auto invalid = [&](const char* property, std::int64_t value, const std::string& expected) {
    fail(errc::invalid_argument, arg, property, std::to_string(value), expected);
  };
  struct extent {
    const char* size_name;
    const char* stride_name;
    std::int64_t size;
    std::int64_t stride;
  };
  extent all[] = {{".batches", ".batch_stride", t.batches, t.batch_stride},
                  {".heads", ".head_stride", t.heads, t.head_stride},
                  {".tokens", ".token_stride", t.tokens, t.token_stride}};
  for (const extent& e : all) {
    if (e.size < 0) {
      invalid(e.size_name, e.size, "0 or more");
    }
    if (e.stride < 0) {
      invalid(e.stride_name, e.stride, "0 or more");
    }
  }
  if (t.dim < 0) {
    invalid(".dim", t.dim, "0 or more");
  }
  check_shape(arg, t);
  const auto size = static_cast<std::int64_t>(size_of(t.type));
  std::int64_t bytes = t.dim * size;  // from the first to past the last element
  for (const extent& e : all) {
    std::int64_t length = 0;
    if (e.size > 1 && (__builtin_mul_overflow(e.size - 1, e.stride, &length) ||
                       __builtin_mul_overflow(length, size, &length) ||
                       __builtin_add_overflow(bytes, length, &bytes))) {
      invalid(e.stride_name, e.stride, "a tensor of less than 2^63 bytes");
    }
  }
  if (t.batches == 0 || t.heads == 0 || t.tokens == 0 || t.dim == 0) {
    return;
  }
  if (t.data == nullptr) {
    fail(errc::invalid_argument, arg, ".data", "null", "a pointer");
  }
  if (reinterpret_cast<std::uintptr_t>(t.data) % static_cast<std::uintptr_t>(size) != 0) {
    fail(errc::invalid_argument, arg, ".data",
         std::to_string(reinterpret_cast<std::uintptr_t>(t.data)),
         "a multiple of the element size " + std::to_string(size));
  }
  if (output) {  // each stride steps over all that smaller ones reach
    std::int64_t reach = t.dim;
    for (int turn = 0; turn < 3; ++turn) {
      extent* next = nullptr;
      for (extent& e : all) {
        if (e.size > 1 && (next == nullptr || e.stride < next->stride)) {
          next = &e;
        }
      }
      if (next == nullptr) {
        break;
      }
      if (next->stride < reach) {
        invalid(next->stride_name, next->stride,
                "at least " + std::to_string(reach) + ", so that no two elements are one");
      }
      reach += (next->size - 1) * next->stride;
      next->size = 1;
    }
  }
}

inline void check_size(argument arg, const char* property, std::int64_t value,
                       std::int64_t expected, const char* of_what) {
  if (value != expected) {
    fail(errc::invalid_argument, arg, property, std::to_string(value),
         std::to_string(expected) + ", " + of_what);
  }
}

inline void check_like_queries(argument arg, const const_tensor_ref& t, const const_tensor_ref& q,
                               const char* whose) {
  const std::string of = whose;
  check_size(arg, ".batches", t.batches, q.batches, ("that of " + of).c_str());
  check_size(arg, ".heads", t.heads, q.heads, ("that of " + of).c_str());
  check_size(arg, ".tokens", t.tokens, q.tokens, ("that of " + of).c_str());
}

inline void check_attention_inputs(const char* name, const const_tensor_ref& q,
                                   const const_tensor_ref& k, const const_tensor_ref& v) {
  if (!is_real(q.type)) {
    fail(errc::unsupported_type, {name, "query"}, ".type", name_of(q.type),
         "f32, f64, f16 or bf16");
  }
  const auto check_type = [&](const char* argument_name, dtype type) {
    if (type != q.type) {
      fail(errc::unsupported_type, {name, argument_name}, ".type", name_of(type),
           std::string(name_of(q.type)) + ", the type of query");
    }
  };
  check_type("key", k.type);
  check_type("value", v.type);
  const auto check_dim = [&](const char* argument_name, std::int64_t dim) {
    if (dim < 1 || dim > most_attention_dim) {
      fail(errc::invalid_argument, {name, argument_name}, ".dim", std::to_string(dim), "1 to 512");
    }
  };
  check_dim("query", q.dim);
  check_size({name, "key"}, ".dim", k.dim, q.dim, "that of query");
  check_dim("value", v.dim);
  check_tensor({name, "query"}, q, false);
  check_tensor({name, "key"}, k, false);
  check_tensor({name, "value"}, v, false);
  check_size({name, "key"}, ".batches", k.batches, q.batches, "that of query");
  check_size({name, "value"}, ".batches", v.batches, q.batches, "that of query");
  check_size({name, "value"}, ".heads", v.heads, k.heads, "that of key");
  check_size({name, "value"}, ".tokens", v.tokens, k.tokens, "that of key");
  if (k.heads == 0 ? q.heads != 0 : q.heads % k.heads != 0) {
    fail(errc::invalid_argument, {name, "query"}, ".heads", std::to_string(q.heads),
         "a multiple of key.heads = " + std::to_string(k.heads));
  }
}

inline bool is_given(const const_vector_ref& v) { return v.data != nullptr || v.size != 0; }
inline bool is_given(const const_tensor_ref& t) {
  return t.data != nullptr || t.batches != 0 || t.heads != 0 || t.tokens != 0 || t.dim != 0;
}

inline const_matrix_ref check_heads(argument arg, const const_vector_ref& v, std::int64_t heads) {
  if (!is_given(v)) {
    return {};
  }
  if (v.type != dtype::f32 && v.type != dtype::f64) {
    fail(errc::unsupported_type, arg, ".type", name_of(v.type), "f32 or f64");
  }
  return check_vector(arg, v.data, v.type, v.size, heads);
}

inline const_matrix_ref check_starts(argument arg, const const_vector_ref& v) {
  if (!is_given(v)) {
    return {};
  }
  check_index_type(arg, v.type);
  if (v.size < 1) {
    fail(errc::invalid_argument, arg, ".size", std::to_string(v.size),
         "1 or more: the number of sequences and 1");
  }
  return check_vector(arg, v.data, v.type, v.size, v.size);
}

/// The scale, and options as they are used; what of them is memory may not be an output.
inline attention_problem checked_attention_options(attention_problem p,
                                                   std::initializer_list<operand> outputs) {
  const char* const name = function_of(p);
  const attention_options& o = p.options;
  p.group = p.k.heads == 0 ? 1 : p.q.heads / p.k.heads;
  p.scale =
      check_scale(name, o.scale ? *o.scale : 1 / std::sqrt(static_cast<double>(p.q.dim)), p.q.type);
  if (!(o.softcap >= 0) || !std::isfinite(o.softcap) ||
      (arithmetic_type(p.q.type) == dtype::f32 &&
       (!std::isfinite(static_cast<float>(o.softcap)) ||
        (o.softcap != 0 && static_cast<float>(o.softcap) == 0)))) {
    fail(errc::invalid_argument, {name, "softcap"}, "", text_of(o.softcap),
         "0, or more and finite in the arithmetic");
  }
  if (o.corner != causal::none && o.corner != causal::top_left &&
      o.corner != causal::bottom_right) {
    fail(errc::invalid_argument, {name, "corner"}, "", std::to_string(static_cast<int>(o.corner)),
         "causal::none, top_left or bottom_right");
  }
  check_empty_row(name, o.empty_row);
  constexpr std::int64_t farthest = std::int64_t{1} << 60;  // sums of positions stay in 64 bits
  if (o.key_offset < 0 || o.key_offset > farthest) {
    fail(errc::invalid_argument, {name, "key_offset"}, "", std::to_string(o.key_offset),
         "0 to 2^60");
  }
  if (o.query_offset < -farthest || o.query_offset > farthest) {
    fail(errc::invalid_argument, {name, "query_offset"}, "", std::to_string(o.query_offset),
         "-2^60 to 2^60");
  }
  for (const auto& [argument_name, window] :
       {std::pair{"window_left", o.window_left}, std::pair{"window_right", o.window_right}}) {
    if (window > farthest) {
      fail(errc::invalid_argument, {name, argument_name}, "", std::to_string(window),
           "at most 2^60");
    }
  }
  const const_matrix_ref query_starts = check_starts({name, "query_starts"}, o.query_starts);
  const const_matrix_ref key_starts = check_starts({name, "key_starts"}, o.key_starts);
  if (is_given(o.query_starts) || is_given(o.key_starts)) {
    check_size({name, "key_starts"}, ".size", o.key_starts.size, o.query_starts.size,
               "that of query_starts");
    check_size({name, "query"}, ".batches", p.q.batches, 1, "as tokens are packed");
    if (is_given(o.bias)) {
      fail(errc::invalid_argument, {name, "bias"}, "", "given", "none, as tokens are packed");
    }
  }
  for (const auto& [argument_name, most] :
       {std::pair{"most_queries", o.most_queries}, std::pair{"most_keys", o.most_keys}}) {
    if (most < 0) {
      fail(errc::invalid_argument, {name, argument_name}, "", std::to_string(most), "0 or more");
    }
  }
  const const_matrix_ref slopes = check_heads({name, "alibi_slopes"}, o.alibi_slopes, p.q.heads);
  const const_matrix_ref sinks = check_heads({name, "sinks"}, o.sinks, p.q.heads);
  const_matrix_ref lengths;
  if (is_given(o.key_lengths)) {
    const argument arg{name, "key_lengths"};
    check_index_type(arg, o.key_lengths.type);
    lengths = check_vector(arg, o.key_lengths.data, o.key_lengths.type, o.key_lengths.size,
                           p.sequences());
  }
  if (is_given(o.bias)) {
    const argument arg{name, "bias"};
    if (!is_real(o.bias.type)) {
      fail(errc::unsupported_type, arg, ".type", name_of(o.bias.type), "f32, f64, f16 or bf16");
    }
    check_tensor(arg, o.bias, false);
    const auto one_or = [&](const char* property, std::int64_t size, std::int64_t of) {
      if (size != 1 && size != of) {
        fail(errc::invalid_argument, arg, property, std::to_string(size),
             "1 or " + std::to_string(of));
      }
    };
    one_or(".batches", o.bias.batches, p.q.batches);
    one_or(".heads", o.bias.heads, p.q.heads);
    one_or(".tokens", o.bias.tokens, p.q.tokens);
    check_size(arg, ".dim", o.bias.dim, p.k.tokens, "the number of keys");
  }
  for (const operand& input :
       {operand{"query", covering_matrix(p.q)}, operand{"key", covering_matrix(p.k)},
        operand{"value", covering_matrix(p.v)}, operand{"bias", covering_matrix(o.bias)},
        operand{"alibi_slopes", slopes}, operand{"sinks", sinks}, operand{"key_lengths", lengths},
        operand{"query_starts", query_starts}, operand{"key_starts", key_starts}}) {
    check_overlap(name, input, outputs, false);
  }
  return p;
}

inline attention_problem checked_attention(const const_tensor_ref& q, const const_tensor_ref& k,
                                           const const_tensor_ref& v, const tensor_ref& out,
                                           const attention_options& options) {
  constexpr const char* name = "attention";
  check_attention_inputs(name, q, k, v);
  check_output_type({name, "out"}, out.type, q.type);
  check_like_queries({name, "out"}, out, q, "query");
  check_size({name, "out"}, ".dim", out.dim, v.dim, "that of value");
  check_tensor({name, "out"}, out, true);
  const tensor_ref& lse = options.lse;
  if (is_given(const_tensor_ref(lse))) {
    check_output_type({name, "lse"}, lse.type, q.type);
    check_like_queries({name, "lse"}, lse, q, "query");
    check_size({name, "lse"}, ".dim", lse.dim, 1, "a number for each query");
    check_tensor({name, "lse"}, lse, true);
  }
  return checked_attention_options(
      {.q = q, .k = k, .v = v, .out = out, .states = {}, .options = options},
      {{"out", covering_matrix(out)}, {"lse", covering_matrix(lse)}});
}

inline attention_problem checked_fold_attention(
    const const_tensor_ref& q, const const_tensor_ref& k, const const_tensor_ref& v,
    const partials_ref& states, const tensor_ref& weighted, const attention_options& options) {
  constexpr const char* name = "fold_attention";
  check_attention_inputs(name, q, k, v);
  const dtype arithmetic = arithmetic_type(q.type);
  if (weighted.type != arithmetic) {
    fail(errc::unsupported_type, {name, "weighted"}, ".type", name_of(weighted.type),
         std::string(name_of(arithmetic)) + " for " + name_of(q.type) + " input");
  }
  check_like_queries({name, "weighted"}, weighted, q, "query");
  check_size({name, "weighted"}, ".dim", weighted.dim, v.dim, "that of value");
  check_tensor({name, "weighted"}, weighted, true);
  const const_matrix_ref pairs =
      check_rounded_partials({name, "states"}, states, q.batches * q.heads * q.tokens, arithmetic);
  if (options.lse.data != nullptr) {
    fail(errc::invalid_argument, {name, "lse"}, ".data", "a pointer",
         "null: logsumexp() makes it of the whole's states");
  }
  return checked_attention_options({.folds = true,
                                    .q = q,
                                    .k = k,
                                    .v = v,
                                    .out = weighted,
                                    .states = states,
                                    .options = options},
                                   {{"states", pairs}, {"weighted", covering_matrix(weighted)}});
}

/// States and what goes with them: f32 or f64.
inline const_matrix_ref check_attention_states(argument states_arg,
                                               const const_partials_ref& states, argument arg,
                                               const const_tensor_ref& weighted, bool output) {
  check_state_type(states_arg, states.type);
  if (weighted.type != states.type) {
    fail(errc::unsupported_type, arg, ".type", name_of(weighted.type),
         std::string(name_of(states.type)) + ", the type of the states");
  }
  check_tensor(arg, weighted, output);
  return check_rounded_partials(states_arg, states,
                                weighted.batches * weighted.heads * weighted.tokens, states.type);
}

inline combine_attention_problem checked_combine_attention(const const_partials_ref& more,
                                                           const const_tensor_ref& more_weighted,
                                                           const partials_ref& states,
                                                           const tensor_ref& weighted) {
  constexpr const char* name = "combine";
  const const_matrix_ref from =
      check_attention_states({name, "more"}, more, {name, "more_weighted"}, more_weighted, false);
  if (states.type != more.type) {
    fail(errc::unsupported_type, {name, "states"}, ".type", name_of(states.type),
         std::string(name_of(more.type)) + ", the type of more");
  }
  const const_matrix_ref to =
      check_attention_states({name, "states"}, states, {name, "weighted"}, weighted, true);
  check_like_queries({name, "weighted"}, weighted, more_weighted, "more_weighted");
  check_size({name, "weighted"}, ".dim", weighted.dim, more_weighted.dim, "that of more_weighted");
  const operand sums{"weighted", covering_matrix(weighted)};
  const bool same = weighted.data == more_weighted.data &&
                    weighted.batch_stride == more_weighted.batch_stride &&
                    weighted.head_stride == more_weighted.head_stride &&
                    weighted.token_stride == more_weighted.token_stride;
  check_overlap(name, {"more", from}, {{"states", to}}, true);
  check_overlap(name, {"more", from}, {sums}, false);
  check_overlap(name, {"more_weighted", same ? const_matrix_ref{} : covering_matrix(more_weighted)},
                {sums}, false);
  check_overlap(name, {"more_weighted", covering_matrix(more_weighted)}, {{"states", to}}, false);
  check_overlap(name, sums, {{"states", to}}, false);
  return {more, more_weighted, states, weighted};
}

inline normalize_attention_problem checked_normalize_attention(const const_partials_ref& states,
                                                               const const_tensor_ref& weighted,
                                                               const tensor_ref& out,
                                                               empty_row policy,
                                                               const char* name = "normalize") {
  const const_matrix_ref pairs =
      check_attention_states({name, "states"}, states, {name, "weighted"}, weighted, false);
  if (!is_real(out.type) || arithmetic_type(out.type) != states.type) {
    fail(errc::unsupported_type, {name, "out"}, ".type", name_of(out.type),
         states.type == dtype::f32 ? "f32, f16 or bf16 of f32 states" : "f64 of f64 states");
  }
  check_like_queries({name, "out"}, out, weighted, "weighted");
  check_size({name, "out"}, ".dim", out.dim, weighted.dim, "that of weighted");
  check_tensor({name, "out"}, out, true);
  check_empty_row(name, policy);
  const operand to{"out", covering_matrix(out)};
  check_overlap(name, {"states", pairs}, {to}, false);
  check_overlap(name, {"weighted", covering_matrix(weighted)}, {to}, false);
  return {states, weighted, out, policy};
}

}  // namespace softfold::core

// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention, and its state in parts of the keys. Arrays are [batches, heads, tokens, dim], of
/// which the first axes may be missing.
#include "call.hpp"
#include "module.hpp"

#include <cstdint>
#include <optional>

namespace softfold::python {
namespace {

/// What changes or removes scores, as a caller gives it.
struct score_arguments {
  nb::handle scale;
  double softcap;
  nb::handle bias;
  nb::handle alibi_slopes;
  nb::handle causal;
  std::int64_t window_left;
  std::int64_t window_right;
  nb::handle key_lengths;
  std::int64_t key_offset;
  std::int64_t query_offset;
  nb::handle sinks;
  nb::handle query_starts;
  nb::handle key_starts;
  std::int64_t most_queries;
  std::int64_t most_keys;
};

/// The call of a function of queries, keys and values, and the arrays that it was given.
class attention_call : public call {
 public:
  attention_call(const char* function, nb::handle q, nb::handle k, nb::handle v,
                 const score_arguments& given, nb::handle stream)
      : call(function, "query", q, stream) {
    query = x().tensor();
    key = tensor(key_, "key", k);
    value = tensor(value_, "value", v);
    if (!given.scale.is_none()) {
      read_number({function, "scale"}, given.scale, scale_, "None or a number");
      options.scale = &scale_;
    }
    options.softcap = given.softcap;
    if (!given.bias.is_none()) {
      bias_tensor_ = tensor(bias_, "bias", given.bias);
      options.bias = &bias_tensor_;
    }
    options.alibi_slopes = list(slopes_, "alibi_slopes", given.alibi_slopes, role::input);
    options.corner = corner_of(function, given.causal);
    options.window_left = given.window_left;
    options.window_right = given.window_right;
    options.key_lengths = list(lengths_, "key_lengths", given.key_lengths, role::integers);
    options.key_offset = given.key_offset;
    options.query_offset = given.query_offset;
    options.sinks = list(sinks_, "sinks", given.sinks, role::input);
    options.query_starts = list(query_starts_, "query_starts", given.query_starts, role::integers);
    options.key_starts = list(key_starts_, "key_starts", given.key_starts, role::integers);
    options.most_queries = given.most_queries;
    options.most_keys = given.most_keys;
  }

  /// The type of states.
  [[nodiscard]] softfold_dtype arithmetic() const {
    return x().type == SOFTFOLD_F64 ? SOFTFOLD_F64 : SOFTFOLD_F32;
  }

  softfold_tensor query{}, key{}, value{};
  softfold_attention_options options = SOFTFOLD_ATTENTION_OPTIONS_INIT;

 private:
  struct given_list {
    std::optional<array> held;
    softfold_vector vector{};
  };

  softfold_tensor tensor(std::optional<array>& held, const char* name, nb::handle object) {
    const array& given = held.emplace(argument{function(), name}, object, role::input);
    check_place(name, given);
    return given.tensor();
  }
  const softfold_vector* list(given_list& to, const char* name, nb::handle object, role given_as) {
    if (object.is_none()) {
      return nullptr;
    }
    to.vector = call::list(name, to.held.emplace(argument{function(), name}, object, given_as));
    return &to.vector;
  }

  std::optional<array> key_, value_, bias_;
  double scale_ = 0;
  softfold_tensor bias_tensor_{};
  given_list slopes_, lengths_, sinks_, query_starts_, key_starts_;
};

/// Defines a function of attention_call's arguments, then others.
template <auto Function>
struct of_scores;
template <class... Arguments, nb::object (*Function)(attention_call&, Arguments...)>
struct of_scores<Function> {
  static inline const char* name;

  static nb::object function(nb::handle query, nb::handle key, nb::handle value, nb::handle scale,
                             double softcap, nb::handle bias, nb::handle alibi_slopes,
                             nb::handle causal, std::int64_t window_left, std::int64_t window_right,
                             nb::handle key_lengths, std::int64_t key_offset,
                             std::int64_t query_offset, nb::handle sinks, nb::handle query_starts,
                             nb::handle key_starts, std::int64_t most_queries,
                             std::int64_t most_keys, nb::handle stream, Arguments... arguments) {
    attention_call c(
        name, query, key, value,
        {scale, softcap, bias, alibi_slopes, causal, window_left, window_right, key_lengths,
         key_offset, query_offset, sinks, query_starts, key_starts, most_queries, most_keys},
        stream);
    return Function(c, arguments...);
  }

  template <class... Extra>
  static void define(nb::module_& m, const char* function_name, const char* text, Extra... extra) {
    using namespace nb::literals;
    const nb::none none;
    name = function_name;
    m.def(name, &function, "query"_a.none(), "key"_a.none(), "value"_a.none(), nb::kw_only(),
          "scale"_a = none, "softcap"_a = 0.0, "bias"_a = none, "alibi_slopes"_a = none,
          "causal"_a = none, "window_left"_a = -1, "window_right"_a = -1, "key_lengths"_a = none,
          "key_offset"_a = 0, "query_offset"_a = 0, "sinks"_a = none, "query_starts"_a = none,
          "key_starts"_a = none, "most_queries"_a = 0, "most_keys"_a = 0, "stream"_a = none,
          extra..., text);
  }
};

nb::object attention(attention_call& c, nb::handle empty_row, bool with_lse, nb::handle out,
                     nb::handle out_dtype) {
  c.options.empty_row = empty_row_of(c.function(), empty_row);
  result made =
      c.with_columns("out", out, c.value.dim, c.type_or("out_dtype", out_dtype, c.x().type));
  const softfold_tensor to = made.tensor();
  std::optional<result> lse;
  softfold_tensor to_lse{};
  if (with_lse) {
    lse.emplace(made_by{[&] { return c.without_columns("lse", nb::none(), c.arithmetic()); }});
    to_lse = dense_numbers(lse->vector()->data, c.query, c.arithmetic());
    c.options.lse = &to_lse;
  }
  c.run([&](const library& l, softfold_queue* q) {
    return l.attention(q, &c.query, &c.key, &c.value, &to, &c.options);
  });
  return lse ? nb::make_tuple(made.take(), lse->take()) : made.take();
}

nb::object fold_attention(attention_call& c) {
  const nb::none none;
  result states = c.with_columns("states", none, 2, c.arithmetic());
  result weighted = c.with_columns("weighted", none, c.value.dim, c.arithmetic());
  const softfold_vector to_states = pairs(*states.vector());
  const softfold_tensor to = weighted.tensor();
  c.run([&](const library& l, softfold_queue* q) {
    return l.fold_attention(q, &c.query, &c.key, &c.value, &to_states, &to, &c.options);
  });
  return nb::make_tuple(states.take(), weighted.take());
}

constexpr const char* combine_is_combine_attention[] = {"combine:", "combine_attention:", nullptr};
constexpr const char* normalize_is_normalize_attention[] = {
    "normalize:", "normalize_attention:", nullptr};

void combine_attention(nb::handle states, nb::handle weighted, nb::handle more,
                       nb::handle more_weighted, nb::handle stream) {
  constexpr const char* name = "combine_attention";
  const call c(name, "more_weighted", more_weighted, stream);
  const softfold_tensor more_tensor = c.x().tensor();
  const array more_states({name, "more"}, more, role::input);
  const softfold_vector from = c.states("more", more_states);
  const array to_states({name, "states"}, states, role::output);
  const softfold_vector to = c.states("states", to_states);
  const array to_weighted({name, "weighted"}, weighted, role::output);
  c.check_place("weighted", to_weighted);
  const softfold_tensor to_tensor = to_weighted.tensor();
  c.run(
      [&](const library& l, softfold_queue* q) {
        return l.combine_attention(q, &from, &more_tensor, &to, &to_tensor);
      },
      combine_is_combine_attention);
}

nb::object normalize_attention(nb::handle states, nb::handle weighted, nb::handle empty_row,
                               nb::handle out, nb::handle out_dtype, nb::handle stream) {
  constexpr const char* name = "normalize_attention";
  const call c(name, "weighted", weighted, stream);
  const softfold_tensor from = c.x().tensor();
  const array held({name, "states"}, states, role::input);
  const softfold_vector pairs_of_rows = c.states("states", held);
  const std::int32_t policy = empty_row_of(name, empty_row);
  result made = c.like_x("out", out, c.type_or("out_dtype", out_dtype, c.x().type));
  const softfold_tensor to = made.tensor();
  c.run(
      [&](const library& l, softfold_queue* q) {
        return l.normalize_attention(q, &pairs_of_rows, &from, &to, policy);
      },
      normalize_is_normalize_attention);
  return made.take();
}

}  // namespace

void bind_attention(nb::module_& m) {
  using namespace nb::literals;
  const auto none = nb::none();
  of_scores<&attention>::define(m, "attention", R"(
softmax(scale * query @ key^T + bias, masked) @ value, without the matrix of scores. There is no
gradient.

>>> import numpy as np
>>> value = np.array([[1.0, 2.0], [3.0, 6.0]])
>>> attention(np.zeros((2, 4)), np.ones((2, 4)), value)
array([[2., 4.],
       [2., 4.]])
>>> attention(np.zeros((2, 4)), np.ones((2, 4)), value, causal="top_left")
array([[1., 2.],
       [2., 4.]])

query      [batches, heads, tokens, dim], of float32, float64, float16 or bfloat16. Axes that are missing
           on the left count 1, here and in every array of this function.
key        of query's batches and dim. Query's heads are a multiple of its heads: query head h reads key
           head h // (query's heads // key's heads).
value      as key, with any dim. Dims are up to 512. The dimension is contiguous, other strides are free:
           axes may be transposed, sliced and broadcast.
scale      of the products; 1 / sqrt(dim) if it is None.
softcap    c makes a score s c * tanh(s / c); 0 does nothing.
bias       is added: [batches or 1, heads or 1, queries or 1, keys] of any of the types. -inf removes a
           key, whose key and value then reach nothing.
alibi_slopes  float32 or float64, [heads]: a score becomes s - slope * |P - p|.
causal     "top_left" or "bottom_right": the query at P sees keys up to P. Query i stands at i +
           query_offset, at the bottom right that and length - queries; key j at j + key_offset.
window_left   the query at P sees keys from P - window_left on; -1: all.
window_right  and up to P + window_right; -1: all.
key_lengths   int32 or int64, [batches]: keys from there on do not exist.
key_offset    of a part of the keys, how many come before it; key_lengths are those of the whole.
query_offset  of a part of the queries.
sinks      float32 or float64, [heads]: a score more for each row, that has no value.
query_starts  int32 or int64, [sequences + 1], with key_starts: the tokens of one batch are those of several
           sequences, one after the other, and each attends to itself alone. Sequence s has the queries
           from query_starts[s] up to query_starts[s + 1]; what is made of others is not written.
key_starts    the same of keys. key_lengths are then [sequences]; there is no bias.
most_queries  the longest sequence's, for a GPU's plan; 0: all.
most_keys  the same of keys; what a sequence has beyond does not exist.
stream     as softmax's.
empty_row  what a query without keys gives: "zero" or "nan".
with_lse   also return the logsumexp of each query's scores, sinks included: query's shape without the
           last axis, float64 for float64, otherwise float32.
out        the array to write to, of query's shape with value's dim, of any strides but the last.
out_dtype  query's type, the default, or float32.

docs/attention.md has the formula, special values and error bounds.)",
                                "empty_row"_a = "zero", "with_lse"_a = false, "out"_a = none,
                                "out_dtype"_a = none);

  of_scores<&fold_attention>::define(m, "fold_attention", R"(
The state of attention over the keys given, as a rule a part of them: (states, weighted). states is of
query's shape with a last axis of 2, the largest score m and the sum of exp(score - m); weighted the sum
of exp(score - m) * value, not normalized. Arguments as attention. States of different keys combine in
any order, here or elsewhere.

>>> import numpy as np
>>> query, value = np.zeros((1, 4)), np.array([[1.0, 2.0], [3.0, 6.0]])
>>> whole = fold_attention(query, np.ones((1, 4)), value[:1])
>>> part = fold_attention(query, np.ones((1, 4)), value[1:], key_offset=1)
>>> combine_attention(*whole, *part)
>>> normalize_attention(*whole)
array([[2., 4.]]))");

  m.def("combine_attention", &combine_attention, "states"_a.none(), "weighted"_a.none(),
        "more"_a.none(), "more_weighted"_a.none(), nb::kw_only(), "stream"_a = none, R"(
Adds the state (more, more_weighted) of other keys to (states, weighted), which are written.

>>> import numpy as np
>>> states, weighted = np.array([[0.0, 1.0]]), np.array([[2.0, 4.0]])
>>> combine_attention(states, weighted, states.copy(), np.array([[4.0, 8.0]]))
>>> states, weighted
(array([[0., 2.]]), array([[ 6., 12.]])))");

  m.def("normalize_attention", &normalize_attention, "states"_a.none(), "weighted"_a.none(),
        nb::kw_only(), "empty_row"_a = "zero", "out"_a = none, "out_dtype"_a = none,
        "stream"_a = none, R"(
Attention over the keys whose state is (states, weighted). out_dtype is float32, float16 or bfloat16 for
float32 states, the default theirs.

>>> import numpy as np
>>> normalize_attention(np.array([[0.0, 2.0]]), np.array([[6.0, 12.0]]))
array([[3., 6.]]))");
}

}  // namespace softfold::python

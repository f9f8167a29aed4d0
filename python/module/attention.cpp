// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention, and its state in parts of the keys. Arrays are [batches, heads, tokens, dim], of
/// which the first axes may be missing.
#include "attention_call.hpp"
#include "module.hpp"

#include <optional>

namespace softfold::python {
namespace {

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

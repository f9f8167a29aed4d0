// SPDX-License-Identifier: Apache-2.0
/// \file
/// AttentionStates: of queries over some of their keys.
#include "attention_call.hpp"
#include "held_states.hpp"
#include "module.hpp"

#include <array>
#include <vector>

namespace softfold::python {
namespace {

struct of_attention {
  using object = softfold_attention_states;
  using view = softfold_attention_states_view;
  static std::array<std::int64_t, 4> rows(const view& v) {
    return {v.batches, v.heads, v.tokens, 0};
  }
  static std::vector<softfold_column_range> ranges(const view& v) {
    return {v.keys, v.keys + v.key_ranges};
  }
  static constexpr auto destroy = &library::attention_states_destroy;
  static constexpr auto get = &library::attention_states_get;
  static constexpr auto combine = &library::attention_states_combine;
  static constexpr auto to_bytes = &library::attention_states_to_bytes;
  static constexpr auto from_bytes = &library::attention_states_from_bytes;
};

constexpr const char* create_names[] = {"attention_states:", "AttentionStates:", nullptr};
constexpr const char* fold_names[] = {
    "attention_states::fold:", "fold:", "fold_attention:", "fold:", nullptr};
constexpr const char* finish_names[] = {"attention_states::finish:", "finish:", nullptr};

class attention_states : public held_states<of_attention> {
 public:
  attention_states(std::int64_t batches, std::int64_t heads, std::int64_t tokens, std::int64_t dim,
                   nb::handle dtype)
      : held_states(
            made(type_of({"AttentionStates", "dtype"}, dtype), batches, heads, tokens, dim)) {}
  using held_states::held_states;

  void fold(const attention_call& c) {
    fold_by(
        c,
        [&](const library& l, softfold_queue* q, softfold_attention_states* to) {
          return l.attention_states_fold(q, to, &c.query, &c.key, &c.value, &c.options);
        },
        fold_names);
  }

  [[nodiscard]] nb::object finish(nb::handle empty_row, bool with_lse, nb::handle out_dtype) const {
    const std::int32_t policy = empty_row_of("finish", empty_row);
    const softfold_attention_states_view v = view();
    const softfold_dtype type =
        out_dtype.is_none() ? v.type : type_of({"finish", "out_dtype"}, out_dtype);
    const std::int64_t shape[] = {v.batches, v.heads, v.tokens, v.dim};
    void* data = nullptr;
    nb::object out = new_numpy(shape, type, data);
    const softfold_tensor to = dense_tensor(data, {shape, 4}, type);
    nb::object lse;
    softfold_vector to_lse{nullptr, v.batches * v.heads * v.tokens, v.type, 0};
    if (with_lse) {
      lse = new_numpy({shape, 3}, v.type, to_lse.data);
    }
    run_on_host(
        [&](softfold_queue* q, const softfold_attention_states* held) {
          return softfold_attention_states_finish(q, held, &to, with_lse ? &to_lse : nullptr,
                                                  policy);
        },
        finish_names);
    return with_lse ? nb::make_tuple(out, lse) : out;
  }

 private:
  static owned made(softfold_dtype type, std::int64_t batches, std::int64_t heads,
                    std::int64_t tokens, std::int64_t dim) {
    softfold_attention_states* states = nullptr;
    check(cpu_library(),
          softfold_attention_states_create(type, batches, heads, tokens, dim, &states),
          create_names);
    return {states, {&cpu_library()}};
  }
};

nb::object fold(attention_states& self, attention_call& c) {
  self.fold(c);
  return nb::none();
}

}  // namespace

void bind_attention_states(nb::module_& m) {
  using namespace nb::literals;
  using view_of = softfold_attention_states_view;

  nb::class_<attention_states> type(m, "AttentionStates", R"(
What the keys seen so far give each query: the state of its softmax, and the weighted sum of the values.
States of different keys of the same queries combine, in any order, here or in another process: they
pickle, and their bytes (docs/state_format.md) are the same on every machine. They know which keys they
have, so that none counts twice.

>>> import numpy as np
>>> query, value = np.zeros((1, 4), "f4"), np.array([[1.0, 2.0], [3.0, 6.0]], "f4")
>>> left, right = (AttentionStates(batches=1, heads=1, tokens=1, dim=2) for _ in range(2))
>>> left.fold(query, np.ones((1, 4), "f4"), value[:1])
>>> right.fold(query, np.ones((1, 4), "f4"), value[1:], key_offset=1)
>>> left.combine(AttentionStates.from_bytes(right.to_bytes()))
>>> left.finish(), left.keys
(array([[[[2., 4.]]]], dtype=float32), ((0, 2),))

dim is that of the values, 1 to 512. dtype is float32, for queries of float32, float16 and bfloat16, or
float64.)");
  bind_sending(type, "Adds the states of other keys of the same queries.");
  of_scores<&fold>::define(type, "fold", R"(
Adds the keys from key_offset on, for queries [batches, heads, tokens, any]. A key that was folded
before, and sinks a second time, are a ValueError, and the states are as they were. Arguments as
attention's; query_starts and key_starts are not taken.

>>> import numpy as np
>>> states = AttentionStates(1, 1, 1, 1, dtype="float64")
>>> states.fold(np.zeros((1, 4)), np.ones((3, 4)), np.ones((3, 1)), key_offset=7)
>>> states.keys, states.states
(((7, 10),), array([[[[0., 3.]]]])))");
  type.def(
          "__init__",
          [](attention_states* self, std::int64_t batches, std::int64_t heads, std::int64_t tokens,
             std::int64_t dim,
             nb::handle dtype) { new (self) attention_states(batches, heads, tokens, dim, dtype); },
          "batches"_a, "heads"_a, "tokens"_a, "dim"_a, nb::kw_only(), "dtype"_a = "float32")
      .def("finish", &attention_states::finish, nb::kw_only(), "empty_row"_a = "zero",
           "with_lse"_a = false, "out_dtype"_a = nb::none(),
           "Attention over the keys seen so far, a NumPy array [batches, heads, tokens, dim]; "
           "with_lse "
           "also the logsumexp of each query's scores, [batches, heads, tokens]. out_dtype is "
           "float32, "
           "float16 or bfloat16 for float32 states, the default theirs.")
      .def("__repr__",
           [](nb::handle self) {
             return nb::str(
                        "AttentionStates(batches={}, heads={}, tokens={}, dim={}, dtype='{}', "
                        "keys={}, has_sinks={})")
                 .format(self.attr("batches"), self.attr("heads"), self.attr("tokens"),
                         self.attr("dim"), self.attr("dtype"), self.attr("keys"),
                         self.attr("has_sinks"));
           })
      .def_prop_ro("batches", [](const attention_states& s) { return s.view().batches; })
      .def_prop_ro("heads", [](const attention_states& s) { return s.view().heads; })
      .def_prop_ro("tokens", [](const attention_states& s) { return s.view().tokens; })
      .def_prop_ro("dim", [](const attention_states& s) { return s.view().dim; })
      .def_prop_ro("dtype", [](const attention_states& s) { return name_of(s.view().type); })
      .def_prop_ro("keys", &attention_states::ranges,
                   "The keys seen so far: pairs of begin and end, in order.")
      .def_prop_ro(
          "has_sinks", [](const attention_states& s) { return s.view().has_sinks != 0; },
          "Whether the heads' sinks are among the scores.")
      .def_prop_ro(
          "states",
          [](const attention_states& s) {
            return s.copy([](const view_of&) { return 2; },
                          [](const view_of& v) { return v.states; });
          },
          "The largest score of each query and the sum of exponentials below it, [batches, heads, "
          "tokens, 2].")
      .def_prop_ro(
          "weighted",
          [](const attention_states& s) {
            return s.copy([](const view_of& v) { return v.dim; },
                          [](const view_of& v) { return v.weighted; });
          },
          "The sum of the values by these exponentials, [batches, heads, tokens, dim].");
}

}  // namespace softfold::python

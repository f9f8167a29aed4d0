// SPDX-License-Identifier: Apache-2.0
/// \file
/// The functions of the package. Each reads its arguments, makes its results, and calls its
/// namesake of the C interface once.
#include "module.hpp"
#include "edits.hpp"

#include <nanobind/stl/string.h>

#include <optional>
#include <vector>

namespace softfold::python {
namespace {

using library_softmax = decltype(library::softmax) library::*;
using library_backward = decltype(library::softmax_backward) library::*;

constexpr const char* y_is_out[] = {"y", "out", nullptr};
constexpr const char* lse_is_out[] = {"lse", "out", nullptr};
constexpr const char* dx_is_out[] = {"dx", "out", nullptr};

nb::object softmax_or_log(const edit_arguments& edited, const char* name, library_softmax function,
                          nb::handle x, std::int64_t axis, double scale, nb::handle empty_row,
                          nb::handle out, nb::handle out_dtype, nb::handle stream, bool copy) {
  const call c(name, "x", x, axis, stream, copy);
  const edits e(c, edited);
  softfold_softmax_options options = SOFTFOLD_SOFTMAX_OPTIONS_INIT;
  options.scale = scale;
  options.empty_row = empty_row_of(name, empty_row);
  options.edits = e.get();
  result y = c.like_x("out", out, c.type_or("out_dtype", out_dtype, c.x().type));
  const softfold_matrix* const to = y.matrix();
  c.run([&](const library& l,
            softfold_queue* q) { return (l.*function)(q, c.matrix(), to, &options); },
        y_is_out);
  return c.returned(y);
}

nb::object softmax(const edit_arguments& edited, nb::handle x, std::int64_t axis, double scale,
                   nb::handle empty_row, nb::handle out, nb::handle out_dtype, nb::handle stream,
                   bool copy) {
  return softmax_or_log(edited, "softmax", &library::softmax, x, axis, scale, empty_row, out,
                        out_dtype, stream, copy);
}

nb::object log_softmax(const edit_arguments& edited, nb::handle x, std::int64_t axis, double scale,
                       nb::handle empty_row, nb::handle out, nb::handle out_dtype,
                       nb::handle stream, bool copy) {
  return softmax_or_log(edited, "log_softmax", &library::log_softmax, x, axis, scale, empty_row,
                        out, out_dtype, stream, copy);
}

nb::object logsumexp(const edit_arguments& edited, nb::handle x, std::int64_t axis, double scale,
                     nb::handle out, nb::handle out_dtype, nb::handle stream, bool copy) {
  const call c("logsumexp", "x", x, axis, stream, copy);
  const edits e(c, edited);
  softfold_logsumexp_options options = SOFTFOLD_LOGSUMEXP_OPTIONS_INIT;
  options.scale = scale;
  options.edits = e.get();
  result lse = c.without_columns("out", out, c.type_or("out_dtype", out_dtype, c.x().type));
  const softfold_vector* const to = lse.vector();
  c.run(
      [&](const library& l, softfold_queue* q) { return l.logsumexp(q, c.matrix(), to, &options); },
      lse_is_out);
  return lse.take();
}

nb::object backward(const edit_arguments& edited, const char* name, library_backward function,
                    nb::handle y, nb::handle dy, std::int64_t axis, double scale, nb::handle out,
                    nb::handle out_dtype, nb::handle stream) {
  const call c(name, "y", y, axis, stream);
  const edits e(c, edited);
  const softfold_matrix gradient = c.another("dy", dy);
  softfold_backward_options options = SOFTFOLD_BACKWARD_OPTIONS_INIT;
  options.scale = scale;
  options.edits = e.get();
  result dx = c.like_x("out", out, c.type_or("out_dtype", out_dtype, c.x().type));
  const softfold_matrix* const to = dx.matrix();
  c.run([&](const library& l,
            softfold_queue* q) { return (l.*function)(q, c.matrix(), &gradient, to, &options); },
        dx_is_out);
  return dx.take();
}

nb::object softmax_backward(const edit_arguments& edited, nb::handle y, nb::handle dy,
                            std::int64_t axis, double scale, nb::handle out, nb::handle out_dtype,
                            nb::handle stream) {
  return backward(edited, "softmax_backward", &library::softmax_backward, y, dy, axis, scale, out,
                  out_dtype, stream);
}

nb::object log_softmax_backward(const edit_arguments& edited, nb::handle y, nb::handle dy,
                                std::int64_t axis, double scale, nb::handle out,
                                nb::handle out_dtype, nb::handle stream) {
  return backward(edited, "log_softmax_backward", &library::log_softmax_backward, y, dy, axis,
                  scale, out, out_dtype, stream);
}

constexpr const char* scan_is_logcumsumexp[] = {"scan:",    "logcumsumexp:", "lse",  "out",
                                                "carry_in", "carry",         nullptr};

nb::object logcumsumexp(const edit_arguments& edited, nb::handle x, std::int64_t axis,
                        bool exclusive, bool reverse, double scale, nb::handle carry,
                        bool with_carry, nb::handle out, nb::handle out_dtype, nb::handle stream,
                        bool copy) {
  const call c("logcumsumexp", "x", x, axis, stream, copy);
  const edits e(c, edited);
  softfold_scan_options options = SOFTFOLD_SCAN_OPTIONS_INIT;
  options.scale = scale;
  options.exclusive = exclusive ? 1 : 0;
  options.reverse = reverse ? 1 : 0;
  options.edits = e.get();
  std::optional<array> before;
  softfold_vector carry_in{};
  if (!carry.is_none()) {
    before.emplace(argument{"logcumsumexp", "carry"}, carry, role::input);
    carry_in = c.states("carry", *before);
    options.carry_in = &carry_in;
  }
  result lse = c.like_x("out", out, c.type_or("out_dtype", out_dtype, c.x().type));
  std::optional<result> after;
  softfold_vector carry_out{};
  if (with_carry) {
    const softfold_dtype type = c.x().type == SOFTFOLD_F64 ? SOFTFOLD_F64 : SOFTFOLD_F32;
    after.emplace(made_by{[&] { return c.with_columns("carry", nb::none(), 2, type); }});
    carry_out = pairs(*after->vector());
    options.carry_out = &carry_out;
  }
  const softfold_matrix* const to = lse.matrix();
  c.run([&](const library& l, softfold_queue* q) { return l.scan(q, c.matrix(), to, &options); },
        scan_is_logcumsumexp);
  if (!after) {
    return c.returned(lse);
  }
  return nb::make_tuple(c.returned(lse), after->take());
}

/// The arrays of `out`, a pair; (None, None) where it is None.
std::pair<nb::object, nb::object> pair_of(const char* function, nb::handle out) {
  if (out.is_none()) {
    return {nb::none(), nb::none()};
  }
  if (!nb::isinstance<nb::tuple>(out) || nb::len(out) != 2) {
    throw nb::type_error(is_not({function, "out"}, nb::cast<std::string>(nb::repr(out.type())),
                                "None or a tuple of two arrays")
                             .c_str());
  }
  return {out[0], out[1]};
}

nb::object topk(const edit_arguments& edited, nb::handle x, std::int64_t k, std::int64_t axis,
                nb::handle out, nb::handle out_dtype, nb::handle index_dtype, nb::handle stream,
                bool copy) {
  const call c("topk", "x", x, axis, stream, copy);
  c.check_k(k);
  const edits e(c, edited);
  softfold_topk_options options = SOFTFOLD_TOPK_OPTIONS_INIT;
  options.edits = e.get();
  const auto [values_out, indices_out] = pair_of("topk", out);
  result values =
      c.with_columns("out[0]", values_out, k, c.type_or("out_dtype", out_dtype, c.x().type));
  result indices =
      c.with_columns("out[1]", indices_out, k, c.type_or("index_dtype", index_dtype, SOFTFOLD_I64));
  const softfold_matrix* const to_values = values.matrix();
  const softfold_matrix* const to_indices = indices.matrix();
  c.run([&](const library& l, softfold_queue* q) {
    return l.topk_with_options(q, c.matrix(), to_values, to_indices, &options);
  });
  return nb::make_tuple(c.returned(values), c.returned(indices));
}

nb::object softmax_topk(const edit_arguments& edited, nb::handle x, std::int64_t k,
                        std::int64_t axis, double scale, nb::handle empty_row, bool with_logits,
                        bool with_lse, nb::handle out, nb::handle out_dtype, nb::handle index_dtype,
                        nb::handle stream, bool copy) {
  const call c("softmax_topk", "x", x, axis, stream, copy);
  c.check_k(k);
  const edits e(c, edited);
  softfold_softmax_topk_options options = SOFTFOLD_SOFTMAX_TOPK_OPTIONS_INIT;
  options.scale = scale;
  options.edits = e.get();
  options.empty_row = empty_row_of("softmax_topk", empty_row);
  const softfold_dtype type = c.type_or("out_dtype", out_dtype, c.x().type);
  const auto [probabilities_out, indices_out] = pair_of("softmax_topk", out);
  result probabilities = c.with_columns("out[0]", probabilities_out, k, type);
  result indices =
      c.with_columns("out[1]", indices_out, k, c.type_or("index_dtype", index_dtype, SOFTFOLD_I64));
  const nb::none none;
  std::optional<result> logits;
  if (with_logits) {
    logits.emplace(made_by{[&] { return c.with_columns("logits", none, k, c.x().type); }});
    options.logits = logits->matrix();
  }
  std::optional<result> lse;
  if (with_lse) {
    lse.emplace(made_by{[&] { return c.without_columns("lse", none, type); }});
    options.lse = lse->vector();
  }
  const softfold_matrix* const to_probabilities = probabilities.matrix();
  const softfold_matrix* const to_indices = indices.matrix();
  c.run([&](const library& l, softfold_queue* q) {
    return l.softmax_topk(q, c.matrix(), to_probabilities, to_indices, &options);
  });
  nb::list all;
  all.append(c.returned(probabilities));
  all.append(c.returned(indices));
  if (logits) {
    all.append(c.returned(*logits));
  }
  if (lse) {
    all.append(lse->take());
  }
  return nb::tuple(all);
}

nb::object info(const std::string& backend) {
  if (backend != "cpu" && backend != "cuda") {
    throw nb::value_error(
        is_not({"info", "backend"}, "\"" + backend + "\"", "\"cpu\" or \"cuda\"").c_str());
  }
  const place where{backend == "cpu" ? 1 : 2, 0};
  const library& from = library_of(where);
  const lease queue(from, where, nullptr);
  check(from, queue.status());
  softfold_device_info found{};
  found.struct_size = sizeof found;
  check(from, from.queue_info(queue.get(), &found));
  nb::dict all;
  all["version"] = from.version();
  all["backend"] = found.backend;
  all["device"] = found.device;
  all["isa"] = found.isa;
  all["threads"] = found.threads;
  all["l1_bytes"] = found.l1_bytes;
  all["l2_bytes"] = found.l2_bytes;
  all["l3_bytes"] = found.l3_bytes;
  return all;
}

/// The work of softmax(x, out=y) without the package around it: what bench/python.py compares with.
void c_calls(nb::handle x, nb::handle y, std::int64_t times) {
  const softfold_matrix from = array({"softmax", "x"}, x, role::input).matrix();
  const softfold_matrix to = array({"softmax", "out"}, y, role::output).matrix();
  const softfold_softmax_options options = SOFTFOLD_SOFTMAX_OPTIONS_INIT;
  const lease queue(cpu_library(), place{}, nullptr);
  for (std::int64_t i = 0; i < times; ++i) {
    check(cpu_library(), softfold_softmax(queue.get(), &from, &to, &options));
  }
}

}  // namespace
}  // namespace softfold::python

NB_MODULE(_softfold, m) {
  namespace nb = nanobind;
  using namespace nb::literals;
  using namespace softfold::python;

  const auto none = nb::none();

  with_edits<&softmax>::define(m, "softmax", R"(
The softmax of each row: exp(scale * x) over the row's sum of these.

>>> import numpy as np
>>> softmax(np.array([[1.0, 2.0, 3.0], [0.0, -np.inf, 0.0]])).round(3)
array([[0.09 , 0.245, 0.665],
       [0.5  , 0.   , 0.5  ]])

x          an array of NumPy, torch, CuPy, JAX or any with __dlpack__, of float32, float64, float16
           or bfloat16. The last axis is a row.
axis       -1. Another axis needs copy=True.
scale      what x is multiplied by first: 1 over a temperature.
empty_row  what a row of -inf only becomes: "nan" or "zero".
out        the array to write to and return, of x's shape. It may be x.
out_dtype  x's type, the default, or float32.
stream     for an array in a GPU's memory, the stream to work on; the default is that of x's library.
copy       allows a copy of x where its axis or its strides need one.

What is done to the elements first, in this order (docs/semantics.md). An element that the bias (-inf
there), the mask, the lengths or the causal corner remove does not exist: whatever is stored there
reaches no result. Arrays are in x's place; with copy=True, shapes are those of x with its axis last.

bias       is added: an array of x's shape, or of one row for all.
penalties  a tuple (rows, columns, counts) of the columns that were drawn before: row r has entries
           rows[r] to rows[r + 1] - 1, int64; columns ascend in a row, int32 or int64; counts is
           int32. repetition, frequency and presence, float32 or float64, [1] or one for each row,
           say what is done: x > 0 ? x / repetition : x * repetition, then - frequency * count, then
           - presence.
softcap    c makes x c * tanh(x / c); 0 does nothing.
mask       keeps the columns where it is True, or a byte other than 0: a bool or uint8 array of x's
           shape, or of one row for all. An int32 array holds bits, bit j % 32 of word j // 32 for
           column j.
lengths    keeps that many first columns of each row: int32 or int64, x's shape without its last axis.
causal     "top_left" or "bottom_right": rows are queries, x's second last axis. Query i keeps columns
           up to i, or up to i + columns - queries.
window     with causal: keeps only the last so many of these; 0 keeps them all.

>>> softmax(np.zeros((2, 3)), causal="bottom_right", mask=np.array([True, False, True]))
array([[1. , 0. , 0. ],
       [0.5, 0. , 0.5]])

Returns an array of x's kind. A wrong argument is a TypeError or a ValueError that names it, and
nothing has been written.)",
                               "x"_a.none(), "axis"_a = -1, nb::kw_only(), "scale"_a = 1.0,
                               "empty_row"_a = "nan", "out"_a = none, "out_dtype"_a = none,
                               "stream"_a = none, "copy"_a = false);

  with_edits<&log_softmax>::define(m, "log_softmax", R"(
The logarithm of the softmax of each row, without its loss of digits. Arguments as softmax; a row of
-inf only becomes NaN, or -inf with empty_row="zero".

>>> import numpy as np
>>> log_softmax(np.array([1000.0, 0.0, -np.inf]))
array([    0., -1000.,   -inf]))",
                                   "x"_a.none(), "axis"_a = -1, nb::kw_only(), "scale"_a = 1.0,
                                   "empty_row"_a = "nan", "out"_a = none, "out_dtype"_a = none,
                                   "stream"_a = none, "copy"_a = false);

  with_edits<&logsumexp>::define(m, "logsumexp", R"(
log(sum(exp(scale * x))) of each row. The result has x's shape without the last axis. Arguments as
softmax.

>>> import numpy as np
>>> logsumexp(np.array([[1000.0, 1000.0], [-np.inf, -np.inf]]))
array([1000.69314718,          -inf])
>>> logsumexp(np.zeros((2, 4)), lengths=np.array([2, 0]))
array([0.69314718,       -inf]))",
                                 "x"_a.none(), "axis"_a = -1, nb::kw_only(), "scale"_a = 1.0,
                                 "out"_a = none, "out_dtype"_a = none, "stream"_a = none,
                                 "copy"_a = false);

  with_edits<&topk>::define(m, "topk", R"(
The k first elements of each row and their columns: NaN first, then large to small, equal ones by
lower column. There is one right answer, whatever the machine.

>>> import numpy as np
>>> topk(np.array([[1.0, 3.0, 2.0, 3.0]]), 3)
(array([[3., 3., 2.]]), array([[1, 3, 2]]))

out          a tuple of the two arrays to write to.
index_dtype  int64, the default, or int32.)",
                            "x"_a.none(), "k"_a, "axis"_a = -1, nb::kw_only(), "out"_a = none,
                            "out_dtype"_a = none, "index_dtype"_a = none, "stream"_a = none,
                            "copy"_a = false);

  with_edits<&softmax_topk>::define(m, "softmax_topk", R"(
The softmax of each row's k first elements, over the whole row, and their columns, in one pass.

>>> import numpy as np
>>> probabilities, columns = softmax_topk(np.log([[1.0, 4.0, 3.0, 2.0]]), 2)
>>> probabilities.round(3), columns
(array([[0.4, 0.3]]), array([[1, 2]]))

with_logits  also return the elements themselves.
with_lse     also return the logsumexp of each row.
out          a tuple of the two arrays to write to.
index_dtype  int64, the default, or int32.)",
                                    "x"_a.none(), "k"_a, "axis"_a = -1, nb::kw_only(),
                                    "scale"_a = 1.0, "empty_row"_a = "nan", "with_logits"_a = false,
                                    "with_lse"_a = false, "out"_a = none, "out_dtype"_a = none,
                                    "index_dtype"_a = none, "stream"_a = none, "copy"_a = false);

  with_removals<&softmax_backward>::define(m, "softmax_backward", R"(
The gradient of x, from y = softmax(x, scale=scale) and the gradient of y. out may be y or dy.
Where that had edits that remove elements, the same go here: the gradient of a removed element is 0.

>>> import numpy as np
>>> y = softmax(np.array([0.0, 0.0]))
>>> softmax_backward(y, np.array([1.0, 0.0]))
array([ 0.25, -0.25]))",
                                           "y"_a.none(), "dy"_a.none(), "axis"_a = -1,
                                           nb::kw_only(), "scale"_a = 1.0, "out"_a = none,
                                           "out_dtype"_a = none, "stream"_a = none);

  with_removals<&log_softmax_backward>::define(m, "log_softmax_backward", R"(
The gradient of x, from y = log_softmax(x, scale=scale) and the gradient of y. out may be y or dy.
Where that had edits that remove elements, the same go here: the gradient of a removed element is 0.

>>> import numpy as np
>>> y = log_softmax(np.array([0.0, 0.0]))
>>> log_softmax_backward(y, np.array([1.0, 0.0]))
array([ 0.5, -0.5]))",
                                               "y"_a.none(), "dy"_a.none(), "axis"_a = -1,
                                               nb::kw_only(), "scale"_a = 1.0, "out"_a = none,
                                               "out_dtype"_a = none, "stream"_a = none);

  with_edits<&logcumsumexp>::define(m, "logcumsumexp", R"(
The logarithm of the cumulative sum of exp(scale * x) of each row: the logsumexp of the columns up to
each one. The result has x's shape. Arguments as softmax.

>>> import numpy as np
>>> np.exp(logcumsumexp(np.log([[1.0, 2.0, 3.0]]))).round(3)
array([[1., 3., 6.]])
>>> np.exp(logcumsumexp(np.log([[1.0, 2.0, 3.0]]), exclusive=True)).round(3)
array([[0., 1., 3.]])

exclusive   leaves out the column itself: the same numbers one column later, -inf first.
reverse     from the last column on.
carry       states of what comes before the rows: an array of x's shape with a last axis of 2, the
            maximum and the sum of each row; float64 for float64 x, otherwise float32.
with_carry  also return the states after the rows, the carry of the columns that follow.)",
                                    "x"_a.none(), "axis"_a = -1, nb::kw_only(),
                                    "exclusive"_a = false, "reverse"_a = false, "scale"_a = 1.0,
                                    "carry"_a = none, "with_carry"_a = false, "out"_a = none,
                                    "out_dtype"_a = none, "stream"_a = none, "copy"_a = false);

  m.def("info", &info, "backend"_a = "cpu", R"(
What calls run on: a dict of version, backend, device, isa, threads and sizes of caches. backend is
"cpu" or "cuda", the latter with the package softfold-cu13 and a GPU.

>>> info()["backend"]
'cpu')");

  m.def("set_threads", &set_threads, "threads"_a, R"(
How many threads calls on arrays in the processor's memory use from now on; 0, as at the start, is
all that the process may run on.

>>> set_threads(1)
>>> info()["threads"]
1
>>> set_threads(0))");

  m.def("set_numerics", &set_numerics, "numerics"_a, R"(
"reproducible": softmax, log_softmax, logsumexp, softmax_topk and the gradients give a row the same
bits on every backend and machine from now on, those of docs/numerics.md; "fast", as at the start:
whatever is quickest within the bounds.

>>> set_numerics("reproducible")
>>> set_numerics("fast"))");

  m.def("_c_calls", &c_calls);

  bind_attention(m);
  bind_attention_states(m);
  bind_sample(m);
  bind_states(m);
  bind_xla(m);
}

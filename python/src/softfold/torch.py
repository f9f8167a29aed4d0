# SPDX-License-Identifier: Apache-2.0
"""The functions for torch: with gradients, and as operators that torch.compile and torch.export keep
in their graphs (torch.ops.softfold). Where no gradient is asked for, a call goes past torch's
dispatcher.

Tensors are as for the functions of softfold: the last dimension is a row, its elements contiguous. The
edits of a row are keywords as there: bias, mask, lengths, causal, window, softcap, penalties,
repetition, frequency, presence. A bias has a gradient too; penalties and their numbers have none, and a
row that they edit has none with them.

>>> import torch, softfold.torch
>>> x = torch.tensor([[0.0, 0.0]], requires_grad=True)
>>> softfold.torch.softmax(x)[0, 0].backward()
>>> x.grad
tensor([[ 0.2500, -0.2500]])
>>> softfold.torch.softmax(torch.zeros(2, 2), causal="top_left")
tensor([[1.0000, 0.0000],
        [0.5000, 0.5000]])"""

import math

import torch

import softfold as _softfold

__all__ = [
    "attention", "log_softmax", "logcumsumexp", "logsumexp", "sample", "softmax", "softmax_topk",
]  # fmt: skip

# Operators live as long as this object.
_library = torch.library.Library("softfold", "DEF")

# ---- edits: what the operators take after their rows ----

_PENALTIES = ("penalty_rows", "penalty_columns", "penalty_counts")
_TENSORS = ("bias", "mask", "lengths", *_PENALTIES, "repetition", "frequency", "presence")
_REMOVALS = ("bias", "mask", "lengths")
_NUMBERS = {"causal": None, "window": 0, "softcap": 0.0}


def _optional(names):
    return ", ".join(f"Tensor? {name}=None" for name in names)


_EDITS = _optional(_TENSORS)
_EDIT_NUMBERS = "str? causal=None, int window=0, float softcap=0.0"


def _of_edits(function, edits):
    """The keywords of a function as the operators' tensors, in their order, and numbers."""
    penalties = edits.pop("penalties", None)
    if penalties is not None:
        if not isinstance(penalties, tuple) or len(penalties) != 3:
            raise TypeError(
                f"{function}: penalties is {type(penalties)}, expected a tuple of three tensors: rows, "
                "columns and counts"
            )
        edits.update(zip(_PENALTIES, penalties))
    tensors = tuple(edits.pop(name, None) for name in _TENSORS)
    for name, given in zip(_TENSORS, tensors):
        if given is not None and not isinstance(given, torch.Tensor):
            raise TypeError(f"{function}: {name} is {type(given)}, expected a torch.Tensor")
    numbers = {name: edits.pop(name, default) for name, default in _NUMBERS.items()}
    for name in edits:
        raise TypeError(f"{function}: there is no argument {name}")
    return tensors, numbers


def _keywords(names, tensors, numbers):
    """The operators' arguments as keywords of softfold's function."""
    given = {name: tensor for name, tensor in zip(names, tensors) if tensor is not None}
    if "penalty_rows" in given:
        given["penalties"] = tuple(given.pop(name) for name in _PENALTIES)
    return {**given, **numbers}


def _removed(x, bias, mask, lengths, causal, window):
    """Which elements of rows like x are removed, of x's shape or broadcast to it; None: none can be."""
    columns = torch.arange(x.shape[-1], device=x.device)
    removed = []
    if bias is not None:
        removed.append(torch.isneginf(bias))
    if mask is not None:
        if mask.dtype == torch.int32:  # bits
            bits = mask.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32, device=x.device)
            mask = (bits & 1).flatten(-2)[..., : x.shape[-1]]
        removed.append(mask == 0)
    if lengths is not None:
        removed.append(columns >= lengths.unsqueeze(-1))
    if causal is not None:
        last = torch.arange(x.shape[-2], device=x.device).unsqueeze(-1)
        if causal == "bottom_right":
            last = last + (x.shape[-1] - x.shape[-2])
        removed.append(columns > last)
        if window > 0:
            removed.append(columns <= last - window)
    whole = None
    for some in removed:
        whole = some if whole is None else whole | some
    return whole


# ---- operators ----


def _operator(schema, fake, implementation=None, names=_TENSORS, rows=1, maps=True):
    """Defines an operator of `rows` tensors like x, then those that `names` has; and its kernels, as a
    rule the function of softfold with its name. `maps`: more rows are what torch.vmap maps over."""
    name = schema.partition("(")[0]
    function = implementation or getattr(_softfold, name)

    def call(*arguments, **options):
        return function(*arguments[:rows], **_keywords(names, arguments[rows:], options))

    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides))
    for device in ("CPU", "CUDA"):
        _library.impl(name, call, device)
    torch.library.register_fake(f"softfold::{name}", fake, lib=_library)
    if maps:
        torch.library.register_vmap(f"softfold::{name}", _mapped(name, names, rows), lib=_library)
    return getattr(torch.ops.softfold, name).default


def _mapped(name, names, rows):
    """Rows lie before the last dimension, and what is mapped over is more rows."""

    def call(info, in_dims, *arguments, **options):
        shape = None  # of x for one element of what is mapped over

        def front(given, dim):
            if dim is None:
                return given.expand(info.batch_size, *given.shape)
            return given.movedim(dim, 0)

        moved = []
        for i, (given, dim) in enumerate(zip(arguments, in_dims)):
            argument = None if i < rows else names[i - rows] if i - rows < len(names) else None
            if isinstance(given, torch.Tensor):
                if argument in _PENALTIES:
                    raise ValueError(f"{name}: penalties cannot be mapped over by torch.vmap")
                each = given.dim() - (dim is not None)
                if i == 0:
                    shape = given.shape if dim is None else front(given, dim).shape[1:]
                    if options.get("causal") is not None and len(shape) < 2:
                        raise ValueError(
                            f"{name}: causal is {options['causal']!r}, expected None where x is of "
                            f"shape {tuple(shape)}, without an axis of queries"
                        )
                    given = front(given, dim)
                elif each == 1 and len(shape) > 1 and argument in ("bias", "mask"):
                    if dim is not None:  # one row for all of these rows, but not of the others
                        given = front(given, dim)
                        given = given.reshape(-1, *[1] * (len(shape) - 1), given.shape[-1])
                        given = given.expand(-1, *shape[:-1], -1)
                elif each == 1 and given.numel() == (1 if dim is None else info.batch_size) and (
                    argument in ("repetition", "frequency", "presence")
                ):
                    if dim is not None:
                        given = front(given, dim).reshape(-1, *[1] * (len(shape) - 1))
                        given = given.expand(-1, *shape[:-1])
                else:
                    given = front(given, dim)
                given = given.contiguous()
            moved.append(given)
        made = getattr(torch.ops.softfold, name)(*moved, **options)
        if isinstance(made, (tuple, list)):
            return made, type(made)(0 for _ in made)
        return made, 0

    return call


def _like(x, dtype=None):
    return x.new_empty(x.shape, dtype=dtype)


def _in_rows(gradient):
    """What autograd hands over may be expanded or transposed, and nobody can hand it another."""
    return gradient.contiguous()


_OPTIONS = f"*, float scale=1.0, str empty_row='nan', ScalarType? out_dtype=None, {_EDIT_NUMBERS}"


def _fake_of_rows(x, *edits, out_dtype=None, **options):
    return _like(x, out_dtype)


_softmax = _operator(f"softmax(Tensor x, {_EDITS}, {_OPTIONS}) -> Tensor", _fake_of_rows)
_log_softmax = _operator(f"log_softmax(Tensor x, {_EDITS}, {_OPTIONS}) -> Tensor", _fake_of_rows)
_logcumsumexp = _operator(
    f"logcumsumexp(Tensor x, {_EDITS}, *, bool exclusive=False, bool reverse=False, float scale=1.0, "
    f"ScalarType? out_dtype=None, {_EDIT_NUMBERS}) -> Tensor",
    _fake_of_rows,
)
_logsumexp = _operator(
    f"logsumexp(Tensor x, {_EDITS}, *, float scale=1.0, ScalarType? out_dtype=None, {_EDIT_NUMBERS}) "
    "-> Tensor",
    lambda x, *edits, out_dtype=None, **options: x.new_empty(x.shape[:-1], dtype=out_dtype),
)
_softmax_backward, _log_softmax_backward = (
    _operator(
        f"{name}_backward(Tensor y, Tensor dy, {_optional(_REMOVALS)}, *, float scale=1.0, "
        "str? causal=None, int window=0) -> Tensor",
        lambda y, dy, *edits, **options: _like(y),
        names=_REMOVALS,
        rows=2,
    )
    for name in ("softmax", "log_softmax")
)


def _fake_softmax_topk(x, k, *edits, out_dtype=None, **options):
    shape = (*x.shape[:-1], k)
    return x.new_empty(shape, dtype=out_dtype), x.new_empty(shape, dtype=torch.int64)


_softmax_topk = _operator(
    f"softmax_topk(Tensor x, SymInt k, {_EDITS}, {_OPTIONS}) -> (Tensor, Tensor)",
    _fake_softmax_topk,
    rows=2,
)

_EACH = {
    "temperature": "temperatures",
    "top_k": "top_ks",
    "top_p": "top_ps",
    "min_p": "min_ps",
    "seed": "seeds",
    "offset": "offsets",
}


def _sample_implementation(x, *, seed=0, offset=0, **options):
    for number, each in _EACH.items():
        if each in options:
            options[number] = options.pop(each)
    options.setdefault("seed", seed % 2**64)
    options.setdefault("offset", offset % 2**64)
    made = _softfold.sample(x, **options)
    return list(made) if isinstance(made, tuple) else [made]


def _fake_sample(
    x, *tensors, draws=1, with_log_probability=False, with_raw_log_probability=False, with_lse=False,
    with_kept=False, with_top=0, out_dtype=None, index_dtype=None, **options
):  # fmt: skip
    leading, index = x.shape[:-1], index_dtype or torch.int64
    made = [x.new_empty((*leading, draws), dtype=index)]
    for wanted in (with_log_probability, with_raw_log_probability):
        if wanted:
            made.append(x.new_empty((*leading, draws), dtype=out_dtype))
    if with_lse:
        made.append(x.new_empty(leading, dtype=out_dtype))
    if with_kept:
        made += [x.new_empty(leading, dtype=index), x.new_empty(leading, dtype=out_dtype)]
    if with_top:
        shape = (*leading, with_top)
        made += [x.new_empty(shape, dtype=index), x.new_empty(shape, dtype=out_dtype)]
    return made


_sample = _operator(
    f"sample(Tensor x, {_EDITS}, {_optional(_EACH.values())}, *, float temperature=1.0, "
    "SymInt top_k=0, float top_p=1.0, float min_p=0.0, SymInt seed=0, SymInt offset=0, int draws=1, "
    "bool joint=False, bool with_log_probability=False, bool with_raw_log_probability=False, "
    "bool with_lse=False, bool with_kept=False, int with_top=0, ScalarType? out_dtype=None, "
    f"ScalarType? index_dtype=None, {_EDIT_NUMBERS}) -> Tensor[]",
    _fake_sample,
    _sample_implementation,
    names=(*_TENSORS, *_EACH.values()),
)

_SCORES = ("bias", "alibi_slopes", "key_lengths", "sinks", "query_starts", "key_starts")


def _fake_attention(query, key, value, *tensors, out_dtype=None, **options):
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    out = query.new_empty((*query.shape[:-1], value.shape[-1]), dtype=out_dtype)
    return out, query.new_empty(query.shape[:-1], dtype=wide)


_attention = _operator(
    f"attention(Tensor query, Tensor key, Tensor value, {_optional(_SCORES)}, *, float? scale=None, "
    "float softcap=0.0, str? causal=None, int window_left=-1, int window_right=-1, SymInt key_offset=0, "
    "SymInt query_offset=0, SymInt most_queries=0, SymInt most_keys=0, str empty_row='zero', "
    "ScalarType? out_dtype=None) -> (Tensor, Tensor)",
    _fake_attention,
    lambda *tensors, **options: _softfold.attention(*tensors, with_lse=True, **options),
    names=_SCORES,
    rows=3,
    maps=False,
)


# ---- gradients ----
#
# Those of the edited row, by the gradient functions, then through the edits: an element that is removed
# has none, a bias adds, a softcap's slope is 1 - tanh^2. Penalties have no gradient.


class _Edited:
    """What a gradient needs of the edits of its function's rows."""

    def __init__(self, tensors, numbers):
        self.bias, self.mask, self.lengths = tensors[:3]
        self.causal, self.window, self.softcap = (numbers[name] for name in _NUMBERS)

    def removals(self):
        return (self.bias, self.mask, self.lengths), {"causal": self.causal, "window": self.window}

    def options(self):
        """Those that edit x again, for a function of it."""
        edits = (self.bias, self.mask, self.lengths, *[None] * (len(_TENSORS) - 3))
        return edits, {"causal": self.causal, "window": self.window, "softcap": self.softcap}

    def removed(self, x):
        return _removed(x, self.bias, self.mask, self.lengths, self.causal, self.window)

    def without_removed(self, x, values, otherwise=0.0):
        removed = self.removed(x)
        return values if removed is None else torch.where(removed, otherwise, values)

    def sum(self, x, dtype):
        """x + bias, with nothing of what is removed."""
        x = self.without_removed(x, x).to(dtype)
        return x if self.bias is None else x + self.bias.to(dtype)

    def edited(self, x, dtype):
        x = self.sum(x, dtype)
        return self.softcap * torch.tanh(x / self.softcap) if self.softcap else x

    def of_inputs(self, x, dz, dtype, needs_bias):
        """The gradients of x and the bias from that of the edited row, 0 where it is removed."""
        if self.softcap:
            slope = 1 - torch.tanh(self.sum(x, dz.dtype) / self.softcap).square()
            dz = self.without_removed(x, dz * slope)
        dbias = None
        if needs_bias:
            dbias = dz.sum_to_size(self.bias.shape).to(self.bias.dtype)
        return dz.to(dtype), dbias


def _setup(arguments_before_edits, keeps_output):
    def setup(ctx, inputs, keyword_only_inputs, output):
        tensors = inputs[arguments_before_edits:]
        if tensors[3] is not None:
            raise ValueError(
                "softfold.torch: penalties have no gradient, expected x and bias without requires_grad: "
                "use torch.no_grad() or detach()"
            )
        first = output[0] if isinstance(output, tuple) else output
        kept = output[1] if isinstance(output, tuple) else first if keeps_output else None
        x = None if keeps_output and not keyword_only_inputs["softcap"] else inputs[0]
        ctx.save_for_backward(x, kept, *tensors[:3])
        ctx.options, ctx.dtype = keyword_only_inputs, inputs[0].dtype
        ctx.of_bias = tensors[0] is not None and tensors[0].requires_grad
        if isinstance(output, tuple):
            ctx.mark_non_differentiable(output[1])

    return setup


def _register(name, keeps_output=False, others=0):
    """Registers the gradient of an operator, with `others` arguments between x and the edits: a
    function of what was kept, x, kept, edits and options, and of the gradient that gives that of the
    edited row."""

    def registered(gradient):
        def backward(ctx, dy, *_):
            x, kept, *tensors = ctx.saved_tensors
            edits = _Edited(tensors, ctx.options)
            dz = gradient(x, kept, edits, ctx.options, dy)
            dx, dbias = edits.of_inputs(x, dz, ctx.dtype, ctx.of_bias)
            return (dx, *[None] * others, dbias, *[None] * (len(_TENSORS) - 1))

        torch.library.register_autograd(
            f"softfold::{name}", backward, setup_context=_setup(1 + others, keeps_output), lib=_library
        )

    return registered


def _softmax_gradient(y, dy, edits, scale):
    if torch.is_grad_enabled():  # of a second order: by operations that have gradients themselves
        dy = edits.without_removed(y, dy)
        return edits.without_removed(y, scale * y * (dy - (y * dy).sum(-1, keepdim=True)))
    tensors, numbers = edits.removals()
    return _softmax_backward(y, _in_rows(dy), *tensors, scale=scale, **numbers)


@_register("softmax", keeps_output=True)
def _(x, y, edits, options, dy):
    return _softmax_gradient(y, dy, edits, options["scale"])


@_register("log_softmax", keeps_output=True)
def _(x, y, edits, options, dy):
    if torch.is_grad_enabled():
        dy = edits.without_removed(y, dy)
        return edits.without_removed(y, options["scale"] * (dy - y.exp() * dy.sum(-1, keepdim=True)))
    tensors, numbers = edits.removals()
    return _log_softmax_backward(y, _in_rows(dy), *tensors, scale=options["scale"], **numbers)


@_register("logsumexp")
def _(x, _, edits, options, dlse):
    tensors, numbers = edits.options()
    y = _softmax(x, *tensors, scale=options["scale"], empty_row="zero", **numbers)
    return options["scale"] * dlse.unsqueeze(-1) * y


@_register("softmax_topk", others=1)
def _(x, columns, edits, options, dp):
    tensors, numbers = edits.options()
    y = _softmax(
        x, *tensors, scale=options["scale"], empty_row=options["empty_row"], **numbers
    )
    dy = torch.zeros_like(x).scatter(-1, columns, dp.to(x.dtype))
    return _softmax_gradient(y, dy, edits, options["scale"])


@_register("logcumsumexp")
def _(x, _, edits, options, dy):
    """dx_j = scale exp(z_j) sum_i dy_i exp(-lse_i) over the prefixes i that have j: sums of exponentials
    from the other end, of the positive dy and of the negative ones."""
    scale, reverse, exclusive = (options[name] for name in ("scale", "reverse", "exclusive"))
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    tensors, numbers = edits.options()
    prefixes = {"scale": scale, "reverse": reverse, "exclusive": exclusive, "out_dtype": wide}
    lse = _logcumsumexp(x, *tensors, **prefixes, **numbers)
    z = scale * edits.edited(x, wide)
    dy = dy.to(wide)
    dz = 0
    for sign in (1.0, -1.0):
        counts = (sign * dy > 0) & ~torch.isneginf(lse)
        terms = torch.where(counts, torch.where(counts, sign * dy, 1.0).log() - lse, -math.inf)
        suffixes = _logcumsumexp(terms, reverse=not reverse, exclusive=exclusive)
        exists = ~torch.isneginf(suffixes)
        dz = dz + sign * torch.where(exists, (z + torch.where(exists, suffixes, 0.0)).exp(), 0.0)
    return edits.without_removed(x, scale * dz)


# ---- functions ----

# torch.export hands over tensors of a kind of its own; is_compiling(), which knows of that, takes longer.
_Tensor, _is_traced = torch.Tensor, torch.compiler.is_dynamo_compiling
_is_transformed = torch._C._are_functorch_transforms_active


def _needs_gradient(x):
    return isinstance(x, torch.Tensor) and x.requires_grad and torch.is_grad_enabled()


def _refuse_gradient(function, name, x):
    if _needs_gradient(x):
        raise ValueError(
            f"{function}: {name}.requires_grad is True, and {function} has no gradient: use "
            f"{name}.detach() or torch.no_grad()"
        )


def _plain(x, edits=None):
    """Whether nothing but the result is wanted: no gradient, no trace, no tensor of another kind."""
    return (
        type(x) is _Tensor
        and not _is_traced()
        and not (x.requires_grad and torch.is_grad_enabled())
        and not (edits and _needs_gradient(edits.get("bias")))
        and not _is_transformed()
    )


def _check_dim(function, x, dim):
    if dim != x.dim() - 1:
        raise ValueError(
            f"{function}: dim is {dim}, expected -1 or {x.dim() - 1}, the last one; "
            "x.movedim(dim, -1).contiguous() is a copy that has it there"
        )


def softmax(x, dim=-1, *, scale=1.0, empty_row="nan", dtype=None, **edits):
    """softfold.softmax with a gradient. dtype is the result's: x's or torch.float32."""
    if dim != -1:
        _check_dim("softmax", x, dim)
    # As a rule, here and below: without _plain and keywords to be unpacked, which cost more than the rest.
    if not edits and type(x) is _Tensor and not (x.requires_grad or _is_traced() or _is_transformed()):
        return _softfold.softmax(x, scale=scale, empty_row=empty_row, out_dtype=dtype)
    if _plain(x, edits):
        return _softfold.softmax(x, scale=scale, empty_row=empty_row, out_dtype=dtype, **edits)
    tensors, numbers = _of_edits("softmax", edits)
    return _softmax(x, *tensors, scale=scale, empty_row=empty_row, out_dtype=dtype, **numbers)


def log_softmax(x, dim=-1, *, scale=1.0, empty_row="nan", dtype=None, **edits):
    """softfold.log_softmax with a gradient. dtype is the result's: x's or torch.float32."""
    if dim != -1:
        _check_dim("log_softmax", x, dim)
    if not edits and type(x) is _Tensor and not (x.requires_grad or _is_traced() or _is_transformed()):
        return _softfold.log_softmax(x, scale=scale, empty_row=empty_row, out_dtype=dtype)
    if _plain(x, edits):
        return _softfold.log_softmax(x, scale=scale, empty_row=empty_row, out_dtype=dtype, **edits)
    tensors, numbers = _of_edits("log_softmax", edits)
    return _log_softmax(x, *tensors, scale=scale, empty_row=empty_row, out_dtype=dtype, **numbers)


def logsumexp(x, dim=-1, *, scale=1.0, dtype=None, **edits):
    """softfold.logsumexp with a gradient, 0 for an empty row."""
    if dim != -1:
        _check_dim("logsumexp", x, dim)
    if not edits and type(x) is _Tensor and not (x.requires_grad or _is_traced() or _is_transformed()):
        return _softfold.logsumexp(x, scale=scale, out_dtype=dtype)
    if _plain(x, edits):
        return _softfold.logsumexp(x, scale=scale, out_dtype=dtype, **edits)
    tensors, numbers = _of_edits("logsumexp", edits)
    return _logsumexp(x, *tensors, scale=scale, out_dtype=dtype, **numbers)


def softmax_topk(x, k, dim=-1, *, scale=1.0, empty_row="nan", dtype=None, **edits):
    """softfold.softmax_topk with the gradient of the probabilities."""
    if dim != -1:
        _check_dim("softmax_topk", x, dim)
    if not edits and type(x) is _Tensor and not (x.requires_grad or _is_traced() or _is_transformed()):
        return _softfold.softmax_topk(x, k, scale=scale, empty_row=empty_row, out_dtype=dtype)
    if _plain(x, edits):
        return _softfold.softmax_topk(
            x, k, scale=scale, empty_row=empty_row, out_dtype=dtype, **edits
        )
    tensors, numbers = _of_edits("softmax_topk", edits)
    return _softmax_topk(x, k, *tensors, scale=scale, empty_row=empty_row, out_dtype=dtype, **numbers)


def logcumsumexp(x, dim=-1, *, exclusive=False, reverse=False, scale=1.0, dtype=None, **edits):
    """softfold.logcumsumexp, without carries, with a gradient: 0 through a prefix without elements."""
    if dim != -1:
        _check_dim("logcumsumexp", x, dim)
    options = {"exclusive": exclusive, "reverse": reverse, "scale": scale, "out_dtype": dtype}
    if _plain(x, edits):
        return _softfold.logcumsumexp(x, **options, **edits)
    tensors, numbers = _of_edits("logcumsumexp", edits)
    return _logcumsumexp(x, *tensors, **options, **numbers)


def sample(
    x, *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=0, offset=0, draws=1, joint=False,
    with_log_probability=False, with_raw_log_probability=False, with_lse=False, with_kept=False,
    with_top=0, dtype=None, index_dtype=None, **edits
):  # fmt: skip
    """softfold.sample as an operator: tokens, or a tuple of them and what else is asked for. Without a
    gradient: x needs none, or stands within torch.no_grad()."""
    options = {
        "draws": draws, "joint": joint, "with_log_probability": with_log_probability,
        "with_raw_log_probability": with_raw_log_probability, "with_lse": with_lse,
        "with_kept": with_kept, "with_top": with_top, "out_dtype": dtype, "index_dtype": index_dtype,
    }  # fmt: skip
    parameters = {
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed,
        "offset": offset,
    }  # fmt: skip
    if _plain(x, edits):
        return _softfold.sample(x, **parameters, **options, **edits)
    _refuse_gradient("sample", "x", x)
    tensors, numbers = _of_edits("sample", edits)
    each = tuple(
        parameters.pop(name) if isinstance(parameters[name], torch.Tensor) else None for name in _EACH
    )
    for name in ("seed", "offset"):  # 64 bits, which an operator has as those of a signed integer
        if isinstance(parameters.get(name), int) and parameters[name] >= 2**63:
            parameters[name] -= 2**64
    made = _sample(x, *tensors, *each, **parameters, **options, **numbers)
    return made[0] if len(made) == 1 else tuple(made)


def attention(
    query, key, value, *, bias=None, alibi_slopes=None, key_lengths=None, sinks=None, query_starts=None,
    key_starts=None, with_lse=False, dtype=None, **numbers
):  # fmt: skip
    """softfold.attention as an operator. Without a gradient: no tensor needs one, or the call stands within
    torch.no_grad()."""
    tensors = {"query": query, "key": key, "value": value}
    scores = dict(zip(_SCORES, (bias, alibi_slopes, key_lengths, sinks, query_starts, key_starts)))
    for name, given in (*tensors.items(), *scores.items()):
        _refuse_gradient("attention", name, given)
    if _plain(query):
        return _softfold.attention(**tensors, **scores, with_lse=with_lse, out_dtype=dtype, **numbers)
    out, lse = _attention(*tensors.values(), *scores.values(), out_dtype=dtype, **numbers)
    return (out, lse) if with_lse else out

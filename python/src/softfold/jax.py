# SPDX-License-Identifier: Apache-2.0
"""The functions for JAX: calls of XLA's foreign function interface, so that they work within jax.jit,
jax.vmap and jax.grad, on the CPU and, with the package softfold-cu13, on CUDA devices.

The edits of a row are keywords as in softfold: bias, mask, lengths, causal, window, softcap, penalties,
repetition, frequency, presence. A bias has a gradient too; penalties and their numbers have none, and a
row that they edit has none with them.

>>> import jax, jax.numpy as jnp, softfold.jax
>>> jax.grad(lambda x: softfold.jax.softmax(x)[0])(jnp.zeros(2, jnp.float32))
Array([ 0.25, -0.25], dtype=float32)
>>> softfold.jax.softmax(jnp.zeros((2, 2), jnp.float32), causal="top_left")
Array([[1. , 0. ],
       [0.5, 0.5]], dtype=float32)"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _softfold

__all__ = [
    "attention", "log_softmax", "logcumsumexp", "logsumexp", "sample", "softmax", "softmax_topk",
]  # fmt: skip


def _register(platform, cuda):
    for name, handler in _softfold._xla_handlers(cuda).items():
        jax.ffi.register_ffi_target(name, handler, platform=platform)


_register("cpu", False)
try:
    _register("CUDA", True)
except RuntimeError:  # without that package a call on a GPU says that there is no such target
    pass

_EMPTY_ROW = {"nan": 0, "zero": 1}
_CAUSAL = {None: 0, "top_left": 1, "bottom_right": 2}


class _Options(NamedTuple):
    """What is fixed when a call is traced."""

    scale: float = 1.0
    empty_row: str = "nan"
    dtype: Any = None
    k: int = 0
    exclusive: bool = False
    reverse: bool = False
    causal: str | None = None
    window: int = 0
    softcap: float = 0.0


# ---- edits: a dict of the arrays that were given ----

_ARRAYS = ("bias", "mask", "lengths", "penalties", "repetition", "frequency", "presence")
_REMOVALS = ("bias", "mask", "lengths")


def _words(x):
    """Integers as pairs of 32 bits, the low ones first: without jax_enable_x64 there are no others."""
    if x.dtype.itemsize == 8:
        return jax.lax.bitcast_convert_type(x, jnp.int32)
    high = x >> 31 if jnp.issubdtype(x.dtype, jnp.signedinteger) else jnp.zeros_like(x)
    low, high = (jax.lax.bitcast_convert_type(part, jnp.int32) for part in (x, high))
    return jnp.stack([low, high], axis=-1)


def _integers(function, name, given):
    given = jnp.asarray(given)
    if not jnp.issubdtype(given.dtype, jnp.integer) or given.dtype.itemsize < 4:
        raise TypeError(f"{function}: {name}.dtype is {given.dtype}, expected int32 or int64")
    return given


def _is_of(function, name, given, *shapes):
    if given.shape not in shapes:
        expected = " or ".join(str(shape) for shape in dict.fromkeys(shapes))
        raise ValueError(f"{function}: {name} is of shape {given.shape}, expected {expected}")
    return given


def _check_causal(function, causal):
    if causal not in _CAUSAL:
        raise ValueError(
            f'{function}: causal is {causal!r}, expected None, "top_left" or "bottom_right"'
        )


def _checked_edits(function, x, edits):
    """The arrays and the options of a function's edits."""
    row, leading = x.shape[-1:], x.shape[:-1]
    numbers = {name: edits.pop(name) for name in ("causal", "window", "softcap") if name in edits}
    arrays = {name: given for name, given in edits.items() if given is not None}
    for name in arrays:
        if name not in _ARRAYS:
            raise TypeError(f"{function}: there is no argument {name}")
    if "bias" in arrays:
        arrays["bias"] = _is_of(function, "bias", jnp.asarray(arrays["bias"]), x.shape, row)
    if "mask" in arrays:
        mask = jnp.asarray(arrays["mask"])
        if mask.dtype not in (jnp.bool_, jnp.uint8, jnp.int32):
            raise TypeError(f"{function}: mask.dtype is {mask.dtype}, expected bool, uint8 or int32")
        columns = (-(-row[0] // 32),) if mask.dtype == jnp.int32 else row
        arrays["mask"] = _is_of(function, "mask", mask, leading + columns, columns)
    if "lengths" in arrays:
        lengths = _integers(function, "lengths", arrays["lengths"])
        arrays["lengths"] = _is_of(function, "lengths", lengths, leading)
    for name in ("repetition", "frequency", "presence"):
        if name in arrays:
            arrays[name] = _is_of(function, name, jnp.asarray(arrays[name]), leading, (1,))
            if "penalties" not in arrays:
                raise ValueError(
                    f"{function}: penalties is None, expected a tuple of rows, columns and counts, to "
                    "be penalised"
                )
    if "penalties" in arrays:
        rows, columns, counts = (
            _integers(function, f"penalties[{i}]", given)
            for i, given in enumerate(arrays["penalties"])
        )
        arrays["penalties"] = (_words(rows), columns, counts)
    causal = numbers.get("causal")
    _check_causal(function, causal)
    if causal is not None and x.ndim < 2:
        raise ValueError(
            f"{function}: causal is {causal!r}, expected None where x is of shape {x.shape}, without an "
            "axis of queries"
        )
    return arrays, {
        "causal": causal,
        "window": int(numbers.get("window", 0)),
        "softcap": float(numbers.get("softcap", 0.0)),
    }


def _removals(edits):
    return {name: given for name, given in edits.items() if name in _REMOVALS}


def _sum(x, edits, options, dtype):
    """x + bias, with nothing of what is removed."""
    removed = _removed(x, edits, options)
    x = (x if removed is None else jnp.where(removed, 0, x)).astype(dtype)
    return x + edits["bias"].astype(dtype) if "bias" in edits else x


def _edited(x, edits, options, dtype):
    x = _sum(x, edits, options, dtype)
    return options.softcap * jnp.tanh(x / options.softcap) if options.softcap else x


def _removed(x, edits, options):
    """Which elements are removed, of x's shape or broadcast to it; None: none can be."""
    columns = jnp.arange(x.shape[-1])
    removed = []
    if "bias" in edits:
        removed.append(jnp.isneginf(edits["bias"]))
    if "mask" in edits:
        mask = edits["mask"]
        if mask.dtype == jnp.int32:  # bits
            bits = mask[..., None] >> jnp.arange(32, dtype=jnp.int32) & 1
            mask = bits.reshape(*mask.shape[:-1], -1)[..., : x.shape[-1]]
        removed.append(mask == 0)
    if "lengths" in edits:
        removed.append(columns >= edits["lengths"][..., None])
    if options.causal is not None:
        last = jnp.arange(x.shape[-2])[:, None]
        if options.causal == "bottom_right":
            last = last + (x.shape[-1] - x.shape[-2])
        removed.append(columns > last)
        if options.window > 0:
            removed.append(columns <= last - options.window)
    return functools.reduce(jnp.logical_or, removed) if removed else None


def _without_removed(x, edits, options, values):
    removed = _removed(x, edits, options)
    return values if removed is None else jnp.where(removed, 0, values)


# ---- calls ----


def _call(function, results, *arrays, edits, options, **attributes):
    """A handler's call. `arrays` are like x or have an entry for each row."""
    x = arrays[0]
    given = [edits.get(name) for name in _ARRAYS]
    attributes["edits"] = np.int32(sum(1 << i for i, e in enumerate(given) if e is not None))
    attributes["causal"] = np.int32(_CAUSAL[options.causal])
    attributes["window"] = np.int64(options.window)
    attributes["softcap"] = np.float64(options.softcap)
    if options.causal is not None:
        attributes["queries"] = np.int64(max(x.shape[-2], 1))
    operands = jax.tree.leaves(given)
    # What is mapped over is more rows, unless an operand is there once for all rows.
    once = "penalties" in edits or any(
        edits[name].ndim < x.ndim for name in ("bias", "mask") if name in edits
    )
    return jax.ffi.ffi_call(
        f"softfold_{function}", results, vmap_method="sequential" if once else "broadcast_all"
    )(*arrays, *operands, **attributes)


def _check_type(function, name, x):
    if x.dtype not in (jnp.float32, jnp.float64, jnp.float16, jnp.bfloat16):
        raise TypeError(
            f"{function}: {name}.dtype is {x.dtype}, expected float32, float64, float16 or bfloat16"
        )


def _check_empty_row(function, empty_row):
    if empty_row not in _EMPTY_ROW:
        raise ValueError(
            f"{function}: empty_row is {empty_row!r}, expected \"nan\" or \"zero\""
        )


def _check(function, x, axis=-1, empty_row="nan"):
    x = jnp.asarray(x)
    if x.ndim == 0:
        raise ValueError(f"{function}: x is of shape (), expected at least one axis")
    if axis not in (-1, x.ndim - 1):
        raise ValueError(
            f"{function}: axis is {axis}, expected -1 or {x.ndim - 1}, the last one; "
            "jnp.moveaxis(x, axis, -1) has it there"
        )
    _check_type(function, "x", x)
    _check_empty_row(function, empty_row)
    return x


def _like(x, shape=None, dtype=None):
    return jax.ShapeDtypeStruct(x.shape if shape is None else shape, dtype or x.dtype)


def _scale(options):
    return {"scale": np.float64(options.scale)}


def _scale_and_policy(options):
    return {**_scale(options), "empty_row": np.int32(_EMPTY_ROW[options.empty_row])}


# ---- functions of arrays and options, and their gradients ----


def _with_gradient(function):
    """call(x, edits, options), with the gradient that defines() gives: a function of x, its result, the
    edits, the options and the result's gradient, that is of the edited row."""
    call = jax.custom_vjp(function, nondiff_argnums=(2,))

    def defines(gradient):
        def forward(x, edits, options):
            if "penalties" in edits:
                raise ValueError(
                    "softfold.jax: penalties have no gradient, expected a call outside jax.grad"
                )
            y = call(x, edits, options)
            return y, (x, y, edits)

        def backward(options, kept, dy):
            x, y, edits = kept
            dz = gradient(x, y, edits, options, dy)
            if options.softcap:
                slope = 1 - jnp.tanh(_sum(x, edits, options, dz.dtype) / options.softcap) ** 2
                dz = _without_removed(x, edits, options, dz * slope)
            of_edits = dict.fromkeys(edits)
            if "bias" in edits:
                bias = edits["bias"]
                of_bias = dz if bias.ndim == dz.ndim else dz.sum(tuple(range(dz.ndim - 1)))
                of_edits["bias"] = of_bias.astype(bias.dtype)
            return dz.astype(x.dtype), of_edits

        call.defvjp(forward, backward)
        return call

    return defines


def _backward(function, y, dy, edits, options):
    return _call(
        f"{function}_backward", _like(y), y, dy, edits=_removals(edits),
        options=options._replace(softcap=0.0), **_scale(options),
    )  # fmt: skip


def _of_rows(function):
    """softmax and log_softmax, whose gradients are functions of their results."""

    @_with_gradient
    def defines(x, edits, options):
        results = _like(x, dtype=options.dtype)
        return _call(
            function, results, x, edits=edits, options=options, **_scale_and_policy(options)
        )

    return defines(
        lambda x, y, edits, options, dy: _backward(function, y, dy.astype(y.dtype), edits, options)
    )


_softmax = _of_rows("softmax")
_log_softmax = _of_rows("log_softmax")


@_with_gradient
def _logsumexp(x, edits, options):
    results = _like(x, x.shape[:-1], options.dtype)
    return _call("logsumexp", results, x, edits=edits, options=options, **_scale(options))


@_logsumexp
def _logsumexp(x, lse, edits, options, dlse):
    y = _softmax(x, edits, options._replace(empty_row="zero", dtype=None))
    return options.scale * dlse[..., None] * y


@_with_gradient
def _softmax_topk(x, edits, options):
    shape = (*x.shape[:-1], options.k)
    results = (_like(x, shape, options.dtype), _like(x, shape, jnp.int32))
    return _call(
        "softmax_topk", results, x, edits=edits, options=options, **_scale_and_policy(options)
    )


@_softmax_topk
def _softmax_topk(x, result, edits, options, gradients):
    y = _softmax(x, edits, options._replace(dtype=None))
    dy = jnp.put_along_axis(
        jnp.zeros_like(x), result[1], gradients[0].astype(x.dtype), axis=-1, inplace=False
    )
    return _backward("softmax", y, dy, edits, options)


@_with_gradient
def _logcumsumexp(x, edits, options):
    return _call(
        "logcumsumexp", _like(x, dtype=options.dtype), x, edits=edits, options=options,
        **_scale(options), exclusive=np.int32(options.exclusive), reverse=np.int32(options.reverse),
    )  # fmt: skip


@_logcumsumexp
def _logcumsumexp(x, lse, edits, options, dy):
    """dx_j = scale exp(z_j) sum_i dy_i exp(-lse_i) over the prefixes i that have j: sums of exponentials
    from the other end, of the positive dy and of the negative ones."""
    wide = jnp.float64 if x.dtype == jnp.float64 else jnp.float32
    lse = _logcumsumexp(x, edits, options._replace(dtype=wide))
    z = options.scale * _edited(x, edits, options, wide)
    suffixes = _Options(exclusive=options.exclusive, reverse=not options.reverse)
    dy = dy.astype(wide)
    dz = 0
    for sign in (1, -1):
        counts = (sign * dy > 0) & ~jnp.isneginf(lse)
        terms = jnp.where(counts, jnp.log(jnp.where(counts, sign * dy, 1)) - lse, -jnp.inf)
        sums = _logcumsumexp(terms, {}, suffixes)
        exists = ~jnp.isneginf(sums)
        dz += sign * jnp.where(exists, jnp.exp(z + jnp.where(exists, sums, 0)), 0)
    return _without_removed(x, edits, options, options.scale * dz)


# ---- functions ----


def _run(call, function, x, axis, edits, *, empty_row="nan", **options):
    x = _check(function, x, axis, empty_row)
    arrays, numbers = _checked_edits(function, x, edits)
    options["scale"] = float(options["scale"])
    return call(x, arrays, _Options(empty_row=empty_row, **options, **numbers))


def softmax(x, axis=-1, *, scale=1.0, empty_row="nan", dtype=None, **edits):
    """softfold.softmax. scale, a number, is fixed when the call is traced, and so are causal, window and
    softcap; dtype is x's or float32."""
    return _run(
        _softmax, "softmax", x, axis, edits, scale=scale, empty_row=empty_row, dtype=dtype
    )


def log_softmax(x, axis=-1, *, scale=1.0, empty_row="nan", dtype=None, **edits):
    """softfold.log_softmax."""
    return _run(
        _log_softmax, "log_softmax", x, axis, edits, scale=scale, empty_row=empty_row, dtype=dtype
    )


def logsumexp(x, axis=-1, *, scale=1.0, dtype=None, **edits):
    """softfold.logsumexp. Its gradient is 0 for an empty row."""
    return _run(_logsumexp, "logsumexp", x, axis, edits, scale=scale, dtype=dtype)


def softmax_topk(x, k, axis=-1, *, scale=1.0, empty_row="nan", dtype=None, **edits):
    """softfold.softmax_topk, its columns as int32, with the gradient of the probabilities."""
    x = _check("softmax_topk", x, axis, empty_row)
    if not 0 <= k <= x.shape[-1]:
        raise ValueError(
            f"softmax_topk: k is {k}, expected 0 to {x.shape[-1]}, the columns of x"
        )
    return _run(
        _softmax_topk, "softmax_topk", x, axis, edits, scale=scale, empty_row=empty_row, dtype=dtype,
        k=int(k),
    )  # fmt: skip


def logcumsumexp(x, axis=-1, *, exclusive=False, reverse=False, scale=1.0, dtype=None, **edits):
    """softfold.logcumsumexp, without carries. Its gradient is 0 through a prefix without elements."""
    return _run(
        _logcumsumexp, "logcumsumexp", x, axis, edits, scale=scale, dtype=dtype,
        exclusive=bool(exclusive), reverse=bool(reverse),
    )  # fmt: skip


def sample(
    x, *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=0, offset=0, draws=1, joint=False,
    with_log_probability=False, with_raw_log_probability=False, with_lse=False, with_kept=False,
    with_top=0, dtype=None, **edits
):  # fmt: skip
    """softfold.sample, its tokens as int32, without a gradient. temperature to offset are numbers, fixed
    when the call is traced, or arrays of one number or of one for each row; seeds and offsets, which may
    be int32, are integers of 64 bits as there."""
    x = _check("sample", x)
    if draws < 0:
        raise ValueError(f"sample: draws is {draws}, expected 0 or more")
    if not 0 <= with_top <= x.shape[-1]:
        raise ValueError(f"sample: with_top is {with_top}, expected 0 to {x.shape[-1]}, the columns of x")
    arrays, numbers = _checked_edits("sample", x, edits)
    leading = x.shape[:-1]

    attributes = {"order": np.int32(joint)}
    operands = []
    of_rows = 0
    parameters = (
        ("temperature", temperature, np.float64),
        ("top_k", top_k, np.int64),
        ("top_p", top_p, np.float64),
        ("min_p", min_p, np.float64),
        ("seed", seed, np.int64),
        ("offset", offset, np.int64),
    )
    for bit, (name, given, kind) in enumerate(parameters):
        if not isinstance(given, (jax.Array, np.ndarray)):
            if name in ("seed", "offset"):
                if not 0 <= given < 2**64:
                    raise ValueError(f"sample: {name} is {given}, expected an integer from 0 to 2^64 - 1")
                given = given - 2**64 if given >= 2**63 else given
            attributes[name] = kind(given)
            continue
        given = jnp.asarray(given) if kind is np.float64 else _integers("sample", name, given)
        given = jnp.broadcast_to(_is_of("sample", name, given, leading, (), (1,)), leading)
        operands.append(_words(given) if name in ("seed", "offset") else given)
        of_rows |= 1 << bit

    of_draws, of_top = (*leading, draws), (*leading, with_top)
    wanted = {
        "log_probability": (with_log_probability, [(of_draws, dtype)]),
        "raw_log_probability": (with_raw_log_probability, [(of_draws, dtype)]),
        "lse": (with_lse, [(leading, dtype)]),
        "kept": (with_kept, [(leading, jnp.int32), (leading, dtype)]),
        "top": (with_top > 0, [(of_top, jnp.int32), (of_top, dtype)]),
    }
    results = [_like(x, of_draws, jnp.int32)]
    for is_wanted, made in wanted.values():
        results += [_like(x, *of) for of in made if is_wanted]
    made = _call(
        "sample", results, jax.lax.stop_gradient(x), *operands, edits=jax.lax.stop_gradient(arrays),
        options=_Options(**numbers), of_rows=np.int32(of_rows), **attributes,
        **{"with": np.int32(sum(1 << i for i, (given, _) in enumerate(wanted.values()) if given))},
    )  # fmt: skip
    return made[0] if len(made) == 1 else tuple(made)


def attention(
    query, key, value, *, scale=None, softcap=0.0, bias=None, alibi_slopes=None, causal=None,
    window_left=-1, window_right=-1, key_lengths=None, key_offset=0, query_offset=0, sinks=None,
    empty_row="zero", with_lse=False, dtype=None
):  # fmt: skip
    """softfold.attention, without a gradient. Numbers are fixed when a call is traced; bias, alibi_slopes,
    key_lengths and sinks are arrays."""
    tensors = {"query": query, "key": key, "value": value, "bias": bias}
    tensors = {name: jnp.asarray(given) for name, given in tensors.items() if given is not None}
    for name, given in tensors.items():
        _check_type("attention", name, given)
        if not 1 <= given.ndim <= 4:
            raise ValueError(
                f"attention: {name} is of shape {given.shape}, expected one to four axes: batches, "
                "heads, tokens, dim"
            )
    query, key, value = (tensors.pop(name) for name in ("query", "key", "value"))
    scores = [
        tensors.get("bias"),
        None if alibi_slopes is None else jnp.asarray(alibi_slopes),
        None if key_lengths is None else _integers("attention", "key_lengths", key_lengths),
        None if sinks is None else jnp.asarray(sinks),
    ]
    _check_causal("attention", causal)
    _check_empty_row("attention", empty_row)
    wide = jnp.float64 if query.dtype == jnp.float64 else jnp.float32
    out, lse = jax.ffi.ffi_call(
        "softfold_attention",
        (_like(query, (*query.shape[:-1], value.shape[-1]), dtype), _like(query, query.shape[:-1], wide)),
        vmap_method="sequential",
    )(
        query, key, value, *(given for given in scores if given is not None),
        scores=np.int32(sum(1 << i for i, given in enumerate(scores) if given is not None)),
        scale=np.float64(1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale),
        softcap=np.float64(softcap), causal=np.int32(_CAUSAL[causal]),
        window_left=np.int64(window_left), window_right=np.int64(window_right),
        key_offset=np.int64(key_offset), query_offset=np.int64(query_offset),
        empty_row=np.int32(_EMPTY_ROW[empty_row]),
    )  # fmt: skip
    return (out, lse) if with_lse else out

# SPDX-License-Identifier: Apache-2.0
"""The functions for JAX: calls of XLA's foreign function interface, so that they work within jax.jit,
jax.vmap and jax.grad, on the CPU and, with the package softfold-cu13, on CUDA devices.

>>> import jax, jax.numpy as jnp, softfold.jax
>>> jax.grad(lambda x: softfold.jax.softmax(x)[0])(jnp.zeros(2, jnp.float32))
Array([ 0.25, -0.25], dtype=float32)"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from . import _softfold

__all__ = ["log_softmax", "logsumexp", "softmax", "softmax_topk"]


def _register(platform, cuda):
    for name, handler in _softfold._xla_handlers(cuda).items():
        jax.ffi.register_ffi_target(name, handler, platform=platform)


_register("cpu", False)
try:
    _register("CUDA", True)
except RuntimeError:  # without that package a call on a GPU says that there is no such target
    pass

_EMPTY_ROW = {"nan": 0, "zero": 1}


def _call(function, results, *arrays, scale, empty_row=None):
    options = {"scale": np.float64(scale)}
    if empty_row is not None:
        options["empty_row"] = np.int32(_EMPTY_ROW[empty_row])
    # What is mapped over is more rows.
    return jax.ffi.ffi_call(f"softfold_{function}", results, vmap_method="broadcast_all")(
        *arrays, **options
    )


def _check(function, x, axis, empty_row="nan"):
    x = jnp.asarray(x)
    if x.ndim == 0:
        raise ValueError(f"{function}: x is of shape (), expected at least one axis")
    if axis not in (-1, x.ndim - 1):
        raise ValueError(
            f"{function}: axis is {axis}, expected -1 or {x.ndim - 1}, the last one; "
            "jnp.moveaxis(x, axis, -1) has it there"
        )
    if x.dtype not in (jnp.float32, jnp.float64, jnp.float16, jnp.bfloat16):
        raise TypeError(
            f"{function}: x.dtype is {x.dtype}, expected float32, float64, float16 or bfloat16"
        )
    if empty_row not in _EMPTY_ROW:
        raise ValueError(
            f"{function}: empty_row is {empty_row!r}, expected \"nan\" or \"zero\""
        )
    return x


def _like(x, shape=None, dtype=None):
    return jax.ShapeDtypeStruct(x.shape if shape is None else shape, dtype or x.dtype)


def _of_rows(function):
    """softmax and log_softmax, whose gradients are functions of their results."""

    @functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
    def call(x, scale, empty_row, dtype):
        return _call(function, _like(x, dtype=dtype), x, scale=scale, empty_row=empty_row)

    def forward(x, scale, empty_row, dtype):
        y = call(x, scale, empty_row, dtype)
        return y, (y, jnp.zeros((0,), x.dtype))

    def backward(scale, empty_row, dtype, kept, dy):
        y, of_x = kept
        dx = _call(f"{function}_backward", _like(y), y, dy, scale=scale)
        return (dx.astype(of_x.dtype),)

    call.defvjp(forward, backward)
    return call


_softmax = _of_rows("softmax")
_log_softmax = _of_rows("log_softmax")


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _logsumexp(x, scale, dtype):
    return _call("logsumexp", _like(x, x.shape[:-1], dtype), x, scale=scale)


def _logsumexp_backward(scale, dtype, x, dlse):
    y = _softmax(x, scale, "zero", None)
    return ((scale * dlse[..., None] * y).astype(x.dtype),)


_logsumexp.defvjp(lambda x, scale, dtype: (_logsumexp(x, scale, dtype), x), _logsumexp_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3, 4))
def _softmax_topk(x, k, scale, empty_row, dtype):
    shape = (*x.shape[:-1], k)
    results = (_like(x, shape, dtype), _like(x, shape, jnp.int32))
    return _call("softmax_topk", results, x, scale=scale, empty_row=empty_row)


def _softmax_topk_forward(x, k, scale, empty_row, dtype):
    probabilities, columns = _softmax_topk(x, k, scale, empty_row, dtype)
    return (probabilities, columns), (x, columns)


def _softmax_topk_backward(k, scale, empty_row, dtype, kept, gradients):
    x, columns = kept
    y = _softmax(x, scale, empty_row, None)
    dy = jnp.put_along_axis(
        jnp.zeros_like(x), columns, gradients[0].astype(x.dtype), axis=-1, inplace=False
    )
    return (_call("softmax_backward", _like(x), y, dy, scale=scale),)


_softmax_topk.defvjp(_softmax_topk_forward, _softmax_topk_backward)


def softmax(x, axis=-1, *, scale=1.0, empty_row="nan", dtype=None):
    """softfold.softmax. scale, a number, is fixed when the call is traced; dtype is x's or float32."""
    return _softmax(_check("softmax", x, axis, empty_row), float(scale), empty_row, dtype)


def log_softmax(x, axis=-1, *, scale=1.0, empty_row="nan", dtype=None):
    """softfold.log_softmax."""
    return _log_softmax(_check("log_softmax", x, axis, empty_row), float(scale), empty_row, dtype)


def logsumexp(x, axis=-1, *, scale=1.0, dtype=None):
    """softfold.logsumexp. Its gradient is 0 for a row of -inf only."""
    return _logsumexp(_check("logsumexp", x, axis), float(scale), dtype)


def softmax_topk(x, k, axis=-1, *, scale=1.0, empty_row="nan", dtype=None):
    """softfold.softmax_topk, its columns as int32, with the gradient of the probabilities."""
    x = _check("softmax_topk", x, axis, empty_row)
    if not 0 <= k <= x.shape[-1]:
        raise ValueError(
            f"softmax_topk: k is {k}, expected 0 to {x.shape[-1]}, the columns of x"
        )
    return _softmax_topk(x, int(k), float(scale), empty_row, dtype)

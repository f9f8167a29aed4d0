# SPDX-License-Identifier: Apache-2.0
"""The functions for torch: with gradients, and as operators that torch.compile and torch.export keep
in their graphs (torch.ops.softfold). Where no gradient is asked for, a call goes past torch's
dispatcher.

Tensors are as for the functions of softfold: the last dimension is a row, its elements contiguous.

>>> import torch, softfold.torch
>>> x = torch.tensor([[0.0, 0.0]], requires_grad=True)
>>> softfold.torch.softmax(x)[0, 0].backward()
>>> x.grad
tensor([[ 0.2500, -0.2500]])"""

import torch

import softfold as _softfold

__all__ = ["log_softmax", "logsumexp", "softmax", "softmax_topk"]

# Operators live as long as this object.
_library = torch.library.Library("softfold", "DEF")


def _operator(schema, fake):
    """Defines an operator as the function of softfold with its name."""
    name = schema.partition("(")[0]
    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides))
    for device in ("CPU", "CUDA"):
        _library.impl(name, getattr(_softfold, name), device)
    torch.library.register_fake(f"softfold::{name}", fake, lib=_library)
    # Rows lie before the last dimension, and what is mapped over is more rows.
    torch.library.register_vmap(f"softfold::{name}", _mapped(name), lib=_library)
    return getattr(torch.ops.softfold, name).default


def _mapped(name):
    def call(info, in_dims, *tensors_and_rest, **options):
        moved = []
        for given, dim in zip(tensors_and_rest, in_dims):
            if isinstance(given, torch.Tensor):
                given = (
                    given.expand(info.batch_size, *given.shape)
                    if dim is None
                    else given.movedim(dim, 0)
                ).contiguous()
            moved.append(given)
        made = getattr(torch.ops.softfold, name)(*moved, **options)
        return made, tuple(0 for _ in made) if isinstance(made, tuple) else 0

    return call


def _like(x, dtype=None):
    return x.new_empty(x.shape, dtype=dtype)


def _without_columns(x, dtype=None):
    return x.new_empty(x.shape[:-1], dtype=dtype)


def _in_rows(gradient):
    """What autograd hands over may be expanded or transposed, and nobody can hand it another."""
    return gradient.contiguous()


_OPTIONS = "*, float scale=1.0, str empty_row='nan', ScalarType? out_dtype=None"

_softmax = _operator(
    f"softmax(Tensor x, {_OPTIONS}) -> Tensor",
    lambda x, *, scale=1.0, empty_row="nan", out_dtype=None: _like(x, out_dtype),
)
_log_softmax = _operator(
    f"log_softmax(Tensor x, {_OPTIONS}) -> Tensor",
    lambda x, *, scale=1.0, empty_row="nan", out_dtype=None: _like(x, out_dtype),
)
_logsumexp = _operator(
    "logsumexp(Tensor x, *, float scale=1.0, ScalarType? out_dtype=None) -> Tensor",
    lambda x, *, scale=1.0, out_dtype=None: _without_columns(x, out_dtype),
)
_softmax_backward = _operator(
    "softmax_backward(Tensor y, Tensor dy, *, float scale=1.0) -> Tensor",
    lambda y, dy, *, scale=1.0: _like(y),
)
_log_softmax_backward = _operator(
    "log_softmax_backward(Tensor y, Tensor dy, *, float scale=1.0) -> Tensor",
    lambda y, dy, *, scale=1.0: _like(y),
)


def _fake_softmax_topk(x, k, *, scale=1.0, empty_row="nan", out_dtype=None):
    shape = (*x.shape[:-1], k)
    return x.new_empty(shape, dtype=out_dtype), x.new_empty(shape, dtype=torch.int64)


_softmax_topk = _operator(
    f"softmax_topk(Tensor x, SymInt k, {_OPTIONS}) -> (Tensor, Tensor)", _fake_softmax_topk
)


# ---- gradients ----


def _softmax_gradient(y, dy, scale):
    if torch.is_grad_enabled():  # of a second order: by operations that have gradients themselves
        return scale * y * (dy - (y * dy).sum(-1, keepdim=True))
    return _softmax_backward(y, _in_rows(dy), scale=scale)


def _log_softmax_gradient(y, dy, scale):
    if torch.is_grad_enabled():
        return scale * (dy - y.exp() * dy.sum(-1, keepdim=True))
    return _log_softmax_backward(y, _in_rows(dy), scale=scale)


def _keep_output(ctx, inputs, keyword_only_inputs, output):
    ctx.save_for_backward(output)
    ctx.scale, ctx.dtype = keyword_only_inputs["scale"], inputs[0].dtype


def _keep_input(ctx, inputs, keyword_only_inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.scale = keyword_only_inputs["scale"]


def _register(name, gradient, keep):
    torch.library.register_autograd(
        f"softfold::{name}", gradient, setup_context=keep, lib=_library
    )


_register(
    "softmax",
    lambda ctx, dy: _softmax_gradient(*ctx.saved_tensors, dy, ctx.scale).to(ctx.dtype),
    _keep_output,
)
_register(
    "log_softmax",
    lambda ctx, dy: _log_softmax_gradient(*ctx.saved_tensors, dy, ctx.scale).to(ctx.dtype),
    _keep_output,
)


@lambda gradient: _register("logsumexp", gradient, _keep_input)
def _(ctx, dlse):
    (x,) = ctx.saved_tensors
    y = _softmax(x, scale=ctx.scale, empty_row="zero")
    return (ctx.scale * dlse.unsqueeze(-1) * y).to(x.dtype)


def _keep_columns(ctx, inputs, keyword_only_inputs, output):
    ctx.save_for_backward(inputs[0], output[1])
    ctx.scale, ctx.empty_row = keyword_only_inputs["scale"], keyword_only_inputs["empty_row"]
    ctx.mark_non_differentiable(output[1])


@lambda gradient: _register("softmax_topk", gradient, _keep_columns)
def _(ctx, dp, _):
    x, columns = ctx.saved_tensors
    dy = torch.zeros_like(x).scatter(-1, columns, dp.to(x.dtype))
    y = _softmax(x, scale=ctx.scale, empty_row=ctx.empty_row)
    return _softmax_gradient(y, dy, ctx.scale), None


# ---- functions ----


def _plain(x):
    """Whether nothing but the result is wanted: no gradient, no trace, no tensor of another kind."""
    return (
        type(x) is torch.Tensor
        and not torch.compiler.is_compiling()
        and not (x.requires_grad and torch.is_grad_enabled())
        and not torch._C._are_functorch_transforms_active()
    )


def _check_dim(function, x, dim):
    if dim != x.dim() - 1:
        raise ValueError(
            f"{function}: dim is {dim}, expected -1 or {x.dim() - 1}, the last one; "
            "x.movedim(dim, -1).contiguous() is a copy that has it there"
        )


def softmax(x, dim=-1, *, scale=1.0, empty_row="nan", dtype=None):
    """softfold.softmax with a gradient. dtype is the result's: x's or torch.float32."""
    if dim != -1:
        _check_dim("softmax", x, dim)
    if _plain(x):
        return _softfold.softmax(x, scale=scale, empty_row=empty_row, out_dtype=dtype)
    return _softmax(x, scale=scale, empty_row=empty_row, out_dtype=dtype)


def log_softmax(x, dim=-1, *, scale=1.0, empty_row="nan", dtype=None):
    """softfold.log_softmax with a gradient. dtype is the result's: x's or torch.float32."""
    if dim != -1:
        _check_dim("log_softmax", x, dim)
    if _plain(x):
        return _softfold.log_softmax(x, scale=scale, empty_row=empty_row, out_dtype=dtype)
    return _log_softmax(x, scale=scale, empty_row=empty_row, out_dtype=dtype)


def logsumexp(x, dim=-1, *, scale=1.0, dtype=None):
    """softfold.logsumexp with a gradient, 0 for a row of -inf only."""
    if dim != -1:
        _check_dim("logsumexp", x, dim)
    if _plain(x):
        return _softfold.logsumexp(x, scale=scale, out_dtype=dtype)
    return _logsumexp(x, scale=scale, out_dtype=dtype)


def softmax_topk(x, k, dim=-1, *, scale=1.0, empty_row="nan", dtype=None):
    """softfold.softmax_topk with the gradient of the probabilities."""
    if dim != -1:
        _check_dim("softmax_topk", x, dim)
    if _plain(x):
        return _softfold.softmax_topk(x, k, scale=scale, empty_row=empty_row, out_dtype=dtype)
    return _softmax_topk(x, k, scale=scale, empty_row=empty_row, out_dtype=dtype)

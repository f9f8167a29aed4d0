# SPDX-License-Identifier: Apache-2.0
"""Softmax, log-softmax and their gradients, logsumexp and its prefixes, top-k, softmax + top-k in one
pass, and sampling, with masks, biases and penalties, over the last axis of arrays of NumPy, torch,
CuPy, JAX and others, without copies; and attention without the matrix of scores.

softfold.torch has the functions with gradients for torch and torch.compile, softfold.jax for JAX.
docs/python.md describes the package, docs/semantics.md what the results mean."""

from ._softfold import (
    AttentionStates,
    States,
    attention,
    combine_attention,
    fold_attention,
    info,
    log_softmax,
    log_softmax_backward,
    logcumsumexp,
    logsumexp,
    normalize_attention,
    sample,
    set_numerics,
    set_threads,
    softmax,
    softmax_backward,
    softmax_topk,
    topk,
    verify,
)
from ._version import version as __version__

__all__ = [
    "AttentionStates",
    "States",
    "attention",
    "combine_attention",
    "fold_attention",
    "info",
    "log_softmax",
    "log_softmax_backward",
    "logcumsumexp",
    "logsumexp",
    "normalize_attention",
    "sample",
    "set_numerics",
    "set_threads",
    "softmax",
    "softmax_backward",
    "softmax_topk",
    "topk",
    "verify",
]

States.__module__ = AttentionStates.__module__ = "softfold"

# SPDX-License-Identifier: Apache-2.0
"""Edits of rows: each beside the same in NumPy, in every function, on every kind of array, and what
is refused."""

import re

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from conftest import has
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    FLOATS,
    assert_rounded,
    dtype_of,
    log_softmax,
    logsumexp,
    order,
    slack,
    softmax,
)

import softfold

X = np.random.default_rng(3).normal(size=(2, 3, 40)).astype(np.float32)
COLUMNS = np.arange(40)


def refused(error, words, call, *arguments, **options):
    with pytest.raises(error, match=re.escape(words)):
        call(*arguments, **options)


def causal(corner, queries, columns, window=0):
    """Which columns a query sees."""
    last = np.arange(queries)[:, None] + (columns - queries if corner == "bottom_right" else 0)
    seen = np.arange(columns) <= last
    return seen & (np.arange(columns) > last - window) if window else seen


def bits(mask):
    """A mask as words of 32 columns."""
    padding = [(0, 0)] * (mask.ndim - 1) + [(0, -mask.shape[-1] % 32)]
    packed = np.packbits(np.pad(mask, padding), axis=-1, bitorder="little")
    return np.ascontiguousarray(packed).view("<i4")


def assert_is_softmax_of(kept, found, x):
    """found is the softmax of x's elements that are kept, 0 elsewhere."""
    exact = softmax(np.where(kept, x.astype(np.float64), -np.inf))
    exact = np.where(kept.any(-1, keepdims=True), exact, 0)
    z = np.where(kept, x, 0).astype(np.float64)
    far = (z.max(-1, keepdims=True) - z.min(-1, keepdims=True)) / 16
    assert_rounded(found, exact, exact * slack(x.dtype, x.shape[-1]) * (1 + far))
    assert (found[~kept] == 0).all()


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("edit", ["mask", "one mask for all", "lengths"])
@given(seed=st.integers(0, 2**32), columns=st.sampled_from([1, 5, 31, 32, 33, 70]))
def test_what_removes(name, edit, seed, columns):
    random = np.random.default_rng(seed)
    x = random.normal(size=(2, 3, columns)).astype(dtype_of(name))
    if edit == "lengths":
        lengths = random.integers(-2, columns + 3, (2, 3))
        kept = np.arange(columns) < lengths[..., None]
        forms = [{"lengths": lengths}, {"lengths": lengths.astype(np.int32)}]
    else:
        mask = random.random(x.shape if edit == "mask" else columns) < 0.5
        kept = np.broadcast_to(mask, x.shape)
        forms = [{"mask": form} for form in (mask, mask.astype(np.uint8) * 7, bits(mask))]
    stored = np.where(kept, x, np.array(np.nan, x.dtype))  # which nobody may notice
    y = softfold.softmax(stored, empty_row="zero", **forms[0])
    assert_is_softmax_of(kept, y, x)
    for form in forms[1:]:
        np.testing.assert_array_equal(softfold.softmax(stored, empty_row="zero", **form), y)


@pytest.mark.parametrize("corner", ["top_left", "bottom_right"])
@pytest.mark.parametrize("window", [0, 1, 3])
@pytest.mark.parametrize("queries, columns", [(1, 7), (5, 5), (4, 9), (9, 4)])
def test_causal(corner, window, queries, columns):
    x = np.random.default_rng(0).normal(size=(2, queries, columns)).astype(np.float32)
    kept = np.broadcast_to(causal(corner, queries, columns, window), x.shape).copy()
    y = softfold.softmax(x, causal=corner, window=window, empty_row="zero")
    assert_is_softmax_of(kept, y, x)
    np.testing.assert_array_equal(y, softfold.softmax(x, mask=kept, empty_row="zero"))


def test_every_function_takes_them():
    """What is removed is as if it were -inf, and comes last among what is selected."""
    kept = np.random.default_rng(1).random(X.shape) < 0.4
    masked = np.where(kept, X, -np.inf).astype(np.float32)
    n = slack(X.dtype, 40) * 2
    exact = softmax(masked)
    assert_rounded(softfold.softmax(X, mask=kept), exact, exact * n)
    wide = log_softmax(masked)
    size = np.where(np.isfinite(wide), np.abs(wide), 0)
    assert_rounded(softfold.log_softmax(X, mask=kept), wide, n * (2 + size))
    lse = logsumexp(masked)
    assert_rounded(softfold.logsumexp(X, mask=kept), lse, n * (1 + np.abs(lse)))
    values, columns = softfold.topk(X, 40, mask=kept)
    np.testing.assert_array_equal(columns, order(masked, 40))
    np.testing.assert_array_equal(values, np.take_along_axis(masked, columns, -1))
    probabilities, columns, logits, found = softfold.softmax_topk(
        X, 5, mask=kept, with_logits=True, with_lse=True
    )
    np.testing.assert_array_equal(columns, order(masked, 5))
    np.testing.assert_array_equal(logits, values[..., :5])
    np.testing.assert_array_equal(found, softfold.logsumexp(X, mask=kept))
    expected = np.take_along_axis(exact, columns, -1)
    assert_rounded(probabilities, expected, expected * n)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients(name):
    forward, backward = getattr(softfold, name), getattr(softfold, name + "_backward")
    kept = np.random.default_rng(1).random(X.shape) < 0.4
    dy = np.cos(X)
    stored = np.where(kept, dy, np.float32(np.nan))
    y = forward(X, mask=kept)
    dx = backward(y, stored, mask=kept)
    assert (dx[~kept] == 0).all()
    p = np.where(kept, softmax(np.where(kept, X, -np.inf)), 0)
    g = np.where(kept, dy, 0).astype(np.longdouble)
    if name == "softmax":
        exact = p * (g - (p * g).sum(-1, keepdims=True))
    else:
        exact = g - p * g.sum(-1, keepdims=True)
    np.testing.assert_allclose(dx, exact.astype(float), rtol=1e-5, atol=1e-6)
    for same in (
        {"bias": np.where(kept, np.float32(3), np.float32(-np.inf))},
        {"mask": bits(kept)},
    ):
        np.testing.assert_array_equal(backward(y, stored, **same), dx)
    lengths = np.array([[5, 0, 40], [1, 39, 7]])
    dx = backward(forward(X, lengths=lengths), dy, lengths=lengths, causal="top_left", window=2)
    kept = (COLUMNS < lengths[..., None]) & causal("top_left", 3, 40, 2)
    assert (dx[~kept] == 0).all() and (dx[kept] != 0).any()
    refused(TypeError, "incompatible", backward, y, dy, softcap=1.0)


@pytest.mark.parametrize("name", FLOATS)
def test_bias_and_softcap(name):
    x = X.astype(dtype_of(name))
    for bias in (X[::-1].astype(x.dtype), X[0, 0].astype(x.dtype)):
        edited = x.astype(np.float64) + bias.astype(np.float64)
        for exact, options in (
            (edited, {}),
            (2.5 * np.tanh(edited / 2.5), {"softcap": 2.5}),
        ):
            lse = logsumexp(exact)
            found = softfold.logsumexp(x, bias=bias, **options)
            assert_rounded(found, lse, slack(x.dtype, 40) * (4 + np.abs(lse)))
    removed = np.where(COLUMNS < 7, 0, -np.inf).astype(np.float32)
    np.testing.assert_array_equal(
        softfold.softmax(x, bias=removed), softfold.softmax(x, lengths=np.full((2, 3), 7))
    )


def test_penalties():
    rows = np.array([0, 2, 2, 3, 3, 6, 6])
    columns = np.array([1, 5, 39, 0, 7, 8])
    counts = np.array([1, 2, 0, 3, 1, 1], np.int32)
    expected = X.astype(np.float64).reshape(6, 40)
    repetition = np.linspace(1, 2, 6).reshape(2, 3)
    for row in range(6):
        for entry in range(rows[row], rows[row + 1]):
            v, r = expected[row, columns[entry]], repetition.flat[row]
            v = v / r if v > 0 else v * r
            v -= 0.25 * counts[entry] + (0.5 if counts[entry] > 0 else 0)
            expected[row, columns[entry]] = v
    numbers = {
        "repetition": repetition,
        "frequency": np.array([0.25]),
        "presence": np.full((2, 3), 0.5, np.float32),
    }
    first = order(expected, 40)
    for index in (np.int64, np.int32):
        values, found = softfold.topk(
            X, 40, penalties=(rows, columns.astype(index), counts), **numbers
        )
        np.testing.assert_array_equal(found.reshape(6, 40), first)
        exact = np.take_along_axis(expected, first, -1)
        np.testing.assert_allclose(values.reshape(6, 40), exact, rtol=1e-5, atol=1e-6)
    penalties = (rows, columns, counts)
    np.testing.assert_array_equal(softfold.softmax(X, penalties=penalties), softfold.softmax(X))
    refused(ValueError, "softmax: penalties is None", softfold.softmax, X, repetition=repetition)
    for wrong, error, words in (
        ([rows, columns, counts], TypeError, "penalties is <class 'list'>"),
        ((rows, columns), TypeError, "penalties is <class 'tuple'>"),
        ((rows[1:], columns, counts), ValueError, "penalties[0].size is 6"),
        ((rows.astype("i4"), columns, counts), TypeError, "penalties[0].type is i32"),
        ((rows, columns, counts[1:]), ValueError, "penalties[2].size is 5"),
        ((rows, columns.reshape(2, 3), counts), ValueError, "penalties[1] is of shape (2, 3)"),
        ((rows, columns * 0.5, counts), TypeError, "penalties[1].type is f64"),
    ):
        refused(error, words, softfold.softmax, X, penalties=wrong)
    refused(ValueError, "presence is of shape (5,), expected (2, 3), one for each row of x",
            softfold.softmax, X, penalties=penalties, presence=np.ones(5))  # fmt: skip


def test_any_kind_of_array(kind):
    kept = np.random.default_rng(1).random(X.shape) < 0.4
    lengths = np.arange(6).reshape(2, 3) * 9
    bias = np.linspace(-1, 1, 40).astype(np.float32)
    expected = softfold.softmax(X, mask=kept, lengths=lengths, bias=bias, empty_row="zero")
    for mask in (kept, kept.astype(np.uint8), bits(kept)):
        y = softfold.softmax(
            kind.make(X), mask=kind.make(mask), lengths=kind.make(lengths), bias=kind.make(bias),
            empty_row="zero",
        )  # fmt: skip
        np.testing.assert_array_equal(kind.back(y), expected)
    # Of another kind than x.
    y = softfold.softmax(kind.make(X), mask=kept)
    np.testing.assert_array_equal(kind.back(y), softfold.softmax(X, mask=kept))
    refused(TypeError, "expected bool, uint8 or int32",
            softfold.softmax, kind.make(X), mask=kind.make(X))  # fmt: skip


def test_rows_of_edits_may_have_a_distance():
    wide = np.zeros((2, 3, 64), bool)
    wide[..., 8:48] = X > 0
    np.testing.assert_array_equal(
        softfold.softmax(X, mask=wide[..., 8:48]), softfold.softmax(X, mask=X > 0)
    )


def test_another_axis():
    x = np.moveaxis(X, -1, 0).copy()
    kept = X > -0.5
    y = softfold.softmax(x, 0, mask=kept, causal="top_left", copy=True)
    expected = np.moveaxis(softfold.softmax(X, mask=kept, causal="top_left"), -1, 0)
    np.testing.assert_array_equal(y, expected)


@given(arrays.arrays(np.bool_, (4, 6)))
def test_empty_rows(kept):
    x = np.zeros((4, 6))
    empty = ~kept.any(-1)
    assert (np.isnan(softfold.softmax(x, mask=kept)).all(-1) == empty).all()
    assert (np.isneginf(softfold.logsumexp(x, mask=kept)) == empty).all()
    assert (softfold.softmax(x, mask=kept, empty_row="zero").sum(-1).round(9) == ~empty).all()


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 0, 4)])
def test_no_elements(kind, shape):
    x = kind.make(np.zeros(shape, np.float32))
    options = {
        "mask": kind.make(np.zeros(shape, bool)),
        "lengths": kind.make(np.zeros(shape[:-1], np.int64)),
        "causal": "top_left",
    }
    assert tuple(softfold.softmax(x, **options).shape) == shape
    assert (kind.back(softfold.logsumexp(x, **options)) == np.full(shape[:-1], -np.inf)).all()


WRONG = [
    (TypeError, "mask.dtype is float32, expected bool, uint8 or int32", {"mask": X}),
    (TypeError, "mask is of type list, expected an array", {"mask": [True]}),
    (ValueError, "mask is of shape (2, 3, 39), expected (2, 3, 40), rows as those of x, or (40,), one",
     {"mask": X[..., 1:] > 0}),
    (ValueError, "mask is of shape (3,), expected (2, 3, 2)", {"mask": np.zeros(3, np.int32)}),
    (ValueError, "mask is of shape (3, 40)", {"mask": X[0] > 0}),
    (ValueError, "mask.strides is", {"mask": np.zeros((40, 3, 2), bool).T}),
    (TypeError, "bias.dtype is bool", {"bias": X > 0}),
    (TypeError, "bias.type is i32, expected f32, f64, f16 or bf16", {"bias": np.zeros(40, np.int32)}),
    (ValueError, "bias is of shape (40, 1)", {"bias": np.zeros((40, 1))}),
    (ValueError, "lengths is of shape (6,), expected (2, 3), one for each row of x",
     {"lengths": np.zeros(6, int)}),
    (TypeError, "lengths.type is f64, expected i32 or i64", {"lengths": np.zeros((2, 3))}),
    (TypeError, "lengths.dtype is uint64, expected int32 or int64", {"lengths": np.zeros((2, 3), "u8")}),
    (TypeError, "lengths is of type int", {"lengths": 3}),
    (ValueError, "lengths.strides is", {"lengths": np.zeros((3, 2), int).T}),
    (ValueError, 'causal is True, expected None, "top_left" or "bottom_right"', {"causal": True}),
    (ValueError, "causal is 'left'", {"causal": "left"}),
    (ValueError, "window is 3, expected 0 without a causal corner", {"window": 3}),
    (ValueError, "window is -1, expected 0 or more", {"window": -1, "causal": "top_left"}),
    (ValueError, "softcap is -1, expected 0 or more, finite as f32", {"softcap": -1.0}),
    (ValueError, "softcap is nan", {"softcap": np.nan}),
]  # fmt: skip


@pytest.mark.parametrize("error, words, options", WRONG, ids=[words for _, words, _ in WRONG])
def test_what_is_refused(error, words, options):
    out = np.full(X.shape, 7, np.float32)
    refused(error, "softmax: " + words, softfold.softmax, X, out=out, **options)
    assert (out == 7).all()


def test_queries_need_an_axis():
    refused(ValueError, "logsumexp: causal is 'top_left', expected None where x is of shape (40,)",
            softfold.logsumexp, X[0, 0], causal="top_left")  # fmt: skip


def test_overlap_is_refused():
    bias = X.copy()
    refused(ValueError, "out overlaps bias", softfold.softmax, X, bias=bias, out=bias)
    np.testing.assert_array_equal(bias, X)


@pytest.mark.skipif(not has("torch"), reason="no torch here")
def test_a_bias_whose_gradient_would_be_lost():
    import torch

    bias = torch.zeros(40, requires_grad=True)
    refused(ValueError, "bias.requires_grad is True", softfold.softmax, torch.from_numpy(X), bias=bias)

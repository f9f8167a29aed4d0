# SPDX-License-Identifier: Apache-2.0
"""logcumsumexp beside the logsumexp of every prefix."""

import re

import numpy as np
import pytest
from conftest import has
from hypothesis import given
from hypothesis import strategies as st
from reference import FLOATS, assert_rounded, dtype_of, logcumsumexp, slack
from test_functions import SCALES, effective, inputs, scaled

import softfold

X = np.random.default_rng(4).normal(size=(2, 3, 50)).astype(np.float32)


def near(found, exact, x, more=0.0):
    size = np.where(np.isfinite(exact), np.abs(exact), 0.0)
    assert_rounded(found, exact, slack(x.dtype, x.shape[-1]) * (1 + more + size / 16))


@given(inputs(), SCALES, st.booleans(), st.booleans())
def test_every_prefix(x, scale, exclusive, reverse):
    y = softfold.logcumsumexp(x, scale=scale, exclusive=exclusive, reverse=reverse)
    assert y.shape == x.shape and y.dtype == x.dtype
    near(y, logcumsumexp(scaled(x, scale), effective(scale), exclusive, reverse), x)


@pytest.mark.skipif(not has("torch"), reason="no torch here")
def test_beside_torch():
    import torch

    x = torch.from_numpy(X)
    torch.testing.assert_close(softfold.logcumsumexp(x), torch.logcumsumexp(x, -1))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("reverse", [False, True])
def test_parts_chain(name, reverse):
    x = X.astype(dtype_of(name))
    exact = logcumsumexp(x, reverse=reverse)
    parts = [np.s_[..., :20], np.s_[..., 20:21], np.s_[..., 21:]]
    carry = None
    for part in reversed(parts) if reverse else parts:
        y, carry = softfold.logcumsumexp(
            x[part], reverse=reverse, carry=carry, with_carry=True
        )
        near(y, exact[part], x, more=0.5)
        assert carry.shape == (2, 3, 2)
        assert carry.dtype == (np.float64 if name == "float64" else np.float32)
    whole = exact[..., 0] if reverse else exact[..., -1]
    near((carry[..., 0] + np.log(carry[..., 1])).astype(np.float64), whole, x, more=0.5)


def test_the_carry_is_a_state():
    rows = X.reshape(6, 50)
    states = softfold.States(6)
    states.fold(rows[:, :30])
    y = softfold.logcumsumexp(rows[:, 30:], carry=states.partials)
    near(y, logcumsumexp(rows)[:, 30:], rows, more=0.5)


def test_edits_and_places(kind):
    kept = X > -0.3
    expected = softfold.logcumsumexp(X, mask=kept)
    near(expected, logcumsumexp(np.where(kept, X, -np.inf).astype(np.float32)), X)
    y = softfold.logcumsumexp(kind.make(X), mask=kind.make(kept))
    np.testing.assert_array_equal(kind.back(y), expected)
    x = X.copy()
    assert softfold.logcumsumexp(x, out=x, mask=kept) is x
    np.testing.assert_array_equal(x, expected)
    moved = softfold.logcumsumexp(np.moveaxis(X, -1, 0).copy(), 0, copy=True)
    np.testing.assert_array_equal(moved, np.moveaxis(softfold.logcumsumexp(X), -1, 0))


@pytest.mark.parametrize(
    "error, words, options",
    [
        (ValueError, "scale is inf", {"scale": np.inf}),
        (ValueError, "carry is of shape (2, 3), expected (2, 3, 2), a maximum and a sum for each row",
         {"carry": X[..., 0].copy()}),
        (TypeError, "carry.type is f64, expected f32 states", {"carry": np.zeros((2, 3, 2))}),
        (ValueError, "carry is not contiguous", {"carry": X[..., :2]}),
        (TypeError, "out.type is f64, expected f32", {"out": np.empty(X.shape)}),
        (ValueError, "axis is 0", {"axis": 0}),
    ],
)  # fmt: skip
def test_what_is_refused(error, words, options):
    with pytest.raises(error, match=re.escape("logcumsumexp: " + words)):
        softfold.logcumsumexp(X, **options)

# SPDX-License-Identifier: Apache-2.0
"""The functions on NumPy arrays of any shape, type and content, beside wider arithmetic, SciPy, and
the rules of docs/semantics.md."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import scipy.special
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
    state,
)

import softfold

SPECIAL = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e4, -1e4, 1e-30, 3.0])
SHAPES = st.lists(st.integers(0, 5), min_size=0, max_size=2).flatmap(
    lambda leading: st.sampled_from([0, 1, 2, 7, 31, 65]).map(lambda cols: (*leading, cols))
)


@st.composite
def inputs(draw, special=True):
    dtype = dtype_of(draw(st.sampled_from(FLOATS)))
    shape = draw(SHAPES)
    numbers = st.floats(-20, 20, width=16)
    x = draw(arrays.arrays(np.float64, shape, elements=SPECIAL | numbers if special else numbers))
    with np.errstate(over="ignore"):
        return x.astype(dtype)


SCALES = st.sampled_from([1.0, 0.5, -1.0, 3.0, 0.0])


def scaled(x, scale):
    """scale * x where 0 times an infinity is as the contract has it."""
    if scale != 0:
        return x
    wide = x.astype(np.float64)
    return np.where(np.isnan(wide) | np.isneginf(wide), wide, 0.0).astype(x.dtype)


def effective(scale):
    return 1.0 if scale == 0 else scale


@given(inputs(), SCALES, st.sampled_from(["nan", "zero"]))
def test_softmax(x, scale, empty_row):
    y = softfold.softmax(x, scale=scale, empty_row=empty_row)
    assert y.shape == x.shape and y.dtype == x.dtype
    exact = softmax(scaled(x, scale), effective(scale))
    if empty_row == "zero":
        empty = np.isneginf(state(scaled(x, scale), effective(scale))[1])[..., None]
        exact = np.where(empty, 0.0, exact)
    z, m, _ = state(scaled(x, scale), effective(scale))
    with np.errstate(invalid="ignore"):
        relative = slack(x.dtype, x.shape[-1]) + np.abs(z - m[..., None]) * slack(x.dtype, 1) / 16
        assert_rounded(y, exact, np.abs(exact) * relative)


@given(inputs(), SCALES, st.sampled_from(["nan", "zero"]))
def test_log_softmax(x, scale, empty_row):
    y = softfold.log_softmax(x, scale=scale, empty_row=empty_row)
    s, e = scaled(x, scale), effective(scale)
    exact = log_softmax(s, e)
    z, m, _ = state(s, e)
    if empty_row == "zero":
        exact = np.where(np.isneginf(m)[..., None], -np.inf, exact)
    with np.errstate(invalid="ignore"):
        distance = np.abs(z - m[..., None]) + np.abs(exact)
        distance = np.where(np.isfinite(distance), distance, 0.0)
    assert_rounded(y, exact, slack(x.dtype, x.shape[-1]) * (1 + distance / 16))
    finite = np.isfinite(y.astype(np.float64))
    assert (y.astype(np.float64)[finite] <= 0).all()


@given(inputs(), SCALES)
def test_logsumexp(x, scale):
    y = softfold.logsumexp(x, scale=scale)
    assert y.shape == x.shape[:-1] and y.dtype == x.dtype
    exact = logsumexp(scaled(x, scale), effective(scale))
    size = np.where(np.isfinite(exact), np.abs(exact), 0.0)
    assert_rounded(y, exact, slack(x.dtype, x.shape[-1]) * (1 + size / 16))


@given(inputs(), st.data())
def test_topk(x, data):
    k = data.draw(st.integers(0, x.shape[-1]))
    index_dtype = data.draw(st.sampled_from(["int32", "int64"]))
    values, columns = softfold.topk(x, k, index_dtype=index_dtype)
    assert columns.dtype == index_dtype
    np.testing.assert_array_equal(columns, order(x, k))
    np.testing.assert_array_equal(
        values.astype(np.float64), np.take_along_axis(x, order(x, k), -1).astype(np.float64)
    )


@given(inputs(), st.data())
def test_softmax_topk(x, data):
    k = data.draw(st.integers(0, x.shape[-1]))
    probabilities, columns, logits, lse = softfold.softmax_topk(
        x, k, scale=0.5, with_logits=True, with_lse=True
    )
    np.testing.assert_array_equal(columns, order(x, k))
    np.testing.assert_array_equal(
        logits.astype(np.float64), np.take_along_axis(x, order(x, k), -1).astype(np.float64)
    )
    exact = np.take_along_axis(softmax(x, 0.5), order(x, k), -1)
    z, m, _ = state(x, 0.5)
    with np.errstate(invalid="ignore"):
        far = np.nan_to_num(np.abs(z - m[..., None]), posinf=0.0).max(-1, initial=0.0)
    relative = slack(x.dtype, x.shape[-1]) * (1 + far[..., None] / 16)
    assert_rounded(probabilities, exact, np.abs(exact) * relative)
    assert_rounded(
        lse,
        logsumexp(x, 0.5),
        slack(x.dtype, x.shape[-1]) * (1 + np.nan_to_num(np.abs(logsumexp(x, 0.5)), posinf=0) / 16),
    )


@given(inputs(special=False))
def test_gradients(x):
    dy = np.cos(np.arange(x.size)).reshape(x.shape).astype(x.dtype)
    wide = dy.astype(np.longdouble)
    n = slack(x.dtype, x.shape[-1])

    y = softfold.softmax(x)
    p = y.astype(np.longdouble)
    exact = 2 * p * (wide - (p * wide).sum(-1, keepdims=True))
    bound = 2 * n * (p * np.abs(p * wide).sum(-1, keepdims=True) + np.abs(p * wide))
    assert_rounded(softfold.softmax_backward(y, dy, scale=2), exact, bound)

    y = softfold.log_softmax(x)
    p = np.exp(y.astype(np.longdouble))
    exact = 2 * (wide - p * wide.sum(-1, keepdims=True))
    bound = 2 * n * (p * np.abs(wide).sum(-1, keepdims=True) + np.abs(wide))
    assert_rounded(softfold.log_softmax_backward(y, dy, scale=2), exact, bound)


@given(inputs(special=False))
def test_beside_scipy(x):
    if x.size == 0 or x.dtype.itemsize == 2:
        return
    tolerance = {"rtol": 2e-5, "atol": 1e-6} if x.dtype == np.float32 else {"rtol": 1e-13, "atol": 1e-14}
    for ours, theirs in (
        (softfold.softmax, scipy.special.softmax),
        (softfold.log_softmax, scipy.special.log_softmax),
        (softfold.logsumexp, scipy.special.logsumexp),
    ):
        np.testing.assert_allclose(ours(x), theirs(x.astype(np.float64), axis=-1), **tolerance)


@pytest.mark.parametrize("name", FLOATS)
def test_special_rows(name):
    dtype = dtype_of(name)
    inf, nan = np.inf, np.nan
    x = np.array(
        [[0, nan, 1], [0, inf, 1], [-inf, -inf, -inf], [0, -inf, 0], [nan, inf, -inf]]
    ).astype(dtype)

    def same(found, expected):
        np.testing.assert_array_equal(found.astype(np.float64), expected)

    same(softfold.softmax(x), [[nan] * 3, [nan] * 3, [nan] * 3, [0.5, 0, 0.5], [nan] * 3])
    same(
        softfold.softmax(x, empty_row="zero"),
        [[nan] * 3, [nan] * 3, [0] * 3, [0.5, 0, 0.5], [nan] * 3],
    )
    half = np.log(0.5).astype(dtype).astype(np.float64)
    same(
        softfold.log_softmax(x, empty_row="zero"),
        [[nan] * 3, [nan] * 3, [-inf] * 3, [half, -inf, half], [nan] * 3],
    )
    same(
        softfold.logsumexp(x),
        [nan, inf, -inf, np.log(2.0).astype(dtype).astype(np.float64), nan],
    )
    same(softfold.topk(x, 3)[1], [[1, 2, 0], [1, 2, 0], [0, 1, 2], [0, 2, 1], [0, 1, 2]])
    # The canonical NaN is written, whatever was read.
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]
    made = softfold.softmax(-x)[0].view(bits)
    assert (made == made[0]).all() and not made[0] >> (8 * dtype.itemsize - 1)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_wide_results(name):
    x = np.linspace(-3, 3, 300).reshape(3, 100).astype(dtype_of(name))
    y = softfold.softmax(x, out_dtype="float32")
    assert y.dtype == np.float32
    assert_rounded(y, softmax(x), softmax(x) * slack(x.dtype, 100) * 2)
    np.testing.assert_array_equal(
        y.astype(x.dtype).astype(np.float64), softfold.softmax(x).astype(np.float64)
    )


def test_large_rows_use_every_path():
    """Rows that threads split, and many rows."""
    generator = np.random.default_rng(5)
    for shape in ((2, 300_000), (3000, 200)):
        x = generator.normal(size=shape).astype(np.float32)
        exact = softmax(x)
        assert_rounded(softfold.softmax(x), exact, exact * slack(x.dtype, shape[1]) * 2)
        np.testing.assert_array_equal(softfold.topk(x, 5)[1], order(x, 5))

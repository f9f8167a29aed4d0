# SPDX-License-Identifier: Apache-2.0
"""What arrays are taken, what is made of them, and what is refused, with its words."""

import re

import numpy as np
import pytest
from conftest import has
from reference import FLOATS, dtype_of

import softfold

X = np.random.default_rng(1).normal(size=(2, 3, 8)).astype(np.float32)
EXPECTED = softfold.softmax(X)


def refused(error, words, call, *arguments, **options):
    with pytest.raises(error, match=re.escape(words)):
        call(*arguments, **options)


# ---- every kind of array ----


@pytest.mark.parametrize("number", range(len(FLOATS)))
def test_results_are_of_the_inputs_kind(kind, number):
    given = X.astype(dtype_of(kind.types[number % len(kind.types)]))
    x = kind.make(given)
    for function in (softfold.softmax, softfold.log_softmax, softfold.logsumexp):
        y = function(x)
        assert type(y) is type(x) and y.dtype == x.dtype
        np.testing.assert_array_equal(kind.back(y), function(given))
    for made, expected in zip(
        softfold.softmax_topk(x, 2, with_logits=True, with_lse=True),
        softfold.softmax_topk(given, 2, with_logits=True, with_lse=True),
    ):
        assert type(made) is type(x) and tuple(made.shape) == expected.shape
        np.testing.assert_array_equal(kind.back(made), expected)
    y = softfold.softmax(given)
    np.testing.assert_array_equal(
        kind.back(softfold.softmax_backward(kind.make(y), x)), softfold.softmax_backward(y, given)
    )


@pytest.mark.parametrize("shape", [(5,), (1, 5), (0, 5), (3, 0), (2, 1, 3, 4), (0,), (1,)])
def test_shapes(kind, shape):
    given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    x = kind.make(given)
    y = softfold.softmax(x)
    assert tuple(y.shape) == shape
    np.testing.assert_array_equal(kind.back(y), softfold.softmax(given))
    lse = softfold.logsumexp(x)
    assert tuple(lse.shape) == shape[:-1]
    np.testing.assert_array_equal(kind.back(lse), softfold.logsumexp(given))


def test_copies_that_are_asked_for(kind):
    x = kind.make(X)
    for axis in (0, 1, 2, -1, -2, -3):
        expected = np.moveaxis(softfold.softmax(np.moveaxis(X, axis, -1).copy()), -1, axis)
        y = softfold.softmax(x, axis, copy=True)
        assert type(y) is type(x) and tuple(y.shape) == X.shape
        np.testing.assert_array_equal(kind.back(y), expected)
        columns = softfold.topk(x, 2, axis, copy=True)[1]
        expected = np.moveaxis(softfold.topk(np.moveaxis(X, axis, -1).copy(), 2)[1], -1, axis)
        np.testing.assert_array_equal(kind.back(columns), expected)
    refused(ValueError, "softmax: axis is 3, expected -3 to 2", softfold.softmax, x, 3, copy=True)
    refused(ValueError, "axis is 0, expected -1 or 2", softfold.softmax, x, 0)


@pytest.mark.skipif(not has("torch"), reason="no torch here")
def test_results_go_where_out_says():
    import torch

    for make in (np.empty_like, lambda x: torch.empty(x.shape)):
        y = make(X)
        assert softfold.softmax(X, out=y) is y
        np.testing.assert_array_equal(np.asarray(y), EXPECTED)


@pytest.mark.skipif(not has("jax"), reason="no JAX here")
def test_arrays_that_nobody_may_write_to():
    import jax.numpy as jnp

    refused(TypeError, "out is of type jax", softfold.softmax, X, out=jnp.zeros(X.shape))


class Exported:
    """An array whose library has no functions."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_arrays_of_no_library():
    refused(TypeError, "whose library has no from_dlpack: give out", softfold.softmax, Exported(X))
    y = np.empty_like(X)
    assert softfold.softmax(Exported(X), out=y) is y
    np.testing.assert_array_equal(y, EXPECTED)
    z = np.empty_like(X)
    out = Exported(z)
    assert softfold.softmax(X, out=out) is out
    np.testing.assert_array_equal(z, EXPECTED)
    refused(TypeError, "x.", softfold.softmax, Exported(X.astype("u1")), out=y)


# ---- strides ----


def test_rows_may_have_a_distance():
    wide = np.zeros((2, 3, 16), np.float32)
    wide[..., 4:12] = X
    np.testing.assert_array_equal(softfold.softmax(wide[..., 4:12]), EXPECTED)
    np.testing.assert_array_equal(softfold.softmax(X[:, 1]), EXPECTED[:, 1])
    np.testing.assert_array_equal(softfold.logsumexp(X[:1, ::2]), softfold.logsumexp(X)[:1, ::2])
    out = np.full((2, 3, 16), 7, np.float32)
    softfold.softmax(X, out=out[..., 4:12])
    np.testing.assert_array_equal(out[..., 4:12], EXPECTED)
    assert (out[..., :4] == 7).all() and (out[..., 12:] == 7).all()


def test_axes_of_length_one_have_any_stride():
    strided = np.lib.stride_tricks.as_strided(X, (1, 3, 1, 8), (1234, 32, -5, 4))
    np.testing.assert_array_equal(softfold.softmax(strided)[0, :, 0], EXPECTED[0])
    column = X[:, :, 3:4]
    np.testing.assert_array_equal(softfold.softmax(column), np.ones_like(column))


@pytest.mark.parametrize(
    "x",
    [X.T, X[..., ::2], X[..., ::-1], X[:, ::2, :], X.transpose(1, 0, 2)],
    ids=["transposed", "every other", "backwards", "uneven rows", "swapped"],
)
def test_strides_that_are_no_rows(x):
    words = f"softmax: x.strides is {x.strides}, expected rows of contiguous elements"
    refused(ValueError, words, softfold.softmax, x)
    np.testing.assert_array_equal(softfold.softmax(x, copy=True), softfold.softmax(x.copy("C")))


def test_rows_backwards_or_on_top_of_each_other():
    words = "x.stride is -8, expected at least cols = 8"
    refused(ValueError, words, softfold.softmax, X[0, ::-1])
    words = "x.stride is 0, expected at least cols = 8"
    refused(ValueError, words, softfold.softmax, np.broadcast_to(X[0, 0], (4, 8)))


def test_rows_between_elements():
    bytes_ = np.zeros(200, np.uint8)
    x = np.lib.stride_tricks.as_strided(bytes_.view(np.float32), (3, 8), (33, 4))
    refused(ValueError, "x.strides is (33, 4)", softfold.softmax, x)
    unaligned = bytes_[1:33].view(np.float32)
    refused(ValueError, "expected a multiple of the element size 4", softfold.softmax, unaligned)


# ---- arguments that are wrong ----


@pytest.mark.parametrize(
    "x", [[1.0], 1.0, np.float32(1), None, "x", (1.0, 2.0)], ids=lambda x: type(x).__name__
)
def test_things_that_are_no_arrays(x):
    refused(TypeError, "softmax: x is of type ", softfold.softmax, x)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool", "complex64", "longdouble", "O"])
def test_types_that_are_not_taken(dtype):
    refused(TypeError, "softmax: x.", softfold.softmax, np.ones((2, 2), dtype))


def test_arrays_that_are_refused():
    refused(TypeError, "x.dtype is >f4, expected the machine's", softfold.softmax, X.astype(">f4"))
    refused(ValueError, "x is of shape ()", softfold.softmax, np.array(1.0))
    refused(TypeError, "without a mask", softfold.softmax, np.ma.array([1.0, 2.0]))


def test_out_that_is_refused():
    read_only = np.empty_like(X)
    read_only.flags.writeable = False
    refused(ValueError, "softmax: out is read-only", softfold.softmax, X, out=read_only)
    refused(ValueError, "out is of shape (2, 3, 7), expected (2, 3, 8)", softfold.softmax, X,
            out=np.empty((2, 3, 7), np.float32))  # fmt: skip
    refused(ValueError, "out is of shape (6, 8)", softfold.softmax, X,
            out=np.empty((6, 8), np.float32))  # fmt: skip
    refused(TypeError, "out.type is f64, expected f32", softfold.softmax, X, out=np.empty(X.shape))
    refused(TypeError, "out.type is f64, expected f32", softfold.softmax, X, out_dtype="float64")
    refused(TypeError, "out_dtype is float8", softfold.softmax, X, out_dtype="float8")
    flat = np.zeros(60, np.float32)
    x = flat[:48].reshape(X.shape)
    refused(ValueError, "out overlaps x", softfold.softmax, x, out=flat[4:52].reshape(X.shape))
    assert not flat.any()
    refused(TypeError, "topk: out is", softfold.topk, X, 2, out=np.empty((2, 3, 2)))


def test_vectors_are_contiguous():
    whole = np.full((2, 6), 7, np.float32)
    refused(ValueError, "out", softfold.logsumexp, X, out=whole[:, ::2])
    refused(ValueError, "out is not contiguous", softfold.logsumexp, X, out=whole[:, :3])
    assert (whole == 7).all()
    lse = np.empty((2, 3), np.float32)
    assert softfold.logsumexp(X, out=lse) is lse
    np.testing.assert_array_equal(lse, softfold.logsumexp(X))


@pytest.mark.parametrize(
    "error, words, options",
    [
        (ValueError, "scale is inf, expected finite as f32", {"scale": np.inf}),
        (ValueError, "expected finite as f32", {"scale": 1e300}),
        (ValueError, "empty_row is 'none'", {"empty_row": "none"}),
        (ValueError, "stream is 7, expected None", {"stream": 7}),
        (ValueError, "axis is 5", {"axis": 5}),
        (TypeError, "incompatible function arguments", {"scale": "hot"}),
        (TypeError, "incompatible function arguments", {"temperature": 1.0}),
    ],
)
def test_options_that_are_wrong(error, words, options):
    refused(error, words, softfold.softmax, X, **options)


@pytest.mark.parametrize("k", [-1, 9, 2**40])
def test_k_out_of_range(k):
    for function in (softfold.topk, softfold.softmax_topk):
        refused(ValueError, f"k is {k}, expected 0 to 8", function, X, k)


def test_gradients_of_other_shapes():
    refused(ValueError, "dy is of shape (2, 3, 4), expected (2, 3, 8)", softfold.softmax_backward,
            X, X[..., :4])  # fmt: skip
    refused(TypeError, "dy.type is f64, expected f32", softfold.softmax_backward, X, X.astype("f8"))


def test_in_place():
    x = X.copy()
    assert softfold.softmax(x, out=x) is x
    np.testing.assert_array_equal(x, EXPECTED)


def test_numbers_of_numpy_are_numbers():
    np.testing.assert_array_equal(
        softfold.softmax(X, np.int64(2), scale=np.float32(0.5)), softfold.softmax(X, scale=0.5)
    )
    assert softfold.topk(X, np.int32(2))[0].shape == (2, 3, 2)


@pytest.mark.parametrize("name", ["float32", "np.float32", "dtype", "torch", "jax"])
def test_names_of_types(name):
    if name in ("torch", "jax"):
        module = pytest.importorskip(name if name == "torch" else "jax.numpy")
        given = module.float32
    else:
        given = {"float32": "float32", "np.float32": np.float32, "dtype": np.dtype("f4")}[name]
    assert softfold.softmax(X.astype("f2"), out_dtype=given).dtype == np.float32

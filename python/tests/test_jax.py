# SPDX-License-Identifier: Apache-2.0
"""softfold.jax: within jit, vmap and grad, beside JAX's own functions."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import jax.test_util  # noqa: E402

import softfold.jax as sj  # noqa: E402

DTYPES = ["float32", "float64", "float16", "bfloat16"]
FUNCTIONS = {
    "softmax": (lambda x: sj.softmax(x, scale=0.7), lambda x: jax.nn.softmax(0.7 * x)),
    "log_softmax": (lambda x: sj.log_softmax(x, scale=0.7), lambda x: jax.nn.log_softmax(0.7 * x)),
    "logsumexp": (
        lambda x: sj.logsumexp(x, scale=0.7),
        lambda x: jax.nn.logsumexp(0.7 * x, axis=-1),
    ),
    "softmax_topk": (
        lambda x: sj.softmax_topk(x, 3, scale=0.7)[0],
        lambda x: jax.lax.top_k(jax.nn.softmax(0.7 * x), 3)[0],
    ),
}


def rows(dtype="float64", shape=(4, 7)):
    return jnp.asarray(np.random.default_rng(6).normal(size=shape), dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_beside_jax(name, dtype):
    ours, theirs = FUNCTIONS[name]
    x = rows(dtype)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if x.dtype.itemsize == 2 else {"rtol": 1e-5, "atol": 1e-6}
    assert ours(x).dtype == x.dtype
    close = lambda a, b: np.testing.assert_allclose(  # noqa: E731
        np.asarray(a, np.float64), np.asarray(b, np.float64), **tolerance
    )
    close(ours(x), theirs(x))
    close(jax.jit(ours)(x), theirs(x))
    close(jax.vmap(ours)(x), theirs(x))
    weights = jnp.linspace(-1, 1, theirs(x).size, dtype=x.dtype).reshape(theirs(x).shape)
    close(
        jax.jit(jax.grad(lambda x: (ours(x) * weights).sum()))(x),
        jax.grad(lambda x: (theirs(x) * weights).sum())(x),
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    jax.test_util.check_grads(FUNCTIONS[name][0], (rows(),), order=1, modes=["rev"])


def test_columns():
    x = rows(shape=(2, 3, 50))
    np.testing.assert_array_equal(sj.softmax_topk(x, 5)[1], jax.lax.top_k(x, 5)[1])


def test_wide_results():
    x = rows("bfloat16")
    assert sj.softmax(x, dtype=jnp.float32).dtype == jnp.float32
    assert jax.grad(lambda x: sj.softmax(x, dtype=jnp.float32)[0, 0])(x).dtype == jnp.bfloat16


def test_empty_rows():
    x = jnp.full((1, 3), -jnp.inf)
    assert jnp.isnan(sj.softmax(x)).all()
    assert (sj.softmax(x, empty_row="zero") == 0).all()
    assert (jax.grad(lambda x: sj.logsumexp(x).sum())(x) == 0).all()


@pytest.mark.parametrize(
    "error, words, call",
    [
        (ValueError, "axis is 0, expected -1 or 1", lambda x: sj.softmax(x, 0)),
        (ValueError, "empty_row is 'one'", lambda x: sj.log_softmax(x, empty_row="one")),
        (ValueError, "k is 8, expected 0 to 7", lambda x: sj.softmax_topk(x, 8)),
        (ValueError, "x is of shape ()", lambda x: sj.logsumexp(x[0, 0])),
        (TypeError, "x.dtype is int32", lambda x: sj.softmax(x.astype(jnp.int32))),
        (Exception, "scale is inf, expected finite", lambda x: sj.softmax(x, scale=np.inf)),
    ],
)
def test_what_is_refused(error, words, call):
    with pytest.raises(error, match=words.replace("(", r"\(").replace(")", r"\)")):
        jax.block_until_ready(call(rows()))

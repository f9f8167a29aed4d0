# SPDX-License-Identifier: Apache-2.0
"""softfold.jax: within jit, vmap and grad, beside JAX's own functions."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import jax.test_util  # noqa: E402

import softfold  # noqa: E402
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
    "logcumsumexp": (
        lambda x: sj.logcumsumexp(x, scale=0.7),
        lambda x: jax.lax.cumlogsumexp(0.7 * x, axis=x.ndim - 1),
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
        (TypeError, "softmax: there is no argument temperature", lambda x: sj.softmax(x, temperature=2)),
        (TypeError, "mask.dtype is float64, expected bool", lambda x: sj.softmax(x, mask=x)),
        (ValueError, "bias is of shape (4, 6), expected (4, 7) or (7,)",
         lambda x: sj.softmax(x, bias=x[:, 1:])),
        (ValueError, "lengths is of shape (7,), expected (4,)",
         lambda x: sj.logsumexp(x, lengths=jnp.arange(7))),
        (ValueError, "causal is True", lambda x: sj.softmax(x, causal=True)),
        (ValueError, "without an axis of queries", lambda x: sj.softmax(x[0], causal="top_left")),
        (ValueError, "penalties is None", lambda x: sj.softmax(x, repetition=jnp.ones(1))),
        (ValueError, "seed is -1, expected an integer from 0", lambda x: sj.sample(x, seed=-1)),
        (ValueError, "top_k is of shape (3,), expected (4,) or () or (1,)",
         lambda x: sj.sample(x, top_k=jnp.arange(3))),
        (TypeError, "seed.dtype is float64", lambda x: sj.sample(x, seed=jnp.ones(4))),
        (ValueError, "with_top is 8, expected 0 to 7", lambda x: sj.sample(x, with_top=8)),
        (Exception, "temperature is -1", lambda x: sj.sample(x, temperature=-1)),
        (ValueError, "empty_row is 'one'", lambda x: sj.log_softmax(x, empty_row="one")),
        (ValueError, "k is 8, expected 0 to 7", lambda x: sj.softmax_topk(x, 8)),
        (ValueError, "x is of shape ()", lambda x: sj.logsumexp(x[0, 0])),
        (TypeError, "x.dtype is int32", lambda x: sj.softmax(x.astype(jnp.int32))),
        (Exception, "scale is inf, expected finite", lambda x: sj.softmax(x, scale=np.inf)),
    ],
)  # fmt: skip
def test_what_is_refused(error, words, call):
    with pytest.raises(error, match=words.replace("(", r"\(").replace(")", r"\)")):
        jax.block_until_ready(call(rows()))


# ---- edits, sampling ----

KEPT = np.random.default_rng(1).random((4, 7)) < 0.6
KEPT[:, 0] = True
BITS = np.packbits(np.pad(KEPT, [(0, 0), (0, 25)]), axis=-1, bitorder="little").view("<i4")
EDITS = {
    "mask": {"mask": KEPT},
    "one mask for all": {"mask": KEPT[0]},
    "bytes": {"mask": KEPT.astype(np.uint8)},
    "bits": {"mask": BITS},
    "lengths": {"lengths": np.array([3, 7, 1, 5])},
    "causal": {"causal": "bottom_right"},
    "window": {"causal": "top_left", "window": 2},
    "bias": {"bias": np.linspace(-1, 1, 28).reshape(4, 7)},
    "softcap": {"softcap": 1.5, "bias": np.linspace(-1, 1, 7)},
}
PENALTIES = {
    "penalties": (np.arange(0, 9, 2), np.array([0, 3] * 4), np.ones(8, np.int32)),
    "repetition": np.array([1.5]),
    "presence": np.linspace(0, 1, 4),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("edit", [*EDITS, "penalties"])
def test_edits_beside_numpy(name, edit):
    edits = {**EDITS, "penalties": PENALTIES}[edit]
    x = rows()
    k = (3,) if name == "softmax_topk" else ()
    given = jax.tree.map(lambda e: e if isinstance(e, (str, int, float)) else jnp.asarray(e), edits)
    ours = jax.jit(lambda x: getattr(sj, name)(x, *k, **given))(x)
    expected = getattr(softfold, name)(np.asarray(x), *k, **edits)
    jax.tree.map(np.testing.assert_array_equal, tuple(ours), tuple(expected))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("edit", EDITS)
def test_gradients_of_edited_rows(name, edit):
    edits = {"bias": np.linspace(-1, 1, 7), **EDITS[edit]}
    bias = jnp.asarray(edits.pop("bias"))

    def call(x, bias):
        y = getattr(sj, name)(x, *((2,) if name == "softmax_topk" else ()), bias=bias, **edits)
        y = y[0] if isinstance(y, tuple) else y
        return jnp.where(jnp.isneginf(y), 0, y)

    jax.test_util.check_grads(call, (rows(), bias), order=1, modes=["rev"])


@pytest.mark.parametrize("options", [{"exclusive": True}, {"reverse": True}])
def test_gradients_of_logcumsumexp(options):
    def call(x):
        y = sj.logcumsumexp(x, scale=-0.5, **options)
        return jnp.where(jnp.isneginf(y), 0, y)

    jax.test_util.check_grads(call, (rows(),), order=1, modes=["rev"])


def test_what_is_removed_reaches_no_gradient():
    x = rows("float32")
    for function in (sj.softmax, sj.log_softmax, sj.logsumexp, sj.logcumsumexp):

        def loss(x):
            y = function(x, mask=KEPT, softcap=3.0)
            return jnp.where(jnp.isfinite(y), y, 0).sum()

        found = jax.grad(loss)(jnp.where(KEPT, x, jnp.nan))
        np.testing.assert_array_equal(found, jax.grad(loss)(x))
        assert (found[~KEPT] == 0).all()


def test_penalties_have_no_gradient():
    with pytest.raises(ValueError, match="penalties have no gradient"):
        jax.grad(lambda x: sj.softmax(x, **PENALTIES).sum())(rows())


def test_mapped_edits():
    x = rows(shape=(3, 4, 7))
    for call, given in (
        (lambda x: sj.softmax(x, mask=KEPT), (x,)),
        (lambda x: sj.softmax(x, mask=KEPT[0]), (x,)),
        (lambda x: sj.softmax(x, causal="top_left"), (x,)),
        (lambda x, b: sj.softmax(x, bias=b), (x, x[:, 0])),
        (lambda x, n: sj.logsumexp(x, lengths=n), (x, jnp.arange(12).reshape(3, 4))),
        (lambda x: sj.softmax(x, **PENALTIES), (x,)),
        (lambda x, offset: sj.sample(x, offset=offset), (x, jnp.arange(3))),
    ):
        expected = jnp.stack([call(*each) for each in zip(*given)])
        np.testing.assert_array_equal(jax.vmap(call)(*given), expected)


def test_samples_are_the_packages():
    x = rows("float32", (2, 3, 50))
    each = {
        "temperature": np.linspace(0.5, 2, 6, dtype=np.float32).reshape(2, 3),
        "top_k": np.arange(6).reshape(2, 3),
        "top_p": np.linspace(0.3, 1, 6).reshape(2, 3),
        "min_p": np.linspace(0, 0.1, 6).reshape(2, 3),
        "seed": np.array([[1, 2, 3], [-1, 2**40, 6]]),
        "offset": np.arange(6).reshape(2, 3) * 2**33,
    }
    wanted = {
        "with_log_probability": True, "with_raw_log_probability": True, "with_lse": True,
        "with_kept": True, "with_top": 2,
    }  # fmt: skip
    numbers = {"temperature": 0.7, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "seed": 2**64 - 3,
               "offset": 2**63, "joint": True}  # fmt: skip
    for given in (each, numbers):
        options = {**given, **wanted, "draws": 3}
        found = jax.jit(lambda x: sj.sample(x, **options))(x)
        expected = softfold.sample(np.asarray(x), index_dtype="int32", **options)
        assert len(found) == len(expected) == 8
        for ours, theirs in zip(found, expected):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(sj.sample(x, temperature=0)[..., 0], x.argmax(-1))


def test_a_decode_loop_without_64_bits():
    """Offsets that are traced, and of 32 bits, as in a program without jax_enable_x64."""
    with jax.enable_x64(False):
        x = jnp.asarray(np.random.default_rng(6).normal(size=(4, 50)), jnp.float32)
        seeds = jnp.array([1, 2, 3, -4])
        assert seeds.dtype == jnp.int32

        def step(offset, _):
            return offset + 1, sj.sample(x, seed=seeds, offset=offset)[:, 0]

        _, tokens = jax.jit(lambda: jax.lax.scan(step, jnp.int32(5), None, 6))()
        found = sj.softmax(x, penalties=PENALTIES["penalties"], presence=np.ones(1, "f4"))
    expected = [
        softfold.sample(np.asarray(x), seed=np.array([1, 2, 3, -4]), offset=5 + i)[:, 0]
        for i in range(6)
    ]
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_array_equal(
        found, softfold.softmax(np.asarray(x), **{**PENALTIES, "repetition": None, "presence": np.ones(1)})
    )


# ---- attention ----

QUERY, KEY, VALUE = (
    np.random.default_rng(8).normal(size=shape).astype("f4")
    for shape in ((2, 4, 5, 8), (2, 2, 9, 8), (2, 2, 9, 12))
)
SCORES = {
    "bias": np.linspace(-1, 1, 9, dtype="f4"),
    "alibi_slopes": np.linspace(0, 1, 4),
    "key_lengths": np.array([9, 6]),
    "sinks": np.linspace(-1, 1, 4, dtype="f4"),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_is_the_packages(dtype):
    tensors = [jnp.asarray(x, dtype) for x in (QUERY, KEY, VALUE)]
    numbers = {
        "scale": 0.5, "softcap": 3.0, "causal": "bottom_right", "window_left": 4, "window_right": 6,
        "key_offset": 1, "query_offset": 2, "empty_row": "nan", "with_lse": True,
    }  # fmt: skip
    wide = {"dtype": jnp.float64 if dtype == "float64" else jnp.float32}
    for options in ({}, numbers, {**numbers, **SCORES}, {"sinks": SCORES["sinks"], **wide}):
        found = jax.jit(lambda *tensors: sj.attention(*tensors, **options))(*tensors)
        given = {"out_dtype" if name == "dtype" else name: e for name, e in options.items()}
        expected = softfold.attention(*map(np.asarray, tensors), **given)
        jax.tree.map(np.testing.assert_array_equal, found, expected)
        assert jax.tree.map(lambda y: y.dtype, found) == jax.tree.map(lambda y: y.dtype, expected)


def test_mapped_attention():
    heads = jax.vmap(lambda q, length: sj.attention(q, KEY[0], VALUE[0], key_lengths=length[None]))
    lengths = jnp.array([4, 9])
    expected = [
        sj.attention(q, KEY[0], VALUE[0], key_lengths=length[None]) for q, length in zip(QUERY, lengths)
    ]
    np.testing.assert_array_equal(heads(jnp.asarray(QUERY), lengths), jnp.stack(expected))


def test_attention_has_no_gradient():
    with pytest.raises(Exception, match="softfold_attention.*cannot be differentiated"):
        jax.grad(lambda q: sj.attention(q, KEY, VALUE).sum())(jnp.asarray(QUERY))


@pytest.mark.parametrize(
    "error, words, options",
    [
        (ValueError, "key is of shape (1, 2, 2, 9, 8), expected one to four axes", {"key": KEY[None]}),
        (TypeError, "value.dtype is int32, expected float32", {"value": VALUE.astype("i4")}),
        (ValueError, "causal is True", {"causal": True}),
        (ValueError, "empty_row is None", {"empty_row": None}),
        (TypeError, "key_lengths.dtype is float32", {"key_lengths": np.zeros(2, "f4")}),
        (Exception, "key.batches is 1, expected 2", {"key": KEY[:1]}),
        (Exception, "sinks.size is 3, expected 4", {"sinks": SCORES["sinks"][1:]}),
        (Exception, "scale is inf", {"scale": np.inf}),
    ],
)
def test_attention_that_is_refused(error, words, options):
    with pytest.raises(error, match=words.replace("(", r"\(").replace(")", r"\)")):
        jax.block_until_ready(
            sj.attention(**{"query": QUERY, "key": KEY, "value": VALUE, **options})
        )

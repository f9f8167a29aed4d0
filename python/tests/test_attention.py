# SPDX-License-Identifier: Apache-2.0
"""attention beside docs/attention.md in wider arithmetic, and beside torch."""

import re

import numpy as np
import pytest
from conftest import has
from hypothesis import given
from hypothesis import strategies as st
from reference import FLOATS, assert_rounded, attention, dtype_of

import softfold

RANDOM = np.random.default_rng(7)
# [batches, heads, tokens, dim]: six heads of queries share two of keys.
Q, K, V = (
    RANDOM.normal(size=shape).astype("f4") for shape in ((2, 6, 5, 16), (2, 2, 40, 16), (2, 2, 40, 24))
)
BIAS = RANDOM.normal(size=(2, 6, 5, 40)).astype("f4")
SLOPES = np.float32([0.5, 0.25, 0.125, 0.0, 1.0, -0.1])
SINKS = np.array([0.0, -np.inf, 3.0, -2.0, 9.0, 0.5])


@st.composite
def problems(draw):
    """Queries, keys, values and options."""
    dtype = dtype_of(draw(st.sampled_from(FLOATS)))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    number = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    batches, shared, group = number(1, 2), number(1, 2), number(1, 3)
    heads, queries, keys = shared * group, number(0, 1, 2, 9), number(0, 1, 7, 150)
    dim, value_dim = number(1, 16, 65), number(1, 24)
    q = random.normal(size=(batches, heads, queries, dim)).astype(dtype)
    k = random.normal(size=(batches, shared, keys, dim)).astype(dtype)
    v = random.normal(size=(batches, shared, keys, value_dim)).astype(dtype)
    all_options = {
        "scale": number(0.3, -1.0, 0.0),
        "softcap": number(0.5, 3.0),
        "bias": random.normal(size=(number(1, batches), number(1, heads), number(1, queries), keys))
        .astype(dtype_of(number(*FLOATS))),
        "alibi_slopes": random.normal(size=heads).astype(number("f4", "f8")),
        "causal": number("top_left", "bottom_right"),
        "window_left": number(0, 3),
        "window_right": number(0, 5),
        "key_lengths": random.integers(-1, keys + 3, batches).astype(number("i4", "i8")),
        "key_offset": number(0, 2),
        "query_offset": number(-3, 4),
        "sinks": random.normal(size=heads).astype(number("f4", "f8")),
    }  # fmt: skip
    names = draw(st.sets(st.sampled_from(list(all_options))))
    options = {name: all_options[name] for name in names}
    if "bias" in options and keys:
        options["bias"][..., random.random(keys) < 0.2] = -np.inf
    return q, k, v, options


@given(problems())
def test_any_options(problem):
    q, k, v, options = problem
    out, lse = softfold.attention(q, k, v, with_lse=True, **options)
    assert out.shape == (*q.shape[:3], v.shape[3]) and out.dtype == q.dtype
    assert lse.shape == q.shape[:3] and lse.dtype == (np.float64 if q.dtype == np.float64 else np.float32)
    exact, exact_lse, bound, bound_lse = attention(q, k, v, **options)
    assert_rounded(out, exact, bound)
    assert_rounded(lse, exact_lse, bound_lse)


@pytest.mark.skipif(not has("torch"), reason="no torch here")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("mask", [None, "causal", "bool", "float", "one head's"])
def test_beside_torch(name, mask):
    import torch

    tensors = [torch.from_numpy(x).to(getattr(torch, name)) for x in (Q, K, V)]
    kept = torch.from_numpy(BIAS > -0.5)
    added = torch.from_numpy(BIAS).to(tensors[0].dtype)
    ours, theirs = {
        None: ({}, {}),
        "causal": ({"causal": "top_left"}, {"is_causal": True}),
        "bool": ({"bias": torch.where(kept, 0.0, -torch.inf)}, {"attn_mask": kept}),
        "float": ({"bias": added}, {"attn_mask": added}),
        "one head's": ({"bias": added[0, 0]}, {"attn_mask": added[0, 0]}),
    }[mask]
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, enable_gqa=True, **theirs)
    found = softfold.attention(*tensors, **ours)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if tensors[0].dtype.itemsize == 2 else {}
    torch.testing.assert_close(found, expected, **tolerance)


def test_any_strides():
    expected = softfold.attention(Q, K, V)
    apart = lambda x: np.swapaxes(np.swapaxes(x, 1, 2).copy(), 1, 2)  # noqa: E731 [B, S, H, D] in memory
    packed = np.zeros((2, 40, 2, 48), "f4")
    packed[..., :16], packed[..., 16:40] = np.swapaxes(K, 1, 2), np.swapaxes(V, 1, 2)
    key, value = (np.swapaxes(packed[..., part], 1, 2) for part in (np.s_[:16], np.s_[16:40]))
    out = np.full((2, 5, 6, 30), 7.0, "f4")
    to = np.swapaxes(out[..., 3:27], 1, 2)
    assert softfold.attention(apart(Q), key, value, out=to) is to
    np.testing.assert_array_equal(to, expected)
    assert (out[..., :3] == 7).all() and (out[..., 27:] == 7).all()
    shared = [np.broadcast_to(x[:1], x.shape) for x in (K, V)]
    np.testing.assert_array_equal(
        softfold.attention(Q, *shared), softfold.attention(Q, *(x.copy() for x in shared))
    )


def test_missing_axes_count_one():
    expected, lse = softfold.attention(Q[:1, :2], K[:1], V[:1], bias=BIAS[:1, :2], with_lse=True)
    found = softfold.attention(Q[0, :2], K[0], V[0], bias=BIAS[0, :2], with_lse=True)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], lse[0])
    bias = BIAS[0, 0, 2]
    found, lse = softfold.attention(Q[0, 1, 2], K[0, 1], V[0, 1], bias=bias, with_lse=True)
    exact, exact_lse, bound, bound_lse = attention(
        Q[:1, 1:2, 2:3], K[:1, 1:], V[:1, 1:], bias=bias
    )
    assert found.shape == (24,) and lse.shape == ()
    assert_rounded(found, exact[0, 0, 0], bound[0, 0, 0])
    assert abs(lse - exact_lse[0, 0, 0]) <= bound_lse[0, 0, 0]


def test_any_kind_of_array(kind):
    arrays = {"bias": BIAS, "alibi_slopes": SLOPES, "sinks": SINKS, "key_lengths": np.array([40, 11])}
    numbers = {"causal": "bottom_right", "window_left": 20, "softcap": 4.0, "with_lse": True}
    expected = softfold.attention(Q, K, V, **arrays, **numbers)
    given_ = {name: kind.make(array) for name, array in arrays.items()}
    found = softfold.attention(*map(kind.make, (Q, K, V)), **given_, **numbers)
    for y, exact in zip(found, expected):
        assert type(y) is type(kind.make(Q))
        np.testing.assert_array_equal(kind.back(y), exact)
    state = softfold.fold_attention(*map(kind.make, (Q, K, V)), **given_, causal="bottom_right")
    expected = softfold.fold_attention(Q, K, V, **arrays, causal="bottom_right")
    for y, exact in zip(state, expected):
        np.testing.assert_array_equal(kind.back(y), exact)
    out = kind.back(softfold.normalize_attention(*state))
    np.testing.assert_array_equal(out, softfold.normalize_attention(*expected))


@pytest.mark.parametrize("name", FLOATS)
def test_what_is_removed_does_not_exist(name):
    q, k, v = (x.astype(dtype_of(name)) for x in (Q, K, V))
    removed = np.zeros(40, "f4")
    removed[[0, 7, 33]] = -np.inf
    options = {"bias": removed, "key_lengths": np.array([39, 36])}
    expected = softfold.attention(q, k, v, with_lse=True, **options)
    for x in (k, v):
        x[:, :, [0, 7, 33, 39]] = np.nan
        x[1, :, 36:] = np.inf
    for y, exact in zip(softfold.attention(q, k, v, with_lse=True, **options), expected):
        assert np.isfinite(exact.astype(float)).all()
        np.testing.assert_array_equal(y, exact)


def test_queries_without_keys():
    lengths = np.array([0, 2])
    for empty_row, number in (("zero", 0.0), ("nan", np.nan)):
        out, lse = softfold.attention(
            Q, K, V, key_lengths=lengths, empty_row=empty_row, with_lse=True
        )
        np.testing.assert_array_equal(out[0], np.full(out[0].shape, number))
        assert np.isneginf(lse[0]).all() and np.isfinite(out[1]).all()
        state = softfold.fold_attention(Q, K, V, key_lengths=lengths)
        np.testing.assert_array_equal(state[0][0], np.broadcast_to([-np.inf, 0.0], (6, 5, 2)))
        whole = softfold.normalize_attention(*state, empty_row=empty_row)
        np.testing.assert_array_equal(whole[0], out[0])
    assert softfold.attention(Q[:, :, :0], K, V).shape == (2, 6, 0, 24)
    assert (softfold.attention(Q, K[:, :, :0], V[:, :, :0]) == 0).all()


def test_results_of_another_type():
    q, k, v = (x.astype("f2") for x in (Q, K, V))
    wide = softfold.attention(q, k, v, out_dtype="float32")
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(softfold.attention(q, k, v), wide.astype("f2"))
    state = softfold.fold_attention(q, k, v)
    assert [y.dtype for y in state] == [np.float32] * 2
    assert softfold.normalize_attention(*state, out_dtype="bfloat16").dtype == dtype_of("bfloat16")


@given(st.sampled_from(FLOATS), st.lists(st.integers(0, 40), max_size=3), st.randoms())
def test_any_split_of_the_keys_gives_the_whole(name, cuts, random):
    q, k, v = (x.astype(dtype_of(name)) for x in (Q, K, V))
    options = {"causal": "bottom_right", "key_lengths": np.array([40, 23]), "alibi_slopes": SLOPES}
    edges = sorted({0, 40, *cuts})
    parts = [
        softfold.fold_attention(
            q, k[:, :, begin:end], v[:, :, begin:end], key_offset=begin, bias=BIAS[..., begin:end],
            sinks=None if begin else SINKS, **options
        )
        for begin, end in zip(edges, edges[1:])
    ]  # fmt: skip
    random.shuffle(parts)
    whole = parts.pop()
    for part in parts:
        assert softfold.combine_attention(*whole, *part) is None
    exact, lse, bound, bound_lse = attention(q, k, v, bias=BIAS, sinks=SINKS, **options)
    assert_rounded(softfold.normalize_attention(*whole), exact, 2 * bound)
    states = whole[0].astype(np.longdouble)
    assert_rounded((states[..., 0] + np.log(states[..., 1])).astype(float), lse, 2 * bound_lse)


@pytest.mark.parametrize("name", FLOATS)
def test_packed_tokens(name):
    queries, keys = [0, 2, 2, 5], [1, 20, 23, 40]
    q, k, v = (x[:1].astype(dtype_of(name)) for x in (Q, K, V))
    k[:, :, 0] = v[:, :, 0] = np.nan  # a key of no sequence
    options = {"causal": "bottom_right", "alibi_slopes": SLOPES, "sinks": SINKS}
    packed = {
        "query_starts": np.array(queries, "i4"), "key_starts": np.array(keys),
        "key_lengths": np.array([17, 3, 17]), **options,
    }  # fmt: skip
    out, lse = softfold.attention(q, k, v, with_lse=True, **packed)
    state = softfold.fold_attention(q, k, v, most_queries=3, most_keys=19, **packed)
    for i in range(3):
        own = np.s_[:, :, queries[i] : queries[i + 1]]
        theirs = np.s_[:, :, keys[i] : keys[i + 1]]
        exact, exact_lse, bound, bound_lse = attention(
            q[own], k[theirs], v[theirs], key_lengths=packed["key_lengths"][i : i + 1], **options
        )
        assert_rounded(out[own], exact, bound)
        assert_rounded(softfold.normalize_attention(*state)[own], exact, bound)
        assert (abs(lse[own] - exact_lse) <= bound_lse).all()


WRONG = [
    (TypeError, "query is of type list", {"query": [1.0]}),
    (ValueError, "query is of shape (), expected one to four axes: batches, heads, tokens, dim",
     {"query": np.array(1.0)}),
    (ValueError, "key is of shape (1, 2, 2, 40, 16), expected one to four axes", {"key": K[None]}),
    (ValueError, "value.strides is (7680, 3840, 96, 8), expected contiguous elements along the last axis, "
     "other strides of 0 or more (4 bytes an element)", {"value": V[..., ::2]}),
    (ValueError, "key.strides is", {"key": K[:, :, ::-1]}),
    (ValueError, "key.batches is 1, expected 2, that of query", {"key": K[:1]}),
    (ValueError, "query.heads is 5, expected a multiple of key.heads = 2", {"query": Q[:, :5]}),
    (ValueError, "key.dim is 15, expected 16, that of query", {"key": K[..., :15]}),
    (ValueError, "value.tokens is 39, expected 40, that of key", {"value": V[:, :, 1:]}),
    (TypeError, "key.type is f64, expected f32, the type of query", {"key": K.astype("f8")}),
    (TypeError, "scale is 'one', expected None or a number", {"scale": "one"}),
    (ValueError, "scale is inf", {"scale": np.inf}),
    (ValueError, "softcap is -1, expected 0, or more", {"softcap": -1}),
    (ValueError, "bias.tokens is 4, expected 1 or 5", {"bias": BIAS[:, :, :4]}),
    (TypeError, "bias.type is i64", {"bias": BIAS.astype("i8")}),
    (ValueError, "alibi_slopes is of shape (1, 6), expected one axis", {"alibi_slopes": SLOPES[None]}),
    (ValueError, "sinks.size is 5, expected 6", {"sinks": SINKS[1:]}),
    (ValueError, "causal is True, expected None, \"top_left\" or \"bottom_right\"", {"causal": True}),
    (ValueError, "window_left is 2305843009213693952, expected at most 2^60", {"window_left": 2**61}),
    (TypeError, "key_lengths.type is f32", {"key_lengths": np.zeros(2, "f4")}),
    (ValueError, "key_lengths.size is 3, expected 2", {"key_lengths": np.zeros(3, "i8")}),
    (ValueError, "key_starts.size is 0, expected 3", {"query_starts": np.zeros(3, "i8")}),
    (ValueError, "query.batches is 2, expected 1, as tokens are packed",
     {"query_starts": np.zeros(3, "i8"), "key_starts": np.zeros(3, "i8")}),
    (ValueError, "most_keys is -1, expected 0 or more", {"most_keys": -1}),
    (ValueError, "key_offset is -1, expected 0 to 2^60", {"key_offset": -1}),
    (ValueError, "empty_row is 'one', expected \"nan\" or \"zero\"", {"empty_row": "one"}),
    (ValueError, "out is of shape (2, 6, 5, 16), expected (2, 6, 5, 24)", {"out": np.empty_like(Q)}),
    (TypeError, "out.type is f16, expected f32", {"out": np.empty((2, 6, 5, 24), "f2")}),
    (ValueError, "out overlaps value, expected separate memory",
     {"query": Q[:, :2], "key": K[:, :, :5], "value": V[:, :, :5], "out": V[:, :, :5]}),
    (ValueError, "stream is 1, expected None", {"stream": 1}),
]  # fmt: skip


@pytest.mark.parametrize("error, words, options", WRONG, ids=[words for _, words, _ in WRONG])
def test_what_is_refused(error, words, options):
    with pytest.raises(error, match=re.escape("attention: " + words)):
        softfold.attention(**{"query": Q, "key": K, "value": V, **options})


def test_states_that_are_refused():
    state = softfold.fold_attention(Q, K, V)
    before = [y.copy() for y in state]
    for error, words, given_ in (
        (ValueError, "states is of shape (2, 6, 5), expected (2, 6, 5, 2), a maximum and a sum for each row",
         (state[0][..., 0].copy(), state[1], *before)),
        (ValueError, "more is of shape", (*state, before[0][:1], before[1])),
        (ValueError, "weighted.dim is 23, expected 24", (state[0], state[1][..., 1:], *before)),
        (TypeError, "weighted.type is f64", (state[0], state[1].astype("f8"), *before)),
        (ValueError, "weighted is read-only", (state[0], np.broadcast_to(state[1], state[1].shape), *before)),
    ):  # fmt: skip
        with pytest.raises(error, match=re.escape("combine_attention: " + words)):
            softfold.combine_attention(*given_)
    for error, words, given_ in (
        (ValueError, "states is of shape (2, 6, 5, 24)", {"states": state[1]}),
        (TypeError, "weighted.type is f64", {"weighted": state[1].astype("f8")}),
        (TypeError, "out.type is f64", {"out_dtype": "float64"}),
        (ValueError, "empty_row is 'one'", {"empty_row": "one"}),
    ):
        with pytest.raises(error, match=re.escape("normalize_attention: " + words)):
            softfold.normalize_attention(**{"states": state[0], "weighted": state[1], **given_})
    for y, exact in zip(state, before):
        np.testing.assert_array_equal(y, exact)

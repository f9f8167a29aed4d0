# SPDX-License-Identifier: Apache-2.0
"""AttentionStates: parts of the keys that are folded apart, sent, and combined."""

import copy
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import FLOATS, assert_rounded, attention, dtype_of

import softfold
from softfold import AttentionStates

RANDOM = np.random.default_rng(11)
# [batches, heads, tokens, dim]: four heads of queries share two of keys.
Q, K, V = (
    RANDOM.normal(size=shape).astype("f4") for shape in ((2, 4, 5, 16), (2, 2, 40, 16), (2, 2, 40, 24))
)
BIAS = np.where(RANDOM.random((2, 4, 5, 40)) < 0.3, -np.inf, RANDOM.normal(size=(2, 4, 5, 40)))
SINKS = np.float32([0.5, -1.0, 2.0, 0.0])


def folded(begin=0, end=40, dtype=np.dtype("f4"), q=Q, **options):
    states = AttentionStates(2, 4, 5, 24, dtype="float64" if dtype == np.float64 else "float32")
    key, value = (x[:, :, begin:end].astype(dtype) for x in (K, V))
    if "bias" in options:
        options["bias"] = options["bias"][..., begin:end].copy()
    states.fold(q.astype(dtype), key, value, key_offset=begin, **options)
    return states


@given(st.sampled_from(FLOATS), st.lists(st.integers(0, 40), max_size=4), st.randoms())
def test_any_split_gives_the_whole_result(name, cuts, random):
    dtype = dtype_of(name)
    edges = sorted({0, 40, *cuts})
    same = {"bias": BIAS, "softcap": 3.0, "query_offset": 35, "causal": "top_left"}
    parts = [folded(a, b, dtype, **same) for a, b in zip(edges, edges[1:])]
    random.shuffle(parts)
    whole = pickle.loads(pickle.dumps(parts.pop()))
    for part in parts:
        whole.combine(AttentionStates.from_bytes(part.to_bytes()))
    assert whole.keys == ((0, 40),)
    out, lse = whole.finish(with_lse=True)
    rounded = [x.astype(dtype) for x in (Q, K, V)]
    exact, exact_lse, bound, bound_lse = attention(*rounded, **same)
    assert_rounded(out, exact, 2 * bound)
    assert_rounded(lse, exact_lse, 2 * bound_lse)


def test_what_states_say_of_themselves():
    states = folded(10, 30)
    assert (states.batches, states.heads, states.tokens, states.dim) == (2, 4, 5, 24)
    assert (states.dtype, states.keys, states.has_sinks) == ("float32", ((10, 30),), False)
    pairs, weighted = softfold.fold_attention(Q, K[:, :, 10:30], V[:, :, 10:30], key_offset=10)
    np.testing.assert_array_equal(states.states, pairs)
    np.testing.assert_array_equal(states.weighted, weighted)
    assert repr(states) == (
        "AttentionStates(batches=2, heads=4, tokens=5, dim=24, dtype='float32', "
        "keys=((10, 30),), has_sinks=False)"
    )
    assert folded(sinks=SINKS).has_sinks
    assert AttentionStates.__module__ == "softfold" and not hasattr(states, "__dict__")


@pytest.mark.parametrize("send", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_are_the_same_and_apart(send):
    states = folded(0, 20)
    sent = send(states)
    assert sent.to_bytes() == states.to_bytes()
    sent.fold(Q, K[:, :, 20:], V[:, :, 20:], key_offset=20)
    assert states.keys == ((0, 20),) and sent.keys == ((0, 40),)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", None])
def test_types_of_the_result(name):
    out = folded().finish(out_dtype=name)
    assert out.dtype == dtype_of(name or "float32") and out.shape == (2, 4, 5, 24)
    exact = folded().finish()
    np.testing.assert_array_equal(out, exact.astype(out.dtype))


def test_queries_without_keys():
    states = AttentionStates(1, 2, 3, 4)
    out, lse = states.finish(with_lse=True)
    assert (out == 0).all() and np.isneginf(lse).all()
    assert np.isnan(states.finish(empty_row="nan")).all()
    assert AttentionStates(0, 0, 0, 1).finish().shape == (0, 0, 0, 1)


def test_any_kind_of_array(kind):
    states = AttentionStates(2, 4, 5, 24)
    states.fold(*map(kind.make, (Q, K, V)), sinks=kind.make(SINKS))
    assert states.to_bytes() == folded(sinks=SINKS).to_bytes()


@pytest.mark.parametrize(
    "error, words, call",
    [
        (ValueError, "keys 10 to 19 are in both", lambda s: s.fold(Q, K[:, :, 10:], V[:, :, 10:], key_offset=10)),
        (ValueError, "keys 0 to 19 are in both", lambda s: s.combine(s)),
        (ValueError, "fold: query.heads is 2, expected 4, that of the states",
         lambda s: s.fold(Q[:, :2], K, V, key_offset=40)),
        (ValueError, "fold: value.dim is 16, expected 24", lambda s: s.fold(Q, K, K, key_offset=40)),
        (ValueError, "fold: sinks", lambda s: folded(0, 10, sinks=SINKS).fold(
            Q, K[:, :, 10:], V[:, :, 10:], key_offset=10, sinks=SINKS)),
        (ValueError, "fold: query_starts is given", lambda s: s.fold(
            Q, K, V, key_offset=40, query_starts=np.array([0, 5]), key_starts=np.array([0, 40]))),
        (TypeError, "fold: key.type is f64", lambda s: s.fold(Q, K.astype("f8"), V, key_offset=40)),
        (TypeError, "fold: query.type is f64",
         lambda s: s.fold(Q.astype("f8"), K.astype("f8"), V.astype("f8"), key_offset=40)),
        (ValueError, "combine: more.tokens is 4", lambda s: s.combine(AttentionStates(2, 4, 4, 24))),
        (ValueError, "AttentionStates: dim is 513, expected 1 to 512", lambda s: AttentionStates(1, 1, 1, 513)),
        (ValueError, "AttentionStates: heads is -1", lambda s: AttentionStates(1, -1, 1, 1)),
        (TypeError, "dtype is float8", lambda s: AttentionStates(1, 1, 1, 1, dtype="float8")),
        (ValueError, "empty_row is 'one'", lambda s: s.finish(empty_row="one")),
        (TypeError, "finish: out.type is f64", lambda s: s.finish(out_dtype="float64")),
        (ValueError, "wrong magic", lambda s: AttentionStates.from_bytes(b"nothing of the kind" * 9)),
        (ValueError, "truncated", lambda s: AttentionStates.from_bytes(b"")),
        (ValueError, "version is 1, expected 3",
         lambda s: AttentionStates.from_bytes(softfold.States(9, 1).to_bytes())),
        (ValueError, "version", lambda s: softfold.States.from_bytes(s.to_bytes())),
    ],
)  # fmt: skip
def test_what_is_refused(error, words, call):
    states = folded(0, 20)
    before = states.to_bytes()
    with pytest.raises(error, match=re.escape(words)):
        call(states)
    assert states.to_bytes() == before


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_altered_bytes_are_refused(position, change):
    bytes_ = bytearray(folded(0, 20).to_bytes())
    bytes_[position % len(bytes_)] ^= change
    with pytest.raises(ValueError):
        AttentionStates.from_bytes(bytes(bytes_))

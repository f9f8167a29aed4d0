# SPDX-License-Identifier: Apache-2.0
"""States: parts of rows that are folded apart, sent, and combined."""

import copy
import pickle
import re
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import FLOATS, assert_rounded, dtype_of, logsumexp, order, slack, softmax

import softfold
from softfold import States

X = np.random.default_rng(2).normal(size=(4, 100)).astype(np.float32)
MASK = np.random.default_rng(3).random((4, 100)) < 0.4


def folded(x, begin=0, end=None, k=5, **options):
    dtype = "float64" if x.dtype == np.float64 else "float32"
    states = States(x.shape[0], k, dtype=dtype, **options)
    states.fold(x[:, begin:end], begin)
    return states


@given(st.sampled_from(FLOATS), st.lists(st.integers(0, 100), max_size=4), st.randoms())
def test_any_split_gives_the_whole_rows(name, cuts, random):
    x = X.astype(dtype_of(name))
    edges = sorted({0, 100, *cuts})
    parts = [folded(x, a, b) for a, b in zip(edges, edges[1:])]
    random.shuffle(parts)
    whole = pickle.loads(pickle.dumps(parts.pop()))
    for part in parts:
        whole.combine(States.from_bytes(part.to_bytes()))
    assert whole.columns == ((0, 100),)
    lse, probabilities = whole.finish()
    n = slack(x.dtype, 100) + 2 * len(edges) * 2.0**-24
    np.testing.assert_array_equal(whole.indices, order(x, 5))
    np.testing.assert_array_equal(whole.values, np.take_along_axis(x, order(x, 5), -1))
    assert_rounded(lse, logsumexp(x), n * (1 + np.abs(logsumexp(x))))
    exact = np.take_along_axis(softmax(x), order(x, 5), -1)
    assert_rounded(probabilities, exact, exact * n)


@given(st.sampled_from(FLOATS), st.lists(st.integers(0, 12), max_size=4), st.randoms())
def test_reproducible_parts_between_packets_give_the_whole_rows_bits(name, packets, random):
    x = (X * 8).astype(dtype_of(name))
    edges = sorted({0, 100, *(8 * n for n in packets)})
    parts = [folded(x, a, b, scale=0.5, numerics="reproducible") for a, b in zip(edges, edges[1:])]
    random.shuffle(parts)
    whole = pickle.loads(pickle.dumps(parts.pop()))
    for part in parts:
        whole.combine(States.from_bytes(part.to_bytes()))
    assert whole.to_bytes() == folded(x, scale=0.5, numerics="reproducible").to_bytes()
    lse, probabilities = whole.finish()
    softfold.set_numerics("reproducible")
    try:
        np.testing.assert_array_equal(lse, softfold.logsumexp(x, scale=0.5, out_dtype=lse.dtype))
        chances, _ = softfold.softmax_topk(x, 5, scale=0.5, out_dtype=lse.dtype)
        np.testing.assert_array_equal(probabilities, chances)
    finally:
        softfold.set_numerics("fast")


def test_numerics_of_states():
    states = folded(X, numerics="reproducible")
    assert states.numerics == "reproducible" and states.partials is None
    assert folded(X).numerics == "fast"
    with pytest.raises(ValueError, match="numerics is fast, expected reproducible"):
        states.combine(States(4, 5))
    with pytest.raises(ValueError, match="States: numerics is 'exact', expected 'fast' or"):
        States(1, numerics="exact")


def test_what_states_say_of_themselves():
    states = folded(X, 10, 30, scale=0.5)
    assert (states.rows, states.k, states.scale, states.dtype) == (4, 5, 0.5, "float32")
    assert states.columns == ((10, 30),)
    assert states.partials.shape == (4, 2) and states.partials.dtype == np.float32
    np.testing.assert_array_equal(states.partials[:, 0], X[:, 10:30].max(1) * 0.5)
    assert repr(states) == (
        "States(rows=4, k=5, scale=0.5, dtype='float32', columns=((10, 30),))"
    )
    assert not hasattr(states, "__dict__")


@pytest.mark.parametrize("send", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_are_the_same_and_apart(send):
    states = folded(X, 0, 50)
    sent = send(states)
    assert sent.to_bytes() == states.to_bytes()
    sent.fold(X[:, 50:], 50)
    assert states.columns == ((0, 50),) and sent.columns == ((0, 100),)


def test_rows_are_appended():
    above, below = folded(X[:1]), folded(X[1:])
    above.append_rows(below)
    assert above.to_bytes() == folded(X).to_bytes()
    twice = folded(X)
    twice.append_rows(twice)
    assert twice.rows == 8


def test_empty_states():
    states = States(3, 2)
    lse, probabilities = states.finish(empty_row="zero")
    assert np.isneginf(lse).all() and (probabilities == 0).all()
    assert (states.indices == -1).all() and np.isneginf(states.values).all()
    assert States(0, 0).finish()[1].shape == (0, 0)


def test_any_kind_of_array(kind):
    states = States(4, 5)
    states.fold(kind.make(X))
    assert states.to_bytes() == folded(X).to_bytes()


@pytest.mark.parametrize(
    "edits",
    [
        lambda part, begin: {"mask": MASK[part]},
        lambda part, begin: {"bias": np.where(MASK, X[::-1], np.float32(-np.inf))[part]},
        lambda part, begin: {"lengths": np.array([30, 0, 100, 70]) - begin},
        lambda part, begin: {"softcap": 2.0, "mask": MASK[0, part[1]].copy()},
        lambda part, begin: {
            "penalties": (np.array([0, 1, 1, 3, 3]), np.array([10, 3, 60]) - begin, np.ones(3, "i4")),
            "presence": np.array([0.5, 0.0, 1.5, 0.0]),
        },
    ],
    ids=["mask", "bias", "lengths", "softcap", "penalties"],
)
def test_edited_parts(kind, edits):
    """Parts with their edits are the whole rows with theirs."""
    whole = States(4, 5)
    for begin, end in ((50, 100), (0, 50)):
        part = np.s_[:, begin:end]
        given = {
            name: tuple(map(kind.make, e)) if isinstance(e, tuple) else
            e if isinstance(e, float) else kind.make(e.copy())
            for name, e in edits(part, begin).items()
        }  # fmt: skip
        whole.fold(kind.make(X[part].copy()), begin, **given)
    given = edits(np.s_[:, 0:100], 0)
    lse, probabilities = whole.finish(empty_row="zero")
    np.testing.assert_allclose(lse, softfold.logsumexp(X, **given), rtol=1e-6, atol=1e-6)
    values, columns = softfold.topk(X, 5, **given)
    np.testing.assert_array_equal(whole.values, values)
    np.testing.assert_array_equal(whole.indices, np.where(np.isneginf(values), -1, columns))
    expected, _ = softfold.softmax_topk(X, 5, empty_row="zero", **given)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-5, atol=1e-7)


def test_edits_that_are_refused():
    states = folded(X, 0, 50)
    before = states.to_bytes()
    for error, words, given in (
        (ValueError, "fold: mask is of shape (4, 100), expected (4, 50)", {"mask": MASK}),
        (TypeError, "fold: lengths.type is f64", {"lengths": np.zeros(4)}),
        (ValueError, "fold: window is 2, expected 0 without a causal corner", {"window": 2}),
        (ValueError, "fold: x.rows is 3, expected 4", {"x": X[:3, 50:]}),
    ):
        with pytest.raises(error, match=re.escape(words)):
            states.fold(**{"x": X[:, 50:], "column_offset": 50, **given})
    assert states.to_bytes() == before


@pytest.mark.parametrize(
    "words, call",
    [
        ("rows", lambda: folded(X).fold(X[:2], 100)),
        ("columns 0 to 99 are in both", lambda: folded(X).fold(X, 0)),
        ("column", lambda: folded(X).combine(folded(X))),
        ("scale", lambda: folded(X, 0, 50).combine(folded(X, 50, scale=2.0))),
        ("k", lambda: folded(X, 0, 50).combine(folded(X, 50, k=4))),
        ("column_offset is -1", lambda: States(4).fold(X, -1)),
        ("rows is -1", lambda: States(-1)),
        ("k is -2", lambda: States(1, -2)),
        ("empty_row is 'one'", lambda: States(1).finish(empty_row="one")),
        ("wrong magic", lambda: States.from_bytes(b"nothing of the kind")),
        ("truncated", lambda: States.from_bytes(folded(X).to_bytes()[:-1])),
        ("these are no states", lambda: States.from_bytes(b"")),
    ],
)
def test_what_is_refused(words, call):
    with pytest.raises(ValueError, match=re.escape(words)):
        call()


def test_types_that_are_refused():
    with pytest.raises(TypeError, match="dtype is float8"):
        States(1, dtype="float8")
    with pytest.raises(TypeError, match="f16"):
        States(1, dtype="float16")
    with pytest.raises(TypeError, match="f64"):
        States(4).fold(X.astype("f8"))


def test_a_failure_leaves_states_as_they_were():
    states = folded(X, 0, 50)
    before = states.to_bytes()
    with pytest.raises(ValueError):
        states.fold(X[:, 20:60], 20)
    with pytest.raises(ValueError):
        states.combine(states)
    assert states.to_bytes() == before


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_altered_bytes_are_refused(position, change):
    bytes_ = bytearray(folded(X).to_bytes())
    bytes_[position % len(bytes_)] ^= change
    with pytest.raises(ValueError):
        States.from_bytes(bytes(bytes_))


def test_the_format_is_the_documents():
    bytes_ = folded(X).to_bytes()
    assert bytes_[:8] == b"\x89SFS\r\n\x1a\n"
    assert int.from_bytes(bytes_[-4:], "little") == zlib.crc32(bytes_[:-4])


def test_methods_without_columns_of_their_own():
    assert softfold.States is States and States.__module__ == "softfold"


# ---- sampling ----


@given(
    st.sampled_from(FLOATS),
    st.lists(st.integers(0, 100), max_size=4),
    st.randoms(),
    st.sampled_from([
        {}, {"temperature": 0.7, "seed": 2**64 - 1, "offset": 2**40}, {"temperature": 0},
        {"top_k": 9}, {"top_k": 20, "top_p": 0.8, "min_p": 0.01, "seed": 5},
    ]),
)  # fmt: skip
def test_tokens_are_those_of_the_whole_rows(name, cuts, random, how):
    x = X.astype(dtype_of(name))
    edges = sorted({0, 100, *cuts})
    parts = [folded(x, a, b, k=20, sampling=how) for a, b in zip(edges, edges[1:])]
    random.shuffle(parts)
    whole = pickle.loads(pickle.dumps(parts.pop()))
    for part in parts:
        whole.combine(part)
    wanted = {"with_log_probability": True, "with_raw_log_probability": True, "with_lse": True}
    found = whole.finish_sample(**wanted, with_kept=True)
    options = {**how, "offset": how.get("offset", 0) + np.arange(4)}
    wide = {"out_dtype": "float64" if name == "float64" else "float32"}
    tokens, log_p, raw, lse, kept, mass = softfold.sample(x, **options, **wide, **wanted, with_kept=True)
    expected = tokens[:, 0], log_p[:, 0], raw[:, 0], lse, kept, mass
    assert len(found) == 6 and found[0].dtype == found[4].dtype == np.int64
    for i in (0, 4):
        np.testing.assert_array_equal(found[i], expected[i])
    for i in (1, 2, 3, 5):
        np.testing.assert_allclose(found[i], expected[i], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(whole.finish_sample(), expected[0])


def test_rows_with_seeds_of_their_own():
    whole, one = (
        States(rows, sampling={"seed": seed, "offset": 3, "draw": 1}) for rows, seed in ((2, 1), (2, 9))
    )
    whole.append_rows(one)
    whole.fold(X, mask=MASK)
    expected = softfold.sample(
        X, mask=MASK, seed=np.array([1, 1, 9, 9]), offset=np.array([3, 4, 3, 4]), draws=2
    )
    np.testing.assert_array_equal(whole.finish_sample(), expected[:, 1])


@pytest.mark.parametrize(
    "error, words, call",
    [
        (TypeError, "States: sampling is 1, expected None or a dict of temperature, top_k",
         lambda: States(1, sampling=1)),
        (ValueError, "States: a key of sampling is 'heat', expected temperature, top_k, top_p",
         lambda: States(1, sampling={"heat": 1})),
        (TypeError, "States: sampling['top_p'] is 'all', expected a number",
         lambda: States(1, sampling={"top_p": "all"})),
        (ValueError, "States: sampling['seed'] is -1, expected an integer from 0 to 2^64 - 1",
         lambda: States(1, sampling={"seed": -1})),
        (ValueError, "States: temperature is -1, expected 0, or a finite number",
         lambda: States(1, sampling={"temperature": -1})),
        (ValueError, "States: k is 2, expected", lambda: States(1, 2, sampling={"top_k": 3})),
        (ValueError, "top_p is 0.5", lambda: States(1, 2, sampling={"top_p": 0.5})),
        (ValueError, "sampling is", lambda: folded(X, 0, 50, sampling={}).combine(folded(X, 50))),
        (ValueError, "row 0 has seed 1",
         lambda: folded(X, 0, 50, sampling={}).combine(folded(X, 50, sampling={"seed": 1}))),
        (ValueError, "finish_sample: these are states without sampling", lambda: folded(X).finish_sample()),
    ],
)  # fmt: skip
def test_sampling_that_is_refused(error, words, call):
    with pytest.raises(error, match=re.escape(words)):
        call()

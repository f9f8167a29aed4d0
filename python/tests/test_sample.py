# SPDX-License-Identifier: Apache-2.0
"""sample and verify beside docs/sampling.md in NumPy and integers: the same tokens."""

import re

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    FLOATS,
    dtype_of,
    filtered,
    log_softmax,
    logsumexp,
    order,
    philox,
    sample,
    softmax,
    verify,
)

import softfold

X = np.random.default_rng(5).normal(size=(2, 3, 20)).astype(np.float32) * 2
BITS = st.integers(0, 2**64 - 1)


def test_the_references_philox_is_philox():
    """By the known answers of its authors' Random123."""
    ones = 0xFFFFFFFF
    assert philox((0,) * 4, (0,) * 2, 10) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox((ones,) * 4, (ones,) * 2, 10) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


@given(
    st.sampled_from(FLOATS),
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 7, 8, 9, 40]),
    BITS,
    BITS,
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from([0, 1, 3, 100]),
    st.sampled_from([1.0, 0.0, 0.77]),
    st.sampled_from([0.0, 0.013, 1.0]),
    st.booleans(),
)
def test_tokens(name, content, columns, seed, offset, temperature, top_k, top_p, min_p, joint):
    x = np.random.default_rng(content).normal(size=columns).astype(dtype_of(name))
    # The quotient is the row's element times the inverse that the library rounds.
    inverse = 1 / temperature if name == "float64" else float(np.float32(1 / temperature))
    filters = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "joint": joint}
    tokens, drawn, raw = sample(x, seed, offset, 4, temperature=1 / np.longdouble(inverse), **filters)
    found, log_p, raw_log_p, lse, kept, mass = softfold.sample(
        x, temperature=temperature, seed=seed, offset=offset, draws=4, **filters,
        with_log_probability=True, with_raw_log_probability=True, with_lse=True, with_kept=True,
        out_dtype="float64" if name == "float64" else "float32",
    )  # fmt: skip
    np.testing.assert_array_equal(found, tokens)
    tolerance = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(log_p, drawn.astype(float), **tolerance)
    np.testing.assert_allclose(raw_log_p, raw.astype(float), **tolerance)
    np.testing.assert_allclose(lse, float(logsumexp(x)), **tolerance)
    keeps, z = filtered(x, 1 / np.longdouble(inverse), **filters)
    assert kept == keeps.sum()
    np.testing.assert_allclose(mass, float(softmax(z)[keeps].sum()), **tolerance)


def test_what_top_p_counts():
    x = np.log([0.4, 0.3, 0.2, 0.1])
    for joint, expected in ((False, 1), (True, 2)):  # 0.4 of 0.7, or of 1
        _, kept, mass = softfold.sample(x, top_k=2, top_p=0.5, joint=joint, with_kept=True)
        assert kept == expected == filtered(x, top_k=2, top_p=0.5, joint=joint)[0].sum()
        assert abs(mass - (0.4, 0.7)[expected - 1]) < 1e-12


def test_rows_may_differ_in_one_parameter():
    """Each alone, so that none hides another."""
    for name, values in {
        "temperature": [0.0, 3.0],
        "top_k": [1, 0],
        "top_p": [0.0, 1.0],
        "min_p": [1.0, 0.0],
        "seed": [1, 2],
        "offset": [1, 2],
    }.items():
        found = softfold.sample(X[0, [0, 0]], draws=50, **{name: np.array(values)})
        for tokens, value in zip(found, values):
            np.testing.assert_array_equal(
                tokens, softfold.sample(X[0, 0], draws=50, **{name: value})
            )
        assert (found[0] != found[1]).any()


def test_draws_follow_the_softmax():
    tokens = softfold.sample(X[0, 0], draws=20000, seed=3)
    expected = softmax(X[0, 0]).astype(float) * 20000
    assert expected.min() > 5
    assert scipy.stats.chisquare(np.bincount(tokens, minlength=20), expected).pvalue > 1e-4


def test_rows_have_their_own_parameters():
    given_ = {
        "temperature": np.array([[0.5, 1.0, 2.0], [0.0, 1.0, 1.0]]),
        "top_k": np.array([[1, 2, 3], [4, 5, 0]], np.int32),
        "top_p": np.array([[0.5, 0.9, 1.0], [1.0, 0.3, 1.0]], np.float32),
        "min_p": np.array([[0.0, 0.1, 0.0], [0.2, 0.0, 0.0]]),
        "seed": np.array([[1, 2, 3], [-1, 5, 6]]),
        "offset": np.array([[0, 1, 2], [3, 2**40, -5]]),
    }
    tokens = softfold.sample(X, draws=5, **given_)
    assert tokens.shape == (2, 3, 5) and tokens.dtype == np.int64
    for row in np.ndindex(2, 3):
        alone = {name: values[row].item() for name, values in given_.items()}
        alone["seed"] %= 2**64
        alone["offset"] %= 2**64
        np.testing.assert_array_equal(tokens[row], softfold.sample(X[row], draws=5, **alone))
    out_of_range = np.array([[1.0, -1.0, np.nan], [1.0, 1.0, 1.0]])
    tokens = softfold.sample(X, temperature=out_of_range)
    np.testing.assert_array_equal(tokens[..., 0] < 0, [[False, True, True], [False] * 3])


def test_numbers_of_numpy_are_numbers():
    np.testing.assert_array_equal(
        softfold.sample(X, temperature=np.float32(0.5), top_k=np.int64(4), seed=np.uint64(2**63)),
        softfold.sample(X, temperature=0.5, top_k=4, seed=2**63),
    )


def test_the_likeliest():
    tokens, columns, log_p = softfold.sample(X, temperature=0, with_top=4, index_dtype="int32")
    assert tokens.dtype == columns.dtype == np.int32
    np.testing.assert_array_equal(tokens[..., 0], X.argmax(-1))
    np.testing.assert_array_equal(columns, order(X, 4))
    expected = np.take_along_axis(log_softmax(X), order(X, 4), -1).astype(float)
    np.testing.assert_allclose(log_p, expected, rtol=1e-6, atol=1e-6)


def test_rows_without_a_token():
    inf, nan = np.inf, np.nan
    x = np.array([[0, nan, 1], [-inf, -inf, -inf], [0, inf, inf]])
    tokens, log_p = softfold.sample(x, with_log_probability=True)
    np.testing.assert_array_equal(tokens[:, 0], [-1, -1, 1])
    np.testing.assert_array_equal(log_p[:, 0], [nan, -inf, nan])
    assert softfold.sample(x, draws=0).shape == (3, 0)


def test_edits():
    kept = X < 0
    tokens, raw = softfold.sample(X, mask=kept, draws=50, with_raw_log_probability=True)
    assert np.take_along_axis(kept, tokens, -1).all()
    masked = log_softmax(np.where(kept, X, -np.inf).astype(np.float32))
    np.testing.assert_allclose(
        raw, np.take_along_axis(masked, tokens, -1).astype(float), rtol=1e-6, atol=1e-6
    )
    assert (softfold.sample(X, lengths=np.zeros((2, 3), int)) == -1).all()


def test_any_kind_of_array(kind):
    seeds = np.arange(6).reshape(2, 3)
    expected = softfold.sample(X, seed=seeds, draws=3, with_log_probability=True)
    found = softfold.sample(kind.make(X), seed=kind.make(seeds), draws=3, with_log_probability=True)
    for y, exact in zip(found, expected):
        assert type(y) is type(kind.make(X))
        np.testing.assert_array_equal(kind.back(y), exact)
    out = np.empty((2, 3, 3), np.int32)
    assert softfold.sample(X, seed=seeds, draws=3, out=out) is out
    np.testing.assert_array_equal(out, expected[0])


WRONG = [
    (ValueError, "temperature is -1, expected 0, or a finite number above it", {"temperature": -1}),
    (ValueError, "temperature is nan", {"temperature": np.nan}),
    (TypeError, "temperature is 'hot', expected a number, or an array with one for each row",
     {"temperature": "hot"}),
    (ValueError, "temperature is of shape (3,), expected (2, 3), one for each row of x",
     {"temperature": np.ones(3)}),
    (TypeError, "temperature.type is f16, expected f32 or f64", {"temperature": np.ones((2, 3), "f2")}),
    (ValueError, "top_k is -1, expected 0 or more", {"top_k": -1}),
    (TypeError, "top_k is 1.5, expected an integer of 0 or more", {"top_k": 1.5}),
    (TypeError, "top_k.type is f64, expected i32 or i64", {"top_k": np.ones((2, 3))}),
    (ValueError, "top_p is 2, expected 0 to 1", {"top_p": 2}),
    (ValueError, "min_p is -0.5, expected 0 to 1", {"min_p": -0.5}),
    (ValueError, "seed is -1, expected an integer from 0 to 2^64 - 1", {"seed": -1}),
    (ValueError, "seed is 18446744073709551616", {"seed": 2**64}),
    (TypeError, "seed.type is i32, expected i64", {"seed": np.ones((2, 3), np.int32)}),
    (TypeError, "offset.dtype is uint64, expected int32 or int64", {"offset": np.ones((2, 3), "u8")}),
    (ValueError, "draws is -1, expected 0 or more", {"draws": -1}),
    (ValueError, "out.cols (draws) is 2097153, expected at most 2^21", {"draws": 2**21 + 1}),
    (ValueError, "with_top is 21, expected 0 to 20, the columns of x", {"with_top": 21}),
    (TypeError, "out.type is f32, expected i32 or i64", {"index_dtype": "float32"}),
    (ValueError, "out is of shape (2, 3), expected (2, 3, 1)", {"out": np.zeros((2, 3), int)}),
    (ValueError, "window is 1", {"window": 1}),
]  # fmt: skip


@pytest.mark.parametrize("error, words, options", WRONG, ids=[words for _, words, _ in WRONG])
def test_what_is_refused(error, words, options):
    with pytest.raises(error, match=re.escape("sample: " + words)):
        softfold.sample(X, **options)


# ---- verify ----

CHAINS, DRAFTS, COLUMNS = 3, 4, 12
TARGET = np.random.default_rng(6).normal(size=(CHAINS, DRAFTS + 1, COLUMNS)) * 2
OFFSETS = np.arange(CHAINS * (DRAFTS + 1)).reshape(CHAINS, DRAFTS + 1) * 2**31
PLACES = np.s_[:, :DRAFTS]


def first_part(tokens, accepted):
    """Drafts, the target's token, -1."""
    return np.where(np.arange(DRAFTS + 1) <= accepted[:, None], tokens, -1)


@given(st.sampled_from(FLOATS), BITS, st.sampled_from([{}, {"top_k": 3}, {"temperature": 0}]))
def test_coupled_drafts(name, seed, filters):
    target = TARGET.astype(dtype_of(name))
    drawn = softfold.sample(target, seed=seed, offset=OFFSETS, **filters)[..., 0]
    drafts = drawn[PLACES].copy()
    drafts[1, 2] = (drafts[1, 2] + 1) % COLUMNS
    drafts[2, 0] = -1
    tokens, accepted = softfold.verify(target, drafts, seed=seed, offset=OFFSETS, **filters)
    np.testing.assert_array_equal(accepted, [DRAFTS, 2, 0])
    np.testing.assert_array_equal(tokens, first_part(drawn, accepted))


@given(
    st.integers(0, 2**32), BITS, st.sampled_from([0.1, 1.0, 3.0]),
    st.sampled_from([
        {}, {"top_k": 3}, {"top_p": 0.8, "temperature": 2}, {"min_p": 0.1, "top_k": 5},
        {"top_k": 3, "top_p": 0.7, "joint": True},
    ]),
)  # fmt: skip
def test_drafts_by_ratio(content, seed, far, filters):
    random = np.random.default_rng(content)
    draft = TARGET[PLACES] + far * random.normal(size=(CHAINS, DRAFTS, COLUMNS))
    drafts = softfold.sample(draft, seed=1, offset=OFFSETS[PLACES].copy(), **filters)[..., 0]
    drafts[2, 3] = COLUMNS
    tokens, accepted = softfold.verify(TARGET, drafts, draft, seed=seed, offset=OFFSETS, **filters)
    for chain in range(CHAINS):
        offsets = OFFSETS[chain].tolist()
        expected = verify(TARGET[chain], drafts[chain], draft[chain], seed, offsets, **filters)
        assert accepted[chain] == len(expected) - 1
        assert tokens[chain].tolist() == expected + [-1] * (DRAFTS + 1 - len(expected))


def test_chains_of_any_shape_and_kind(kind):
    draft = np.ascontiguousarray(TARGET[PLACES])
    drafts = softfold.sample(draft, seed=1, offset=OFFSETS[PLACES].copy())[..., 0]
    options = {"offset": OFFSETS, "temperature": np.full((CHAINS, DRAFTS + 1), 0.5)}
    kept = TARGET > -1
    expected = softfold.verify(TARGET, drafts, draft, **options)
    masked = softfold.verify(TARGET, drafts, mask=kept, **options)
    given_ = {name: kind.make(array) for name, array in options.items()}
    found = softfold.verify(*map(kind.make, (TARGET, drafts, draft)), **given_)
    found += softfold.verify(kind.make(TARGET), kind.make(drafts), mask=kind.make(kept), **given_)
    for y, exact in zip(found, expected + masked):
        assert type(y) is type(kind.make(TARGET))
        np.testing.assert_array_equal(kind.back(y), exact)
    drawn = softfold.sample(TARGET, mask=kept, **options)[..., 0]
    np.testing.assert_array_equal(masked[0], first_part(drawn, masked[1]))
    alone = softfold.verify(TARGET[0], drafts[0], index_dtype="int32", offset=OFFSETS[0])
    assert alone[0].shape == (DRAFTS + 1,) and alone[1].shape == () and alone[0].dtype == np.int32
    none = softfold.verify(TARGET[:, :1], drafts[:, :0], seed=3)
    np.testing.assert_array_equal(none[0], softfold.sample(TARGET[:, :1], seed=3)[..., 0])


@pytest.mark.parametrize(
    "error, words, options",
    [
        (ValueError, "target is of shape (12,), expected [..., drafts + 1, columns]",
         {"target": TARGET[0, 0]}),
        (ValueError, "draft_tokens is of shape (3, 5), expected (3, 4), a place fewer than target has",
         {"draft_tokens": OFFSETS}),
        (TypeError, "draft_tokens.type is f64, expected i32 or i64", {"draft_tokens": np.zeros((3, 4))}),
        (ValueError, "draft is of shape (3, 5, 12), expected (3, 4, 12)", {"draft": TARGET}),
        (TypeError, "draft.type is f32, expected f64", {"draft": TARGET[PLACES].astype("f4")}),
        (ValueError, "edits is given, expected nothing beside the draft's logits",
         {"draft": np.ascontiguousarray(TARGET[PLACES]), "softcap": 3.0}),
        (ValueError, "offset is of shape (3,), expected (3, 5), one for each row of target",
         {"offset": np.arange(3)}),
        (ValueError, "temperature is -1", {"temperature": -1}),
        (ValueError, "seed is -1, expected an integer from 0 to 2^64 - 1", {"seed": -1}),
        (TypeError, "index_dtype is float8", {"index_dtype": "float8"}),
    ],
)  # fmt: skip
def test_chains_that_are_refused(error, words, options):
    given_ = {"target": TARGET, "draft_tokens": np.zeros((3, 4), int), **options}
    with pytest.raises(error, match=re.escape("verify: " + words)):
        softfold.verify(**given_)

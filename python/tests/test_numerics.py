# SPDX-License-Identifier: Apache-2.0
"""set_numerics(): calls that follow have the bits of docs/numerics.md, version 1."""

import hashlib

import numpy as np
import pytest
import softfold

# Of the bytes of results, as the first release had them.
SOFTMAX = "5c84ffd3361b25fd8534b6c13882f94164e4445670ba80c06aaa0f0d07e10712"
LOGSUMEXP = "57b2aad2328db5ed176286ae1bfcc605f2acd01cea68a822d27e51dde6963cce"


@pytest.fixture
def reproducible():
    softfold.set_numerics("reproducible")
    yield
    softfold.set_numerics("fast")


def rows():
    # Exact in any arithmetic: no library's random numbers.
    i = np.arange(6 * 1777, dtype=np.int64)
    return ((i * i * 7919 % 4093) / 256 - 8).astype(np.float32).reshape(6, 1777)


def test_the_defined_bits(reproducible):
    x = rows()
    y = softfold.softmax(x)
    assert hashlib.sha256(y.tobytes()).hexdigest() == SOFTMAX
    lse = softfold.logsumexp(x)
    assert hashlib.sha256(lse.tobytes()).hexdigest() == LOGSUMEXP
    for threads in (1, 3):
        softfold.set_threads(threads)
        np.testing.assert_array_equal(softfold.softmax(x), y)
        np.testing.assert_array_equal(softfold.softmax(x[2]), y[2])
    softfold.set_threads(0)


def test_names_are_checked():
    with pytest.raises(ValueError, match="numerics is 'exact', expected 'fast' or"):
        softfold.set_numerics("exact")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows whose columns lie in several processes. Each folds its own columns into states of a few
numbers a row; these are pickled, sent, and added up to the states of the whole rows.

    examples/python/sharded_rows.py
"""

import multiprocessing

import numpy as np

import softfold

ROWS, COLUMNS, PARTS, K = 64, 40_000, 4, 5
PART = COLUMNS // PARTS


def logits_of_part(part):
    """What only this process has: here made up, elsewhere a file or a shard of a model."""
    return np.random.default_rng(part).normal(size=(ROWS, PART)).astype(np.float32)


def fold_part(part):
    states = softfold.States(ROWS, K)
    states.fold(logits_of_part(part), column_offset=part * PART)
    return states


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        arriving = pool.imap_unordered(fold_part, range(PARTS))
        whole = next(arriving)
        for states in arriving:  # in any order
            whole.combine(states)
    lse, probabilities = whole.finish()

    everything = np.concatenate([logits_of_part(part) for part in range(PARTS)], axis=1)
    expected, columns = softfold.softmax_topk(everything, K)
    assert (whole.indices == columns).all()
    assert np.allclose(probabilities, expected, rtol=1e-5)
    assert np.allclose(lse, softfold.logsumexp(everything), rtol=1e-6)
    print(f"{PARTS} parts, {len(whole.to_bytes())} bytes of states for {everything.nbytes} of logits")
    print("row 0: columns", *whole.indices[0], "with", *probabilities[0].round(5))

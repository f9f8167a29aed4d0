# SPDX-License-Identifier: Apache-2.0
"""Threads, forks, memory, and what importing brings along."""

import gc
import resource
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import softfold

BIG = np.random.default_rng(3).normal(size=(64, 20_000)).astype(np.float32)


def run(program, seconds=60, **options):
    """A program of its own, which has to end well."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_many_threads_at_once():
    inputs = [BIG[i % 8 :: 8, : 100 * (i + 1)].copy() for i in range(16)]
    expected = [softfold.softmax_topk(x, 3) for x in inputs]
    failures = []
    together = threading.Barrier(len(inputs))

    def work(x, right):
        together.wait()
        for _ in range(50):
            found = softfold.softmax_topk(x, 3)
            if any(not np.array_equal(a, b) for a, b in zip(found, right)):
                failures.append(x.shape)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_states_of_many_threads():
    states = softfold.States(64, 3)

    def fold(i):
        states.fold(BIG[:, i * 1000 : (i + 1) * 1000], i * 1000)

    threads = [threading.Thread(target=fold, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states.columns == ((0, 20_000),)
    np.testing.assert_array_equal(states.indices, softfold.topk(BIG, 3)[1])


def test_other_threads_run_meanwhile():
    ticks = 0
    stop = threading.Event()

    def tick():
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.0005)

    x = np.tile(BIG, (8, 1))
    out = np.empty_like(x)
    thread = threading.Thread(target=tick)
    thread.start()
    try:
        softfold.softmax(x, out=out)
        started = ticks
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.5:
            # A single call after another, with no line of Python between where the GIL would go over.
            for _ in map(softfold.logsumexp, [x] * 20):
                pass
        seen = ticks - started
    finally:
        stop.set()
        thread.join()
    # With the GIL held a tick is one of sys.getswitchinterval() = 5 ms at the most: 100 in 0.5 s.
    assert seen > 130


def test_a_forked_child_computes():
    run(
        """
        import os, numpy, softfold
        x = numpy.random.default_rng(1).normal(size=(64, 20000)).astype("float32")
        expected = softfold.softmax(x)
        for _ in range(5):
            child = os.fork()
            if child == 0:
                right = numpy.array_equal(softfold.softmax(x), expected)
                os._exit(0 if right and softfold.info()["threads"] == 1 else 1)
            assert os.waitpid(child, 0)[1] == 0
        assert numpy.array_equal(softfold.softmax(x), expected)
        """
    )


def test_a_child_that_computes_first_has_all_threads():
    run(
        """
        import os, softfold
        softfold.set_threads(3)
        child = os.fork()
        if child == 0:
            os._exit(0 if softfold.info()["threads"] == 3 else 1)
        assert os.waitpid(child, 0)[1] == 0
        """
    )


def test_set_threads():
    before = softfold.info()["threads"]
    expected = softfold.softmax(BIG)
    for threads in (1, 3):
        softfold.set_threads(threads)
        assert softfold.info()["threads"] == threads
        np.testing.assert_array_equal(softfold.softmax(BIG), expected)
    softfold.set_threads(0)
    assert softfold.info()["threads"] == before
    with pytest.raises(ValueError, match="threads is -1"):
        softfold.set_threads(-1)


def _calls():
    x = BIG[:2, :50].copy()
    y = np.empty_like(x)
    strided = BIG[:2, :100:2]
    states = softfold.States(2, 3)
    states.fold(x)
    bytes_ = states.to_bytes()
    attention = softfold.AttentionStates(1, 1, 2, 50)
    attention.fold(x, x, x)
    attention_bytes = attention.to_bytes()

    def fails(call, *arguments, **options):
        with pytest.raises((TypeError, ValueError)):
            call(*arguments, **options)

    return (x, y, strided, states, bytes_, attention, attention_bytes), {
        "softmax": lambda: softfold.softmax(x),
        "out": lambda: softfold.softmax(x, out=y),
        "logsumexp": lambda: softfold.logsumexp(x),
        "softmax_topk": lambda: softfold.softmax_topk(x, 2, with_logits=True, with_lse=True),
        "backward": lambda: softfold.softmax_backward(x, x),
        "copy": lambda: softfold.softmax(x, 0, copy=True),
        "states": lambda: softfold.States.from_bytes(bytes_).finish(),
        "bytes": lambda: states.to_bytes(),
        "states of attention": lambda: softfold.AttentionStates.from_bytes(attention_bytes).finish(),
        "strides": lambda: fails(softfold.softmax, strided),
        "no array": lambda: fails(softfold.softmax, [1.0]),
        "scale": lambda: fails(softfold.softmax, x, scale=np.inf),
        "out of another shape": lambda: fails(softfold.softmax, x, out=y[:1]),
        "no states": lambda: fails(softfold.States.from_bytes, b"x"),
    }


@pytest.mark.parametrize("name", list(_calls()[1]))
def test_nothing_is_leaked(name):
    arrays, calls = _calls()
    call = calls[name]
    watched = (*arrays, arrays[0].dtype, None, np.ndarray, softfold.softmax, "nan", "float32")

    def repeat(times):
        for _ in range(times):
            call()
        gc.collect()

    repeat(200)
    counts = [sys.getrefcount(o) for o in watched]
    blocks = sys.getallocatedblocks()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    repeat(2000)
    assert max(abs(b - a) for a, b in zip(counts, [sys.getrefcount(o) for o in watched])) < 50
    assert sys.getallocatedblocks() - blocks < 500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 2048  # KiB


def test_arrays_of_other_kinds_are_let_go(kind):
    x = kind.make(BIG[:4].copy())
    out = softfold.softmax(x)
    before = sys.getrefcount(x)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(300):  # 96 MB of results
        out = softfold.softmax(x)
    del out
    gc.collect()
    assert sys.getrefcount(x) == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 30_000


def test_results_live_on_without_their_inputs(kind):
    made = [softfold.softmax(kind.make(BIG[i : i + 1].copy())) for i in range(8)]
    gc.collect()
    np.testing.assert_array_equal(
        np.concatenate([kind.back(y) for y in made]), softfold.softmax(BIG[:8])
    )


def test_importing_brings_nothing_along():
    run(
        """
        import sys, softfold
        for name in ("numpy", "torch", "jax", "scipy", "ml_dtypes"):
            assert name not in sys.modules, name
        softfold.States(2, 1).to_bytes()
        assert "numpy" not in sys.modules
        """
    )


def test_ending_with_threads_at_work():
    # The first call imports NumPy's functions by Python code, in which Python itself ends a thread.
    run(
        """
        import threading, numpy, softfold
        x = numpy.ones((64, 20000), "float32")
        softfold.softmax(x)
        def work():
            while True:
                softfold.softmax(x)
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        for _ in range(3):
            softfold.softmax(x)
        """
    )

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the Python package: what a call costs above the C call that it makes, and whole calls beside
NumPy's, SciPy's, torch's and JAX's, where these can be imported.

    bench/python.py [--threads N] [--out RESULT.md]

Medians of rounds in which the contenders take turns; where the result is new memory, it is for all.
"""

import argparse
import functools
import importlib
import os
import statistics
import sys
import time

import numpy as np

import softfold


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def seconds(call, least):
    """The time of one call, from as many as take `least` seconds."""
    times, taken = 1, 0.0
    while taken < least:
        times = max(2 * times, int(times * 1.2 * least / taken) if taken else 1)
        begin = time.perf_counter()
        for _ in range(times):
            call()
        taken = time.perf_counter() - begin
    return taken / times


def medians(calls, rounds, least):
    """name -> median over rounds, each of which times every call once."""
    found = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(seconds(call, least))
    return {name: statistics.median(times) for name, times in found.items()}


def overhead(rounds, torch):
    """Lines of a table: what is around the C call, on one row of 8 and on 16 of 64."""
    for rows, cols in ((1, 8), (16, 64)):
        x = np.random.default_rng(0).normal(size=(rows, cols)).astype(np.float32)
        y = np.empty_like(x)
        calls = {
            "nothing": lambda: x,
            "NumPy": lambda: softfold.softmax(x),
            "NumPy, out=": lambda: softfold.softmax(x, out=y),
        }
        if torch:
            import softfold.torch as for_torch

            t, u = torch.from_numpy(x), torch.from_numpy(y)
            calls |= {
                "torch": lambda: softfold.softmax(t),
                "torch, out=": lambda: softfold.softmax(t, out=u),
                "softfold.torch": lambda: for_torch.softmax(t),
                "torch.softmax itself": lambda: torch.softmax(t, -1),
            }
        found = medians(calls, rounds, 0.05)
        in_c = statistics.median(
            softfold._softfold._seconds_of_c_call(x, y, 100_000) for _ in range(rounds)
        )
        for name in list(calls)[1:]:
            call = found[name] - found["nothing"]
            yield f"| {rows} x {cols} | {name} | {call * 1e9:.0f} | {(call - in_c) * 1e9:.0f} |"


CASES = [
    ("softmax", "float32", 4096, 1000),
    ("softmax", "float32", 64, 50_000),
    ("softmax", "bfloat16", 64, 50_000),
    ("log_softmax", "float32", 4096, 1000),
    ("logsumexp", "float32", 64, 50_000),
    ("softmax_topk", "float32", 64, 50_000),
    ("softmax_topk", "float32", 4096, 1000),
]
K = 8


def whole_calls(function, dtype, rows, cols, torch, scipy, jax):
    """name -> call. softfold's is on the array that its nearest peer has."""
    x = np.random.default_rng(0).normal(size=(rows, cols)).astype(np.float32)
    calls = {}
    if torch:
        t = torch.from_numpy(x).to(getattr(torch, dtype))
        calls["torch"] = {
            "softmax": lambda: torch.softmax(t, -1),
            "log_softmax": lambda: torch.log_softmax(t, -1),
            "logsumexp": lambda: torch.logsumexp(t, -1),
            "softmax_topk": lambda: torch.topk(torch.softmax(t, -1), K),
        }[function]
    arguments = (t if torch else x, *((K,) if function == "softmax_topk" else ()))
    calls["softfold"] = functools.partial(getattr(softfold, function), *arguments)
    if dtype == "float32" and hasattr(scipy, function):
        calls["scipy"] = functools.partial(getattr(scipy, function), x, axis=-1)
    if dtype == "float32" and jax:
        j = jax.numpy.asarray(x)
        compiled = jax.jit(
            {
                "softmax": jax.nn.softmax,
                "log_softmax": jax.nn.log_softmax,
                "logsumexp": lambda x: jax.nn.logsumexp(x, axis=-1),
                "softmax_topk": lambda x: jax.lax.top_k(jax.nn.softmax(x), K),
            }[function]
        )
        calls["jax"] = lambda: jax.block_until_ready(compiled(j))
    return calls


def whole(rounds, *modules):
    for case in CASES:
        found = medians(whole_calls(*case, *modules), rounds, 0.1)
        function, dtype, rows, cols = case
        name = f"{function}, k = {K}" if function == "softmax_topk" else function
        peers = [
            f"{found[p] * 1e6:.0f} ({found[p] / found['softfold']:.1f}x)" if p in found else ""
            for p in ("torch", "scipy", "jax")
        ]
        yield f"| {name} | {dtype} | {rows} x {cols} | {found['softfold'] * 1e6:.0f} | " + " | ".join(
            peers
        ) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", help="a file for the tables")
    options = parser.parse_args()
    threads = options.threads or len(os.sched_getaffinity(0))
    torch, scipy, jax = optional("torch"), optional("scipy.special"), optional("jax")
    softfold.set_threads(threads)
    if torch:
        torch.set_num_threads(threads)
    about = softfold.info()
    versions = [f"Python {sys.version.split()[0]}", f"numpy {np.__version__}"]
    versions += [f"{m.__name__} {m.__version__}" for m in (torch, jax) if m]
    if scipy:
        versions.append(f"scipy {importlib.import_module('scipy').__version__}")
    lines = [
        f"{about['device']}, {about['isa']}, {threads} threads; {', '.join(versions)}; "
        f"medians of {options.rounds} rounds.",
        "",
        "What a call of `softmax` costs on small arrays, and how much of it is not the C call:",
        "",
        "| shape | call | ns | above the C call, ns |",
        "| --- | --- | --- | --- |",
        *overhead(options.rounds, torch),
        "",
        "Whole calls, in microseconds, results in new memory; in brackets how many times softfold's:",
        "",
        "| function | type | shape | softfold | torch | scipy | jax.jit |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *whole(options.rounds, torch, scipy, jax),
    ]
    print(*lines, sep="\n")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as out:
            print("# Python package\n", *lines, sep="\n", file=out)


main()

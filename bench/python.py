#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the Python package: what a call costs above the C call that it makes, and whole calls beside
NumPy's, SciPy's, torch's and JAX's, where these can be imported.

    bench/python.py [--threads N] [--clock cpu] [--device cuda] [--markdown RESULT.md] [--json RESULT.json]
    bench/python.py --from RESULT.json --svg PLOT.svg
    bench/python.py --overhead [--from RESULT.json]    the first table alone, again; the rest is the file's

Medians of rounds in which the contenders take turns; where the result is new memory, it is for all. On
a CUDA device calls follow each other on a stream, and the time is that of all of them until the device
is done. --clock cpu counts the process' processor time, which other work on the machine changes little;
for one thread: taskset -c 0 bench/python.py --clock cpu.
"""

import argparse
import functools
import importlib
import json
import math
import os
import statistics
import sys
import time

import numpy as np
import plot

import softfold


clock = time.perf_counter


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def seconds(call, least, finish=lambda: None):
    """The time of one call, from as many as take `least` seconds."""
    times, taken = 1, 0.0
    while taken < least:
        times = max(2 * times, int(times * 1.2 * least / taken) if taken else 1)
        begin = clock()
        for _ in range(times):
            call()
        finish()
        taken = clock() - begin
    return taken / times


def medians(calls, rounds, least, finish=lambda: None):
    """name -> median over rounds, each of which times every call once."""
    found = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(seconds(call, least, finish))
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
        many = functools.partial(softfold._softfold._c_calls, x, y, 10_000)
        in_c = medians({"C": many}, rounds, 0.02)["C"] / 10_000
        for name in list(calls)[1:]:
            call = found[name] - found["nothing"]
            yield f"| {rows} x {cols} | {name} | {call * 1e9:.0f} | {(call - in_c) * 1e9:.0f} |"


CASES = {
    "cpu": [
        ("softmax", "float32", 4096, 1000),
        ("softmax", "float32", 64, 50_000),
        ("softmax", "bfloat16", 64, 50_000),
        ("log_softmax", "float32", 4096, 1000),
        ("logsumexp", "float32", 64, 50_000),
        ("logcumsumexp", "float32", 64, 50_000),
        ("softmax_topk", "float32", 64, 50_000),
        ("softmax_topk", "float32", 4096, 1000),
        ("sample", "float32", 64, 50_000),
    ],
    "cuda": [
        ("softmax", "float32", 16_384, 4096),
        ("softmax", "bfloat16", 16_384, 4096),
        ("softmax", "bfloat16", 1024, 128_256),
        ("log_softmax", "float32", 1024, 128_256),
        ("logsumexp", "bfloat16", 1024, 128_256),
        ("logcumsumexp", "float32", 1024, 128_256),
        ("softmax_topk", "float32", 4000, 25_000),
        ("sample", "float32", 64, 128_256),
    ],
}
K = 8
NAMES = {"softmax_topk": f"softmax + top-{K}", "sample": "sample, top-p 0.9"}
OPTIONS = {"softmax_topk": {"k": K}, "sample": {"top_p": 0.9}}
PEERS = ("torch", "scipy", "jax")


def sample_by_sorting(torch, x):
    """What programs do with torch's own functions."""
    p, columns = torch.softmax(x, -1).sort(-1, descending=True)
    p = torch.where(p.cumsum(-1) - p < 0.9, p, 0)
    return columns.gather(-1, torch.multinomial(p, 1))


def whole_calls(case, device, torch, scipy, jax):
    """name -> call. softfold's is on the array that its nearest peer has."""
    function, dtype, rows, cols = case
    x = np.random.default_rng(0).normal(size=(rows, cols)).astype(np.float32)
    calls = {}
    if torch:
        t = torch.from_numpy(x).to(device, getattr(torch, dtype))
        calls["torch"] = {
            "softmax": lambda: torch.softmax(t, -1),
            "log_softmax": lambda: torch.log_softmax(t, -1),
            "logsumexp": lambda: torch.logsumexp(t, -1),
            "logcumsumexp": lambda: torch.logcumsumexp(t, -1),
            "softmax_topk": lambda: torch.topk(torch.softmax(t, -1), K),
            "sample": lambda: sample_by_sorting(torch, t),
        }[function]
    calls["softfold"] = functools.partial(
        getattr(softfold, function), t if torch else x, **OPTIONS.get(function, {})
    )
    if device == "cpu" and dtype == "float32" and hasattr(scipy, function):
        calls["scipy"] = functools.partial(getattr(scipy, function), x, axis=-1)
    if dtype == "float32" and jax and function != "sample":
        j = jax.numpy.asarray(x)
        compiled = jax.jit(
            {
                "softmax": jax.nn.softmax,
                "log_softmax": jax.nn.log_softmax,
                "logsumexp": lambda x: jax.nn.logsumexp(x, axis=-1),
                "logcumsumexp": lambda x: jax.lax.cumlogsumexp(x, axis=1),
                "softmax_topk": lambda x: jax.lax.top_k(jax.nn.softmax(x), K),
            }[function]
        )
        if device == "cuda":
            calls["jax"] = lambda: compiled(j)
            compiled(j)
        else:
            calls["jax"] = lambda: jax.block_until_ready(compiled(j))
    return calls


def whole(rounds, device, torch, *modules):
    """A dict for each case, with the seconds of each contender."""
    finish = torch.cuda.synchronize if device == "cuda" else lambda: None
    for case in CASES[device]:
        calls = whole_calls(case, device, torch, *modules)
        found = medians(calls, rounds, 0.1, finish)
        yield dict(zip(("function", "dtype", "rows", "cols"), case)) | {"seconds": found}


def in_words(case):
    shape = f"{case['rows']} x {case['cols']}"
    return NAMES.get(case["function"], case["function"]), case["dtype"], shape


def line_of(case):
    found = case["seconds"]
    peers = [
        f"{found[p] * 1e6:.0f} ({found[p] / found['softfold']:.1f}x)" if p in found else ""
        for p in PEERS
    ]
    return f"| {' | '.join(in_words(case))} | {found['softfold'] * 1e6:.0f} | {' | '.join(peers)} |"


# ---- the plot ----

COLOURS = {"torch": "#c27c0e", "scipy": "#9a8c7c", "jax": "#3b82f6"}
LABELS = {"torch": "torch", "scipy": "SciPy", "jax": "jax.jit"}
LEFT, WIDTH, RIGHT, BAR, GAP, TOP = 236, 300, 64, 12, 10, 44


def drawn(cases, about):
    """Bars: how many times softfold's time a peer takes, on a logarithmic axis from 1."""
    factors = [case["seconds"][p] / case["seconds"]["softfold"] for case in cases for p in PEERS
               if p in case["seconds"]]  # fmt: skip
    ticks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    ticks = [t for t in ticks if t <= 2.5 * max(factors)]

    def across(factor):
        return LEFT + max(math.log(factor), 0) / math.log(max(*factors, ticks[-1])) * WIDTH

    out, y = [], TOP
    for case in cases:
        function, dtype, shape = in_words(case)
        peers = [p for p in PEERS if p in case["seconds"]]
        spare = max(0, 26 - BAR * len(peers)) / 2  # two lines of text are 26 high
        middle = y + spare + BAR * len(peers) / 2
        out.append(plot._text(LEFT - 8, middle - 1, f"{function}, {dtype}", "end"))
        out.append(plot._text(LEFT - 8, middle + 12, shape.replace("x", "×"), "end"))
        y += spare
        for peer in peers:
            factor = case["seconds"][peer] / case["seconds"]["softfold"]
            right = across(factor)
            out.append(f'<rect x="{LEFT}" y="{y:.1f}" width="{right - LEFT:.1f}" height="{BAR - 2}" '
                       f'fill="{COLOURS[peer]}"/>')  # fmt: skip
            out.append(plot._text(right + 4, y + BAR - 3, f"{factor:.1f}"))
            y += BAR
        y += spare + GAP
    grid = [plot._line(across(t), TOP - 6, across(t), y, 0.3) for t in ticks]
    grid += [plot._text(across(t), y + 14, str(t), "middle") for t in ticks]
    legend, x = [plot._text(8, 16, "Time of others, in times of softfold's", weight="bold")], 300
    for peer in PEERS:
        if any(peer in case["seconds"] for case in cases):
            legend.append(f'<rect x="{x}" y="8" width="10" height="10" fill="{COLOURS[peer]}"/>')
            legend.append(plot._text(x + 14, 17, LABELS[peer]))
            x += 30 + 8 * len(LABELS[peer])
    legend.append(plot._text(8, y + 34, about))
    size = f"{LEFT + WIDTH + RIGHT} {y + 44:.0f}"
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
         'font-family="sans-serif" font-size="11">', *grid, *out, *legend, "</svg>\n"]
    )  # fmt: skip


def measured(options):
    global clock
    clock = {"wall": time.perf_counter, "cpu": time.process_time}[options.clock]
    device = options.device
    threads = options.threads or len(os.sched_getaffinity(0))
    torch, scipy, jax = optional("torch"), optional("scipy.special"), optional("jax")
    softfold.set_threads(threads)
    if torch:
        torch.set_num_threads(threads)
    about = softfold.info(device)
    versions = [f"Python {sys.version.split()[0]}", f"numpy {np.__version__}"]
    versions += [f"{m.__name__} {m.__version__}" for m in (torch, jax) if m]
    if scipy:
        versions.append(f"scipy {importlib.import_module('scipy').__version__}")
    on = f"{about['device']}, {about['isa']}"
    if device == "cpu":
        on += f", {threads} thread{'s' * (threads > 1)}"
    if options.clock == "cpu":
        on += ", processor time"
    return {
        "machine": on,
        "versions": versions,
        "rounds": options.rounds,
        "overhead": list(overhead(options.rounds, torch)) if device == "cpu" else [],
        "cases": [] if options.overhead else list(whole(options.rounds, device, torch, scipy, jax)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--from", dest="given", help="a file that --json wrote: measures nothing")
    parser.add_argument("--overhead", action="store_true", help="only what is around the C call")
    for kind, text in (("json", "all results"), ("markdown", "tables"), ("svg", "a plot")):
        parser.add_argument(f"--{kind}", help=f"a file for {text}")
    options = parser.parse_args()
    found = {}
    if options.given:
        with open(options.given, encoding="utf-8") as given:
            found = json.load(given)
    if options.overhead or not found:
        measured_now = measured(options)
        if found and found["machine"] != measured_now["machine"]:
            sys.exit(f"{options.given} is of {found['machine']}, this is {measured_now['machine']}")
        found = {**measured_now, **found, "overhead": measured_now["overhead"]}
    about = f"{found['machine']}; {', '.join(found['versions'])}"
    lines = [f"{about}; medians of {found['rounds']} rounds.", ""]
    if found["overhead"]:
        lines += [
            "What a call of `softmax` costs on small arrays, and how much of it is not the C call:",
            "",
            "| shape | call | ns | above the C call, ns |",
            "| --- | --- | --- | --- |",
            *found["overhead"],
            "",
        ]
    lines += [
        "Whole calls, in microseconds, results in new memory; in brackets how many times softfold's:",
        "",
        "| function | type | shape | softfold | torch | scipy | jax.jit |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *map(line_of, found["cases"]),
    ]
    print(*lines, sep="\n")
    written = {
        "json": lambda: json.dumps(found, indent=1) + "\n",
        "markdown": lambda: "\n".join(["# Python package", "", *lines, ""]),
        "svg": lambda: drawn(found["cases"], found["machine"]),
    }
    for kind, text in written.items():
        if path := getattr(options, kind):
            with open(path, "w", encoding="utf-8") as out:
                out.write(text())


main()

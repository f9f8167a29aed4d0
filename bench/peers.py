#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times ONNX Runtime, OpenVINO, PyTorch and llama.cpp's samplers beside the library, where Python can
import them, on cases of softfold_bench.

    peers.py --like RESULT.json --threads N --out PEERS.json [--peers REGEX] [--filter REGEX]

The cases are those of a result of softfold_bench with N threads (all its element types and
inputs that NumPy can make). All take turns, the library by its Python package, each in a process of
its own, which is stopped while another one has its turn. What a peer refuses, and one whose process
ends or does not answer in a quarter of an hour, is left out of the case, and said. bench/report.py takes both files together.
"""

import argparse
import importlib.util
import json
import math
import mmap
import os
import platform
import re
import statistics
import sys

import results
from worker import Absent, Failed, Gone, Worker

SUBJECT = "softfold"
# name -> the package to install
PACKAGES = {SUBJECT: "softfold", "onnxruntime": "onnxruntime", "openvino": "openvino", "pytorch": "torch",
            "llama_cpp": "llama-cpp-python"}
CALLS = "peers_calls"
NORMAL_PERIOD = 1000003


def said(text):
    print(text, file=sys.stderr, flush=True)


class Inputs:
    """The elements of cases, in one file in memory that all workers read. Those of a type and a standard
    deviation are made once, for their largest case; others take the first of them."""

    def __init__(self, cases):
        self.file = os.memfd_create("elements")
        self._held, self._most = None, {}
        for case in cases:
            kind = self._kind(case)
            self._most[kind] = max(self._most.get(kind, 0), case["rows"] * case["cols"])

    @staticmethod
    def _kind(case):
        return case["dtype"], 1 if case["operation"] == "attention" else 2

    def hold(self, case):
        """Bytes of the case's elements; they are in the file."""
        kind = self._kind(case)
        size = results.ELEMENT_BYTES[case["dtype"]]
        if kind != self._held:
            self._make(*kind, self._most[kind], size)
            self._held = kind
        return case["rows"] * case["cols"] * size

    def _make(self, dtype, deviation, count, size):
        """As softfold_bench makes its normal ones."""
        import numpy as np  # what main() has found

        os.ftruncate(self.file, 0)  # the memory of those before
        os.ftruncate(self.file, max(count, 1) * size)
        values = np.random.default_rng(1).standard_normal(NORMAL_PERIOD, dtype=np.float32)
        values *= np.float32(deviation)
        if dtype == "bf16":  # to nearest, ties to even
            bits = values.view(np.uint32)
            values = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        else:
            values = values.astype({"f32": "float32", "f64": "float64", "f16": "float16"}[dtype])
        with mmap.mmap(self.file, 0) as memory:
            elements = np.frombuffer(memory, values.dtype)
            for begin in range(0, count, NORMAL_PERIOD):
                part = elements[begin:begin + NORMAL_PERIOD]
                part[:] = values[:part.size]
            del elements, part  # or the memory could not be let go


class Contenders:
    """The workers, by name, the library's first. One whose process ended is started again for the next
    case."""

    def __init__(self, names, calls, memory):
        self._calls, self._memory = calls, memory
        self._workers, self.versions, self.absent = {}, {}, {}
        for name in names:
            try:
                self._start(name)
            except Absent as error:
                self.absent[name] = f"the Python package {PACKAGES.get(name)} is not installed: {error}"
            except Failed as error:
                self.absent[name] = str(error)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self._workers.values():
            worker.end()

    @property
    def names(self):
        return list(self.versions)

    def _start(self, name):
        self._workers[name] = Worker(self._calls, name, self._memory)
        self.versions[name] = self._workers[name].version

    def ask(self, name, request, **arguments):
        if name not in self._workers:
            self._start(name)
        try:
            return self._workers[name].ask(request, **arguments)
        except Gone:
            self._workers.pop(name).end()
            raise

    def drop(self):
        for name in list(self._workers):
            try:
                self.ask(name, "drop")
            except Gone:
                pass  # what it was asked before says so


def agree(case, answer, expected):
    """Whether two answers are the same, within what softfold_bench allows."""
    if case["operation"] in results.DRAWS:  # no two libraries draw the same
        return all(0 <= column < case["cols"] for column in answer)
    part = 1e-2 if case["operation"] == "attention" else 0
    least = max([1e-6, *(part * abs(b) for b in expected)])
    return len(answer) == len(expected) and all(
        math.isfinite(a) and abs(a - b) <= least + 0.02 * abs(b) for a, b in zip(answer, expected))


class Turns:
    """One case: who does it, and the seconds of their calls. A peer that fails is left out, and said;
    without the library there is nothing to compare with, so it raises Failed."""

    def __init__(self, case, contenders, settings, threads):
        self._case, self._contenders, self._settings = case, contenders, settings
        self._threads = threads
        self.counts, self.seconds, self.shares = {}, {}, {}

    def _ask(self, name, request, **arguments):
        """None if it failed."""
        try:
            return self._contenders.ask(name, request, **arguments)
        except Failed as error:
            if name == SUBJECT:
                raise
            self._leave_out(name, str(error))
            return None

    def _leave_out(self, name, why):
        said(f"{results.Case(self._case).label}: without {name}: {why}")
        self.counts.pop(name, None)

    def prepare(self, length):
        expected = None
        for name in self._contenders.names:
            prepared = self._ask(name, "prepare", case=self._case, threads=self._threads, length=length)
            if prepared is None:
                continue
            once, answer = prepared
            if not agree(self._case, answer, answer if expected is None else expected):
                self._leave_out(name, "its answer is another one")
                continue
            expected = answer if expected is None else expected
            self.counts[name] = max(1, int(self._settings["min_time"] / max(once, 1e-9)))

    def take(self):
        """Rounds of a timing each, which begin with another one than the round before."""
        self.seconds, self.shares = {n: [] for n in self.counts}, {n: [] for n in self.counts}
        order, spent = list(self.counts), dict.fromkeys(self.counts, 0.0)
        for _ in range(self._settings["rounds"]):
            for name in order:
                enough = len(self.seconds[name]) >= self._settings["fewest_rounds"]
                if name not in self.counts or enough and spent[name] > self._settings["budget"]:
                    continue
                taken = self._ask(name, "time", count=self.counts[name])
                if taken is None:
                    continue
                wall, cpu = taken
                self.seconds[name].append(wall / self.counts[name])
                self.shares[name].append(cpu / wall)
                spent[name] += wall
            order = order[1:] + order[:1]

    def measured(self):
        """Of each that took all its turns."""
        return [{"name": name, "role": "subject" if name == SUBJECT else "peer",
                 "seconds": statistics.median(self.seconds[name]),
                 "lowest": min(self.seconds[name]), "highest": max(self.seconds[name]),
                 "rounds": len(self.seconds[name]), "calls": calls,
                 "own_share": statistics.median(self.shares[name])}
                for name, calls in self.counts.items()]


def time_case(case, length, contenders, settings, threads):
    turns = Turns(case, contenders, settings, threads)
    try:
        turns.prepare(length)
        turns.take()
    finally:
        contenders.drop()
    measured = turns.measured()
    suspect = threads == 1 and any(r["own_share"] < 0.95 for r in measured)
    return {**{k: v for k, v in case.items() if k not in ("results", "others")},
            "loaded": suspect, "results": measured}


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--like", required=True, help="a result of softfold_bench")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", required=True)
    parser.add_argument("--peers", default="", metavar="REGEX", help="only those whose name has a match")
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="only cases whose group or words, as they are printed, have a match")
    return parser.parse_args()


def cases_like(like, threads, pattern):
    return [c for c in like["cases"] if c["threads"] == threads and c["input"] == "normal"
            and re.search(pattern, f"{c['group']}: {results.Case(c).label}")]


def main():
    arguments = options()
    if not importlib.util.find_spec("numpy"):
        print("without all: the Python package numpy is not installed")
        return
    with open(arguments.like, encoding="utf-8") as file:
        like = json.load(file)
    cases = cases_like(like, arguments.threads, arguments.filter)
    inputs, timed = Inputs(cases), []
    names = [n for n in PACKAGES if n == SUBJECT or re.search(arguments.peers, n)]
    load = os.getloadavg()[0]
    with Contenders(names, CALLS, inputs.file) as contenders:
        for name, why in contenders.absent.items():
            print(f"without {name}: {why}")
        if not contenders.names:
            print("nothing to time")
            return
        for case in cases:
            try:
                timed.append(time_case(case, inputs.hold(case), contenders, like["settings"],
                                       arguments.threads))
            except Failed as error:
                said(f"{results.Case(case).label}: left out: {SUBJECT}: {error}")
                continue
            done = results.Case(timed[-1])
            rates = [f"{name} {done.rate(name):.3f}" for name in done.results]
            print(f"{done.group}: {done.label}, {done.unit}: {', '.join(rates)}", flush=True)
        versions = contenders.versions
    document = {
        "format": 1, "program": "peers.py",
        "machine": {"system": platform.platform(), "python": platform.python_version(),
                    "processors": len(os.sched_getaffinity(0)), "load_average": load},
        "settings": like["settings"],
        "contenders": [{"name": n, "version": versions[n]} if n in versions
                       else {"name": n, "absent": PACKAGES[n]} for n in names if n != SUBJECT],
        "cases": timed,
    }
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=None)
        file.write("\n")


if __name__ == "__main__":
    main()

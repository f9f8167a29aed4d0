#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the Python peers of a GPU result: PyTorch, torch.compile, Triton, quack and FlashInfer, and in
attention PyTorch's scaled_dot_product_attention by FlashAttention and by cuDNN.

    peers_gpu.py --into RESULT.json [--seconds N] [--peers REGEX]

RESULT.json is what softfold_bench wrote on this device; the peers' times are added to its cases of
normal input, in the place of those that the same peers have there. Calls are timed as softfold_bench
does it: events around each call, after reading four times the size of the L2 cache, or more, so that the
device has not done with that when the host has launched the call; the median over rounds. The library
takes turns with the peers, by its Python package, if that is installed. What does not fit into the
seconds, and what a peer refuses, is left out, and said.
"""

import argparse
import contextlib
import functools
import json
import math
import re
import statistics
import sys
import time
import warnings

import peers_gpu_calls as peers
import results
from peers_gpu_calls import ATTENTION_PEERS, CONTENDERS, SELF, TURNS, WIDE_ATTENTION_PEERS, softfold, torch

NORMAL_PERIOD = 1000003
MOST_CALLS = 100  # in one timing
MOST_READS = 64  # before a call


class Clock:
    """Times calls on the device."""

    def __init__(self, settings, flush_bytes):
        self.settings = settings
        self.flush = torch.zeros(flush_bytes // 4, device="cuda")
        nothing = [self.once(self.read, 1) for _ in range(5)]
        self.read_seconds = statistics.median(nothing)

    def read(self):
        torch.amax(self.flush)

    def once(self, call, reads):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(reads):
            self.read()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def reads(self, call):
        """For twice as long as the host takes to launch the call: nothing of that is in its time."""
        seconds = []
        for _ in range(4):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
        return max(1, min(MOST_READS, math.ceil(2 * min(seconds) / self.read_seconds)))

    def done(self, seconds, calls):
        return len(seconds) >= self.settings["rounds"] or (
            len(seconds) >= self.settings["fewest_rounds"]
            and sum(seconds) * calls > self.settings["budget"])

    def turns(self, contenders):
        """name -> seconds of a call in each round, calls in a round; contenders: name -> call, what it
        is called within."""
        reads, calls, seconds = {}, {}, {name: [] for name in contenders}
        for name, (call, within) in contenders.items():
            with within():
                reads[name] = self.reads(call)
                once = self.once(call, reads[name])
                calls[name] = max(1, min(MOST_CALLS, int(self.settings["min_time"] / once)))
        order = list(contenders)
        while left := [n for n in order if not self.done(seconds[n], calls[n])]:
            for name in left:
                call, within = contenders[name]
                with within():
                    seconds[name].append(statistics.fmean(
                        self.once(call, reads[name]) for _ in range(calls[name])))
            order = order[1:] + order[:1]
        return {name: (seconds[name], calls[name]) for name in contenders}


class Inputs:
    """Normal elements, made once for each type, and again for attention; a case takes the first ones."""

    TYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}

    def __init__(self, cases):
        self.most = {}
        for case in cases:
            count = case["rows"] * case["cols"]
            self.most[self.kind(case)] = max(count, self.most.get(self.kind(case), 0))
        self.held, self.held_kind = None, None

    @staticmethod
    def kind(case):
        """The type and the standard deviation."""
        return case["dtype"], 1 if case["operation"] == "attention" else 2

    def get(self, case):
        dtype, deviation = kind = self.kind(case)
        if kind != self.held_kind:
            self.held = None  # its memory first
            generator = torch.Generator(device="cuda").manual_seed(1)
            period = deviation * torch.randn(NORMAL_PERIOD, device="cuda", generator=generator)
            repeats = -(-self.most[kind] // NORMAL_PERIOD)
            self.held = period.to(getattr(torch, self.TYPES[dtype])).repeat(repeats)
            self.held_kind = kind
        return self.held[:case["rows"] * case["cols"]].view(case["rows"], case["cols"])


def said(name, case, error):
    lines = str(error).strip().splitlines() or [type(error).__name__]
    print(f"{name}, {results.Case(case).label}: {lines[0]}", file=sys.stderr)


def prepared(case, names, x):
    """name -> call, of those that do the case; the library first, if one of them does."""
    calls, expected = {}, None
    for name in (SELF, *names):
        call = None
        try:
            if name != SELF:
                call = CONTENDERS[name].call(case, x)
            elif softfold:
                call = peers.softfold_call(case, x)
            if call is None:
                continue
            answer = peers.comparable(case, call())
        except Exception as error:  # types of their own: no such kernel, no memory for it
            said(name, case, error)
            continue
        exact = name == SELF or not CONTENDERS[name].differs(case)
        if exact and not peers.agree(case, answer, expected):
            said(name, case, "another answer than the first contender's: not timed")
            continue
        expected = answer if exact and expected is None else expected
        calls[name] = call, contextlib.nullcontext
    return calls if calls.keys() - {SELF} else {}


def add_results(case, timed):
    """The peers', each with what the library took beside it."""
    own = timed.pop(SELF, None)
    beside = {"beside": statistics.median(own[0])} if own else {}
    if own and not any(r["name"] == SELF for r in case["results"]):  # of the turns before
        add_result(case, SELF, peers.SELF_ROLE, *own)
    for name, (seconds, calls) in timed.items():
        differs = name in CONTENDERS and CONTENDERS[name].differs(case)
        add_result(case, name, "peer", seconds, calls, **beside,
                   **({"differs": differs} if differs else {}))


def add_result(case, name, role, seconds, calls, **more):
    case["results"].append({
        "name": name, "role": role, "seconds": statistics.median(seconds), "lowest": min(seconds),
        "highest": max(seconds), "rounds": len(seconds), "calls": calls, **more})
    done = results.Case(case)
    print(f"{done.label}: {name} {statistics.median(seconds) * 1e6:.1f} us, "
          f"{done.rate(name):.1f} {done.unit}", flush=True)


def attention_calls(case, x):
    """name -> (call, what it is called within), of those that do not refuse."""
    tensors = results.attention_inputs(case, x)
    a, calls, answers = case["attention"], {}, {}
    if softfold:
        causal = "bottom_right" if a["causal"] else None
        calls[SELF] = (functools.partial(softfold.attention, *tensors, causal=causal),
                       contextlib.nullcontext)
    sdpa = functools.partial(torch.nn.functional.scaled_dot_product_attention, *tensors,
                             is_causal=a["causal"], enable_gqa=a["heads"] != a["key_heads"])
    wide = case["dtype"] in ("f32", "f64")
    for name, backend in (WIDE_ATTENTION_PEERS if wide else ATTENTION_PEERS).items():
        calls[name] = sdpa, functools.partial(peers.attention.sdpa_kernel,
                                              getattr(peers.attention.SDPBackend, backend))
    for name, (call, within) in list(calls.items()):
        with warnings.catch_warnings(record=True) as reasons, within():
            warnings.simplefilter("always")  # PyTorch gives the reasons as warnings
            try:
                answers[name] = call()
            except Exception as error:  # the package's own, too: it may know no CUDA
                lines = [str(w.message).split(" (Triggered")[0] for w in reasons] or [str(error)]
                print(f"{name}, {results.Case(case).label}: {' '.join(lines)}", file=sys.stderr)
                del calls[name]
    # As softfold_bench does: contenders give the same answer, for some of the rows.
    some = [answer[-1, :, -1].float() for answer in answers.values()]
    for other in some[1:]:
        torch.testing.assert_close(other, some[0], rtol=0.02, atol=0.02 * float(some[0].abs().max()))
    return calls if calls.keys() - {SELF} else {}


def time_cases(cases, calls_of, inputs, clock, deadline):
    """Adds the results of a turn; returns how many cases it did not get to."""
    for at, case in enumerate(cases):
        if time.monotonic() > deadline:
            return len(cases) - at
        contenders = calls_of(case, inputs.get(case))
        if not contenders:
            continue
        try:
            timed = clock.turns(contenders)
        except RuntimeError as error:  # no memory for one more of them
            said(", ".join(contenders), case, error)
            continue
        add_results(case, timed)
    return 0


def time_all(cases, names, clock, seconds, heads):
    """Adds the results of the peers that are there, and to heads what the result's head says of each."""
    inputs = Inputs(cases)
    spent = 0.0

    def turns(titles, chosen, calls_of):
        nonlocal spent
        begin = time.monotonic()
        left = time_cases(chosen, calls_of, inputs, clock, begin + seconds - spent)
        spent += time.monotonic() - begin
        if left:
            print(f"{', '.join(titles)}: out of time, {left} cases left out (--seconds)")

    # The peers have no packed sequences.
    attention = [c for c in cases if c["operation"] == "attention" and "sequences" not in c["attention"]]
    others = [c for c in cases if c["operation"] != "attention"]
    sdpa = [n for n in (*ATTENTION_PEERS, *WIDE_ATTENTION_PEERS) if n in names]
    if attention and sdpa:
        turns(["attention"], attention, lambda case, x: {
            n: c for n, c in attention_calls(case, x).items() if n in (SELF, *sdpa)})
        heads += [{"name": n, "role": "peer", "version": torch.__version__} for n in sdpa]
    for turn in TURNS:
        present = []
        for name in (n for n in turn if n in names):
            absent = reason_without(name)
            if absent:
                print(f"without {name}: {absent}")
                heads.append({"name": name, "role": "peer", "absent": CONTENDERS[name].package})
            else:
                present.append(name)
                heads.append({"name": name, "role": "peer", "version": CONTENDERS[name].version})
        if present:
            turns(present, others, lambda case, x: prepared(case, present, x))


def reason_without(name):
    """Why a contender takes no part, or None."""
    one = CONTENDERS[name]
    if not one.version:
        return f"the Python package {one.package} is not installed"
    try:
        one.prepare()
    except Exception as error:  # it needs a compiler, a newer device, ...
        return str(error).strip().splitlines()[-1]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", required=True, help="a result of softfold_bench on this GPU")
    parser.add_argument("--seconds", type=float, default=300, help="of timing, all together")
    parser.add_argument("--peers", default="", help="a regular expression: only those with a match")
    arguments = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print("without the Python peers: no PyTorch that sees a GPU")
        return
    if not softfold:
        print("without the Python package softfold: the Python peers are compared with the time that "
              "softfold_bench took")
    names = [n for n in (*CONTENDERS, *ATTENTION_PEERS, *WIDE_ATTENTION_PEERS)
             if re.search(arguments.peers, n)]
    with open(arguments.into, encoding="utf-8") as file:
        document = json.load(file)
    # By type: the elements of one are held at a time. A sweep has the most cases, and so comes last.
    cases = sorted((c for c in document["cases"] if c["input"] == "normal"),
                   key=lambda c: (c["group"] == "sweep", Inputs.kind(c)))
    for case in cases:  # of an earlier time
        case["results"] = [r for r in case["results"] if r["name"] not in (*names, SELF)]
    clock = Clock(document["settings"], document["machine"]["flush_bytes"])
    heads = []
    try:
        with torch.inference_mode():
            time_all(cases, names, clock, arguments.seconds, heads)
    finally:  # what was timed until then
        document["contenders"] = [c for c in document["contenders"] if c["name"] not in names] + heads
        results.write(arguments.into, document)


if __name__ == "__main__":
    main()

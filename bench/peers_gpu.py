#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch, torch.compile and a one-block Triton kernel on the cases of a GPU result; on those
of attention PyTorch's scaled_dot_product_attention by FlashAttention and by cuDNN.

    peers_gpu.py --into RESULT.json [--seconds N]

RESULT.json is what softfold_bench wrote on this device; the peers' times are added to its cases
of normal input. Calls are timed as softfold_bench does it: events around each call, after reading
four times the size of the L2 cache; the median over rounds. In attention the library takes turns
with them, by its Python package, if that is installed. What does not fit into the seconds, and what
a back end refuses, is left out, and said.
"""

import argparse
import contextlib
import functools
import json
import statistics
import sys
import time
import warnings

import results

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    torch = None
try:
    import softfold
except ImportError:
    softfold = None
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

NORMAL_PERIOD = 1000003
LONGEST_TRITON_ROW = 131072  # in the registers of one block
COMPILED_COLUMNS = (128, 512, 1024, 4096, 16384, 25000, 50257, 128256, 524288)
MOST_CALLS = 100  # in one timing

if triton:
    @triton.jit
    def softmax_rows(x, y, cols, block: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        column = tl.arange(0, block)
        inside = column < cols
        value = tl.load(x + row * cols + column, mask=inside, other=-float("inf")).to(tl.float32)
        power = tl.exp(value - tl.max(value, 0))
        probability = power / tl.sum(power, 0)
        tl.store(y + row * cols + column, probability.to(y.dtype.element_ty), mask=inside)


class Clock:
    """Times calls on the device."""

    def __init__(self, settings, flush_bytes):
        self.settings = settings
        self.flush = torch.zeros(flush_bytes // 4, device="cuda")

    def once(self, call):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.amax(self.flush)  # reads it
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def calls(self, call):
        """How many there are in a round."""
        call()
        return max(1, min(MOST_CALLS, int(self.settings["min_time"] / self.once(call))))

    def done(self, seconds, calls):
        return len(seconds) >= self.settings["rounds"] or (
            len(seconds) >= self.settings["fewest_rounds"]
            and sum(seconds) * calls > self.settings["budget"])

    def round(self, call, calls):
        """Mean seconds of a call."""
        return statistics.fmean(self.once(call) for _ in range(calls))

    def rounds(self, call):
        """Mean seconds of a call in each round, and the calls in a round."""
        calls, seconds = self.calls(call), []
        while not self.done(seconds, calls):
            seconds.append(self.round(call, calls))
        return seconds, calls


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


def pytorch_call(case, x):
    operation, k = case["operation"], case["k"]
    if operation in ("softmax", "log_softmax"):
        function = torch.softmax if operation == "softmax" else torch.log_softmax
        y = torch.empty_like(x)
        return lambda: function(x, -1, out=y)
    return {
        "logsumexp": lambda: torch.logsumexp(x, -1),
        "topk": lambda: torch.topk(x, k),
        "softmax_topk": lambda: torch.topk(torch.softmax(x, -1, dtype=torch.float32), k),
    }.get(operation)


def compile_call(case, x):
    operation, k = case["operation"], case["k"]
    if case["group"] == "sweep" and (case["cols"] not in COMPILED_COLUMNS
                                     or case["dtype"] == "f16"):
        return None
    functions = {
        "softmax": lambda x: torch.softmax(x, -1),
        "log_softmax": lambda x: torch.log_softmax(x, -1),
        "logsumexp": lambda x: torch.logsumexp(x, -1),
        "softmax_topk": lambda x: torch.topk(torch.softmax(x, -1, dtype=torch.float32), k),
    }
    if operation not in functions or (operation == "softmax_topk" and k != 5):
        return None
    torch._dynamo.reset()  # one graph for each shape, none for any
    compiled = torch.compile(functions[operation], dynamic=False)
    return lambda: compiled(x)


def triton_call(case, x):
    rows, cols = x.shape
    if case["operation"] != "softmax" or cols > LONGEST_TRITON_ROW or case["dtype"] == "f64":
        return None
    y = torch.empty_like(x)
    block = triton.next_power_of_2(cols)
    warps = next((w for most, w in ((2048, 4), (8192, 8), (32768, 16)) if block <= most), 32)

    def call():
        softmax_rows[(rows,)](x, y, cols, block=block, num_warps=warps)

    call()
    some = slice(0, min(rows, 4))
    torch.testing.assert_close(y[some], torch.softmax(x[some], -1))
    return call


PEERS = {  # in this order: what takes long to compile comes last
    "pytorch": (pytorch_call, torch),
    "triton": (triton_call, torch and triton),
    "torch_compile": (compile_call, torch and triton),
}


# Of 16-bit types, and of f32 and f64, which those do not take.
ATTENTION_PEERS = {"sdpa_flash": "FLASH_ATTENTION", "sdpa_cudnn": "CUDNN_ATTENTION"}
WIDE_ATTENTION_PEERS = {"sdpa_efficient": "EFFICIENT_ATTENTION", "sdpa_math": "MATH"}


def time_peer(name, cases, inputs, clock, deadline):
    """Adds the peer's results to the cases; returns how many it did not get to."""
    for at, case in enumerate(cases):
        if time.monotonic() > deadline:
            return len(cases) - at
        try:
            call = PEERS[name][0](case, inputs.get(case))
            if call is None:
                continue
            seconds, calls = clock.rounds(call)
        except (RuntimeError, NotImplementedError) as error:  # no such kernel, no memory for it
            print(f"{name}, {results.Case(case).label}: {str(error).splitlines()[0]}",
                  file=sys.stderr)
            continue
        add_result(case, name, seconds, calls)
    return 0


def add_result(case, name, seconds, calls, **more):
    case["results"].append({
        "name": name, "role": "peer", "seconds": statistics.median(seconds), "lowest": min(seconds),
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
        calls[results.SUBJECT] = (functools.partial(softfold.attention, *tensors, causal=causal),
                                  contextlib.nullcontext)
    sdpa = functools.partial(torch.nn.functional.scaled_dot_product_attention, *tensors,
                             is_causal=a["causal"], enable_gqa=a["heads"] != a["key_heads"])
    peers = WIDE_ATTENTION_PEERS if case["dtype"] in ("f32", "f64") else ATTENTION_PEERS
    for name, backend in peers.items():
        calls[name] = sdpa, functools.partial(sdpa_kernel, getattr(SDPBackend, backend))
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
    return calls


def time_attention(cases, inputs, clock, deadline):
    """Adds the peers' results, each with the library's beside it; returns how many cases it did not
    get to."""
    for at, case in enumerate(cases):
        if time.monotonic() > deadline:
            return len(cases) - at
        contenders = attention_calls(case, inputs.get(case))
        if not contenders.keys() - {results.SUBJECT}:
            continue
        calls, seconds = {}, {name: [] for name in contenders}
        for name, (call, within) in contenders.items():
            with within():
                calls[name] = clock.calls(call)
        order = list(contenders)
        while left := [n for n in order if not clock.done(seconds[n], calls[n])]:
            for name in left:
                call, within = contenders[name]
                with within():
                    seconds[name].append(clock.round(call, calls[name]))
            order = order[1:] + order[:1]
        own = seconds.pop(results.SUBJECT, None)
        beside = {"beside": statistics.median(own)} if own else {}
        for name, times in seconds.items():
            add_result(case, name, times, calls[name], **beside)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", required=True, help="a result of softfold_bench on this GPU")
    parser.add_argument("--seconds", type=float, default=120)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    if torch is None or not torch.cuda.is_available():
        print("without the Python peers: no PyTorch that sees a GPU")
        return
    with open(arguments.into, encoding="utf-8") as file:
        document = json.load(file)
    every_peer = (*PEERS, *ATTENTION_PEERS, *WIDE_ATTENTION_PEERS)
    # By type: the elements of one are held at a time.
    all_cases = sorted((c for c in document["cases"] if c["input"] == "normal"), key=Inputs.kind)
    for case in all_cases:  # of an earlier time
        case["results"] = [r for r in case["results"]
                           if r["name"] not in every_peer]
    cases = [c for c in all_cases if c["operation"] != "attention"]
    # The peers have no packed sequences.
    attention = [c for c in all_cases
                 if c["operation"] == "attention" and "sequences" not in c["attention"]]
    inputs = Inputs(all_cases)
    clock = Clock(document["settings"], document["machine"]["flush_bytes"])
    heads = []
    with torch.inference_mode():
        if attention:
            if not softfold:
                print("without the Python package softfold: attention's peers are compared with "
                      "the time that softfold_bench took")
            left = time_attention(attention, inputs, clock, deadline)
            if left:
                print(f"attention: out of time, {left} cases left out (--seconds)")
            heads += [{"name": n, "role": "peer", "version": torch.__version__}
                      for n in (*ATTENTION_PEERS, *WIDE_ATTENTION_PEERS)]
        for name, (_, module) in PEERS.items():
            if not module:
                print(f"without {name}: the Python package triton is not installed")
                heads.append({"name": name, "role": "peer", "absent": "triton"})
                continue
            left = time_peer(name, cases, inputs, clock, deadline)
            if left:
                print(f"{name}: out of time, {left} cases left out (--seconds)")
            version = triton.__version__ if name == "triton" else torch.__version__
            heads.append({"name": name, "role": "peer", "version": version})
    document["contenders"] = [c for c in document["contenders"]
                              if c["name"] not in every_peer] + heads
    results.write(arguments.into, document)


if __name__ == "__main__":
    main()

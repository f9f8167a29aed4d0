#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch and ONNX Runtime, where they can be imported, on cases of softfold_bench.

    peers.py --like RESULT.json --threads N --out PEERS.json

The cases are those of a result of softfold_bench with N threads (all its element types and
inputs that NumPy can make). bench/report.py takes both files together.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time

try:
    import numpy as np
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None
try:
    import onnxruntime
except ImportError:
    onnxruntime = None

import onnx_model

PACKAGES = {"pytorch": (torch, "torch"), "onnxruntime": (onnxruntime, "onnxruntime")}
FLOATS = {"f32": "float32", "f64": "float64", "f16": "float16"}


def make_input(case):
    """The elements of a case, made as softfold_bench makes its normal ones."""
    count = case["rows"] * case["cols"]
    generator = np.random.default_rng(1)
    values = generator.standard_normal(1000003, dtype=np.float32) * np.float32(2)
    return np.resize(values, count).reshape(case["rows"], case["cols"])


def torch_call(case, x, threads):
    torch.set_num_threads(threads)
    kinds = {**{k: getattr(torch, v) for k, v in FLOATS.items()}, "bf16": torch.bfloat16}
    x = torch.from_numpy(x).to(kinds[case["dtype"]])
    k, operation = case["k"], case["operation"]
    mask = torch.rand(x.shape) < 0.5 if operation == "masked_softmax" else None
    if operation in ("softmax", "log_softmax"):
        # Into memory that is there already, as softfold does: fresh pages would cost more than
        # the softmax.
        y = torch.empty_like(x)
        function = torch.softmax if operation == "softmax" else torch.log_softmax
        return lambda: function(x, -1, out=y)
    return {
        "logsumexp": lambda: torch.logsumexp(x, -1),
        "scan": lambda: torch.logcumsumexp(x, -1),
        # A boolean mask of its own: torch has no bits.
        "masked_softmax": lambda: torch.softmax(x.masked_fill(mask, float("-inf")), -1),
        "topk": lambda: torch.topk(x, k),
        "softmax_topk": lambda: torch.topk(torch.softmax(x, -1), k),
        # What a generator of text calls: the exponential race.
        "sample": lambda: torch.argmax(
            torch.softmax(x, -1).div_(torch.empty_like(x).exponential_()), -1),
    }.get(operation)


def onnx_call(case, x, threads):
    if case["dtype"] not in FLOATS or case["operation"].startswith(("sample", "scan", "masked")):
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    model = onnx_model.build(case["operation"], case["dtype"], case["rows"], case["cols"], case["k"])
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own types: no such kernel for this element type
        print(f"onnxruntime: {error}", file=sys.stderr)
        return None
    x = x.astype(FLOATS[case["dtype"]])
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    for output in session.get_outputs():
        if case["operation"] in ("softmax", "log_softmax"):
            y = np.zeros_like(x)
            binding.bind_output(output.name, "cpu", 0, x.dtype, y.shape, y.ctypes.data)
            continue
        binding.bind_output(output.name)
        y = None
    # The default argument keeps the arrays for as long as the call: the binding does not.
    return lambda keep=(x, y): session.run_with_iobinding(binding)


CALLS = {"pytorch": torch_call, "onnxruntime": onnx_call}


def time_rounds(call, settings):
    """Seconds of a call in each round, calls in a round, processor time over wall time."""
    call()
    begin = time.perf_counter()
    call()
    once = max(time.perf_counter() - begin, 1e-9)
    calls = max(1, int(settings["min_time"] / once))
    seconds, shares = [], []
    while len(seconds) < settings["rounds"]:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(calls):
            call()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        seconds.append(wall / calls)
        shares.append(cpu / wall)
        if len(seconds) >= settings["fewest_rounds"] and sum(seconds) * calls > settings["budget"]:
            break
    return seconds, calls, shares


def time_case(case, names, settings, threads):
    x = make_input(case)
    results = []
    for name in names:
        call = CALLS[name](case, x, threads)
        if call is None:
            continue
        try:
            seconds, calls, shares = time_rounds(call, settings)
        except (RuntimeError, NotImplementedError) as error:  # no such kernel for this type
            print(f"{name}: {error}", file=sys.stderr)
            continue
        results.append({"name": name, "role": "peer", "seconds": statistics.median(seconds),
                        "lowest": min(seconds), "highest": max(seconds), "rounds": len(seconds),
                        "calls": calls, "own_share": statistics.median(shares)})
    suspect = threads == 1 and any(r["own_share"] < 0.95 for r in results)
    return {**{k: v for k, v in case.items() if k not in ("results", "others")},
            "loaded": suspect, "results": results}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--like", required=True, help="a result of softfold_bench")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    names = [name for name, (module, _) in PACKAGES.items() if module]
    for name, (module, package) in PACKAGES.items():
        if not module:
            print(f"without {name}: the Python package {package} is not installed")
    if not names or np is None:
        print("nothing to time" if np else "without all: the Python package numpy is not installed")
        return
    with open(arguments.like, encoding="utf-8") as file:
        like = json.load(file)
    cases = [c for c in like["cases"]
             if c["threads"] == arguments.threads and c["input"] == "normal"]
    timed = []
    for case in cases:
        timed.append(time_case(case, names, like["settings"], arguments.threads))
        for result in timed[-1]["results"]:
            rate = case["rows"] * case["cols"] / result["seconds"] / 1e9
            print(f"{case['operation']} {case['dtype']} {case['rows']}x{case['cols']} "
                  f"k{case['k']} {result['name']} {rate:.3f} Gelem/s", flush=True)
    document = {
        "format": 1, "program": "peers.py",
        "machine": {"system": platform.platform(), "python": platform.python_version(),
                    "processors": len(os.sched_getaffinity(0)),
                    "load_average": os.getloadavg()[0]},
        "settings": like["settings"],
        "contenders": [{"name": n, "role": "peer", "version": PACKAGES[n][0].__version__}
                       if n in names else {"name": n, "role": "peer", "absent": PACKAGES[n][1]}
                       for n in PACKAGES],
        "cases": timed,
    }
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=None)
        file.write("\n")


if __name__ == "__main__":
    main()

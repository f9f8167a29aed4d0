#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times ONNX Runtime, OpenVINO and PyTorch beside the library, where Python can import them, on cases
of softfold_bench.

    peers.py --like RESULT.json --threads N --out PEERS.json

The cases are those of a result of softfold_bench with N threads (all its element types and
inputs that NumPy can make). All take turns in one process, the library by its Python package.
bench/report.py takes both files together.
"""

import argparse
import importlib
import json
import os
import platform
import statistics
import sys
import time

import onnx_model
import results


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


np, torch, onnxruntime, openvino, softfold = map(
    optional, ("numpy", "torch", "onnxruntime", "openvino", "softfold"))

SUBJECT = "softfold"
# As results.py names them: the module, and the package to install.
PACKAGES = {SUBJECT: (softfold, "softfold"), "onnxruntime": (onnxruntime, "onnxruntime"),
            "openvino": (openvino, "openvino"), "pytorch": (torch, "torch")}
FLOATS = {"f32": "float32", "f64": "float64", "f16": "float16"}


def make_input(case):
    """The elements of a case, made as softfold_bench makes its normal ones."""
    count = case["rows"] * case["cols"]
    generator = np.random.default_rng(1)
    values = generator.standard_normal(1000003, dtype=np.float32) * np.float32(2)
    if case["operation"] == "attention":
        values /= 2
    return np.resize(values, count).reshape(case["rows"], case["cols"])


def torch_input(case, x):
    kinds = {**{k: getattr(torch, v) for k, v in FLOATS.items()}, "bf16": torch.bfloat16}
    return torch.from_numpy(x).to(kinds[case["dtype"]])


def softfold_call(case, x, threads):
    softfold.set_threads(threads)
    if case["dtype"] in FLOATS:
        x = x.astype(FLOATS[case["dtype"]])
        y = np.zeros_like(x)
    elif torch:
        x = torch_input(case, x)
        y = torch.zeros_like(x)
    else:
        return None
    k = case["k"]
    if case["operation"] == "attention":
        tensors = results.attention_inputs(case, x)
        causal = "bottom_right" if case["attention"]["causal"] else None
        return lambda: softfold.attention(*tensors, causal=causal)
    return {
        "softmax": lambda: softfold.softmax(x, out=y),
        "log_softmax": lambda: softfold.log_softmax(x, out=y),
        "logsumexp": lambda: softfold.logsumexp(x),
        "scan": lambda: softfold.logcumsumexp(x),
        "topk": lambda: softfold.topk(x, k),
        "softmax_topk": lambda: softfold.softmax_topk(x, k),
        "sample": lambda: softfold.sample(x, seed=1),
    }.get(case["operation"])


def torch_call(case, x, threads):
    torch.set_num_threads(threads)
    x = torch_input(case, x)
    k, operation = case["k"], case["operation"]
    if operation == "attention":
        tensors, a = results.attention_inputs(case, x), case["attention"]
        options = {"is_causal": a["causal"], "enable_gqa": a["heads"] != a["key_heads"]}
        return lambda: torch.nn.functional.scaled_dot_product_attention(*tensors, **options)
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


def model_of(case):
    """The case as an ONNX model, or None if there is no operator for it."""
    known = ("softmax", "log_softmax", "logsumexp", "topk", "softmax_topk")
    if case["dtype"] not in FLOATS or case["operation"] not in known:
        return None
    return onnx_model.build(case["operation"], case["dtype"], case["rows"], case["cols"], case["k"])


def onnxruntime_call(case, x, threads):
    model = model_of(case)
    if model is None:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x = x.astype(FLOATS[case["dtype"]])
    y = np.zeros_like(x)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    for output in session.get_outputs():
        if case["operation"] in ("softmax", "log_softmax"):
            binding.bind_output(output.name, "cpu", 0, x.dtype, y.shape, y.ctypes.data)
        else:
            binding.bind_output(output.name)
    # The default argument keeps the arrays for as long as the call: the binding does not.
    return lambda keep=(x, y): session.run_with_iobinding(binding)


def openvino_attention(case):
    """The case as a model of one operator, or None if NumPy has no such elements or heads share keys."""
    a = case["attention"]
    if case["dtype"] not in FLOATS or a["heads"] != a["key_heads"]:
        return None
    operators = importlib.import_module("openvino.opset13")
    kind = getattr(np, FLOATS[case["dtype"]])
    shapes = [[a["batches"], a["heads"], a[tokens], a["dim"]] for tokens in ("queries", "keys", "keys")]
    inputs = [operators.parameter(shape, kind) for shape in shapes]
    return openvino.Model([operators.scaled_dot_product_attention(*inputs, causal=a["causal"])], inputs)


def openvino_call(case, x, threads):
    attention = case["operation"] == "attention"
    model = openvino_attention(case) if attention else model_of(case)
    if model is None:
        return None
    core = openvino.Core()
    if not attention:
        model = core.read_model(model)
    # Of the model's own precision: by default a processor that has bf16 computes f32 in it.
    options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
               "INFERENCE_PRECISION_HINT": case["dtype"] if case["dtype"] != "f64" else "f32"}
    compiled = core.compile_model(model, "CPU", options)
    if compiled.input(0).get_element_type().to_string() != case["dtype"]:
        return None  # it would compute in another type
    request = compiled.create_infer_request()
    x = x.astype(FLOATS[case["dtype"]])
    y = np.zeros_like(x)
    tensors = results.attention_inputs(case, x) if attention else [x]
    for i, tensor in enumerate(tensors):
        request.set_input_tensor(i, openvino.Tensor(tensor, shared_memory=True))
    if case["operation"] in ("softmax", "log_softmax"):
        request.set_output_tensor(openvino.Tensor(y, shared_memory=True))
    return lambda keep=(x, y): request.infer()


CALLS = {SUBJECT: softfold_call, "onnxruntime": onnxruntime_call, "openvino": openvino_call,
         "pytorch": torch_call}


def prepared(case, names, threads):
    """name -> call, of those that do the case."""
    x = make_input(case)
    calls = {}
    for name in names:
        try:
            call = CALLS[name](case, x, threads)
            if call:
                call()
                calls[name] = call
        except Exception as error:  # their own types: no such kernel for this element type
            print(f"{name}: {str(error).strip().splitlines()[-1]}", file=sys.stderr)
    return calls


def time_rounds(calls, settings, threads):
    """name -> seconds of a call in each round, processor time over wall time, calls in a timing."""
    counts, spent = {}, dict.fromkeys(calls, 0.0)
    for name, call in calls.items():
        begin = time.perf_counter()
        call()
        once = max(time.perf_counter() - begin, 1e-9)
        counts[name] = max(1, int(settings["min_time"] / once))
    seconds, shares = {n: [] for n in calls}, {n: [] for n in calls}
    order = list(calls)
    for _ in range(settings["rounds"]):
        for name in order:
            if len(seconds[name]) >= settings["fewest_rounds"] and spent[name] > settings["budget"]:
                continue
            if threads > 1:
                time.sleep(0.01)  # until the pool of the one before has stopped spinning
            call = calls[name]
            call()
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(counts[name]):
                call()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            seconds[name].append(wall / counts[name])
            shares[name].append(cpu / wall)
            spent[name] += wall
        order = order[1:] + order[:1]
    return seconds, shares, counts


def time_case(case, names, settings, threads):
    seconds, shares, counts = time_rounds(prepared(case, names, threads), settings, threads)
    measured = [{"name": name, "role": "subject" if name == SUBJECT else "peer",
                "seconds": statistics.median(times), "lowest": min(times), "highest": max(times),
                "rounds": len(times), "calls": counts[name],
                "own_share": statistics.median(shares[name])} for name, times in seconds.items()]
    suspect = threads == 1 and any(r["own_share"] < 0.95 for r in measured)
    return {**{k: v for k, v in case.items() if k not in ("results", "others")},
            "loaded": suspect, "results": measured}


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
        done = results.Case(timed[-1])
        rates = [f"{name} {done.rate(name):.3f}" for name in done.results]
        print(f"{done.group}: {done.label}, {done.unit}: {', '.join(rates)}", flush=True)
    document = {
        "format": 1, "program": "peers.py",
        "machine": {"system": platform.platform(), "python": platform.python_version(),
                    "processors": len(os.sched_getaffinity(0)),
                    "load_average": os.getloadavg()[0]},
        "settings": like["settings"],
        "contenders": [{"name": n, "version": PACKAGES[n][0].__version__}
                       if n in names else {"name": n, "absent": PACKAGES[n][1]}
                       for n in PACKAGES if n != SUBJECT],
        "cases": timed,
    }
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=None)
        file.write("\n")


if __name__ == "__main__":
    main()

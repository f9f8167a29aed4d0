# SPDX-License-Identifier: Apache-2.0
"""The calls that peers.py times: of ONNX Runtime, OpenVINO, PyTorch, llama.cpp, and of the library by its
Python package. Each contender runs in a worker (worker.py) and imports only what it needs itself.

A contender is a function of a case, its elements and a number of threads. It returns a call, and what
makes an array of what the call returns; or None if it does not do the case.
"""

import ctypes
import importlib
import mmap

import numpy as np
import onnx_model
import results

torch = onnxruntime = openvino = softfold = llama_cpp = None  # until load()

FLOATS = {"f32": "float32", "f64": "float64", "f16": "float16"}
WRITE_X = ("softmax", "log_softmax", "masked_softmax")  # into memory that is given


def elements_of(case, memory):
    """The case's elements in this memory; those of bf16 as uint16."""
    kind = FLOATS.get(case["dtype"], "uint16")
    return np.frombuffer(memory, kind).reshape(case["rows"], case["cols"])


def room_for(x):
    """An array like x of plain pages, there already: NumPy would ask for huge ones, torch would not."""
    memory = mmap.mmap(-1, max(x.nbytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    y = np.frombuffer(memory, x.dtype, x.size).reshape(x.shape)
    y.fill(0)
    return y


def as_torch(case, x):
    if case["dtype"] == "bf16":
        return torch.from_numpy(x.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(x)


def as_numpy(answer):
    """An array of a call's result; of several results the first: values."""
    first = answer[0] if isinstance(answer, (tuple, list)) else answer
    if isinstance(first, np.ndarray):
        return first
    return (first.float() if first.element_size() == 2 else first).numpy()


def kept_columns(case):
    """A mask of half of the elements."""
    return np.random.default_rng(2).random((case["rows"], case["cols"]), dtype="float32") < 0.5


def mask_words(kept):
    """The same as int32, a bit for each column."""
    rows, cols = kept.shape
    padded = np.zeros((rows, -(-cols // 32) * 32), bool)
    padded[:, :cols] = kept
    return np.packbits(padded, axis=1, bitorder="little").view("int32")


def softfold_call(case, x, threads):
    softfold.set_threads(threads)
    y = room_for(x)
    if case["dtype"] == "bf16":
        if not torch:
            return None
        x, y = as_torch(case, x), as_torch(case, y)
    k, operation = case["k"], case["operation"]
    if operation == "attention":
        tensors = results.attention_inputs(case, x)
        causal = "bottom_right" if case["attention"]["causal"] else None
        return lambda: softfold.attention(*tensors, causal=causal), as_numpy
    if operation == "masked_softmax":
        mask = mask_words(kept_columns(case))
        mask = torch.from_numpy(mask) if case["dtype"] == "bf16" else mask
        return lambda: softfold.softmax(x, mask=mask, out=y), as_numpy
    if operation in results.DRAWS:
        return lambda: softfold.sample(x, seed=1, **results.DRAWS[operation]), as_numpy
    call = {
        "softmax": lambda: softfold.softmax(x, out=y),
        "log_softmax": lambda: softfold.log_softmax(x, out=y),
        "logsumexp": lambda: softfold.logsumexp(x),
        "scan": lambda: softfold.logcumsumexp(x),
        "topk": lambda: softfold.topk(x, k),
        "softmax_topk": lambda: softfold.softmax_topk(x, k),
    }.get(operation)
    return call and (call, as_numpy)


def torch_call(case, x, threads):
    torch.set_num_threads(threads)
    y = as_torch(case, room_for(x))
    x = as_torch(case, x)
    k, operation = case["k"], case["operation"]
    if operation == "attention":
        tensors, a = results.attention_inputs(case, x), case["attention"]
        options = {"is_causal": a["causal"], "enable_gqa": a["heads"] != a["key_heads"]}
        return lambda: torch.nn.functional.scaled_dot_product_attention(*tensors, **options), as_numpy
    # A boolean mask of its own: torch has no bits.
    mask = torch.from_numpy(~kept_columns(case)) if operation == "masked_softmax" else None
    call = {
        # Into memory that is there already, as softfold does: fresh pages would cost more than
        # the softmax.
        "softmax": lambda: torch.softmax(x, -1, out=y),
        "log_softmax": lambda: torch.log_softmax(x, -1, out=y),
        "logsumexp": lambda: torch.logsumexp(x, -1),
        "scan": lambda: torch.logcumsumexp(x, -1),
        "masked_softmax": lambda: torch.softmax(x.masked_fill(mask, float("-inf")), -1),
        "topk": lambda: torch.topk(x, k),
        "softmax_topk": lambda: torch.topk(torch.softmax(x, -1), k),
        # What a generator of text calls: the exponential race.
        "sample": lambda: torch.argmax(
            torch.softmax(x, -1).div_(torch.empty_like(x).exponential_()), -1),
    }.get(operation)
    return call and (call, as_numpy)


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
    y = room_for(x)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    for output in session.get_outputs():
        if case["operation"] in WRITE_X:
            binding.bind_output(output.name, "cpu", 0, x.dtype, y.shape, y.ctypes.data)
        else:
            binding.bind_output(output.name)
    # The default argument keeps the arrays for as long as the call: the binding does not.
    return (lambda keep=(x, y): session.run_with_iobinding(binding),
            lambda _: binding.copy_outputs_to_cpu()[0])


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
    y = room_for(x)
    tensors = results.attention_inputs(case, x) if attention else [x]
    for i, tensor in enumerate(tensors):
        request.set_input_tensor(i, openvino.Tensor(tensor, shared_memory=True))
    if case["operation"] in WRITE_X:
        request.set_output_tensor(openvino.Tensor(y, shared_memory=True))
    return (lambda keep=(x, y): request.infer(),
            lambda _: request.get_output_tensor(0).data)


def llama_cpp_call(case, x, threads):
    """A chain of its samplers. They work on candidates, which are made of each row's logits first, as its
    programs do; by one thread."""
    if case["operation"] not in results.DRAWS or case["dtype"] != "f32" or threads > 1:
        return None
    lib, filters = llama_cpp, results.DRAWS[case["operation"]]
    chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    if "top_k" in filters:
        lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_top_k(filters["top_k"]))
    if "top_p" in filters:
        lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_top_p(filters["top_p"], 1))
    if "min_p" in filters:
        lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_min_p(filters["min_p"], 1))
    lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_dist(1))
    candidates = np.zeros(case["cols"], [("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])
    assert candidates.itemsize == ctypes.sizeof(lib.llama_token_data)
    columns, tokens = np.arange(case["cols"], dtype="int32"), np.zeros(case["rows"], "int64")
    data = ctypes.cast(candidates.ctypes.data, ctypes.POINTER(lib.llama_token_data))
    array = lib.llama_token_data_array()

    def call():
        for row, logits in enumerate(x):
            candidates["id"] = columns
            candidates["logit"] = logits
            array.data, array.size, array.selected, array.sorted = data, columns.size, -1, False
            lib.llama_sampler_apply(chain, ctypes.byref(array))
            tokens[row] = candidates["id"][array.selected]
        return tokens

    return call, as_numpy


CALLS = {"softfold": softfold_call, "onnxruntime": onnxruntime_call, "openvino": openvino_call,
         "pytorch": torch_call, "llama_cpp": llama_cpp_call}
MODULES = {"pytorch": "torch"}


def load(name):
    module = importlib.import_module(MODULES.get(name, name))
    globals()[module.__name__] = module
    if name == "softfold":
        try:  # for arrays of bf16, which NumPy has not; nothing is computed by it
            globals()["torch"] = importlib.import_module("torch")
        except ImportError:
            pass
    return module.__version__


def prepared(name, case, threads, memory):
    made = CALLS[name](case, elements_of(case, memory), threads)
    if made is None:
        return None
    call, array_of = made

    def some_rows(result):
        """The first, the middle and the last row of the answer."""
        rows = array_of(result)
        count = rows.size // rows.shape[-1] if case["operation"] == "attention" else case["rows"]
        rows = rows.reshape(count, -1)
        return rows[[0, count // 2, -1]].astype("float64").ravel().tolist()

    return call, some_rows

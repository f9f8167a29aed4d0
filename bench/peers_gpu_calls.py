# SPDX-License-Identifier: Apache-2.0
"""What peers_gpu.py times: for each contender its call of a case, or None where it has none, and what it
does otherwise than the case says."""

import dataclasses
import importlib
import sys
import typing

import results


def optional(name):
    try:
        return importlib.import_module(name)
    except Exception as error:  # what it needs is not there, or of another version
        if getattr(error, "name", None) != name:
            print(f"{name}: {error}", file=sys.stderr)
        return None


torch, softfold, triton, flashinfer = map(optional, ("torch", "softfold", "triton", "flashinfer"))
quack = torch and optional("quack")
attention = torch and optional("torch.nn.attention")
if quack:
    from quack.cross_entropy import cross_entropy_fwd
    from quack.softmax import softmax_bwd, softmax_fwd
    from quack.topk import topk_fwd
if triton:
    import triton.language as tl

    @triton.jit
    def softmax_rows(x, y, cols, block: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        column = tl.arange(0, block)
        inside = column < cols
        value = tl.load(x + row * cols + column, mask=inside, other=-float("inf")).to(tl.float32)
        power = tl.exp(value - tl.max(value, 0))
        probability = power / tl.sum(power, 0)
        tl.store(y + row * cols + column, probability.to(y.dtype.element_ty), mask=inside)

LONGEST_TRITON_ROW = 131072  # in the registers of one block
COMPILED_COLUMNS = (128, 512, 1024, 4096, 16384, 25000, 50257, 128256, 524288)
# quack compiles for each number of columns, too; every second one of a sweep in steps of 1.2 is odd anyway.
QUACK_SWEEP = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 25000, 32768, 65536, 128256, 131072, 262144,
               524288)
LONGEST_FLASHINFER_ROW = 1 << 20  # more than any vocabulary
QUACK_BYTES = 2 << 20  # of a row, of gradients two: what 16 blocks hold


def is_one_of_sweep(case, columns):
    return case["group"] != "sweep" or case["cols"] in columns


def second_matrix(x):
    """A gradient's: one matrix for both would be read once."""
    return x.clone()


def softfold_call(case, x):
    operation, k = case["operation"], case["k"]
    if operation in results.DRAWS:
        return lambda: softfold.sample(x, seed=1, **results.DRAWS[operation])
    if operation in ("topk", "softmax_topk"):
        function = getattr(softfold, operation)
        return lambda: function(x, k)
    if operation == "logsumexp":
        return lambda: softfold.logsumexp(x)
    if operation not in ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward"):
        return None
    y, function = torch.empty_like(x), getattr(softfold, operation)
    if operation.endswith("backward"):
        dy = second_matrix(x)
        return lambda: function(x, dy, out=y)
    return lambda: function(x, out=y)


def pytorch_call(case, x):
    operation, k = case["operation"], case["k"]
    if operation in ("softmax", "log_softmax"):
        function = torch.softmax if operation == "softmax" else torch.log_softmax
        y = torch.empty_like(x)
        return lambda: function(x, -1, out=y)
    backward = torch.ops.aten  # what autograd calls
    dy = second_matrix(x) if operation.endswith("backward") else None
    return {
        "logsumexp": lambda: torch.logsumexp(x, -1),
        "topk": lambda: torch.topk(x, k),
        "softmax_topk": lambda: torch.topk(torch.softmax(x, -1, dtype=torch.float32), k),
        "softmax_backward": lambda: backward._softmax_backward_data(dy, x, -1, x.dtype),
        "log_softmax_backward": lambda: backward._log_softmax_backward_data(dy, x, -1, x.dtype),
        "sample": lambda: torch.multinomial(torch.softmax(x, -1, dtype=torch.float32), 1),
    }.get(operation)


def compile_call(case, x):
    operation, k = case["operation"], case["k"]
    if case["group"] == "sweep" and (case["cols"] not in COMPILED_COLUMNS or case["dtype"] == "f16"):
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
        return y

    return call


def quack_call(case, x):
    operation, k, (rows, cols) = case["operation"], case["k"], x.shape
    if case["dtype"] == "f64" or cols % (16 // x.element_size()) or not is_one_of_sweep(case, QUACK_SWEEP):
        return None
    if operation in ("topk", "softmax_topk"):
        powers = all(n == 1 << (n.bit_length() - 1) for n in (cols, k))
        if not powers or cols > 4096 or k > 128:
            return None
        return lambda: topk_fwd(x, k, operation == "softmax_topk")
    if cols * x.element_size() * (2 if operation == "softmax_backward" else 1) > QUACK_BYTES:
        return None
    if operation == "logsumexp":
        target = torch.zeros(rows, dtype=torch.int64, device=x.device)
        return lambda: cross_entropy_fwd(x, target, return_lse=True)[1]
    if operation == "softmax_backward":
        dy = second_matrix(x)
        return lambda: softmax_bwd(dy, x)
    return (lambda: softmax_fwd(x)) if operation == "softmax" else None


def quack_differs(case):
    words = []
    if case["operation"] == "softmax_topk":
        words.append("softmax over the k alone")
    if case["operation"] in ("topk", "softmax_topk") and case["dtype"] == "f32":
        words.append("columns are written into the values' low bits")
    if case["operation"] == "logsumexp":
        words.append("a cross entropy, of which this is a part")
    return "; ".join(words) or None


def flashinfer_call(case, x):
    operation, k = case["operation"], case["k"]
    if (case["dtype"] == "f64" or case["cols"] > LONGEST_FLASHINFER_ROW
            or not is_one_of_sweep(case, COMPILED_COLUMNS)):
        return None

    def top(values):
        return flashinfer.top_k(values, k, sorted=True, deterministic=True)

    sampling = flashinfer.sampling
    return {
        # Its probabilities are f32.
        "softmax": (lambda: sampling.softmax(x)) if case["dtype"] == "f32" else None,
        "topk": lambda: top(x),
        "softmax_topk": lambda: top(sampling.softmax(x)),
        "sample": lambda: sampling.sampling_from_logits(x),
        "sample_top_k_p": lambda: sampling.top_k_top_p_sampling_from_logits(
            x, **results.DRAWS["sample_top_k_p"]),
        "sample_top_p": lambda: sampling.top_p_sampling_from_probs(
            sampling.softmax(x), **results.DRAWS["sample_top_p"]),
        "sample_min_p": lambda: sampling.min_p_sampling_from_probs(
            sampling.softmax(x), **results.DRAWS["sample_min_p"]),
    }.get(operation)


def compile_flashinfer():
    """Which takes minutes, once: its kernels come as source."""
    x = torch.zeros(1, 256, device="cuda")
    flashinfer.top_k(x, 8)
    flashinfer.sampling.softmax(x)


def any_order_call(case, x):
    if case["operation"] != "topk" or case["dtype"] == "f64":
        return None
    return lambda: flashinfer.top_k(x, case["k"])


def any_order_differs(case):
    return "in any order, which may change from call to call"


@dataclasses.dataclass(frozen=True)
class Contender:
    call: typing.Callable
    package: str  # to install
    version: str | None  # None: it is not there
    differs: typing.Callable = lambda case: None
    prepare: typing.Callable = lambda: None  # once, before the first case


def contender(call, package, *modules, **more):
    """Of the version of the first module."""
    version = all(modules) and getattr(modules[0], "__version__", "of unknown version")
    return Contender(call, package, version or None, **more)


SELF = "softfold by Python"  # its column; the library itself is results.SUBJECT
SELF_ROLE = "by Python"
CONTENDERS = {
    "pytorch": contender(pytorch_call, "torch", torch),
    "triton": contender(triton_call, "triton", triton, torch),
    "quack": contender(quack_call, "quack-kernels", quack, differs=quack_differs),
    "flashinfer": contender(flashinfer_call, "flashinfer-python", flashinfer, prepare=compile_flashinfer),
    "flashinfer_any_order": contender(any_order_call, "flashinfer-python", flashinfer,
                                      differs=any_order_differs, prepare=compile_flashinfer),
    "torch_compile": contender(compile_call, "triton", torch, triton),
}
# What takes turns with each other, and one after the other; what takes long to compile comes last.
TURNS = (("pytorch", "triton", "quack", "flashinfer", "flashinfer_any_order"), ("torch_compile",))
# Of 16-bit types, and of f32 and f64, which those do not take.
ATTENTION_PEERS = {"sdpa_flash": "FLASH_ATTENTION", "sdpa_cudnn": "CUDNN_ATTENTION"}
WIDE_ATTENTION_PEERS = {"sdpa_efficient": "EFFICIENT_ATTENTION", "sdpa_math": "MATH"}


def comparable(case, answer):
    """Of the last row what all contenders of the case agree on."""
    if case["operation"].startswith("sample"):
        return None
    first = answer[0] if isinstance(answer, (tuple, list)) else answer
    return first[-1:].double()


def agree(case, answer, other):
    """Whether two answers are the same but for rounding."""
    if answer is None or other is None:
        return True
    tolerance = {"f64": 1e-9, "f32": 1e-4}.get(case["dtype"], 0.02)
    return torch.allclose(answer.reshape(other.shape), other, rtol=tolerance,
                          atol=tolerance * float(other.abs().max()))

# SPDX-License-Identifier: Apache-2.0
"""The package on a CUDA device, beside itself on the processor: torch, CuPy and JAX, streams, graphs,
torch.compile. python/tests/gpu.sh runs this file on a machine that has one."""

import os
import time

import numpy as np
import pytest
from conftest import has
from reference import FLOATS, dtype_of

import softfold

if has("torch"):
    import torch
if not has("torch") or not torch.cuda.is_available():
    if os.environ.get("SOFTFOLD_REQUIRE_GPU"):
        raise RuntimeError("SOFTFOLD_REQUIRE_GPU is set, and torch has no CUDA device")
    pytest.skip("no CUDA device here", allow_module_level=True)

import softfold.torch as st  # noqa: E402
from test_torch import EDITS, FUNCTIONS, edited, penalties_of, rows  # noqa: E402

SHAPES = [(5,), (3, 1), (2, 3, 257), (64, 5000), (1, 300_000), (0, 4), (3, 0)]


def on_gpu(tree):
    """Arrays as tensors of the device, in tuples and dicts too."""
    if isinstance(tree, dict):
        return {name: on_gpu(given) for name, given in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map(on_gpu, tree))
    return tree.cuda() if isinstance(tree, torch.Tensor) else tree


def tensor(x):
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(x).cuda()


def array(t):
    if t.dtype == torch.bfloat16:
        return t.view(torch.int16).cpu().numpy().view(dtype_of("bfloat16"))
    return t.cpu().numpy()


def near(found, expected, wide=1.0, dtype=None):
    """As the bounds allow two results of one row to differ; `dtype`: what the results are rounded to,
    if not their own type."""
    dtype = dtype or expected.dtype
    rtol = {2: 2e-2 if dtype.name == "bfloat16" else 2e-3, 4: 2e-5, 8: 1e-12}
    tolerance = wide * rtol[dtype.itemsize]
    np.testing.assert_allclose(
        found.astype("f8"), expected.astype("f8"), rtol=tolerance, atol=tolerance
    )


def test_info():
    found = softfold.info("cuda")
    assert found["backend"] == "cuda" and found["isa"].startswith("sm_")
    assert found["device"] == torch.cuda.get_device_name()


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_functions_beside_the_processors(name, shape):
    x = (np.random.default_rng(8).normal(size=shape) * 4).astype(dtype_of(name))
    t = tensor(x)
    for function in (softfold.softmax, softfold.log_softmax, softfold.logsumexp, softfold.logcumsumexp):
        y = function(t, scale=0.7)
        assert y.is_cuda and y.dtype == t.dtype
        near(array(y), function(x, scale=0.7), 4 if function is softfold.logcumsumexp else 1)
    k = min(8, shape[-1])
    for found, expected in zip(softfold.topk(t, k), softfold.topk(x, k)):
        np.testing.assert_array_equal(array(found), expected)
    found = softfold.softmax_topk(t, k, with_logits=True, with_lse=True)
    expected = softfold.softmax_topk(x, k, with_logits=True, with_lse=True)
    np.testing.assert_array_equal(array(found[1]), expected[1])
    np.testing.assert_array_equal(array(found[2]), expected[2])
    near(array(found[0]), expected[0])
    near(array(found[3]), expected[3])
    y = softfold.softmax(x)
    near(array(softfold.softmax_backward(tensor(y), t)), softfold.softmax_backward(y, x))


@pytest.mark.parametrize("name", FLOATS)
def test_tokens_are_the_processors(name):
    x = (np.random.default_rng(9).normal(size=(6, 5000)) * 3).astype(dtype_of(name))
    options = {"temperature": 0.8, "top_k": 200, "top_p": 0.95, "min_p": 1e-4, "draws": 16}
    seeds, offsets = np.arange(6), np.arange(6) * 2**33
    found = softfold.sample(
        tensor(x), seed=tensor(seeds), offset=tensor(offsets), with_kept=True, **options
    )
    expected = softfold.sample(x, seed=seeds, offset=offsets, with_kept=True, **options)
    np.testing.assert_array_equal(array(found[0]), expected[0])
    np.testing.assert_array_equal(array(found[1]), expected[1])
    near(array(found[2]), expected[2])
    np.testing.assert_array_equal(
        array(softfold.sample(tensor(x), temperature=0))[:, 0], softfold.topk(x, 1)[1][:, 0]
    )


@pytest.mark.parametrize("name", FLOATS)
def test_attention_beside_the_processors(name):
    random = np.random.default_rng(10)
    shapes = (2, 6, 5, 64), (2, 2, 700, 64), (2, 2, 700, 80)
    q, k, v = (random.normal(size=shape).astype(dtype_of(name)) for shape in shapes)
    given = {"bias": random.normal(size=(6, 1, 700)), "key_lengths": np.array([700, 300]),
             "alibi_slopes": random.random(6), "sinks": random.normal(size=6)}  # fmt: skip
    numbers = {"causal": "bottom_right", "softcap": 5.0}
    tensors = {argument: tensor(x) for argument, x in given.items()}
    for found, expected in zip(
        softfold.attention(*map(tensor, (q, k, v)), with_lse=True, **tensors, **numbers),
        softfold.attention(q, k, v, with_lse=True, **given, **numbers),
    ):
        assert found.is_cuda
        near(array(found), expected)
    state = softfold.fold_attention(*map(tensor, (q, k, v)), **tensors, **numbers)
    softfold.combine_attention(*state, *(x.clone() for x in state))
    expected = softfold.fold_attention(q, k, v, **given, **numbers)
    # The weights may be rounded to the elements' type before they multiply the values.
    found, expected = array(softfold.normalize_attention(*state)), softfold.normalize_attention(*expected)
    near(found, expected, dtype=q.dtype)


@pytest.mark.parametrize("edit", [*EDITS, "penalties"])
def test_edits_beside_the_processors(edit):
    x = rows(torch.float32)
    edits = penalties_of(x) if edit == "penalties" else EDITS[edit]
    for function in (softfold.softmax, softfold.log_softmax, softfold.logsumexp, softfold.logcumsumexp):
        near(array(function(x.cuda(), **on_gpu(edits))), array(function(x, **edits)))
    for found, expected in zip(softfold.topk(x.cuda(), 7, **on_gpu(edits)), softfold.topk(x, 7, **edits)):
        assert torch.equal(found.cpu(), expected)


def test_states_of_columns_in_both_memories():
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(4, 900)).astype(np.float32))
    kept = x > -0.5
    states = softfold.States(4, 5)
    states.fold(x[:, :300].contiguous().cuda(), 0, mask=kept[:, :300].contiguous().cuda())
    states.fold(x[:, 300:600], 300, mask=kept[:, 300:600])
    states.fold(x[:, 600:].cuda(), 600, mask=kept[:, 600:].contiguous().cuda())
    assert states.columns == ((0, 900),)
    lse, probabilities = states.finish()
    near(lse, array(softfold.logsumexp(x, mask=kept)))
    expected, columns = softfold.softmax_topk(x, 5, mask=kept)
    np.testing.assert_array_equal(states.indices, array(columns))
    near(probabilities, array(expected))
    with pytest.raises(ValueError, match="columns 0 to 9 are in both"):
        states.fold(x[:, :10].cuda(), 0)
    states, below = (softfold.States(2, 5, sampling={"seed": seed, "top_k": 4}) for seed in (1, 2))
    states.append_rows(below)
    states.fold(x[:, :300].contiguous().cuda(), 0)
    states.fold(x[:, 300:], 300)
    tokens = softfold.sample(x.cuda(), seed=torch.tensor([1, 1, 2, 2]).cuda(),
                             offset=torch.tensor([0, 1, 0, 1]).cuda(), top_k=4)  # fmt: skip
    np.testing.assert_array_equal(states.finish_sample(), array(tokens)[:, 0])


def test_states_of_keys_in_both_memories():
    random = np.random.default_rng(6)
    q, k, v = (
        torch.from_numpy(random.normal(size=(2, heads, tokens, 64)).astype("f4"))
        for heads, tokens in ((8, 3), (2, 900), (2, 900))
    )
    states = softfold.AttentionStates(2, 8, 3, 64)
    for begin, device in ((0, "cuda"), (300, "cpu"), (600, "cuda")):
        part = [x[:, :, begin : begin + 300].to(device) for x in (k, v)]
        states.fold(q.to(device), *part, key_offset=begin)
    assert states.keys == ((0, 900),)
    out, lse = states.finish(with_lse=True)
    expected, expected_lse = softfold.attention(q, k, v, with_lse=True)
    near(out, array(expected))
    near(lse, array(expected_lse))
    with pytest.raises(ValueError, match="keys 0 to 9 are in both"):
        states.fold(q.cuda(), k[:, :, :10].cuda(), v[:, :, :10].cuda())


def test_verified_tokens_are_the_processors():
    random = np.random.default_rng(12)
    target, draft = random.normal(size=(6, 5, 3000)), random.normal(size=(6, 4, 3000))
    target[:, :4] += 8 * (draft > 2.5)
    draft += 8 * (draft > 2.5)
    offsets = np.arange(30).reshape(6, 5)
    drafts = softfold.sample(draft, offset=offsets[:, :4].copy(), top_k=50)[..., 0]
    for given in ((drafts,), (drafts, draft)):
        found = softfold.verify(
            tensor(target), *map(tensor, given), seed=3, offset=tensor(offsets), top_k=50
        )
        expected = softfold.verify(target, *given, seed=3, offset=offsets, top_k=50)
        for y, exact in zip(found, expected):
            np.testing.assert_array_equal(array(y), exact)


# ---- streams ----


def test_calls_go_to_the_current_stream_and_do_not_wait():
    x = torch.zeros(64, 5000, device="cuda")
    expected = softfold.softmax(torch.ones_like(x))
    out = torch.empty_like(x)
    for stream in (torch.cuda.Stream(), torch.cuda.current_stream()):
        with torch.cuda.stream(stream):
            softfold.softmax(x, out=out)  # makes the queue
            x.zero_()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            torch.cuda._sleep(400_000_000)  # some 0.2 s of the device's time
            x.fill_(1.0)
            softfold.softmax(x, out=out)
            done = torch.cuda.Event()
            done.record()
            taken = time.perf_counter() - begin
            assert not done.query() and taken < 0.1
            done.synchronize()
            assert time.perf_counter() - begin > 0.05
        assert torch.equal(out, expected)


def test_a_stream_that_is_given():
    x = torch.zeros(64, 5000, device="cuda")
    stream = torch.cuda.Stream()
    for given in (stream, stream.cuda_stream):
        out = torch.empty_like(x)
        softfold.softmax(x, out=out)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(100_000_000)
        softfold.softmax(x, out=out, stream=given)
        assert not stream.query()
        stream.synchronize()
        torch.testing.assert_close(out, torch.softmax(x, -1))


def test_threads_with_streams_of_their_own():
    import threading

    failures = []

    def work(seed):
        x = torch.from_numpy(np.random.default_rng(seed).normal(size=(32, 3000 + seed))).float().cuda()
        torch.cuda.synchronize()
        expected = softfold.softmax_topk(x, 5)
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            for _ in range(50):
                found = softfold.softmax_topk(x, 5)
            torch.cuda.current_stream().synchronize()
            if not all(torch.equal(a, b) for a, b in zip(found, expected)):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one CUDA device here")
def test_every_device():
    for device in range(torch.cuda.device_count()):
        x = torch.linspace(-3, 3, 3000, device=f"cuda:{device}").reshape(3, 1000)
        y = softfold.softmax(x)
        assert y.device == x.device
        torch.testing.assert_close(y, torch.softmax(x, -1))
    with pytest.raises(ValueError, match="out is in the memory of cuda:0, expected cuda:1"):
        softfold.softmax(x.to("cuda:1"), out=torch.empty(3, 1000, device="cuda:0"))


# ---- graphs ----


@pytest.mark.parametrize("shape", [(64, 5000), (1, 1_000_000), (4, 128_256)], ids=str)
def test_captured_in_a_graph(shape):
    x = torch.randn(shape, device="cuda")
    stream = torch.cuda.Stream()
    kept = torch.rand(shape, device="cuda") < 0.9

    def work():
        y = softfold.softmax(x, mask=kept)
        return y, *softfold.softmax_topk(x, 50), softfold.sample(x, top_p=0.9)

    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        work()  # grows the queue's memory
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        captured = work()
    for seed in range(3):
        x.copy_(torch.randn(shape, generator=torch.Generator().manual_seed(seed)))
        graph.replay()
        for found, expected in zip(captured, work()):
            assert torch.equal(found, expected)
    with torch.cuda.stream(stream):  # needs more memory than the graph has
        softfold.softmax_topk(torch.randn(64, 1_000_000, device="cuda"), 1000)
    torch.cuda.synchronize()  # now memory that was freed is the device's again
    x.copy_(torch.randn(shape, generator=torch.Generator().manual_seed(5)))
    graph.replay()
    for found, expected in zip(captured, work()):
        assert torch.equal(found, expected)


def test_a_capture_that_would_have_to_allocate_says_so():
    x = torch.randn(1, 4_000_000, device="cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with pytest.raises(MemoryError, match="call reserve\\(\\), or the function once, before the capture"):
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
            softfold.softmax_topk(x, 1000)


# ---- torch ----


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    x = rows().cuda().requires_grad_()
    assert torch.autograd.gradcheck(FUNCTIONS[name], (x,))
    assert torch.autograd.gradgradcheck(FUNCTIONS[name], (x,))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "logcumsumexp"])
@pytest.mark.parametrize("edit", EDITS)
def test_gradients_of_edited_rows(name, edit):
    x = rows(torch.float32)
    bias = torch.linspace(-1, 1, 7)

    def gradients(x, bias, edits):
        x, bias = x.clone().requires_grad_(), bias.clone().requires_grad_()
        y = getattr(st, name)(x, bias=bias, **edits)
        y = torch.where(torch.isfinite(y), y, 0)
        return torch.autograd.grad(y.square().sum(), (x, bias))

    for found, expected in zip(
        gradients(x.cuda(), bias.cuda(), on_gpu(EDITS[edit])), gradients(x, bias, EDITS[edit])
    ):
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [*FUNCTIONS, "sample"])
def test_operators(name):
    k = (3,) if name == "softmax_topk" else ()
    operator = getattr(torch.ops.softfold, name).default
    for dtype in (torch.float32, torch.bfloat16):
        x = rows(dtype).cuda()
        torch.library.opcheck(operator, (x, *k))
        tensors, numbers = st._of_edits(name, on_gpu(dict(EDITS["all"])))
        torch.library.opcheck(operator, (x, *k, *tensors), numbers)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled(mode):
    """In reduce-overhead the graphs are captured by torch, and share its stream."""

    def loss(x, bias):
        p, columns = st.softmax_topk(2 * x, 3)
        y = st.softmax(x, bias=bias, causal="bottom_right", softcap=3.0)
        return (
            (p * columns).sum() + y.square().sum() + st.log_softmax(x)[..., 0].sum()
            + st.logsumexp(x).sum() + st.logcumsumexp(x).mean()
        )  # fmt: skip

    compiled = torch.compile(loss, fullgraph=True, mode=mode)
    for shape in ((64, 500), (16, 70_000), (64, 500)):  # the second needs more of the queue's memory
        bias = torch.zeros(shape[-1], device="cuda", requires_grad=True)
        for seed in range(4):
            x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).cuda().requires_grad_()
            torch.compiler.cudagraph_mark_step_begin()
            found = compiled(x, bias)
            torch.testing.assert_close(found, loss(x, bias), rtol=1e-4, atol=1e-3)
            for ours, theirs in zip(
                torch.autograd.grad(found, (x, bias)), torch.autograd.grad(loss(x, bias), (x, bias))
            ):
                torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_decode_step(mode):
    seeds = torch.arange(4, device="cuda")

    def step(logits, offsets):
        return st.sample(logits / 2, top_p=0.9, temperature=0.8, seed=seeds, offset=offsets)

    compiled = torch.compile(step, fullgraph=True, mode=mode)
    logits = torch.randn(4, 32_000, device="cuda")
    for position in range(6):
        offsets = torch.full((4,), position, device="cuda")
        torch.compiler.cudagraph_mark_step_begin()
        assert torch.equal(compiled(logits, offsets), step(logits, offsets))


def test_what_is_refused():
    x = torch.zeros(3, 5, device="cuda")
    for words, options in (
        ("out is in the memory of cpu, expected cuda:0, where x is", {"out": torch.zeros(3, 5)}),
        ("mask is in the memory of cpu, expected cuda:0", {"mask": np.ones((3, 5), bool)}),
        ("lengths is in the memory of cpu", {"lengths": torch.ones(3, dtype=torch.int64)}),
        ("x.strides is", {"x": x.t()}),
        ("axis is 0", {"axis": 0}),
    ):
        with pytest.raises(ValueError, match=words):
            softfold.softmax(**{"x": x, **options})
    with pytest.raises(TypeError, match="stream is 'main'"):
        softfold.softmax(x, stream="main")


def test_copies_that_are_asked_for():
    x = torch.randn(6, 5, 4, device="cuda")
    torch.testing.assert_close(softfold.softmax(x, 0, copy=True), torch.softmax(x, 0))


def test_memory_of_the_host():
    x = torch.randn(3, 5).pin_memory()
    y = softfold.softmax(x)
    assert not y.is_cuda
    torch.testing.assert_close(y, torch.softmax(x, -1))


def test_nothing_is_leaked():
    x = torch.randn(64, 5000, device="cuda")
    softfold.softmax(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(2000):
        softfold.softmax_topk(x, 5)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
    assert free - torch.cuda.mem_get_info()[0] < 64 << 20


# ---- CuPy ----


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


def test_cupy(cupy):
    x = np.random.default_rng(2).normal(size=(3, 400)).astype("f4")
    given = cupy.asarray(x)
    for dtype in ("f4", "f8", "f2"):
        y = softfold.softmax(given.astype(dtype))
        assert type(y) is cupy.ndarray and y.dtype == dtype
        near(cupy.asnumpy(y), softfold.softmax(x.astype(dtype)))
    out = cupy.empty_like(given)
    assert softfold.softmax(given, out=out) is out
    near(cupy.asnumpy(out), softfold.softmax(x))
    wide = cupy.zeros((3, 500), "f4")
    wide[:, 50:450] = given
    near(cupy.asnumpy(softfold.log_softmax(wide[:, 50:450])), softfold.log_softmax(x))
    kept = x > 0
    near(cupy.asnumpy(softfold.softmax(given, mask=cupy.asarray(kept))), softfold.softmax(x, mask=kept))
    np.testing.assert_array_equal(
        cupy.asnumpy(softfold.sample(given, seed=cupy.arange(3), draws=9)),
        softfold.sample(x, seed=np.arange(3), draws=9),
    )
    moved = softfold.softmax(given, 0, copy=True)
    near(cupy.asnumpy(moved), softfold.softmax(x, 0, copy=True))


def test_cupys_streams(cupy):
    x = cupy.zeros((64, 5000), "f4")
    for stream in (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.null):
        with stream:
            x.fill(1)  # CuPy compiles its kernels at their first call
            x[:, 0] = 3
            softfold.softmax(x)
            cupy.cuda.Device().synchronize()
            # ExternalStream(0) would be one of torch's own.
            same = torch.cuda.ExternalStream(stream.ptr) if stream.ptr else torch.cuda.default_stream()
            with torch.cuda.stream(same):
                torch.cuda._sleep(200_000_000)
            x.fill(1)
            x[:, 0] = 3
            y = softfold.softmax(x)
            assert not stream.done
            stream.synchronize()
        near(cupy.asnumpy(y), softfold.softmax(cupy.asnumpy(x)))
        x.fill(0)
        cupy.cuda.Device().synchronize()
    other = cupy.cuda.Stream(non_blocking=True)
    y = softfold.softmax(x, stream=other)
    other.synchronize()
    near(cupy.asnumpy(y), softfold.softmax(cupy.asnumpy(x)))


def test_cupys_managed_memory(cupy):
    with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
        x = cupy.arange(12, dtype="f4").reshape(3, 4)
        y = softfold.softmax(x)
    near(cupy.asnumpy(y), softfold.softmax(cupy.asnumpy(x)))


# ---- JAX ----


@pytest.fixture(scope="module")
def jax():
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no CUDA device here")
    return jax


def test_jax(jax):
    import softfold.jax as sj

    x = np.random.default_rng(3).normal(size=(3, 400)).astype("f4")
    j = jax.numpy.asarray(x)
    kept = x > -0.5
    for name in ("softmax", "log_softmax", "logsumexp", "logcumsumexp"):
        ours = getattr(sj, name)
        near(np.asarray(jax.jit(ours)(j)), getattr(softfold, name)(x))
        near(np.asarray(ours(j, mask=kept)), getattr(softfold, name)(x, mask=kept))
        gradient = jax.jit(jax.grad(lambda j: ours(j, mask=kept, empty_row="zero").sum()
                                    if name == "softmax" else ours(j)[..., -1].sum()))  # fmt: skip
        with jax.default_device(jax.devices("cpu")[0]):
            expected = np.asarray(gradient(jax.numpy.asarray(x)))
        near(np.asarray(gradient(j)), expected, 10)
    p, columns = jax.jit(lambda j: sj.softmax_topk(j, 5))(j)
    expected, expected_columns = softfold.softmax_topk(x, 5)
    near(np.asarray(p), expected)
    np.testing.assert_array_equal(columns, expected_columns)
    np.testing.assert_array_equal(
        jax.jit(lambda j: sj.sample(j, seed=np.arange(3), draws=7))(j),
        softfold.sample(x, seed=np.arange(3), draws=7),
    )
    with pytest.raises(TypeError, match="by softfold.jax only"):
        softfold.softmax(j)

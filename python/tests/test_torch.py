# SPDX-License-Identifier: Apache-2.0
"""softfold.torch: gradients, operators, torch.compile; and torch's own functions beside softfold's."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import softfold  # noqa: E402
import softfold.torch as st  # noqa: E402

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
TOLERANCE = {dtype: {"rtol": 2e-2, "atol": 1e-2} for dtype in (torch.float16, torch.bfloat16)}
FUNCTIONS = {
    "softmax": lambda x: st.softmax(x, scale=0.7),
    "log_softmax": lambda x: st.log_softmax(x, scale=0.7),
    "logsumexp": lambda x: st.logsumexp(x, scale=0.7),
    "softmax_topk": lambda x: st.softmax_topk(x, 3, scale=0.7)[0],
    "logcumsumexp": lambda x: st.logcumsumexp(x, scale=0.7),
}
TORCHS = {
    "softmax": lambda x: torch.softmax(0.7 * x, -1),
    "log_softmax": lambda x: torch.log_softmax(0.7 * x, -1),
    "logsumexp": lambda x: torch.logsumexp(0.7 * x, -1),
    "softmax_topk": lambda x: torch.softmax(0.7 * x, -1).topk(3)[0],
    "logcumsumexp": lambda x: torch.logcumsumexp(0.7 * x, -1),
}


def rows(dtype=torch.float64, shape=(4, 7), gradient=False):
    x = torch.from_numpy(np.random.default_rng(4).normal(size=shape)).to(dtype)
    return x.requires_grad_(gradient)


def torchs_own(name, x, arguments, keywords):
    """A case of torch's own tests by softfold."""
    if name == "topk":
        k, axis, *_ = *arguments, -1
        return softfold.topk(x, k, axis, copy=True)
    if name == "logsumexp":
        axes, keep = arguments
        if len(axes) == x.dim() > 1:  # of all elements
            return softfold.logsumexp(x.reshape(-1)).reshape([1] * x.dim() if keep else [])
        (axis,) = axes
        lse = softfold.logsumexp(x, axis, copy=True)
        return lse.unsqueeze(axis) if keep else lse
    (axis,) = arguments
    return getattr(softfold, name)(x, axis, copy=True)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "logcumsumexp", "topk"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_cases_of_torchs_own_tests(name, dtype):
    from torch.testing._internal.common_methods_invocations import op_db

    (operator,) = [op for op in op_db if op.name == name and op.variant_test_name == ""]
    compared = 0
    for case in operator.sample_inputs("cpu", dtype):
        x = case.input
        if x.dim() == 0:
            with pytest.raises(ValueError, match="x is of shape"):
                torchs_own(name, x, case.args, case.kwargs)
            continue
        ours = torchs_own(name, x, case.args, case.kwargs)
        theirs = operator.op(x, *case.args, **case.kwargs)
        if name == "topk":  # equal elements are in another order there
            (ours, columns), (theirs, _) = ours, theirs
            axis = case.args[1] if len(case.args) > 1 else -1
            assert torch.equal(x.gather(axis, columns), ours)
        torch.testing.assert_close(ours, theirs, **TOLERANCE.get(dtype, {}))
        compared += 1
    assert compared >= 2


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_beside_torch(name, dtype):
    x = rows(dtype, gradient=True)
    ours, theirs = FUNCTIONS[name](x), TORCHS[name](x)
    tolerance = TOLERANCE.get(dtype, {})
    torch.testing.assert_close(ours, theirs, **tolerance)
    weights = torch.linspace(-1, 1, ours.numel(), dtype=dtype).reshape(ours.shape)
    (dx,) = torch.autograd.grad((ours * weights).sum(), x)
    (expected,) = torch.autograd.grad((theirs * weights).sum(), x)
    torch.testing.assert_close(dx, expected, **tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    x = rows(gradient=True)
    assert torch.autograd.gradcheck(FUNCTIONS[name], (x,))
    assert torch.autograd.gradgradcheck(FUNCTIONS[name], (x,))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operators(name):
    arguments = (3,) if name == "softmax_topk" else ()
    operator = getattr(torch.ops.softfold, name).default
    for x in (rows(gradient=True), rows(torch.bfloat16), rows(torch.float32, (2, 3, 5), True)):
        torch.library.opcheck(operator, (x, *arguments), {"scale": 0.5})
    if name != "softmax_topk":
        wide = {"out_dtype": torch.float32}
        torch.library.opcheck(operator, (rows(torch.bfloat16, gradient=True), *arguments), wide)


@pytest.mark.parametrize("name", ["softmax_backward", "log_softmax_backward"])
def test_operators_of_gradients(name):
    operator = getattr(torch.ops.softfold, name).default
    torch.library.opcheck(operator, (rows(), rows()), {"scale": 0.5})


def test_compiled_in_one_graph():
    def loss(x):
        p, columns = st.softmax_topk(2 * x, 3)
        return (
            (p * columns).sum()
            + st.softmax(x).square().sum()
            + st.log_softmax(x)[..., 0].sum()
            + st.logsumexp(x).sum()
            + st.logcumsumexp(x).square().sum()
        )

    x = rows(torch.float32, gradient=True)
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(compiled(x), loss(x))
    (found,) = torch.autograd.grad(compiled(x), x)
    (expected,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(found, expected)
    assert torch._dynamo.explain(loss)(x).graph_break_count == 0


@pytest.mark.parametrize("strict", [True, False])
def test_exported(strict):
    class Model(torch.nn.Module):
        def forward(self, x):
            return st.softmax_topk(st.log_softmax(x), 2)

    x = rows(torch.float32)
    exported = torch.export.export(Model(), (x,), strict=strict)
    operators = {node.target for node in exported.graph.nodes if node.op == "call_function"}
    assert torch.ops.softfold.log_softmax.default in operators
    torch.testing.assert_close(exported.module()(x), Model()(x))


def test_mapped():
    x = rows(torch.float32, (3, 4, 5))
    torch.testing.assert_close(torch.vmap(st.softmax)(x), st.softmax(x))
    torch.testing.assert_close(torch.vmap(st.softmax, in_dims=1)(x), st.softmax(x).movedim(1, 0))
    p, columns = torch.vmap(lambda r: st.softmax_topk(r, 2))(x)
    torch.testing.assert_close((p, columns), st.softmax_topk(x, 2))


def test_an_empty_row_has_no_gradient():
    x = torch.full((1, 3), -torch.inf, requires_grad=True)
    st.logsumexp(x).sum().backward()
    assert (x.grad == 0).all()
    for function in (st.softmax, lambda x, **o: st.softmax_topk(x, 2, **o)[0]):
        (dx,) = torch.autograd.grad(function(x, empty_row="zero").sum(), x)
        assert (dx == 0).all()


def test_a_gradient_is_never_lost():
    x = rows(gradient=True)
    with pytest.raises(ValueError, match="x.requires_grad is True.*softfold.torch"):
        softfold.softmax(x)
    with torch.no_grad():
        assert not softfold.softmax(x).requires_grad
    assert softfold.softmax(x.detach()).requires_grad is False
    assert st.softmax(x).requires_grad
    out = torch.empty(4, 7, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match="out.requires_grad"):
        softfold.softmax(x.detach(), out=out)


def test_wide_results_have_narrow_gradients():
    x = rows(torch.bfloat16, gradient=True)
    for function in (st.softmax, st.log_softmax, st.logsumexp):
        y = function(x, dtype=torch.float32)
        assert y.dtype == torch.float32
        (dx,) = torch.autograd.grad(y.square().sum(), x)
        assert dx.dtype == torch.bfloat16


# ---- edits ----

BITS = torch.tensor([[0b1011010], [0b0111101], [0b1111111], [0b0000110]], dtype=torch.int32)
KEPT = (BITS >> torch.arange(7, dtype=torch.int32) & 1).bool()
EDITS = {
    "mask": {"mask": KEPT},
    "one mask for all": {"mask": KEPT[0]},
    "bits": {"mask": BITS},
    "lengths": {"lengths": torch.tensor([3, 7, 1, 5])},
    "causal": {"causal": "bottom_right"},
    "window": {"causal": "bottom_right", "window": 2},
    "softcap": {"softcap": 1.5},
    "all": {
        "mask": KEPT.to(torch.uint8), "lengths": torch.tensor([6, 7, 5, 6], dtype=torch.int32),
        "causal": "bottom_right", "softcap": 2.0,
    },
}  # fmt: skip


def edited(x, mask=None, lengths=None, causal=None, window=0, softcap=0.0, bias=None):
    """The edited row by torch's own operations, -inf where it is removed."""
    if bias is not None:
        x = x + bias
    if softcap:
        x = softcap * torch.tanh(x / softcap)
    columns = torch.arange(x.shape[-1])
    kept = torch.ones(x.shape, dtype=torch.bool)
    if mask is not None:
        kept &= KEPT if mask.dtype == torch.int32 else mask != 0
    if lengths is not None:
        kept &= columns < lengths[:, None]
    if causal:
        last = torch.arange(x.shape[-2])[:, None] + x.shape[-1] - x.shape[-2]
        kept &= columns <= last
        if window:
            kept &= columns > last - window
    return torch.where(kept, x, -torch.inf), kept


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "logcumsumexp"])
@pytest.mark.parametrize("edit", EDITS)
def test_edited_rows_beside_torch(name, edit):
    """Values and gradients, of x and of the bias, of the first and the second order."""
    x = rows(gradient=True)
    bias = rows(shape=(5, 7))[4].clone().requires_grad_()
    ours = getattr(st, name)(x, scale=0.7, bias=bias, **EDITS[edit])
    z, kept = edited(x, bias=bias, **EDITS[edit])
    theirs = {**TORCHS, "log_softmax": lambda z: torch.log_softmax(0.7 * z, -1)}[name](z)
    torch.testing.assert_close(ours, theirs)
    exists = torch.isfinite(ours)
    weights = torch.linspace(-1, 1, ours.numel(), dtype=x.dtype).reshape(ours.shape)

    def gradients(y):
        loss = (torch.where(exists, y, 0) * weights).sum()
        return torch.autograd.grad(loss, (x, bias), retain_graph=True)

    for found, expected in zip(gradients(ours), gradients(theirs)):
        torch.testing.assert_close(found, torch.nan_to_num(expected))
    assert (gradients(ours)[0][~kept] == 0).all()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("edit", ["all", "window"])
def test_gradients_of_edited_rows(name, edit):
    x = rows(gradient=True)
    bias = rows(shape=(5, 7))[4].clone().requires_grad_()
    _, kept = edited(x, **EDITS[edit])

    def call(x, bias):
        if name == "softmax_topk":
            return st.softmax_topk(x, 3, bias=bias, empty_row="zero", **EDITS[edit])[0]
        y = getattr(st, name)(x, bias=bias, **EDITS[edit])
        return torch.where(torch.isneginf(y), 0, y)

    assert torch.autograd.gradcheck(call, (x, bias))
    assert torch.autograd.gradgradcheck(call, (x, bias))


def test_what_is_removed_reaches_no_gradient():
    x = rows(torch.float32, gradient=True)
    for function in (st.softmax, st.log_softmax, st.logsumexp, st.logcumsumexp):
        y = function(torch.where(KEPT, x, torch.nan), mask=KEPT, softcap=3.0)
        exists = torch.isfinite(y)
        (dx,) = torch.autograd.grad(torch.where(exists, y, 0).square().sum(), x)
        (expected,) = torch.autograd.grad(
            torch.where(exists, function(x, mask=KEPT, softcap=3.0), 0).square().sum(), x
        )
        torch.testing.assert_close(dx, expected)


def test_logcumsumexp_without_elements_has_no_gradient():
    x = torch.tensor([[-torch.inf, -torch.inf, 0.0, 1.0]], requires_grad=True)
    y = st.logcumsumexp(x)
    (dx,) = torch.autograd.grad(y[..., 2:].sum(), x)
    torch.testing.assert_close(dx, torch.tensor([[0.0, 0.0, 1.2689414, 0.7310586]]))
    (dx,) = torch.autograd.grad(st.logcumsumexp(x).sum(), x)
    torch.testing.assert_close(dx, torch.tensor([[0.0, 0.0, 1.2689414, 0.7310586]]))


@pytest.mark.parametrize("options", [{"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}])
def test_gradients_of_logcumsumexp(options):
    x = rows(gradient=True)

    def call(x):
        y = st.logcumsumexp(x, scale=-0.5, **options)
        return torch.where(torch.isneginf(y), 0, y)

    assert torch.autograd.gradcheck(call, (x,))
    assert torch.autograd.gradgradcheck(call, (x,))
    large = (100 * rows(torch.float32)).requires_grad_()
    (dx,) = torch.autograd.grad(st.logcumsumexp(large)[..., -1].sum(), large)
    torch.testing.assert_close(dx, torch.softmax(large, -1))


def penalties_of(x):
    row_begins = torch.arange(0, 2 * x.shape[0] + 1, 2)
    columns = torch.tensor([0, 3] * x.shape[0])
    return {
        "penalties": (row_begins, columns, torch.ones(2 * x.shape[0], dtype=torch.int32)),
        "repetition": torch.tensor([1.5]),
        "presence": torch.linspace(0, 1, x.shape[0]),
    }


@pytest.mark.parametrize("name", [*FUNCTIONS, "sample"])
def test_operators_with_edits(name):
    x = rows(torch.float32)
    k = (3,) if name == "softmax_topk" else ()
    for edits in (*EDITS.values(), penalties_of(x)):
        tensors, numbers = st._of_edits(name, dict(edits))
        torch.library.opcheck(getattr(torch.ops.softfold, name).default, (x, *k, *tensors), numbers)
        found, expected = (getattr(of, name)(x, *k, **edits) for of in (st, softfold))
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    if name == "sample":
        return
    bias = rows(torch.float32, gradient=True)
    operator = getattr(torch.ops.softfold, name).default
    torch.library.opcheck(operator, (x.requires_grad_(), *k, bias, KEPT), {"softcap": 2.0})


def test_penalties_have_no_gradient():
    x = rows(torch.float32)
    with pytest.raises(ValueError, match="penalties have no gradient"):
        st.softmax(x.clone().requires_grad_(), **penalties_of(x))
    with torch.no_grad():
        y = st.softmax(x.clone().requires_grad_(), **penalties_of(x))
    torch.testing.assert_close(y, softfold.softmax(x, **penalties_of(x)))


def test_sampled_in_a_compiled_step():
    x = rows(torch.float32, (3, 50))
    seeds = torch.arange(3)
    kept = x > -1

    def step(x, offset):
        tokens, log_p, columns, log_ps = st.sample(
            2 * x, temperature=0.7, top_p=0.9, seed=seeds, offset=offset, draws=4, mask=kept,
            with_log_probability=True, with_top=2, index_dtype=torch.int32,
        )  # fmt: skip
        return tokens + 1, log_p, columns, log_ps

    compiled = torch.compile(step, fullgraph=True)
    for offset in (0, 1, 2, 7):
        for found, expected in zip(compiled(x, offset), step(x, offset)):
            torch.testing.assert_close(found, expected, equal_nan=True)
    assert torch._dynamo.explain(step)(x, 3).graph_break_count == 0
    assert compiled(x, 0)[0].dtype == torch.int32


def test_seeds_are_64_bits():
    x = rows(torch.float32, (3, 50))
    sample = torch.compile(lambda x: st.sample(x, seed=2**64 - 5, offset=2**63 + 1), fullgraph=True)
    torch.testing.assert_close(sample(x), softfold.sample(x, seed=2**64 - 5, offset=2**63 + 1))


def test_tokens_have_no_gradient():
    x = rows(torch.float32, gradient=True)
    with pytest.raises(ValueError, match="sample: x.requires_grad is True"):
        st.sample(x)
    with torch.no_grad():
        assert st.sample(x).shape == (4, 1)


def test_edits_in_one_graph():
    lengths = torch.tensor([3, 7, 1, 5])

    def loss(x, bias):
        y = st.softmax(x, bias=bias, causal="bottom_right", softcap=3.0)
        lse = st.logsumexp(x, lengths=lengths, mask=KEPT[0])
        return y.square().sum() + torch.where(torch.isfinite(lse), lse, 0).sum()

    x, bias = rows(torch.float32, gradient=True), torch.zeros(7, requires_grad=True)
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(compiled(x, bias), loss(x, bias))
    for found, expected in zip(
        torch.autograd.grad(compiled(x, bias), (x, bias)), torch.autograd.grad(loss(x, bias), (x, bias))
    ):
        torch.testing.assert_close(found, expected)


def test_mapped_edits():
    x = rows(torch.float32, (3, 4, 7))
    one_by_one = lambda call, *given: torch.stack([call(*each) for each in zip(*given)])  # noqa: E731

    def close(call, *given, in_dims=0):
        torch.testing.assert_close(
            torch.vmap(call, in_dims=in_dims)(*given),
            one_by_one(
                call,
                *[[g] * 3 if d is None else g for g, d in zip(given, in_dims or [0] * len(given))]
                if in_dims != 0 else given,
            ),
            equal_nan=True,
        )  # fmt: skip

    close(lambda x: st.softmax(x, mask=KEPT), x)
    close(lambda x: st.softmax(x, mask=KEPT[0]), x)
    close(lambda x: st.softmax(x, causal="top_left"), x)
    close(lambda x, b: st.softmax(x, bias=b), x, x[:, 0].contiguous())
    close(lambda x, b: st.softmax(x, bias=b), x, x.flip(0))
    close(lambda x, n: st.logsumexp(x, lengths=n), x, torch.arange(12).reshape(3, 4))
    close(lambda x, n: st.logcumsumexp(x, lengths=n), x, torch.arange(4), in_dims=(0, None))
    close(lambda x, seeds: st.sample(x, seed=seeds), x, torch.arange(12).reshape(3, 4))
    with pytest.raises(ValueError, match="without an axis of queries"):
        torch.vmap(lambda x: st.softmax(x, causal="top_left"))(x[0])
    with pytest.raises(ValueError, match="penalties cannot be mapped over"):
        torch.vmap(lambda x: st.softmax(x, **penalties_of(x)))(x)


@pytest.mark.parametrize(
    "error, words, edits",
    [
        (TypeError, "softmax: mask is <class 'list'>, expected a torch.Tensor", {"mask": [True]}),
        (TypeError, "softmax: penalties is <class 'list'>, expected a tuple", {"penalties": [1]}),
        (TypeError, "softmax: there is no argument temperature", {"temperature": 1.0}),
        (ValueError, "softmax: lengths is of shape", {"lengths": torch.ones(5, dtype=torch.int64)}),
        (ValueError, "softmax: window is 3", {"window": 3}),
    ],
)
def test_edits_that_are_wrong(error, words, edits):
    with pytest.raises(error, match=words):
        st.softmax(rows(gradient=True), **edits)


def test_what_is_refused():
    for x in (rows(), rows(gradient=True)):
        with pytest.raises(ValueError, match="softmax: dim is 0, expected -1 or 1"):
            st.softmax(x, 0)
    for x in (torch.empty(2, 3, device="meta"), torch.eye(3).to_sparse()):
        with pytest.raises(TypeError, match="x is a torch.Tensor whose memory cannot be read"):
            softfold.softmax(x)
    with pytest.raises(ValueError, match="x.strides is"):
        st.softmax(rows().t())


def test_subclasses_and_parameters():
    x = torch.nn.Parameter(rows(torch.float32))
    st.softmax(x)[0, 0].backward()
    assert x.grad is not None
    with torch.no_grad():
        assert type(softfold.softmax(x)) is torch.Tensor


# ---- attention ----

QUERY, KEY, VALUE = (
    torch.from_numpy(np.random.default_rng(8).normal(size=shape)).float()
    for shape in ((2, 4, 5, 8), (2, 2, 9, 8), (2, 2, 9, 12))
)
SCORES = {
    "bias": torch.linspace(-1, 1, 9),
    "alibi_slopes": torch.linspace(0, 1, 4),
    "key_lengths": torch.tensor([9, 6]),
    "sinks": torch.linspace(-1, 1, 4),
}
NUMBERS = {"causal": "bottom_right", "scale": 0.5, "softcap": 3.0, "window_left": 4}


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # of torch.vmap
def test_attention_is_the_packages():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(query):
        return st.attention(2 * query, KEY, VALUE, with_lse=True, **SCORES, **NUMBERS)

    expected = softfold.attention(2 * QUERY, KEY, VALUE, with_lse=True, **SCORES, **NUMBERS)
    eager = st.attention(2 * QUERY, KEY, VALUE, with_lse=True, **SCORES, **NUMBERS)
    for found in (eager, compiled(QUERY)):
        for y, exact in zip(found, expected):
            assert torch.equal(y, exact)
    halves = [x.half() for x in (QUERY, KEY, VALUE)]
    wide = torch.compile(st.attention, fullgraph=True, backend="aot_eager")(*halves, dtype=torch.float32)
    assert torch.equal(wide, softfold.attention(*halves, out_dtype="float32"))
    packed = {
        "query_starts": torch.tensor([0, 2, 5]), "key_starts": torch.tensor([0, 4, 9]), "most_keys": 5,
    }  # fmt: skip
    first = (QUERY[0], KEY[0], VALUE[0])
    alike = torch.compile(st.attention, fullgraph=True, backend="aot_eager")(*first, **packed)
    assert torch.equal(alike, softfold.attention(*first, **packed))
    each = [st.attention(q, KEY[0], VALUE[0], **NUMBERS) for q in QUERY]
    mapped = torch.vmap(lambda q: st.attention(q, KEY[0], VALUE[0], **NUMBERS))(QUERY)
    assert torch.equal(mapped, torch.stack(each))


def test_the_operator_of_attention():
    operator = torch.ops.softfold.attention.default
    for tensors in ((QUERY, KEY, VALUE), tuple(x.bfloat16().movedim(1, 2) for x in (KEY, KEY, VALUE))):
        torch.library.opcheck(operator, tensors, NUMBERS)
    torch.library.opcheck(operator, (QUERY, KEY, VALUE, *SCORES.values()), {"out_dtype": torch.float32})


@pytest.mark.parametrize("compiles", [False, True])
@pytest.mark.parametrize("name", ["query", "key", "value", "bias"])
def test_attention_has_no_gradient(name, compiles):
    given = {"query": QUERY, "key": KEY, "value": VALUE, "bias": SCORES["bias"]}
    given[name] = given[name].clone().requires_grad_()

    def call():
        return st.attention(**given)

    with torch.no_grad():
        expected = call()
    function = torch.compile(call, backend="aot_eager") if compiles else call
    with pytest.raises(ValueError, match=f"{name}.requires_grad is True, and attention has no gradient"):
        function()
    if not compiles:
        with pytest.raises(ValueError, match=f"attention: {name}.requires_grad is True.*no_grad"):
            softfold.attention(**given)
    given[name] = given[name].detach()
    assert torch.equal(call(), expected)

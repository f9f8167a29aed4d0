# SPDX-License-Identifier: Apache-2.0
"""softfold.torch: gradients, operators, torch.compile; and torch's own functions beside softfold's."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import softfold  # noqa: E402
import softfold.torch as st  # noqa: E402

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FUNCTIONS = {
    "softmax": lambda x: st.softmax(x, scale=0.7),
    "log_softmax": lambda x: st.log_softmax(x, scale=0.7),
    "logsumexp": lambda x: st.logsumexp(x, scale=0.7),
    "softmax_topk": lambda x: st.softmax_topk(x, 3, scale=0.7)[0],
}
TORCHS = {
    "softmax": lambda x: torch.softmax(0.7 * x, -1),
    "log_softmax": lambda x: torch.log_softmax(0.7 * x, -1),
    "logsumexp": lambda x: torch.logsumexp(0.7 * x, -1),
    "softmax_topk": lambda x: torch.softmax(0.7 * x, -1).topk(3)[0],
}


def rows(dtype=torch.float64, shape=(4, 7), gradient=False):
    x = torch.from_numpy(np.random.default_rng(4).normal(size=shape)).to(dtype)
    return x.requires_grad_(gradient)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_beside_torch(name, dtype):
    x = rows(dtype, gradient=True)
    ours, theirs = FUNCTIONS[name](x), TORCHS[name](x)
    tolerance = {"rtol": 2e-2, "atol": 1e-2} if dtype.itemsize == 2 else {}
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
        )

    x = rows(torch.float32, gradient=True)
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(compiled(x), loss(x))
    (found,) = torch.autograd.grad(compiled(x), x)
    (expected,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(found, expected)
    assert torch._dynamo.explain(loss)(x).graph_break_count == 0


def test_exported():
    class Model(torch.nn.Module):
        def forward(self, x):
            return st.softmax_topk(st.log_softmax(x), 2)

    x = rows(torch.float32)
    exported = torch.export.export(Model(), (x,))
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

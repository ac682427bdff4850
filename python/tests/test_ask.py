"""Plans of operators before a step runs."""

import gc
import json
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import memopt.torch
from memopt.torch import OperatorPlan, PlanError
from memopt.torch._allocator import Allocator
from memopt.torch._compile import _cost, _solve
from memopt.torch._compile._backend import Backend, Partitioner
from memopt.torch._device import named
from memopt.torch._engine import in_python
from memopt.torch._measure import Meter
from memopt.torch._operators import difference
from memopt.torch._replay import Replay


class Attention(nn.Module):
    def __init__(self, width=32, heads=2):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, n, w))


class Net(nn.Module):
    """Blocks of attention and a perceptron, with a loss."""

    def __init__(self, width=32, p=0.0, with_loss=True):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(Attention(width), nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(p))
            for _ in range(3)
        )
        self.downs = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(3))
        self.with_loss = with_loss

    def forward(self, x):
        for block, down in zip(self.blocks, self.downs, strict=True):
            x = x + down(block(x))
        return x.square().mean() if self.with_loss else x


def ask(model, x, **options):
    return memopt.torch.plan(model, x, select="operators", backend="aot_eager", **options)


def peak_of(compiled, model, x, loss=None):
    def step():
        model.zero_grad()
        y = compiled(x)
        (y if loss is None else loss(y)).backward()

    step()
    model.zero_grad()
    gc.collect()
    meter = Meter("cpu")
    meter.start()
    step()
    return meter.stop().peak


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return Net().train(), torch.randn(4, 48, 32)


@pytest.fixture(scope="module")
def plan(net):
    return ask(*net, budget="60%")


def test_promise_is_kept(net, plan, tmp_path):
    """The plan is made on fake tensors, and the step that is compiled by its file has the peak that it promises."""
    model, x = net
    assert plan.overhead > 0 and plan.predicted_peak_bytes <= 0.6 * plan.baseline_peak_bytes
    path = tmp_path / "plan.json"
    plan.save(path)
    compiled = memopt.torch.compile(model, plan=path, backend="aot_eager")
    assert abs(peak_of(compiled, model, x) - plan.predicted_peak_bytes) <= 8  # the loss and its gradient
    assert compiled.memopt.predicted_peak_bytes == plan.predicted_peak_bytes
    assert compiled.memopt.overhead == pytest.approx(plan.overhead)
    assert compiled.memopt.bound == pytest.approx(plan.bound)
    expected = torch.autograd.grad(model(x), list(model.parameters()))
    model.zero_grad()
    compiled(x).backward()
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), expected, strict=True))


def test_the_model_stays_as_it_is(net):
    model, x = net
    before = {n: (p.data_ptr(), p.grad is None) for n, p in model.named_parameters()}
    state = torch.get_rng_state()
    ask(model, x)
    assert before == {n: (p.data_ptr(), p.grad is None) for n, p in model.named_parameters()}
    assert torch.equal(state, torch.get_rng_state())


def test_files(plan, tmp_path):
    path = tmp_path / "plan.json"
    plan.save(path)
    again = OperatorPlan.load(path)
    assert (again.digest, str(again)) == (plan.digest, str(plan))
    assert [h.bytes for h in again.at_peak()] == [h.bytes for h in plan.at_peak()]
    raw = json.loads(path.read_text())
    for change, message in [
        ({"format": "memopt-modules"}, "a plan of modules, for memopt.torch.apply"),
        ({"format": "other"}, "no plan of operators"),
        ({"version": 2}, "of version 2, this package reads 1"),
        ({"graphs": [{"instance": {}, "steps": []}]}, "the plan is damaged: KeyError"),
    ]:
        with pytest.raises(PlanError, match=message):
            OperatorPlan.load({**raw, **change})
    (tmp_path / "cut.json").write_text(path.read_text()[:100])
    with pytest.raises(PlanError, match=r"cut\.json: wanted a plan"):
        OperatorPlan.load(tmp_path / "cut.json")
    with pytest.raises(PlanError, match=r"memopt\.torch\.compile"):
        memopt.torch.apply(nn.Linear(1, 1), str(path))


def test_peak_has_modules_and_lines(plan):
    held = plan.at_peak()
    assert sum(h.bytes for h in held) == plan.predicted_peak_bytes
    assert {h.module for h in held} & {"blocks.0.2", "blocks.1.2", "blocks.2.2", "blocks.2.3"}
    assert any(h.source.startswith("test_ask.py:") or "/test_ask.py:" in h.source for h in held)
    assert all(h.op.startswith("aten.") for h in held if not h.value.startswith("tangents"))


def test_another_graph_is_refused(net, plan):
    model, x = net
    for other, message in [
        (lambda: memopt.torch.compile(model, plan=plan, backend="aot_eager")(x[:2]), "in the plan"),
        (lambda: memopt.torch.compile(nn.Linear(32, 32), plan=plan, backend="aot_eager")(x), "plan anew"),
    ]:
        torch._dynamo.reset()
        with pytest.raises(Exception, match="is for another graph") as e:
            other()
        assert message in str(e.value)
    with pytest.raises(Exception, match="is for the backend 'aot_eager', the model is compiled for 'inductor'"):
        memopt.torch.compile(model, plan=plan)(x)
    with pytest.raises(ValueError, match="in place of a budget"):
        memopt.torch.compile(model, plan=plan, budget="60%")


def test_a_loss_outside_counts(net):
    """A loss that no graph has takes memory between the halves."""
    _, x = net
    torch.manual_seed(0)
    model = Net(with_loss=False).train()

    def loss(y):
        return (y.exp() * 2).log().square().mean()

    plan = ask(model, x, loss=loss, budget="70%")
    compiled = memopt.torch.compile(model, plan=plan, backend="aot_eager")
    peak = peak_of(compiled, model, x, loss)
    assert peak - 8 <= plan.predicted_peak_bytes <= 1.1 * peak
    with pytest.raises(memopt.torch.BudgetError, match="no schedule of the step fits"):
        ask(model, x, loss=loss, budget="5%")


def test_curve_falls(plan):
    points = plan.curve([1.0, 0.7, 0.6, 0.05], time_limit=0.3)
    assert [p.fits for p in points] == [True, True, True, False]
    assert all(p.peak_bytes <= p.budget_bytes for p in points[:3])
    assert points[0].overhead <= points[1].overhead <= points[2].overhead
    assert points[2].seconds > points[0].seconds


def test_a_gpu_that_is_not_there(net):
    """The kernels of CUDA are chosen, and blocks and segments of its allocator count."""
    model, x = net
    plan = ask(Net().bfloat16().train(), x.bfloat16(), device="H100", budget="80%", optimizer=None)
    ops = [n["tags"]["op"] for n in plan.graphs[0].instance["nodes"] if "tags" in n]
    assert sum("_scaled_dot_product_flash_attention.default" in op for op in ops) >= 3
    assert (plan.device, plan.profile, plan.fits) == ("cuda", "h100", True)
    sizes = [v["size"] for n in plan.graphs[0].instance["nodes"] for v in n.get("outputs", [n])]
    assert all(s % 512 == 0 for s in sizes)
    assert plan.predicted_total_bytes <= plan.predicted_reserved_bytes
    assert plan.predicted_reserved_bytes % (2 << 20) == 0
    flash = next(n for n in plan.graphs[0].instance["nodes"] if "flash_attention_backward" in n["id"])
    assert flash["workspace"] == 4 * 4 * 2 * 128 * (1 + 32)
    with pytest.raises(Exception, match="is for the device 'cuda', the model is compiled for 'cpu'"):
        memopt.torch.compile(model, plan=plan, backend="aot_eager")(x)
    with pytest.raises(PlanError, match="no device has this name; wanted one of a10, a100"):
        ask(model, x, device="H1000")


def test_random_operators_of_cuda(net):
    _, x = net
    model = Net(p=0.5).train()
    ops = {n["tags"]["op"] for n in ask(model, x, device="a100").graphs[0].instance["nodes"] if "tags" in n}
    assert "aten.native_dropout.default" in ops
    assert "aten._scaled_dot_product_efficient_attention.default" in ops  # of float32


@pytest.mark.parametrize("name", ["plain", "tied", "broadcast", "several"])
def test_backward_in_python(name):
    """The gradients of the walk in Python are those of autograd's engine, bit for bit."""
    torch.manual_seed(0)
    a, b = (torch.randn(5, 5, requires_grad=True) for _ in range(2))
    x = torch.randn(3, 5)
    outs = {
        "plain": lambda: [F.gelu(F.layer_norm(x @ a, [5])) @ b],
        "tied": lambda: [(x @ a).relu() @ a.t() + (x @ a) * b[0]],
        "broadcast": lambda: [x[:, None] * a[None, :3] + b.sum(0)],
        "several": lambda: [*(x @ a).split([2, 3], 1), (x @ b).double().cumsum(1)],
    }[name]()
    grads = [torch.randn_like(o) for o in outs]
    expected = torch.autograd.grad(outs, [a, b], grads, retain_graph=True, allow_unused=True)
    with in_python():
        given = torch.autograd.grad(outs, [a, b], grads, retain_graph=True, allow_unused=True)
        torch.autograd.backward(outs, grads)
    for g, e, p in zip(given, expected, (a, b), strict=True):
        assert torch.equal(g, e) and torch.equal(p.grad, e)


def test_replay_is_solves(plan):
    """Peaks of replayed schedules are those of solve."""
    for share in (0.9, 0.6):
        instance = {**plan.graphs[0].instance, "budget": int(share * plan.baseline_peak_bytes)}
        answer = _solve.solve(instance, 0.3)
        assert Replay(instance, answer["steps"]).peak_bytes == answer["peak"]


def test_allocator():
    """Small blocks share segments of 2 MiB, blocks below 10 MiB those of 20, larger ones are rounded to 2 MiB."""
    a = Allocator()
    small = [a.take(n) for n in (1, 512, 513)]
    assert (a.allocated, a.reserved) == (512 + 512 + 1024, 2 << 20)
    a.take(2 << 20)
    assert a.reserved == 22 << 20
    a.take(9 << 20)
    assert a.reserved == 22 << 20
    large = a.take(11 << 20)
    assert a.reserved == (22 + 12) << 20
    a.give(large, 11 << 20)
    a.take(12 << 20)
    assert a.reserved == 34 << 20
    for piece, n in zip(small, (1, 512, 513), strict=True):
        a.give(piece, n)
    assert a.take(1 << 20) is small[0]  # free neighbours have become one
    assert a.reserved == 34 << 20


def test_the_key_of_caches_has_the_plan(plan):
    keys = {
        str(Partitioner(Backend(None, None, "inductor", {}, 0, None, None, p), SimpleNamespace(breaks=False)).uuid())
        for p in (None, plan, OperatorPlan.load({**plan.raw, "graphs": []}))
    }
    assert len(keys) == 3


def test_machines():
    h100 = _cost.machine(named("h100"))
    assert h100.flops["bfloat16"] == 9.895e14
    assert h100.flops["float32"] == 6.7e13  # not rounded to TF32
    assert _cost.of_torch("cpu") is _cost.CPU


def test_difference_names_the_first():
    def node(name, size=1, inputs=()):
        return {"id": name, "inputs": list(inputs), "size": size, "cost": 1}

    one = {"nodes": [node("a"), node("b", inputs=["a"])]}
    assert "it has 3 nodes, the plan 2" in difference(one, {"nodes": [*one["nodes"], node("c")]})
    assert "b reads no value, in the plan a" in difference(one, {"nodes": [node("a"), node("b")]})
    other = {"nodes": [node("a", 2), one["nodes"][1]]}
    assert "a makes a of 2 bytes, in the plan a of 1 bytes" in difference(one, other)
    assert "it has c (c) where the plan has a (a)" in difference(one, {"nodes": [node("c")]})

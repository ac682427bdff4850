"""Steps that are traced for a GPU that is not there."""

import json
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from memopt.torch import PlanError, _trace, measure, plan, trace
from memopt.torch._fake import fake_copy
from memopt.torch._trace import TraceError
from models import Net, Twice
from test_plan import gpt2, llama, t5, vit


def both(model, given, loss=None, labels=None, autocast=None):
    """The step on fake tensors of the CPU, by the engine of autograd and by that in Python."""
    traces = []
    for away in (False, True):
        mode, batch = FakeTensorMode(allow_non_fake_inputs=True), _trace._Batch(given, labels)
        clone, inputs = fake_copy(model, mode), batch.fake(mode, torch.device("cpu"))
        recorder = _trace._Recorder(clone, inputs, mode, loss, autocast, None, watch=True, away=away)
        traces.append(recorder.trace(model, batch, lambda _, mode=mode: mode))
    return traces


class Odd(nn.Module):
    """Two leaves with one gradient, a sum in a leaf's strides, a branch that is not read, a checkpoint."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(64, 32)), nn.Parameter(torch.randn(64, 32))
        self.wide, self.block = nn.Parameter(torch.randn(32, 64)), nn.Sequential(nn.Linear(32, 32), nn.Tanh())
        self.free = nn.Parameter(torch.randn(8))

    def forward(self, x):
        x = x @ (self.a + self.b).t() + (x @ self.wide).sigmoid()
        x = checkpoint(self.block, x @ self.a, use_reentrant=False)
        y = checkpoint(self.block, x, use_reentrant=True, preserve_rng_state=False)
        _ = self.free.exp()
        return (F.layer_norm(x + y, (32,)) * x).relu_().square().mean()


@pytest.mark.parametrize(
    ("make", "autocast"), [(gpt2, None), (gpt2, torch.bfloat16), (llama, torch.bfloat16), (t5, None), (vit, None)]
)
def test_engines_agree(make, autocast):
    """Gradients that are computed node by node from Python take the memory of autograd's engine, operator by
    operator."""
    torch.manual_seed(0)
    model, given = make()
    a, b = both(model.train(), given, autocast=autocast)
    assert [s.op for s in a.steps] == [s.op for s in b.steps]
    assert a.peak_bytes == b.peak_bytes
    assert [s.bytes for s in a.storages if s.kept] == [s.bytes for s in b.storages if s.kept]


def test_engines_agree_on_odd_graphs():
    x = torch.randn(16, 32)
    for model, given, loss, labels in (
        (Odd(), (x,), None, None),
        (Net(norm=True), (torch.randn(64, 16),), F.cross_entropy, torch.randint(5, (64,))),
        (Twice(), (torch.randn(64, 16),), lambda y: y.square().sum(), None),
    ):
        a, b = both(model.train(), given, loss, labels)
        assert a.peak_bytes == b.peak_bytes


class Picks(nn.Module):
    """Rows by numbers, the largest of each, and a loss that gathers."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Parameter(torch.randn(512, 64)), nn.Linear(64, 512)

    def forward(self, ids):
        x = self.table[ids]
        y = self.head(x - x.max(-1, keepdim=True)[0])
        return -y.log_softmax(-1).gather(-1, ids[..., None]).mean()


def test_formulas_write_into_zeros():
    """Gradients of picked elements are written into zeros in place, as the step does that is measured."""
    torch.manual_seed(0)
    model, ids = Picks().train(), torch.randint(512, (8, 64))

    def step():
        model.zero_grad(set_to_none=True)
        model(ids).backward()

    p = plan(model, (ids,))
    got = measure(step, show=False).peak_bytes
    assert abs(p.baseline_peak_bytes - p.raw["held_bytes"] - got) <= 0.01 * got


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.25)
        return self.out(y.transpose(1, 2).flatten(2)).square().mean()


def test_casts_and_kernels_of_a_gpu():
    """A step for a GPU has CUDA's kernels of attention and CUDA's casts, where no GPU is there."""
    model, x = Attends().train(), torch.randn(4, 128, 64)
    ops = {s.op for s in trace(model, (x,), device="H100", autocast=torch.bfloat16).steps}
    assert "aten._scaled_dot_product_flash_attention.default" in ops
    assert "aten._scaled_dot_product_flash_attention_backward.default" in ops
    wide, t = trace(model, (x,)), trace(model, (x,), device="H100")
    assert t.device == "cuda" and wide.device == "cpu"
    assert "aten._scaled_dot_product_efficient_attention.default" in {s.op for s in t.steps}
    assert json.loads(t.to_json())["device"] == "cuda"
    assert not torch.is_autocast_enabled("cuda") and not torch.cuda.is_available()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half = trace(model, (x,), device="H100", autocast=torch.bfloat16)
    assert half.peak_bytes < t.peak_bytes
    assert trace(model, (x,), device="cpu").peak_bytes == wide.peak_bytes


@pytest.mark.parametrize("select", ["modules", "operators"])
def test_plans_have_casts(select):
    """A plan for a GPU that is not there has the casts of the step: it was one of float32."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(3)])
    given = {"loss": lambda y: y.float().square().mean(), "select": select, "device": "H100", "backend": "aot_eager"}
    full, half = (plan(model, (torch.randn(512, 64),), autocast=a, **given) for a in (None, torch.bfloat16))
    assert half.baseline_peak_bytes < 0.8 * full.baseline_peak_bytes


def test_modules_are_planned_for_a_gpu():
    model, given = gpt2()
    ids = {"input_ids": given["input_ids"], "labels": given["labels"]}
    p = plan(model.train(), ids, budget="80%", device="H100", autocast=torch.bfloat16)
    assert p.modules and p.predicted_peak_bytes <= 0.8 * p.baseline_peak_bytes


def test_what_no_gpu_says():
    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x):
            return self.a(x).sum() if x.sum() > 0 else self.a(x).mean()

    with pytest.raises(TraceError, match="does not run on fake tensors"):
        trace(Looks(), (torch.randn(2, 4),), device="H100")
    with pytest.raises(PlanError, match="H1000"):
        trace(Looks(), (torch.randn(2, 4),), device="H1000")
    with pytest.raises(TraceError, match="does not require a gradient"):
        trace(nn.Linear(4, 4).requires_grad_(requires_grad=False), (torch.randn(2, 4),), loss=torch.sum, device="H100")

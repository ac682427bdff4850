"""Plans as tags, and the memory policy of torchtitan."""

import gc
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch._functorch._activation_checkpointing import remat_using_tags_for_fwd_loss_bwd_graph_pass as remat
from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from memopt.torch import BudgetError, PlanError
from memopt.torch._measure import Meter
from test_compile import Deep, Pieces

REGISTRY = "torchtitan.experiments.graph_trainer.registry"


def traced():
    """A step of forward, loss and backward as torchtitan traces it, and its inputs."""
    torch.manual_seed(0)
    model = Deep(Pieces())
    names = [n for n, _ in model.named_parameters()]

    def step(*given):
        loss = torch.func.functional_call(model, dict(zip(names, given, strict=False)), (given[-1],))
        setup_stacktrace_preservation_hooks([loss.grad_fn])
        return (loss, *torch.autograd.grad(loss, given[:-1]))

    given = [*model.parameters(), torch.randn(64, 16)]
    with preserve_node_meta():
        return make_fx(step, tracing_mode="fake")(*given), given


@torch.no_grad()
def measured(gm, given):
    gm(*given)
    gc.collect()
    meter = Meter("cpu")
    meter.start()
    out = gm(*given)
    return meter.stop().peak, out


@pytest.fixture
def registry(monkeypatch):
    """torchtitan's registry of policies; a double where it is not installed."""
    monkeypatch.delitem(sys.modules, "memopt.torch.titan", raising=False)
    try:
        import torchtitan.experiments.graph_trainer.registry as found
    except ImportError:
        found = ModuleType(REGISTRY)
        found.MEMORY_POLICY_REGISTRY = {}
        found.register_memory_policy = lambda key: lambda f: found.MEMORY_POLICY_REGISTRY.setdefault(key, f)
        parts = REGISTRY.split(".")
        for i in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(parts[i - 1]))
        monkeypatch.setitem(sys.modules, REGISTRY, found)
    import memopt.torch.titan  # noqa: F401

    return found.MEMORY_POLICY_REGISTRY


def test_policy(registry, monkeypatch, capsys):
    """The pass of PyTorch that recomputes by tags keeps the promise, and every bit."""
    policy = registry["memopt"]
    config = SimpleNamespace(parallelism=SimpleNamespace(fsdp_reshard_after_forward="default"))
    plain, given = traced()
    whole, wanted = measured(plain, given)
    for share in (80, 65):
        monkeypatch.setenv("MEMOPT_BUDGET", f"{share}%")
        gm, _ = traced()
        assert policy(gm, config=config) is gm
        assert "memopt: predicted peak 0." in capsys.readouterr().out
        planned = remat.remat_using_tags_for_fwd_loss_bwd_graph(gm)
        peak, out = measured(planned, given)
        assert all(torch.equal(a, b) for a, b in zip(wanted, out, strict=True))
        assert peak <= share / 100 * whole


def test_promise_is_exact(registry):
    from memopt.torch._compile._policy import mark

    plain, given = traced()
    whole, _ = measured(plain, given)
    gm, _ = traced()
    held = sum(t.nbytes for t in given)
    promise = mark(gm, held + int(0.7 * whole))
    peak, _ = measured(remat.remat_using_tags_for_fwd_loss_bwd_graph(gm), given)
    assert (promise.baseline_peak_bytes, promise.peak_bytes) == (whole, peak)
    assert promise.recomputed > 0 and 0 < promise.overhead < 0.2


def test_refusals(registry, monkeypatch):
    gm, _ = traced()
    monkeypatch.delenv("MEMOPT_BUDGET", raising=False)
    with pytest.raises(PlanError, match="set MEMOPT_BUDGET"):
        registry["memopt"](gm, config=SimpleNamespace())
    monkeypatch.setenv("MEMOPT_BUDGET", "5%")
    with pytest.raises(BudgetError, match="no choice of kept values fits: the lowest peak that was found is"):
        registry["memopt"](gm, config=SimpleNamespace())
    for n in gm.graph.nodes:
        n.meta.pop("autograd_backward", None)
    with pytest.raises(PlanError, match="has no backward half"):
        registry["memopt"](gm, config=SimpleNamespace())

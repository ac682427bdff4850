"""The differences between versions of PyTorch: each in the form that older versions have, on the one that is here."""

import pytest
import torch
from torch._functorch import aot_autograd
from torch._functorch import config as functorch_config

import memopt.torch
from memopt.torch._compile import _differences, _joint, _whole
from memopt.torch._compile._part import Part
from memopt.torch._compile._solve import in_order, peak
from memopt.torch._compile._whole import Place, Run, Whole
from test_compile import Deep, Pieces, gradients, same

newer = _differences._HAS_CLOSURE


@pytest.fixture
def older(monkeypatch):
    """The version has none of the names that older ones lack."""
    torch._dynamo.reset()
    for name in ("_CSE_HAS_KEYS", "_HAS_OPAQUE", "_HAS_MARKS", "_HAS_CLOSURE"):
        monkeypatch.setattr(_differences, name, False)


def test_promise_is_kept(older, monkeypatch):
    """The nodes of the backward half are the same by names that all versions have, and the promise is kept."""
    model, x = Deep(Pieces()), torch.randn(64, 16)
    eager, _ = gradients(model, model, x)
    closures = []

    def both(gm, count):
        closures.append(_differences.behind_tangents(gm, count))
        with monkeypatch.context() as here:
            here.setattr(_differences, "_HAS_CLOSURE", True)
            closures.append(_differences.behind_tangents(gm, count))
        return closures[0]

    if newer:
        monkeypatch.setattr(_joint, "behind_tangents", both)
    compiled = memopt.torch.compile(model, budget="70%", backend="aot_eager", fullgraph=True)
    found, peak = gradients(model, compiled, x)
    assert same(found, eager) and closures[:1] == closures[1:]
    assert compiled.memopt.predicted_peak_bytes == pytest.approx(peak, rel=1e-3)
    assert peak <= 0.7 * compiled.memopt.baseline_peak_bytes and compiled.memopt.overhead > 0


def test_gradients_are_held(monkeypatch):
    """A gradient that a graph is given stays until the graph's backward half ends."""
    forward = [{"id": "a", "cost": 1, "inputs": [], "size": 40}, {"id": "y", "cost": 1, "inputs": ["a"], "size": 8}]
    first = {"id": "g", "cost": 1, "inputs": ["a", "t"], "size": 16}
    second = {"id": "h", "cost": 1, "inputs": ["g"], "size": 4, "keep": True, "workspace": 100}
    part = Part(forward, [first, second], ["y"], [("t", 8, 0)], {"a": [0]}, {0: "y"}, {0: "h"}, ["h"])
    _, steps = in_order(part.instance())
    peaks = []
    for holds in (False, True):
        monkeypatch.setattr(_whole, "HOLDS_TANGENTS", holds)
        whole = Whole([Run(part, held={0: 0}), Run(part, given={0: Place("result", 0, 0)}, held={0: 1})])
        peaks.append(peak(whole.instance, whole.steps([steps, steps])))
    assert peaks[1] == peaks[0] + 8


def test_attention_is_random_with_dropout():
    aten = torch.ops.aten
    graph = torch.fx.Graph()
    q = graph.placeholder("q")
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default
    for args, kwargs, wanted in (
        ((), {}, False),
        ((0.0,), {}, False),
        ((0.1,), {}, True),
        ((), {"dropout_p": q}, True),
    ):
        assert _joint._is_random(graph.call_function(attention, (q, q, q, *args), kwargs)) is wanted
    assert _joint._is_random(graph.call_function(aten.rand_like.default, (q,)))
    assert not _joint._is_random(graph.call_function(aten.relu.default, (q,)))


def test_backward_half_at_once(monkeypatch):
    """By an option, and where a version has none, by an argument of a function that its callers leave out."""
    name = _differences._AT_ONCE
    monkeypatch.setattr(aot_autograd, "prepare_aot_module_simplified", lambda **given: given)
    for has in {False, _differences._HAS_AT_ONCE}:
        monkeypatch.setattr(_differences, "_HAS_AT_ONCE", has)
        with _differences.backward_at_once():
            assert aot_autograd.prepare_aot_module_simplified() == ({} if has else {name: True})
            assert getattr(functorch_config, name, False) is has
        assert aot_autograd.prepare_aot_module_simplified() == {}
        assert not getattr(functorch_config, name, False)

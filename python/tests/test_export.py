import copy
import json
import os
import warnings

import pytest
import torch
from torch import nn

import models
from memopt.torch import export, measure
from memopt.torch._export import metadata
from memopt.torch._measure import Meter

warnings.filterwarnings("ignore")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a protobuf message: number and contents."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2, key
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def read(path):
    """The list of modules, and names of nodes and inputs of an ONNX file."""
    with open(path, "rb") as f:
        model = list(fields(f.read()))
    listed = None
    for number, value in model:
        if number == 14:
            entry = dict(fields(value))
            if entry[1] == b"memopt.torch":
                listed = json.loads(entry[2])
    graph = list(fields(next(v for n, v in model if n == 7)))
    nodes = [dict(fields(v)).get(3, b"").decode() for n, v in graph if n == 1]
    inputs = [dict(fields(v))[1].decode() for n, v in graph if n == 11]
    outputs = [dict(fields(v))[1].decode() for n, v in graph if n == 12]
    return listed, nodes, inputs, outputs


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def test_contents(path):
    model, (x, y) = models.Net(p=0.1, norm=True).train(), models.batch()
    model.head.weight.requires_grad_(False)
    export(model, x, path, loss=models.loss, labels=y)
    listed, nodes, inputs, outputs = read(path)
    assert (listed["version"], listed["root"]) == (1, "model")
    assert listed["sizes"] == {"batch": len(x)}
    assert inputs[:2] == ["x", "labels"]
    assert outputs == ["loss"]
    by_name = {m["name"]: m for m in listed["modules"]}
    assert by_name["h.1"]["calls"] == 1
    assert by_name["h.1"]["class"].endswith("models.Block")
    assert by_name["h.1"]["checkpointable"] is True
    assert by_name["h.1.drop"]["attributes"]["p"] == 0.1
    assert by_name["h.1.act"]["attributes"]["approximate"] == "none"
    assert any(n.startswith("/model/h.2/") for n in nodes), nodes
    assert "model.h.0.up.weight" in listed["parameters"]
    assert "model.head.weight" not in listed["parameters"]


def test_the_model_is_as_it_was(path):
    model, (x, y) = models.Net(p=0.5, norm=True).train(), models.batch()
    model.h[1].eval()
    model.h[0].up.weight.grad = torch.ones(32, 16)
    before, rng = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    export(model, x, path, loss=models.loss, labels=y)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(rng, torch.get_rng_state())
    assert torch.equal(model.h[0].up.weight.grad, torch.ones(32, 16))
    assert [m.training for m in (model, model.h[0], model.h[1])] == [True, True, False]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert os.listdir(path.parent) == ["model.onnx"]


def test_what_cannot_run_again_says_why(path):
    x, y = models.batch()
    for model, name, why in (
        (models.Twice().train(), "block", "2 times"),
        (models.InPlace().train(), "inner", "changes its input in place"),
    ):
        export(model, x, path, loss=lambda out, _: out.sum(), labels=y)
        entry = next(m for m in read(path)[0]["modules"] if m["name"] == name)
        assert why in entry["checkpointable"]


def test_losses_of_models(path):
    class Own(nn.Module):
        def __init__(self, form):
            super().__init__()
            self.net, self.form = models.Net(), form

        def forward(self, x, labels):
            out = self.net(x)
            value = models.loss(out, labels)
            return {"dict": {"loss": value, "out": out}, "tuple": (value, out), "bare": value}[self.form]

    x, y = models.batch()
    for form in ("dict", "tuple", "bare"):
        export(Own(form).train(), {"labels": y, "x": x}, path)
        _, nodes, inputs, _ = read(path)
        assert inputs[:2] == ["labels", "x"], form
        assert any(n.startswith("/model/net/h.0") for n in nodes), form


def test_errors(path):
    model, (x, y) = models.Net().train(), models.batch()
    with pytest.raises(ValueError, match=r"the loss is \(12, 5\)"):
        export(model, x, path)
    with pytest.raises(TypeError, match="int"):
        export(model, (x, 3), path, loss=models.loss, labels=y)
    with pytest.raises(ValueError, match="1 names for 2"):
        export(model, x, path, loss=models.loss, labels=y, input_names=["x"])
    with pytest.raises(TypeError, match="ScriptModule"):
        export(torch.jit.script(nn.Linear(2, 2)), torch.ones(1, 2), path, loss=lambda o: o.sum())
    assert os.listdir(path.parent) == []


def test_what_torch_cannot_export_leaves_no_file(path):
    class Transformed(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return torch.linalg.eigvalsh(y.t() @ y)

    x, y = models.batch()
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        export(nn.Sequential(Transformed(16, 16)), x, path, loss=lambda out, _: out.sum(), labels=y)
    assert os.listdir(path.parent) == []


def test_what_tracing_lacks(path):
    class Differences(nn.Module):
        def __init__(self, norm):
            super().__init__()
            self.inner = models.Net(norm=norm)

        def forward(self, x):
            return torch.diff(self.inner(x), dim=-1).square().mean()

    x, _ = models.batch()
    model = Differences(norm=False).train()
    export(model, x, path)
    listed = read(path)[0]
    assert "model.inner.h.0.up.weight" in listed["parameters"]
    assert "inner.h.0.up" in [m["name"] for m in listed["modules"]]
    assert os.listdir(path.parent) == [path.name]
    with pytest.raises(Exception, match="diff"):  # torch.export would not train the batch norms
        export(Differences(norm=True).train(), x, path)


def test_mode_of_the_file(path):
    model, (x, y) = models.Net().train(), models.batch()
    mask = os.umask(0o027)
    try:
        export(model, x, path, loss=models.loss, labels=y)
    finally:
        os.umask(mask)
    assert os.stat(path).st_mode & 0o777 == 0o640


def test_shared_parameters_have_all_names(path):
    model, (x, y) = models.Net().train(), models.batch()
    model.h[2].up.weight, model.again = model.h[0].up.weight, model.h[1]
    export(model, x, path, loss=models.loss, labels=y)
    parameters = read(path)[0]["parameters"]
    assert "model.h.0.up.weight" in parameters
    assert "model.h.2.up.weight" in parameters
    assert "model.again.up.weight" in parameters


def test_metadata():
    data = metadata("k" * 200, "v" * 40000)
    number, value = next(fields(data))
    assert (number, dict(fields(value))) == (14, {1: b"k" * 200, 2: b"v" * 40000})


def test_bytes():
    keep = []

    def step():
        keep.clear()
        a = torch.ones(1 << 20)
        b = a * 2
        del a
        keep.append(b[:1].clone())
        del b
        keep.append(torch.ones(1 << 18))

    u = measure(step, show=False, repeat=2)
    assert abs(u.peak_bytes - (8 << 20)) < 64  # a number beside the tensors
    assert u.left_bytes == (1 << 20) + 4
    assert u.events > 4
    assert u.seconds <= u.median_seconds


def test_measured_twice():
    """Gradients of the step before, which are freed in a step, change neither its peak nor that of the next one."""
    model, (x, y) = models.Net(blocks=6).train(), models.batch()
    x, y = x.repeat(20, 1), y.repeat(20)

    def step():
        model.zero_grad(set_to_none=True)
        models.loss(model(x), y).backward()

    def other():
        models.loss(model(x), y).backward()
        model.zero_grad(set_to_none=True)

    first = measure(step, warmup=0, show=False)
    assert measure(other, show=False).left_bytes == 0
    for _ in range(3):
        again = measure(step, warmup=0, show=False)
        assert (again.peak_bytes, again.left_bytes) == (first.peak_bytes, first.left_bytes)
    assert first.left_bytes == sum(p.numel() * p.element_size() for p in model.parameters())


def test_measured_up_to_a_mark():
    meter = Meter("cpu")
    meter.start()
    a = torch.ones(1 << 10)
    meter.mark()
    b = torch.ones(1 << 20)
    assert meter.stop().peak == 4 << 10
    del a, b


def test_errors_of_measure():
    with pytest.raises(ValueError, match="repeat=0"):
        measure(lambda: None, repeat=0)
    with pytest.raises(ValueError, match="device='tpu'"):
        measure(lambda: None, device="tpu")

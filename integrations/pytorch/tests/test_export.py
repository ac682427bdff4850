import copy
import json
import os
import tempfile
import unittest
import warnings

import torch
from torch import nn

from memopt_torch import export, measure
from memopt_torch._export import _capturable, metadata

from . import models

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


class TestExport(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "model.onnx")

    def test_contents(self):
        model, (x, y) = models.Net(p=0.1, norm=True).train(), models.batch()
        model.head.weight.requires_grad_(False)
        export(model, x, self.path, loss=models.loss, labels=y)
        listed, nodes, inputs, outputs = read(self.path)
        self.assertEqual((listed["version"], listed["root"]), (1, "model"))
        self.assertEqual(listed["sizes"], {"batch": len(x)})
        self.assertEqual(inputs[:2], ["x", "labels"])
        self.assertEqual(outputs, ["loss"])
        by_name = {m["name"]: m for m in listed["modules"]}
        self.assertEqual(by_name["h.1"]["calls"], 1)
        self.assertTrue(by_name["h.1"]["class"].endswith("models.Block"))
        self.assertIs(by_name["h.1"]["checkpointable"], True)
        self.assertEqual(by_name["h.1.drop"]["attributes"]["p"], 0.1)
        self.assertEqual(by_name["h.1.act"]["attributes"]["approximate"], "none")
        self.assertTrue(any(n.startswith("/model/h.2/") for n in nodes), nodes)
        self.assertIn("model.h.0.up.weight", listed["parameters"])
        self.assertNotIn("model.head.weight", listed["parameters"])

    def test_the_model_is_as_it_was(self):
        model, (x, y) = models.Net(p=0.5, norm=True).train(), models.batch()
        model.h[1].eval()
        model.h[0].up.weight.grad = torch.ones(32, 16)
        before, rng = copy.deepcopy(model.state_dict()), torch.get_rng_state()
        export(model, x, self.path, loss=models.loss, labels=y)
        self.assertTrue(all(torch.equal(v, before[k]) for k, v in model.state_dict().items()))
        self.assertTrue(torch.equal(rng, torch.get_rng_state()))
        self.assertTrue(torch.equal(model.h[0].up.weight.grad, torch.ones(32, 16)))
        self.assertEqual([m.training for m in (model, model.h[0], model.h[1])], [True, True, False])
        self.assertFalse(any(m._forward_hooks or m._forward_pre_hooks for m in model.modules()))
        self.assertEqual(os.listdir(self.folder), ["model.onnx"])

    def test_what_cannot_run_again_says_why(self):
        x, y = models.batch()
        for model, name, why in (
            (models.Twice().train(), "block", "2 times"),
            (models.InPlace().train(), "inner", "changes its input in place"),
        ):
            export(model, x, self.path, loss=lambda out, _: out.sum(), labels=y)
            entry = next(m for m in read(self.path)[0]["modules"] if m["name"] == name)
            self.assertIn(why, entry["checkpointable"])

    def test_losses_of_models(self):
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
            export(Own(form).train(), {"labels": y, "x": x}, self.path)
            _, nodes, inputs, _ = read(self.path)
            self.assertEqual(inputs[:2], ["labels", "x"], form)
            self.assertTrue(any(n.startswith("/model/net/h.0") for n in nodes), form)

    def test_errors(self):
        model, (x, y) = models.Net().train(), models.batch()
        with self.assertRaisesRegex(ValueError, r"the loss is \(12, 5\)"):
            export(model, x, self.path)
        with self.assertRaisesRegex(TypeError, "int"):
            export(model, (x, 3), self.path, loss=models.loss, labels=y)
        with self.assertRaisesRegex(ValueError, "1 names for 2"):
            export(model, x, self.path, loss=models.loss, labels=y, input_names=["x"])
        with self.assertRaisesRegex(TypeError, "ScriptModule"):
            export(torch.jit.script(nn.Linear(2, 2)), torch.ones(1, 2), self.path, loss=lambda o: o.sum())
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_torch_cannot_export_leaves_no_file(self):
        class Transformed(nn.Linear):
            def forward(self, x):
                y = super().forward(x)
                return torch.linalg.eigvalsh(y.t() @ y)

        x, y = models.batch()
        with self.assertRaises(Exception):
            export(nn.Sequential(Transformed(16, 16)), x, self.path, loss=lambda out, _: out.sum(), labels=y)
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_tracing_lacks(self):
        class Differences(nn.Module):
            def __init__(self, norm):
                super().__init__()
                self.inner = models.Net(norm=norm)

            def forward(self, x):
                return torch.diff(self.inner(x), dim=-1).square().mean()

        x, _ = models.batch()
        model = Differences(norm=False).train()
        if not _capturable(model):
            return  # torch before 2.6
        export(model, x, self.path)
        listed = read(self.path)[0]
        self.assertIn("model.inner.h.0.up.weight", listed["parameters"])
        self.assertIn("inner.h.0.up", [m["name"] for m in listed["modules"]])
        self.assertEqual(os.listdir(self.folder), [os.path.basename(self.path)])
        with self.assertRaisesRegex(Exception, "diff"):  # torch.export would not train the batch norms
            export(Differences(norm=True).train(), x, self.path)

    def test_mode_of_the_file(self):
        model, (x, y) = models.Net().train(), models.batch()
        mask = os.umask(0o027)
        try:
            export(model, x, self.path, loss=models.loss, labels=y)
        finally:
            os.umask(mask)
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o640)

    def test_shared_parameters_have_all_names(self):
        model, (x, y) = models.Net().train(), models.batch()
        model.h[2].up.weight, model.again = model.h[0].up.weight, model.h[1]
        export(model, x, self.path, loss=models.loss, labels=y)
        parameters = read(self.path)[0]["parameters"]
        self.assertIn("model.h.0.up.weight", parameters)
        self.assertIn("model.h.2.up.weight", parameters)
        self.assertIn("model.again.up.weight", parameters)

    def test_metadata(self):
        data = metadata("k" * 200, "v" * 40000)
        number, value = next(fields(data))
        self.assertEqual((number, dict(fields(value))), (14, {1: b"k" * 200, 2: b"v" * 40000}))


class TestMeasure(unittest.TestCase):
    def test_bytes(self):
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
        self.assertLess(abs(u.peak_bytes - (8 << 20)), 64)  # a number beside the tensors
        self.assertEqual(u.left_bytes, (1 << 20) + 4)
        self.assertGreater(u.events, 4)
        self.assertLessEqual(u.seconds, u.median_seconds)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "repeat=0"):
            measure(lambda: None, repeat=0)
        with self.assertRaisesRegex(ValueError, "device='tpu'"):
            measure(lambda: None, device="tpu")


if __name__ == "__main__":
    unittest.main()

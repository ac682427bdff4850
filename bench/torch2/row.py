"""One row of the table: a model, a way to export it, and everything that memopt then does."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import multiprocessing
import pathlib
import re
import subprocess
import time
from concurrent import futures

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

import model
from compare import LEAST, Comparison

UPDATES, RATE, NORM = 5, 1e-3, 1.0
TRIES = 8  # from weights that are off
GRADIENTS, LOSSES = 1e-5, 1e-4  # the tolerances


@dataclasses.dataclass(frozen=True)
class Way:
    """How torch.onnx.export is called: default and raw are dynamo=True with optimize=True and False,
    script is dynamo=False."""

    exporter: str
    opset: int

    def __str__(self):
        return f"{self.exporter}-{self.opset}"


class Refused(Exception):
    """memopt gave a wrong result."""


class Memopt:
    """The program."""

    def __init__(self, binary: str, limit: int, folder: pathlib.Path):
        self.binary, self.limit, self.folder, self.notes = binary, limit, folder, []

    def __call__(self, verb: str, *args) -> str:
        command = [self.binary, verb, *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.limit, check=False)
        if done.returncode != 0:
            text = (done.stderr.strip() or done.stdout.strip()).splitlines()
            lines = [t for t in text if not t.startswith(("warning", "note"))] or ["no message"]
            text = " ".join(lines).replace(f"{self.folder}/", "")
            raise Refused(f"{verb} ends with {done.returncode}: {text[:600]}")
        self.notes += [line for line in done.stderr.splitlines() if line.startswith("warning")]
        return done.stdout


def export(made: model.Model, way: Way, path: pathlib.Path) -> None:
    """Writes the file as users do: in training mode, with symbolic sizes."""
    inputs = made.inputs(made.batch)
    options = dict(input_names=list(inputs), output_names=["loss", "out"], opset_version=way.opset)
    if way.exporter == "script":
        torch.onnx.export(
            made.module,
            tuple(inputs.values()),
            str(path),
            dynamo=False,
            dynamic_axes=made.axes,
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
            **options,
        )
        return
    shapes = tuple(made.axes.get(name, {}) for name in inputs)
    torch.onnx.export(
        made.module,
        tuple(inputs.values()),
        str(path),
        dynamo=True,
        dynamic_shapes=(shapes,) if takes_list(made.module) else shapes,
        optimize=way.exporter == "default",
        external_data=False,
        verbose=False,
        **options,
    )


def takes_list(module: nn.Module) -> bool:
    """Whether forward has *inputs for its arguments."""
    return bool(module.forward.__code__.co_flags & 4)


def infer_norms(module: nn.Module) -> bool:
    """Puts batch norms into inference mode, as the default exporter writes them."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.eval()
    return bool(norms)


def step(module: nn.Module, inputs: model.Inputs) -> torch.Tensor:
    module.zero_grad(set_to_none=True)
    loss = module(*inputs.values())[0]
    loss.backward()
    return loss


def train(module: nn.Module, data: model.Inputs, batch: int) -> list[float]:
    """The losses of a loop of PyTorch."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=RATE, weight_decay=0.0)
    losses = []
    for i in range(UPDATES):
        losses.append(step(module, {k: v[i * batch :][:batch] for k, v in data.items()}).item())
        nn.utils.clip_grad_norm_(module.parameters(), NORM)
        optimizer.step()
    return losses


class Row:
    """Runs the steps of a row in a folder; found has the figures of the table."""

    def __init__(self, name: str, way: Way, folder: pathlib.Path, binary: str, limit: int = 120):
        self.name, self.way, self.folder = name, way, folder
        self.memopt = Memopt(binary, limit, folder)
        self.found: dict[str, object] = {"model": name, "way": str(way)}

    def run(self) -> dict[str, object]:
        """Runs all steps. What a step cannot do is an error of its own; later ones are tried where they can be."""
        begin = time.monotonic()
        made = model.build(self.name)
        torch.manual_seed(2)
        self.inputs, self.data = made.inputs(made.batch), made.inputs(made.batch * UPDATES)
        self.made, self.state = made, copy.deepcopy(made.module.state_dict())
        self.path = self.folder / "model.onnx"
        try:
            if not self.path.exists():
                export(made, self.way, self.path)
        except Exception as e:
            self.found["not exported"] = first_line(e)
            return self.found
        self.found["export s"] = round(time.monotonic() - begin, 1)
        made.module.load_state_dict(self.state)
        made.module.train()
        self.inference = self.way.exporter != "script" and infer_norms(made.module)
        self.found["inference"] = self.inference
        self.reference()
        made.module.load_state_dict(self.state)
        if not self.runnable():
            return self.found
        begin = time.monotonic()
        for do in (self.read, self.gradients, self.verify, self.apply, self.train):
            try:
                do()
            except (Refused, subprocess.TimeoutExpired) as e:
                self.found[f"{do.__name__} error"] = first_line(e)
                if do in (self.read, self.gradients):
                    break
            except Exception as e:
                self.found[f"{do.__name__} error"] = f"{type(e).__name__}: {first_line(e)}"
        if "gradients" not in self.found and "ort refuses the export" in self.found:
            self.found["not exported"] = f"ONNX Runtime refuses the file: {self.found['ort refuses the export']}"
        self.found["memopt s"] = round(time.monotonic() - begin, 1)
        self.found["warnings"] = sorted(set(self.memopt.notes))
        return self.found

    def reference(self) -> None:
        """PyTorch's loss and gradients, and the file's initializers."""
        module = self.made.module
        loss = step(module, self.inputs)
        named = dict(module.named_parameters())
        self.loss = loss.item()
        self.wanted = {k: p.grad.numpy().copy() for k, p in named.items() if p.grad is not None}
        self.file = onnx.load(self.path)
        initializers = {t.name: numpy_helper.to_array(t) for t in self.file.graph.initializer}
        self.comparison = Comparison({k: p.detach().numpy().copy() for k, p in named.items()}, initializers)

    def runnable(self) -> bool:
        """Whether the exported file computes PyTorch's loss in ONNX Runtime, or is refused by it.

        Also writes its data."""
        declared = {i.name: i.type.tensor_type.shape.dim for i in self.file.graph.input}
        self.feed = {k: v.numpy() for k, v in self.inputs.items() if k in declared}
        self.sizes = {}
        for name, x in self.feed.items():
            self.sizes.update({d.dim_param: n for d, n in zip(declared[name], x.shape, strict=True) if d.dim_param})
        np.savez(self.folder / "feed.npz", **self.feed)
        np.savez(self.folder / "data.npz", **{k: v.numpy() for k, v in self.data.items() if k in declared})
        try:
            loss = float(self.infer(self.path)["loss"].reshape(-1)[0])
        except futures.BrokenExecutor:
            self.found["ort refuses the export"] = "its process crashes"
            return True
        except Exception as e:
            self.found["ort refuses the export"] = first_line(e)
            return True
        if not abs(loss - self.loss) <= LOSSES * abs(self.loss):
            self.found["not exported"] = f"the file's loss is {loss:.6g} in ONNX Runtime, PyTorch's {self.loss:.6g}"
            return False
        return True

    def read(self) -> None:
        """Reads the file and plans it at its sizes."""
        self.dims = bindings(self.sizes)
        self.memopt("plan", self.path, *self.dims)
        self.found["read"] = True

    def gradients(self) -> None:
        """Differentiates the file and compares its gradients with PyTorch's."""
        self.memopt("grad", self.path, "-o", self.folder / "step.onnx", *self.dims)
        self.memopt(
            "run",
            self.folder / "step.onnx",
            "--data-dir",
            self.folder / "feed.npz",
            "--save-outputs",
            self.folder / "got.npz",
            "--warmup",
            "0",
            *self.dims,
        )
        self.found["gradients"] = self.compare(dict(np.load(self.folder / "got.npz")))
        self.own(self.found["gradients"])

    def own(self, found: dict) -> None:
        """Where figures are beyond the tolerance: how far PyTorch's gradients are from its own, in float64 or from
        weights that are off by 1e-7."""
        if found["worst"] <= GRADIENTS or "own" in self.found["gradients"]:
            return
        module = self.made.module
        state = copy.deepcopy(module.state_dict())
        off = []
        for _ in range(TRIES):
            nudge(module)
            off.append(self.distance(self.inputs))
            module.load_state_dict(state)
        with in_float64(module):
            off.append(self.distance(doubled(self.inputs)))
        module.load_state_dict(state)
        self.found["gradients"]["own"] = max(off)

    def distance(self, inputs: model.Inputs) -> float:
        """How far the module's gradients are from those that are wanted."""
        step(self.made.module, inputs)
        got = {k: p.grad.numpy() for k, p in self.made.module.named_parameters() if p.grad is not None}
        top = max(np.abs(g).max() for g in got.values())
        off = [np.abs(self.wanted[k] - g).max() / max(np.abs(g).max(), LEAST * top) for k, g in got.items()]
        return float(max(off))

    def compare(self, got: dict[str, np.ndarray]) -> dict[str, object]:
        """The differences from PyTorch of a step's outputs."""
        gradients = {k.removesuffix("_grad"): g for k, g in got.items() if k.endswith("_grad")}
        self.trained = set(gradients)
        worst, at, compared, missing = self.comparison.worst(gradients, self.wanted)
        loss = float(np.asarray(got["loss"]).reshape(-1)[0])
        return {
            "loss": abs(loss - self.loss) / max(abs(self.loss), 1e-9),
            "worst": worst,
            "at": at,
            "compared": compared,
            "of": len(self.wanted),
            "missing": missing[:8],
            "unknown": sorted(self.comparison.unknown)[:8],
            "computed": sorted(self.comparison.computed)[:8],
        }

    def verify(self) -> None:
        """Verifies the plan of level 1, or of the smallest budget that has one."""
        self.memopt(
            "verify", self.path, "--level", "1", "--data-dir", self.folder / "feed.npz", "--warmup", "0", *self.dims
        )
        self.found["verified"] = True

    def apply(self) -> None:
        """Compares the gradients of the applied file in ONNX Runtime, unless that refuses the exported file itself."""
        applied = self.folder / "applied.onnx"
        self.memopt("apply", self.path, "--level", "1", "-o", applied, *self.dims)
        if "ort refuses the export" not in self.found:
            self.found["ort"] = self.compare(self.infer(applied))
            self.own(self.found["ort"])

    def infer(self, path: pathlib.Path) -> dict[str, np.ndarray]:
        """The outputs of a file in ONNX Runtime, which may crash: it has a process of its own."""
        with futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
            return pool.submit(infer, path, self.feed).result()

    def train(self) -> None:
        """Trains in both and compares the losses of the updates."""
        frozen = self.frozen()
        if another := (self.comparison.another | self.comparison.unknown) - set(frozen):
            self.found["another"] = sorted(another)
            return
        losses = train(self.made.module, self.data, self.made.batch)
        job = self.folder / "job"
        lengths = {k: v for k, v in self.sizes.items() if k != "batch"}
        flags = (
            f"--batch {self.made.batch} --shuffle=false --max-steps {UPDATES} --logging-steps 1 --threads 1 -q "
            f"--optimizer adamw --learning-rate {RATE} --weight-decay 0 --max-grad-norm {NORM} --lr-scheduler constant"
        )
        named = [flag for name in frozen for flag in ("--freeze", name)]
        data = self.folder / "data.npz"
        try:
            self.memopt("train", self.path, "--data", data, "-o", job, *flags.split(), *named, *bindings(lengths))
        except Refused as e:
            if "--allow-merged" not in str(e):
                raise
            self.found["refused"] = str(e)
            return
        lines = [json.loads(line) for line in (job / "metrics.jsonl").read_text().splitlines()]
        got = [line["loss"] for line in lines if "loss" in line]
        if len(got) != len(losses):
            raise Refused(f"train made {len(got)} updates, wanted {len(losses)}")
        self.found["train"] = apart(got, losses)
        if self.found["train"] > LOSSES:
            self.found["train own"] = self.losses_own(losses)
        self.found["losses"] = [losses, got]
        self.found["frozen"] = frozen

    def losses_own(self, losses: list[float]) -> float:
        """How far PyTorch's losses are from its own: in float64, or in TRIES from weights that are off by 1e-7."""
        module, off = self.made.module, []
        for _ in range(TRIES):
            module.load_state_dict(self.state)
            nudge(module)
            off.append(apart(train(module, self.data, self.made.batch), losses))
        module.load_state_dict(self.state)
        with in_float64(module):
            off.append(apart(train(module, doubled(self.data), self.made.batch), losses))
        return max(off)

    def frozen(self) -> list[str]:
        """Tensors of the file that PyTorch does not train, and that the file does not tell from parameters: parameters
        that need no gradient, and in scripted files buffers. A user names them."""
        module = self.made.module
        names = {k for k, p in module.named_parameters() if not p.requires_grad}
        if self.way.exporter == "script":
            names |= {k for k, b in module.named_buffers() if b.is_floating_point()}
        return sorted(names & self.trained)


def infer(path: pathlib.Path, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a file in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, {i.name: feed[i.name] for i in session.get_inputs()}), strict=True))


@contextlib.contextmanager
def in_float64(module: nn.Module):
    """Computes in float64, which some modules refuse: they compute in float32 whatever their parameters are."""
    torch.set_default_dtype(torch.float64)
    try:
        module.double()
        with contextlib.suppress(RuntimeError):
            yield
    finally:
        torch.set_default_dtype(torch.float32)
        module.float()


def doubled(inputs: model.Inputs) -> model.Inputs:
    return {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}


def nudge(module: nn.Module) -> None:
    """Moves weights by about their last bit."""
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(1 + 1e-7 * torch.randn_like(p))


def apart(got: list[float], wanted: list[float]) -> float:
    """The largest relative difference of losses."""
    return max(abs(a - b) / abs(b) for a, b in zip(got, wanted, strict=True))


def bindings(sizes: dict[str, int]) -> list[str]:
    """The flag that binds symbols to sizes."""
    return ["--dim", ",".join(f"{k}={v}" for k, v in sizes.items())] if sizes else []


def first_line(e: BaseException) -> str:
    """The line of an error that says most: the cause that torch.onnx.export gives in its summary, else the first."""
    lines = [re.sub("\x1b\\[[0-9;]*m", "", line).strip() for line in str(e).splitlines()]
    causes = [line for line in lines if line.startswith("<class ")]
    lines = [line for line in lines if line]
    return (causes or lines or [type(e).__name__])[0][:300]

"""A model and its loss as an ONNX file that memopt plans."""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ._modules import Watch
from ._state import kept
from ._step import Inputs, Loss, labelled, loss_of, split

_ROOT = "model"


class _Step(nn.Module):
    """The model and its loss. Keyword arguments of the model come as positional ones."""

    def __init__(self, model: nn.Module, positional: int, keywords: Sequence[str], loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.positional, self.keywords, self.loss = positional, list(keywords), loss
        self.training = model.training

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        args = values[: self.positional]
        named = values[self.positional : self.positional + len(self.keywords)]
        labels = values[self.positional + len(self.keywords) :]
        return loss_of(self.model(*args, **dict(zip(self.keywords, named, strict=True))), self.loss, labels)


def export(
    model: nn.Module,
    inputs: Inputs,
    path: str | os.PathLike[str],
    *,
    loss: Loss = None,
    labels: Any = None,
    dynamic_axes: str | Mapping[str, Mapping[int, str]] | None = "auto",
    input_names: Sequence[str] | None = None,
    opset: int = 17,
) -> None:
    """Writes the forward half of a training step, its loss included, as an ONNX file.

    The file appears whole or not at all. The model, its buffers and gradients and the generators of random
    numbers are afterwards as they were.

    Args:
        model: in the mode in which it is trained.
        inputs: a tensor, a sequence of tensors, or keyword arguments.
        path: the file to write.
        loss: a function of the model's output and the labels; None if the model returns its loss, alone, first, or
            as ``loss``.
        labels: a tensor or several, inputs of the loss.
        dynamic_axes: as in torch.onnx.export; "auto" makes the first dim of all inputs ``batch`` where they agree
            in it, and the second dim of integers ``seq``; None keeps all sizes fixed.
        input_names: names of all inputs and labels, in order; default the names of arguments of ``forward``.
        opset: of the file; 18 at least where the exporter that traces lacks an operator, and torch.export does it.
    """
    args, keywords = split(inputs)
    targets = labelled(labels)
    values = (*args, *keywords.values(), *targets)
    for v in values:
        if not isinstance(v, torch.Tensor):
            raise TypeError(f"an input is {type(v).__name__}: wanted tensors only; bind other arguments in a module "
                            "around the model")
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError("the model is a ScriptModule: export the module that it was made of, so that nodes have names")
    names = list(input_names) if input_names else _names(model, args, keywords, targets)
    if len(names) != len(values):
        raise ValueError(f"input_names has {len(names)} names for {len(values)} inputs and labels")
    axes = _axes(names, values) if dynamic_axes == "auto" else dynamic_axes
    step = _Step(model, len(args), list(keywords), loss)
    with kept(model):
        listed = _modules(model, step, values)
        data = _write(step, values, names, axes, opset, path)
    trained = [
        f"{_ROOT}.{owner}.{n}" if owner else f"{_ROOT}.{n}"
        for owner, m in model.named_modules(remove_duplicate=False)
        for n, p in m.named_parameters(recurse=False)
        if p.requires_grad
    ]
    meta = {"version": 1, "torch": torch.__version__, "root": _ROOT, "modules": listed, "parameters": trained,
            "sizes": _sizes(names, values, axes)}
    with open(data, "ab") as f:
        f.write(metadata("memopt.torch", json.dumps(meta, separators=(",", ":"))))
        f.flush()
        os.fsync(f.fileno())
    os.chmod(data, 0o666 & ~_umask())
    os.replace(data, path)


def _umask() -> int:
    """The mask of the process for the modes of new files, which can be read by setting it alone."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write(step: nn.Module, values: tuple[torch.Tensor, ...], names: Sequence[str], axes: Any, opset: int,
           path: str | os.PathLike[str]) -> str:
    """Exports to a file beside the one that is wanted."""
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    handle, data = tempfile.mkstemp(suffix=".onnx", prefix=".memopt-", dir=folder)
    os.close(handle)
    try:
        try:
            _trace(step, values, data, names, axes, opset)
        except Exception as e:
            if not _unsupported(e) or not _capturable(step):
                raise
            _capture(step, values, data, names, axes, opset)
    except BaseException:
        os.unlink(data)
        raise
    return data


def _trace(step: nn.Module, values: tuple[torch.Tensor, ...], data: str, names: Sequence[str], axes: Any,
           opset: int) -> None:
    """Exports by tracing: scopes become names of nodes, and batch norms stay in training mode."""
    torch.onnx.export(
        step,
        values,
        data,
        input_names=list(names),
        output_names=["loss"],
        dynamic_axes=axes or None,
        opset_version=opset,
        do_constant_folding=False,
        training=torch.onnx.TrainingMode.PRESERVE,
        dynamo=False,
    )


def _unsupported(error: BaseException) -> bool:
    """Whether the exporter that traces lacks an operator, such as aten::diff of masks in transformers 5."""
    return type(error).__name__ in ("UnsupportedOperatorError", "OnnxExporterError")


def _capturable(step: nn.Module) -> bool:
    """Whether torch.export may export a step: not with batch norms in training mode, of which it makes others in
    inference mode."""
    return not any(isinstance(m, _BatchNorm) and m.training for m in step.modules())


def _capture(step: nn.Module, values: tuple[torch.Tensor, ...], data: str, names: Sequence[str], axes: Any,
             opset: int) -> None:
    """Exports by torch.export. Its optimizer stays off: it merges equal parameters and folds others."""
    shapes = tuple(dict((axes or {}).get(n, {})) for n in names)
    torch.onnx.export(
        step,
        values,
        data,
        input_names=list(names),
        output_names=["loss"],
        dynamic_shapes=(shapes,) if axes else None,
        opset_version=max(opset, 18),
        dynamo=True,
        optimize=False,
        external_data=False,
        verbose=False,
    )


def _names(model: nn.Module, args: Sequence[Any], keywords: Mapping[str, Any], labels: Sequence[Any]) -> list[str]:
    try:
        parameters = [p.name for p in inspect.signature(model.forward).parameters.values()
                      if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        parameters = []
    names = [parameters[i] if i < len(parameters) else f"input_{i}" for i in range(len(args))]
    names += list(keywords)
    names += ["labels" if len(labels) == 1 else f"labels_{i}" for i in range(len(labels))]
    return [n if names.index(n) == i else f"{n}_{i}" for i, n in enumerate(names)]


def _axes(names: Sequence[str], values: Sequence[torch.Tensor]) -> dict[str, dict[int, str]]:
    axes: dict[str, dict[int, str]] = {}
    shaped = [(n, v) for n, v in zip(names, values, strict=True) if v.dim() > 0]
    if not shaped or len({v.shape[0] for _, v in shaped}) > 1:
        return axes
    for n, _v in shaped:
        axes[n] = {0: "batch"}
    words = [(n, v) for n, v in shaped if v.dim() == 2 and not v.is_floating_point()]
    if words and len({v.shape[1] for _, v in words}) == 1:
        for n, _ in words:
            axes[n][1] = "seq"
    return axes


def _sizes(names: Sequence[str], values: Sequence[torch.Tensor], axes: Any) -> dict[str, int]:
    """The sizes that symbols have in the inputs; axes without names are left out."""
    sizes: dict[str, int] = {}
    for name, value in zip(names, values, strict=True):
        symbols = (axes or {}).get(name)
        if isinstance(symbols, Mapping):
            for axis, symbol in symbols.items():
                sizes.setdefault(symbol, value.shape[axis])
    return sizes


def _modules(model: nn.Module, step: nn.Module, values: Sequence[torch.Tensor]) -> list[dict[str, Any]]:
    """Lists the modules, with what one forward half tells of them."""
    watch = Watch(model)
    with watch:
        step(*values)
    return watch.listed()


def metadata(key: str, value: str) -> bytes:
    """An entry of metadata_props in the encoding of protobuf (field 14 of onnx.ModelProto), which may be appended
    to a file: repeated fields of messages one after the other are merged."""
    entry = _field(1, key.encode()) + _field(2, value.encode())
    return _field(14, entry)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)

"""Copies of models on fake tensors."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

T = TypeVar("T")


def fake_copy(value: T, mode: FakeTensorMode, device: torch.device | None = None) -> T:
    """A deep copy of a model, or of a model and its optimizer, whose tensors are fake: on a device, or on their own."""
    with _Copying(mode, device):
        return copy.deepcopy(value)


def fake(t: torch.Tensor, mode: FakeTensorMode, device: torch.device | None = None) -> torch.Tensor:
    """A fake tensor of the sizes and strides of another one, on a device, or on its own. Models that were made on the
    meta device are taken to be on the CPU."""
    if t.device.type != "meta" and device in (None, t.device):
        return mode.from_tensor(t, static_shapes=True)
    with mode:
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device or "cpu")


class _Copying(TorchFunctionMode):
    """Makes fake tensors where copy.deepcopy copies real ones."""

    def __init__(self, mode: FakeTensorMode, device: torch.device | None) -> None:
        super().__init__()
        self.mode, self.device = mode, device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.clone:  # of a parameter's data
            return fake(args[0], self.mode, self.device)
        if func is torch.Tensor.__deepcopy__ and type(args[0]) is torch.Tensor:
            t, memo = args
            if id(t) not in memo:
                memo[id(t)] = fake(t, self.mode, self.device).requires_grad_(t.requires_grad)
            return memo[id(t)]
        return func(*args, **(kwargs or {}))

"""Copies of models on fake tensors."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

T = TypeVar("T")


def fake_copy(value: T, mode: FakeTensorMode) -> T:
    """A deep copy of a model, or of a model and its optimizer, whose tensors are fake."""
    with _Copying(mode):
        return copy.deepcopy(value)


def fake(t: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """A fake tensor of the sizes and strides of another one, on its device. Models that were made on the meta device
    are taken to be on the CPU."""
    if t.device.type != "meta":
        return mode.from_tensor(t, static_shapes=True)
    with mode:
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu")


class _Copying(TorchFunctionMode):
    """Makes fake tensors where copy.deepcopy copies real ones."""

    def __init__(self, mode: FakeTensorMode) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.clone:  # of a parameter's data
            return fake(args[0], self.mode)
        if func is torch.Tensor.__deepcopy__ and type(args[0]) is torch.Tensor:
            t, memo = args
            if id(t) not in memo:
                memo[id(t)] = fake(t, self.mode).requires_grad_(t.requires_grad)
            return memo[id(t)]
        return func(*args, **(kwargs or {}))

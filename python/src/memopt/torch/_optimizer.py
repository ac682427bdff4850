"""The memory that an optimizer takes: its state, and the temporaries of its step."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from ._fake import fake_copy
from ._recorder import Recorder


class OptimizerMemory(NamedTuple):
    """The memory of an optimizer.

    Attributes:
        state_bytes: its state, which is there from the first update on.
        step_bytes: the most that a later update makes at one time beside parameters, gradients and state.
    """

    state_bytes: int
    step_bytes: int


def optimizer_memory(
    model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device | None = None
) -> OptimizerMemory:
    """Runs two updates of a copy of the optimizer on fake parameters and gradients, on a device, or on the model's.

    An optimizer that cannot run on fake tensors has the memory of the state that it has already.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        _, clone = fake_copy((model, optimizer), mode, device)
        if device is not None and device.type == "cuda":
            _take_lists(clone)
        return _updates(clone, mode)
    except (RuntimeError, TypeError, NotImplementedError, AttributeError):
        return OptimizerMemory(sum(t.nbytes for t in _state(optimizer)), 0)


def _take_lists(optimizer: Any) -> None:
    """Has an optimizer update all parameters at once, as it does by itself on tensors of a GPU that are not fake."""
    for group in optimizer.param_groups:
        if group.get("foreach", False) is None and not group.get("fused"):
            group["foreach"] = True


def _state(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [t for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)]


def _updates(optimizer: Any, mode: FakeTensorMode) -> OptimizerMemory:
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    with mode:
        for state in optimizer.state.values():
            for name, t in state.items():  # counts of steps, whose numbers optimizers look into
                if isinstance(t, torch.Tensor) and t.dim() == 0 and t.device.type == "cpu":
                    state[name] = torch.tensor(0, dtype=t.dtype)
        for p in parameters:
            p.grad = torch.empty_like(p)
        optimizer.step()
    state = sum(t.untyped_storage().nbytes() for t in _state(optimizer))
    gc.collect()
    recorder = Recorder((*parameters, *(p.grad for p in parameters), *_state(optimizer)))
    with recorder:
        optimizer.step()
    return OptimizerMemory(state, recorder.peak_bytes)

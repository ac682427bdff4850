"""A step of a model: its inputs, its loss."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

Inputs = torch.Tensor | Sequence[Any] | Mapping[str, Any]
Loss = Callable[..., torch.Tensor] | None


def split(inputs: Inputs) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The positional and the keyword arguments that inputs stand for."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    return tuple(inputs), {}


def labelled(labels: Any) -> tuple[Any, ...]:
    """Labels as a tuple: none, one, or several."""
    if labels is None:
        return ()
    if isinstance(labels, (tuple, list)):
        return tuple(labels)
    return (labels,)


def loss_of(output: Any, loss: Loss, labels: tuple[Any, ...]) -> torch.Tensor:
    """The loss of an output: by the function, or what the model itself returns as one."""
    if loss is not None:
        value = loss(output, *labels)
    elif isinstance(output, Mapping) and "loss" in output:
        value = output["loss"]
    elif getattr(output, "loss", None) is not None:
        value = output.loss
    elif isinstance(output, (tuple, list)) and output:
        value = output[0]
    else:
        value = output
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        got = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
        raise ValueError(
            f"the loss is {got}, wanted a tensor of one element: give loss=, a function of the model's output "
            "and the labels"
        )
    return value


def run(
    model: nn.Module, inputs: Inputs, loss: Loss, labels: Any, autocast: torch.dtype | None = None
) -> torch.Tensor:
    """One forward half; the loss alone is kept. autocast is the type of ``torch.autocast`` around it; None for the mode
    that is on."""
    args, kwargs = split(inputs)
    device = next((p.device.type for p in model.parameters()), "cpu")
    with torch.autocast(device, autocast) if autocast is not None else contextlib.nullcontext():
        return loss_of(model(*args, **kwargs), loss, labelled(labels))

"""Proof that a plan changes no gradient."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ._apply import apply, unwrapped
from ._plan import Plan
from ._state import kept
from ._step import Inputs, Loss, run


@dataclass(frozen=True)
class Check:
    """Whether a step is the same with a plan and without.

    Attributes:
        equal: loss, all gradients and all buffers are equal bit for bit.
        what: what differs first, "" where nothing does.
        difference: by how much at most; 0.0 where nothing does.
        loss: of the step without the plan.
        gradients: how many were compared.
    """

    equal: bool
    what: str
    difference: float
    loss: float
    gradients: int

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.equal:
            return f"equal bit for bit: the loss {self.loss:.6g} and {self.gradients} gradients"
        return f"{self.what} differs by up to {self.difference:.3g}"


def check(
    model: nn.Module,
    plan: Plan | str | os.PathLike[str] | Mapping[str, Any],
    inputs: Inputs,
    *,
    loss: Loss = None,
    labels: Any = None,
    autocast: torch.dtype | None = None,
    seed: int = 0,
    **options: Any,
) -> Check:
    """Runs a step without the plan and with it, from the same seed, and compares loss, gradients and buffers.

    The model, its gradients and buffers and the generators of random numbers are afterwards as they were.
    ``autocast`` is the type of ``torch.autocast`` around the forward half, None for the mode that is on;
    ``options`` are those of ``apply``. The model must not have the plan applied already.
    """
    plain = _run(model, inputs, loss, labels, autocast, seed)
    with apply(model, plan, **options):
        planned = _run(model, inputs, loss, labels, autocast, seed)
    for (name, a), (_, b) in zip(plain.items(), planned.items(), strict=True):
        if (a is None) != (b is None):
            return Check(False, f"{name}, which one of the steps does not have,", float("inf"), 0.0, 0)
        if a is not None and b is not None and not _same(a, b):
            difference = (a.double() - b.double()).abs().max().item()
            return Check(False, name, difference, plain["the loss"].item(), 0)  # type: ignore[union-attr]
    count = sum(1 for name, g in plain.items() if name.startswith("the gradient") and g is not None)
    return Check(True, "", 0.0, plain["the loss"].item(), count)  # type: ignore[union-attr]


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equality of bits: a NaN is itself, 0 is not -0."""
    if a.is_sparse and b.is_sparse:
        a, b = a.to_dense(), b.to_dense()
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(_bytes(a), _bytes(b))


def _bytes(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous().reshape(-1).view(torch.uint8)


def _run(
    model: nn.Module, inputs: Inputs, loss: Loss, labels: Any, autocast: torch.dtype | None, seed: int
) -> dict[str, torch.Tensor | None]:
    target = unwrapped(model)
    with kept(target):
        torch.manual_seed(seed)
        value = run(model, inputs, loss, labels, autocast)
        torch.autograd.backward(value)
        out: dict[str, torch.Tensor | None] = {"the loss": value.detach().clone()}
        for name, p in target.named_parameters():
            out[f"the gradient of {name}"] = None if p.grad is None else p.grad.detach()
        for name, b in target.named_buffers():
            out[f"the buffer {name}"] = b.detach().clone()
        return out


__all__: tuple[str, ...] = ("Check", "check")

"""Leaves a model as it was: buffers, gradients, random numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn


@contextlib.contextmanager
def kept(model: nn.Module) -> Iterator[None]:
    """Runs its body and puts back buffers, gradients and the generators of random numbers.

    Gradients are None within.
    """
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    grads = [(p, p.grad) for p in model.parameters()]
    cpu = torch.get_rng_state()
    gpus = torch.cuda.get_rng_state_all() if gpus_used() else None
    for p, _ in grads:
        p.grad = None
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        if gpus is not None:
            torch.cuda.set_rng_state_all(gpus)
        with torch.no_grad():
            for b, old in buffers:
                b.copy_(old)
        for p, grad in grads:
            p.grad = grad


def gpus_used() -> bool:
    """Whether the process has used a GPU."""
    return torch.cuda.is_available() and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def tensors(value: object) -> Iterator[torch.Tensor]:
    """The tensors in tuples, lists and dicts, and in objects that have a dict of them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from tensors(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors(v)

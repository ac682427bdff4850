"""A model of the zoo: its module, its inputs, and the sizes that stay symbolic in the file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import nn

BATCH, SEQUENCE, WORDS, CLASSES = 2, 12, 97, 7

Inputs = dict[str, torch.Tensor]


@dataclasses.dataclass
class Model:
    """A module that returns its loss first, and samples for it.

    inputs(n) returns n samples, the rows of each tensor. axes names the symbolic sizes of each
    input. A model for which fixed is True has none: the file has the sizes of the example."""

    module: nn.Module
    inputs: Callable[[int], Inputs]
    axes: dict[str, dict[int, str]]
    batch: int = BATCH
    fixed: bool = False


MODELS: dict[str, Callable[[], Model]] = {}


def model(make: Callable[[], Model]) -> Callable[[], Model]:
    """Registers a model under the function's name."""
    MODELS[make.__name__] = make
    return make


def words(samples: int, length: int = SEQUENCE, many: int = WORDS) -> torch.Tensor:
    """Numbers of words; the first three are left to the beginning, the end and the padding."""
    return torch.randint(3, many, (samples, length))


def classes(samples: int, *dims: int, many: int = CLASSES) -> torch.Tensor:
    return torch.randint(0, many, (samples, *dims))


class WithLoss(nn.Module):
    """A module and a loss of its output and of the last input."""

    def __init__(self, module, loss=nn.functional.cross_entropy, pick=lambda out: out):
        super().__init__()
        self.module, self.loss, self.pick = module, loss, pick

    def forward(self, *inputs):
        out = self.pick(self.module(*inputs[:-1]))
        return self.loss(out, inputs[-1]), out


def images(module, size=32, batch=BATCH, pick=lambda out: out, channels=3) -> Model:
    """A classifier of images."""

    def inputs(n):
        return {"x": torch.randn(n, channels, size, size), "y": classes(n)}

    return Model(WithLoss(module, pick=pick), inputs, {"x": {0: "batch"}, "y": {0: "batch"}}, batch)


def build(name: str) -> Model:
    """Makes a model with seeded weights, in training mode without dropout.

    The weights are shaken, as those of a trained model: the exporter merges parameters whose elements
    are equal, such as the scales of fresh norms, and leaves out biases of zeros."""
    torch.manual_seed(1)
    made = MODELS[name]()
    with torch.no_grad():
        for p in made.module.parameters():
            p += 0.02 * torch.randn_like(p)
    for part in made.module.modules():
        quiet(part)
        quiet(getattr(part, "config", None))
    made.module.train()
    return made


def quiet(owner: object) -> None:
    """Sets each probability of dropout that a module or a configuration has to 0."""
    if isinstance(owner, nn.modules.dropout._DropoutNd):
        owner.p = 0.0
    for key, value in list(getattr(owner, "__dict__", {}).items()):
        if isinstance(value, float) and ("drop" in key or key == "p_dropout"):
            setattr(owner, key, 0.0)

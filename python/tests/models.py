"""Small models that tests share."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width=16, p=0.0, norm=False):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width)
        self.drop = nn.Dropout(p)
        self.norm = nn.BatchNorm1d(width) if norm else nn.Identity()

    def forward(self, x):
        return x + self.drop(self.down(self.act(self.up(self.norm(x)))))


class Net(nn.Module):
    def __init__(self, blocks=3, **options):
        super().__init__()
        self.h = nn.ModuleList([Block(**options) for _ in range(blocks)])
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        for block in self.h:
            x = block(x)
        return self.head(x)


class Config:
    """The part of a configuration of transformers that matters to a plan."""

    def __init__(self, use_cache):
        self.use_cache = use_cache


class Twice(nn.Module):
    """Calls one block two times."""

    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(self.block(x))


class Pair(nn.Module):
    """Takes keyword arguments, and returns a tuple or a dict."""

    def __init__(self, form):
        super().__init__()
        self.form, self.lin = form, nn.Linear(16, 16)

    def forward(self, x, *, scale=None, bias=1.0):
        y = torch.tanh(self.lin(x)) * scale + bias
        return {"y": y, "z": y.exp()} if self.form == "dict" else (y, y.exp())


class UsesPair(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.inner = Pair(form)

    def forward(self, x):
        out = self.inner(x, scale=x.sigmoid(), bias=2.0)
        y, z = out.values() if isinstance(out, dict) else out
        return (y * z)[:, :5]


class InPlace(nn.Module):
    """Writes over its input."""

    def __init__(self):
        super().__init__()
        self.pre, self.inner = nn.Linear(16, 16), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(16, 5))

    def forward(self, x):
        return self.inner(self.pre(x))


class Counts(nn.Module):
    """Counts in a buffer how often it runs."""

    def __init__(self):
        super().__init__()
        self.inner = Block()
        self.inner.register_buffer("ran", torch.zeros(()))
        self.inner.register_forward_pre_hook(self.count)
        self.outer = nn.Sequential(self.inner, nn.Linear(16, 5))

    @staticmethod
    def count(module, _):
        module.ran.add_(1)

    def forward(self, x):
        return self.outer(x)


def loss(output, labels):
    return F.cross_entropy(output, labels)


def batch(seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(12, 16, generator=g), torch.randint(0, 5, (12,), generator=g)


def plan(model, modules, **more):
    """A plan as memopt writes it."""
    return {
        "format": "memopt-modules",
        "version": 1,
        "parameters": {n: list(p.shape) for n, p in model.named_parameters()},
        "inputs": [{"name": "x", "type": "float", "shape": [12, 16]}],
        "modules": list(modules),
        "calls": dict.fromkeys(modules, 1),
        "preserve_rng_state": True,
        "peak_bytes": 1,
        "baseline_peak_bytes": 2,
        **more,
    }

"""Bytes of the nodes of a traced graph, and their time by a machine's figures."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from .._device import Device, by_torch, named


@dataclass(frozen=True)
class Machine:
    """A device by its figures: a node takes the longer of its arithmetic and its traffic, and its launch.

    Attributes:
        flops: floating-point operations of products in a second, by type; that of "" for types that are not there.
        traffic: bytes that are read and written in a second.
        launch: seconds of a node without arithmetic and traffic.
    """

    flops: Mapping[str, float]
    traffic: float
    launch: float

    def microseconds(self, loop: list[fx.Node], read: int) -> float:
        """The estimated time of nodes that are computed in one loop, the last of which has a result. It reads so many
        bytes of others."""
        moved = nbytes(value(loop[-1])) + read
        arithmetic = sum(_flops(n) / self.flops.get(_dtype(n), self.flops[""]) for n in loop if _counts(n))
        return round(1e6 * (max(arithmetic, moved / self.traffic) + self.launch), 3)

    def again(self, loop: list[fx.Node], read: int, times: int) -> float:
        """The estimated time of a loop that others compute anew where they read its value, so many times: they read
        what it reads in place of its value. Its arithmetic takes a little of its time in any case."""
        moved = read - nbytes(value(loop[-1]))
        least = _ARITHMETIC * self.microseconds(loop, read)
        return round(max(1e6 * times * moved / self.traffic, least), 3)


# The share of arithmetic in the time of an elementwise loop.
_ARITHMETIC = 0.05

# Two cores of a server and their share of its memory. A share of recomputation depends on the ratio of the first two.
CPU = Machine(flops={"": 8e10}, traffic=8e9, launch=2e-6)


def machine(device: Device) -> Machine:
    """A machine by a device's profile. Products of float32 are not rounded to TF32, unless PyTorch is told to."""
    flops = dict(device.products)
    if torch.get_float32_matmul_precision() == "highest":
        flops["float32"] = device.loops["float32"]
    return Machine({**flops, "": flops["bfloat16"]}, device.traffic, device.launch)


@functools.cache
def of_torch(type_: str) -> Machine:
    """The machine of a type of device: of a GPU its profile, or that of an A100 where there is none."""
    if type_ != "cuda":
        return CPU
    known = by_torch(torch.cuda.get_device_name()) if torch.cuda.is_available() else None
    return machine(known or named("a100"))


def value(n: fx.Node) -> Any:
    """The fake value that a node was traced with."""
    return n.meta.get("val")


def nbytes(v: Any) -> int:
    """The bytes of a fake value, or of several; symbolic sizes are those of the example that was traced."""
    return sum(hint(t.numel()) * t.element_size() for t in tree_leaves(v) if isinstance(t, torch.Tensor))


_UNKNOWN = 8192

_larger: ContextVar[float] = ContextVar("_larger", default=1.0)


@contextlib.contextmanager
def larger(times: float) -> Iterator[None]:
    """Within the block, symbols stand for sizes so many times as large as in the example that was traced."""
    token = _larger.set(times)
    try:
        yield
    finally:
        _larger.reset(token)


def growth() -> float:
    """How many times as large as in the example that was traced sizes are here."""
    return _larger.get()


def hint(n: Any) -> int:
    """A symbolic size in the example that was traced."""
    if isinstance(n, (int, float)):
        return int(n)
    times = _larger.get()
    if times == 1 and n.node.has_hint():
        return int(n.node.hint)
    expr, env = n.node.expr, n.node.shape_env
    sizes = {s: round(times * _size(env, s)) for s in expr.free_symbols}
    return int(expr.subs(sizes))


def _size(env: ShapeEnv, symbol: Any) -> int:
    """The size that a symbol had; of one that data alone decide a size like others."""
    known: Any = getattr(env, "backed_var_to_val", None) or env.var_to_val  # older versions have the second name
    return int(known.get(symbol, _UNKNOWN))


def _counts(n: fx.Node) -> bool:
    return getattr(n.target, "overloadpacket", None) in flop_registry


def _flops(n: fx.Node) -> int:
    args, kwargs = tree_map_only(fx.Node, value, (n.args, n.kwargs))
    return hint(flop_registry[n.target.overloadpacket](*args, **kwargs, out_val=value(n)))  # type: ignore[union-attr]


def _dtype(n: fx.Node) -> str:
    """The type in which a node computes: that of its first result."""
    first = next((t for t in tree_leaves(value(n)) if isinstance(t, torch.Tensor)), None)
    return str(first.dtype).removeprefix("torch.") if first is not None else ""

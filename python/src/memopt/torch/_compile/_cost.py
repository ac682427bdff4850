"""Bytes of the nodes of a traced graph, and their time by a machine's figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry


@dataclass(frozen=True)
class Machine:
    """A device by its figures: a node takes the longer of its arithmetic and its traffic, and its launch.

    Attributes:
        flops: floating-point operations in a second.
        traffic: bytes that are read and written in a second.
        launch: seconds of a node without arithmetic and traffic.
    """

    flops: float
    traffic: float
    launch: float

    def microseconds(self, loop: list[fx.Node], read: list[fx.Node]) -> float:
        """The estimated time of nodes that are computed in one loop, the last of which has a result, from others."""
        moved = sum(nbytes(value(n)) for n in (loop[-1], *read))
        seconds = max(sum(map(_flops, loop)) / self.flops, moved / self.traffic) + self.launch
        return round(1e6 * seconds, 3)


# Two cores of a server and their share of its memory. A share of recomputation depends on the ratio of the first two.
CPU = Machine(flops=8e10, traffic=8e9, launch=2e-6)


def value(n: fx.Node) -> Any:
    """The fake value that a node was traced with."""
    return n.meta.get("val")


def nbytes(v: Any) -> int:
    """The bytes of a fake value, or of several; symbolic sizes are those of the example that was traced."""
    return sum(hint(t.numel()) * t.element_size() for t in tree_leaves(v) if isinstance(t, torch.Tensor))


def hint(n: Any) -> int:
    """A symbolic size in the example that was traced."""
    if isinstance(n, (int, float)):
        return int(n)
    return int(n.node.shape_env.size_hint(n.node.expr, fallback=8192)) if not n.node.has_hint() else int(n.node.hint)


def _flops(n: fx.Node) -> int:
    count = flop_registry.get(getattr(n.target, "overloadpacket", None))
    if count is None:
        return 0
    args, kwargs = tree_map_only(fx.Node, value, (n.args, n.kwargs))
    return hint(count(*args, **kwargs, out_val=value(n)))

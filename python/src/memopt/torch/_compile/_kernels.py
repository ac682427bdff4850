"""The memory that kernels take beside their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map

from .._cuda import UNKNOWN, WORKSPACES
from .._workspace import Workspaces, measures, of_collective
from ._cost import growth, hint, larger, nbytes, value


def workspace(n: fx.Node) -> int:
    """The bytes of the workspace of a kernel of CUDA; 0 for kernels without."""
    rule = WORKSPACES.get(getattr(n.target, "overloadpacket", None))
    return rule([value(a) if isinstance(a, fx.Node) else a for a in n.args], hint) if rule is not None else 0


class KernelMemory:
    """The memory that the kernels of a graph take beside their results: on the CPU as PyTorch's kernels, when they are
    run, on CUDA by PyTorch's sources. Symbolic sizes are those of the example that was traced.

    Args:
        runs: whether PyTorch's kernel computes a node, and not code of a compiler.
    """

    def __init__(self, graph: fx.Graph, workspaces: Workspaces, runs: Callable[[fx.Node], bool]) -> None:
        self._numbers: dict[fx.Node, int] = {}
        self._peaks: list[int] = []
        self._beside: dict[fx.Node, int] = {}  # by node: the bytes beside its results
        self._cuda = any(_is_cuda(value(n)) for n in graph.find_nodes(op="placeholder"))
        if self._cuda:
            return
        with larger(1):  # larger kernels would take long to run
            self._measure(graph, workspaces, runs)

    def _measure(self, graph: fx.Graph, workspaces: Workspaces, runs: Callable[[fx.Node], bool]) -> None:
        for n in graph.nodes:
            if isinstance(n.target, torch._ops.OpOverload) and runs(n):
                args, kwargs = fx.node.map_arg((n.args, n.kwargs), lambda m: tree_map(_example, value(m)))
                self._numbers[n] = workspaces.number(n.target, args, kwargs)
        self._peaks, _ = workspaces.measure({})
        self._beside = {n: self._peaks[i] - nbytes(value(n)) for n, i in self._numbers.items() if i >= 0}

    def __call__(self, n: fx.Node) -> int:
        """The bytes of a node's kernel; 0 where they are not known."""
        if self._cuda:
            return workspace(n)
        if n in self._beside:
            return math.ceil(growth() * max(0, self._beside[n]))
        if not isinstance(n.target, torch._ops.OpOverload):
            return 0
        return of_collective(n.target, sum(nbytes(value(i)) for i in n.all_input_nodes), nbytes(value(n)))

    def unmeasured(self, nodes: Iterable[fx.Node]) -> tuple[str, ...]:
        """The operators of nodes whose kernels take memory that is not known."""
        return tuple(sorted({str(n.target) for n in nodes if self._is_unmeasured(n)}))

    def _is_unmeasured(self, n: fx.Node) -> bool:
        if self._cuda:
            return getattr(n.target, "overloadpacket", None) in UNKNOWN
        if n not in self._numbers:
            return False
        number = self._numbers[n]
        return self._peaks[number] < 0 if number >= 0 else not measures(n.target) and bool(n.all_input_nodes)


def _is_cuda(v: Any) -> bool:
    return isinstance(v, torch.Tensor) and v.is_cuda


def _example(v: Any) -> Any:
    """An argument with the sizes of the example that was traced."""
    if isinstance(v, torch.SymInt):
        return hint(v)
    if isinstance(v, torch.Tensor) and not all(isinstance(d, int) for d in (*v.shape, *v.stride())):
        size, stride = ([hint(d) for d in dims] for dims in (v.shape, v.stride()))
        return torch.empty_strided(size, stride, dtype=v.dtype, device="meta")
    return v

"""The memory that kernels take beside their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map

from .._workspace import Workspaces, measures, of_collective
from ._cost import growth, hint, larger, nbytes, value

aten = torch.ops.aten


def workspace(n: fx.Node) -> int:
    """The bytes of the workspace of a kernel of CUDA by PyTorch's sources; 0 for kernels without.

    cuBLAS has one workspace for all products, which is in a device's reserve. Of cuDNN's convolutions, which try
    several algorithms, it is not known, and of reductions it is a few thousand bytes: they count as 0.
    """
    rule = _RULES.get(getattr(n.target, "overloadpacket", None))
    return rule(n) if rule is not None else 0


def _dims(v: Any) -> list[int]:
    return [hint(d) for d in v.shape]


def _up(size: int, to: int) -> int:
    return -(-size // to) * to


def _flash_backward(n: fx.Node) -> int:
    """The products' sums by row, the gradient of the queries in float32, and gradients of keys and values for each head
    where heads share them (mha_bwd in transformers/cuda/flash_attn/flash_api.cpp)."""
    query, key = value(n.args[1]), value(n.args[2])  # type: ignore[arg-type]
    (batch, heads, rows, width), (_, groups, columns, _) = _dims(query), _dims(key)
    wide = _up(width, 32 if width <= 128 else 64)
    floats = batch * heads * _up(rows, 128) * (1 + wide)
    shared = 2 * batch * heads * columns * width * query.element_size() if heads != groups else 0
    return 4 * floats + shared


def _efficient_backward(n: fx.Node) -> int:
    """The products' sums by row, and the gradient of the queries in float32 where they are of another type
    (mem_eff_attention/kernel_backward.h, workspace_size)."""
    query = value(n.args[1])  # type: ignore[arg-type]
    batch, heads, rows, width = _dims(query)
    wide = _up(width, 64) if query.dtype != torch.float32 else 0
    return 4 * batch * heads * _up(rows, 64) * (1 + wide)


def _embedding_backward(n: fx.Node) -> int:
    """Sorted indices, and the sums of up to ten gradients each, at most one more for each row of the table
    (EmbeddingBackwardKernel.cu); no sums for few indices."""
    grad, indices = value(n.args[0]), value(n.args[1])  # type: ignore[arg-type]
    count, width = hint(indices.numel()), _dims(grad)[-1]
    if count <= 3072:
        return 0
    parts = _up(count, 10) // 10 + min(count, hint(n.args[2]))
    return 4 * 8 * count + 4 * parts * width


_RULES: dict[Any, Callable[[fx.Node], int]] = {
    aten._scaled_dot_product_flash_attention_backward: _flash_backward,
    aten._scaled_dot_product_efficient_attention_backward: _efficient_backward,
    aten.embedding_dense_backward: _embedding_backward,
}

# Operators whose kernels' memory is not known.
_UNKNOWN = frozenset([aten.convolution, aten.convolution_backward, aten._cudnn_rnn, aten._cudnn_rnn_backward])


class KernelMemory:
    """The memory that the kernels of a graph take beside their results: on the CPU as PyTorch's kernels, when they are
    run, on CUDA by the rules above. Symbolic sizes are those of the example that was traced.

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
            return getattr(n.target, "overloadpacket", None) in _UNKNOWN
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

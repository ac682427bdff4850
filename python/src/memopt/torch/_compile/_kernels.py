"""The memory that CUDA's kernels take beside their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ._cost import hint, value

aten = torch.ops.aten


def workspace(n: fx.Node) -> int:
    """The bytes of a kernel's workspace by PyTorch's sources; 0 for kernels without.

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


def unknown(graph: fx.Graph) -> list[str]:
    """The operators of a graph whose kernels take memory that is not known."""
    return sorted({str(n.target) for n in graph.nodes if getattr(n.target, "overloadpacket", None) in _UNKNOWN})

"""The memory that kernels of CUDA take beside their results, which no table of a device tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten

# The number that a dim stands for.
Size = Callable[[Any], int]

# Operators whose kernels' memory is not known.
UNKNOWN = frozenset([aten.convolution, aten.convolution_backward, aten._cudnn_rnn, aten._cudnn_rnn_backward])


def _dims(v: Any, size: Size) -> list[int]:
    return [size(d) for d in v.shape]


def _up(size: int, to: int) -> int:
    return -(-size // to) * to


def _flash_backward(args: Sequence[Any], size: Size) -> int:
    """The products' sums by row, the gradient of the queries in float32, and gradients of keys and values for each head
    where heads share them (mha_bwd in transformers/cuda/flash_attn/flash_api.cpp)."""
    query, key = args[1], args[2]
    (batch, heads, rows, width), (_, groups, columns, _) = _dims(query, size), _dims(key, size)
    wide = _up(width, 32 if width <= 128 else 64)
    floats = batch * heads * _up(rows, 128) * (1 + wide)
    shared = 2 * batch * heads * columns * width * query.element_size() if heads != groups else 0
    return 4 * floats + shared


def _efficient_backward(args: Sequence[Any], size: Size) -> int:
    """The products' sums by row, and the gradient of the queries in float32 where they are of another type
    (mem_eff_attention/kernel_backward.h, workspace_size)."""
    query = args[1]
    batch, heads, rows, width = _dims(query, size)
    wide = _up(width, 64) if query.dtype != torch.float32 else 0
    return 4 * batch * heads * _up(rows, 64) * (1 + wide)


def _embedding_backward(args: Sequence[Any], size: Size) -> int:
    """Sorted indices, and the sums of up to ten gradients each, at most one more for each row of the table
    (EmbeddingBackwardKernel.cu); no sums for few indices."""
    grad, indices = args[0], args[1]
    count, width = size(indices.numel()), _dims(grad, size)[-1]
    if count <= 3072:
        return 0
    parts = _up(count, 10) // 10 + min(count, size(args[2]))
    return 4 * 8 * count + 4 * parts * width


# The bytes of a kernel's workspace, of its arguments and the number that a dim stands for, by operator.
#
# cuBLAS has one workspace for all products, which is in a device's reserve. Of cuDNN's convolutions, which try several
# algorithms, it is not known, and of reductions it is a few thousand bytes: they count as 0.
WORKSPACES: dict[Any, Callable[[Sequence[Any], Size], int]] = {
    aten._scaled_dot_product_flash_attention_backward: _flash_backward,
    aten._scaled_dot_product_efficient_attention_backward: _efficient_backward,
    aten.embedding_dense_backward: _embedding_backward,
}

"""The kernel of attention that PyTorch chooses on CUDA, where no device is there to be asked."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx
from torch.nn.functional import pad, scaled_dot_product_attention

aten = torch.ops.aten

_HALVES = (torch.float16, torch.bfloat16)


def choose(gm: fx.GraphModule) -> None:
    """Has a graph of dynamo's call CUDA's kernels of attention.

    ``scaled_dot_product_attention`` asks the device for its generation. Where there is no device it computes attention
    by products, whose scores take memory that no kernel of a device of this age takes.
    """
    for m in gm.modules():
        if isinstance(m, fx.GraphModule):
            for n in m.graph.nodes:
                if n.op == "call_function" and n.target is scaled_dot_product_attention:
                    n.target = attention
            m.recompile()


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """``scaled_dot_product_attention`` by the rules of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, on devices
    from sm80 on: flash attention, else memory-efficient attention, else products."""
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        attn_mask = attn_mask if attn_mask is None or attn_mask.dtype == torch.bool else attn_mask.to(dtype)
    given = (query, key, value)
    if _flash(query, key, value, attn_mask, is_causal):
        wide = -query.shape[-1] % 8
        padded = [pad(t, (0, wide)) for t in given] if wide else given
        by = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
        out = aten._scaled_dot_product_flash_attention(*padded, dropout_p, is_causal, scale=by)[0]
        return out[..., : query.shape[-1]] if wide else out  # type: ignore[no-any-return]
    if _efficient(query, key, value, enable_gqa):
        bias = None if attn_mask is None else _bias(attn_mask, query, key)
        grads = torch.is_grad_enabled() and any(t.requires_grad for t in given)
        out = aten._scaled_dot_product_efficient_attention(*given, bias, grads, dropout_p, is_causal, scale=scale)
        return out[0]  # type: ignore[no-any-return]
    return scaled_dot_product_attention(*given, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def _flash(query: Any, key: Any, value: Any, mask: Any, is_causal: bool) -> bool:
    if mask is not None or query.dtype not in _HALVES or not query.dtype == key.dtype == value.dtype:
        return False
    if not query.dim() == key.dim() == value.dim() == 4 or query.shape[-1] > 256:
        return False
    if not query.shape[-1] == key.shape[-1] == value.shape[-1] or query.shape[1] % key.shape[1]:
        return False
    return bool(not is_causal or query.shape[-2] == key.shape[-2])


def _efficient(query: Any, key: Any, value: Any, enable_gqa: bool) -> bool:
    if query.dtype not in (*_HALVES, torch.float32) or not query.dtype == key.dtype == value.dtype:
        return False
    if not query.dim() == key.dim() == value.dim() == 4 or (enable_gqa and query.shape[1] != key.shape[1]):
        return False
    aligned = 8 if query.dtype in _HALVES else 4
    heads = query.shape[1] == key.shape[1]
    return bool(heads and query.shape[-1] % aligned == 0 and value.shape[-1] % aligned == 0)


def _bias(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """A mask as numbers that are added to the scores, for each of them, its rows aligned."""
    if mask.dtype == torch.bool:
        zero = torch.zeros((), dtype=query.dtype, device=query.device)
        mask = torch.where(mask, zero, torch.full_like(zero, -math.inf))
    columns = mask.shape[-1]
    if columns % 8 and columns > 1:
        mask = pad(mask, (0, -columns % 8))[..., :columns]
    return mask.expand(query.shape[0], query.shape[1], query.shape[-2], key.shape[-2])

"""Selective checkpointing at the level of operators."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy

from ._plan import Plan

# Results that cost the most to make again, by the names that torch.ops.aten has.
_COSTLY = (
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "convolution",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_cudnn_attention",
)


def selective_policy(plan: Plan | str | os.PathLike[str] | Mapping[str, Any]) -> Callable[..., Any]:
    """A policy for ``torch.utils.checkpoint.create_selective_checkpoint_contexts``, to be used with the modules
    that the plan names: results of products of matrices, convolutions and attention are kept, everything else in
    the modules is made again.

        from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        context_fn = functools.partial(create_selective_checkpoint_contexts, selective_policy("plan.json"))
        checkpoint(module, x, use_reentrant=False, context_fn=context_fn)

    It keeps more bytes than the plan's prediction, which is for modules that run again whole, and takes less time.
    """
    Plan.load(plan)
    costly: set[Any] = set()
    for name in _COSTLY:
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None:
            costly.update(getattr(packet, overload) for overload in packet.overloads())

    def policy(_ctx: Any, op: Any, *_args: Any, **_kwargs: Any) -> Any:
        return CheckpointPolicy.MUST_SAVE if op in costly else CheckpointPolicy.PREFER_RECOMPUTE

    return policy

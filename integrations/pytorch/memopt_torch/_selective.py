"""Selective checkpointing at the level of operators, for torch 2.4 and later."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Union

import torch

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


def selective_policy(plan: Union[Plan, str, os.PathLike, Mapping[str, Any]]) -> Callable[..., Any]:
    """A policy for ``torch.utils.checkpoint.create_selective_checkpoint_contexts``, to be used with the modules
    that the plan names: results of products of matrices, convolutions and attention are kept, everything else in
    the modules is made again.

        from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        context_fn = functools.partial(create_selective_checkpoint_contexts, selective_policy("plan.json"))
        checkpoint(module, x, use_reentrant=False, context_fn=context_fn)

    It keeps more bytes than the plan's prediction, which is for modules that run again whole, and takes less time.
    Written against the documentation of torch 2.4; it has not been run with one.

    Raises:
        RuntimeError: this torch has no selective checkpointing.
    """
    Plan.load(plan)
    policies = getattr(torch.utils.checkpoint, "CheckpointPolicy", None)
    if policies is None:
        raise RuntimeError(
            f"selective checkpointing needs torch 2.4 or later (CheckpointPolicy), this is {torch.__version__}; "
            "memopt_torch.apply works here"
        )
    costly = set()
    for name in _COSTLY:
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None:
            costly.update(getattr(packet, overload) for overload in packet.overloads())

    def policy(_ctx: Any, op: Any, *_args: Any, **_kwargs: Any) -> Any:
        return policies.MUST_SAVE if op in costly else policies.PREFER_RECOMPUTE

    return policy

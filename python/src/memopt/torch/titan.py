"""memopt as a memory policy of torchtitan's graph_trainer.

    import memopt.torch.titan  # in the function that makes the job's configuration
    config.compile.memory_policy = "memopt"

    $ MEMOPT_BUDGET=60% torchrun … train.py

The budget is that of ``memopt.torch.plan``: a share of the step's bytes, or a size for parameters, buffers, inputs and
the step together, of one rank.
"""

from __future__ import annotations

import os
from typing import Any

from torch import fx
from torchtitan.experiments.graph_trainer.registry import (  # type: ignore[import-not-found]
    register_memory_policy,
)

from ._compile._policy import mark
from ._plan import PlanError
from ._planner import byte_limit

# torchtitan recomputes behind the backward of these modules: of a loss in parts they have several.
_LOSS = ("loss", "lm_head")


@register_memory_policy("memopt")  # type: ignore[untyped-decorator]
def memory_policy(gm: fx.GraphModule, *, config: Any) -> fx.GraphModule:
    """Tags the nodes of a step whose values are kept, and those that are computed again, within MEMOPT_BUDGET.

    Raises:
        PlanError: there is no budget.
        BudgetError: no choice fits.
    """
    limit = byte_limit(os.environ.get("MEMOPT_BUDGET"))
    if limit is None:
        raise PlanError("memory_policy is 'memopt', and there is no budget: set MEMOPT_BUDGET, such as 60% or 60GiB")
    reshard = str(getattr(getattr(config, "parallelism", None), "fsdp_reshard_after_forward", "never"))
    promise = mark(gm, limit, last_loss=_is_loss, gathers=reshard in ("always", "default"))
    print(f"memopt: {promise}")
    gm.recompile()
    return gm


def _is_loss(n: fx.Node) -> bool:
    return n.meta.get("custom", {}).get("module_fqn", "") in _LOSS

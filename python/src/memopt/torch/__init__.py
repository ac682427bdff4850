"""Plans of memopt in PyTorch.

    from memopt.torch import apply, check, measure, plan

    p = plan(model, batch, budget="60%")
    apply(model, p)

``plan`` traces a training step on fake tensors and chooses the modules that run again in the backward half, ``apply``
puts them under ``torch.utils.checkpoint``, ``check`` proves that gradients stay equal bit for bit, ``measure`` gives
the peak and the time of a step. ``export`` writes the model as an ONNX file, of which the program ``memopt`` makes
such plans too: ``memopt plan model.onnx --select modules --budget 60% --save-plan plan.json``.

``compile`` is ``torch.compile`` within a budget: ``model = memopt.torch.compile(model, budget="60%")``.
"""

from typing import TYPE_CHECKING, Any

from . import _version  # isort: skip  # before the others: it refuses a torch that they cannot use
from ._apply import Applied, apply
from ._check import Check, check
from ._export import export
from ._measure import Usage, measure
from ._operators import OperatorPlan
from ._plan import Plan, PlanError
from ._planner import BudgetError, plan
from ._selective import selective_policy
from ._trace import Trace, TraceError, trace

if TYPE_CHECKING:
    from ._compile import Compiled, budget, compile

__all__ = [
    "Applied",
    "BudgetError",
    "Check",
    "Compiled",
    "OperatorPlan",
    "Plan",
    "PlanError",
    "Trace",
    "TraceError",
    "Usage",
    "apply",
    "budget",
    "check",
    "compile",
    "export",
    "measure",
    "plan",
    "selective_policy",
    "trace",
]

del _version


def __getattr__(name: str) -> Any:
    """Imports the modules of ``compile`` when it is first asked for, since PyTorch's compiler takes seconds to load."""
    if name in ("Compiled", "budget", "compile"):
        from . import _compile

        return getattr(_compile, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

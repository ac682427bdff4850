"""Plans of memopt in PyTorch.

    from memopt.torch import apply, check, export, measure

    export(model, inputs, "model.onnx", loss=loss, labels=labels)
    # memopt plan model.onnx --select modules --budget 60% --save-plan plan.json
    apply(model, "plan.json")

``export`` writes a file that memopt plans, ``apply`` puts the modules of a plan under ``torch.utils.checkpoint``,
``check`` proves that gradients stay equal bit for bit, ``measure`` gives the peak and the time of a step.
"""

from . import _version  # isort: skip  # before the others: it refuses a torch that they cannot use
from ._apply import Applied, apply
from ._check import Check, check
from ._export import export
from ._measure import Usage, measure
from ._plan import Plan, PlanError
from ._selective import selective_policy

__all__ = [
    "Applied",
    "Check",
    "Plan",
    "PlanError",
    "Usage",
    "apply",
    "check",
    "export",
    "measure",
    "selective_policy",
]

del _version

"""Plans of memopt in PyTorch.

    from memopt_torch import apply, check, export, measure

    export(model, inputs, "model.onnx", loss=loss, labels=labels)
    # memopt plan model.onnx --select modules --budget 60% --save-plan plan.json
    apply(model, "plan.json")

``export`` writes what memopt plans, ``apply`` puts the modules of a plan under
``torch.utils.checkpoint``, ``check`` proves that gradients stay equal bit for bit, ``measure`` says
what a step takes.
"""

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

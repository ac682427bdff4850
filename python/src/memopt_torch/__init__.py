"""The former name of ``memopt.torch``, for one release."""

import warnings

from memopt.torch import (
    Applied,
    Check,
    Plan,
    PlanError,
    Usage,
    apply,
    check,
    export,
    measure,
    selective_policy,
)

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

warnings.warn("memopt_torch is now memopt.torch: import that one", DeprecationWarning, stacklevel=2)

"""Plans of memopt in ORTModule, the training module of ONNX Runtime.

    import memopt.ortmodule  # before the first step

    $ MEMOPT_BUDGET=50% python train.py
    $ MEMOPT_BUDGET=50% python -m memopt.ortmodule train.py   # without the import

Whenever an ORTModule makes the session of a training graph, memopt plans that graph and the session gets the
rewritten one. ``MEMOPT_BUDGET`` is a share of the step's peak, such as ``50%``, or a size for weights, inputs and the
step together, such as ``12GiB``; ``MEMOPT_PLAN`` is a plan file of ``memopt plan --save-plan``, or a configuration as
ORTMODULE_MEMORY_OPT_CONFIG takes it. Without both, ORTModule stays as it is. The first step of each graph prints what
was promised and measured.
"""

from ._find import ORTModuleError
from ._patch import install
from ._plan import BudgetError, Planned

__all__ = ["BudgetError", "ORTModuleError", "Planned", "install"]

install()

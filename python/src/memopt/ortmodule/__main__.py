"""The command line: ``python -m memopt.ortmodule script.py arguments``."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import types

from . import _script
from ._plan import Settings

_USAGE = """\
usage: MEMOPT_BUDGET=50% python -m memopt.ortmodule SCRIPT.py [ARGUMENTS]

runs a training script, and gives the ORTModules that it trains plans of memopt.

  MEMOPT_BUDGET  a share of a step's peak, such as 50%, or a size for weights, inputs and the step together,
                 such as 12GiB
  MEMOPT_PLAN    a plan file of memopt plan --save-plan, or a configuration of ORTModule
"""


def main() -> int:
    """Runs a script as ``python script.py`` does, with memopt in ORTModule."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(_USAGE, end="")
        return 0
    if not arguments or not os.path.isfile(arguments[0]):
        print(f"memopt.ortmodule: {arguments[0]}: no such script" if arguments else _USAGE.rstrip(), file=sys.stderr)
        return 2
    if Settings.read() is None:
        print(
            "memopt.ortmodule: neither MEMOPT_BUDGET nor MEMOPT_PLAN is set; set MEMOPT_BUDGET, such as 50% or 12GiB",
            file=sys.stderr,
        )
        return 2
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    os.environ[_script.VARIABLE] = os.path.abspath(arguments[0])
    module = types.ModuleType("__main__")
    module.__spec__ = importlib.machinery.ModuleSpec(_script.__name__, None)  # for multiprocessing's children
    sys.modules["__main__"] = module
    _script.execute(module.__dict__)
    return 0


if __name__ == "__main__":
    sys.exit(main())

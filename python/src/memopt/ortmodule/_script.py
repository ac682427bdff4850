"""A script in the place of ``__main__``, in this process and in those that multiprocessing spawns from it."""

from __future__ import annotations

import os
from typing import Any

VARIABLE = "MEMOPT_ORTMODULE_SCRIPT"


def execute(namespace: dict[str, Any]) -> None:
    """Runs the script that the variable names in a module's namespace."""
    path = os.environ[VARIABLE]
    with open(path, "rb") as f:
        code = compile(f.read(), path, "exec", dont_inherit=True)
    namespace["__file__"] = path
    exec(code, namespace)


if __name__ == "__mp_main__":  # multiprocessing's name for the main module of its parent
    import memopt.ortmodule

    del memopt
    execute(globals())

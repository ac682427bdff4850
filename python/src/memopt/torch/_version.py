"""Refuses a torch that memopt.torch cannot use, when it is imported."""

from __future__ import annotations

import re

OLDEST = (2, 6)


def require(version: str) -> None:
    """Raises ImportError where a version of torch, such as "2.15.0+cpu", is older than OLDEST."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(f"memopt.torch needs torch >= {oldest}, this is torch {version}; pip install 'memopt[torch]'")


try:
    import torch
except ModuleNotFoundError as e:
    if e.name != "torch":
        raise  # a torch that is there and cannot be imported
    raise ImportError("memopt.torch needs torch >= 2.6, and there is none; pip install 'memopt[torch]'") from e

require(torch.__version__)

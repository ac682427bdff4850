"""The versions of PyTorch whose joint graphs memopt knows."""

from __future__ import annotations

import re

KNOWN = ("2.15",)


def require(version: str) -> None:
    """Raises RuntimeError where memopt.torch.compile was not tried with a version of torch."""
    found = re.match(r"\d+\.\d+", version)
    if found is None or found.group() not in KNOWN:
        raise RuntimeError(
            f"memopt.torch.compile knows the joint graphs of torch {', '.join(KNOWN)}; this is {version}. "
            "memopt.torch.plan and apply, which need none, work with torch >= 2.6"
        )

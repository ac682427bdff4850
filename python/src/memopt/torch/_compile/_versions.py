"""The versions of PyTorch whose joint graphs memopt knows."""

from __future__ import annotations

import re

# All have the seams of both backends: partition_fn of AOTAutograd, custom_partitioner_fn of Inductor (from 2.9 on), and
# a way to compile the backward half at once. _differences has all that one lacks; bench/torchcompile/versions.py tries
# them.
KNOWN = ("2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15")

# Those that compile on fake tensors, as a plan without a step has it.
FAKING = KNOWN[2:]


def require(version: str, known: tuple[str, ...] = KNOWN, feature: str = "memopt.torch.compile") -> None:
    """Raises RuntimeError where a function was not tried with a version of torch."""
    found = re.match(r"\d+\.\d+", version)
    if found is None or found.group() not in known:
        raise RuntimeError(
            f"{feature} knows the joint graphs of torch {', '.join(known)}; this is {version}. "
            "memopt.torch.plan of modules and apply, which need none, work with torch >= 2.6"
        )

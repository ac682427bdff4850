"""Asks the program memopt for a plan of a training graph."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import memopt

from ._find import ORTModuleError
from ._memory import MemoryFile


class BudgetError(ORTModuleError):
    """No plan fits the budget.

    Attributes:
        lowest_bytes: the lowest peak that was found, as the budget counts it; without a search, the bound below which
            there is none.
    """

    def __init__(self, message: str, lowest_bytes: int) -> None:
        super().__init__(message)
        self.lowest_bytes = lowest_bytes


@dataclass(frozen=True)
class Settings:
    """The wanted plan, as the environment says.

    Attributes:
        budget: a share or a size, as the program reads it; empty for none.
        plan: the path of a plan file or of a configuration of ORTModule; empty for none.
    """

    budget: str
    plan: str

    @staticmethod
    def read() -> Settings | None:
        """MEMOPT_BUDGET and MEMOPT_PLAN; None where neither is set."""
        budget, plan = (os.environ.get(n, "").strip() for n in ("MEMOPT_BUDGET", "MEMOPT_PLAN"))
        return Settings(budget, plan) if budget or plan else None

    def __str__(self) -> str:
        return " and ".join(f"{n}={v}" for n, v in (("MEMOPT_BUDGET", self.budget), ("MEMOPT_PLAN", self.plan)) if v)

    def flags(self) -> list[str]:
        """Those of ``memopt plan``.

        Raises:
            ORTModuleError: the plan cannot be read.
        """
        budget = ["--budget", self.budget] if self.budget else []
        if self.budget and "MEMOPT_TIME_LIMIT" in os.environ:
            budget += ["--time-limit", os.environ["MEMOPT_TIME_LIMIT"]]
        if not self.plan:
            return budget
        path = Path(self.plan)
        try:
            if path.exists() and not path.is_file():
                raise OSError("it is no regular file")
            listed = isinstance(json.loads(path.read_text(encoding="utf-8")), list)
        except (OSError, ValueError) as e:
            raise ORTModuleError(
                f"MEMOPT_PLAN={self.plan}: {e}; wanted a file that memopt plan --save-plan has written, or a "
                "configuration as ORTMODULE_MEMORY_OPT_CONFIG takes it"
            ) from e
        if listed and budget:
            raise ORTModuleError(
                f"MEMOPT_PLAN={self.plan} is a configuration of ORTModule, which decides alone: unset MEMOPT_BUDGET"
            )
        return ["--config" if listed else "--plan", self.plan, *(budget[:2])]


@dataclass(frozen=True)
class Planned:
    """A training graph with its plan, and what was predicted of it. Peaks are bytes beyond weights and inputs.

    Attributes:
        model: the rewritten graph, as bytes of ONNX.
        baseline_bytes: the peak of a step without a plan.
        promised_bytes: that with the plan.
        level_bytes: that with ORTMODULE_MEMORY_OPT_LEVEL=1; None where it could not be predicted, or ORTModule refuses
            its graph.
        clones: how many nodes run again.
        overhead: their time as a share of a step, estimated.
    """

    model: bytes
    baseline_bytes: int
    promised_bytes: int
    level_bytes: int | None
    clones: int
    overhead: float


def planned(graph: MemoryFile, dims: Mapping[str, int], settings: Settings) -> Planned:
    """Plans a training graph of ORTModule and rewrites it.

    Args:
        graph: the graph that ORTModule's session runs.
        dims: the sizes of the symbols of its inputs.
        settings: the wanted plan.

    Raises:
        BudgetError: no plan fits.
        ORTModuleError: the program is missing or refuses the graph or the settings.
    """
    bound = ["--budget-in", "ortmodule"]
    if dims:
        bound += ["--dim", ",".join(f"{k}={v}" for k, v in dims.items())]
    with MemoryFile("plan.json") as saved, MemoryFile("planned.onnx") as out:
        chosen = _asked("plan", graph, *bound, *settings.flags(), "--save-plan", saved, settings=settings)
        level = _asked("plan", graph, *bound, "--level", "1", settings=None)
        written = _asked("apply", graph, *bound, "--plan", saved, "-o", out, settings=settings)
        rewritten = out.read()
    for text in chosen["warnings"]:
        if text.startswith("config entry"):  # the others are of ORTModule's own optimizer, which is off
            warnings.warn(f"{settings}: {text}", stacklevel=2)
    if any(text.startswith("ORTModule refuses") for text in (level or {}).get("warnings", ())):
        level = {}
    baseline, promised = _peaks(chosen, written)
    return Planned(
        model=rewritten,
        baseline_bytes=baseline,
        promised_bytes=promised,
        level_bytes=level["peak"]["planned_bytes"] if level else None,
        clones=written["clones"],
        overhead=(chosen.get("recompute") or {}).get("overhead", 0.0),
    )


def _peaks(chosen: Mapping[str, Any], written: Mapping[str, Any]) -> tuple[int, int]:
    """The peaks of the unchanged and of the rewritten graph."""
    peak = chosen["peak"]
    return peak["baseline_bytes"], peak["planned_bytes"]


def _asked(verb: str, graph: MemoryFile, *flags: str | MemoryFile, settings: Settings | None) -> dict[str, Any]:
    """The answer of the program; empty where it has none and settings is None."""
    arguments = [f.path if isinstance(f, MemoryFile) else f for f in (graph, *flags)]
    descriptors = tuple(f.fd for f in (graph, *flags) if isinstance(f, MemoryFile))
    try:
        text = memopt.run(verb, *arguments, "-O", "json", "-q", variables=False, descriptors=descriptors)
        answer: dict[str, Any] = json.loads(text)
    except OSError as e:
        raise ORTModuleError(f"memopt.ortmodule cannot plan: {e}") from e
    except memopt.Error as e:
        if settings is None:
            return {}
        text = str(e).replace(f"{graph.path}: ", "").removeprefix("memopt: ")
        if e.code == 3:
            raise BudgetError(f"{settings}: {text}", _lowest(e.output)) from None
        raise ORTModuleError(f"{settings}: memopt {verb} of ORTModule's training graph: {text}") from None
    return answer


def _lowest(output: str) -> int:
    """The lowest peak that was found, or else the bound below which there is none, of the report that nothing fits."""
    try:
        report = json.loads(output)
    except ValueError:
        return 0
    return int(report.get("lowest_arena_bytes") or report.get("lower_bound_bytes") or 0)

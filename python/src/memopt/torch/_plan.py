"""Plan files, as ``memopt plan --select modules --save-plan`` writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = "memopt-modules"
OPERATORS = "memopt-operators"
VERSION = 1


class PlanError(ValueError):
    """A plan, or a model, that cannot be used. The message says what, got, wanted, and what to do."""


@dataclass(frozen=True)
class Plan:
    """Which modules run again in the backward half, and what that was predicted to take."""

    path: str
    modules: tuple[str, ...]
    calls: Mapping[str, int]
    parameters: Mapping[str, tuple[int, ...]]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    preserve_rng_state: bool
    nested: bool
    torch: str
    peak_bytes: int
    baseline_peak_bytes: int
    raw: Mapping[str, Any]

    @property
    def predicted_peak_bytes(self) -> int:
        """The most bytes at one time that a step takes beyond parameters, buffers and inputs, with gradients."""
        return self.peak_bytes - int(self.raw.get("held_bytes", 0))

    @property
    def predicted_total_bytes(self) -> int:
        """The most bytes at one time that training takes: parameters, buffers, inputs, the optimizer's state where an
        optimizer was given, and the step or the update of parameters. A budget in bytes bounds it."""
        return int(self.raw.get("predicted_total_bytes", self.peak_bytes))

    @property
    def overhead(self) -> float:
        """The estimated time of recomputation, as a share of a step."""
        return float(self.raw.get("recompute_share", 0.0))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as a file that ``apply`` reads."""
        with open(path, "w", encoding="utf-8") as f:
            json.dump(self.raw, f, indent=1)
            f.write("\n")

    def __str__(self) -> str:
        text = f"predicted peak {size(self.predicted_peak_bytes)} beyond parameters, buffers and inputs"
        if not self.modules:
            return text + ", no module runs again"
        before = self.baseline_peak_bytes - int(self.raw.get("held_bytes", 0))
        return (
            f"{text}, {size(before)} without the plan; {len(self.modules)} modules run again, "
            f"{100 * self.overhead:.1f} % of a step"
        )

    @staticmethod
    def load(source: Plan | str | os.PathLike[str] | Mapping[str, Any]) -> Plan:
        """Reads a plan from a file, or from a mapping of the same form. A Plan is returned as it is."""
        if isinstance(source, Plan):
            return source
        if isinstance(source, Mapping):
            return _parse("the plan", source)
        path = os.fspath(source)
        with open(path, encoding="utf-8") as f:
            try:
                raw = json.load(f)
            except ValueError as e:
                raise PlanError(f"{path}: wanted a plan of memopt plan --select modules --save-plan: {e}") from e
        return _parse(path, raw)


def size(n: int) -> str:
    """Bytes for a reader."""
    return f"{n / 2**30:.2f} GiB" if n >= 1 << 30 else f"{n / 2**20:.2f} MiB"


def _parse(path: str, raw: Any) -> Plan:
    if isinstance(raw, Mapping) and raw.get("format") == OPERATORS:
        raise PlanError(f"{path}: is a plan of operators; compile the model by it: memopt.torch.compile(model, plan=…)")
    if not isinstance(raw, Mapping) or raw.get("format") != FORMAT:
        raise PlanError(
            f"{path}: is no plan of modules (wanted \"format\": \"{FORMAT}\"); make one with "
            "memopt plan MODEL --select modules --budget SIZE --save-plan FILE"
        )
    if raw.get("version") != VERSION:
        raise PlanError(
            f"{path}: is of version {raw.get('version')!r}, this package reads {VERSION}; use the package of the "
            "memopt that wrote it"
        )
    try:
        modules: list[str] = [str(name) for name in raw["modules"]]
        calls: dict[str, int] = {str(k): int(v) for k, v in raw.get("calls", {}).items()}
        parameters = {str(k): tuple(int(n) for n in v) for k, v in raw["parameters"].items()}
        inputs = tuple((str(i["name"]), tuple(int(n) for n in i["shape"])) for i in raw["inputs"])
        return Plan(
            path,
            tuple(modules),
            calls,
            parameters,
            inputs,
            bool(raw.get("preserve_rng_state", True)),
            bool(raw.get("nested", False)),
            str(raw.get("torch", "")),
            int(raw["peak_bytes"]),
            int(raw["baseline_peak_bytes"]),
            raw,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise PlanError(f"{path}: the plan is damaged: {type(e).__name__}: {e}; make it anew") from e

"""Plan files, as ``memopt plan --select modules --save-plan`` writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = "memopt-modules"
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


def _parse(path: str, raw: Any) -> Plan:
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

"""Plans of operators: the schedule of every graph of a step, before it runs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._plan import FORMAT as MODULES
from ._plan import OPERATORS, PlanError, size
from ._replay import Replay

VERSION = 1

# Shares of the peak without recomputation at which a curve asks, unless it is told others.
SHARES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3)


@dataclass(frozen=True)
class Point:
    """One point of a curve of peak against time.

    Attributes:
        budget_bytes: the most that the step may take, as ``peak_bytes`` counts it.
        peak_bytes: the most bytes at one time of a step beyond those that were there before it.
        seconds: the estimated time of the step.
        overhead: of that, the share that is recomputation, of a step without.
        fits: whether a schedule was found; else peak_bytes is the lowest peak that was found, and the overhead is 0.
    """

    budget_bytes: int
    peak_bytes: int
    seconds: float
    overhead: float
    fits: bool

    def __str__(self) -> str:
        if not self.fits:
            return f"{size(self.budget_bytes)}: no schedule, the lowest peak that was found is {size(self.peak_bytes)}"
        return f"{size(self.peak_bytes)}: {1e3 * self.seconds:.3g} ms, +{100 * self.overhead:.2f} %"


@dataclass(frozen=True)
class Held:
    """A value at the peak.

    Attributes:
        bytes: its size.
        value: its name in the graph.
        op: the operator that made it.
        module: of which module of the model; "" for none.
        source: the file and the line of the model's code; "" where that is not known.
    """

    bytes: int
    value: str
    op: str
    module: str
    source: str


class GraphPlan:
    """The plan of one graph of a step.

    Attributes:
        instance: the graph as ``memopt solve`` takes it (docs/instances.md), with an ``op``, a ``module`` and a
            ``source`` among the tags of each node.
        steps: its schedule.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.instance: dict[str, Any] = raw["instance"]
        self.steps: list[dict[str, str]] = raw["steps"]

    @property
    def fingerprint(self) -> str:
        """A hash of the graph that the plan is for."""
        return fingerprint(self.instance)

    def replay(self) -> Replay:
        """The schedule, step by step."""
        return Replay(self.instance, self.steps)


class OperatorPlan:
    """A plan of the operators of a training step, which ``memopt.torch.compile(model, plan=…)`` compiles.

    Attributes:
        graphs: those of the step, in the order in which they run; more than one where the model has graph breaks.
        raw: the contents of its file (docs/schemas/operator-plan.schema.json).
    """

    def __init__(self, raw: Mapping[str, Any], path: str = "the plan") -> None:
        self.raw, self.path = raw, path
        self.graphs = [GraphPlan(g) for g in raw["graphs"]]

    @property
    def backend(self) -> str:
        """Whose graphs it is for: "aot_eager" or "inductor"."""
        return str(self.raw["backend"])

    @property
    def device(self) -> str:
        """The type of the tensors: "cpu" or "cuda"."""
        return str(self.raw["device"])

    @property
    def profile(self) -> str:
        """The profile of the device by which times were estimated; "" where the model's own device was planned for."""
        return str(self.raw.get("profile", ""))

    @property
    def predicted_peak_bytes(self) -> int:
        """The most bytes at one time of a step beyond those that were there before it, gradients included."""
        return int(self.raw["peak_bytes"])

    @property
    def baseline_peak_bytes(self) -> int:
        """The same without recomputation, in the order of the joint graph."""
        return int(self.raw["baseline_peak_bytes"])

    @property
    def predicted_total_bytes(self) -> int:
        """The most bytes at one time of training: parameters, buffers, inputs, the state of the optimizer, and the
        step or the update. A budget in bytes bounds it."""
        return int(self.raw["total_bytes"])

    @property
    def predicted_reserved_bytes(self) -> int:
        """The same by the segments that PyTorch's allocator takes from the device."""
        return int(self.raw["reserved_bytes"])

    @property
    def memory_bytes(self) -> int | None:
        """The memory of the device; None where that is not known."""
        return self.raw.get("memory_bytes")

    @property
    def reserve_bytes(self) -> int:
        """The part of the device's memory that no step can have: the driver, the runtime's context, its libraries."""
        return int(self.raw.get("reserve_bytes", 0))

    @property
    def fits(self) -> bool | None:
        """Whether training fits the device; None where its memory is not known."""
        if self.memory_bytes is None:
            return None
        return self.predicted_reserved_bytes <= self.memory_bytes - self.reserve_bytes

    @property
    def seconds(self) -> float:
        """The estimated time of a step, forward and backward."""
        return float(self.raw["cost_us"]) / 1e6

    @property
    def overhead(self) -> float:
        """The estimated time of recomputation, as a share of the step's."""
        return self._share("cost_us")

    @property
    def bound(self) -> float:
        """The least overhead that any schedule within the budget has, by the same estimate."""
        return self._share("bound_us")

    def _share(self, field: str) -> float:
        base = float(self.raw["base_cost_us"])
        return float(self.raw[field]) / base - 1 if base else 0.0

    @property
    def digest(self) -> str:
        """A hash of the plan: of graphs and schedules."""
        given = [[g.fingerprint, g.steps] for g in self.graphs]
        return hashlib.sha256(json.dumps(given).encode()).hexdigest()

    def curve(self, shares: Sequence[float] = SHARES, *, time_limit: float | None = None) -> list[Point]:
        """Peak against time: the cheapest schedules within shares of the peak without recomputation.

        Args:
            shares: such as 0.6.
            time_limit: seconds of each search; None: a millisecond for each node, at least half a second.
        """
        from ._compile import _solve

        return [self._point(int(s * self.baseline_peak_bytes), _solve, time_limit) for s in shares]

    def _point(self, most: int, solver: Any, time_limit: float | None) -> Point:
        before = top = 0
        cost, base = 0.0, float(self.raw["base_cost_us"])
        for g in self.graphs:
            given = {**g.instance, "budget": max(most - before, 1)}
            try:
                answer = solver.solve(given, time_limit)
            except solver.Infeasible as e:
                return Point(most, e.lowest + before, 0.0, 0.0, False)
            top = max(top, before + answer["peak"])
            before += Replay(given, answer["steps"]).saved_bytes
            cost += answer["cost"]
        return Point(most, top, cost / 1e6, cost / base - 1 if base else 0.0, True)

    def at_peak(self) -> list[Held]:
        """The values that are there at the peak of the step, the largest first."""
        before = top = 0
        found: list[Held] = []
        open_: list[Held] = []  # of graphs before: there at their handovers
        for g in self.graphs:
            replay = g.replay()
            tags = {n["id"]: n.get("tags", {}) for n in g.instance["nodes"]}

            def held(step: int, replay: Replay = replay, tags: dict[str, Any] = tags) -> list[Held]:
                out = []
                for b in replay.there(step):
                    t = tags[b.node]
                    out.append(Held(b.bytes, b.value, t.get("op", ""), t.get("module", ""), t.get("source", "")))
                return out

            if before + replay.peak_bytes > top:
                top = before + replay.peak_bytes
                found = open_ + held(replay.peak)
                if replay.work[replay.peak]:
                    node = replay.computed[replay.peak]
                    t = tags[node]
                    work = f"workspace of {node}"
                    found.append(
                        Held(replay.work[replay.peak], work, t.get("op", ""), t.get("module", ""), t.get("source", ""))
                    )
            open_ = open_ + held(replay.handover - 1)
            before += replay.saved_bytes
        return sorted(found, key=lambda h: -h.bytes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as a file, for ``memopt.torch.compile`` and for the program: ``memopt explain FILE``."""
        with open(path, "w", encoding="utf-8") as f:
            f.write(_text(self.raw))

    def __str__(self) -> str:
        where = f" on {self.profile}" if self.profile else ""
        text = (
            f"predicted peak {size(self.predicted_peak_bytes)} beyond what was there before the step, "
            f"{size(self.baseline_peak_bytes)} without recomputation; {size(self.predicted_total_bytes)} in all{where}"
        )
        if self.overhead > 0:
            text += f"; {100 * self.overhead:.2f} % of a step is recomputed, at least {100 * self.bound:.2f} %"
        if self.memory_bytes is not None:
            room = self.memory_bytes - self.reserve_bytes
            verb = "fits" if self.fits else "does not fit"
            text += (
                f"; {verb}: {size(self.predicted_reserved_bytes)} in the allocator's segments, of {size(room)}: "
                f"{size(self.memory_bytes)} of the device less a reserve of {size(self.reserve_bytes)}"
            )
        return text

    @staticmethod
    def load(source: OperatorPlan | str | os.PathLike[str] | Mapping[str, Any]) -> OperatorPlan:
        """Reads a plan from a file, or from a mapping of the same form. A plan is returned as it is."""
        if isinstance(source, OperatorPlan):
            return source
        if isinstance(source, Mapping):
            return _parse("the plan", source)
        path = os.fspath(source)
        with open(path, encoding="utf-8") as f:
            try:
                raw = json.load(f)
            except ValueError as e:
                raise PlanError(f"{path}: wanted a plan of memopt.torch.plan(select='operators'): {e}") from e
        return _parse(path, raw)


def _text(raw: Mapping[str, Any]) -> str:
    """The file: a line for each node and step, so that files can be compared line by line."""
    head = {k: v for k, v in raw.items() if k != "graphs"}
    parts = [json.dumps(head, indent=1)[:-2] + ',\n "graphs": [']
    for i, g in enumerate(raw["graphs"]):
        instance = dict(g["instance"])
        nodes = ",\n    ".join(json.dumps(n, separators=(",", ":")) for n in instance.pop("nodes"))
        steps = ",\n   ".join(json.dumps(s, separators=(",", ":")) for s in g["steps"])
        rest = {k: v for k, v in g.items() if k not in ("instance", "steps")}
        parts.append(
            f"{',' if i else ''}\n  {{{json.dumps(rest)[1:-1]},\n"
            f'   "instance": {{{json.dumps(instance)[1:-1]}, "nodes": [\n    {nodes}]}},\n'
            f'   "steps": [\n   {steps}]}}'
        )
    return "".join(parts) + "\n ]\n}\n"


def _parse(path: str, raw: Any) -> OperatorPlan:
    if not isinstance(raw, Mapping) or raw.get("format") != OPERATORS:
        of_modules = isinstance(raw, Mapping) and raw.get("format") == MODULES
        kind = "a plan of modules, for memopt.torch.apply" if of_modules else "no plan of operators"
        raise PlanError(
            f'{path}: is {kind} (wanted "format": "{OPERATORS}"); make one with '
            "memopt.torch.plan(model, batch, budget=…, select='operators')"
        )
    if raw.get("version") != VERSION:
        raise PlanError(
            f"{path}: is of version {raw.get('version')!r}, this package reads {VERSION}; use the package of the "
            "memopt that wrote it"
        )
    try:
        plan = OperatorPlan(raw, path)
        for g in plan.graphs:
            g.replay()
        str(plan)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise PlanError(f"{path}: the plan is damaged: {type(e).__name__}: {e}; make it anew") from e
    return plan


def fingerprint(instance: Mapping[str, Any]) -> str:
    """A hash of a graph: its nodes, their values and what may not be computed again; costs and workspaces, which
    machines differ in, left out."""
    h = hashlib.sha256()
    for line in _lines(instance):
        h.update(json.dumps(line).encode())
    return h.hexdigest()


def _lines(instance: Mapping[str, Any]) -> Iterator[list[Any]]:
    for n in instance["nodes"]:
        outputs = [[v["id"], v["size"], v.get("keep", False)] for v in n.get("outputs", [n])]
        yield [n["id"], n["inputs"], outputs, n.get("recompute", True)]


def difference(planned: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """In which a graph differs first from the one that a plan is for."""
    ops = [{n["id"]: n.get("tags", {}).get("op", n["id"]) for n in i["nodes"]} for i in (planned, given)]
    for old, new in zip(_lines(planned), _lines(given), strict=False):
        if old == new:
            continue
        if old[0] != new[0]:
            return f"it has {ops[1][new[0]]} ({new[0]}) where the plan has {ops[0][old[0]]} ({old[0]})"
        if old[1] != new[1]:
            return f"{new[0]} reads {_listed(new[1])}, in the plan {_listed(old[1])}"
        if old[2] != new[2]:
            return f"{new[0]} makes {_sizes(new[2])}, in the plan {_sizes(old[2])}"
        return f"{new[0]} may {'' if new[3] else 'not '}be computed again, in the plan it may {'' if old[3] else 'not'}"
    return f"it has {len(given['nodes'])} nodes, the plan {len(planned['nodes'])}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "no value"


def _sizes(outputs: Sequence[Sequence[Any]]) -> str:
    return ", ".join(f"{name} of {n} bytes" for name, n, _ in outputs)

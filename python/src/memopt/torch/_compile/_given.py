"""Schedules from plans that were made before."""

from __future__ import annotations

from typing import Any

from .._operators import OperatorPlan, difference, fingerprint
from .._plan import PlanError
from .._replay import HANDOVER, Replay


def answer(plan: OperatorPlan, instance: dict[str, Any], device: str, backend: str) -> dict[str, Any]:
    """What ``memopt solve`` would answer for a graph, from a plan that has the graph.

    The instance gets the bytes that the plan foresees between the halves.

    Raises:
        PlanError: the plan has no such graph.
    """
    for what, planned, given in (("device", plan.device, device), ("backend", plan.backend, backend)):
        if planned != given:
            raise PlanError(
                f"{plan.path}: is for the {what} {planned!r}, the model is compiled for {given!r}; plan anew"
            )
    mark = fingerprint(instance)
    graph = next((g for g in plan.graphs if g.fingerprint == mark), None)
    if graph is None:
        nearest = min(plan.graphs, key=lambda g: abs(len(g.instance["nodes"]) - len(instance["nodes"])))
        raise PlanError(
            f"{plan.path}: is for another graph than the one that is compiled: "
            f"{difference(nearest.instance, instance)}; plan anew with this model, batch and backend"
        )
    work = next(n.get("workspace", 0) for n in graph.instance["nodes"] if n["id"] == HANDOVER)
    for n in instance["nodes"]:
        if n["id"] == HANDOVER:
            n["workspace"] = max(work, n["workspace"])
    return {
        "steps": graph.steps,
        "peak": Replay(instance, graph.steps).peak_bytes,
        "cost_lower_bound": graph.raw["bound_us"],
    }

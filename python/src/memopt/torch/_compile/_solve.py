"""Schedules of instances, by the program."""

from __future__ import annotations

import collections
import json
import time
from typing import Any

import memopt

from .._plan import PlanError
from .._ranks import shared

# The seconds of a search that began late, and those in which a node of the graphs is written.
_LEAST, _WRITING = 0.1, 0.0006
# A search that has found no schedule goes on for so many times as long.
_LONGER = 5


class Infeasible(Exception):
    """No schedule within the budget was found.

    Attributes:
        lowest: the lowest peak that was found; of an impossible budget, the peak that no schedule goes below.
        proved: the budget is impossible.
    """

    def __init__(self, message: str, answer: dict[str, Any]) -> None:
        super().__init__(message)
        self.proved: bool = answer["proved"]
        self.lowest: int = answer["peak_lower_bound"] if self.proved else answer["lowest_peak"]


def solve(instance: dict[str, Any], time_limit: float | None, began: float | None = None) -> dict[str, Any]:
    """The schedule of an instance (docs/instances.md) that fits its budget and costs least. Ranks with the same
    instance get the same one.

    Args:
        time_limit: seconds of the search; None: one for 1,000 nodes, at least half of one. If none fits then, without
            a proof that none can, the search goes on for longer.
        began: when the planning began that these seconds are for (``time.thread_time``, so that programs beside this
            one take nothing from the search), the graphs to be written behind it included, so that a search that goes
            on ends with its first schedule; None: they are for the search alone.

    Raises:
        Infeasible: none fits.
    """
    nodes = len(instance["nodes"])
    costs = sum(n["cost"] for n in instance["nodes"])
    instance = {**instance, "nodes": [_priced(n) for n in instance["nodes"]]}
    priced = sum(n["cost"] for n in instance["nodes"])
    most = max(0.45, 0.0009 * nodes)

    def ask() -> dict[str, Any]:
        if time_limit is not None:
            return _asked(instance, time_limit)
        if began is not None:
            spent = time.thread_time() - began + nodes * _WRITING
            return _asked(instance, max(_LEAST, most - spent), _LONGER * most)
        answer = _asked(instance, most)
        if answer.get("infeasible") and not answer["output"]["proved"]:
            answer = _asked(instance, _LONGER * most)
        return answer

    answer = shared(instance, ask, time_limit if time_limit is not None else (1 + _LONGER) * most)
    if "infeasible" in answer:
        raise Infeasible(answer["infeasible"], answer["output"])
    return {**answer, **{k: costs + round(answer[k] - priced, 3) for k in ("cost", "cost_lower_bound")}}


def _priced(node: dict[str, Any]) -> dict[str, Any]:
    """A node as the program knows it, with the cost of its second computation for each: the first ones are in every
    schedule, and the difference is added to the program's answer."""
    if "again" not in node:
        return node
    return {k: v for k, v in node.items() if k != "again"} | {"cost": node["again"]}


def cost(nodes: list[dict[str, Any]], steps: list[dict[str, str]]) -> float:
    """The cost of a schedule: that of each node, and for each computation behind the first that of another one."""
    again = {n["id"]: n.get("again", n["cost"]) for n in nodes}
    times = collections.Counter(s["compute"] for s in steps if "compute" in s)
    return float(sum(n["cost"] for n in nodes) + sum(again[name] * (count - 1) for name, count in times.items()))


def _asked(instance: dict[str, Any], time_limit: float, patience: float = 0) -> dict[str, Any]:
    """The answer of the program, which searches for its first schedule for some seconds more; of an instance without a
    schedule, its message and its output."""
    flags = ("-o", "-", "--time-limit", f"{time_limit:.3f}s", "--patience", f"{patience:.3f}s", "-O", "json")
    try:
        answer = memopt.run("solve", "-", *flags, stdin=json.dumps(instance), variables=False)
    except memopt.Error as e:
        if e.code != 3:
            raise PlanError(f"memopt solve: {e}") from e
        return {"infeasible": str(e), "output": json.loads(e.output)}
    found: dict[str, Any] = json.loads(answer)
    return found


def in_order(instance: dict[str, Any]) -> tuple[int, list[dict[str, str]]]:
    """The peak of computing every node once in the given order, and its steps: each value is given up behind its last
    reader."""
    last: dict[str, int] = {}
    for i, node in enumerate(instance["nodes"]):
        for v in outputs_of(node):
            last[v["id"]] = i
        for name in node["inputs"]:
            last[name] = i
    for node in instance["nodes"]:
        for v in outputs_of(node):
            if v.get("keep"):
                last[v["id"]] = len(instance["nodes"])
    dies: dict[int, list[dict[str, Any]]] = {}
    now = peak = 0
    steps: list[dict[str, str]] = []
    for i, node in enumerate(instance["nodes"]):
        for v in outputs_of(node):
            now += v["size"]
            dies.setdefault(last[v["id"]], []).append(v)
        peak = max(peak, now + node.get("workspace", 0))
        steps.append({"compute": node["id"]})
        for v in dies.pop(i, ()):
            now -= v["size"]
            steps.append({"free": v["id"]})
    return peak, steps


def peak(instance: dict[str, Any], steps: list[dict[str, str]]) -> int:
    """The highest sum of bytes of a schedule. A value that no step gives up goes behind its last reader."""
    nodes = {n["id"]: n for n in instance["nodes"]}
    last: dict[str, int] = {}
    left: set[str] = set()
    for i, s in enumerate(steps):
        if "free" in s:
            left.discard(s["free"])
            continue
        made = [v["id"] for v in outputs_of(nodes[s["compute"]])]
        last.update(dict.fromkeys((*nodes[s["compute"]]["inputs"], *made), i))
        left.update(made)
    values = {v["id"]: v for n in nodes.values() for v in outputs_of(n)}
    ends: dict[int, set[str]] = {}
    for name in left:
        if not values[name].get("keep"):
            ends.setdefault(last[name], set()).add(name)
    live: set[str] = set()
    now = top = 0
    for i, s in enumerate(steps):
        gone = ends.get(i, set())
        if "free" in s:
            gone = {s["free"]}
        else:
            node = nodes[s["compute"]]
            made = [v["id"] for v in outputs_of(node)]
            again = sum(values[v]["size"] for v in made if v in live)  # what is there stays, and the second one goes
            now += sum(values[v]["size"] for v in made if v not in live)
            live.update(made)
            top = max(top, now + again + node.get("workspace", 0))
        now -= sum(values[v]["size"] for v in gone & live)
        live -= gone
    return top


def outputs_of(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a node of an instance; a node with one has its name and its size itself."""
    several: list[dict[str, Any]] = node.get("outputs", [node])
    return several

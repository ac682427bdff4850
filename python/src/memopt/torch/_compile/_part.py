"""One graph of a step, as the plan of the whole step sees it."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import fx

from .._replay import HANDOVER
from . import _solve
from ._differences import HOLDS_TANGENTS
from ._joint import Joint

Peaks = tuple[int, int] | None  # the most bytes of each half of compiled code; None where they are not known


@dataclasses.dataclass(frozen=True)
class Part:
    """A joint graph with the places where it meets others. It is plain data, so that a cache can hold it.

    Values go by the names that the graph's instance has; arguments and results by their places in the call of the
    compiled graph.

    Attributes:
        forward, backward: the instance's nodes before and behind the handover.
        handed: the values that are there at the handover.
        tangents: the gradients of results that the backward half is given: name, bytes, place of the result.
        reads: by node, the places of the arguments that it reads.
        results: by place of a result, the value that holds it.
        gradients: by place of an argument, the value that is its gradient.
        left: the values that the backward half leaves: gradients, and buffers' new values.
    """

    forward: list[dict[str, Any]]
    backward: list[dict[str, Any]]
    handed: list[str]
    tangents: list[tuple[str, int, int]]
    reads: dict[str, list[int]]
    results: dict[int, str]
    gradients: dict[int, str]
    left: list[str]

    @property
    def names(self) -> list[str]:
        """The nodes' names, in order."""
        return [n["id"] for n in (*self.forward, *self.backward)]

    def instance(self) -> dict[str, Any]:
        """The instance of the graph alone."""
        tangents = [{"id": t, "size": size, "keep": HOLDS_TANGENTS} for t, size, _ in self.tangents]
        handover = {"id": HANDOVER, "cost": 0, "inputs": self.handed, "outputs": tangents, "recompute": False}
        return {"nodes": [*self.forward, handover, *self.backward]}

    def coarse(self, steps: list[dict[str, str]], peaks: tuple[int, int], saved_bytes: int) -> Part:
        """The same graph as the code of its schedule has it: each half is one node.

        Args:
            peaks: the most bytes of each half; results and saved values are in them.
            saved_bytes: results and saved values at the handover.
        """
        at = next(i for i, s in enumerate(steps) if s.get("compute") == HANDOVER)
        behind = {s["compute"] for s in steps[at + 1 :] if "compute" in s}
        nodes = {n["id"]: n for n in (*self.forward, *self.backward)}
        values = {v["id"]: v for n in nodes.values() for v in _solve.outputs_of(n)}
        read = {v for name in behind for v in nodes[name]["inputs"]}
        results = [values[v] for v in dict.fromkeys(self.results.values())]
        own = {"id": "saved", "size": max(0, saved_bytes - sum(v["size"] for v in results))}
        given = sum(size for _, size, _ in self.tangents)
        needed = ["saved", *(v["id"] for v in results if v["id"] in read), *(t for t, _, _ in self.tangents)]
        left = [values[v] for v in self.left if v in values and v not in self.results.values()]
        return dataclasses.replace(
            self,
            forward=[_half("forward", [], [*results, own], max(0, peaks[0] - saved_bytes))],
            backward=[
                _half("first", needed, [{"id": "first", "size": 0}], max(0, peaks[1] - saved_bytes - given)),
                _half("backward", ["first"], left, 0),
            ],
            handed=["saved", *(v["id"] for v in results)],
            reads={
                "forward": sorted({i for n in self.forward for i in self.reads.get(n["id"], ())}),
                "first": sorted({i for name in behind for i in self.reads.get(name, ())}),
            },
        )

    def in_order(self) -> list[dict[str, str]]:
        """The steps that compute each node once; values go behind their last readers."""
        nodes = self.instance()["nodes"]
        return [{"compute": n["id"]} for n in nodes]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(raw: dict[str, Any]) -> Part:
        """The part that to_json has given; JSON has no integers as keys.

        Raises:
            TypeError: a field is missing, or there is another.
        """
        raw = dict(raw)
        for key in ("results", "gradients"):
            raw[key] = {int(k): v for k, v in raw.get(key, {}).items()}
        raw["tangents"] = [(str(t), int(size), int(at)) for t, size, at in raw.get("tangents", [])]
        return Part(**raw)


def _half(name: str, inputs: list[str], outputs: list[dict[str, Any]], workspace: int) -> dict[str, Any]:
    return {"id": name, "cost": 0, "inputs": inputs, "outputs": outputs, "workspace": workspace, "recompute": False}


def part(joint: Joint, instance: dict[str, Any]) -> Part:
    """The part of a joint graph, whose instance is given."""
    nodes: list[dict[str, Any]] = instance["nodes"]
    at = next(i for i, n in enumerate(nodes) if n["id"] == HANDOVER)
    descs = list(joint.gm.graph.find_nodes(op="output")[0].meta.get("desc", ()))
    given = [p for p in joint.placeholders if p not in joint.tangents]
    places = {p: i for p in given if (i := _place(p.meta.get("desc"))) >= 0}
    results: dict[int, str] = {}
    gradients: dict[int, str] = {}
    left: list[str] = []
    for i, (o, desc) in enumerate(zip(joint.outputs, descs, strict=False)):
        if not isinstance(o, fx.Node):
            continue
        place, root = _place(desc), joint.root[o]
        if i < joint.num_fwd_outputs:
            if place >= 0 and root.op == "call_function":
                results[place] = root.name
        elif root.op == "call_function" or root in joint.tangents:
            gradients.setdefault(place, root.name)
            left.append(root.name)
    left += [r.name for n in joint.mutations[1] for r in joint.roots(n) if r.op == "call_function"]
    gradients.pop(-1, None)
    tangents = {t.name for t in joint.tangents}
    return Part(
        forward=nodes[:at],
        backward=nodes[at + 1 :],
        handed=list(nodes[at]["inputs"]),
        tangents=[(t.name, joint.size(t), _place(t.meta.get("desc"))) for t in joint.tangents],
        reads=_reads(joint, places),
        results=results,
        gradients=gradients,
        left=[v for v in dict.fromkeys(left) if v not in tangents],
    )


def _reads(joint: Joint, places: dict[fx.Node, int]) -> dict[str, list[int]]:
    out = {}
    for n in joint.computed:
        found = {places[r] for m in joint.loops[n] for r in joint.roots(m) if r in places}
        if found:
            out[n.name] = sorted(found)
    return out


def _place(desc: Any) -> int:
    """The place of the argument or the result that a description of AOTAutograd leads to; -1 for none."""
    for _ in range(8):  # a tensor inside of a tensor of a subclass, a gradient of one, the base of a view
        if desc is None or type(desc).__name__ in ("PlainAOTInput", "PlainAOTOutput"):
            break
        found = (getattr(desc, f, None) for f in ("grad_of", "output", "base_of", "base"))
        desc = next((d for d in found if d is not None), None)
    return -1 if desc is None else int(getattr(desc, "idx", -1))

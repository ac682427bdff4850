"""A step of several graphs as one instance: all of its forward halves, then its backward halves in reverse."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from .._replay import HANDOVER
from . import _solve
from ._differences import HOLDS_TANGENTS
from ._part import Part

Steps = list[dict[str, str]]

# cross_entropy holds its argument, which the first of its operators reads, until the second has run.
_HOLDING = {"NllLoss": "LogSoftmax", "NllLoss2D": "LogSoftmax"}


class Place(NamedTuple):
    """A value, or where a gradient goes to.

    Attributes:
        kind: "result" of a graph, "out" for that of an operator of PyTorch, "made" for an argument of a graph that the
            step has made without a gradient, "saved" by an operator; or where gradients go to, an "op" or a "leaf".
        at: the index of the run; the number of the op, also for its outputs and saved values; the identity of a leaf.
        place: the index of the result or the argument; for a leaf, its bytes.
    """

    kind: str
    at: int
    place: int


@dataclasses.dataclass
class Op:
    """An operator that PyTorch runs between graphs, and its backward function.

    Attributes:
        name: the operator.
        views: its result is a view of its argument.
        made_bytes: the bytes of its result.
        saved_bytes: the bytes that it alone keeps for the backward half, results of others left out.
        keeps: results and arguments of graphs that it keeps as well, and values that other operators save.
        gives: the places that its gradients go to, and their bytes.
        slots: by gradient, its place among the results of the backward function.
        passes: the gradients that have the memory of the one that it is given.
        workspace: the bytes that its backward function takes beside its gradients.
    """

    name: str
    views: bool = False
    made_bytes: int = 0
    saved_bytes: int = 0
    keeps: list[Place] = dataclasses.field(default_factory=list)
    gives: list[tuple[Place, int]] = dataclasses.field(default_factory=list)
    slots: list[int] = dataclasses.field(default_factory=list)
    passes: set[int] = dataclasses.field(default_factory=set)
    workspace: int = 0


@dataclasses.dataclass
class Run:
    """One call of a compiled graph in a step.

    Attributes:
        part: the graph.
        given: by place of an argument that this step has made before: the value.
        made: by place of an argument that was made behind the run before, as a mask: its bytes.
        gives: by place of an argument, where its gradient goes to.
        held: by place of a result, the index of the last run at whose end the program held it; the number of
            runs where it held it when the backward half began.
        eager: the numbers of the operators between this run and the one before, as they run backward.
    """

    part: Part
    given: dict[int, Place] = dataclasses.field(default_factory=dict)
    made: dict[int, int] = dataclasses.field(default_factory=dict)
    gives: dict[int, Place] = dataclasses.field(default_factory=dict)
    held: dict[int, int] = dataclasses.field(default_factory=dict)
    eager: list[int] = dataclasses.field(default_factory=list)


class Whole:
    """The instance of a step. The value ``v`` of the run with index 2 has the name ``2:v``.

    Args:
        runs: the calls of compiled graphs.
        ops: the operators between and behind them.
        tail: the numbers of those behind the last run.
        roots: results that the backward half begins with, and the bytes of their gradients; ``Tensor.backward`` holds
            both until it ends.
    """

    def __init__(
        self,
        runs: list[Run],
        ops: Sequence[Op] = (),
        tail: Sequence[int] = (),
        roots: Mapping[Place, int] = MappingProxyType({}),
    ) -> None:
        self.runs, self.ops, self.tail, self.roots = runs, ops, tail, roots
        self.eager = [*(run.eager for run in runs), list(tail)]
        self.linked: dict[tuple[int, int], str] = {}  # by run and place of an argument: the value
        for r, run in enumerate(runs):
            self.linked.update({(r, i): name for i, p in run.given.items() if (name := self._name(p)) is not None})
            self.linked.update({(r, i): f"made {r}.{i}" for i in run.made})
        self.consumed = set(self.linked.values())
        self.consumed.update(name for k in range(len(ops)) for name in self._reads(k))
        self.first: dict[Place, str] = {}  # by place: the first gradient that goes there
        self.passed: set[str] = set()  # gradients of graphs that go on
        self.tangents: dict[str, str] = {}  # by name in its run: the value that it is
        self._flow()
        self.instance = self._instance()
        self.names = {n["id"] for n in self.instance["nodes"]}

    def _name(self, p: Place) -> str | None:
        """The value at a place; None for a result that is an argument of its graph, and for a parameter."""
        if p.kind in ("out", "op"):
            op = self.ops[p.at]
            return f"out {p.at}" if not op.views else self._name(op.gives[0][0]) if op.gives else None
        if p.kind == "leaf":
            return None
        if p.kind == "saved":
            return f"saved {p.at}"
        if p.kind == "made":
            return f"made {p.at}.{p.place}"
        found = self.runs[p.at].part.results.get(p.place)
        return None if found is None else f"{p.at}:{found}"

    def _reads(self, k: int) -> list[str]:
        """The values that an operator between graphs reads or keeps."""
        op = self.ops[k]
        places = [to for to, _ in op.gives]
        for p in list(places):
            if p.kind == "op" and self.ops[p.at].name == _HOLDING.get(op.name):
                places += [to for to, _ in self.ops[p.at].gives]
        own = (None, f"out {k}", f"saved {k}")
        return [name for p in (*places, *op.keeps) if (name := self._name(p)) not in own]

    def _flow(self) -> None:
        """Follows the gradients, from the loss on."""
        for r in reversed(range(len(self.runs) + 1)):
            if r < len(self.runs):
                part = self.runs[r].part
                for t, _, j in part.tangents:
                    self.tangents[f"{r}:{t}"] = self.first.get(Place("result", r, j), f"{r}:{t}")
                for i, to in self.runs[r].gives.items():
                    if to.kind != "leaf" and i in part.gradients:
                        name = self._value(r, part.gradients[i])
                        self.passed.add(name)
                        self.first.setdefault(to, name)
            for k in self.eager[r]:
                given = self.first.get(Place("op", k, 0))
                for x, (to, _) in enumerate(self.ops[k].gives):
                    if x not in self.ops[k].passes:
                        self.first.setdefault(to, f"gradient {k}.{x}")
                    elif given is not None:
                        self.first.setdefault(to, given)

    def _value(self, r: int, name: str) -> str:
        return self.tangents.get(f"{r}:{name}", f"{r}:{name}")

    def _instance(self) -> dict[str, Any]:
        nodes: list[dict[str, Any]] = []
        count = len(self.runs)
        once = self.consumed | self.passed
        for r in range(count):
            nodes += self._between(r)
            before = [f"end {r - 1}"] if r else []
            nodes += [self._node(r, n, before, once, own=False) for n in self.runs[r].part.forward]
            nodes.append(self._forward_end(r))
        nodes += self._between(count)
        for r in reversed(range(count)):
            done = self._eager_backward(r + 1, nodes)
            nodes.append(self._backward_begin(r, done))
            nodes += [self._node(r, n, [f"begin {r}"], once, own=True) for n in self.runs[r].part.backward]
        nodes.append(_event("last", self._eager_backward(0, nodes), [{"id": "last", "size": 0}]))
        return {"format": "memopt-instance", "version": 2, "budget": 1, "cost_unit": "us", "nodes": nodes}

    def _node(self, r: int, n: dict[str, Any], token: list[str], once: set[str], *, own: bool) -> dict[str, Any]:
        """A node of a run. It waits for a token where nothing of its run makes it wait; own: in any case."""
        part = self.runs[r].part
        out = dict(n)
        out["id"] = f"{r}:{n['id']}"
        inputs = [self._value(r, v) for v in n["inputs"]]
        wait = own or not inputs
        inputs += [self.linked[r, i] for i in part.reads.get(n["id"], ()) if (r, i) in self.linked]
        out["inputs"] = list(dict.fromkeys([*inputs, *(token if wait else ())]))
        if "outputs" in n:
            out["outputs"] = [self._output(r, v) for v in n["outputs"]]
        else:
            out.update(self._output(r, {"id": n["id"], "size": n["size"], "keep": n.get("keep", False)}))
        if any(v["id"] in once for v in _solve.outputs_of(out)):
            out["recompute"] = False
        return out

    def _output(self, r: int, v: dict[str, Any]) -> dict[str, Any]:
        name = f"{r}:{v['id']}"
        keep = bool(v.get("keep")) and name not in self.passed and not self._dropped(r, v["id"])
        return {"id": name, "size": v["size"], "keep": keep}

    def _dropped(self, r: int, value: str) -> bool:
        """Whether a value is a result that the program does not hold until the backward half."""
        run = self.runs[r]
        places = [j for j, v in run.part.results.items() if v == value]
        return (
            bool(places)
            and value not in run.part.left
            and all(run.held.get(j, len(self.runs)) < len(self.runs) for j in places)
        )

    def _between(self, r: int) -> list[dict[str, Any]]:
        """The operators before a run, behind the one before it, and the arguments that are made there. A function that
        reads a result of a graph holds it until it ends, as a loss: until the last of the operators."""
        nodes, before, held = [], [f"end {r - 1}"] if r else [], []
        for k in reversed(self.eager[r]):
            op, reads = self.ops[k], self._reads(k)
            outputs = [{"id": f"made {k}", "size": 0}, {"id": f"saved {k}", "size": op.saved_bytes}]
            outputs.append({"id": f"out {k}", "size": op.made_bytes, "keep": Place("op", k, 0) in self.roots})
            held += [name for name in reads if name[0].isdigit()]
            nodes.append(_event(f"make {k}", [*before, *reads], outputs))
            before = [f"made {k}"]
        if nodes:
            nodes[-1]["inputs"] = list(dict.fromkeys([*nodes[-1]["inputs"], *held]))
        if r < len(self.runs):
            made = [{"id": f"made {r}.{i}", "size": size} for i, size in self.runs[r].made.items()]
        else:
            asked = sum(size for p, size in self.roots.items() if p.kind == "op")
            made = [{"id": "asked", "size": asked, "keep": True}] if asked else []
        return [*nodes, _event(f"between {r}", before, made)] if made else nodes

    def _eager_backward(self, r: int, nodes: list[dict[str, Any]]) -> list[str]:
        """Adds the backward functions of the operators before a run; values that are there when they are done."""
        if r == len(self.runs):
            done = [f"end {r - 1}", *(f"made {k}" for k in self.eager[r][:1])]
        else:
            part = self.runs[r].part
            held = [t for t, _, _ in part.tangents] if HOLDS_TANGENTS else []
            done = [f"begin {r}", *(self._value(r, v) for v in (*part.left, *held))]
        for k in self.eager[r]:
            op = self.ops[k]
            inputs = [*done, f"saved {k}", *(name for p in op.keeps if (name := self._name(p)) is not None)]
            if (given := self.first.get(Place("op", k, 0))) is not None:
                inputs.append(given)
            outputs: list[dict[str, Any]] = [{"id": f"op {k}", "size": 0}]
            outputs += [self._given(k, x, to, size) for x, (to, size) in enumerate(op.gives)]
            nodes.append({**_event(f"op {k}", inputs, outputs), "workspace": op.workspace})
            done = [f"op {k}"]
        return done

    def _given(self, k: int, x: int, to: Place, size: int) -> dict[str, Any]:
        name = f"gradient {k}.{x}"
        return {"id": name, "size": size, "keep": to.kind == "leaf" and self.first[to] == name}

    def _forward_end(self, r: int) -> dict[str, Any]:
        """The end of a forward half, until when its arguments are there."""
        run = self.runs[r]
        inputs = [f"{r}:{v}" for v in run.part.handed]
        inputs += [name for (q, _), name in self.linked.items() if q == r]
        for q in range(r + 1):
            inputs += [f"{q}:{v}" for j, v in self.runs[q].part.results.items() if self.runs[q].held.get(j, q) >= r]
        inputs += [f"end {r - 1}"] if r else []
        return _event(f"end {r}", inputs, [{"id": f"end {r}", "size": 0}])

    def _backward_begin(self, r: int, done: list[str]) -> dict[str, Any]:
        """The begin of a backward half, when the gradients of results are there."""
        tangents = self.runs[r].part.tangents
        given = [v for t, _, _ in tangents if (v := self._value(r, t)) != f"{r}:{t}"]
        outputs: list[dict[str, Any]] = [{"id": f"begin {r}", "size": 0}]
        for t, size, j in tangents:
            if self._value(r, t) == f"{r}:{t}":
                outputs.append({"id": f"{r}:{t}", "size": size, "keep": Place("result", r, j) in self.roots})
        return _event(f"begin {r}", [*done, *given], outputs)

    def steps(self, halves: list[Steps]) -> Steps:
        """The steps of the whole, of those of each run."""
        out: Steps = []
        at = [next(i for i, s in enumerate(steps) if s.get("compute") == HANDOVER) for steps in halves]
        for r, steps in enumerate(halves):
            out += [*self._outside(r), *self._named(r, steps[: at[r]]), {"compute": f"end {r}"}]
            out += self._named(r, _given_up(steps[at[r] + 1 :]))
        out += self._outside(len(halves))
        for r in reversed(range(len(halves))):
            out += [{"compute": f"op {k}"} for k in self.eager[r + 1]]
            out += [{"compute": f"begin {r}"}, *self._named(r, _begun(halves[r][at[r] + 1 :]))]
        return [*out, *({"compute": f"op {k}"} for k in self.eager[0]), {"compute": "last"}]

    def _outside(self, r: int) -> Steps:
        names = (*(f"make {k}" for k in reversed(self.eager[r])), f"between {r}")
        return [{"compute": name} for name in names if name in self.names]

    def _named(self, r: int, steps: Steps) -> Steps:
        """Steps under the names of the whole. Results, which other runs read, are given up behind their last reader."""
        own = {v["id"] for n in (*self.runs[r].part.forward, *self.runs[r].part.backward) for v in _solve.outputs_of(n)}
        shared = self.consumed | self.passed
        out: Steps = []
        for s in steps:
            if "compute" in s:
                out.append({"compute": f"{r}:{s['compute']}"})
            elif s["free"] in own and (name := f"{r}:{s['free']}") not in shared:
                out.append({"free": name})
        return out

    def halves(self, steps: Iterable[Mapping[str, str]]) -> list[Steps]:
        """The steps of each run, of those of the whole. A recomputation that comes while the halves of other runs are
        computed waits for the backward half of its own."""
        out: list[Steps] = [[] for _ in self.runs]
        for s in steps:
            kind, name = next(iter(s.items()))
            run, _, own = name.partition(":")
            if kind == "compute" and name.startswith("end "):
                out[int(name[4:])].append({"compute": HANDOVER})
            elif own:
                out[int(run)].append({kind: own})
        return out

    def cost(self, steps: Steps) -> float:
        """The estimated time of a schedule, in microseconds."""
        return _solve.cost(self.instance["nodes"], steps)


def _begun(backward: Steps) -> Steps:
    """The steps of a backward half from the first computation on."""
    return list(itertools.dropwhile(lambda s: "free" in s, backward))


def _given_up(backward: Steps) -> Steps:
    """The values that are given up before the first computation of a backward half: at the handover, since no half
    saves them. Those that are not computed again go behind their last reader in any case."""
    again = {s["compute"] for s in backward if "compute" in s}
    return [s for s in itertools.takewhile(lambda s: "free" in s, backward) if s["free"] in again]


def _event(name: str, inputs: list[str], outputs: list[dict[str, Any]]) -> dict[str, Any]:
    """A node that no graph computes."""
    return {
        "id": name,
        "cost": 0,
        "inputs": list(dict.fromkeys(inputs)),
        "outputs": outputs,
        "recompute": False,
    }

"""Plans as tags on the nodes of a graph, for passes of PyTorch and of trainers that recompute by tags.

A tag says less than a schedule: a value is kept for the backward half, or it is computed once more, right before its
first reader there, and then kept until its last.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch.utils.checkpoint import CheckpointPolicy

from .._plan import PlanError, size
from .._planner import BudgetError
from .._replay import HANDOVER
from . import _cost, _kernels, _solve
from ._cost import Machine, value
from ._joint import Joint

# A choice that takes more than the budget, since tags say less than the schedule, is searched again for less, at most
# so many times.
_ROUNDS = 4


@dataclass(frozen=True)
class Marked:
    """The promise of a graph whose nodes are tagged.

    Attributes:
        peak_bytes: the most bytes at one time beyond the graph's inputs, gradients included.
        baseline_peak_bytes: the same where every value is kept.
        overhead: the estimated time of recomputation, as a share of the graph's.
        recomputed: how many nodes are computed again, views left out.
    """

    peak_bytes: int
    baseline_peak_bytes: int
    overhead: float
    recomputed: int

    def __str__(self) -> str:
        return (
            f"predicted peak {size(self.peak_bytes)} beyond what was there before the step, "
            f"{size(self.baseline_peak_bytes)} without recomputation; {100 * self.overhead:.2f} % of a step is "
            "recomputed"
        )


def mark(
    gm: fx.GraphModule,
    budget: str | int,
    *,
    machine: Machine | None = None,
    last_loss: Callable[[fx.Node], bool] = lambda n: False,
    gathers: bool = False,
) -> Marked:
    """Tags the forward nodes of a graph of a forward half, its loss and its backward half, in ``meta["recompute"]``.

    Args:
        gm: the graph, whose backward nodes have ``meta["autograd_backward"]``. Its results begin with the loss.
        budget: bytes, which the graph's inputs and the step take together, or a share such as "60%" of the step's own.
        machine: the figures of the device; None for those of the graph's device.
        last_loss: whether a node is of the loss. Behind the last one the backward half begins that is recomputed for.
        gathers: gathering of parameters may be computed again.

    Raises:
        BudgetError: no choice fits.
    """
    step = _Tagged(gm, machine, last_loss, gathers)
    base = step.simulate(frozenset())
    most = int(float(budget[:-1]) / 100 * base.peak) if isinstance(budget, str) else budget - step.held
    best = step.search(base, most)
    if best.peak > most:
        beyond = 0 if isinstance(budget, str) else step.held
        raise BudgetError(
            f"no choice of kept values fits: the lowest peak that was found is {size(best.peak + beyond)} "
            f"({best.peak + beyond} bytes), the budget is {size(most + beyond)} ({most + beyond}); allow more, or make "
            "the batch smaller",
            best.peak + beyond,
        )
    step.tag(best.again)
    return Marked(best.peak, base.peak, best.cost / base.cost - 1 if base.cost else 0.0, len(best.dups))


@dataclass(frozen=True)
class _Run:
    """A simulated run.

    Attributes:
        again: the nodes that are to be computed again where the backward half reads them.
        dups: those that are.
        kept: values that are there at the peak, from before the backward half, with their makers.
    """

    again: frozenset[str]
    peak: int
    cost: float
    dups: frozenset[str]
    kept: list[tuple[int, str]]


class _Tagged:
    """A graph of forward, loss and backward, as tags change it."""

    def __init__(
        self,
        gm: fx.GraphModule,
        machine: Machine | None,
        last_loss: Callable[[fx.Node], bool],
        gathers: bool,
    ) -> None:
        self.gm = gm
        order = list(gm.graph.nodes)
        self.position = {n.name: i for i, n in enumerate(order)}
        self.backward = {n.name for n in order if n.meta.get("autograd_backward")}
        if not self.backward:
            raise PlanError("the graph has no backward half: no node has meta['autograd_backward']")
        own = fx.GraphModule(gm, copy.deepcopy(gm.graph))
        results = order[-1].args[0]
        count = 0
        while count < len(results) and getattr(results[count], "name", "") not in self.backward:
            count += 1
        with functorch_config.patch(cse=False):
            self.joint = Joint(own, count, [], _workspaces)
        self.held = sum(self.joint.size(p) for p in self.joint.placeholders if isinstance(value(p), torch.Tensor))
        self.instance = self.joint.instance(1, machine or _cost.of_torch(self.joint.device))
        by_name = {n.name: n for n in self.joint.computed}
        for n in self.instance["nodes"]:
            if gathers and n["id"] in by_name and _gathers(by_name[n["id"]]):
                n.pop("recompute", None)
        self.nodes = [n for n in self.instance["nodes"] if n["id"] != HANDOVER]
        self.nodes.sort(key=lambda n: self.position[n["id"]])
        self.maker = {v["id"]: n["id"] for n in self.nodes for v in _solve.outputs_of(n)}
        self.by_id = {n["id"]: n for n in self.nodes}
        self.free = {n["id"] for n in self.nodes if n.get("recompute", True) and n["id"] not in self.backward}
        self.start, self.end = self._region(order, last_loss)

    def _region(self, order: Sequence[fx.Node], last_loss: Callable[[fx.Node], bool]) -> tuple[int, int]:
        """The positions of the longest run of backward nodes behind the loss: PyTorch's pass recomputes for one run."""
        begin = max((i + 1 for i, n in enumerate(order) if last_loss(n)), default=0)
        best, start = (0, 0), None
        for i in range(begin, len(order) + 1):
            if i < len(order) and order[i].name in self.backward:
                start = i if start is None else start
            elif start is not None:
                best, start = max(best, (start, i), key=lambda r: r[1] - r[0]), None
        return best

    def search(self, base: _Run, most: int) -> _Run:
        """The cheapest choice within the bytes that is found, or the lowest."""
        found = [base]
        aim = most
        for _ in range(_ROUNDS):
            if base.peak <= most:
                break
            try:
                answer = _solve.solve({**self.instance, "budget": max(aim, 1)}, None)
            except _solve.Infeasible:
                break
            run = self.simulate(self._again(answer["steps"]))
            found += [run, self.repaired(run, most)]
            if run.peak <= most:
                break
            aim -= run.peak - most
        if min(r.peak for r in found) > most:
            found += [self.repaired(r, most) for r in (base, self.simulate(frozenset(self.free)))]
        return min(found, key=lambda r: (max(r.peak, most), r.cost))

    def _again(self, steps: Sequence[dict[str, str]]) -> frozenset[str]:
        """The forward nodes that a schedule computes behind the handover."""
        behind = False
        again: set[str] = set()
        for s in steps:
            name = s.get("compute", "")
            behind = behind or name == HANDOVER
            if behind and name in self.free:
                again.add(name)
        return frozenset(again)

    def repaired(self, run: _Run, most: int) -> _Run:
        """A choice that gives values up that are kept at the peak, the largest first, as long as that lowers it."""
        for _ in range(len(self.nodes)):
            if run.peak <= most:
                break
            more = [name for _, name in sorted(run.kept, reverse=True) if name in self.free and name not in run.again]
            tried = (self.simulate(run.again | {name}) for name in more[:8])
            better = next((t for t in tried if t.peak < run.peak), None)
            if better is None:
                break
            run = better
        return run

    def simulate(self, again: frozenset[str]) -> _Run:
        """The step in the order of the graph, nodes computed again where their tags have it."""
        targets = self._targets(again)
        before: dict[str, list[str]] = {}
        for name in sorted(targets, key=self.position.__getitem__):
            before.setdefault(targets[name], []).append(name)
        dups = frozenset(targets)
        left = self._left(dups)
        run: list[tuple[str, bool]] = []
        for n in self.nodes:
            run += [(name, True) for name in before.get(n["id"], ())]
            if n["id"] in left:
                run.append((n["id"], False))
        return self._measured(run, again, dups)

    def _targets(self, again: frozenset[str]) -> dict[str, str]:
        """By node that is computed again: the backward node before which that happens."""
        targets: dict[str, str] = {}
        for n in self.nodes:
            if not self._reads_again(n["id"]):
                continue
            stack = [self.maker.get(v, "") for v in n["inputs"]]
            while stack:
                name = stack.pop()
                if name in again and name not in targets:
                    targets[name] = n["id"]
                    stack += [self.maker.get(v, "") for v in self.by_id[name]["inputs"]]
        return targets

    def _reads_again(self, name: str) -> bool:
        return name in self.backward and self.start <= self.position[name] < self.end

    def _left(self, dups: frozenset[str]) -> set[str]:
        """The nodes that are computed where they were: others have no reader left there."""
        read: set[str] = set()
        left = set()
        for n in reversed(self.nodes):
            name = n["id"]
            kept = any(v.get("keep") for v in _solve.outputs_of(n))
            if name in dups and not kept and read.isdisjoint(v["id"] for v in _solve.outputs_of(n)):
                continue
            left.add(name)
            read.update(v for v in n["inputs"] if not (self._reads_again(name) and self.maker.get(v) in dups))
            if name in dups:
                read.update(n["inputs"])
        return left

    def _measured(self, run: list[tuple[str, bool]], again: frozenset[str], dups: frozenset[str]) -> _Run:
        made: dict[tuple[str, bool], int] = {}  # by value, and whether it is of a recomputation
        until: dict[tuple[str, bool], int] = {}
        for i, (name, dup) in enumerate(run):
            n = self.by_id[name]
            for v in _solve.outputs_of(n):
                made[v["id"], dup] = i
                until[v["id"], dup] = len(run) - 1 if v.get("keep") and not dup else i
            for v in n["inputs"]:
                key = (v, (dup or self._reads_again(name)) and self.maker.get(v) in dups)
                if key in until:
                    until[key] = max(until[key], i)
        change = [0] * (len(run) + 1)
        sizes = {v["id"]: v["size"] for n in self.nodes for v in _solve.outputs_of(n)}
        for key, i in made.items():
            change[i] += sizes[key[0]]
            change[until[key] + 1] -= sizes[key[0]]
        now = peak = at = 0
        for i, (name, _) in enumerate(run):
            now += change[i]
            work = now + self.by_id[name].get("workspace", 0)
            if work > peak:
                peak, at = work, i
        kept = [
            (sizes[v], self.maker[v])
            for (v, dup), i in made.items()
            if not dup and i <= at <= until[v, dup] and self.maker[v] not in self.backward
        ]
        return _Run(again, peak, sum(self.by_id[name]["cost"] for name, _ in run), dups, kept)

    def tag(self, again: frozenset[str]) -> None:
        """Tags the graph's forward nodes."""
        own = {n.name: n for n in self.joint.gm.graph.nodes}
        for n in self.gm.graph.nodes:
            if n.op != "call_function" or n.name in self.backward or n.name not in own:
                continue
            maker = self.joint.maker(self.joint.root[own[n.name]])
            policy = CheckpointPolicy.MUST_RECOMPUTE if maker.name in again else CheckpointPolicy.MUST_SAVE
            n.meta["recompute"] = policy


def _gathers(n: fx.Node) -> bool:
    """Whether a node gathers a parameter, or waits for one that does."""
    if "wait_tensor" in str(n.target):
        return any(_gathers(i) for i in n.all_input_nodes)
    return "all_gather" in str(n.target)


def _workspaces(graph: fx.Graph) -> Callable[[fx.Node], int]:
    cuda = any(isinstance(v, torch.Tensor) and v.is_cuda for v in map(value, graph.find_nodes(op="placeholder")))
    return _kernels.workspace if cuda else lambda n: 0

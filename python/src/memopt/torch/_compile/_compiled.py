"""The promise of a compiled step: its peak and its overhead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .._plan import size


@dataclass(frozen=True)
class Graph:
    """One graph of a step, with the plan that it was compiled under. Bytes are beyond those that were there before
    the graph.

    Attributes:
        nodes: how many nodes compute.
        recomputed: how many computations are recomputations.
        peak_bytes: the most bytes at one time, with gradients.
        baseline_peak_bytes: the same without recomputation, in the order of the joint graph.
        saved_bytes: between the halves: results and saved values.
        baseline_saved_bytes: the same without recomputation.
        cost_us, base_cost_us: the estimated time of the plan, and of computing every node once.
        bound_us: no schedule within the budget takes less, by the same estimate.
        breaks: a graph break follows, so that the step has other graphs.
        unmeasured: operators whose kernels take memory that is not known and counts as 0.
    """

    nodes: int
    recomputed: int
    peak_bytes: int
    baseline_peak_bytes: int
    saved_bytes: int
    baseline_saved_bytes: int
    cost_us: float
    base_cost_us: float
    bound_us: float
    breaks: bool = False
    unmeasured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """The promise of a step that was planned as a whole; fields as those of Graph, of all of its graphs together."""

    peak_bytes: int
    baseline_peak_bytes: int
    cost_us: float
    base_cost_us: float
    bound_us: float


class Compiled:
    """The promise of a compiled model, as the attribute ``memopt`` of the result of ``memopt.torch.compile``.

    It is empty until the first step has compiled. A step of several graphs is planned as a whole behind the first one,
    at the latest when the promise is asked for.

    Attributes:
        graphs: those of one step, in the order in which they run. More than one: the model has graph breaks.
        steps: the promises of steps that were planned as a whole; several where steps run through other graphs.
        between: the operators that PyTorch runs between the graphs; the bytes that they keep, and those of the
            gradients that they make, are in the promise.
        held_bytes: parameters, buffers and inputs.
        sharded_bytes: the bytes that ``fully_shard`` takes outside of the graphs while a step runs, at the most; they
            are in the peaks of the step, and not in those of the graphs.
        optimizer_bytes: the state of the optimizer, where one was given.
    """

    def __init__(self, settle: Callable[[], None] = lambda: None) -> None:
        self.graphs: list[Graph] = []
        self.steps: list[Step] = []
        self.between: list[str] = []
        self._settle = settle
        self.held_bytes = 0
        self.optimizer_bytes = 0
        self.sharded_bytes = 0

    def __bool__(self) -> bool:
        return bool(self.graphs)

    @property
    def predicted_peak_bytes(self) -> int:
        """The most bytes at one time of a step beyond those that were there before it, gradients included."""
        self._settle()
        if self.steps:
            return max(s.peak_bytes for s in self.steps) + self.sharded_bytes
        return highest(self.graphs) + self.sharded_bytes

    @property
    def baseline_peak_bytes(self) -> int:
        """The same without recomputation."""
        self._settle()
        if self.steps:
            return max(s.baseline_peak_bytes for s in self.steps) + self.sharded_bytes
        plain = [replace(g, peak_bytes=g.baseline_peak_bytes, saved_bytes=g.baseline_saved_bytes) for g in self.graphs]
        return highest(plain) + self.sharded_bytes

    @property
    def unmeasured(self) -> list[str]:
        """The operators whose kernels take memory that is not known and counts as 0."""
        return sorted({op for g in self.graphs for op in g.unmeasured})

    @property
    def predicted_total_bytes(self) -> int:
        """The peak with all that is there before the step: parameters, buffers, inputs, the optimizer's state."""
        return self.predicted_peak_bytes + self.held_bytes + self.optimizer_bytes

    @property
    def overhead(self) -> float:
        """The estimated time of recomputation, as a share of the step's."""
        self._settle()
        return self._share([g.cost_us for g in self.steps or self.graphs])

    @property
    def bound(self) -> float:
        """The least overhead that any schedule within the budget has, by the same estimate."""
        self._settle()
        return self._share([g.bound_us for g in self.steps or self.graphs])

    def _share(self, costs: list[float]) -> float:
        base = sum(g.base_cost_us for g in self.steps or self.graphs)
        return sum(costs) / base - 1 if base else 0.0

    def __str__(self) -> str:
        self._settle()
        if not self:
            return "not compiled yet: run a step"
        text = (
            f"predicted peak {size(self.predicted_peak_bytes)} beyond what was there before the step, "
            f"{size(self.baseline_peak_bytes)} without recomputation; {100 * self.overhead:.2f} % of a step is "
            f"recomputed, at least {100 * self.bound:.2f} % within this budget"
        )
        if len(self.graphs) > 1:
            text += f"; {len(self.graphs)} graphs"
        return f"{text}, between them {', '.join(self.between)}" if self.between else text


def highest(graphs: list[Graph]) -> int:
    """The highest peak of graphs that run one after the other, each beside the saved values of those before it."""
    before = top = 0
    for g in graphs:
        top = max(top, before + g.peak_bytes)
        before += g.saved_bytes
    return top

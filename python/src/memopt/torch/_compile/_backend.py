"""Backends of torch.compile whose joint graphs memopt cuts."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch.partitioners import default_partition
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomPartitionerFn, get_hash_for_files
from torch.utils._pytree import tree_map_only

import memopt

from .._device import Device
from .._operators import OperatorPlan
from .._plan import size
from .._planner import BudgetError
from .._replay import HANDOVER
from .._workspace import of_process
from . import _attention, _cost, _emit, _fuse, _given, _inductor, _joint, _kernels, _solve
from ._compiled import Compiled, Graph
from ._cost import Machine, hint, value
from ._inductor import Code, copy_operands, is_kernel
from ._joint import Joint
from ._record import Record

BACKENDS = ("inductor", "aot_eager")

# Behind a graph break stands, as a rule, the loss: on logits of so many bytes it makes their logarithms, their
# gradients and a copy. It is planned for the bytes that are left when it is compiled.
_LOSS = 3

# Code of Inductor that takes this share more than its budget is planned for less, in at most so many rounds.
_SLACK, _ROUNDS = 0.01, 3


class Backend:
    """A backend of torch.compile that plans each graph for the bytes that the others of its step leave free."""

    def __init__(
        self,
        model: Any,
        budget: str | int | None,
        backend: str,
        options: dict[str, Any],
        optimizer_bytes: int,
        time_limit: float | None,
        profile: Device | None = None,
        plan: OperatorPlan | None = None,
    ) -> None:
        self.profile, self.plan = profile, plan
        self.drops = False  # the caller drops the results of a step with a loss, but the loss
        self.between = 0  # the bytes that a loss takes that no graph has
        self.budget, self.name, self.options, self.time_limit = budget, backend, options, time_limit
        self.promise = Compiled()
        self.promise.optimizer_bytes = optimizer_bytes
        self.model_bytes = _storages(model) if isinstance(model, nn.Module) else None
        self.open: dict[int, Graph] = {}  # by run: the graphs whose forward halves have run in this step
        self._runs = itertools.count()
        self.follows = False  # the graph before this one ended with a break
        self.workspaces = of_process(torch.get_num_threads())

    def __call__(self, gm: fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        if not torch.is_grad_enabled():  # of an evaluation, or a part of a step without a backward half
            return self._compile(gm, inputs, Partitioner(self, False))
        reason = getattr(gm, "compile_subgraph_reason", None)
        breaks = bool(getattr(reason, "graph_break", False))
        if not self.open and not self.follows:
            self.promise.graphs.clear()
            self.promise.held_bytes = 0
        self.follows = breaks
        cut = Partitioner(self, breaks)
        if self.profile is not None and self.profile.type == "cuda":
            _attention.choose(gm)
        compiled = self._compile(gm, inputs, cut)
        return compiled if cut.graph is None else self._followed(compiled, cut.graph)

    def planned(self, joint: Joint, graph: Graph, instance: dict[str, Any], steps: list[Any]) -> None:
        """Is told of each graph that was planned."""

    @property
    def hurries(self) -> bool:
        """Whether a search has the time of planning alone: Inductor's compilation takes ten times as long."""
        return self.name == "aot_eager"

    @functools.cached_property
    def machine(self) -> Machine | None:
        """The machine whose figures are given; None for that of each graph's device."""
        return _cost.machine(self.profile) if self.profile is not None else None

    def _compile(self, gm: fx.GraphModule, inputs: Sequence[Any], cut: Partitioner) -> Callable[..., Any]:
        if self.name == "aot_eager":
            compiler = aot_autograd(
                fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=cut, keep_inference_input_mutations=True
            )
            return compiler(gm, inputs)
        before = list(self.promise.graphs)
        for _ in range(_ROUNDS):
            self.promise.graphs[:], cut.graph = before, None
            record = Record(gm, inputs, cut.uuid())
            compiled = self._by_inductor(gm, inputs, cut)
            if cut.graph is not None:
                record.write(cut.graph, self.promise.held_bytes, cut.over)
            elif torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in inputs):
                known = record.read()  # the code came from a cache of Inductor, and no graph was cut
                if known is None:
                    with inductor_config.patch(force_disable_caches=True):
                        compiled = self._by_inductor(gm, inputs, cut)
                else:
                    cut.graph, self.promise.held_bytes, cut.over = known
            if not cut.over:
                break
            cut.less += cut.over
        if cut.graph is not None:
            self.promise.graphs[:] = [*before, cut.graph]
        return compiled

    def _by_inductor(self, gm: fx.GraphModule, inputs: Sequence[Any], cut: Partitioner) -> Callable[..., Any]:
        """Compiles with Inductor, and corrects the promise by the code."""
        cut.code = Code(self.workspaces, limited=self.budget is not None or self.plan is not None, drops=cut.drops)
        cut.over = 0
        compiled = cut.code.compile(gm, inputs, self.options, cut)
        if cut.graph is not None and cut.code.peak_bytes is not None:
            peak, saved = cut.code.peak_bytes, cut.code.saved_bytes
            cut.graph = dataclasses.replace(cut.graph, peak_bytes=peak, saved_bytes=saved)
            if cut.code.limit is None:
                cut.graph = dataclasses.replace(cut.graph, baseline_peak_bytes=peak, baseline_saved_bytes=saved)
            if self.budget is not None and cut.code.limit is not None and peak > (1 + _SLACK) * cut.code.limit:
                cut.over = peak - cut.code.limit
        return compiled

    def taken(self) -> int:
        """The bytes that graphs of this step have left between the halves."""
        return sum(g.saved_bytes for g in self.open.values())

    def _followed(self, compiled: Callable[..., Any], graph: Graph) -> Callable[..., Any]:
        """Notes when the graph's forward half has run, and when its backward half begins."""

        def run(*args: Any) -> Any:
            out = compiled(*args)
            node = next((t.grad_fn for t in _tensors(out) if t.grad_fn is not None), None)
            if node is not None:
                number = next(self._runs)
                self.open[number] = graph
                node.register_prehook(lambda _: self._close(number))
                weakref.finalize(node, self._close, number)  # of a step that ends without its backward half
            return out

        return torch._dynamo.disable(run)  # type: ignore[no-untyped-call, no-any-return]

    def _close(self, number: int) -> None:
        self.open.pop(number, None)


class Partitioner(CustomPartitionerFn):
    """Cuts one joint graph by a schedule of ``memopt solve``."""

    def __init__(self, owner: Backend, breaks: bool) -> None:
        self.owner, self.breaks = owner, breaks
        # Graphs behind a break may read results of this one.
        self.drops = owner.drops and not breaks and not owner.promise.graphs
        self.before = owner.taken()
        self.baseline_before = owner.promise.baseline_peak_bytes
        self.baseline_saved = sum(g.baseline_saved_bytes for g in owner.promise.graphs)
        self.graph: Graph | None = None
        self.code: Code | None = None
        self.over = 0  # the bytes that the code takes beyond those of the plan
        self.began = 0.0
        self.less = 0  # those that the graph is planned for less, since code of other rounds took more

    def uuid(self) -> Any:
        """The part of the key of Inductor's caches that is the plan's."""
        modules = (_attention, _cost, _emit, _fuse, _given, _inductor, _joint, _kernels, _solve)
        sources = get_hash_for_files(tuple(str(m.__file__) for m in modules), __name__)
        o = self.owner
        others = (self.before, self.baseline_before, self.baseline_saved, self.breaks, self.drops)
        held = (o.model_bytes, o.promise.optimizer_bytes, *others)
        plan = (o.plan.digest if o.plan else None, o.profile)
        key = (plan, o.budget, self.less, o.time_limit, held)
        return ("memopt", memopt.__version__, *key, hashlib.sha256(sources).hexdigest())

    def __getstate__(self) -> Any:
        """The key alone: Inductor pickles its whole configuration for the keys of its caches."""
        return self.uuid()

    def __deepcopy__(self, memo: dict[int, Any]) -> Partitioner:
        """Itself: copies of the configuration name the same partitioner."""
        return self

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> _emit.Halves:
        self.began = time.perf_counter()
        num_fwd_outputs: int = kwargs["num_fwd_outputs"]
        static: list[int] = kwargs.get("static_lifetime_input_indices") or []
        fuses = self.owner.name == "inductor"
        if fuses:
            copy_operands(gm.graph)
        joint = Joint(gm, num_fwd_outputs, static, self._workspaces, fuses=fuses)
        if not joint.tangents or not joint.backward_outputs():
            return default_partition(
                gm, joint_inputs, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static
            )
        self._hold(joint)
        beside = self._beside(joint) if self.breaks else self.owner.between
        instance = joint.instance(1, self.owner.machine or _cost.of_torch(joint.device), beside, drops=self.drops)
        baseline, plain = _solve.in_order(instance)
        answer = _given.answer(self.owner.plan, instance, joint.device, self.owner.name) if self.owner.plan else None
        most = self._most(baseline)
        if most is not None:
            instance["budget"] = max(most - self.less, 1)
            answer = self._solved(instance, most - self.less)
        self.graph = _described(instance, baseline, plain, answer, self.breaks)
        self.owner.promise.graphs.append(self.graph)
        if self.code is not None and answer is not None:
            self.code.limit = self.graph.peak_bytes if most is None else most
        steps = answer["steps"] if answer else plain
        self.owner.planned(joint, self.graph, instance, steps)
        return _emit.emit(joint, steps)

    def _hold(self, joint: Joint) -> None:
        """Counts the bytes that are there before the step, when its first graph is compiled."""
        if self.before or self.owner.promise.graphs:
            return
        given = [p for p in joint.placeholders if p not in joint.tangents]
        if self.owner.model_bytes is not None:
            given = [p for p in given if p not in joint.static]
        inputs = sum(joint.size(p) for p in given if isinstance(value(p), torch.Tensor))
        self.owner.promise.held_bytes = inputs + (self.owner.model_bytes or 0)

    def _beside(self, joint: Joint) -> int:
        sizes = [_LOSS * 4 * hint(v.numel()) for o in joint.forward_outputs() if _is_float(v := value(o))]
        return max(sizes, default=0)

    def _most(self, baseline: int) -> int | None:
        """The most bytes that this graph may take beyond those that were there before it; None: it is not planned."""
        budget = self.owner.budget
        if budget is None:
            return None
        if isinstance(budget, str):
            known = max(self.baseline_before, self.baseline_saved + baseline)
            return int(float(budget[:-1]) / 100 * known) - self.before
        return budget - self._fixed()

    def _solved(self, instance: dict[str, Any], most: int) -> dict[str, Any]:
        limit = self.owner.time_limit
        if limit is None:
            limit = _solve.seconds(len(instance["nodes"]), self.began if self.owner.hurries else None)
        try:
            return _solve.solve(instance, limit)
        except _solve.Infeasible as e:
            promise = self.owner.promise
            beyond = self.less + (self.before if isinstance(self.owner.budget, str) else self._fixed())
            why = "every schedule takes" if e.proved else "the lowest peak that was found is"
            others = f" (with {len(promise.graphs)} graphs before it)" if promise.graphs else ""
            raise BudgetError(
                f"no schedule of the step{others} fits: {why} {size(e.lowest + beyond)} ({e.lowest + beyond} bytes), "
                f"the budget is {size(most + beyond)} ({most + beyond}); allow more, or make the batch smaller",
                e.lowest + beyond,
            ) from None

    def _fixed(self) -> int:
        """The bytes that are there beside this graph's own."""
        return self.owner.promise.held_bytes + self.owner.promise.optimizer_bytes + self.before

    def _workspaces(self, graph: fx.Graph) -> Callable[[fx.Node], int]:
        """The memory that kernels take beside their results: on the CPU those of PyTorch, which it is asked for."""
        if any(isinstance(v, torch.Tensor) and v.is_cuda for v in map(value, graph.find_nodes(op="placeholder"))):
            return _kernels.workspace
        one_by_one = self.owner.name == "aot_eager"
        numbers: dict[fx.Node, int] = {}
        for n in graph.nodes:
            if (one_by_one or is_kernel(n)) and isinstance(n.target, torch._ops.OpOverload) and _is_fixed(n):
                args, kwargs = tree_map_only(fx.Node, value, (n.args, n.kwargs))
                numbers[n] = self.owner.workspaces.number(n.target, args, kwargs)
        peaks, _ = self.owner.workspaces.measure({})

        def work(n: fx.Node) -> int:
            number = numbers.get(n, -1)
            return max(0, peaks[number] - _cost.nbytes(value(n))) if number >= 0 else 0

        return work


def _described(
    instance: dict[str, Any],
    baseline: int,
    plain: list[Any],
    answer: dict[str, Any] | None,
    breaks: bool,
) -> Graph:
    """The promise of a graph; plain are the steps without recomputation."""
    steps = answer["steps"] if answer else plain
    costs = {n["id"]: n["cost"] for n in instance["nodes"]}
    computed = [s["compute"] for s in steps if "compute" in s]
    base, cost = sum(costs.values()), sum(costs[name] for name in computed)
    return Graph(
        nodes=len(costs) - 1,
        recomputed=len(computed) - len(costs),
        peak_bytes=answer["peak"] if answer else baseline,
        baseline_peak_bytes=baseline,
        saved_bytes=_at_handover(instance, steps),
        baseline_saved_bytes=_at_handover(instance, plain),
        cost_us=cost,
        base_cost_us=base,
        bound_us=answer["cost_lower_bound"] if answer else base,
        breaks=breaks,
    )


def _at_handover(instance: dict[str, Any], steps: list[Any]) -> int:
    """The bytes that are there at the handover, its own results left out."""
    sizes = {v["id"]: v["size"] for n in instance["nodes"] for v in _solve.outputs_of(n)}
    made = {n["id"]: [v["id"] for v in _solve.outputs_of(n)] for n in instance["nodes"]}
    live: set[str] = set()
    for s in itertools.takewhile(lambda s: s.get("compute") != HANDOVER, steps):
        if "free" in s:
            live.discard(s["free"])
        else:
            live.update(made[s["compute"]])
    return sum(sizes[v] for v in live)


def _is_float(v: Any) -> bool:
    return isinstance(v, torch.Tensor) and v.is_floating_point()


def _is_fixed(n: fx.Node) -> bool:
    """Whether no size of a node's tensors is symbolic."""
    for i in (n, *n.all_input_nodes):
        for t in _tensors(value(i)):
            if not all(isinstance(d, int) for d in (*t.shape, *t.stride())):
                return False
    return True


def _tensors(v: Any) -> Iterator[torch.Tensor]:
    if isinstance(v, torch.Tensor):
        yield v
    elif isinstance(v, (tuple, list)):
        for x in v:
            yield from _tensors(x)


def _storages(model: nn.Module) -> int:
    """The bytes of a model's parameters and buffers, shared ones once."""
    known = {}
    for t in itertools.chain(model.parameters(), model.buffers()):
        with contextlib.suppress(NotImplementedError):  # no storage of its own, as of a tensor of a subclass
            known[t.untyped_storage()._cdata] = t.untyped_storage().nbytes()
    return sum(known.values())

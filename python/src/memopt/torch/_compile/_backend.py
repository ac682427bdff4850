"""Backends of torch.compile whose joint graphs memopt cuts."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import distributed, fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._dynamo.convert_frame import compile_lock
from torch._functorch.partitioners import default_partition
from torch._guards import TracingContext, tracing
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomPartitionerFn, get_hash_for_files
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import StrictMinMaxConstraint
from torch.utils._sympy.numbers import int_oo

import memopt

from .. import _attention, _cuda
from .._device import Device
from .._operators import OperatorPlan
from .._plan import size
from .._planner import BudgetError
from .._replay import HANDOVER
from .._workspace import not_known, of_process
from . import _cost, _differences, _emit, _fuse, _given, _inductor, _joint, _kernels, _part, _solve, _whole
from ._compiled import Compiled, Graph, Step, highest
from ._cost import Machine, hint, value
from ._inductor import Code, copy_operands, is_kernel
from ._joint import Joint, is_scalar
from ._kernels import KernelMemory
from ._part import Part, Peaks
from ._record import Record
from ._recording import Known, Recording, by_address, storages
from ._whole import Steps, Whole

if distributed.is_available():
    from torch.distributed.fsdp import FSDPModule

BACKENDS = ("inductor", "aot_eager")

# Behind a graph break stands, as a rule, the loss: on logits of so many bytes it makes their logarithms, their
# gradients and a copy. It is planned for the bytes that are left when it is compiled.
_LOSS = 3

# Code of Inductor that takes this share more than its budget is planned for less, in at most so many rounds.
_SLACK, _ROUNDS = 0.01, 3

# Where it still takes this share more, the budget is an error.
_MOST = 0.02

# A schedule of a step is compiled anew where it is cheaper by this share of the step, or where the budget asks for it.
_GAIN = 0.01

# The copies of a group of fully_shard that are there at one time: its parameters, those of the group that is fetched
# meanwhile and the buffer that they are fetched into, and the argument of a reduction that has not ended. Groups that
# stay gathered need the last one alone, and the one before it.
_COPIES, _REDUCED = 4, 2

# Operators behind a graph that take a smaller share of its bytes leave it its plan, as the division of a loss.
_LITTLE = 0.001

# A graph of symbolic sizes is used up to so many times the sizes that were traced, as far as its budget allows.
_LARGER = (1.25, 1.5, 2.0, 4.0, 16.0, 256.0)

# A schedule of several graphs whose peak is above its budget, since halves cannot overlap, is searched again for less,
# at most so many times.
_TRIES = 4


@dataclasses.dataclass
class Plan:
    """A schedule of one graph.

    Attributes:
        peaks: the most bytes of each half in Inductor's code; None where they are not known.
        call: the compiled graph; None before it is compiled.
        fits: its peak is within the bytes that it was made for.
    """

    graph: Graph
    steps: Steps
    peaks: Peaks = None
    call: Callable[..., Any] | None = None
    fits: bool = True


class Unit:
    """A graph of Dynamo, with the plans that it is compiled under."""

    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
        context = TracingContext.try_get()
        assert context is not None and context.fake_mode is not None
        self.gm = _copy(gm)
        self.shapes = context.fake_mode.shape_env
        known: Any = context.tensor_to_context
        self.contexts = [known.get(t) if isinstance(t, torch.Tensor) else None for t in inputs]
        self.largest = _largest(inputs, self.contexts)
        self.others = [None if isinstance(t, torch.Tensor) else t for t in inputs]
        self.part: Part | None = None
        self.plain: Steps = []  # without recomputation
        self.plans: list[Plan] = []
        self.breaks = False
        self.ran = False

    @contextlib.contextmanager
    def again(self, arguments: Sequence[Any]) -> Iterator[tuple[fx.GraphModule, list[Any]]]:
        """The graph and its inputs, of arguments for which it was compiled, to be compiled once more."""
        context = TracingContext(FakeTensorMode(shape_env=self.shapes))
        inputs = list(self.others)
        for i, t in enumerate(arguments):
            if isinstance(t, torch.Tensor):
                inputs[i] = t
                if self.contexts[i] is not None:
                    context.tensor_to_context[t] = self.contexts[i]
        with tracing(context), torch._dynamo.utils.preserve_rng_state():
            yield _copy(self.gm), inputs

    def guards(self) -> int:
        """How many guards there are on symbolic sizes."""
        return 0 if self.shapes is None else len(self.shapes.guards)


@dataclasses.dataclass(eq=False)
class Noted:
    """A step that ran, planned as a whole.

    Attributes:
        path: its graphs.
        less: the bytes that it is planned for less, since code of other rounds took more.
        rounds: how often plans of its graphs have changed.
    """

    path: tuple[Unit, ...]
    whole: Whole
    step: Step
    less: int = 0
    rounds: int = 0


class Backend:
    """A backend of torch.compile that plans the graphs of a step for one budget.

    In the first step each graph is planned when it is compiled, for the bytes that those before leave. Then all of
    them are known: the step is planned as a whole, and graphs whose schedules change are compiled once more when they
    run next.
    """

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
        self.promise = Compiled(self._settle)
        self.promise.optimizer_bytes = optimizer_bytes
        self.model_bytes = None
        self._model: Callable[[], nn.Module | None] = lambda: None
        if isinstance(model, nn.Module):
            self._model = weakref.ref(model)
            self.model_bytes = sum(s.nbytes() for s in _storages(model))
            self.promise.sharded_bytes = _sharding(model)
        self.open: dict[int, Graph] = {}  # by run: the graphs whose forward halves have run in this step
        self.waiting: list[Graph] = []  # graphs that are compiled and have not run
        self.workspaces = of_process(torch.get_num_threads())
        self.warned: set[str] = set()  # operators of which it was said that their memory is not known
        self.largest = 0  # the peak without recomputation of the largest step so far
        self.follows = True  # steps come behind the first, for which it may be planned as a whole
        self._runs = itertools.count()
        self._path: tuple[Unit, ...] = ()  # the graphs that have run in this step
        self._plans: dict[tuple[Unit, ...], Plan] = {}  # by such a path: the plan of its last graph
        self._steps: dict[tuple[Unit, ...], Noted] = {}  # by the path of a whole step
        self._unchecked: list[Noted] = []  # steps that Inductor's code may take more for than was planned
        self._recording: Recording | None = None
        self._before: Known | None = None  # the storages of the model
        self._seen: set[tuple[Unit, ...]] = set()  # the paths of steps that were noted, and their beginnings
        self._wanted = True  # the next step is noted
        self._error: BudgetError | None = None

    def __call__(self, gm: fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        unit = Unit(gm, inputs)
        if not torch.is_grad_enabled():  # of an evaluation, or a part of a step without a backward half
            return self._compile(gm, inputs, Partitioner(self, unit))
        if not self.open and not self.waiting:
            self._ended()
        self._error = None  # of graphs before, such as those of a larger batch
        reason = getattr(gm, "compile_subgraph_reason", None)
        unit.breaks = bool(getattr(reason, "graph_break", False))
        cut = Partitioner(self, unit)
        if self.profile is not None and self.profile.type == "cuda":
            _attention.choose(gm)
        compiled = self._compile(gm, inputs, cut)
        if cut.plan is None:
            return compiled
        cut.plan.call = compiled
        unit.plans.append(cut.plan)
        self._want()  # as a step of a larger batch, and one that takes another branch
        self.waiting.append(cut.plan.graph)

        def run(*args: Any) -> Any:
            if self.follows and any(isinstance(t, FakeTensor) for t in args):
                return compiled(*args)  # DistributedDataParallel's compiler asks for the shapes of the results
            return self._run(unit, args)

        return torch._dynamo.disable(run)  # type: ignore[no-untyped-call, no-any-return]

    def __reduce__(self) -> Any:
        """A copy is a backend that has compiled no graph, for the copy of the model."""
        options = (self.promise.optimizer_bytes, self.time_limit, self.profile, self.plan)
        kept = {"drops": self.drops, "between": self.between}
        return Backend, (self._model(), self.budget, self.name, self.options, *options), kept

    def planned(self, joint: Joint, graph: Graph, instance: dict[str, Any], steps: list[Any]) -> None:
        """Is told of each graph that was planned."""

    def compiling(self) -> None:
        """Is told when a graph is compiled once more."""

    def promised_bytes(self) -> int:
        """The predicted peak of the step that ran last."""
        self._settle()
        noted = self._steps.get(self._path)
        peak = noted.step.peak_bytes if noted is not None else highest(self.promise.graphs)
        return peak + self.promise.sharded_bytes

    @property
    def hurries(self) -> bool:
        """Whether a search has the time of planning alone: Inductor's compilation takes ten times as long."""
        return self.name == "aot_eager"

    @functools.cached_property
    def machine(self) -> Machine | None:
        """The machine whose figures are given; None for that of each graph's device."""
        return _cost.machine(self.profile) if self.profile is not None else None

    def _compile(self, gm: fx.GraphModule, inputs: Sequence[Any], cut: Partitioner) -> Callable[..., Any]:
        """Compiles a graph, by the largest sizes that are declared for its arguments."""
        with _cost.larger(cut.unit.largest or 1):
            return self._compiled(gm, inputs, cut)

    def _compiled(self, gm: fx.GraphModule, inputs: Sequence[Any], cut: Partitioner) -> Callable[..., Any]:
        if self.name == "aot_eager":
            compiler = aot_autograd(
                fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=cut, keep_inference_input_mutations=True
            )
            return compiler(gm, inputs)
        for _ in range(_ROUNDS):
            cut.plan = None
            record = Record(gm, inputs, cut.uuid())
            compiled = self._by_inductor(gm, inputs, cut)
            if cut.plan is not None and cut.unit.part is not None:
                p = cut.plan
                record.write(p.graph, cut.unit.part, p.steps, p.peaks, self.promise.held_bytes, cut.over, cut.alone)
            elif torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in inputs):
                known = record.read()  # the code came from a cache of Inductor, and no graph was cut
                if known is None:
                    with inductor_config.patch(force_disable_caches=True):
                        compiled = self._by_inductor(gm, inputs, cut)
                else:
                    graph, cut.unit.part, steps, peaks, held, cut.over, cut.alone = known
                    if cut.given is None:
                        self.promise.held_bytes = held
                    _, cut.unit.plain = _solve.in_order(cut.unit.part.instance())
                    cut.plan = Plan(graph, steps, peaks)
            if not cut.over or cut.given is not None:
                break
            cut.less += cut.over
        if cut.alone and cut.plan is not None and cut.given is None:
            peak, limit = cut.plan.graph.peak_bytes, cut.plan.graph.peak_bytes - cut.over
            if cut.over > _MOST * limit:
                raise _too_much(peak + self._beyond(), limit + self._beyond(), False, 1)
        return compiled

    def _by_inductor(self, gm: fx.GraphModule, inputs: Sequence[Any], cut: Partitioner) -> Callable[..., Any]:
        """Compiles with Inductor, and corrects the promise by the code."""
        limited = self.budget is not None or self.plan is not None
        cut.code = code = Code(self.workspaces, limited, cut.drops)
        cut.over = 0
        compiled = code.compile(gm, inputs, self.options, cut)
        if cut.plan is not None and code.peaks is not None:
            peak, saved = max(code.peaks), code.saved_bytes
            graph = dataclasses.replace(cut.plan.graph, peak_bytes=peak, saved_bytes=saved)
            if code.limit is None:
                graph = dataclasses.replace(graph, baseline_peak_bytes=peak, baseline_saved_bytes=saved)
            cut.plan.graph, cut.plan.peaks = graph, code.peaks
            if self.budget is not None and code.limit is not None and peak > (1 + _SLACK) * code.limit:
                cut.over = peak - code.limit
        return compiled

    def taken(self) -> int:
        """The bytes that graphs of this step leave between the halves."""
        return sum(g.saved_bytes for g in (*self.open.values(), *self.waiting))

    def begun(self) -> list[Graph]:
        """The graphs of this step that have run, and those that will."""
        return [*self.open.values(), *self.waiting]

    def _run(self, unit: Unit, args: tuple[Any, ...]) -> Any:
        if not self.open:
            self._begin(unit)
        path = (*self._path, unit)
        plan = self._plans.get(path, unit.plans[-1])
        if plan.call is None:
            plan = self._compiled_anew(unit, plan, args)
        if not unit.ran:
            unit.ran = True
            self.waiting.remove(unit.plans[0].graph)
        recording = self._recording
        if recording is not None and unit.part is not None:
            recording.call(unit.part, args)
        assert plan.call is not None
        out = plan.call(*args)
        node = next((t.grad_fn for t in _tensors(out) if t.grad_fn is not None), None)
        if recording is not None:
            recording.returned(out, node)
        if node is not None:
            self._path = path
            if path not in self._seen:
                self._want()
            self.promise.graphs = [*self.promise.graphs, plan.graph]
            number = next(self._runs)
            self.open[number] = plan.graph
            node.register_prehook(lambda _: self._close(number, begins=True))
            weakref.finalize(node, self._close, number)  # of a step that ends without its backward half
        return out

    def _want(self) -> None:
        """The step that runs is planned as a whole, or the one behind it, if that one is noted first."""
        self._wanted = True
        if self._recording is not None and not self._recording.wanted:
            self._recording.want()

    def _begin(self, first: Unit) -> None:
        """A step begins: the one before it, if its graphs were new, is planned as a whole. Where other graphs follow
        the first, the step is noted in any case, since one of them may be new."""
        self._ended()
        if self._error is not None:
            raise self._error
        self._path = ()
        self.promise.graphs = []
        if self._recording is not None:
            self._recording.end()
        self._recording = None
        several = first.breaks or any(len(path) > 1 and path[0] is first for path in self._steps)
        if (self._wanted or several) and self.follows:
            if self._wanted:
                model = self._model()
                self._before = None if model is None else by_address(_storages(model))
            self._recording = Recording(self._before, wanted=self._wanted)
            self._recording.begin()

    def _ended(self) -> None:
        """A step is over, and the next one begins, or its first graph is compiled."""
        self._settle()
        self.largest = max(self.largest, self.promise.baseline_peak_bytes - self.promise.sharded_bytes)

    def _close(self, number: int, *, begins: bool = False) -> None:
        recording = self._recording
        if recording is not None and begins:
            recording.backward()
        elif recording is not None and not recording.over and number in self.open:
            recording.end()  # the step ends without its backward half, and the next one is noted
            self._recording = None
        self.open.pop(number, None)

    def _compiled_anew(self, unit: Unit, plan: Plan, args: tuple[Any, ...]) -> Plan:
        """Compiles a graph under a plan of the whole step; where that is not possible, it keeps the one that it has."""
        self.compiling()
        guards = unit.guards()
        # Dynamo, which does not call here, holds its lock where it calls compilers: other threads may compile now.
        with compile_lock, unit.again(args) as (gm, inputs):
            cut = Partitioner(self, unit, plan)
            call = self._compile(gm, inputs, cut)
        if cut.plan is None or unit.guards() != guards:
            # PyTorch's guards of this graph were made before, and would not know those of the new code.
            first = unit.plans[-1]
            plan.graph, plan.steps, plan.peaks, plan.call = first.graph, first.steps, first.peaks, first.call
        else:
            plan.graph, plan.peaks = cut.plan.graph, cut.plan.peaks
            plan.call = torch._dynamo.disable(call)  # type: ignore[no-untyped-call]
        return plan

    def _settle(self) -> None:
        """Plans the step that was noted as a whole, if it is over."""
        self._check()
        recording, path = self._recording, self._path
        if recording is None or not recording.over or self.open or len(recording.runs) != len(path):
            return
        if not recording.wanted:
            self._recording = None
            return
        self._recording, self._wanted = None, False
        self._seen.update(path[: i + 1] for i in range(len(path)))
        recording.end()
        between = {recording.ops[k].name for run in recording.runs for k in run.eager}
        self.promise.between = sorted({*self.promise.between, *between})
        plan = self._plan_of(path)
        if len(path) == 1 and plan.fits and recording.ops_bytes <= _LITTLE * plan.graph.peak_bytes:
            return
        recording.settle()
        self.promise.held_bytes = (self.model_bytes or 0) + recording.given_bytes
        whole = Whole(recording.runs, recording.ops, recording.tail, recording.roots)
        noted = Noted(path, whole, self._now(whole, path))
        self._steps[path] = noted
        limit = self._limit(noted.step.baseline_peak_bytes)
        dear = noted.step.cost_us > (1 + _GAIN) * noted.step.base_cost_us
        if limit is not None and (dear or noted.step.peak_bytes > self._most(limit)):
            self._search(noted, limit)
        self.promise.steps = [n.step for n in self._steps.values()]
        self.promise.graphs = [p.graph for p in self._plans_of(path)]

    def _check(self) -> None:
        """Plans steps anew whose graphs have all been compiled under new plans, if their code does not keep to them."""
        if not self._unchecked:
            return
        for noted in [n for n in self._unchecked if all(p.call is not None for p in self._plans_of(n.path))]:
            self._unchecked.remove(noted)
            noted.step = self._now(noted.whole, noted.path)
            limit = self._limit(noted.step.baseline_peak_bytes)
            if limit is None or noted.step.peak_bytes <= self._most(limit):
                continue
            if noted.rounds < _ROUNDS:
                noted.less += noted.step.peak_bytes - limit
                self._search(noted, limit)
                if self._error is None:
                    continue
            self._error = None  # the code that there is may do
            if noted.step.peak_bytes > (1 + _MOST) * limit:
                taken, most = noted.step.peak_bytes + self._beyond(), limit + self._beyond()
                self._error = _too_much(taken, most, False, len(noted.path))
        self.promise.steps = [n.step for n in self._steps.values()]

    def _plan_of(self, path: tuple[Unit, ...]) -> Plan:
        return self._plans.get(path, path[-1].plans[-1])

    def _plans_of(self, path: tuple[Unit, ...]) -> list[Plan]:
        """The plans of all graphs of a step."""
        return [self._plan_of(path[: i + 1]) for i in range(len(path))]

    def _now(self, whole: Whole, path: tuple[Unit, ...]) -> Step:
        """The promise of a step under the plans that its graphs have; of Inductor's code, where that is known."""
        plans = self._plans_of(path)
        plain = whole.steps([u.plain for u in path])
        steps = whole.steps([p.steps for p in plans])
        baseline, base = _solve.peak(whole.instance, plain), whole.cost(plain)
        peak = _peak_of_code(whole, plans)
        if peak is None:
            peak = _solve.peak(whole.instance, steps)
        elif self.budget is None:
            baseline = peak
        return Step(peak, baseline, whole.cost(steps), base, base)

    def _search(self, noted: Noted, limit: int) -> None:
        """Plans a step as a whole, and notes the plans of its graphs that change."""
        now, whole = noted.step, noted.whole
        found = self._searched(whole, limit, noted.less)
        if found is None:
            return
        steps, bound = found
        cost = whole.cost(steps)
        if now.peak_bytes <= self._most(limit) and now.cost_us <= cost + _GAIN * now.base_cost_us:
            noted.step = dataclasses.replace(now, bound_us=bound)
            return
        for i, own in enumerate(whole.halves(steps)):
            path, unit = noted.path[: i + 1], noted.path[i]
            if own != self._plan_of(path).steps:
                known = next((k for k in unit.plans if k.steps == own), None)
                if known is None:
                    assert unit.part is not None
                    graph = _described(unit.part.instance(), unit.plain, own, None, unit.breaks)
                    graph = dataclasses.replace(graph, unmeasured=unit.plans[-1].graph.unmeasured)
                    known = Plan(graph, own)
                    unit.plans.insert(0, known)
                self._plans[path] = known
        noted.step = Step(_solve.peak(whole.instance, steps), now.baseline_peak_bytes, cost, now.base_cost_us, bound)
        noted.rounds += 1
        if self.name == "inductor":
            self._unchecked.append(noted)

    def _limit(self, baseline: int) -> int | None:
        """The most bytes that a step may take beyond those that were there before it."""
        if self.budget is None:
            return None
        if isinstance(self.budget, str):
            # A smaller batch, whose gradients take as much, may take what a larger one does.
            sharded, baseline = self.promise.sharded_bytes, max(baseline, self.largest)
            return int(float(self.budget[:-1]) / 100 * (baseline + sharded)) - sharded
        return self.budget - self._beyond()

    def _most(self, limit: int) -> int:
        """The most bytes that compiled graphs may take under a limit: Inductor's scheduler does not keep it exactly."""
        return int((1 + _SLACK) * limit) if self.name == "inductor" else limit

    def _beyond(self) -> int:
        """The bytes that were there before the step, as far as the budget bounds them."""
        sharded = self.promise.sharded_bytes
        return sharded + (0 if isinstance(self.budget, str) else self.promise.held_bytes + self.promise.optimizer_bytes)

    def _searched(self, whole: Whole, limit: int, less: int) -> tuple[Steps, float] | None:
        """A schedule of a step for less than a limit, and a bound on the time of any. None: none was found, as is
        noted."""
        limit -= less
        tried, lowest, proved = limit, 0, False
        for _ in range(_TRIES):
            try:
                answer = _solve.solve({**whole.instance, "budget": max(tried, 1)}, self.time_limit)
            except _solve.Infeasible as e:
                lowest, proved = lowest or e.lowest, e.proved and tried == limit
                break
            steps = whole.steps(whole.halves(answer["steps"]))
            lowest = _solve.peak(whole.instance, steps)
            if lowest <= limit:
                return steps, answer["cost_lower_bound"]
            tried -= lowest - limit
        beyond = self._beyond() + less
        self._error = _too_much(lowest + beyond, limit + beyond, proved, len(whole.runs))
        return None


class Partitioner(CustomPartitionerFn):
    """Cuts one joint graph, by a plan that is given, or else by one of its own for the bytes that are left."""

    def __init__(self, owner: Backend, unit: Unit, given: Plan | None = None) -> None:
        self.owner, self.unit, self.given = owner, unit, given
        # Graphs behind a break may read results of this one.
        self.drops = owner.drops and not unit.breaks and not owner.begun()
        self.before = owner.taken()
        self.baseline_before = owner.promise.baseline_peak_bytes - owner.promise.sharded_bytes if owner.open else 0
        self.baseline_saved = sum(g.baseline_saved_bytes for g in owner.begun())
        self.others = len(owner.begun())
        self.plan: Plan | None = None
        self.code: Code | None = None
        self.over = 0  # the bytes that the code takes beyond those of the plan
        self.began = 0.0
        self.alone = False  # the step has no other graph
        self.less = 0  # those that the graph is planned for less, since code of other rounds took more

    def uuid(self) -> Any:
        """The part of the key of Inductor's caches that is the plan's."""
        graphs = (_cost, _differences, _emit, _fuse, _given, _joint, _part, _solve, _whole)
        modules = (_attention, _cuda, _inductor, _kernels, *graphs)
        sources = get_hash_for_files(tuple(str(m.__file__) for m in modules), __name__)
        o = self.owner
        others: Any = (self.before, self.baseline_before, self.baseline_saved, self.unit.breaks, self.drops, o.largest)
        if self.given is not None:
            others = hashlib.sha256(json.dumps(self.given.steps).encode()).hexdigest()
        held = (o.model_bytes, o.promise.optimizer_bytes, others)
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
        self.began = time.thread_time()
        num_fwd_outputs: int = kwargs["num_fwd_outputs"]
        static: list[int] = kwargs.get("static_lifetime_input_indices") or []
        fuses = self.owner.name == "inductor"
        if fuses:
            copy_operands(gm.graph)
        joint = Joint(gm, num_fwd_outputs, static, self._memory, fuses=fuses)
        if not joint.tangents or not joint.backward_outputs():
            return self._default(gm, joint_inputs, num_fwd_outputs, static)
        if self.given is None:
            self._chosen(joint)
        elif self.unit.part is None or [n.name for n in joint.computed] != self.unit.part.names:
            return self._default(gm, joint_inputs, num_fwd_outputs, static)  # another graph than the one planned
        else:
            self.plan = self.given
            if self.code is not None:
                self.code.limit = self.given.graph.peak_bytes
        assert self.plan is not None
        return _emit.emit(joint, self.plan.steps)

    def _default(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], num_fwd_outputs: int, static: list[int]
    ) -> _emit.Halves:
        return default_partition(
            gm, joint_inputs, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static
        )

    def _chosen(self, joint: Joint) -> None:
        """Plans the graph for the bytes that those before it leave."""
        self._hold(joint)
        # A graph that returns the loss has no other behind it.
        self.alone = not self.owner.follows or (not self.unit.breaks and any(is_scalar(t) for t in joint.tangents))
        beside = self._beside(joint) if self.unit.breaks else self.owner.between
        machine = self.owner.machine or _cost.of_torch(joint.device)
        # The costs of a plan in a file are those that the program reads there.
        rejoins = self.owner.follows and self.owner.plan is None
        instance = joint.instance(1, machine, beside, drops=self.drops, rejoins=rejoins)
        baseline, plain = _solve.in_order(instance)
        answer = _given.answer(self.owner.plan, instance, joint.device, self.owner.name) if self.owner.plan else None
        most = self._most(baseline)
        if most is not None:
            answer = self._solved(instance, most - self.less)
        steps = answer["steps"] if answer else plain
        graph = _described(instance, plain, steps, answer, self.unit.breaks)
        graph = dataclasses.replace(graph, unmeasured=self._unmeasured(joint))
        self.unit.part, self.unit.plain = _part.part(joint, instance), plain
        self.plan = Plan(graph, steps, fits=most is None or graph.peak_bytes <= most)
        if self.code is not None and answer is not None:
            self.code.limit = graph.peak_bytes if most is None else most
        if most is not None:
            self._bound(joint, beside, most)
        self.owner.planned(joint, graph, instance, steps)

    def _bound(self, joint: Joint, beside: int, most: int) -> None:
        """Has PyTorch compile the graph anew for sizes at which its schedule takes more than a number of bytes. Other
        graphs of a step have plans for the sizes that were traced."""
        sizes = [v for p in joint.placeholders if isinstance(v := value(p), torch.SymInt)]
        if not sizes or self.unit.largest is not None:
            return  # no compiler may narrow a range that is declared
        assert self.plan is not None
        times = 1.0
        for larger in _LARGER if self.alone else ():
            with _cost.larger(larger):
                nodes = joint.instance(1, _cost.CPU, beside, drops=self.drops)["nodes"]
            if _solve.peak({"nodes": nodes}, self.plan.steps) > most:
                break
            times = larger
        for v in sizes:
            torch._check(v <= int(times * hint(v)))

    def _hold(self, joint: Joint) -> None:
        """Counts the bytes that are there before the step, when its first graph is compiled."""
        if self.others:
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
        known = max(self.baseline_before, self.baseline_saved + baseline)
        limit = self.owner._limit(known)
        return None if limit is None else limit - self.before

    def _solved(self, instance: dict[str, Any], most: int) -> dict[str, Any] | None:
        """The cheapest schedule within a number of bytes. Where that is too little, the lowest: the plan of the whole
        step has a limit that is known then, and takes bytes from other graphs. None: none was found."""
        began = self.began if self.owner.hurries else None
        tried = max(most, 1)
        for _ in range(_TRIES):
            try:
                return _solve.solve({**instance, "budget": tried}, self.owner.time_limit, began)
            except _solve.Infeasible as e:
                handover = next(n for n in instance["nodes"] if n["id"] == HANDOVER)
                if not self.alone and handover.pop("workspace", 0):
                    continue  # the graphs behind it may take less than was foreseen
                if not self.others and (self.alone or not isinstance(self.owner.budget, str)):
                    beyond = self.owner._beyond() + self.less
                    raise _too_much(e.lowest + beyond, most + beyond, e.proved, 1) from None
                tried = max(e.lowest, tried + 1)
        return None

    def _memory(self, graph: fx.Graph) -> KernelMemory:
        """The memory of the kernels of a graph."""
        runs = (lambda _: True) if self.owner.name == "aot_eager" else is_kernel
        self.kernels = KernelMemory(graph, self.owner.workspaces, runs)
        return self.kernels

    def _unmeasured(self, joint: Joint) -> tuple[str, ...]:
        """The operators whose kernels' memory is not known, with a warning of those that had none."""
        names = self.kernels.unmeasured(joint.computed)
        if new := set(names) - self.owner.warned:
            self.owner.warned |= new
            warnings.warn(not_known(new), stacklevel=2)
        return names


def _peak_of_code(whole: Whole, plans: list[Plan]) -> int | None:
    """The peak of a step by the code of its graphs; None where that is not known."""
    runs = []
    for run, p in zip(whole.runs, plans, strict=True):
        if p.peaks is None:
            return None
        runs.append(dataclasses.replace(run, part=run.part.coarse(p.steps, p.peaks, p.graph.saved_bytes)))
    coarse = Whole(runs, whole.ops, whole.tail, whole.roots)
    return _solve.peak(coarse.instance, coarse.steps([r.part.in_order() for r in runs]))


def _too_much(lowest: int, budget: int, proved: bool, graphs: int) -> BudgetError:
    """The error of a step that does not fit, with its lowest peak and its budget in bytes."""
    why = "every schedule takes" if proved else "the lowest peak that was found is"
    of = f" of {graphs} graphs" if graphs > 1 else ""
    return BudgetError(
        f"no schedule of the step{of} fits: {why} {size(lowest)} ({lowest} bytes), "
        f"the budget is {size(budget)} ({budget}); allow more, or make the batch smaller",
        lowest,
    )


def _copy(gm: fx.GraphModule) -> fx.GraphModule:
    """A graph of Dynamo's with all that it says of its inputs, without its tensors."""
    graph = fx.Graph()
    graph._codegen = gm.graph._codegen
    of: dict[fx.Node, fx.Node] = {}
    for n in gm.graph.nodes:
        of[n] = graph.node_copy(n, of.__getitem__)
        vars(of[n]).update(vars(n))
    out = fx.GraphModule(gm, graph)
    out.meta = dict(gm.meta)
    for name in ("shape_env", "compile_subgraph_reason", "_param_name_to_source", "_source_to_user_stacks"):
        if hasattr(gm, name):
            setattr(out, name, getattr(gm, name))
    return out


def _described(
    instance: dict[str, Any], plain: Steps, steps: Steps, answer: dict[str, Any] | None, breaks: bool
) -> Graph:
    """The promise of a graph under a schedule; plain is the one without recomputation."""
    nodes = instance["nodes"]
    base = sum(n["cost"] for n in nodes)
    return Graph(
        nodes=len(nodes) - 1,
        recomputed=sum("compute" in s for s in steps) - len(nodes),
        peak_bytes=answer["peak"] if answer else _solve.peak(instance, steps),
        baseline_peak_bytes=_solve.peak(instance, plain),
        saved_bytes=_at_handover(instance, steps),
        baseline_saved_bytes=_at_handover(instance, plain),
        cost_us=_solve.cost(nodes, steps),
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


def _largest(inputs: Sequence[Any], contexts: Sequence[Any]) -> float | None:
    """How many times as large as those that were traced sizes of arguments may be that a user has declared a range for;
    None: no range is declared."""
    found = []
    for t, context in zip(inputs, contexts, strict=True):
        for i, c in enumerate(getattr(context, "constraint_sizes", None) or ()):
            if isinstance(c, StrictMinMaxConstraint):
                found.append(math.inf if c.vr.upper == int_oo else int(c.vr.upper) / hint(t.shape[i]))
    if math.inf in found:
        warnings.warn(
            "sizes of an argument are declared without a largest one, up to which the budget would be kept: it is kept "
            "for those of the first batch; give mark_dynamic a max",
            stacklevel=2,
        )
    return max((f for f in found if 1 < f < math.inf), default=1.0) if found else None


def _is_float(v: Any) -> bool:
    return isinstance(v, torch.Tensor) and v.is_floating_point()


def _tensors(v: Any) -> Iterator[torch.Tensor]:
    if isinstance(v, torch.Tensor):
        yield v
    elif isinstance(v, (tuple, list)):
        for x in v:
            yield from _tensors(x)


def _storages(model: nn.Module) -> list[torch.UntypedStorage]:
    """The storages of a model's parameters and buffers, shared ones once."""
    known = {}
    for t in itertools.chain(model.parameters(), model.buffers()):
        known.update({s._cdata: s for s in storages(t)})
    return list(known.values())


def _sharding(model: nn.Module) -> int:
    """The most bytes that fully_shard takes outside of the graphs: of groups that stay gathered until their backward
    halves all parameters, and copies of the largest group; and the gradients that a rank keeps."""
    if not distributed.is_available():
        return 0
    kept, gone, gradients = [0], [0], 0
    for m in model.modules():
        if isinstance(m, FSDPModule):
            for group in m._get_fsdp_state()._fsdp_param_groups:
                whole = sum(math.prod(p._orig_size) * p.sharded_param.element_size() for p in group.fsdp_params)
                gradients += sum(t.nbytes() for p in group.fsdp_params for t in storages(p.sharded_param))
                (gone if group._reshard_after_forward else kept).append(whole)
    return gradients + sum(kept) + max(_REDUCED * max(kept), _COPIES * max(gone))

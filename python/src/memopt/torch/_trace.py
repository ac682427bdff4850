"""A training step on fake tensors: the operators that run, the storages that they make, and when each is freed."""

from __future__ import annotations

import bisect
import contextlib
import gc
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import Node
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from ._away import Attention, away
from ._cuda import UNKNOWN, WORKSPACES
from ._device import named
from ._engine import __name__ as in_engine
from ._engine import backward
from ._fake import fake, fake_copy
from ._modules import Watch
from ._recorder import Recorder, Storage, peak_of
from ._state import kept
from ._step import Inputs, Loss, run
from ._workspace import Workspaces

FORMAT = "memopt-step"
VERSION = 1

# The attributes of a storage that its file has.
_STORED = ("bytes", "held", "kept", "cached")

# Results of operators without tensor arguments, such as torch.zeros, are fake from this size on.
_LARGE = 1 << 20

# Operators that formulas of backward compute in place, into zeros.
_INTO_ZEROS = frozenset(
    [
        torch.ops.aten.index_add.default,
        torch.ops.aten.index_put.default,
        torch.ops.aten.scatter.src,
        torch.ops.aten.scatter.value,
        torch.ops.aten.scatter_add.default,
    ]
)

# The modules of the frames of Python between an operator and the recorder.
_DISPATCHING = ("memopt.torch.", "torch._compile", "torch._dynamo.")

# Makes a model ready for the step that is traced.
Prepared = Callable[[nn.Module], AbstractContextManager[Any]]


class TraceError(RuntimeError):
    """A step that cannot be traced. The message names the operator, and the remedy."""


@dataclass
class Step:
    """One operator of ATen that makes memory, or reads it.

    Attributes:
        op: the operator, such as ``aten.mm.default``.
        call: the innermost call of a module that it is of, an index of ``Trace.calls``; -1 for none.
        of: of a step of the backward half, the forward step whose backward it is; -1 for the forward half.
        reads: storages that it needs.
        makes: storages that it makes.
        work: bytes that its kernel takes beside them while it runs.
        flops: floating-point operations.
        moved: bytes of the tensors that it reads and writes.
        dtype: the type that it computes in, by its name in ONNX: ``float``, ``bfloat16``.
        saved: of the backward half: its node reads tensors that autograd saved.
        keeps: of the forward half: 1 if autograd saves its inputs, 2 if it saves a result.
        packed: of the forward half: each tensor, parameters left out, that autograd saves for its backward, by its
            storage, elements, bytes, and 1 if it is not contiguous, else 0.
        random: it draws random numbers.
        moves: it moves running statistics.
    """

    op: str
    call: int
    of: int = -1
    reads: list[int] = field(default_factory=list)
    makes: list[int] = field(default_factory=list)
    work: int = 0
    flops: int = 0
    moved: int = 0
    dtype: str = ""
    saved: bool = False
    keeps: int = 0
    packed: list[list[int]] = field(default_factory=list)
    random: bool = False
    moves: bool = False


@dataclass
class Trace:
    """A training step: forward, loss and backward.

    Attributes:
        steps: in the order in which they run.
        backward: the index of the first step of the backward half.
        storages: those that steps read and make.
        calls: of each call of a module its name and the call around it.
        modules: the description of each module, as ``memopt.torch.export`` lists it.
        parameters: names and shapes of the parameters that are trained.
        inputs: names and shapes of the tensors that the step is given.
        parameter_bytes, buffer_bytes, input_bytes: the bytes that are held before the step.
        fake: whether the tensors were fake ones.
        unmeasured: operators whose kernels take memory that is not known and counts as 0; on CUDA those for which
            PyTorch's sources give no rule, elsewhere "all" where no kernel can be run.
    """

    steps: list[Step]
    backward: int
    storages: list[Storage]
    calls: list[tuple[str, int]]
    modules: list[dict[str, Any]]
    parameters: dict[str, list[int]]
    inputs: list[tuple[str, str, list[int]]]
    parameter_bytes: int
    buffer_bytes: int
    input_bytes: int
    device: str
    model: str
    fake: bool
    unmeasured: list[str]

    @property
    def peak_bytes(self) -> int:
        """The most bytes at one time beyond held bytes."""
        return peak_of(self.storages, [s.work for s in self.steps])

    @property
    def held_bytes(self) -> int:
        """The bytes of parameters, buffers and inputs."""
        return self.parameter_bytes + self.buffer_bytes + self.input_bytes

    def to_json(self) -> str:
        """The step as a file that ``memopt plan --select modules`` reads (docs/schemas/step.schema.json)."""
        return json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "model": self.model,
                "torch": torch.__version__,
                "device": self.device,
                "parameter_bytes": self.parameter_bytes,
                "buffer_bytes": self.buffer_bytes,
                "input_bytes": self.input_bytes,
                "modules": self.modules,
                "calls": [{"module": name, "outer": outer} for name, outer in self.calls],
                "parameters": self.parameters,
                "inputs": [{"name": n, "type": t, "shape": s} for n, t, s in self.inputs],
                "storages": [_sparse({k: getattr(s, k) for k in _STORED}) for s in self.storages],
                "backward": self.backward,
                "steps": [_sparse(vars(s), call=-1, of=-1) for s in self.steps],
            },
            separators=(",", ":"),
        )


def _sparse(fields: dict[str, Any], **usual: Any) -> dict[str, Any]:
    """Fields without those that have their usual values, which readers put back."""
    return {k: v for k, v in fields.items() if v != usual.get(k, type(v)())}


def trace(
    model: nn.Module,
    inputs: Inputs,
    *,
    loss: Loss = None,
    labels: Any = None,
    autocast: torch.dtype | None = None,
    prepared: Prepared | None = None,
    watch: bool = True,
    workspaces: Workspaces | None = None,
    device: str | None = None,
) -> Trace:
    """Traces a training step of a model without running it.

    A copy of the model has fake parameters, so that no memory is taken and no number computed; integers and booleans
    of the inputs stay, since models look into them (masks). A model that looks into other numbers is traced in one
    step on real tensors. The model, its buffers and gradients and the generators of random numbers stay as they are.

    Args:
        autocast: the type of ``torch.autocast`` around the forward half; None for the mode that is on.
        prepared: a context in which the model that is traced is ready for the step: a plan is applied.
        watch: note calls of modules and the tensors that autograd saves, which needs a step without checkpoints.
        workspaces: those that other traces of the model have measured; None: none have.
        device: a device that the step is for, and that need not be there, such as "H100" (``memopt devices`` lists
            them): operators and casts are those of CUDA. The step may not look into numbers then. None: the model's.

    Raises:
        TraceError: the step fails, on real tensors too.
        PlanError: no device has that name.
    """
    batch = _Batch(inputs, labels)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    gpu = gpu_of(model, device)
    here = gpu is None and all(p.device.type == "cpu" for p in model.parameters())
    known = (workspaces or Workspaces()) if here else None
    try:
        clone = fake_copy(model, mode, gpu)
        given = batch.fake(mode, gpu)
        recorder = _Recorder(clone, given, mode, loss, autocast, known, watch=watch, away=gpu is not None)
        return recorder.trace(model, batch, prepared)
    except (RuntimeError, TypeError, NotImplementedError) as e:
        if gpu is not None:
            raise TraceError(f"the step does not run on fake tensors: {_first_line(e)}") from e
        warnings.warn(
            f"the step does not run on fake tensors ({_first_line(e)}): it is traced on real ones, which takes its "
            "memory once",
            stacklevel=3,
        )
    with kept(model):
        try:
            return _Recorder(model, batch, None, loss, autocast, known, watch=watch).trace(model, batch, prepared)
        except (RuntimeError, TypeError, NotImplementedError) as e:
            raise TraceError(f"the step fails: {_first_line(e)}") from e


def gpu_of(model: nn.Module, device: str | None) -> torch.device | None:
    """The GPU that fake tensors are on for a device that the model is not on; None for the model's own."""
    if device is None or named(device).type == "cpu" or any(p.is_cuda for p in model.parameters()):
        return None
    return torch.device("cuda", 0)


def _first_line(e: Exception) -> str:
    return next((line for line in str(e).splitlines() if line.strip()), type(e).__name__)


class _Batch:
    """Inputs and labels of a step."""

    def __init__(self, inputs: Inputs, labels: Any) -> None:
        self.inputs, self.labels = inputs, labels

    def tensors(self) -> Iterator[torch.Tensor]:
        for leaf in tree_leaves((self.inputs, self.labels)):
            if isinstance(leaf, torch.Tensor):
                yield leaf

    def fake(self, mode: FakeTensorMode, device: torch.device | None) -> _Batch:
        """The same with fake tensors in place of numbers that no model looks into; of all on a device."""

        def convert(t: torch.Tensor) -> torch.Tensor:
            if device is None and not t.is_floating_point() and not t.is_complex() and t.numel() <= _LARGE:
                return t
            return fake(t, mode, device)

        inputs, labels = tree_map_only(torch.Tensor, convert, (self.inputs, self.labels))
        return _Batch(inputs, labels)

    def named(self) -> list[tuple[str, str, list[int]]]:
        """Names, types and shapes of tensors: arguments by their keywords, else by their numbers."""
        out = []
        items = self.inputs.items() if isinstance(self.inputs, dict) else [("input", self.inputs)]
        for name, value in [*items, ("labels", self.labels)]:
            found = [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
            for i, t in enumerate(found):
                out.append((name if len(found) == 1 else f"{name}_{i}", _dtype(t), list(t.shape)))
        return out


class _Recorder(Recorder):
    """Records one training step."""

    def __init__(
        self,
        model: nn.Module,
        batch: _Batch,
        mode: FakeTensorMode | None,
        loss: Loss,
        autocast: torch.dtype | None,
        workspaces: Workspaces | None,
        *,
        watch: bool,
        away: bool = False,
    ) -> None:
        super().__init__(())
        self.away = away  # on fake tensors of a GPU that is not there
        self.running: Node | None = None  # its node of the backward half that runs
        self.opened: list[list[torch.Tensor]] = []  # the tensors that it saved, which it has unpacked
        self.summing = False  # its gradients are added
        self.model, self.batch, self.mode, self.loss, self.autocast = model, batch, mode, loss, autocast
        self.device = next((p.device.type for p in model.parameters()), "cpu")
        self.held = [self.hold(model.parameters()), self.hold(model.buffers()), self.hold(batch.tensors())]
        self.parameters = {self.number(p) for p in model.parameters()}
        self.trained = {self.number(p) for p in model.parameters() if p.requires_grad}
        self.steps: list[Step] = []
        self.backward = -1
        self.casts = False  # autocast is on, and keeps parameters in its type
        self.watch = Watch(model) if watch else None
        self.first: dict[int, tuple[int, int]] = {}  # by number of an autograd node: its forward step and call
        self.ordered: list[int] | None = None  # the numbers in first, once all are noted
        self.packed: list[tuple[int, list[int]]] = []  # by number of an autograd node, as Step.packed
        self.packing: set[int] = set()  # numbers of autograd nodes whose inputs are saved before they run
        self.node: tuple[int, str] | None = None  # the node of the backward half that runs
        self.started = 0  # the step with which it began
        self.sums: list[tuple[int, int, int]] = []  # sums that may be in place: the step, the first operand, the result
        self.placed: dict[int, int] = {}  # by step: the bytes of a sum that is in place
        self.saved: list[int] = []  # storages that it has unpacked
        self.pending: list[int] = []  # storages that the next node has unpacked
        self.workspaces = workspaces
        self.numbers: list[int] = []  # by step: the number of its operator's workspace, -1 for none
        self.flops: dict[int, int] = {}  # by such a number
        self.unknown: set[str] = set()  # operators of CUDA whose kernels' memory is not known

    def trace(self, model: nn.Module, batch: _Batch, prepared: Prepared | None) -> Trace:
        """Runs the step. model and batch are the real ones, of which names and shapes are told."""
        for p in self.model.parameters():
            p.grad = None
        collecting = gc.isenabled()
        generator = torch.get_rng_state()
        try:
            with prepared(self.model) if prepared is not None else contextlib.nullcontext():
                gc.collect()
                gc.disable()
                self._run()
            return self._result(model, batch)
        finally:
            torch.set_rng_state(generator)
            for p in self.model.parameters():
                p.grad = None
            if collecting:
                gc.enable()

    def _run(self) -> None:
        with contextlib.ExitStack() as stack:
            if self.watch is not None:
                stack.enter_context(self.watch)
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack))
            stack.enter_context(self._states())
            if self.away and self.mode is not None:
                stack.enter_context(away(self._at, self._sum))
                stack.enter_context(Attention())
                stack.enter_context(self.mode)
            stack.enter_context(self)
            casts = self.autocast is not None or torch.is_autocast_enabled(self.device)
            self.casts = casts and torch.is_autocast_cache_enabled()
            values = [run(self.model, self.batch.inputs, self.loss, self.batch.labels, self.autocast)]
            self.backward = len(self.steps)
            if self.away:
                backward(values, self._at, self._sum)
            else:
                values[0].backward()  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def _at(self, node: Node) -> Iterator[None]:
        """Notes the node that runs, where it is run from Python, and lets go of the tensors that it saved."""
        before = self.running, self.opened
        self.running, self.opened = node, []
        try:
            yield
        finally:
            for saved in self.opened:
                saved.clear()
            self.running, self.opened = before

    def _sum(self, before: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        """Adds gradients, where the engine of autograd is not there to do it."""
        self.summing = True
        try:
            return before + grad
        finally:
            self.summing = False

    def _node(self) -> Node | None:
        return self.running if self.away else torch._C._current_autograd_node()

    @contextlib.contextmanager
    def _states(self) -> Iterator[None]:
        """Counts the states of generators that checkpoints keep, which no operator makes."""
        original = torch.get_rng_state

        def counted() -> torch.Tensor:
            state = original()
            of = -1 if self.backward < 0 else max(self.backward - 1, 0)
            self._add(Step("get_rng_state", -1, of, makes=[self.follow(state, held=False)]), -1)
            return state

        torch.get_rng_state = counted
        try:
            yield
        finally:
            torch.get_rng_state = original

    def _add(self, step: Step, number: int) -> None:
        self.steps.append(step)
        self.numbers.append(number)
        self.count = len(self.steps)

    def _pack(self, t: torch.Tensor) -> Any:
        if self.backward < 0:
            number = torch._C._autograd._get_sequence_nr() - 1
            at = self.first.get(number)
            if at is None:
                self.packing.add(number)
            elif at[0] < len(self.steps):
                self.steps[at[0]].keeps = 2
            if (storage := self.number(t)) >= 0 and storage not in self.parameters:
                packed = [storage, t.numel(), t.numel() * t.element_size(), int(not t.is_contiguous())]
                self.packed.append((number, packed))
        alone = t.detach()  # a saved result would hold its own node
        return [alone] if self.away else alone

    def _unpack(self, saved: Any) -> torch.Tensor:
        # Those of the node that runs, and not the arguments of a checkpoint that it has computed anew.
        if self.away and (not callable(self.running) or sys._getframe(1).f_globals["__name__"] == in_engine):
            self.opened.append(saved)
        t: torch.Tensor = saved[0] if self.away else saved
        if self.number(t) >= 0:
            self.pending.append(self.number(t))
        return t

    def call(self, func: Any, args: Any, kwargs: Any, given: list[torch.Tensor]) -> Any:
        if self.mode is not None and not given and _elements(args) > _LARGE:
            with self.mode:
                return func(*args, **kwargs)
        return func(*args, **kwargs)

    def note(
        self,
        func: Any,
        args: Any,
        kwargs: Any,
        given: list[torch.Tensor],
        out: Any,
        made: list[torch.Tensor],
        fresh: list[int],
    ) -> None:
        if func is torch.ops.prim.device.default:  # a question that PyTorch asks of fake tensors
            return
        step = Step(str(func), self.watch.call if self.watch is not None else -1, makes=fresh)
        step.reads = _unique(n for t in given if (n := self.number(t)) not in fresh)
        if self.backward < 0:
            self._forward(step)
        else:
            self._backward(step)
        if not fresh and not step.saved and not step.keeps and not func._schema.is_mutable:
            return  # a view
        step.random = torch.Tag.nondeterministic_seeded in func.tags and not _without_dropout(func, args, kwargs)
        step.moves = "batch_norm" in step.op and self.backward < 0
        step.moved = sum(t.numel() * t.element_size() for t in (*given, *made))
        step.flops = _flops(func, args, kwargs, out)
        step.dtype = _dtype(next((t for t in made if t.is_floating_point()), None))
        if func is torch.ops.aten._to_copy.default and self._casting(given):
            for i in fresh:
                self.storages[i].cached = True
        if self.backward >= 0 and self._may_be_in_place(func, given, made, fresh):
            self.sums.append((len(self.steps), self.number(given[0]), fresh[0]))
        elif func is torch.ops.aten._safe_softmax.default:
            self._masked(self.number(given[0]))
        number = self.workspaces.number(func, args, kwargs) if fresh and self.workspaces is not None else -1
        if self.device == "cuda":
            op = func._overloadpacket
            step.work = WORKSPACES[op](args, int) if op in WORKSPACES else 0
            if op in UNKNOWN:
                self.unknown.add(str(func))
        if number >= 0:
            self.flops[number] = step.flops
        self._add(step, number)

    def _casting(self, given: list[torch.Tensor]) -> bool:
        """Whether autocast changes the type of a parameter, which it then keeps (at::autocast::cached_cast)."""
        if not self.casts or self.backward >= 0:
            return False
        return len(given) == 1 and self.number(given[0]) in self.trained and given[0].dtype == torch.float32

    def _forward(self, step: Step) -> None:
        """Notes which autograd node an operator of the forward half has: the last one that was made, if it has one."""
        number = torch._C._autograd._get_sequence_nr() - 1
        if number >= 0 and torch.is_grad_enabled() and number not in self.first:
            self.first[number] = (len(self.steps), step.call)
            if number in self.packing:
                step.keeps = 1

    def _backward(self, step: Step) -> None:
        """Finds the forward step whose backward an operator is of, by the node that runs."""
        node = self._node()
        now = (node._sequence_nr(), node.name()) if node is not None else (-1, "")
        self.saved = _unique(self.pending if now != self.node else (*self.saved, *self.pending))
        if now != self.node:
            self.started = len(self.steps)
        self.node, self.pending = now, []
        last = max(self.backward - 1, 0)
        of, step.call = self._made(now[0]) or (last, -1)
        step.of = min(of, last)
        if self.saved:
            step.saved = True
            step.reads = _unique((*step.reads, *self.saved))

    def _may_be_in_place(
        self, func: Any, given: list[torch.Tensor], made: list[torch.Tensor], fresh: list[int]
    ) -> bool:
        """Whether an operator of the backward half changes its first argument in a step that is not traced."""
        if func in _INTO_ZEROS:
            return len(fresh) == 1 and self._zeros(self.number(given[0]))
        return func is torch.ops.aten.add.Tensor and self._accumulates(given, made, fresh)

    def _accumulates(self, given: list[torch.Tensor], made: list[torch.Tensor], fresh: list[int]) -> bool:
        """Whether a sum may be one of autograd's engine: of a gradient that waits for a node and the next one for it.

        The engine adds in place where it has the only reference (torch/csrc/autograd/input_buffer.cpp), but never while
        operators are dispatched to Python. A formula of a node adds tensors that the node itself has made.
        """
        node = self._node()
        if node is None or len(given) != 2 or len(fresh) != 1 or given[0].shape != given[1].shape:
            return False
        if not (self.summing if self.away else _in_engine()):
            return False
        old, new = self.number(given[0]), self.number(given[1])
        first = self.storages[old].made
        twice = len(set(node.next_functions)) < len(node.next_functions)
        return (
            old != new
            and not given[0]._is_view()  # which holds the tensor that it is of
            and given[0].dtype == made[0].dtype
            and _fills(given[0])
            and (self.backward <= first < self.started or (twice and first >= self.started))
        )

    def _zeros(self, number: int) -> bool:
        """Whether a storage has zeros that the node that runs has just made. Formulas of nodes write into them in
        place, but never while operators are dispatched to Python (inplace_scatter_if_not_tensor_subclass and others of
        torch/csrc/autograd/FunctionsManual.cpp)."""
        made = self.storages[number].made if number >= 0 else -1
        return made >= max(self.started, self.backward) and self.steps[made].op == "aten.new_zeros.default"

    def _masked(self, scores: int) -> None:
        """Notes that attention by products adds its mask in place (_scaled_dot_product_attention_math, which alone has
        this softmax); not while operators are dispatched to Python."""
        at = self.storages[scores].made
        step = self.steps[at]
        if at >= 0 and step.op == "aten.add.Tensor" and step.makes == [scores] and step.reads:
            self.sums.append((at, step.reads[0], scores))

    def _made(self, number: int) -> tuple[int, int] | None:
        """The forward step of an autograd node and its call. An operator that changes its input in place and saves it
        copies it first, which makes a node of its own: the next number is the one that was noted."""
        if self.ordered is None:
            self.ordered = sorted(self.first)
        at = bisect.bisect_left(self.ordered, number)
        return self.first[self.ordered[at]] if number >= 0 and at < len(self.ordered) else None

    def _result(self, model: nn.Module, batch: _Batch) -> Trace:
        """The trace, in which every storage is read where it is there for the last time."""
        self.settle()
        for node, packed in self.packed:
            if (at := self._made(node)) is not None and at[0] < self.backward:
                self.steps[at[0]].packed.append(packed)
        self._add_in_place()
        for i, s in enumerate(self.storages):
            if s.freed >= 0 and i not in self.steps[s.freed].reads and i not in self.steps[s.freed].makes:
                self.steps[s.freed].reads.append(i)
        unmeasured = self._work()
        known = {n: list(p.shape) for n, p in model.named_parameters() if p.requires_grad}
        calls, listed = (self.watch.calls, self.watch.listed()) if self.watch is not None else ([], [])
        parameters, buffers, inputs = self.held
        return Trace(
            steps=self.steps,
            backward=self.backward,
            storages=self.storages,
            calls=calls,
            modules=listed,
            parameters=known,
            inputs=batch.named(),
            parameter_bytes=parameters,
            buffer_bytes=buffers,
            input_bytes=inputs,
            device=self.device,
            model=type(model).__name__,
            fake=self.mode is not None,
            unmeasured=unmeasured,
        )

    def _add_in_place(self) -> None:
        """Has sums add in place to tensors that they were the last to need."""
        place = list(range(len(self.storages)))
        for at, old, new in self.sums:
            to = place[old]
            if self.storages[to].freed == at and self.storages[to].bytes >= self.storages[new].bytes:
                place[new] = to
                self.storages[to].freed, self.storages[to].kept = self.storages[new].freed, self.storages[new].kept
                self.steps[at].op = _in_place(self.steps[at].op)
                self.placed[at] = self.storages[new].bytes
        left = [i for i, to in enumerate(place) if i == to]
        number = dict(zip(left, range(len(left)), strict=True))
        self.storages = [self.storages[i] for i in left]
        for step in self.steps:
            step.reads = _unique(number[place[i]] for i in step.reads)
            step.makes = [number[i] for i in step.makes if i in number]
            step.packed = [[number[place[i]], *rest] for i, *rest in step.packed]

    def _work(self) -> list[str]:
        """Adds the workspaces of kernels; those that are not known."""
        if self.device == "cuda":
            return sorted(self.unknown)
        if self.workspaces is None:
            return ["all"]
        peaks, unmeasured = self.workspaces.measure(self.flops)
        for at, (step, number) in enumerate(zip(self.steps, self.numbers, strict=True)):
            if number >= 0 and peaks[number] >= 0:
                made = self.placed.get(at, 0) + sum(self.storages[i].bytes for i in step.makes)
                step.work = max(0, peaks[number] - made)
        return unmeasured


def _in_place(op: str) -> str:
    """The form of an operator that changes its first argument: ``aten.add_.Tensor`` of ``aten.add.Tensor``."""
    space, name, overload = op.split(".")
    return f"{space}.{name}_.{overload}"


def _unique(numbers: Any) -> list[int]:
    return list(dict.fromkeys(numbers))


def _in_engine() -> bool:
    """Whether the operator that is dispatched has been called by autograd's engine, and not by Python, as in hooks and
    in functions of the user's own."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals["__name__"].startswith(_DISPATCHING):
        frame = frame.f_back
    return frame is None or frame.f_globals["__name__"] == "torch.autograd.graph"


def _fills(t: torch.Tensor) -> bool:
    """Whether a tensor's elements lie without gaps and none twice."""
    expected = 1
    for size, stride in sorted(zip(t.shape, t.stride(), strict=True), key=lambda d: d[1]):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _dtype(t: torch.Tensor | None) -> str:
    """The name that a tensor's type has in ONNX; "" for no tensor."""
    if t is None:
        return ""
    name = str(t.dtype).removeprefix("torch.")
    return {"float32": "float", "float64": "double"}.get(name, name)


def _without_dropout(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator that may draw random numbers, as attention does, is told not to drop."""
    for i, argument in enumerate(func._schema.arguments):
        if argument.name == "dropout_p":
            given = args[i] if i < len(args) else kwargs.get("dropout_p", argument.default_value)
            return not given
    return False


def _elements(args: Any) -> int:
    """The elements of the size that an operator without tensor arguments is given."""
    n = 1
    for d in args[0] if args and isinstance(args[0], (list, tuple, torch.Size)) else ():
        n *= int(d)
    return n


def _flops(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    count = flop_registry.get(func._overloadpacket)
    return int(count(*args, **kwargs, out_val=out)) if count is not None else 0

"""Plans of operators before a step runs: without its memory, and without the device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.backends.debugging import boxed_nop
from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException
from torch._inductor import config as inductor_config
from torch._inductor.compile_fx import compile_fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import Node
from torch.fx import traceback
from torch.utils._pytree import tree_leaves, tree_map_only

import memopt

from .. import _device
from .._allocator import reserved_bytes, rounded
from .._apply import unwrapped
from .._away import away
from .._device import Device
from .._fake import fake, fake_copy
from .._operators import VERSION, OperatorPlan
from .._optimizer import OptimizerMemory, optimizer_memory
from .._plan import OPERATORS, PlanError
from .._planner import byte_limit, seconds
from .._recorder import Recorder
from .._replay import Replay
from .._step import Inputs, Loss, labelled, loss_of, run, split
from .._trace import TraceError
from . import _tags
from ._backend import BACKENDS, Backend, Partitioner
from ._compiled import Graph
from ._differences import APART, marked_as_backward
from ._joint import Joint
from ._versions import FAKING, require


def ask(
    model: nn.Module,
    batch: Inputs,
    *,
    budget: str | int | None,
    loss: Loss,
    labels: Any,
    optimizer: torch.optim.Optimizer | None,
    autocast: torch.dtype | None,
    time_limit: float | None,
    device: str | None,
    backend: str,
) -> OperatorPlan:
    """The plan of ``memopt.torch.plan(select="operators")``."""
    require(torch.__version__, FAKING, 'memopt.torch.plan(select="operators")')
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r}: wanted {' or '.join(map(repr, BACKENDS))}")
    profile = _device.named(device) if device is not None else None
    step = _Step(unwrapped(model), batch, loss, labels, autocast, profile)
    memory = step.optimizer(optimizer)
    asking = Asking(step.model, byte_limit(budget), backend, memory.state_bytes, seconds(time_limit), profile)
    asking.between = step.loss_bytes()
    step.run(asking)
    if not asking.cut:
        raise PlanError("the step has no backward half: no parameter of the model needs a gradient")
    return _finished(asking, step, memory, budget)


class Asking(Backend):
    """A backend of torch.compile that plans graphs and compiles none."""

    def __init__(
        self,
        model: nn.Module,
        budget: str | int | None,
        backend: str,
        optimizer_bytes: int,
        time_limit: float | None,
        profile: Device | None,
    ) -> None:
        super().__init__(model, budget, backend, {}, optimizer_bytes, time_limit, profile)
        self.follows = False
        self.modules = {name for name, _ in model.named_modules()}
        self.cut: list[tuple[Graph, dict[str, Any], list[Any]]] = []

    def _compile(self, gm: fx.GraphModule, inputs: Sequence[Any], cut: Partitioner) -> Callable[..., Any]:
        if self.name == "aot_eager":
            return super()._compile(gm, inputs, cut)
        with inductor_config.patch(custom_partitioner_fn=cut, force_disable_caches=True):
            return compile_fx(gm, inputs, inner_compile=_unlowered)  # type: ignore[return-value]

    @property
    def hurries(self) -> bool:
        """No step waits for the plan."""
        return False

    def planned(self, joint: Joint, graph: Graph, instance: dict[str, Any], steps: list[Any]) -> None:
        nodes = {n.name: n for n in joint.computed}
        self.cut.append((graph, _tags.tagged(instance, nodes, self.modules), steps))


@contextlib.contextmanager
def _told(node: Node) -> Iterator[None]:
    """Tells a tracer which forward operator a node is of, as AOTAutograd's hooks of nodes do."""
    metadata: Any = node.metadata
    traceback.set_stack_trace(metadata.get("traceback_", []))
    traceback.set_grad_fn_seq_nr(node._sequence_nr())
    try:
        with marked_as_backward():
            yield
    finally:
        traceback.reset_grad_fn_seq_nr()


def _unlowered(gm: fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Any:
    return boxed_nop(gm, list(inputs))


class _Step:
    """A training step on fake tensors."""

    def __init__(
        self,
        model: nn.Module,
        batch: Inputs,
        loss: Loss,
        labels: Any,
        autocast: torch.dtype | None,
        profile: Device | None,
    ) -> None:
        self.real, self.loss, self.autocast = model, loss, autocast
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.device = torch.device(profile.type, *([0] if profile.type != "cpu" else [])) if profile else None
        self.model = fake_copy(model, self.mode, self.device)
        self.batch, self.labels = tree_map_only(
            torch.Tensor, lambda t: fake(t, self.mode, self.device), (batch, labels)
        )

    @property
    def type(self) -> str:
        """The type of the device whose kernels are traced."""
        return next((p.device.type for p in self.model.parameters()), "cpu")

    def optimizer(self, optimizer: torch.optim.Optimizer | None) -> OptimizerMemory:
        """The memory of the optimizer."""
        if optimizer is None:
            return OptimizerMemory(0, 0)
        return optimizer_memory(self.real, optimizer, self.device)

    @contextlib.contextmanager
    def _fake(self) -> Iterator[None]:
        with self.mode, away(_told) if self.type != "cpu" else contextlib.nullcontext():
            yield

    def loss_bytes(self) -> int:
        """The most bytes that a loss outside of the model takes at one time beside its gradients of the model's
        output; 0 where the model has the loss."""
        if self.loss is None:
            return 0
        args, kwargs = split(self.batch)
        casts = self.autocast is not None
        with self._failing(), self._fake():
            with torch.no_grad(), torch.autocast(self.type, self.autocast) if casts else contextlib.nullcontext():
                out = self.model(*args, **kwargs)
            out = tree_map_only(torch.Tensor, lambda t: t.detach().requires_grad_(t.is_floating_point()), out)
            given = [t for t in tree_leaves((out, self.labels)) if isinstance(t, torch.Tensor)]
            recorder = Recorder(given)
            with recorder:
                with torch.autocast(self.type, self.autocast) if casts else contextlib.nullcontext():
                    value = loss_of(out, self.loss, labelled(self.labels))
                value.backward()  # type: ignore[no-untyped-call]
        return recorder.peak_bytes

    def run(self, asking: Asking) -> None:
        """One forward half, whose graphs the backend plans."""
        compiler: Any = torch.compile  # whose types do not have all of its arguments
        compiled = compiler(self.model, backend=asking, **APART)
        with self._failing(), self._fake():
            run(compiled, self.batch, self.loss, self.labels, self.autocast)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BackendCompilerFailed as e:
            if isinstance(e.inner_exception, PlanError):
                raise e.inner_exception from None
            raise TraceError(f"the step cannot be traced: {_first_line(e.inner_exception)}") from e
        except (TorchDynamoException, RuntimeError, TypeError, NotImplementedError) as e:
            raise TraceError(f"the step does not run on fake tensors: {_first_line(e)}") from e


def _first_line(e: BaseException) -> str:
    return next((line for line in str(e).splitlines() if line.strip()), type(e).__name__)


def _finished(asking: Asking, step: _Step, memory: OptimizerMemory, budget: str | int | None) -> OperatorPlan:
    """The plan with its totals."""
    promise, profile, cuda = asking.promise, asking.profile, step.type == "cuda"
    held = _held(step, rounded if cuda else int)
    before = sum(h["bytes"] for h in held)
    gradients = sum(map(_gradient_bytes, asking.cut))
    total = memory.state_bytes + before + max(promise.predicted_peak_bytes, gradients + memory.step_bytes)
    reserved = total
    if cuda:
        replays = [(r, r.handover) for r in (Replay(i, s) for _, i, s in asking.cut)]
        sizes = [h["bytes"] for h in held]
        reserved = max(total, reserved_bytes([*sizes, memory.state_bytes], replays))
    graphs = promise.graphs
    raw: dict[str, Any] = {
        "format": OPERATORS,
        "version": VERSION,
        "memopt": memopt.__version__,
        "torch": torch.__version__,
        "model": type(step.real).__name__,
        "backend": asking.name,
        "device": step.type,
        "profile": profile.name if profile else "",
        "budget": "" if budget is None else str(budget),
        "peak_bytes": promise.predicted_peak_bytes,
        "baseline_peak_bytes": promise.baseline_peak_bytes,
        "total_bytes": total,
        "reserved_bytes": reserved,
        "held_bytes": before,
        "optimizer_bytes": memory.state_bytes,
        "update_bytes": memory.step_bytes,
        "memory_bytes": profile.memory_bytes if profile else 0,
        "reserve_bytes": profile.reserve_bytes if profile else 0,
        "cost_us": sum(g.cost_us for g in graphs),
        "base_cost_us": sum(g.base_cost_us for g in graphs),
        "bound_us": sum(g.bound_us for g in graphs),
        "held": held,
        "graphs": [
            {
                "peak_bytes": g.peak_bytes,
                "saved_bytes": g.saved_bytes,
                "bound_us": g.bound_us,
                "instance": instance,
                "steps": steps,
            }
            for g, instance, steps in asking.cut
        ],
    }
    unknown = ("profile", "budget", "memory_bytes", "reserve_bytes")
    return OperatorPlan({k: v for k, v in raw.items() if v or k not in unknown})


def _gradient_bytes(cut: tuple[Graph, dict[str, Any], list[Any]]) -> int:
    """The bytes that the backward half makes and leaves."""
    _, instance, steps = cut
    replay = Replay(instance, steps)
    last, at = len(replay.computed) - 1, replay.handover
    return sum(b.bytes for b in replay.there(last) if b.made > at)


def _held(step: _Step, size: Callable[[int], int]) -> list[dict[str, Any]]:
    """The tensors that are there before a step, storages that are shared once."""
    named: list[tuple[str, str, torch.Tensor]] = [(n, "parameter", p) for n, p in step.model.named_parameters()]
    named += [(n, "buffer", b) for n, b in step.model.named_buffers()]
    items = step.batch.items() if isinstance(step.batch, dict) else [("input", step.batch)]
    for name, value in [*items, ("labels", step.labels)]:
        found = [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
        named += [(name if len(found) == 1 else f"{name}.{i}", "input", t) for i, t in enumerate(found)]
    out: dict[int, dict[str, Any]] = {}
    for name, kind, t in named:
        with contextlib.suppress(NotImplementedError):  # of a subclass without a storage of its own
            s = t.untyped_storage()
            out.setdefault(s._cdata, {"name": name, "kind": kind, "bytes": size(s.nbytes())})
    return list(out.values())

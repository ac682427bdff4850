"""A plan that is made, applied and measured at the first training step of a model."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

import torch
from torch import distributed, nn
from torch.autograd import Variable
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .._apply import Applied, apply, unwrapped
from .._operators import OperatorPlan
from .._plan import Plan, PlanError, size
from .._planner import plan as plan_step
from .._ranks import is_distributed, rank
from .._state import tensors
from .._step import Inputs, Loss
from ._compiled import CompiledStep, compiled_module, operators, room
from ._meter import StepMeter

# A budget, such as "60%", "12GiB" or a number of bytes, or a plan: a file, its contents, or itself.
What = str | int | os.PathLike[str] | Mapping[str, Any] | Plan | OperatorPlan

# Makes a plan, as memopt.torch.plan does.
Planner = Callable[..., Plan]

_BUDGET = re.compile(r"\s*\d+(\.\d+)?\s*(%|[KMGT]i?B?|B)?\s*", re.IGNORECASE)


class Attached:
    """A plan in a training loop.

    Attributes:
        plan: the plan; None before the first step, where a budget was given.
        applied: the plan as it is applied; None before.
        measured_bytes: the measured peak of the first step beyond what was there before it; None before the update
            of parameters behind it, and where another profiler was running.
    """

    def __init__(
        self,
        model: nn.Module,
        what: What,
        *,
        loss: Loss = None,
        optimizer: Any = None,
        accumulation: int = 1,
        planner: Planner | None = None,
        show: Callable[[str], None] | None = print,
    ) -> None:
        self.model = unwrapped(model)
        self.plan: Plan | None = None
        self.applied: Applied | None = None
        self._budget: str | int | None = None
        self._loss, self._optimizer, self._planner = loss, optimizer, planner or plan_step
        self._accumulation = accumulation
        self._meter = StepMeter(show, lambda: self.plan.predicted_peak_bytes if self.plan else 0)
        self._begun = False
        self.hooks: list[Any] = []  # those by which the step is followed
        if is_budget(what):
            _plannable(self.model)
            self._budget = what
        else:
            self._apply(Plan.load(what))  # type: ignore[arg-type]  # a plan of operators it refuses

    @property
    def pending(self) -> bool:
        """Whether no step has begun yet."""
        return not self._begun

    @property
    def measured_bytes(self) -> int | None:
        """See above."""
        return self._meter.peak

    def begin(self, batch: Inputs, model: nn.Module | None = None, prefix: str = "") -> None:
        """Plans, at the first step, and starts to measure it.

        Args:
            batch: the inputs of the step.
            model: a module whose call is the forward half; None for the model itself.
            prefix: the name of the model within it.
        """
        if self._begun:
            return
        self._begun = True
        if self.plan is None:
            begin = time.perf_counter()
            p = agreed(lambda: self._plan(self.model if model is None else model, batch))
            self._apply(_without(prefix, p))
            self._meter.say(f"memopt: planned in {time.perf_counter() - begin:.1f} s for a budget of {self._budget}")
        assert self.plan is not None
        self._meter.say(table(self.plan))
        self._meter.start(self.model)

    def mark(self) -> None:
        """Ends the step that begin has begun. The end of the backward half may call it."""
        self._meter.mark()

    def end(self) -> None:
        """Says the measured peak of the step that mark has ended."""
        self._meter.stop()

    def remove(self) -> None:
        """Takes the plan away."""
        self.end()
        for hook in self.hooks:
            hook.remove()
        if self.applied is not None:
            self.applied.remove()

    def _plan(self, model: nn.Module, batch: Inputs) -> Plan:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "config.use_cache is off")  # apply says it
            budget = room(self._budget, self.model, self._accumulation)
            return self._planner(model, batch, budget=budget, loss=self._loss, optimizer=_inner(self._optimizer))

    def _apply(self, plan: Plan) -> None:
        self.applied = apply(self.model, plan, sizes="warn")
        self.plan = plan


def attach(
    model: nn.Module,
    what: What,
    *,
    loss: Loss = None,
    optimizer: Any = None,
    accumulation: int = 1,
    planner: Planner | None = None,
    show: Callable[[str], None] | None = print,
) -> Attached | CompiledStep:
    """Plans a model at its first training step, in a loop of one's own or of accelerate.

        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        attach(model, "60%", optimizer=optimizer)

    The step begins with the first call of the model in training mode, and ends with its backward half. A model that
    torch.compile has wrapped is compiled within the budget, as ``memopt.torch.compile`` does, by the backend and the
    options that torch.compile was given.

    Args:
        model: the model as the loop calls it, or the one in a DistributedDataParallel. A model that is sharded
            (fully_shard) takes a plan that was made before: ``memopt.torch.plan(model, batch, budget=...)``.
        what: a budget or a plan, as in ``memopt.torch.plan`` and ``memopt.torch.apply``; of a compiled model a budget
            or a plan of operators.
        loss: a function of the model's output; None if the model returns its loss.
        optimizer: its state counts in a budget of bytes.
        accumulation: how many steps add up gradients before an update. From 2 on, a budget of bytes has room for the
            gradients of the steps before.
        planner: makes the plan; None for ``memopt.torch.plan``.
        show: prints the table and the measured peak, on rank 0; None for silence.

    Raises:
        PlanError: the plan does not fit the model; at the first step, no plan fits the budget.
    """
    compiled = compiled_module(model)
    if compiled is not None:
        step = attach_compiled(compiled, what, optimizer=optimizer, accumulation=accumulation, show=show)
        follow(step, compiled)
        return step
    attached = Attached(
        model, what, loss=loss, optimizer=optimizer, accumulation=accumulation, planner=planner, show=show
    )
    follow(attached, attached.model)
    return attached


def attach_compiled(
    compiled: Any,
    what: What,
    *,
    optimizer: Any,
    accumulation: int,
    show: Callable[[str], None] | None,
    model: nn.Module | None = None,
) -> CompiledStep:
    """Has a module that torch.compile has wrapped compiled anew within a budget, or by a plan of operators. model is
    the one that is trained, where the module is a part of it."""
    from .._compile._replace import replace, settings

    passed = settings(compiled.dynamo_ctx)
    fullgraph = passed.pop("fullgraph")
    step = CompiledStep(budget_or_operators(what), show=show, **passed)
    step.prepare(model or compiled._orig_mod, optimizer, accumulation)
    replace(compiled, step, fullgraph)
    object.__setattr__(compiled, "memopt", step.promise)
    return step


def is_budget(what: What) -> TypeGuard[str | int]:
    """Whether a budget is given rather than a plan."""
    return isinstance(what, int) or (isinstance(what, str) and _BUDGET.fullmatch(what) is not None)


def budget_or_operators(what: What) -> str | int | OperatorPlan:
    """That of a compiled model: a budget, or a plan of operators.

    Raises:
        PlanError: a plan of modules is given.
    """
    if is_budget(what):
        return what
    plan = operators(what)
    if plan is None:
        raise PlanError(
            "the model is compiled, and the plan is one of modules: apply it before torch.compile wraps the model, or "
            "give a budget"
        )
    return plan


def follow(step: Attached | CompiledStep, module: nn.Module) -> None:
    """Has calls of a module in training mode begin the step, and their backward halves end it, until it is measured."""
    hooks = step.hooks

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not module.training or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return
        clear()  # the trace calls the model as well
        if args and kwargs:
            kwargs = {**_named(module, args), **kwargs}
            args = ()
        step.begin(kwargs if kwargs else args)
        hooks.append(module.register_forward_hook(after, always_call=True))

    def after(module: nn.Module, _: Any, output: Any) -> None:
        clear()
        made = [t for t in tensors(output.to_tuple() if hasattr(output, "to_tuple") else output) if t.requires_grad]
        if not made:
            step.end()
            return
        made[0].register_hook(backward)  # type: ignore[no-untyped-call]
        hooks.append(register_optimizer_step_pre_hook(behind))
        hooks.append(module.register_forward_pre_hook(again, with_kwargs=True))

    def backward(_: torch.Tensor) -> None:
        # The engine calls it at the end of the backward half that is running. There a profiler cannot be stopped: the
        # engine restores the thread's own mode.
        Variable._execution_engine.queue_callback(step.mark)

    def behind(*_: Any) -> None:
        clear()
        step.end()
        if step.pending:
            watch()

    def again(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        behind()
        if step.pending:
            begin(module, args, kwargs)

    def clear() -> None:
        while hooks:
            hooks.pop().remove()

    def watch() -> None:
        hooks.append(module.register_forward_pre_hook(begin, with_kwargs=True))

    watch()


def _named(module: nn.Module, args: tuple[Any, ...]) -> dict[str, Any]:
    """Positional arguments under the names of the forward function's parameters."""
    return dict(inspect.signature(module.forward).bind_partial(*args).arguments)


def agreed(make: Callable[[], Plan]) -> Plan:
    """The plan that rank 0 makes. Where it cannot be made, every rank fails."""
    if not is_distributed():
        return make()
    box: list[Any] = [None]
    if rank() == 0:
        try:
            box[0] = make().raw
        except Exception as e:
            box[0] = e if isinstance(e, PlanError) else PlanError(f"{type(e).__name__}: {e}")
    distributed.broadcast_object_list(box, src=0)
    if isinstance(box[0], Exception):
        raise box[0]
    return Plan.load(box[0])


def table(plan: Plan) -> str:
    """The promise of a plan, for a reader."""
    held = int(plan.raw.get("held_bytes", 0))
    before, after = plan.baseline_peak_bytes - held, plan.predicted_peak_bytes
    rows = [
        ("memopt", "peak of a step", "", "time"),
        ("without the plan", size(before), "100 %", ""),
        ("promised", size(after), f"{100 * after / max(before, 1):.0f} %", f"{100 * plan.overhead:+.1f} %"),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join(
        cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
    ).rstrip() for row in rows]
    return "\n".join([*lines, f"recomputed: {', '.join(spans(plan.modules)) or 'nothing'}"])


def spans(names: tuple[str, ...]) -> list[str]:
    """Names, with runs of numbers drawn together: ``h.0 to h.5``."""
    out: list[tuple[str, str]] = []
    for name in names:
        if out and name == _next(out[-1][1]):
            out[-1] = (out[-1][0], name)
        else:
            out.append((name, name))
    return [first if first == last else f"{first} to {last}" for first, last in out]


def _next(name: str) -> str:
    """The name whose last number is one more; "" without a number."""
    found = re.fullmatch(r"(.*?)(\d+)(\D*)", name)
    return f"{found[1]}{int(found[2]) + 1}{found[3]}" if found else ""


def _plannable(model: nn.Module) -> None:
    """Refuses a model of which no step can be traced."""
    if any(type(p).__name__ == "DTensor" or type(p.data).__name__ == "DTensor" for p in model.parameters()):
        raise PlanError(
            "the model is sharded by fully_shard, and a plan is made of the whole one: make it before, "
            "p = memopt.torch.plan(model, batch, budget=...), and give it in place of the budget"
        )


def _inner(optimizer: Any) -> Any:
    """The optimizer in one of accelerate."""
    return getattr(optimizer, "optimizer", optimizer)


def _without(prefix: str, plan: Plan) -> Plan:
    """A plan whose names do not begin with a prefix."""
    if not prefix:
        return plan
    raw = dict(plan.raw)
    raw["modules"] = [n.removeprefix(prefix) for n in raw["modules"]]
    for key in ("calls", "parameters"):
        raw[key] = {n.removeprefix(prefix): v for n, v in raw.get(key, {}).items()}
    return Plan.load(raw)


@contextlib.contextmanager
def muted(module: Any, *names: str) -> Iterator[None]:
    """Replaces methods of an object by empty ones."""
    for name in names:
        object.__setattr__(module, name, lambda *_, **__: None)
    try:
        yield
    finally:
        for name in names:
            object.__delattr__(module, name)

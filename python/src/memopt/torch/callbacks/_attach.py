"""A plan that is made, applied and measured at the first training step of a model."""

from __future__ import annotations

import atexit
import contextlib
import gc
import inspect
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import distributed, nn
from torch.autograd import Variable
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .._apply import Applied, apply, unwrapped
from .._measure import Meter
from .._plan import Plan, PlanError, size
from .._planner import byte_limit as limit
from .._planner import plan as plan_step
from .._state import tensors
from .._step import Inputs, Loss

# A budget, such as "60%", "12GiB" or a number of bytes, or a plan: a file, its contents, or a Plan.
What = str | int | os.PathLike[str] | Mapping[str, Any] | Plan

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
        self.measured_bytes: int | None = None
        self._budget: str | int | None = None
        self._loss, self._optimizer, self._planner = loss, optimizer, planner or plan_step
        self._accumulation = accumulation
        self._show = show if rank() == 0 else None
        self._meter: Meter | None = None
        self._begun = False
        self._hooks: list[Any] = []
        if isinstance(what, int) or (isinstance(what, str) and _BUDGET.fullmatch(what)):
            _plannable(self.model)
            self._budget = what
        else:
            self._apply(Plan.load(what))

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
            self._say(f"memopt: planned in {time.perf_counter() - begin:.1f} s for a budget of {self._budget}")
        assert self.plan is not None
        self._say(table(self.plan))
        gc.collect()
        meter = Meter("cuda" if _on_gpu(self.model) else "cpu")
        try:
            meter.start()
        except RuntimeError as e:  # another profiler runs in this thread
            self._say(f"memopt: the peak is not measured: {e}")
            return
        self._meter = meter
        atexit.register(self.end)  # a profiler that is running when the process ends lets it crash

    def mark(self) -> None:
        """Ends the step that begin has begun. The end of the backward half may call it."""
        if self._meter is not None:
            self._meter.mark()

    def end(self) -> None:
        """Says the measured peak of the step that mark has ended."""
        if self._meter is None or self.plan is None:
            return
        usage, self._meter = self._meter.stop(), None
        atexit.unregister(self.end)
        self.measured_bytes = usage.peak
        promised = self.plan.predicted_peak_bytes
        self._say(f"memopt: measured peak {size(usage.peak)}, promised {size(promised)} "
                  f"({100 * (usage.peak / max(promised, 1) - 1):+.1f} %)")

    def remove(self) -> None:
        """Takes the plan away."""
        self.end()
        for hook in self._hooks:
            hook.remove()
        if self.applied is not None:
            self.applied.remove()

    def _plan(self, model: nn.Module, batch: Inputs) -> Plan:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "config.use_cache is off")  # apply says it
            return self._planner(
                model, batch, budget=self._room(), loss=self._loss, optimizer=_inner(self._optimizer)
            )

    def _room(self) -> str | int | None:
        """The budget of one step: of bytes without the gradients that earlier steps have left."""
        budget = limit(self._budget)
        if self._accumulation < 2 or not isinstance(budget, int):
            return self._budget
        left = sum(p.numel() * p.element_size() for p in self.model.parameters() if p.requires_grad)
        if left >= budget:
            raise PlanError(f"the gradients of the steps before take {size(left)}, the budget is {size(budget)}")
        return budget - left

    def _apply(self, plan: Plan) -> None:
        self.applied = apply(self.model, plan, sizes="warn")
        self.plan = plan

    def _say(self, text: str) -> None:
        if self._show is not None:
            self._show(text)


def attach(
    model: nn.Module,
    what: What,
    *,
    loss: Loss = None,
    optimizer: Any = None,
    accumulation: int = 1,
    planner: Planner | None = None,
    show: Callable[[str], None] | None = print,
) -> Attached:
    """Plans a model at its first training step, in a loop of one's own or of accelerate.

        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        attach(model, "60%", optimizer=optimizer)

    The step begins with the first call of the model in training mode, and ends with its backward half.

    Args:
        model: the model as the loop calls it, or the one in a DistributedDataParallel. A model that is compiled or
            sharded (fully_shard) takes a plan that was made before: ``memopt.torch.plan(model, batch, budget=...)``.
        what: a budget or a plan, as in ``memopt.torch.plan`` and ``memopt.torch.apply``.
        loss: a function of the model's output; None if the model returns its loss.
        optimizer: its state counts in a budget of bytes.
        accumulation: how many steps add up gradients before an update. From 2 on, a budget of bytes has room for the
            gradients of the steps before.
        planner: makes the plan; None for ``memopt.torch.plan``.
        show: prints the table and the measured peak, on rank 0; None for silence.

    Raises:
        PlanError: the plan does not fit the model; at the first step, no plan fits the budget.
    """
    attached = Attached(
        model, what, loss=loss, optimizer=optimizer, accumulation=accumulation, planner=planner, show=show
    )
    hook_first_step(attached)
    return attached


def hook_first_step(attached: Attached) -> None:
    """Has the first call of the model in training mode begin the step, and its backward half end it."""
    hooks = attached._hooks

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not module.training or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return
        clear()  # the trace calls the model as well
        if args and kwargs:
            kwargs = {**_named(module, args), **kwargs}
            args = ()
        attached.begin(kwargs if kwargs else args)
        hooks.append(module.register_forward_hook(after, always_call=True))

    def after(module: nn.Module, _: Any, output: Any) -> None:
        clear()
        made = [t for t in tensors(output.to_tuple() if hasattr(output, "to_tuple") else output) if t.requires_grad]
        if not made:
            attached.end()
            return
        made[0].register_hook(backward)  # type: ignore[no-untyped-call]
        hooks.append(register_optimizer_step_pre_hook(behind))
        hooks.append(module.register_forward_pre_hook(behind))

    def backward(_: torch.Tensor) -> None:
        # The engine calls it at the end of the backward half that is running. There a profiler cannot be stopped: the
        # engine restores the thread's own mode.
        Variable._execution_engine.queue_callback(attached.mark)

    def behind(*_: Any) -> None:
        clear()
        attached.end()

    def clear() -> None:
        while hooks:
            hooks.pop().remove()

    hooks.append(attached.model.register_forward_pre_hook(begin, with_kwargs=True))


def _named(module: nn.Module, args: tuple[Any, ...]) -> dict[str, Any]:
    """Positional arguments under the names of the forward function's parameters."""
    return dict(inspect.signature(module.forward).bind_partial(*args).arguments)


def agreed(make: Callable[[], Plan]) -> Plan:
    """The plan that rank 0 makes. Where it cannot be made, every rank fails."""
    if not _distributed():
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


def rank() -> int:
    """The rank of this process, 0 where there is one."""
    return distributed.get_rank() if _distributed() else 0


def _distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


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


def _on_gpu(model: nn.Module) -> bool:
    return any(p.is_cuda for p in model.parameters())


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

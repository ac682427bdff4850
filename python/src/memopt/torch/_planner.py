"""From a model and a batch to a plan, in one call."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, overload

import torch
from torch import nn

import memopt

from ._apply import apply, unwrapped, without_caches
from ._operators import OperatorPlan
from ._optimizer import OptimizerMemory, optimizer_memory
from ._plan import Plan, PlanError, size
from ._step import Inputs, Loss
from ._trace import Trace, gpu_of, trace
from ._workspace import Workspaces, not_known

# A plan whose traced peak is above its budget is planned again for less, at most so many times.
_ROUNDS = 4


class BudgetError(PlanError):
    """No plan fits the budget.

    Attributes:
        lowest_bytes: the lowest peak that was found, as the budget counts it.
    """

    def __init__(self, message: str, lowest_bytes: int) -> None:
        super().__init__(message)
        self.lowest_bytes = lowest_bytes


@overload
def plan(
    model: nn.Module,
    batch: Inputs,
    *,
    budget: str | int | None = ...,
    select: Literal["modules"] = ...,
    device: str | None = ...,
    backend: str = ...,
    loss: Loss = ...,
    labels: Any = ...,
    optimizer: torch.optim.Optimizer | None = ...,
    autocast: torch.dtype | None = ...,
    time_limit: float | None = ...,
) -> Plan: ...


@overload
def plan(
    model: nn.Module,
    batch: Inputs,
    *,
    budget: str | int | None = ...,
    select: Literal["operators"],
    device: str | None = ...,
    backend: str = ...,
    loss: Loss = ...,
    labels: Any = ...,
    optimizer: torch.optim.Optimizer | None = ...,
    autocast: torch.dtype | None = ...,
    time_limit: float | None = ...,
) -> OperatorPlan: ...


def plan(
    model: nn.Module,
    batch: Inputs,
    *,
    budget: str | int | None = None,
    select: str = "modules",
    device: str | None = None,
    backend: str = "inductor",
    loss: Loss = None,
    labels: Any = None,
    optimizer: torch.optim.Optimizer | None = None,
    autocast: torch.dtype | None = None,
    time_limit: float | None = None,
) -> Plan | OperatorPlan:
    """Chooses which modules run again in the backward half, so that a training step fits a budget at the least cost.

        p = memopt.torch.plan(model, batch, budget="60%")
        memopt.torch.apply(model, p)

    The step is traced on fake tensors, which takes neither its memory nor its time, and the chosen plan is traced once
    more: ``predicted_peak_bytes`` is the peak of PyTorch's allocator in that step.

    Args:
        model: in the mode in which it is trained. It stays as it is.
        batch: a tensor, a sequence of tensors, or keyword arguments.
        budget: a size such as ``"12GiB"`` or bytes, which bounds parameters, buffers, inputs, the state of the
            optimizer and the step together; or a share such as ``"60%"`` of the step's own bytes without a plan. None:
            no module runs again, and the plan states the peak of the step.
        select: "modules", which run again in the backward half, or "operators", whose schedule
            ``memopt.torch.compile(model, plan=…)`` compiles.
        device: the device that the plan is for, which need not be there, such as "H100" (``memopt devices`` lists
            them). None: the model's own.
        backend: of a plan of operators, that of ``memopt.torch.compile``.
        loss: a function of the model's output and the labels; None if the output is the loss, has it as ``loss``, or
            has it first.
        labels: a tensor or several, inputs of the loss.
        optimizer: the one that trains the model; its state counts in a size. None: no state counts.
        autocast: the type of ``torch.autocast`` around the forward half; None for the mode that is on.
        time_limit: seconds of the search, without the traces; None: 10, and for operators a millisecond for each.

    Raises:
        BudgetError: no choice of modules fits the budget.
        TraceError: the step cannot be traced.
    """
    if select == "operators":
        from ._compile._ask import ask  # PyTorch's compiler takes seconds to load

        return ask(
            model,
            batch,
            budget=budget,
            loss=loss,
            labels=labels,
            optimizer=optimizer,
            autocast=autocast,
            time_limit=time_limit,
            device=device,
            backend=backend,
        )
    if select != "modules":
        raise ValueError(f"select={select!r}: wanted 'modules' or 'operators'")
    limit, search = byte_limit(budget), seconds(time_limit) or 10.0
    target = unwrapped(model)
    if limit is not None and not target.training:
        raise PlanError("the model is in evaluation mode, and no plan takes its modules: call model.train() before")
    step = _Steps(target, batch, loss, labels, autocast, device)
    base = step.trace(None)
    _warn(base)
    memory = optimizer_memory(target, optimizer, gpu_of(target, device)) if optimizer is not None else None
    return _fitting(step, base, memory, limit, search)


def _warn(base: Trace) -> None:
    """Says of which kernels the promise leaves out the memory."""
    if base.unmeasured == ["all"]:
        why = f"kernels of the {base.device} cannot be run for this model: their memory beside their results"
        warnings.warn(f"{why} is not known and counts as 0", stacklevel=3)
    elif base.unmeasured:
        warnings.warn(not_known(base.unmeasured), stacklevel=3)


class _Steps:
    """A training step that is traced with plans and without."""

    def __init__(
        self,
        model: nn.Module,
        batch: Inputs,
        loss: Loss,
        labels: Any,
        autocast: torch.dtype | None,
        device: str | None,
    ) -> None:
        self.model, self.batch, self.loss, self.labels, self.autocast = model, batch, loss, labels, autocast
        self.device = device
        self.workspaces = Workspaces()

    def trace(self, plan: Plan | None) -> Trace:
        @contextmanager
        def prepared(model: nn.Module) -> Iterator[None]:
            undo: AbstractContextManager[Any]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # apply will say to the user which caches it switches off
                undo = _without_plan(model) if plan is None else apply(model, plan)
            with undo:
                yield

        with warnings.catch_warnings():
            if plan is not None:
                warnings.simplefilter("ignore")  # the trace without a plan has said it
            return self._trace(prepared, watch=plan is None)

    def _trace(self, prepared: Any, *, watch: bool) -> Trace:
        return trace(
            self.model,
            self.batch,
            loss=self.loss,
            labels=self.labels,
            autocast=self.autocast,
            workspaces=self.workspaces,
            prepared=prepared,
            watch=watch,
            device=self.device,
        )


@contextmanager
def _without_plan(model: nn.Module) -> Iterator[None]:
    """Caches of keys and values are off without a plan as they are under one."""
    configs = without_caches(model)
    try:
        yield
    finally:
        for c in configs:
            c.use_cache = True


# A size, or a share in percent.
_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|([KMGT])(i?)B?|B)?", re.IGNORECASE | re.ASCII)
_MOST_BYTES = 1 << 63


def byte_limit(budget: str | int | None) -> str | int | None:
    """The budget as a share in text, as bytes, or None.

    Raises:
        ValueError: it is neither a size nor a share, or not positive, or too large.
    """
    if budget is None:
        return None
    text = str(budget).strip() if isinstance(budget, (str, int)) and not isinstance(budget, bool) else ""
    if found := _BUDGET.fullmatch(text):
        number, unit, binary = found.groups()
        size = float(number) * (1024 if binary else 1000) ** (" KMGT".index(unit.upper()) if unit else 0)
        if text.endswith("%") and 0 < size < _MOST_BYTES:
            return text
        if 1 <= size < _MOST_BYTES:
            return budget if isinstance(budget, int) else int(size)
    raise ValueError(
        f"budget={repr(budget)[:80]}: wanted a size such as '12GiB' or a number of bytes, or a share such as '60%', "
        f"above 0 and below {_MOST_BYTES} bytes"
    )


# The seconds that the program takes as a time limit.
_SHORTEST, _LONGEST = 0.001, 1e6


def seconds(time_limit: float | None) -> float | None:
    """The time limit.

    Raises:
        ValueError: it is no positive number of seconds.
    """
    number = isinstance(time_limit, (int, float)) and not isinstance(time_limit, bool)
    if time_limit is not None and not (number and 0 < time_limit < math.inf):
        raise ValueError(f"time_limit={time_limit!r}: wanted seconds above 0, or None")
    return None if time_limit is None else min(max(time_limit, _SHORTEST), _LONGEST)


def _fitting(
    step: _Steps, base: Trace, memory: OptimizerMemory | None, limit: str | int | None, time_limit: float
) -> Plan:
    """The plan whose traced peak is within the limit."""
    text = base.to_json()
    most = _most(base, memory, limit)
    if most is None:
        raw = _planned(text, None, time_limit, 0)
        return _finished(raw, base, step.trace(Plan.load(raw)), memory)
    state, update = _state(memory), _update(base, memory)
    if update > most:
        raise BudgetError(_unfit(most + state, update + state, "the optimizer's update alone takes"), update + state)
    aim, lowest = most, 0
    for _ in range(_ROUNDS):
        raw = _planned(text, aim, time_limit, most - aim + state)
        with_plan = step.trace(Plan.load(raw))
        peak = base.held_bytes + with_plan.peak_bytes
        lowest = min(lowest or peak, peak)
        if peak <= most:
            return _finished(raw, base, with_plan, memory)
        aim -= peak - most
        if aim <= base.held_bytes:
            break
    raise BudgetError(_unfit(most + state, lowest + state), lowest + state)


def _state(memory: OptimizerMemory | None) -> int:
    return memory.state_bytes if memory is not None else 0


def _update(base: Trace, memory: OptimizerMemory | None) -> int:
    """The bytes that are there while the optimizer updates the parameters, without its state."""
    if memory is None:
        return 0
    return base.held_bytes + sum(s.bytes for s in base.storages if s.kept) + memory.step_bytes


def _unfit(limit: int, lowest: int, why: str = "the lowest peak that was found is") -> str:
    return (
        f"no choice of modules fits: {why} {size(lowest)} ({lowest} bytes), the budget is {size(limit)} ({limit}); "
        "allow more, or make the batch smaller"
    )


def _most(base: Trace, memory: OptimizerMemory | None, limit: str | int | None) -> int | None:
    """The most bytes that held tensors and the step may take together, the optimizer's state not
    counted."""
    if limit is None:
        return None
    if isinstance(limit, str):
        return base.held_bytes + int(float(limit[:-1]) / 100 * base.peak_bytes)
    return limit - _state(memory)


def _planned(step: str, most: int | None, time_limit: float, beside: int) -> dict[str, Any]:
    """Runs the search for a traced step; the plan file's contents. beside is the bytes of the budget that most leaves
    out."""
    arguments = ["plan", "-", "--select", "modules", "--save-plan", "-", "--time-limit", f"{time_limit}s"]
    if most is not None:
        arguments += ["--budget", f"{max(most, 1)}B"]
    try:
        answer = memopt.run(*arguments, "-O", "json", stdin=step, variables=False)
    except memopt.Error as e:
        if e.code != 3:
            raise PlanError(f"memopt plan: {e}") from e
        lowest = int(json.loads(e.output)["peak_bytes"])
        raise BudgetError(_unfit((most or 0) + beside, lowest + beside), lowest + beside) from None
    raw: dict[str, Any] = json.JSONDecoder().raw_decode(answer)[0]  # the report is behind it
    return raw


def _finished(raw: dict[str, Any], base: Trace, with_plan: Trace, memory: OptimizerMemory | None) -> Plan:
    """The plan with the peaks of the traced steps."""
    held = base.held_bytes
    raw.update(
        peak_bytes=held + with_plan.peak_bytes,
        baseline_peak_bytes=held + base.peak_bytes,
        optimizer_state_bytes=_state(memory),
        predicted_total_bytes=_state(memory) + max(held + with_plan.peak_bytes, _update(base, memory)),
    )
    return Plan.load(raw)

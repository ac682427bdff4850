"""A budget of a compiled model in a training loop."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .._operators import OperatorPlan
from .._plan import OPERATORS, PlanError, size
from .._planner import byte_limit
from ._meter import StepMeter

if TYPE_CHECKING:
    from .._compile import Compiled
    from .._compile._backend import Backend


class CompiledStep:
    """A budget, or a plan of operators, of a compiled model in a training loop: a backend of torch.compile.

    The first step compiles. The first one behind it for which no graph is compiled is measured.

    drops says that the loop drops the model's results, but the loss, before the backward half; passed are the backend,
    the mode, the options and dynamic of torch.compile.

    Attributes:
        pending: no step has been measured yet.
        promised_bytes: the predicted peak of the step that was measured: after it, graphs of other sizes may have been
            compiled; 0 before.
        hooks: those by which the step is followed.
    """

    def __init__(
        self,
        what: str | int | OperatorPlan,
        *,
        drops: bool = False,
        show: Callable[[str], None] | None = print,
        **passed: Any,
    ) -> None:
        self._what, self._drops, self._passed = what, drops, passed
        self._meter = StepMeter(show, self._promised)
        self._chosen: Backend | None = None
        self._model: nn.Module | None = None
        self._said = False
        self.promised_bytes = 0
        self.hooks: list[Any] = []

    @property
    def promise(self) -> Compiled | None:
        """The promise of the step, as ``memopt.torch.compile`` gives it; None before training begins."""
        return self._chosen.promise if self._chosen is not None else None

    @property
    def measured_bytes(self) -> int | None:
        """The measured peak of a step beyond what was there before it; None where none was measured."""
        return self._meter.peak

    def _promised(self) -> int:
        assert self._chosen is not None
        self.promised_bytes = self._chosen.promised_bytes()
        return self.promised_bytes

    @property
    def pending(self) -> bool:
        return self._meter.peak is None

    def prepare(self, model: nn.Module, optimizer: Any, accumulation: int) -> None:
        """Is told of the model and of its optimizer, before the first step."""
        self._model = model
        if self._chosen is None:
            self._chosen = self._choose(model, getattr(optimizer, "optimizer", optimizer), accumulation)

    def _choose(self, model: nn.Module | None, optimizer: Any, accumulation: int) -> Backend:
        from .._compile import chosen_backend

        budget: str | int | None = None
        plan = self._what if isinstance(self._what, OperatorPlan) else None
        if not isinstance(self._what, OperatorPlan):
            budget = room(self._what, model, accumulation) if model is not None else self._what
        name = self._passed["backend"]
        passed = {k: self._passed.get(k) for k in ("mode", "options", "dynamic")}
        chosen = chosen_backend(model, budget, plan, name, optimizer, None, passed)
        chosen.drops = self._drops and plan is None  # a plan has its own graph
        chosen.compiling = self._meter.drop  # type: ignore[method-assign]
        return chosen

    def __call__(self, gm: Any, inputs: Any, **kwargs: Any) -> Any:
        """Compiles a graph."""
        self._meter.drop()  # compiling measures kernels, which takes a profiler and memory of its own
        chosen = self._chosen or self._choose(None, None, 1)
        compiled = chosen(gm, inputs, **kwargs)
        return self._noted(compiled, _sizes(inputs)) if torch.is_grad_enabled() else compiled

    def _noted(self, compiled: Callable[..., Any], sizes: list[list[int]]) -> Callable[..., Any]:
        """Measures no step whose sizes are others than those that were compiled, as the promise is for those."""

        def run(*args: Any) -> Any:
            if self._meter.running and _sizes(args) != sizes:
                self._meter.drop()
            return compiled(*args)

        return torch._dynamo.disable(run)  # type: ignore[no-untyped-call, no-any-return]

    def begin(self, *_: Any) -> None:
        """Begins a step."""
        if self.promise and self._model is not None and self.pending and not self._meter.running:
            self._meter.start(self._model)

    def mark(self) -> None:
        """Ends the step that begin has begun."""
        self._meter.mark()

    def end(self) -> None:
        """Says the promise of the step, where it is the first, or the measured peak."""
        if self.promise and not self._said:
            self._said = True
            self._meter.say(f"memopt: {self.promise}")
        self._meter.stop()

    def remove(self) -> None:
        """Stops following the model, which stays compiled as it is."""
        self.end()
        for hook in self.hooks:
            hook.remove()


def _sizes(inputs: Any) -> list[list[int]]:
    """The sizes of tensors; symbolic ones as in the example that was traced."""
    from .._compile._cost import hint

    return [[hint(d) for d in t.shape] for t in inputs if isinstance(t, torch.Tensor)]


def room(budget: str | int | None, model: nn.Module, accumulation: int) -> str | int | None:
    """The budget of one of several steps that add gradients up: of bytes without those that earlier steps have left."""
    most = byte_limit(budget)
    if accumulation < 2 or not isinstance(most, int):
        return budget
    left = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    if left >= most:
        raise PlanError(f"the gradients of the steps before take {size(left)}, the budget is {size(most)}")
    return most - left


def operators(what: Any) -> OperatorPlan | None:
    """The plan of operators that is given, itself, as a file or as its contents; None for a plan of modules."""
    if isinstance(what, OperatorPlan):
        return what
    raw = what
    if isinstance(what, (str, os.PathLike)):
        with open(what, encoding="utf-8") as f, contextlib.suppress(ValueError):  # which Plan.load reports
            raw = json.load(f)
    return OperatorPlan.load(what) if isinstance(raw, Mapping) and raw.get("format") == OPERATORS else None


def compiled_module(model: nn.Module) -> Any:
    """The module that torch.compile has wrapped: the model, or the only one in it; None where there is none.

    Raises:
        PlanError: there are several, which would each have the whole budget.
    """
    found = {name: m for name, m in model.named_modules() if hasattr(m, "dynamo_ctx") and hasattr(m, "_orig_mod")}
    if len(found) > 1:
        raise PlanError(
            f"the modules {', '.join(map(repr, found))} are compiled each by itself, and a budget is of one: compile "
            "the whole model"
        )
    return next(iter(found.values()), None)

"""torch.compile within a budget."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import torch

from ._versions import require

require(torch.__version__)  # before the others, which are of the versions that it knows

from .._device import named  # noqa: E402
from .._operators import OperatorPlan  # noqa: E402
from .._optimizer import optimizer_memory  # noqa: E402
from .._planner import byte_limit, seconds  # noqa: E402
from ._backend import BACKENDS, Backend  # noqa: E402
from ._compiled import Compiled, Graph  # noqa: E402

__all__ = ["Compiled", "Graph", "budget", "compile"]


def compile(
    model: Any = None,
    *,
    budget: str | int | None = None,
    plan: OperatorPlan | str | os.PathLike[str] | None = None,
    backend: str = "inductor",
    optimizer: torch.optim.Optimizer | None = None,
    time_limit: float | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compiles a model as ``torch.compile`` does, where memopt chooses the values that are kept for the backward half.

        model = memopt.torch.compile(model, budget="12GiB")
        model(**batch).loss.backward()
        print(model.memopt)  # the predicted peak, the overhead, and the least that any plan has

    The joint graph of forward and backward is scheduled within the budget, with values computed again where that
    costs least, and both halves are compiled in the order of the schedule.

    Args:
        model: a module or a function; None to use the result as a decorator.
        budget: as in ``memopt.torch.plan``: a size such as ``"12GiB"`` bounds parameters, buffers, inputs, the
            optimizer's state and the step together; a share such as ``"60%"`` bounds the step's own bytes, of those
            without recomputation. None: no node is recomputed.
        plan: in place of a budget, a plan of ``memopt.torch.plan(model, batch, select="operators")``, or its file.
        backend: "inductor", or "aot_eager", which runs the operators of PyTorch one by one.
        optimizer: the one that trains the model; its state counts in a size.
        time_limit: seconds of the search; None: planning takes a millisecond for each node, at least half a second.
        fullgraph, dynamic, mode, options, disable: those of ``torch.compile``.

    Returns:
        The result of ``torch.compile``, with the attribute ``memopt`` (``Compiled``). Copies of a compiled module
        (``copy.deepcopy``, ``torch.save``) keep its budget and plan for themselves; they lack that attribute.

    Raises:
        BudgetError: no schedule of the step fits: when the first step is compiled, or when the second begins, of a step
            of several graphs and of a budget that is a share.
        PlanError: the plan is for another model, batch, backend or device; as a rule when the first step is compiled.
    """
    if model is None:
        return lambda f: compile(
            f,
            budget=budget,
            plan=plan,
            backend=backend,
            optimizer=optimizer,
            time_limit=time_limit,
            fullgraph=fullgraph,
            dynamic=dynamic,
            mode=mode,
            options=options,
            disable=disable,
        )
    passed = {"mode": mode, "options": options, "dynamic": dynamic}
    chosen = chosen_backend(model, budget, plan, backend, optimizer, time_limit, passed)
    compiled = _compile(model, backend=chosen, fullgraph=fullgraph, dynamic=dynamic, disable=disable)
    # A compiled module hands attributes to the model that it wraps, which stays as it is.
    object.__setattr__(compiled, "memopt", chosen.promise)
    return compiled


def chosen_backend(
    model: Any,
    budget: str | int | None,
    plan: OperatorPlan | str | os.PathLike[str] | None,
    backend: str,
    optimizer: torch.optim.Optimizer | None,
    time_limit: float | None,
    passed: dict[str, Any],
) -> Backend:
    """The backend of torch.compile for a model within a budget or by a plan; passed are mode, options and dynamic."""
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r}: wanted {' or '.join(map(repr, BACKENDS))}")
    if backend != "inductor" and (passed["mode"] or passed["options"]):
        raise ValueError(f"mode and options are of the backend inductor, backend is {backend!r}")
    if plan is not None and budget is not None:
        raise ValueError("a plan stands in place of a budget: wanted one of them")
    if optimizer is not None and not hasattr(optimizer, "param_groups"):
        raise TypeError(f"optimizer={optimizer!r}: wanted an optimizer of torch.optim, or None")
    made = OperatorPlan.load(plan) if plan is not None else None
    profile = named(made.profile) if made is not None and made.profile else None
    limit = byte_limit(budget)
    state = optimizer_memory(model, optimizer).state_bytes if optimizer is not None else 0
    return Backend(model, limit, backend, passed, state, seconds(time_limit), profile, made)


_compile = torch.compile
_lock = threading.RLock()


@contextlib.contextmanager
def budget(limit: str | int, **options: Any) -> Iterator[None]:
    """Within the block, ``torch.compile`` is ``memopt.torch.compile`` with this budget.

        with memopt.torch.budget("12GiB"):
            trainer = Trainer(model, TrainingArguments(torch_compile=True))
            trainer.train()

    Backends other than inductor and aot_eager stay as they are. ``options`` are optimizer and time_limit.
    """
    byte_limit(limit)

    def compiled(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs.get("backend", "inductor") not in BACKENDS:
            return _compile(model, *args, **kwargs)
        if model is None:
            return lambda f: compiled(f, **kwargs)
        return compile(model, budget=limit, **options, **kwargs)

    with _lock:
        before = torch.compile
        torch.compile = compiled
    try:
        yield
    finally:
        with _lock:
            torch.compile = before

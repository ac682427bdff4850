"""Modules of a plan under torch.utils.checkpoint."""

from __future__ import annotations

import contextlib
import os
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from ._plan import Plan, PlanError
from ._state import tensors

_MARK = "_memopt_checkpointed"


class Applied:
    """A plan that is applied to a model. ``remove`` undoes it; so does the end of a ``with`` block."""

    def __init__(self, model: nn.Module, plan: Plan, wrapped: list[_Wrapped], begin: _Begin, hook: Any,
                 caches: list[Any]) -> None:
        self.model, self.plan = model, plan
        self._wrapped, self._begin, self._hook, self._caches = wrapped, begin, hook, caches

    @property
    def modules(self) -> tuple[str, ...]:
        """The names of the modules under checkpoints."""
        return tuple(w.name for w in self._wrapped)

    def begin(self, *args: Any, **kwargs: Any) -> None:
        """Begins a step. Calls of the model begin one by themselves: it is for steps that call parts of the model.

        Args:
            args, kwargs: the inputs of the step, whose sizes are checked.
        """
        self._begin(self.model, args, kwargs)

    def remove(self) -> None:
        """Leaves the model as it was before apply; a second call does nothing."""
        for w in self._wrapped:
            w.remove()
        for config in self._caches:
            config.use_cache = True
        self._wrapped, self._caches = [], []
        self._hook.remove()

    def __enter__(self) -> Applied:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def apply(
    model: nn.Module,
    plan: Plan | str | os.PathLike[str] | Mapping[str, Any],
    *,
    sizes: str = "check",
    hooks: str = "refuse",
) -> Applied:
    """Puts the modules of a plan under ``torch.utils.checkpoint``.

    The modules' ``forward`` is replaced; names, parameters, ``state_dict`` and the modules' own hooks stay as
    they are. While gradients are off nothing is run again. Running statistics of batch norms move once. A copy
    of the model (``copy.deepcopy``, averages of weights) is under the plan as well, with weights of its own.
    Caches of keys and values of transformers' models (``config.use_cache``), which a second run would
    extend again, are switched off, with a warning, until the plan is removed.

    Args:
        model: the model that was exported, in training mode; of a DistributedDataParallel the model in it.
        plan: a file of ``memopt plan --select modules --save-plan``, or its contents.
        sizes: "check" refuses inputs of a module that are larger than those that were planned, as far as the
            plan tells; "warn" takes them and says it once; "ignore" takes them.
        hooks: "refuse" modules that have others with hooks in them, which would run again in the backward
            half; "allow" takes them.

    Raises:
        PlanError: the plan is of another model, or a module cannot be run again; the model is as it was.
    """
    for what, got, wanted in (("sizes", sizes, ("check", "warn", "ignore")), ("hooks", hooks, ("refuse", "allow"))):
        if got not in wanted:
            raise ValueError(f"{what}={got!r}: wanted {', '.join(map(repr, wanted))}")
    plan = Plan.load(plan)
    target = unwrapped(model)
    _compare(target, plan)
    _nested(plan)
    found = [(name, _module(target, plan, name)) for name in plan.modules]
    for name, module in found:
        _usable(target, plan, name, module, hooks)
    wrapped = [_Wrapped(name, module, plan) for name, module in found]
    limit = max((_elements(shape) for _, shape in plan.inputs), default=0) if sizes != "ignore" else 0

    begin = _Begin(plan, wrapped, limit, sizes == "warn")
    hook = target.register_forward_pre_hook(begin, with_kwargs=True)
    for w in wrapped:
        w.wrap()
    return Applied(model, plan, wrapped, begin, hook, without_caches(target) if wrapped else [])


def without_caches(model: nn.Module) -> list[Any]:
    """Switches off the caches of transformers' models; the configurations that had them on."""
    found: dict[int, Any] = {id(c): c for c in (getattr(m, "config", None) for m in model.modules())}
    caches = [c for c in found.values() if getattr(c, "use_cache", None) is True]
    for config in caches:
        config.use_cache = False
    if caches:
        warnings.warn("config.use_cache is off under the plan: training needs no cache of keys and values, which "
                      "modules that run again would extend a second time", stacklevel=3)
    return caches


class _Begin:
    """The hook at the start of a step. A copy of the model gets a copy of it, and of what it refers to."""

    def __init__(self, plan: Plan, wrapped: list[_Wrapped], limit: int, warn: bool) -> None:
        self.plan, self.wrapped, self.limit, self.warn = plan, wrapped, limit, warn

    def __call__(self, _: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if torch.compiler.is_compiling():
            return
        for w in self.wrapped:
            w.count = 0
        if self.limit and (large := _larger(self.plan, (args, dict(kwargs)), self.limit)):
            if not self.warn:
                raise PlanError(f"{large}; plan for these sizes, or apply with sizes=\"ignore\"")
            warnings.warn(large, stacklevel=2)
            self.limit = 0
        if self.wrapped and kwargs.get("use_cache") and torch.is_grad_enabled():
            raise PlanError(
                f"{self.plan.path}: the model is called with use_cache=True, and modules that run again would extend "
                "the cache a second time; leave use_cache out"
            )


def _elements(shape: tuple[int, ...]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


def _larger(plan: Plan, args: tuple[Any, ...], limit: int) -> str:
    """A sentence on an input that is larger than all that were planned; "" where there is none."""
    for t in tensors(args):
        if t.numel() > limit:
            return (
                f"{plan.path}: an input of the model is {tuple(t.shape)}, the plan was made for inputs "
                f"{', '.join(f'{name} {shape}' for name, shape in plan.inputs)}: the peak would be higher than promised"
            )
    return ""


def unwrapped(model: nn.Module) -> nn.Module:
    """The model in a DistributedDataParallel. What copies or shards modules is refused."""
    kind = type(model).__name__
    if kind == "DistributedDataParallel":
        return model.module  # type: ignore[return-value]
    if kind in ("DataParallel", "FullyShardedDataParallel", "OptimizedModule"):
        raise PlanError(
            f"the model is a {kind}, which copies or compiles the modules in it: apply the plan to the model before "
            "it is wrapped"
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise PlanError("the model is a ScriptModule, whose modules cannot be replaced: apply the plan to the "
                        "model that it was made of")
    return model


def _compare(model: nn.Module, plan: Plan) -> None:
    """Finds out whether the plan was made for a model with these parameters."""
    have: dict[str, nn.Parameter] = dict(model.named_parameters())
    for name, shape in plan.parameters.items():
        p = have.get(name)
        if p is None:
            p = _shared(model, name)
        if p is None:
            raise PlanError(
                f"{plan.path}: the plan was made for a model with a parameter {name}, which this one does not have; "
                "export this model and plan it"
            )
        if tuple(p.shape) != tuple(shape):
            raise PlanError(
                f"{plan.path}: the plan was made for a model whose parameter {name} is {tuple(shape)}, here it is "
                f"{tuple(p.shape)}; export this model and plan it"
            )
        if not p.requires_grad:
            raise PlanError(
                f"{plan.path}: the plan was made for a model that trains {name}, which is frozen here "
                "(requires_grad is False); export the model as it is trained and plan it"
            )


def _shared(model: nn.Module, name: str) -> Any:
    """A parameter under the second of its names, which named_parameters leaves out."""
    owner, _, last = name.rpartition(".")
    try:
        return model.get_submodule(owner)._parameters.get(last)
    except AttributeError:
        return None


def _nested(plan: Plan) -> None:
    """Refuses a plan of nested modules whose peak was told for a torch before 2.1, where a checkpoint in another one
    keeps its own inputs."""
    version = plan.torch.split(".")[:2]
    if not plan.nested or len(version) < 2 or not all(v.isdigit() for v in version):
        return
    if tuple(map(int, version)) < (2, 1):
        raise PlanError(
            f"{plan.path}: has modules in modules, planned for torch {plan.torch}; this is torch {torch.__version__}, "
            "where checkpoints in checkpoints take other memory (from 2.1 on they do); export and plan with this torch"
        )


def _module(model: nn.Module, plan: Plan, name: str) -> nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError:
        close = [n for n, _ in model.named_modules() if n and n.rpartition(".")[2] == name.rpartition(".")[2]]
        hint = f" (it has {', '.join(close[:3])})" if close else ""
        raise PlanError(
            f"{plan.path}: names the module {name!r}, which the model does not have{hint}; apply the plan to the "
            "model that was exported"
        ) from None


def _usable(model: nn.Module, plan: Plan, name: str, module: nn.Module, hooks: str) -> None:
    def refuse(why: str) -> None:
        raise PlanError(f"{plan.path}: module {name!r} ({type(module).__name__}) {why}")

    if isinstance(module, torch.jit.ScriptModule):
        refuse("is a ScriptModule, which cannot be put under a checkpoint; apply the plan to the model before "
               "torch.jit")
    if not module.training:
        refuse("is in evaluation mode, the plan is for training: call model.train() before, or plan the model as it is")
    if getattr(module, _MARK, None) is not None:
        refuse("is under a checkpoint of another plan already; remove that one first")
    names = [n for n, m in model.named_modules(remove_duplicate=False) if m is module]
    if len(names) > 1:
        refuse(f"is in the model under several names ({', '.join(names)}); plan other modules")
    if hooks == "refuse":
        for inner_name, inner in module.named_modules():
            if inner is not module and _hooked(inner):
                refuse(f"has hooks in {name}.{inner_name}, which would run again in the backward half; remove them, "
                       "or apply with hooks=\"allow\"")


def _hooked(module: nn.Module) -> bool:
    """Whether a module has hooks but those of fully_shard, which may run again."""
    lists = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    hooks = [h for x in lists for h in getattr(module, x, {}).values()]
    return any("torch.distributed.fsdp" not in (getattr(h, "__module__", None) or "") for h in hooks)


# Of a thread: how many checkpoints are running again.
_running = threading.local()


def _forward(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The forward of a module under a checkpoint. It finds what belongs to the module by the module, so that a
    copy computes with its own weights."""
    return module.__dict__[_MARK].run(*args, **kwargs)


class _Wrapped:
    """A module whose forward runs under a checkpoint."""

    def __init__(self, name: str, module: nn.Module, plan: Plan) -> None:
        self.name, self.module, self.plan = name, module, plan
        self.count = 0
        self.own = module.__dict__.get("forward")  # set on the instance before
        self.forward: Callable[..., Any] = module.forward
        self.norms = [m for m in module.modules() if isinstance(m, _BatchNorm)]

    def wrap(self) -> None:
        self.module.__dict__["forward"] = types.MethodType(_forward, self.module)
        self.module.__dict__[_MARK] = self

    def remove(self) -> None:
        if self.own is None:
            self.module.__dict__.pop("forward", None)
        else:
            self.module.__dict__["forward"] = self.own
        self.module.__dict__.pop(_MARK, None)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self.forward(*args, **kwargs)
        rng = self.plan.preserve_rng_state
        if torch.compiler.is_compiling() and not self.norms:
            return checkpoint(self.forward, *args, use_reentrant=False, preserve_rng_state=rng, **kwargs)
        if not getattr(_running, "again", 0):
            self.count += 1
        if self.count > self.plan.calls.get(self.name, 1):
            raise PlanError(
                f"{self.plan.path}: module {self.name!r} is called {self.count} times in a step, the plan counts "
                f"{self.plan.calls.get(self.name, 1)}; plan the model as it runs"
            )
        before = [(t, t._version) for t in tensors((args, kwargs))]
        runs = [0]

        def again(*a: Any, **k: Any) -> Any:
            runs[0] += 1
            if runs[0] == 1:
                return self.forward(*a, **k)
            _running.again = getattr(_running, "again", 0) + 1
            try:
                with _still(self.norms):
                    return self.forward(*a, **k)
            finally:
                _running.again -= 1

        out = checkpoint(again, *args, use_reentrant=False, preserve_rng_state=rng, **kwargs)
        for t, version in before:
            if t._version != version:
                raise PlanError(
                    f"{self.plan.path}: module {self.name!r} changes its input in place, so it cannot be run again "
                    "from it; leave the first operation out of place (inplace=False), or plan other modules"
                )
        return out


@contextlib.contextmanager
def _still(norms: list[_BatchNorm]) -> Iterator[None]:
    """Keeps running statistics where they are: the first run has moved them. What is normalised stays the same,
    and so does what autograd saves."""
    before = [(m, m.momentum, None if m.num_batches_tracked is None else m.num_batches_tracked.clone()) for m in norms]
    for m in norms:
        m.momentum = 0.0
    try:
        yield
    finally:
        with torch.no_grad():
            for m, momentum, batches in before:
                m.momentum = momentum
                if m.num_batches_tracked is not None and batches is not None:
                    m.num_batches_tracked.copy_(batches)

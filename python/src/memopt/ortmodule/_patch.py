"""Puts the rewritten graph into ORTModule, and measures the first step.

ORTModule's public hook, register_graph_optimizer, is called with the gradient graph alone: it knows neither the batch's
sizes nor the options of the session, and the session still fuses nodes of that graph. So two methods of its training
manager are wrapped: the one that sees the batch, and the one that makes the session.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ._find import ORTModuleError, find
from ._measure import Meter
from ._memory import MemoryFile
from ._plan import Planned, Settings, planned
from ._table import table

_OWN = ("ORTMODULE_MEMORY_OPT_LEVEL", "ORTMODULE_MEMORY_OPT_CONFIG")
_SHAPES = "_memopt_shapes"
_BACKWARD = "__backwardpass"  # ORTModule's mark of backward nodes; PRIORITY_BASED puts the nodes without it first


def install() -> None:
    """Wraps ORTModule's training manager, once. Importing memopt.ortmodule does it.

    Raises:
        ImportError: ORTModule is not there, or of a version that is not known.
    """
    manager = find()
    if hasattr(manager._create_execution_agent, "_memopt"):
        return
    manager._detect_from_inputs = _seen(manager._detect_from_inputs)
    manager._create_execution_agent = _made(manager._create_execution_agent)


def _seen(detect: Callable[..., Any]) -> Callable[..., Any]:
    """Notes the shapes of the batch for which a graph is built."""

    @functools.wraps(detect)
    def wrapper(self: Any, inputs: Any, kwargs: Any) -> Any:
        done = detect(self, inputs, kwargs)
        exported = self._graph_transition_manager._post_export_processed_model_info
        tensors = exported.construct_inputs(inputs, kwargs, True, self._device)
        setattr(self, _SHAPES, {k: tuple(v.shape) for k, v in tensors.items() if hasattr(v, "shape")})
        return done

    return wrapper


def _made(create: Callable[[Any], None]) -> Callable[[Any], None]:
    """Makes the session of the planned graph where a plan is wanted."""

    @functools.wraps(create)
    def wrapper(self: Any) -> None:
        settings = Settings.read()
        if settings is None:
            create(self)
            return
        _warn_of_own(settings)
        plan = _plan(self, settings)
        _replace(self, plan)
        with _as_planned(self):
            try:
                create(self)
            except Exception as e:
                raise ORTModuleError(f"{settings}: ORTModule refuses the planned graph: {e}") from e
        _watch(self, settings, plan)

    wrapper._memopt = True  # type: ignore[attr-defined]
    return wrapper


@functools.cache
def _warn_of_own(settings: Settings) -> None:
    """Says once that memopt's variables win over ORTModule's."""
    own = [f"{n}={os.environ[n]}" for n in _OWN if os.environ.get(n, "0") not in ("", "0")]
    if own:
        warnings.warn(f"{' and '.join(own)} has no effect: {settings} decides", stacklevel=3)


@contextmanager
def _as_planned(manager: Any) -> Iterator[None]:
    """Sessions run their graph as it is, in the order of the file: the first session has fused what it fuses, and to
    fuse or merge clones, or to run them elsewhere, would cost what the plan saves."""
    made = manager._get_session_config

    def config() -> Any:
        options, *rest = made()
        runtime = importlib.import_module("onnxruntime")
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.execution_order = runtime.ExecutionOrder.PRIORITY_BASED  # of equal priorities, the first in the file
        return (options, *rest)

    manager._get_session_config = config
    try:
        yield
    finally:
        del manager._get_session_config


def _plan(manager: Any, settings: Settings) -> Planned:
    """Plans the graph that the manager's session would run."""
    with MemoryFile("step.onnx") as graph:
        model = manager._onnx_models.optimized_model
        _write_executed(manager, model, graph.path)
        return planned(graph, _dims(model, getattr(manager, _SHAPES, {})), settings)


def _write_executed(manager: Any, model: Any, path: str) -> None:
    """Writes the graph as the session runs it, with nodes fused and constants folded."""
    options, providers, provider_options = manager._get_session_config()
    options.optimized_model_filepath = path
    options.log_severity_level = 3  # it warns that the file is for this machine alone
    importlib.import_module("onnxruntime").InferenceSession(
        model.SerializeToString(), options, providers, provider_options
    )


def _dims(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The sizes of the symbols that the graph's inputs have."""
    found: dict[str, int] = {}
    for i in model.graph.input:
        for dim, size in zip(i.type.tensor_type.shape.dim, shapes.get(i.name, ()), strict=False):
            if dim.dim_param:
                found.setdefault(dim.dim_param, int(size))
    return dict(sorted(found.items()))


def _replace(manager: Any, plan: Planned) -> None:
    """The manager's next session is of the planned graph, with ORTModule's own optimizer off."""
    model = importlib.import_module("onnx").load_model_from_string(plan.model)
    for node in model.graph.node:
        for mark in [a for a in node.attribute if a.name == _BACKWARD]:
            node.attribute.remove(mark)
    manager._onnx_models.optimized_model = model
    options = manager._runtime_options
    options.memory_optimization_level = type(options.memory_optimization_level)(0)
    options.memory_optimizer_config_file_path = ""
    manager._runtime_inspector.memory_ob._is_enabled = False  # it would list clusters of the planned graph


def _watch(manager: Any, settings: Settings, plan: Planned) -> None:
    """Measures the first step of the session, and prints the table when it is over."""
    agent, device = manager._execution_agent, manager._device
    torch = importlib.import_module("torch")
    name = type(manager._original_module).__name__
    meters: list[Meter] = []
    forward, backward = agent.run_forward, agent.run_backward

    def first_forward(*arguments: Any) -> Any:
        meters[:] = [Meter(torch, device)]
        return forward(*arguments)

    def first_backward(*arguments: Any) -> Any:
        done = backward(*arguments)
        del agent.run_forward, agent.run_backward
        if _rank(torch) == 0:
            print(table(name, str(settings), plan, meters[0]), flush=True)
        return done

    agent.run_forward, agent.run_backward = first_forward, first_backward


def _rank(torch: Any) -> int:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))

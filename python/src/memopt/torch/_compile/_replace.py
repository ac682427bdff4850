"""The backend of a module that torch.compile has wrapped already."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.eval_frame import OptimizedModule

from .._plan import PlanError
from ._backend import BACKENDS, Backend


def settings(ctx: Any) -> dict[str, Any]:
    """The arguments ``backend``, ``mode``, ``options``, ``dynamic`` and ``fullgraph`` of torch.compile, by the context
    that it has made."""
    known: Any = ctx.callback
    name: str | None
    while not isinstance(known, Backend) and hasattr(known, "_torchdynamo_orig_backend"):
        known = known._torchdynamo_orig_backend
    passed = {"mode": None, "options": None, "dynamic": getattr(ctx, "_dynamic", None)}
    if isinstance(known, Backend):
        name, passed = known.name, known.options
    elif isinstance(known, torch._TorchCompileInductorWrapper):
        name = "inductor"
        passed["options"] = dict(known.config) or None  # those of the mode among them
    else:
        known = getattr(known, "compiler_fn", known)
        name = getattr(known, "compiler_name", None) or getattr(known, "__name__", type(known).__name__)
    if name not in BACKENDS:
        raise PlanError(
            f"the model is compiled by the backend {name!r}; a budget is for {' and '.join(map(repr, BACKENDS))}"
        )
    return {"backend": name, "fullgraph": ctx.fullgraph, **passed}


def replace(compiled: OptimizedModule, backend: Any, fullgraph: bool) -> None:
    """Has a compiled module compiled anew by another backend, at its next call."""
    other: Any = torch.compile(compiled._orig_mod, backend=backend, fullgraph=fullgraph)
    compiled.dynamo_ctx = other.dynamo_ctx
    compiled._initialize()

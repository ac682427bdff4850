"""Where the nodes of a traced graph come from: modules and lines of the model's code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Set
from typing import Any

import torch
from torch import fx

from .._replay import HANDOVER

# The innermost frame of a stack of dynamo's.
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
# Names in the path of a module as dynamo writes it: L['self'].h._modules['0'].attn, L['args'][0].h.0.attn.
_STEP = re.compile(r"(?!_modules\b)[A-Za-z_0-9]+")


def tags(n: fx.Node, modules: Set[str]) -> dict[str, Any]:
    """The tags of a node of an instance: its operator, the type and the dims of its result, the module and the line
    that call it, or of which it is the backward. modules are the names of the model's."""
    out = {"op": str(n.target), "type": _type(n), "module": _module(n, modules), "source": _source(n)}
    return {k: v for k, v in out.items() if v}


def _type(n: fx.Node) -> str:
    v = n.meta.get("val")
    if not isinstance(v, torch.Tensor):
        return ""
    return f"{str(v.dtype).removeprefix('torch.')}[{','.join(str(d) for d in v.shape)}]"


def _module(n: fx.Node, modules: Set[str]) -> str:
    stack = n.meta.get("nn_module_stack") or n.meta.get("fwd_nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    parts = list(_STEP.findall(paths[-1])) if paths else []
    while parts and ".".join(parts) not in modules:  # names of arguments, by which dynamo knows the model
        del parts[0]
    return ".".join(parts)


def _source(n: fx.Node) -> str:
    frames = _FRAME.findall(n.meta.get("stack_trace") or "")
    return f"{_short(frames[-1][0])}:{frames[-1][1]}" if frames else ""


def _short(path: str) -> str:
    """A path below the folder that Python imports it from, so that it is the same on other machines."""
    folders = [os.path.join(os.path.abspath(p), "") for p in sys.path]
    longest = max((f for f in folders if path.startswith(f)), key=len, default="")
    return path[len(longest) :] if longest else os.path.basename(path)


def tagged(instance: dict[str, Any], nodes: dict[str, fx.Node], modules: Set[str]) -> dict[str, Any]:
    """An instance whose nodes have tags."""
    given = [n if n["id"] == HANDOVER else {**n, "tags": tags(nodes[n["id"]], modules)} for n in instance["nodes"]]
    return {**instance, "nodes": given}

"""The differences between the versions of PyTorch whose joint graphs memopt knows, each in one place.

Each is found by the name that a version has or lacks, without a comparison of version numbers.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._functorch import aot_autograd, partitioners
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd import graph_compile
from torch._functorch.compile_utils import fx_graph_cse
from torch._inductor import config as inductor_config
from torch.fx import traceback

# The option of Inductor to weigh each fusion by the bytes that it adds; versions before 2.15 have none, and code that
# takes more than its budget is planned for less.
_WEIGHS = "fusion_memory_timeline_peak_memory_increase_gb"
WEIGHED_FUSIONS = {_WEIGHS: 0.0} if hasattr(inductor_config, _WEIGHS) else {}

# The backward half holds the gradients that it is given until it ends; from 2.13 on it takes them out of a list.
HOLDS_TANGENTS = not hasattr(torch.autograd.Function, "boxed_grads_call")

# Arguments of torch.compile for a compilation beside others of the same model, for which 2.13 and later have one.
APART = {"isolate_recompiles": True} if "isolate_recompiles" in inspect.signature(torch.compile).parameters else {}

_AT_ONCE = "force_non_lazy_backward_lowering"  # an option of AOTAutograd, from 2.10 on
_HAS_AT_ONCE = hasattr(functorch_config, _AT_ONCE)
_CSE_HAS_KEYS = "extra_node_key" in inspect.signature(fx_graph_cse).parameters  # from 2.14 on
_HAS_OPAQUE = hasattr(graph_compile, "is_opaque_node")  # from 2.12 on
_HAS_MARKS = hasattr(traceback, "_mark_autograd_backward")  # from 2.12 on
_HAS_CLOSURE = "tangents_closure" in partitioners.NodeInfo.__annotations__  # from 2.11 on


def behind_tangents(gm: fx.GraphModule, num_fwd_outputs: int) -> set[fx.Node]:
    """The nodes that gradients reach, and those that PyTorch has in the backward half in any case."""
    if _HAS_CLOSURE:
        return set(partitioners.classify_nodes(gm, [], num_fwd_outputs).tangents_closure)
    found: set[fx.Node] = set()
    for n in gm.graph.nodes:
        begins = n.op == "placeholder" and "tangents" in str(n.target)
        if begins or n in found or partitioners._must_be_in_backward(n):
            found.update((n, *n.users))
    return found


def without_twins(graph: fx.Graph, backward: set[fx.Node]) -> fx.Graph:
    """The graph without nodes that compute the same as others; a version without keys also merges nodes that only the
    backward half needs with twins of the forward half."""
    return fx_graph_cse(graph, extra_node_key=lambda n: n in backward) if _CSE_HAS_KEYS else fx_graph_cse(graph)


def extract_halves(joint: fx.GraphModule, saved: list[fx.Node], sizes: list[fx.Node], **given: Any) -> Any:
    """PyTorch's extraction of both halves, where newer versions take saved objects that are no tensors apart."""
    if _HAS_OPAQUE:
        opaque = [n for n in saved if graph_compile.is_opaque_node(n)]
        saved = [n for n in saved if not graph_compile.is_opaque_node(n)]
        given["saved_opaque_nodes"] = opaque
    return partitioners._extract_fwd_bwd_modules(joint, saved, saved_sym_nodes=sizes, **given)


@contextlib.contextmanager
def backward_at_once() -> Iterator[None]:
    """Within the block, the backward half is compiled behind the forward half, and not when it first runs. 2.9 has that
    as an argument of a function that its callers leave out."""
    if _HAS_AT_ONCE:
        with functorch_config.patch({_AT_ONCE: True}):
            yield
        return
    prepare = aot_autograd.prepare_aot_module_simplified
    aot_autograd.prepare_aot_module_simplified = functools.partial(prepare, force_non_lazy_backward_lowering=True)
    try:
        yield
    finally:
        aot_autograd.prepare_aot_module_simplified = prepare


@contextlib.contextmanager
def marked_as_backward() -> Iterator[None]:
    """Within the block, traced nodes are of the backward half, as newer versions note."""
    if not _HAS_MARKS:
        yield
        return
    traceback._mark_autograd_backward()
    try:
        yield
    finally:
        traceback._reset_autograd_backward()

"""Ways to compile a step with less memory, and the recomputation of each by one model of costs."""

from __future__ import annotations

import contextlib
import copy
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import memopt.torch as mt
from memopt.torch._compile import _backend, _joint
from memopt.torch._compile._cost import CPU

aten = torch.ops.aten

# Selective checkpointing keeps the results of these, as PyTorch's own examples do.
_KEPT = {
    getattr(aten, name).default
    for name in (
        "mm addmm bmm convolution _scaled_dot_product_flash_attention_for_cpu "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention"
    ).split()
}


@dataclass
class Compiled:
    """A step under one way, with the figures of its graph.

    Attributes:
        cost, base: the estimated time of all computations, and of every node of the joint graph once, in microseconds.
        nodes: of the joint graph, those that compute.
        planning: seconds of the partitioner.
    """

    run: Callable[..., torch.Tensor]
    cost: float = 0.0
    base: float = 0.0
    nodes: int = 0
    planning: float = 0.0
    memopt: Any = None
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)


class MinCut(CustomPartitionerFn):
    """PyTorch's partitioner, whose recomputation is counted."""

    def __init__(self, compiled: Compiled, key: str) -> None:
        self.compiled, self.key = compiled, key

    def uuid(self) -> Any:
        """The key of Inductor's caches."""
        return ("bench/torchcompile", self.key)

    def __call__(self, gm: fx.GraphModule, joint_inputs: Any, **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        static = kwargs.get("static_lifetime_input_indices") or []
        whole = fx.GraphModule(gm, copy.deepcopy(gm.graph))
        began = time.perf_counter()
        halves = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
        self.compiled.planning += time.perf_counter() - began
        joint = _joint.Joint(whole, kwargs["num_fwd_outputs"], static, lambda _: lambda _: 0)
        costs = {n["id"]: n["cost"] for n in joint.instance(1, CPU)["nodes"]}
        self.compiled.base += sum(costs.values())
        self.compiled.nodes += len(costs) - 1
        self.compiled.cost += sum(costs.get(n.name, 0) for half in halves for n in half.graph.nodes)
        return halves


def torch_way(module: nn.Module, backend: str, budget: float = 1.0, solver: str = "dp") -> Compiled:
    """PyTorch's partitioner with its own memory budget."""
    out = Compiled(run=module)
    cut = MinCut(out, f"{budget} {solver}")
    settings = {"activation_memory_budget": budget, "activation_memory_budget_solver": solver}

    def compiler(gm: fx.GraphModule, inputs: Any, **_: Any) -> Any:
        with functorch_config.patch(settings):
            if backend == "aot_eager":
                made = aot_autograd(
                    fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=cut, keep_inference_input_mutations=True
                )
                return made(gm, inputs)
            with inductor_config.patch(custom_partitioner_fn=cut, force_disable_caches=True):
                return torch._TorchCompileInductorWrapper(mode=None, options=None, dynamic=None)(gm, inputs)

    out.run = torch.compile(module, backend=compiler, fullgraph=True)
    return out


@contextlib.contextmanager
def checkpointed(blocks: list[nn.Module], selective: bool) -> Iterator[None]:
    """Every block under a checkpoint; selective: products and attention are kept."""
    contexts = functools.partial(create_selective_checkpoint_contexts, _policy) if selective else None
    more = {"context_fn": contexts} if contexts else {}
    for block in blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False, **more)
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


def _policy(_: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in _KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def checkpoint_way(module: nn.Module, blocks: list[nn.Module], backend: str, selective: bool) -> Compiled:
    """A checkpoint around every block."""
    stack = contextlib.ExitStack()
    stack.enter_context(checkpointed(blocks, selective))
    out = torch_way(module, backend)
    out.stack = stack
    return out


def memopt_way(module: nn.Module, backend: str, budget: int | str | None) -> Compiled:
    """memopt within a budget."""
    run = mt.compile(module, budget=budget, backend=backend, fullgraph=True)
    out = Compiled(run=run, memopt=run.memopt)
    plan = _backend.Partitioner.__call__

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return plan(self, *args, **kwargs)
        finally:
            out.planning += time.perf_counter() - began

    def begun(*args: Any, **kwargs: Any) -> torch.Tensor:
        """The first step, whose plan is timed."""
        _backend.Partitioner.__call__ = timed
        try:
            return run(*args, **kwargs)
        finally:
            _backend.Partitioner.__call__ = plan
            out.run = run
            graphs = out.memopt.graphs
            out.cost, out.base = sum(g.cost_us for g in graphs), sum(g.base_cost_us for g in graphs)
            out.nodes = sum(g.nodes for g in graphs)

    out.run = begun
    return out

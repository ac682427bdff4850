"""Ways to compile a step with less memory, and the recomputation of each by one model of costs."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from memopt.torch._compile import _backend, _fuse, _joint
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


# Whether plans are made and steps timed at a priority above that of all other programs.
prior = False


@contextlib.contextmanager
def before_others() -> Iterator[None]:
    """The threads of this process, and programs that it starts, run before others, where ``prior`` says so."""

    def schedule(policy: int, priority: int) -> None:
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.sched_setscheduler(int(thread), policy, os.sched_param(priority))

    if not prior:
        yield
        return
    schedule(os.SCHED_RR, 2)
    try:
        yield
    finally:
        schedule(os.SCHED_OTHER, 0)


class Traced(nn.Module):
    """The graph that Dynamo makes of a model for a batch, in which it need not trace the model's program again."""

    def __init__(self, module: nn.Module, batch: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.model = module
        graphs: list[tuple[fx.GraphModule, list[Any]]] = []

        def noted(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            graphs.append((gm, inputs))
            return gm.forward

        torch.compile(module, backend=noted, fullgraph=True)(**batch)
        torch._dynamo.reset()
        self.graph, given = graphs[0]
        keys = {id(t): k for k, t in batch.items()}
        self.order: list[tuple[str, bool]] = []  # by argument: a name, and whether it is of the batch
        for i, t in enumerate(given):
            if id(t) in keys:
                self.order.append((keys[id(t)], True))
            elif isinstance(t, nn.Parameter):
                self.register_parameter(f"given{i}", t)
                self.order.append((f"given{i}", False))
            else:
                self.register_buffer(f"given{i}", t)
                self.order.append((f"given{i}", False))

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        """The loss of a batch."""
        loss: torch.Tensor = self.graph(*(batch[name] if of else getattr(self, name) for name, of in self.order))[0]
        return loss


@dataclass
class Compiled:
    """A step under one way, with the figures of its graph.

    Attributes:
        cost, base: the estimated time of all computations, and of every node of the joint graph once, in microseconds.
        nodes: of the joint graph, those that compute.
        planning: seconds of the partitioner.
        compilations: how often a backend has compiled the graph.
        around: the context of each step.
    """

    run: Callable[..., torch.Tensor]
    cost: float = 0.0
    base: float = 0.0
    nodes: int = 0
    planning: float = 0.0
    compilations: int = 1
    memopt: Any = None
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext


class MinCut(CustomPartitionerFn):
    """PyTorch's partitioner, whose recomputation is counted."""

    def __init__(self, compiled: Compiled, key: str, fuses: bool) -> None:
        self.compiled, self.key, self.fuses = compiled, key, fuses

    def uuid(self) -> Any:
        """The key of Inductor's caches."""
        return ("bench/torchcompile", self.key)

    def __call__(self, gm: fx.GraphModule, joint_inputs: Any, **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        static = kwargs.get("static_lifetime_input_indices") or []
        whole = fx.GraphModule(gm, copy.deepcopy(gm.graph))
        with before_others():
            began = time.perf_counter()
            halves = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
            self.compiled.planning += time.perf_counter() - began
        joint = _joint.Joint(whole, kwargs["num_fwd_outputs"], static, lambda _: lambda _: 0, fuses=self.fuses)
        nodes = joint.instance(1, CPU)["nodes"]
        self.compiled.base += sum(n["cost"] for n in nodes)
        self.compiled.nodes += len(nodes) - 1
        self.compiled.cost += sum(_Half(half).cost(self.fuses) for half in halves)
        return halves


class _Half(_joint.Joint):
    """One half of a compiled graph, told apart as a joint graph is: its arguments are inputs."""

    def __init__(self, half: fx.GraphModule) -> None:
        self.gm, self.after = half, set()
        self.root, self.parts, self.sizes, self.shapes, self.mutations = {}, {}, set(), {}, ([], [])
        for n in half.graph.nodes:
            self._place(n)
        self.outputs = half.graph.find_nodes(op="output")[0].all_input_nodes

    def cost(self, fuses: bool) -> float:
        """The estimated time in microseconds; fuses: Inductor makes loops of its nodes."""
        nodes = [n for n in self.root if self._computes(n)]
        self.loops = {n: [n] for n in nodes}
        if fuses:
            stored = {self.root[o] for o in self.outputs}
            stored.update(r for n in self.mutations[0] for r in self.roots(n))
            readers: dict[fx.Node, list[fx.Node]] = {}
            for n in nodes:
                for r in self.reads(n):
                    if r in self.loops and r not in stored:
                        readers.setdefault(r, []).append(n)
            self.loops = _fuse.loops(nodes, self.loads, readers, lambda a, b: False)
        return sum(CPU.microseconds(loop, self._read(n)) for n, loop in self.loops.items())


def torch_way(module: nn.Module, backend: str, budget: float = 1.0, solver: str = "dp") -> Compiled:
    """PyTorch's partitioner with its own memory budget."""
    out = Compiled(run=module)
    cut = MinCut(out, f"{budget} {solver}", fuses=backend == "inductor")
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


def _policy(_: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in _KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def checkpoint_way(module: nn.Module, blocks: list[nn.Module], backend: str, selective: bool) -> Compiled:
    """A checkpoint around every block; selective: products and attention are kept."""
    contexts = functools.partial(create_selective_checkpoint_contexts, _policy) if selective else None
    more = {"context_fn": contexts} if contexts else {}
    forwards = [functools.partial(checkpoint, block.forward, use_reentrant=False, **more) for block in blocks]

    @contextlib.contextmanager
    def checkpointed() -> Iterator[None]:
        for block, forward in zip(blocks, forwards, strict=True):
            block.forward = forward  # the same one in each step, which Dynamo compiles once
        try:
            yield
        finally:
            for block in blocks:
                del block.forward

    out = torch_way(module, backend)
    out.around = checkpointed
    return out


def memopt_way(module: nn.Module, backend: str, budget: int | str | None) -> Compiled:
    """memopt within a budget."""
    run = mt.compile(module, budget=budget, backend=backend, fullgraph=True)
    out = Compiled(run=run, memopt=run.memopt)
    plan = _backend.Partitioner.__call__
    seconds: list[float] = []
    costs: list[float] = []

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        with before_others():
            began = time.perf_counter()
            try:
                halves = plan(self, *args, **kwargs)
            finally:
                seconds.append(time.perf_counter() - began)
        costs.append(sum(_Half(half).cost(backend == "inductor") for half in halves))
        return halves

    def begun(*args: Any, **kwargs: Any) -> torch.Tensor:
        """The first step, whose plan is timed."""
        _backend.Partitioner.__call__ = timed
        try:
            return run(*args, **kwargs)
        finally:
            _backend.Partitioner.__call__ = plan
            out.run = run
            out.planning, out.compilations = sum(seconds), len(seconds)
            graphs = out.memopt.graphs
            out.cost, out.base = costs[-1] if costs else 0.0, sum(g.base_cost_us for g in graphs)
            out.nodes = sum(g.nodes for g in graphs)

    out.run = begun
    return out

"""The code that Inductor makes of the two halves: fusions that keep within the plan, and the bytes that it takes."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.fx_passes import post_grad
from torch._inductor.lowering import fallbacks
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy

from .._recorder import Recorder, levels_of
from .._workspace import Workspaces, of_collective
from ._cost import hint, value
from ._differences import HOLDS_TANGENTS, WEIGHED_FUSIONS, backward_at_once
from ._joint import kept_results

aten = torch.ops.aten
_LAST = torch.channels_last

# Inductor weighs each fusion by the order of its scheduler and the lifetimes there, which Code.limit bounds. A buffer
# is freed behind its last reader: held for one of its size that is made later, it would be there between.
_WITHIN = {**WEIGHED_FUSIONS, "allow_buffer_reuse": False}

# By convolution, the place of its image and its weight among the arguments.
_CONVOLUTIONS = {aten.convolution.default: (0, 1), aten.convolution_backward.default: (1, 2)}


def is_kernel(n: fx.Node) -> bool:
    """Whether a kernel of PyTorch computes a node, and no loop that Inductor generates."""
    return n.target in fallbacks or n.target in _CONVOLUTIONS


def copy_operands(graph: fx.Graph) -> None:
    """Makes the copies that Inductor makes of a convolution's operands nodes of the joint graph.

    On the CPU every convolution reads its image and its weight with channels last. Inductor computes them in that
    layout, but inputs of the graph it copies, and in place of the inputs it saves the copies for the backward half.
    """
    copies: dict[fx.Node, fx.Node] = {}
    for n in graph.nodes:
        for i in _CONVOLUTIONS.get(n.target, ()):
            given = n.args[i]
            if given not in copies and _is_copied(given):
                with graph.inserting_before(n):
                    copies[given] = graph.call_function(aten.clone.default, (given,), {"memory_format": _LAST})
                meta = value(given).clone(memory_format=_LAST)
                # Where the copy was made anew in the backward half, Inductor would copy the input that it saves.
                copies[given].meta.update(val=meta, recompute=CheckpointPolicy.MUST_SAVE)
            if given in copies:
                n.update_arg(i, copies[given])


def _is_copied(n: fx.Node) -> bool:
    v = value(n)
    on_cpu = n.op == "placeholder" and v.dim() == 4 and v.device.type == "cpu"
    return on_cpu and not v.is_contiguous(memory_format=_LAST)


@contextlib.contextmanager
def _sums_apart() -> Iterator[None]:
    """Within the block, Inductor does not add a value to a product in the product's kernel, which then runs where the
    sum was and holds the product's operands until there. For example, where the weight of an embedding is that of the
    last layer, too, the gradient of the logits would be there until the end of the backward half."""
    known = (e for passes in post_grad.pass_patterns for of in passes.patterns.values() for e in of)
    entries = [e for e in known if e.extra_check is post_grad.is_valid_addmm_fusion]
    for e in entries:
        e.extra_check = lambda _: False
    try:
        yield
    finally:
        for e in entries:
            e.extra_check = post_grad.is_valid_addmm_fusion


class Code:
    """Compiles a graph with Inductor, and runs the code of both halves on fake tensors to count its bytes.

    Inductor decides what is fused, which result is written over an operand, and which operands are copied into another
    layout. The code that it generates shows all of it, and is run without its kernels and without memory.

    Attributes:
        limit: the bytes of the plan; no fusion may raise the peak above them. None: Inductor fuses as it likes.
        peaks: the most bytes of each half of the code; None where they are not known: both halves came from a cache,
            or run on a device other than the CPU.
        saved_bytes: of the code, as Graph has them.
    """

    def __init__(self, workspaces: Workspaces, limited: bool, drops: bool = False) -> None:
        self.limit: int | None = None
        self.peaks: tuple[int, int] | None = None
        self.saved_bytes = 0
        self._patches: dict[str, Any] = _WITHIN if limited else {}
        self._sums = _sums_apart if limited else contextlib.nullcontext
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._bytes = _Bytes(workspaces)
        self._drops = drops
        self._held: list[torch.Tensor] = []  # results of the forward half that the caller has
        self._saved: dict[str, torch.Tensor] = {}  # by name: those that may be saved for the backward half

    def compile(
        self, gm: fx.GraphModule, inputs: Sequence[Any], options: dict[str, Any], cut: Any
    ) -> Callable[..., Any]:
        """Compiles a graph, both halves at once, with a partitioner of its joint graph and options of torch.compile."""
        wrapper = torch._TorchCompileInductorWrapper(**options)
        patches = {**self._patches, **wrapper.config, "custom_partitioner_fn": cut}
        with backward_at_once(), self._sums():
            return compile_fx(gm, inputs, inner_compile=self._half, config_patches=patches)  # type: ignore[return-value]

    def _half(self, gm: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        """Compiles one half, and counts its bytes."""
        given = [n.name for n in gm.graph.find_nodes(op="placeholder")]
        end = gm.graph.find_nodes(op="output")[0]
        results = [n.name if isinstance(n, fx.Node) else None for n in tree_leaves(end.args)]
        choices = copy.copy(V.choices)
        choices.can_fuse = self._keeps(choices.can_fuse)  # type: ignore[method-assign]
        with V.set_choices_handler(choices):
            out = compile_fx_inner(gm, inputs, **kwargs)
        ours = isinstance(out, CompiledFxGraph) and out.device_types == {"cpu"} and not config.cpp_wrapper
        if kwargs.get("is_inference") or not ours:
            return out
        with self._mode:
            if kwargs.get("is_backward"):
                self._run_backward(out, inputs, given)
            else:
                self._run_forward(out, inputs, results, end.meta.get("user_visible_output_idxs", ()))
        return out

    def _keeps(self, can_fuse: Callable[..., bool]) -> Callable[..., bool]:
        """The choice whether two nodes of Inductor's scheduler are fused, with the limit of the plan."""

        def keeps(scheduler: Any, a: Any, b: Any, score: int) -> bool:
            state = getattr(scheduler, "_fusion_memory_state", None)
            if state is not None and self.limit is not None:
                # Where more is there already, a fusion may not raise it. Inductor refuses what goes beyond.
                steps = [scheduler._fusion_node_step(state, n) for n in (a, b)]
                now = max(state.baseline_live_after[min(steps) : max(steps) + 1])
                state.peak_limit = max(self.limit, now)
            return can_fuse(scheduler, a, b, score)

        return keeps

    def _run_forward(self, code: Any, inputs: Sequence[Any], results: list[str | None], visible: Sequence[int]) -> None:
        given = [_fake(v) for v in inputs]
        self._bytes.hold(v for v in given if isinstance(v, torch.Tensor))
        with self._bytes:
            out = _run(code, given)
        self._held = kept_results([t for i in visible if isinstance(t := out[i], torch.Tensor)], self._drops)
        self._saved = {n: t for n, t in zip(results, out, strict=True) if n and isinstance(t, torch.Tensor)}

    def _run_backward(self, code: Any, inputs: Sequence[Any], names: list[str]) -> None:
        saved = {n: t for n, t in self._saved.items() if n in names}
        self._saved = {}
        self.saved_bytes = self._bytes.now
        self._bytes.handover = self._bytes.count
        with self._bytes:
            given = [saved.pop(n) if n in saved else _fake(v) for n, v in zip(names, inputs, strict=True)]
            tangents = [t for n, t in zip(names, given, strict=True) if n.startswith("tangents")]
            held = [t for t in tangents if HOLDS_TANGENTS or t.dim() == 0]
            del tangents
            gradients = _run(code, given)
        self.peaks = self._bytes.finish()
        del gradients, held  # Tensor.backward holds the gradient of a loss until it ends


class _Bytes(Recorder):  # type: ignore[no-untyped-call]
    """Follows the storages of both halves, and the memory that kernels of PyTorch take beside their results."""

    def __init__(self, workspaces: Workspaces) -> None:
        super().__init__(())
        self.workspaces = workspaces
        self.handover = 0  # the number of the first operator of the backward half
        self._numbers: list[int] = []  # by operator: its number among the workspaces, or -1
        self._made: list[int] = []  # by operator: the bytes of its results
        self._beside: list[int] = []  # by operator: those that a collective takes beside them

    @property
    def now(self) -> int:
        """The bytes that are there beyond held storages."""
        return sum(self.storages[n].bytes for n, _ in self._live.values() if not self.storages[n].held)

    def note(
        self, func: Any, args: Any, kwargs: Any, given: Any, out: Any, made: list[torch.Tensor], fresh: list[int]
    ) -> None:
        super().note(func, args, kwargs, given, out, made, fresh)
        self._numbers.append(self.workspaces.number(func, args, kwargs))
        self._made.append(sum(self.storages[n].bytes for n in fresh))
        read = sum(t.nbytes for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor))
        self._beside.append(of_collective(func, read, self._made[-1]))

    def finish(self) -> tuple[int, int]:
        """The most bytes at one time, of each half."""
        self.settle()
        peaks, _ = self.workspaces.measure({})
        known = zip(self._numbers, self._made, self._beside, strict=True)
        work = [max(0, peaks[n] - made) if n >= 0 else beside for n, made, beside in known]
        levels = levels_of(self.storages, work)
        return max(levels[: self.handover], default=0), max(levels[self.handover :], default=0)


class _Kernels:
    """Stands in generated code for the compiler of its kernels."""

    def __getattr__(self, _: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: _nothing


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stands for a kernel, which writes into its arguments, and for a check of them."""


def _empty(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cpu")


def _reinterpret(t: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> torch.Tensor:
    return t.as_strided(size, stride, t.storage_offset() + offset)


def _run(code: Any, given: list[Any]) -> Any:
    """Runs generated code without its kernels. As always it takes its arguments out of the list."""
    source = code.source_code.replace("import AsyncCompile\n", "import AsyncCompile as _\n")
    names: dict[str, Any] = {"AsyncCompile": _Kernels, **(code.constants or {})}
    exec(compile(source, "<generated>", "exec"), names)
    names.update({n: _nothing for n in names if n.startswith("assert_")})
    names.update(empty_strided_cpu=_empty, reinterpret_tensor=_reinterpret)
    return names["call"](given)


def _fake(v: Any) -> Any:
    """A fake tensor of the sizes of an example; a symbolic size as a number."""
    if not isinstance(v, torch.Tensor):
        return hint(v) if isinstance(v, (torch.SymInt, int)) else v
    size, stride = ([hint(d) for d in dims] for dims in (v.shape, v.stride()))
    return torch.empty_strided(size, stride, dtype=v.dtype, device=v.device)

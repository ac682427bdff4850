"""Which values Inductor does not store: those that loops compute where they are read."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import get_default_op_list
from torch._inductor import config as inductor_config

from ._cost import hint, nbytes, value

aten, prims = torch.ops.aten, torch.ops.prims

# Operators of PyTorch's list of fusible ones that loop over more than their results.
_REDUCTIONS = frozenset(
    getattr(aten, name)
    for name in "sum mean amax amin max min var var_mean std any argmax argmin prod".split()  # noqa: SIM905
) | {prims.sum, prims.var, prims.prepare_softmax_online}
# Elementwise operators that are not in it.
_MORE = frozenset([aten.slice_scatter, aten.select_scatter, aten.constant_pad_nd])
# Others of it whose loops run over anything but their results.
_ALONE = frozenset([aten.index, aten.gather, operator.getitem])
# Inductor stores results of these on the CPU where they are read more than once.
_HEAVY = frozenset([aten.exp, aten.log, aten.log10, aten.log1p, aten.log2, aten.sigmoid, aten.tanh])
# The values that a loop may read before a result that has several readers is stored, and before any is, and the
# operators of a loop (torch._inductor.config: realize_reads_threshold, realize_acc_reads_threshold,
# realize_opcount_threshold). PyTorch 2.15 has limits of its own for the CPU.
_READS, _ALL_READS, _OPERATORS = 4, 8, 30


@dataclass(frozen=True)
class _Loop:
    """The work of a loop that computes a value."""

    reads: frozenset[fx.Node]
    operators: int = 0
    heavy: bool = False


@functools.cache
def _fusible() -> frozenset[Callable[..., object]]:
    return frozenset(get_default_op_list().fusible_ops) - _ALONE | _MORE


def loops(
    nodes: list[fx.Node],
    reads: Callable[[fx.Node], list[fx.Node]],
    readers: dict[fx.Node, list[fx.Node]],
    apart: Callable[[fx.Node, fx.Node], bool],
    twice: Callable[[fx.Node, frozenset[fx.Node], int], bool] = lambda n, reads, count: False,
    *,
    copies: bool = False,
) -> dict[fx.Node, list[fx.Node]]:
    """By node whose results have memory: the nodes of its loop in order, itself the last.

    It follows Inductor's lowering: an elementwise value is computed anew where it is read, unless it has several
    readers and is dear; and its scheduler: a stored value that one loop alone reads belongs to it.

    Args:
        nodes: in an order in which they can be computed.
        reads: the values that a node reads, arguments of the graph among them.
        readers: by node, the nodes that read it; one that is absent is stored.
        apart: whether two nodes may not be in one loop.
        twice: whether a node that loops would compute anew of the nodes that it reads, so many loops in all, may be in
            those that are apart from it, too.
        copies: each loop has a copy of its nodes, so that no value has several readers: one that Inductor would store
            for those is not, where loops that compute it anew read less than is written and read else.
    """
    inlined = _inlined(nodes, reads, readers, copies)
    heads: dict[fx.Node, set[fx.Node]] = {}
    out: dict[fx.Node, list[fx.Node]] = {}
    for n in reversed(nodes):
        found = set().union(*(heads[r] for r in readers.get(n, ())))
        joins = bool(found) and _is_elementwise(n) and all(_takes(loop, n) for loop in found)
        if joins and any(apart(n, loop) for loop in found):
            joins = n in inlined and twice(n, inlined[n].reads, len(found))
        heads[n] = found if joins and (n in inlined or len(found) == 1) else {n}
        for h in heads[n]:
            out.setdefault(h, []).append(n)
    return {h: members[::-1] for h, members in out.items()}


def rejoins(loop: list[fx.Node], reads: list[fx.Node], readers: list[fx.Node], behind: int) -> int:
    """How many loops compute the value of a loop anew where it is computed a second time: those that read it, which
    need no memory for it. 0: it has a loop of its own then, too, since a reader is no loop over its elements, or since
    several readers behind the handover want it stored.

    Args:
        loop: the nodes of the loop, of which the last has the result.
        reads: the nodes that it reads.
        readers: the last nodes of the loops that read it.
        behind: how many of them stand behind the handover.
    """
    n = loop[-1]
    if not _is_elementwise(n) or not readers or not all(_takes(r, n) for r in readers):
        return 0
    heavy = any(_packet(m) in _HEAVY for m in loop)
    if behind > 1 and (heavy or len(reads) > _READS or len(loop) > _limits(value(n).device.type)[1]):
        return 0
    return max(1, behind)


def _inlined(
    nodes: list[fx.Node],
    reads: Callable[[fx.Node], list[fx.Node]],
    readers: dict[fx.Node, list[fx.Node]],
    copies: bool,
) -> dict[fx.Node, _Loop]:
    """The nodes whose values the lowering does not store (StorageBox.mark_reuse, has_exceeded_max_reads)."""
    done: dict[fx.Node, _Loop] = {}
    for n in nodes:
        if n not in readers or not _is_elementwise(n):
            continue
        loop = _loop(n, [done.get(r, _Loop(frozenset([r]))) for r in reads(n)])
        count = len(readers[n])
        most, operators = _limits(value(n).device.type)
        many = len(loop.reads) > _READS and not (copies and _saves(n, loop.reads, count))
        if len(loop.reads) <= most and not (count > 1 and (loop.heavy or many or loop.operators > operators)):
            done[n] = loop
    return done


def _saves(n: fx.Node, reads: frozenset[fx.Node], count: int) -> bool:
    """Whether so many loops that compute a value anew move fewer bytes than its memory, written once, and they."""
    return count * sum(nbytes(value(r)) for r in reads) <= (count + 1) * nbytes(value(n))


@functools.cache
def _limits(device: str) -> tuple[int, int]:
    """The most values that a loop reads, and the most operators of one."""
    own: Any = inductor_config if device == "cpu" else None
    reads = getattr(own, "realize_cpu_acc_reads_threshold", _ALL_READS)
    return int(reads), int(getattr(own, "realize_cpu_opcount_threshold", _OPERATORS))


def _loop(n: fx.Node, given: list[_Loop]) -> _Loop:
    reads: frozenset[fx.Node] = frozenset().union(*(g.reads for g in given))
    heavy = _packet(n) in _HEAVY or any(g.heavy for g in given)
    return _Loop(reads, 1 + sum(g.operators for g in given), heavy)


def _packet(n: fx.Node) -> Any:
    """The operator of a node, all of its overloads alike."""
    return getattr(n.target, "overloadpacket", n.target)


def _is_elementwise(n: fx.Node) -> bool:
    target = _packet(n)
    return target in _fusible() and target not in _REDUCTIONS and isinstance(value(n), torch.Tensor)


def _takes(loop: fx.Node, n: fx.Node) -> bool:
    """Whether a node's loop runs over the elements of another node's result."""
    return _packet(loop) in _fusible() and hint(value(n).numel()) <= _span(loop)


def _span(n: fx.Node) -> int:
    """The elements that a node's loop runs over: those of its result, or of the argument that it reduces."""
    seen = [value(n)]
    if _packet(n) in _REDUCTIONS:
        seen += [value(i) for i in n.all_input_nodes]
    return max((hint(v.numel()) for v in seen if isinstance(v, torch.Tensor)), default=0)

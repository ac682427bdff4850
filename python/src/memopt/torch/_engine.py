"""Backward on fake tensors of a device that is not there."""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

# Entered around a node: while it runs, and while its gradients are added to those that wait.
Around = Callable[[Node], AbstractContextManager[Any]]

# Adds a gradient to one that waits.
Add = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


_numbers = itertools.count(1 << 32)  # above those of autograd's engine


def unmarked(_: Node) -> AbstractContextManager[Any]:
    """Marks no node."""
    return contextlib.nullcontext()


@contextlib.contextmanager
def in_python(around: Around = unmarked, add: Add = operator.add) -> Iterator[None]:
    """Within the block, gradients are computed node by node from Python.

    The engine of autograd, which is in C++, asks each accelerator for its streams before it runs a node, and that
    fails where there is no such device, although fake tensors of the device have no streams. The nodes themselves ask
    for none. Hooks of tensors do not run.
    """
    autograd: Any = torch.autograd
    before = autograd._engine_run_backward
    autograd._engine_run_backward = functools.partial(_run, around, add)
    try:
        yield
    finally:
        autograd._engine_run_backward = before


def backward(loss: list[torch.Tensor], around: Around, add: Add) -> None:
    """The backward half of the one loss that a list has, which is empty then: nodes end as soon as they have run, and
    with them the tensors that they saved, as in the engine of autograd. The loss and its gradient stay until the
    end."""
    walk = _Walk([], around, add, accumulate=True)
    node, value, seed = loss[0].grad_fn, loss[0].detach(), torch.ones_like(loss[0])
    if node is None:
        raise RuntimeError("the loss does not require a gradient")
    walk.add(node, loss[0].output_nr, seed)
    del node
    loss.clear()
    with torch.set_grad_enabled(False), _numbered():
        walk.run()
    del value, seed


@contextlib.contextmanager
def _numbered() -> Iterator[None]:
    """Gives the backward half a number, by which checkpoints know that they have computed their values anew in it."""
    c: Any = torch._C
    before = c._current_graph_task_id
    number = next(_numbers)
    c._current_graph_task_id = lambda: number
    try:
        yield
    finally:
        c._current_graph_task_id = before


def _run(
    around: Around,
    add: Add,
    outputs: Sequence[torch.Tensor | GradientEdge],
    grads: Sequence[torch.Tensor | None],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[torch.Tensor | GradientEdge],
    *_: Any,
    accumulate_grad: bool,
    **__: Any,
) -> tuple[torch.Tensor | None, ...]:
    """The engine's Python form of torch.autograd.grad and backward (torch/csrc/autograd/engine.cpp)."""
    walk = _Walk([_edge(t) for t in inputs], around, add, accumulate=accumulate_grad)
    for t, g in zip(outputs, grads, strict=True):
        edge = _edge(t)
        seed = g if g is not None or isinstance(t, GradientEdge) else torch.ones_like(t)
        walk.add(edge.node, edge.output_nr, seed)
    with torch.set_grad_enabled(create_graph), _numbered():
        walk.run()
    return tuple(walk.found.get((e.node, e.output_nr)) for e in walk.wanted)


def _edge(t: torch.Tensor | GradientEdge) -> GradientEdge:
    return t if isinstance(t, GradientEdge) else get_gradient_edge(t)


class _Walk:
    """One pass through a graph of autograd, its latest nodes first, each when all of its gradients are there."""

    def __init__(self, wanted: list[GradientEdge], around: Around, add: Add, *, accumulate: bool) -> None:
        self.wanted, self.around, self.sum, self.accumulate = wanted, around, add, accumulate
        self.places = {(e.node, e.output_nr) for e in wanted}
        self.found: dict[tuple[Node, int], torch.Tensor | None] = {}
        self.given: dict[Node, list[torch.Tensor | None]] = {}  # by node: the gradients of its results
        self.roots: list[Node] = []
        self.waits: dict[Node, int] = {}  # by node that is run: the edges that are to come

    def add(self, node: Node, number: int, grad: torch.Tensor | None) -> None:
        """Adds a gradient of a node's result from outside."""
        self.roots.append(node)
        self._give(node, number, grad)

    def _give(self, node: Node, number: int, grad: torch.Tensor | None) -> None:
        given = self.given.setdefault(node, [None] * len(node._input_metadata))
        if number >= len(given):
            given += [None] * (number + 1 - len(given))
        before = given[number]
        if grad is not None:
            given[number] = grad if before is None else self.sum(before, grad)

    def run(self) -> None:
        """Runs all nodes. One that has run is let go of before the next one runs."""
        waits = self.waits = self._waits()
        ready = [(_turn(n), i, n) for i, n in enumerate(dict.fromkeys(self.roots)) if waits.get(n) == 0]
        self.roots.clear()
        heapq.heapify(ready)
        count = len(ready)
        while ready:
            node = heapq.heappop(ready)[-1]
            for to in self._step(node):
                count += 1
                heapq.heappush(ready, (_turn(to), count, to))
            del waits[node], node

    def _step(self, node: Node) -> list[Node]:
        """Runs a node and hands its gradients on; the nodes that are ready then."""
        ready = []
        with self.around(node):
            for (to, number), grad in zip(node.next_functions, self._grads(node), strict=False):
                if to in self.waits:
                    self._give(to, number, grad)
                    self.waits[to] -= 1
                    if not self.waits[to]:
                        ready.append(to)
        return ready

    def _waits(self) -> dict[Node, int]:
        """By node that is run, how many edges of such nodes lead to it: of those that a wanted gradient needs."""
        above: dict[Node, list[Node]] = {n: [] for n in self.roots}  # by node: those that lead to it
        stack = list(above)
        while stack:
            node = stack.pop()
            for to, _ in node.next_functions:
                if to is not None:
                    if to not in above:
                        above[to] = []
                        stack.append(to)
                    above[to].append(node)
        if self.accumulate:
            return {n: len(nodes) for n, nodes in above.items()}
        stack = [e.node for e in self.wanted if e.node in above]
        needed = set(stack)
        while stack:
            for n in above[stack.pop()]:
                if n not in needed:
                    needed.add(n)
                    stack.append(n)
        return {n: sum(m in needed for m in above[n]) for n in above if n in needed}

    def _grads(self, node: Node) -> tuple[torch.Tensor | None, ...]:
        """The gradients of a node's arguments."""
        given = self.given.pop(node, [])
        for i, g in enumerate(given):
            if (node, i) in self.places:
                self.found[node, i] = g
        count = len(node.next_functions)
        variable = getattr(node, "variable", None)
        if variable is not None and not count:  # a leaf's
            if self.accumulate and given[0] is not None:
                old = variable.grad
                variable.grad = _laid_out(given[0], variable) if old is None else self.sum(old, given[0])
            return ()
        if all(g is None for g in given):
            return (None,) * count
        if not any(to is not None and to in self.waits for to, _ in node.next_functions):
            return ()
        if callable(node):
            grads = node(*given)
        else:  # of a torch.autograd.Function, which gets zeros for gradients that are not there
            zeros = [_zeros(g, node._input_metadata[i]) for i, g in enumerate(given)]
            grads = node.apply(*zeros)  # type: ignore[attr-defined]
            del zeros
            grads = _of_tensors(node, grads if isinstance(grads, tuple) else (grads,))
        del given
        grads = grads if isinstance(grads, tuple) else (grads,)
        return tuple(_fitted(g, *edge) for g, edge in zip(grads, node.next_functions, strict=False))


def _of_tensors(node: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients of a Function's tensors, of those of all of its arguments."""
    needed = iter([g for g, need in zip(grads, node.needs_input_grad, strict=False) if need])
    return tuple(next(needed, None) if to is not None else None for to, _ in node.next_functions)


def _zeros(grad: torch.Tensor | None, meta: Any) -> torch.Tensor:
    return grad if grad is not None else torch.zeros(meta.shape, dtype=meta.dtype, device=meta.device)


def _turn(node: Node) -> int:
    """The later a node was made, the earlier its turn; a leaf's is at once."""
    return -node._sequence_nr() if node.next_functions else -(1 << 62)


def _laid_out(grad: torch.Tensor, variable: torch.Tensor) -> torch.Tensor:
    """A gradient with the strides of its leaf, copied where it has others (AccumulateGrad of
    torch/csrc/autograd/functions/accumulate_grad.h)."""
    if grad.layout != torch.strided or _strides(grad) == _strides(variable):
        return grad.detach()
    return torch.empty_strided(variable.shape, variable.stride(), dtype=grad.dtype, device=grad.device).copy_(grad)


def _strides(t: torch.Tensor) -> list[int]:
    """The strides of the dims that have more than one element."""
    return [stride for size, stride in zip(t.shape, t.stride(), strict=True) if size != 1]


def _fitted(grad: torch.Tensor | None, to: Node | None, number: int) -> torch.Tensor | None:
    """A gradient in the shape and the type of the result that it is of (Engine::validate_outputs)."""
    if grad is None or to is None:
        return None
    meta = to._input_metadata[number]
    if grad.shape != meta.shape:
        grad = grad.sum_to_size(meta.shape)
    return grad if grad.dtype == meta.dtype else grad.to(meta.dtype)

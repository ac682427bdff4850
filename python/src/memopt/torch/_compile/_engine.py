"""Backward on fake tensors of a device that is not there."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.fx import traceback

from ._differences import marked_as_backward


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Within the block, gradients are computed node by node from Python.

    The engine of autograd, which is in C++, asks each accelerator for its streams before it runs a node, and that
    fails where there is no such device, although fake tensors of the device have no streams. The nodes themselves ask
    for none. Hooks of tensors do not run.
    """
    autograd: Any = torch.autograd
    before = autograd._engine_run_backward
    autograd._engine_run_backward = _run
    try:
        yield
    finally:
        autograd._engine_run_backward = before


def _run(
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
    walk = _Walk([_edge(t) for t in inputs], accumulate=accumulate_grad)
    for t, g in zip(outputs, grads, strict=True):
        edge = _edge(t)
        seed = g if g is not None or isinstance(t, GradientEdge) else torch.ones_like(t)
        walk.add(edge.node, edge.output_nr, seed)
    with torch.set_grad_enabled(create_graph):
        walk.run()
    return tuple(walk.found.get((e.node, e.output_nr)) for e in walk.wanted)


def _edge(t: torch.Tensor | GradientEdge) -> GradientEdge:
    return t if isinstance(t, GradientEdge) else get_gradient_edge(t)


class _Walk:
    """One pass through a graph of autograd, its latest nodes first, each when all of its gradients are there."""

    def __init__(self, wanted: list[GradientEdge], *, accumulate: bool) -> None:
        self.wanted, self.accumulate = wanted, accumulate
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
            given[number] = grad if before is None else before + grad

    def run(self) -> None:
        """Runs all nodes."""
        waits = self.waits = self._waits()
        ready = [(_turn(n), i, n) for i, n in enumerate(dict.fromkeys(self.roots)) if waits.get(n) == 0]
        heapq.heapify(ready)
        count = len(ready)
        while ready:
            _, _, node = heapq.heappop(ready)
            for (to, number), grad in zip(node.next_functions, self._grads(node), strict=False):
                if to not in waits:
                    continue
                self._give(to, number, grad)
                waits[to] -= 1
                if not waits[to]:
                    count += 1
                    heapq.heappush(ready, (_turn(to), count, to))

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
                variable.grad = given[0] if variable.grad is None else variable.grad + given[0]
            return ()
        if all(g is None for g in given):
            return (None,) * count
        if not any(to is not None and to in self.waits for to, _ in node.next_functions):
            return ()
        with _told(node):
            grads = node(*given)  # type: ignore[operator]
        grads = grads if isinstance(grads, tuple) else (grads,)
        return tuple(_fitted(g, *edge) for g, edge in zip(grads, node.next_functions, strict=False))


def _turn(node: Node) -> int:
    """The later a node was made, the earlier its turn; a leaf's is at once."""
    return -node._sequence_nr() if node.next_functions else -(1 << 62)


@contextlib.contextmanager
def _told(node: Node) -> Iterator[None]:
    """Tells a tracer which forward operator a node is of, as AOTAutograd's hooks of nodes do."""
    metadata: Any = node.metadata
    traceback.set_stack_trace(metadata.get("traceback_", []))
    traceback.set_grad_fn_seq_nr(node._sequence_nr())
    try:
        with marked_as_backward():
            yield
    finally:
        traceback.reset_grad_fn_seq_nr()


def _fitted(grad: torch.Tensor | None, to: Node | None, number: int) -> torch.Tensor | None:
    """A gradient in the shape and the type of the result that it is of (Engine::validate_outputs)."""
    if grad is None or to is None:
        return None
    meta = to._input_metadata[number]
    if grad.shape != meta.shape:
        grad = grad.sum_to_size(meta.shape)
    return grad if grad.dtype == meta.dtype else grad.to(meta.dtype)

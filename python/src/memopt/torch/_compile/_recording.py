"""The calls of compiled graphs in a step: the values that go from one to the next, and operators in between."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .._workspace import highest
from ._part import Part
from ._whole import Op, Place, Run

# Backward functions that hand on the memory of the gradient that they are given.
_PASSING = re.compile(r"(View|UnsafeView|Reshape\w*|Alias|T|Transpose|Permute|Squeeze|Unsqueeze)Backward\d*")

# Backward functions of operators whose result is a view of their argument, and whose gradient has memory of its own.
_VIEWING = re.compile(r"(Slice|Select|Split\w*|Unbind|Expand|Diagonal|Unfold|AsStrided|Chunk|Narrow)Backward\d*")

# Backward functions that only compute gradients: those that PyTorch generates of its formulas.
_FORMULA = re.compile(r"\w+Backward\d+")

# References to a tensor while `_is_held` asks: its own variable and the argument of getrefcount.
_ASKING = 2


@dataclasses.dataclass
class _Given:
    """An argument of a graph without a gradient, which may have been there before the step, as a batch, or have been
    made in it, as a mask.

    Attributes:
        ref: a reference to the tensor whose memory it has.
        held: the program refers to that tensor when the backward half begins.
    """

    place: Place
    size: int
    ref: Any
    storages: list[StorageWeakRef]
    held: bool = True

    def is_from_before(self) -> bool:
        """Whether it was there before the step: the program holds it longer than the step's own tensors."""
        return self.held or not all(s.expired() for s in self.storages)  # type: ignore[no-untyped-call]


class _Gradient(NamedTuple):
    """The memory of a gradient: whether it is that of the gradient that the function was given, and its bytes."""

    passed: bool
    bytes: int


# By storage: the value; None for those that were there before the step.
Known = dict[int, tuple[Place | None, StorageWeakRef]]


class Recording:
    """Notes one step while it runs.

    Args:
        before: storages that were there before the step, as those of a model (``by_address``); None where these are not
            known, so that leaves that need gradients count in given_bytes.
        wanted: it is known that the step is planned as a whole; else ``want`` says so, before its backward half.

    Attributes:
        runs: the calls until now.
        ops: backward functions of operators that PyTorch runs between the graphs.
        tail: those behind the last graph, as numbers.
        roots: the results that the backward half begins with, as losses, and the bytes of their gradients.
        over: the backward half has begun.
        given_bytes: the bytes of arguments that were there before the step, those of ``before`` left out.
    """

    def __init__(self, before: Known | None = None, *, wanted: bool = True) -> None:
        self.wanted = wanted
        self.runs: list[Run] = []
        self.ops: list[Op] = []
        self.tail: list[int] = []
        self.roots: dict[Place, int] = {}
        self.over = False
        self.given_bytes = 0
        self._known: Known = dict(before or {})
        self._leaves_count = before is None
        self._given: list[_Given] = []
        self._nodes: dict[int, tuple[int, Any]] = {}  # by a graph's node of autograd: the index of the run
        self._functions: dict[int, tuple[int, Any]] = {}  # by another node: its number in ops
        self._todo: list[tuple[int, Any]] = []
        self._formulas: dict[int, Any] = {}  # by number in ops: nodes of autograd that are not measured yet
        self._results: dict[tuple[int, int], Any] = {}
        self._places: dict[tuple[int, int], int] = {}  # by run and output of its node: the place of the result

    @property
    def ops_bytes(self) -> int:
        """The bytes that operators outside of the graphs make: results, saved values and gradients."""
        return sum(op.made_bytes + op.saved_bytes + sum(size for _, size in op.gives) for op in self.ops)

    def begin(self) -> None:
        """The step begins. Operators behind its last graph are found when the backward half is asked for."""
        _noted.add(self)
        torch.autograd.backward = _backward

    def want(self) -> None:
        """The step is planned as a whole, since a graph of it is new."""
        self.wanted = True
        self._measure()

    def end(self) -> None:
        """The step is over, or it is noted no more."""
        _noted.discard(self)
        if not _noted and torch.autograd.backward is _backward:
            torch.autograd.backward = _original
        for d in (self._known, self._results, self._nodes, self._functions, self._formulas):
            d.clear()

    def asked(self, roots: Sequence[torch.Tensor]) -> None:
        """The backward half of some tensors is asked for."""
        if self.runs and not self.over:
            self.tail = self._walk(len(self.ops), ((t.grad_fn, t.output_nr) for t in roots))
            for t in roots:
                if (to := self._follow(t.grad_fn, t.output_nr)) is not None:
                    self.roots[to] = t.nbytes

    def call(self, part: Part, arguments: Sequence[Any]) -> None:
        """A graph is called."""
        run, begin = Run(part), len(self.ops)
        given = [(i, t) for i, t in enumerate(arguments) if isinstance(t, torch.Tensor)]
        for i, t in given:
            self._argument(run, i, t)
        run.eager = self._walk(begin, ((t.grad_fn, t.output_nr) for _, t in given if t.grad_fn is not None))
        for i, t in given:
            if t.grad_fn is not None and (to := self._follow(t.grad_fn, t.output_nr)) is not None:
                run.gives[i] = to
        self.runs.append(run)

    def _argument(self, run: Run, i: int, t: torch.Tensor) -> None:
        if type(t) is nn.Parameter and self._known.get(t.untyped_storage()._cdata, ("",))[0] is None:
            return  # as most arguments: a parameter that was there before the step
        r = len(self.runs)
        place = None if t.is_leaf and t.requires_grad else Place("made", r, i)
        if (k := self._maker(t)) is not None:
            place = Place("out", k, 0)
        size, made, new = 0, None, []
        for s in storages(t):
            if s._cdata not in self._known:
                size += s.nbytes()
                new.append(_weak(s))
                self._known[s._cdata] = (place, new[-1])
            elif (found := self._known[s._cdata][0]) is not None:
                made = found
        if made is not None:
            run.given[i] = made
        elif size and place is None:
            self.given_bytes += size if self._leaves_count else 0
        elif k is not None:
            run.given[i] = Place("out", k, 0)
            if not self.ops[k].views:
                self.ops[k].made_bytes = size
        elif size:
            run.made[i] = size
            if t.grad_fn is None:
                self._given.append(_Given(Place("made", r, i), size, weakref.ref(_base(t)), new))

    def _walk(self, begin: int, roots: Iterable[tuple[Any, int]]) -> list[int]:
        """Notes operators from nodes of autograd on; the numbers of those from begin on, as they run backward."""
        for node, output in roots:
            self._follow(node, output)
        while self._todo:
            k, node = self._todo.pop()
            op = self.ops[k]
            for i, (n, output) in enumerate(node.next_functions):
                to = self._follow(n, output)
                if to is not None:
                    op.gives.append((to, _gradient_bytes(n, output)))
                    op.slots.append(i)
            self._keep(k, _saved(node))
            if _FORMULA.fullmatch(node.name()) and all(m.device.type == "cpu" for m in node._input_metadata):
                self._formulas[k] = node
        if self.wanted:
            self._measure()
        order = {k: node._sequence_nr() for k, node in self._functions.values()}
        return sorted(range(begin, len(self.ops)), key=lambda k: -order[k])

    def _measure(self) -> None:
        """Runs backward functions by themselves, on zeros, and notes the bytes that they take. PyTorch computes them
        without a graph, so that no schedule has their temporary values."""
        formulas, self._formulas = self._formulas, {}
        grads: dict[int, list[_Gradient | None]] = {}

        def prepare(k: int) -> Callable[[], None]:
            node = formulas[k]
            zeros = [torch.zeros(m.shape, dtype=m.dtype) for m in node._input_metadata]
            known = {z.untyped_storage()._cdata for z in zeros}

            def call() -> None:
                out = node(*zeros)
                found = [
                    None if g is None else g.untyped_storage() for g in (out if isinstance(out, tuple) else (out,))
                ]
                grads[k] = [None if s is None else _Gradient(s._cdata in known, s.nbytes()) for s in found]

            return call

        peaks = highest([(k, functools.partial(prepare, k)) for k in formulas])
        for k, peak in peaks.items():
            op = self.ops[k]
            of = [grads[k][i] if i < len(grads[k]) else None for i in op.slots]
            op.gives = [(to, _given_bytes(to, size, g)) for (to, size), g in zip(op.gives, of, strict=True)]
            op.passes = {x for x, g in enumerate(of) if g is not None and g.passed and not op.gives[x][1]}
            op.workspace = max(0, peak - sum(g.bytes for g in of if g is not None and not g.passed))

    def _follow(self, node: Any, output: int) -> Place | None:
        """The place that a gradient of a node's output goes to."""
        while node is not None:
            known = self._nodes.get(id(node))
            if known is not None and known[1]() is node:
                place = self._places.get((known[0], output))
                return None if place is None else Place("result", known[0], place)
            if type(node).__name__ == "AccumulateGrad":  # the end, which adds it to a parameter's
                return Place("leaf", id(node.variable), node.variable.nbytes)
            if id(node) in self._functions:
                return Place("op", self._functions[id(node)][0], 0)
            if not _PASSING.fullmatch(node.name()):
                k, views = len(self.ops), _VIEWING.fullmatch(node.name()) is not None
                made = 0 if views else sum(_gradient_bytes(node, i) for i in range(len(node._input_metadata)))
                self.ops.append(Op(re.sub(r"Backward\d*$", "", node.name()), views, made))
                self._functions[id(node)] = (k, node)
                self._todo.append((k, node))
                return Place("op", k, 0)
            node, output = node.next_functions[0]
        return None

    def _maker(self, t: torch.Tensor) -> int | None:
        """The number of the operator between graphs whose result a tensor is."""
        to = self._follow(t.grad_fn, t.output_nr)
        return to.at if to is not None and to.kind == "op" else None

    def _keep(self, k: int, saved: list[torch.Tensor]) -> None:
        op = self.ops[k]
        made = [not _is_from_before(saved, i) for i in range(len(saved))]
        for t in itertools.compress(saved, made):
            for s in storages(t):
                if s._cdata not in self._known:
                    maker = self._maker(t)
                    op.saved_bytes += s.nbytes() if maker is None else 0
                    place = Place("saved", k, 0) if maker is None else Place("out", maker, 0)
                    self._known[s._cdata] = (place, _weak(s))
                found = self._known[s._cdata][0]
                if found is not None and found not in (Place("saved", k, 0), *op.keeps):
                    op.keeps.append(found)

    def returned(self, results: Any, node: Any) -> None:
        """A graph has returned; node is its node of autograd."""
        r = len(self.runs) - 1
        if node is not None:
            self._nodes[id(node)] = (r, weakref.ref(node))
        for j, t in enumerate(results if isinstance(results, (tuple, list)) else (results,)):
            if not isinstance(t, torch.Tensor):
                continue
            if node is not None and t.grad_fn is not None:
                base: Any = t.grad_fn
                output = t.output_nr
                while base is not node and base is not None and _PASSING.fullmatch(base.name()):
                    base, output = base.next_functions[0]
                if base is node:
                    self._places.setdefault((r, output), j)
            if j in self.runs[r].part.results:
                for s in storages(t):
                    self._known.setdefault(s._cdata, (Place("result", r, j), _weak(s)))
                self._results[r, j] = weakref.ref(t)
                self.runs[r].held[j] = r
        self._mark(r, skip=r)

    def backward(self) -> None:
        """The backward half of a graph begins."""
        if not self.over:
            self.over = True
            self._collect()
            self._mark(len(self.runs), skip=-1)
            for given in self._given:
                given.held = _is_held(given.ref)
            self.end()

    def _collect(self) -> None:
        """Frees objects that no program refers to: where Dynamo compiles a graph behind a break, it leaves cycles of
        them, which hold the results of graphs before. Later steps have no such cycles."""
        last = len(self.runs) - 1
        if self.wanted and any(q < last and _is_held(ref) for (q, _), ref in self._results.items()):
            gc.collect()

    def settle(self) -> None:
        """Tells arguments that were there before the step from those that were made in it, behind its backward half."""
        before = {g.place: g.size for g in self._given if g.is_from_before()}
        self._given = []
        self.given_bytes += sum(before.values())
        for r, run in enumerate(self.runs):
            run.made = {i: size for i, size in run.made.items() if Place("made", r, i) not in before}
            run.given = {i: p for i, p in run.given.items() if p not in before}
        for op in self.ops:
            op.keeps = [p for p in op.keeps if p not in before]

    def _mark(self, index: int, skip: int) -> None:
        """Notes the results that the program holds, at the end of the run with an index."""
        for (q, j), ref in self._results.items():
            if q != skip and _is_held(ref):
                self.runs[q].held[j] = index


_original = torch.autograd.backward
_noted: weakref.WeakSet[Recording] = weakref.WeakSet()  # the steps that are noted now


@functools.wraps(_original)
def _backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
    roots = [t for t in ([tensors] if isinstance(tensors, torch.Tensor) else tensors) if isinstance(t, torch.Tensor)]
    for step in list(_noted):
        step.asked(roots)
    _original(tensors, *args, **kwargs)


def _is_held(ref: Any) -> bool:
    """Whether a program refers to a tensor; PyTorch holds one itself that autograd has saved."""
    t = ref()
    if t is None:
        return False
    return bool(sys.getrefcount(t) > _ASKING + (t._use_count() > 1))


def _is_from_before(saved: list[torch.Tensor], i: int) -> bool:
    """Whether a saved tensor was there before the step: a parameter, or one without a gradient that the program holds,
    as a buffer. Those that no program holds an operator has made, as the mask of a dropout."""
    base = _base(saved[i])
    if not base.is_leaf:
        return False
    known = _ASKING + sum(t is base for t in saved) + (base._use_count() > 1)
    return bool(base.requires_grad or sys.getrefcount(base) > known)


def _base(t: torch.Tensor) -> torch.Tensor:
    """The tensor of which one is a view, or itself."""
    return t if t._base is None else t._base


def _given_bytes(to: Place, size: int, found: _Gradient | None) -> int:
    """The bytes of a gradient that goes to a place, of those of its elements and of the memory that it was found in."""
    if found is None or (to.kind == "result" and found.bytes < size):
        return size  # AOTAutograd copies a gradient that is one element, which was expanded, for its graph
    return 0 if found.passed else found.bytes


def _gradient_bytes(node: Any, output: int) -> int:
    """The bytes of the gradient of a node's output."""
    known = getattr(node, "_input_metadata", None) or ()
    if output >= len(known):
        return 0
    n: int = known[output].dtype.itemsize
    for d in known[output].shape:
        n *= int(d)
    return n


def by_address(before: Iterable[torch.UntypedStorage]) -> Known:
    """Storages that were there before a step."""
    return {s._cdata: (None, _weak(s)) for s in before}


def _weak(s: torch.UntypedStorage) -> StorageWeakRef:
    """A reference that keeps the address of a storage from being used again."""
    return StorageWeakRef(s)  # type: ignore[no-untyped-call]


def storages(t: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    """The storages of a tensor; of one of a subclass, those of the tensors inside."""
    if is_traceable_wrapper_subclass(t):
        for name in t.__tensor_flatten__()[0]:
            inner = getattr(t, name)
            if isinstance(inner, torch.Tensor):
                yield from storages(inner)
    elif t.layout == torch.strided:
        yield t.untyped_storage()


def _saved(node: Any) -> list[torch.Tensor]:
    """The tensors that a node of autograd keeps for the backward half."""
    found = list(getattr(node, "saved_tensors", None) or ())
    for name in dir(node):
        if name.startswith("_saved_"):
            v = getattr(node, name)
            found += v if isinstance(v, (tuple, list)) else [v]
    return [t for t in found if isinstance(t, torch.Tensor)]

"""PyTorch's caching allocator of CUDA memory, by its rules (c10/cuda/CUDACachingAllocator.cpp)."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ._replay import Replay

BLOCK = 512  # every block is a multiple of it
_SMALL = 1 << 20  # up to so many bytes a block is small
_SMALL_SEGMENT = 2 << 20  # the segment that small blocks are cut out of
_LARGE_SEGMENT = 20 << 20  # the segment for large blocks below _OWN
_OWN = 10 << 20  # a block from this size on has a segment for itself, a multiple of _ROUND
_ROUND = 2 << 20


def rounded(size: int) -> int:
    """The bytes of a block for so many."""
    return -(-size // BLOCK) * BLOCK


@dataclass
class _Piece:
    """A part of a segment, in use or free."""

    size: int
    number: int  # unique, so that pieces of one size have an order
    before: _Piece | None = None
    behind: _Piece | None = None
    free: bool = False


@dataclass
class Allocator:
    """Segments of the device's memory, out of which blocks are cut: the best fit in size, the rest free again.

    Attributes:
        reserved: bytes of all segments; none is given back to the device.
        allocated: bytes of blocks that are in use.
    """

    reserved: int = 0
    allocated: int = 0
    _free: dict[bool, list[tuple[int, int, _Piece]]] = field(default_factory=lambda: {True: [], False: []})
    _count: int = 0

    def take(self, size: int) -> _Piece:
        """A block for so many bytes."""
        size = max(rounded(size), BLOCK)
        small = size <= _SMALL
        free = self._free[small]
        at = bisect.bisect_left(free, (size, -1))
        piece = free.pop(at)[2] if at < len(free) else self._segment(size)
        piece.free = False
        rest = piece.size - size
        if rest >= BLOCK if small else rest > _SMALL:
            piece.size = size
            behind = self._piece(rest, piece, piece.behind)
            if piece.behind is not None:
                piece.behind.before = behind
            piece.behind = behind
            self._put(behind, small)
        self.allocated += piece.size
        return piece

    def give(self, piece: _Piece, size: int) -> None:
        """Gives a block up, which took so many bytes; free neighbours become one with it."""
        small = rounded(size) <= _SMALL
        self.allocated -= piece.size
        before, behind = piece.before, piece.behind
        if behind is not None and behind.free:
            self._drop(behind, small)
            piece.size += behind.size
            piece.behind = behind.behind
            if piece.behind is not None:
                piece.behind.before = piece
        if before is not None and before.free:
            self._drop(before, small)
            before.size += piece.size
            before.behind = piece.behind
            if before.behind is not None:
                before.behind.before = before
            piece = before
        self._put(piece, small)

    def _segment(self, size: int) -> _Piece:
        if size <= _SMALL:
            whole = _SMALL_SEGMENT
        elif size < _OWN:
            whole = _LARGE_SEGMENT
        else:
            whole = -(-size // _ROUND) * _ROUND
        self.reserved += whole
        return self._piece(whole, None, None)

    def _piece(self, size: int, before: _Piece | None, behind: _Piece | None) -> _Piece:
        self._count += 1
        return _Piece(size, self._count, before, behind)

    def _put(self, piece: _Piece, small: bool) -> None:
        piece.free = True
        bisect.insort(self._free[small], (piece.size, piece.number, piece))

    def _drop(self, piece: _Piece, small: bool) -> None:
        free = self._free[small]
        del free[bisect.bisect_left(free, (piece.size, piece.number))]


def reserved_bytes(held: Iterable[int], graphs: Sequence[tuple[Replay, int]]) -> int:
    """The bytes of the segments that a step takes.

    Args:
        held: sizes of the tensors that are there before the step.
        graphs: those of the step, each with the step of its schedule at which its backward half begins. The halves
            before run in order, those behind the other way round.
    """
    allocator = Allocator()
    for size in held:
        allocator.take(size)
    runs = [_Run(allocator, replay) for replay, _ in graphs]
    for run, (_, middle) in zip(runs, graphs, strict=True):
        run.steps(0, middle)
    for run, (replay, middle) in reversed(list(zip(runs, graphs, strict=True))):
        run.steps(middle, len(replay.work))
    return allocator.reserved


class _Run:
    """The blocks of one graph in an allocator."""

    def __init__(self, allocator: Allocator, replay: Replay) -> None:
        self.allocator, self.replay = allocator, replay
        self.pieces: dict[int, _Piece] = {}  # by block: its memory
        self.made: dict[int, list[int]] = {}
        self.until: dict[int, list[int]] = {}
        for i, b in enumerate(replay.blocks):
            if b.bytes:
                self.made.setdefault(b.made, []).append(i)
                self.until.setdefault(b.until, []).append(i)

    def steps(self, first: int, end: int) -> None:
        """Runs some steps. Values that are there at the last one of all stay: they are gradients."""
        blocks, last = self.replay.blocks, len(self.replay.work) - 1
        for step in range(first, end):
            for i in self.made.get(step, ()):
                self.pieces[i] = self.allocator.take(blocks[i].bytes)
            if work := self.replay.work[step]:
                self.allocator.give(self.allocator.take(work), work)
            for i in self.until.get(step, ()) if step < last else ():
                self.allocator.give(self.pieces.pop(i), blocks[i].bytes)

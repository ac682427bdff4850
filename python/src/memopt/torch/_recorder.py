"""Storages that PyTorch's operators make, followed until they are freed."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass
class Storage:
    """Memory that a tensor and its views share.

    Attributes:
        bytes: its size.
        held: it is there before the recording: a parameter, a buffer or an input.
        kept: it is made while recording and still there at the end: the gradient of a parameter.
        cached: ``torch.autocast`` keeps it until its context ends: a parameter in another type.
        made: the operator that makes it, by its number; -1 for a held one.
        freed: the last operator during which it is there; -1 while it lives.
    """

    bytes: int
    held: bool = False
    kept: bool = False
    cached: bool = False
    made: int = -1
    freed: int = -1


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Numbers operators below autograd and follows their storages by weak references.

    Attributes:
        storages: all that were seen, by number.
        count: how many operators have been numbered.
    """

    def __init__(self, held: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storages: list[Storage] = []
        self.count = 0
        self._live: dict[int, tuple[int, weakref.ref[Any]]] = {}  # by storage in C++: its number
        self.hold(held)

    def hold(self, tensors: Iterable[torch.Tensor]) -> int:
        """Notes tensors that are held before the recording; the bytes of the tensors that were not noted yet."""
        return sum(self.storages[self.follow(t, held=True)].bytes for t in tensors if self.number(t) < 0)

    def number(self, t: torch.Tensor) -> int:
        """The number of a tensor's storage; -1 if it was not seen."""
        known = self._live.get(t.untyped_storage()._cdata)
        return -1 if known is None else known[0]

    def follow(self, t: torch.Tensor, *, held: bool) -> int:
        """Numbers a tensor's storage and notes when it is freed."""
        storage = t.untyped_storage()
        key, number = storage._cdata, len(self.storages)
        self.storages.append(Storage(storage.nbytes(), held=held, made=-1 if held else self.count))
        self._live[key] = (number, weakref.ref(storage, lambda _: self._freed(key, number)))
        return number

    def _freed(self, key: int, number: int) -> None:
        if self._live.get(key, (-1,))[0] == number:
            del self._live[key]
        self.storages[number].freed = self.count - 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = _tensors((args, kwargs))
        out = self.call(func, args, kwargs, given)
        if func is not torch.ops.aten.detach.default:  # a view, which autograd also makes of tensors that it saves
            made = _tensors(out)
            # An operator whose argument was never seen comes after one that no dispatch shows, such as torch.tensor.
            fresh = [self.follow(t, held=False) for t in (*given, *made) if self.number(t) < 0]
            self.note(func, args, kwargs, given, out, made, fresh)
        return out

    def call(self, func: Any, args: Any, kwargs: Any, given: list[torch.Tensor]) -> Any:
        """Runs an operator."""
        return func(*args, **kwargs)

    def note(
        self,
        func: Any,
        args: Any,
        kwargs: Any,
        given: list[torch.Tensor],
        out: Any,
        made: list[torch.Tensor],
        fresh: list[int],
    ) -> None:
        """Numbers an operator that has run, of which fresh are the storages that it made."""
        self.count += 1

    def settle(self) -> None:
        """Notes at the end which storages are kept, and ends following them."""
        for number, _ in self._live.values():
            self.storages[number].kept = not self.storages[number].held
        self._live.clear()
        for s in self.storages:
            if s.held or s.kept:
                s.freed = -1

    @property
    def peak_bytes(self) -> int:
        """The most bytes at one time beyond held storages."""
        return peak_of(self.storages, [0] * self.count)


def _tensors(tree: Any) -> list[torch.Tensor]:
    """The tensors with storages in arguments or results: of a sparse one its indices and values."""
    out = []
    for leaf in tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            if leaf.layout == torch.sparse_coo:
                out += [leaf._indices(), leaf._values()]
            elif leaf.layout == torch.strided:
                out.append(leaf)
    return out


def peak_of(storages: list[Storage], work: list[int]) -> int:
    """The most bytes at one time beyond held storages, where each operator takes work beside its storages."""
    return max(levels_of(storages, work), default=0)


def levels_of(storages: list[Storage], work: list[int]) -> list[int]:
    """By operator, the bytes beyond held storages while it runs; it takes work beside its storages."""
    change = [0] * (len(work) + 1)
    for s in storages:
        if s.made >= 0:
            change[s.made] += s.bytes
            if s.freed >= 0:
                change[s.freed + 1] -= s.bytes
    now = 0
    levels = []
    for delta, more in zip(change, work, strict=False):
        now += delta
        levels.append(now + more)
    return levels

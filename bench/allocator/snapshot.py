"""Writes snapshots of PyTorch's allocator without a GPU: a training step on the CPU is recorded, storage by storage,
and its requests go through a port of the allocator that shares nothing with memopt's (sim/allocator).

    python snapshot.py OUT.pickle --limit MIB [--expandable] [--width N] [--ragged]

The pickle has the form of torch.cuda.memory._dump_snapshot; torch.cuda._memory_viz reads it. Memory ends at --limit.
"""

from __future__ import annotations

import argparse
import pickle
import traceback
import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MIB = 1 << 20


class OutOfMemory(Exception):
    """The device has no memory."""


class Device:
    """Segments with lists of blocks [address, size, asked, held, frames], which are searched from end to end."""

    def __init__(self, limit: int, expandable: bool) -> None:
        self.limit, self.expandable = limit, expandable
        self.segments: list[dict[str, Any]] = []
        self.trace: list[dict[str, Any]] = []
        self.next = 0x7F0000000000
        self.peak = 0

    def note(self, action: str, addr: int, size: int, frames: list[Any], **more: int) -> None:
        entry = {"action": action, "addr": addr, "size": size, "stream": 0, "frames": frames}
        self.trace.append({**entry, "time_us": len(self.trace), **more})

    def reserved(self) -> int:
        return sum(b[1] for s in self.segments for b in s["blocks"])

    def alloc(self, asked: int, frames: list[Any]) -> int:
        size = max(-(-asked // 512) * 512, 512)
        small = size <= MIB
        block = self.find(size, small) or self.grow(size, small, frames)
        if block is None:
            self.empty(frames)
            block = self.grow(size, small, frames)
        if block is None:
            free = self.limit - self.reserved()
            self.trace.append({"action": "oom", "size": size, "stream": 0, "frames": frames, "device_free": free})
            raise OutOfMemory(size)
        segment, i = block
        blocks = segment["blocks"]
        rest = blocks[i][1] - size
        if rest >= 512 if small or self.expandable else rest > MIB:
            blocks.insert(i + 1, [blocks[i][0] + size, rest, 0, False, []])
            blocks[i][1] = size
        blocks[i][2:] = [asked, True, frames]
        self.note("alloc", blocks[i][0], asked, frames)
        self.peak = max(self.peak, self.reserved())
        return blocks[i][0]

    def find(self, size: int, small: bool) -> tuple[dict[str, Any], int] | None:
        fits = [
            (b[1], b[0], s, i)
            for s in self.segments
            if s["small"] == small
            for i, b in enumerate(s["blocks"])
            if not b[3] and b[1] >= size
        ]
        if not fits:
            return None
        fits.sort(key=lambda x: x[:2])

        def reach(fit: tuple[int, int, dict[str, Any], int]) -> int:
            """A free block at the end of an expandable segment is as large as it can grow."""
            size, _, segment, i = fit
            return size + (1 << 40 if self.expandable and i == len(segment["blocks"]) - 1 else 0)

        at = 0
        while self.expandable and at + 1 < len(fits) and reach(fits[at + 1]) < reach(fits[at]):
            at += 1
        return fits[at][2:]

    def grow(self, size: int, small: bool, frames: list[Any]) -> tuple[dict[str, Any], int] | None:
        if self.expandable:
            return self.extend(size, small, frames)
        whole = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if self.reserved() + whole > self.limit:
            return None
        segment = {"small": small, "addr": self.next, "blocks": [[self.next, whole, 0, False, []]]}
        self.segments.append(segment)
        self.note("segment_alloc", self.next, whole, frames)
        self.next += whole
        return segment, 0

    def extend(self, size: int, small: bool, frames: list[Any]) -> tuple[dict[str, Any], int] | None:
        """Grows the only expandable segment of the pool at its end; pages are never unmapped in the middle."""
        page = 2 * MIB if small else 20 * MIB
        segment = next((s for s in self.segments if s["small"] == small), None)
        if segment is None:
            segment = {"small": small, "addr": 0x7E0000000000 + (0 if small else 1 << 38), "blocks": []}
            self.segments.append(segment)
        blocks = segment["blocks"]
        end = blocks[-1][0] + blocks[-1][1] if blocks else segment["addr"]
        have = blocks[-1][1] if blocks and not blocks[-1][3] else 0
        more = -(-(size - have) // page) * page
        if self.reserved() + more > self.limit:
            return None
        if have:
            blocks[-1][1] += more
        else:
            blocks.append([end, more, 0, False, []])
        self.note("segment_map", end, more, frames)
        return segment, len(blocks) - 1

    def free(self, addr: int) -> None:
        for segment in self.segments:
            blocks = segment["blocks"]
            for i, b in enumerate(blocks):
                if b[0] == addr and b[3]:
                    for action in ("free_requested", "free_completed"):
                        self.note(action, addr, b[2], b[4])
                    b[2:] = [0, False, []]
                    if i + 1 < len(blocks) and not blocks[i + 1][3]:
                        b[1] += blocks.pop(i + 1)[1]
                    if i > 0 and not blocks[i - 1][3]:
                        blocks[i - 1][1] += blocks.pop(i)[1]
                    return

    def empty(self, frames: list[Any]) -> None:
        """Gives whole free segments back, large ones first, by size and address."""
        if self.expandable:
            return
        free = [s for s in self.segments if len(s["blocks"]) == 1 and not s["blocks"][0][3]]
        for s in sorted(free, key=lambda s: (s["small"], s["blocks"][0][1], s["addr"])):
            self.note("segment_free", s["addr"], s["blocks"][0][1], frames)
            self.segments.remove(s)

    def snapshot(self) -> dict[str, Any]:
        segments = []
        for s in sorted(self.segments, key=lambda s: s["addr"]):
            blocks = [
                {
                    "address": b[0],
                    "size": b[1],
                    "requested_size": b[2],
                    "state": "active_allocated" if b[3] else "inactive",
                    "frames": b[4],
                }
                for b in s["blocks"]
            ]
            held = sum(b[1] for b in s["blocks"] if b[3])
            segments.append(
                {
                    "device": 0,
                    "address": s["addr"],
                    "total_size": sum(b[1] for b in s["blocks"]),
                    "allocated_size": held,
                    "active_size": held,
                    "requested_size": sum(b[2] for b in s["blocks"]),
                    "stream": 0,
                    "segment_type": "small" if s["small"] else "large",
                    "segment_pool_id": (0, 0),
                    "is_expandable": self.expandable,
                    "frames": [],
                    "blocks": blocks,
                }
            )
        conf = "expandable_segments:True" if self.expandable else ""
        settings = {"PYTORCH_CUDA_ALLOC_CONF": conf, "expandable_segments": self.expandable}
        return {"segments": segments, "device_traces": [self.trace], "allocator_settings": settings}


def short(path: str) -> str:
    """A path without the folders of this machine."""
    return path[path.find("site-packages/") :] if "site-packages/" in path else path.split("/")[-1]


class Record(TorchDispatchMode):
    """Tells a device of every storage that operators make, and of its end."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self.seen: set[int] = set()
        self.stacks: dict[Any, list[Any]] = {}

    def frames(self) -> list[Any]:
        found = [f for f in reversed(traceback.extract_stack()) if f.filename != __file__ or f.name != "frames"]
        key = tuple((f.filename, f.lineno, f.name) for f in found[2:])
        return self.stacks.setdefault(key, [{"filename": short(f), "line": n, "name": m} for f, n, m in key])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for t in torch.utils._pytree.tree_leaves(out):
            if not isinstance(t, torch.Tensor):
                continue
            storage = t.untyped_storage()
            if not storage.nbytes() or storage._cdata in self.seen:
                continue
            self.seen.add(storage._cdata)
            addr = self.device.alloc(storage.nbytes(), self.frames())
            weakref.finalize(storage, self.gone, storage._cdata, addr)
        return out

    def gone(self, key: int, addr: int) -> None:
        self.seen.discard(key)
        self.device.free(addr)


class Block(torch.nn.Module):
    """A residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def train(width: int, layers: int, ragged: bool) -> None:
    model = torch.nn.Sequential(*(Block(width) for _ in range(layers)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for step in range(6):
        rows = 512 + 128 * step if ragged else 512
        loss = model(torch.randn(rows, width)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--limit", type=int, default=1 << 20, help="MiB of the device")
    parser.add_argument("--expandable", action="store_true")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--ragged", action="store_true", help="each batch is larger than the one before")
    args = parser.parse_args()
    device = Device(args.limit * MIB, args.expandable)
    with Record(device):
        try:
            train(args.width, args.layers, args.ragged)
        except OutOfMemory:
            pass
        snapshot = device.snapshot()
    with open(args.out, "wb") as f:
        pickle.dump(snapshot, f)
    print(len(device.trace), "events, reserved", device.peak, "bytes at most")


if __name__ == "__main__":
    main()

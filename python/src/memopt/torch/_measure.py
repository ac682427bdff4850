"""What a step takes: bytes and time."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import distributed

from ._state import gpus_used


@dataclass(frozen=True)
class Usage:
    """What a step took.

    Attributes:
        peak_bytes: the most bytes at one time that the step took of the allocator beyond what there was before.
        left_bytes: what it left, as a rule the gradients.
        seconds: the time of the quickest run.
        median_seconds: the time of the median run.
        events: calls of the allocator in one step on the CPU; 0 on a GPU.
        device: "cpu" or "cuda".
        reserved_bytes: on a GPU, the peak of what the allocator had reserved of the device; else 0.
    """

    peak_bytes: int
    left_bytes: int
    seconds: float
    median_seconds: float
    events: int
    device: str
    reserved_bytes: int = 0

    def __str__(self) -> str:
        text = (
            f"peak {self.peak_bytes / 2**20:.2f} MiB beyond what was there before, {self.left_bytes / 2**20:.2f} MiB "
            f"left; {1e3 * self.seconds:.1f} ms (median {1e3 * self.median_seconds:.1f})"
        )
        if self.reserved_bytes:
            text += f"; reserved {self.reserved_bytes / 2**20:.2f} MiB"
        return text


def measure(
    step: Callable[[], Any], *, warmup: int = 1, repeat: int = 1, device: str | None = None, show: bool = True
) -> Usage:
    """Measures a step: a function without arguments that runs forward and backward.

    The step should free gradients of the step before first, as ``optimizer.zero_grad()`` does, and keep nothing.
    On the CPU the peak is the running sum of all events of the allocator that ``torch.profiler`` records; on a GPU
    it is what ``torch.cuda.memory_stats`` says.

    Args:
        warmup: steps that are not measured.
        repeat: steps whose time is taken, at least one.
        device: "cpu" or "cuda"; default cuda where it has been used, else cpu.
        show: print the result.
    """
    if repeat < 1 or warmup < 0:
        raise ValueError(f"warmup={warmup}, repeat={repeat}: wanted at least 0 and 1")
    if device is None:
        device = "cuda" if gpus_used() else "cpu"
    meter = Meter(device)
    for _ in range(warmup):
        step()
    times = []
    for _ in range(repeat):
        begin = _now(device)
        step()
        times.append(_now(device) - begin)
    gc.collect()
    meter.start()
    step()
    m = meter.stop()
    u = Usage(m.peak, m.left, min(times), statistics.median(times), m.events, device, m.reserved)
    if show:
        print(u)
    return u


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Measured(NamedTuple):
    """Bytes between start and stop of a Meter, as Usage has them."""

    peak: int
    left: int
    events: int = 0
    reserved: int = 0


class Meter:
    """Counts the bytes that the allocator of a device hands out from start to stop.

    On the CPU both are called in one thread, outside of a backward half, and no other profiler may run between them.
    """

    def __init__(self, device: str) -> None:
        if device not in ("cpu", "cuda"):
            raise ValueError(f"device={device!r}: wanted 'cpu' or 'cuda'")
        self.device = device
        self._profile: Any = None
        self._before = 0
        self._marked: Measured | int | None = None

    def start(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated()
            return
        # gloo's threads free arguments of collectives, which no profiler sees.
        _counts_all_threads().value = distributed.is_available() and distributed.is_initialized()
        self._profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
        self._profile.start()

    def mark(self) -> None:
        """Leaves out the time between now and stop. A backward half may call it (queue_callback)."""
        self._marked = self._on_gpu() if self.device == "cuda" else time.time_ns()

    def stop(self) -> Measured:
        if self.device == "cuda":
            torch.cuda.synchronize()
            return self._marked if isinstance(self._marked, Measured) else self._on_gpu()
        self._profile.stop()
        _counts_all_threads().value = False
        sizes = allocations(self._profile, self._marked if isinstance(self._marked, int) else None)
        self._profile = None
        now = top = 0
        for n in sizes:
            now += n
            top = max(top, now)
        return Measured(top, now, len(sizes))

    def _on_gpu(self) -> Measured:
        stats = torch.cuda.memory_stats()
        return Measured(
            stats["allocated_bytes.all.peak"] - self._before,
            torch.cuda.memory_allocated() - self._before,
            reserved=stats["reserved_bytes.all.peak"],
        )


@functools.cache
def _counts_all_threads() -> ctypes.c_bool:
    """The switch of the CPU's allocator to count the blocks of threads that have no profiler; one without effect where
    its library has none."""
    for name in ("libc10.so", "libc10.dylib"):
        with contextlib.suppress(OSError, ValueError):
            library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name))
            return ctypes.c_bool.in_dll(library, "FLAGS_caffe2_report_cpu_memory_usage")
    return ctypes.c_bool()


def allocations(prof: Any, until: int | None = None) -> list[int]:
    """The bytes of the events of the CPU's allocator in order; what is freed is negative. What was allocated before
    is no part of a step when it is freed in it. What other threads took and freed since the event before is one more.
    until: events behind this time, in ns, are left out."""
    found: list[tuple[int, int, int, int, int]] = []
    stack = list(prof.profiler.kineto_results.experimental_event_tree())
    while stack:
        event = stack.pop()
        stack.extend(event.children)
        if event.tag == torch._C._profiler._EventType.Allocation:
            fields = event.extra_fields
            if fields.device.type == "cpu" and (until is None or event.start_time_ns <= until):
                found.append((event.start_time_ns, len(found), fields.alloc_size, fields.ptr, fields.total_allocated))
    # Events of one instant lie in the tree in their order, which the stack has turned around.
    found.sort(key=lambda e: (e[0], -e[1]))
    own = set()
    out = []
    last = None
    for _, _, size, pointer, total in found:
        if last is not None and total != last + size:
            out.append(total - last - size)
        last = total
        if size > 0:
            own.add(pointer)
        elif pointer in own:
            own.remove(pointer)
        else:
            continue
        out.append(size)
    return out

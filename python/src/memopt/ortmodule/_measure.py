"""Measures the peak of one step: on a GPU by PyTorch's allocator, which ORTModule uses, on the CPU by the memory that
is resident in the process."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from typing import Any

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Meter:
    """The peak of memory from its making to ``stop``, beyond what was there when it was made.

    Attributes:
        how: names the measure for a reader.
    """

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch, self._device = torch, device
        self._cuda = getattr(device, "type", "cpu") == "cuda"
        self.how = "PyTorch's allocator" if self._cuda else "resident memory of the process"
        self._start = self._begin()

    def _begin(self) -> int | None:
        if self._cuda:
            self._torch.cuda.reset_peak_memory_stats(self._device)
            return int(self._torch.cuda.memory_allocated(self._device))
        _trim()
        try:
            _CLEAR.write_text("5", encoding="ascii")  # the peak of resident memory begins anew
        except OSError:
            return None
        return _resident("VmRSS")

    def stop(self) -> int | None:
        """The peak in bytes; None where the system does not say it."""
        if self._start is None:
            return None
        if self._cuda:
            return int(self._torch.cuda.max_memory_allocated(self._device)) - self._start
        peak = _resident("VmHWM")
        return None if peak is None else peak - self._start


def _trim() -> None:
    """Gives free memory of the heap back to the system, so that the step's own use of it is seen."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        if trim is not None:
            trim(0)


def _resident(field: str) -> int | None:
    try:
        found = re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None

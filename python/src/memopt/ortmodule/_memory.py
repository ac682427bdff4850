"""Files in memory alone, for programs that exchange files: they are gone when the last of their processes has ended."""

from __future__ import annotations

import os
from types import TracebackType


class MemoryFile:
    """An empty file in memory until the end of its ``with``.

    Attributes:
        fd: its descriptor, for ``memopt.run``.
        path: names it in this process, and in those that have the descriptor under the same number.
    """

    def __init__(self, name: str) -> None:
        self.fd = os.memfd_create(name)
        self.path = f"/proc/self/fd/{self.fd}"

    def read(self) -> bytes:
        """The contents."""
        with open(self.path, "rb") as f:
            return f.read()

    def __enter__(self) -> MemoryFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self.fd)

"""Schedules of instances, replayed: the values that are there at each step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# The step of a schedule between the halves: the loss is there, and autograd makes the first gradient.
HANDOVER = "the backward half begins"


@dataclass(frozen=True)
class Block:
    """A value that a step makes.

    Attributes:
        value: its id.
        node: the id of the node that computes it.
        bytes: its size.
        made: the step that makes it.
        until: the last step at which it is there.
    """

    value: str
    node: str
    bytes: int
    made: int
    until: int


class Replay:
    """A schedule of an instance of ``memopt solve`` (docs/instances.md), step by step. A step computes a node.

    Attributes:
        computed: by step, the id of its node.
        work: by step, the bytes of its node's workspace.
        blocks: the values that steps make, workspaces left out, in the order of the steps.
        peak_bytes: the most bytes at one time.
        peak: the step at which that is so.
    """

    def __init__(self, instance: Mapping[str, Any], steps: Iterable[Mapping[str, str]]) -> None:
        nodes = {n["id"]: n for n in instance["nodes"]}
        self.computed: list[str] = []
        self.work: list[int] = []
        self.blocks: list[Block] = []
        live: dict[str, Block] = {}
        for step in steps:
            if "free" in step:
                b = live.pop(step["free"])
                self.blocks.append(Block(b.value, b.node, b.bytes, b.made, len(self.computed) - 1))
                continue
            node = nodes[step["compute"]]
            at = len(self.computed)
            self.computed.append(node["id"])
            self.work.append(node.get("workspace", 0))
            for v in node.get("outputs", [node]):
                b = Block(v["id"], node["id"], v["size"], at, at)
                if v["id"] in live:
                    self.blocks.append(b)  # made a second time, and thrown away
                else:
                    live[v["id"]] = b
        last = len(self.computed) - 1
        self.blocks += [Block(b.value, b.node, b.bytes, b.made, last) for b in live.values()]
        self.blocks.sort(key=lambda b: b.made)
        self.peak_bytes, self.peak = self._highest()

    def _highest(self) -> tuple[int, int]:
        change = [0] * (len(self.computed) + 1)
        for b in self.blocks:
            change[b.made] += b.bytes
            change[b.until + 1] -= b.bytes
        now, top, at = 0, 0, 0
        for i, work in enumerate(self.work):
            now += change[i]
            if now + work > top:
                top, at = now + work, i
        return top, at

    @property
    def handover(self) -> int:
        """The step at which the backward half begins."""
        return self.computed.index(HANDOVER)

    @property
    def saved_bytes(self) -> int:
        """The bytes that are there at the handover, its own results left out."""
        at = self.handover
        return sum(b.bytes for b in self.blocks if b.made < at <= b.until)

    def there(self, step: int) -> list[Block]:
        """The values that are there at a step, the largest first."""
        return sorted((b for b in self.blocks if b.made <= step <= b.until), key=lambda b: -b.bytes)

"""Promises beside the code that Inductor caches."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._inductor.runtime.cache_dir_utils import cache_dir

from ._compiled import Graph
from ._part import Part, Peaks


class Record:
    """The promise of a graph in a file of Inductor's cache folder, for a later process in which the code of both
    halves comes from the cache, so that no graph is cut."""

    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any], key: Any) -> None:
        given = [(tuple(t.shape), t.stride(), t.dtype, t.device) if _is_plain(t) else str(t) for t in inputs]
        text = repr((torch.__version__, gm.code, given, key))
        self.path = Path(cache_dir()) / "memopt" / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def write(
        self,
        graph: Graph,
        part: Part,
        steps: list[dict[str, str]],
        peaks: Peaks,
        held_bytes: int,
        over: int,
        alone: bool,
    ) -> None:
        """Writes the promise, the graph as the plan of a whole step sees it, its schedule, the peaks of both halves of
        the code, the bytes that are held before the step, those beyond the plan in the code, and whether the step has
        no other graph."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False, encoding="utf-8") as f:
            plan = {"graph": dataclasses.asdict(graph), "part": part.to_json(), "steps": steps, "peaks": peaks}
            json.dump({"held_bytes": held_bytes, "over": over, "alone": alone, **plan}, f)
        os.replace(f.name, self.path)

    def read(self) -> tuple[Graph, Part, list[dict[str, str]], Peaks, int, int, bool] | None:
        """All that was written; None where there is none that this version can read."""
        try:
            known = json.loads(self.path.read_text(encoding="utf-8"))
            graph = Graph(**{**known["graph"], "unmeasured": tuple(known["graph"]["unmeasured"])})
            part = Part.from_json(known["part"])
            peaks = None if known["peaks"] is None else (int(known["peaks"][0]), int(known["peaks"][1]))
            held, over, alone = int(known["held_bytes"]), int(known["over"]), bool(known["alone"])
            return graph, part, known["steps"], peaks, held, over, alone
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _is_plain(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and t.layout == torch.strided

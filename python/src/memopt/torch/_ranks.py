"""Ranks of a process group, and answers that they share."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

from torch import distributed

from ._plan import PlanError

# The seconds that a rank waits for another one's answer beyond those of the search: the program starts, and writes it.
_PATIENCE = 60.0
# The seconds between looks at the store, so that a rank that waits can be interrupted.
_POLL = 0.01


def rank() -> int:
    """The rank of this process, 0 where there is one."""
    return distributed.get_rank() if is_distributed() else 0


def is_distributed() -> bool:
    """Whether this process is one of several."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def shared(question: Any, ask: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The answer to a question, the same on all ranks that have the question.

    A search within a time finds other answers on other ranks. The first rank with a question asks, and the others wait
    for its answer. A rank waits only for one that is asking: ranks with other questions, as of batches of other sizes,
    ask by themselves.

    Args:
        question: JSON, the same on all ranks that shall have one answer.
        ask: gives the answer, which is JSON.
        seconds: those that asking takes.

    Raises:
        PlanError: the rank that asks has failed, or has given no answer in time.
    """
    if not is_distributed():
        return ask()
    digest = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
    key = f"memopt/{digest}"
    store = distributed.distributed_c10d._get_default_store()
    if not store.check([key]) and store.add(f"{key}/asking", 1) == 1:
        answer: dict[str, Any] = {"failed": f"rank {distributed.get_rank()} has failed to plan"}
        try:
            answer = ask()
        finally:
            store.set(key, json.dumps(answer))
        return answer
    end = time.monotonic() + seconds + _PATIENCE
    while not store.check([key]):
        if time.monotonic() > end:
            raise PlanError(
                f"another rank plans the same graph, and has given no plan within {seconds + _PATIENCE:.0f} s: see "
                "whether it is still alive"
            )
        time.sleep(_POLL)
    answer = json.loads(store.get(key))
    if "failed" in answer:
        raise PlanError(f"{answer['failed']}: see its own error")
    return answer

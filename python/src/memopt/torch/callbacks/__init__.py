"""Plans in training loops: of transformers' Trainer, of Lightning, of accelerate and of one's own.

    from memopt.torch.callbacks import TransformersCallback
    Trainer(model, args, callbacks=[TransformersCallback("60%")], ...).train()

    from memopt.torch.callbacks import LightningCallback
    lightning.Trainer(callbacks=[LightningCallback("60%")]).fit(module)

    from memopt.torch.callbacks import attach   # accelerate, or a loop of one's own
    attach(model, "60%", optimizer=optimizer)

Each takes a budget or a plan. Given a budget, the first batch decides: the step is traced and planned, in a group of
processes by rank 0 alone, and the plan is applied before the batch runs. A table tells the peak without the plan
and the promised one; after the step a line tells the measured one.

A model that torch.compile has wrapped is compiled within the budget instead, as ``memopt.torch.compile`` does. A line
tells the promise, and a later one the measured peak beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._attach import Attached, attach
from ._compiled import CompiledStep

if TYPE_CHECKING:
    from ._lightning import LightningCallback
    from ._transformers import TransformersCallback

__all__ = ["Attached", "CompiledStep", "LightningCallback", "TransformersCallback", "attach"]


def __getattr__(name: str) -> Any:
    """Imports transformers or lightning where its callback is asked for, and not before."""
    if name == "TransformersCallback":
        from ._transformers import TransformersCallback

        return TransformersCallback
    if name == "LightningCallback":
        from ._lightning import LightningCallback

        return LightningCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

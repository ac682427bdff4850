"""The callback of transformers' Trainer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from .._plan import PlanError
from .._step import Loss
from ._attach import Attached, Planner, What, hook_first_step


class TransformersCallback(TrainerCallback):
    """Plans the model of a Trainer at its first step, and takes the plan away after training.

        Trainer(model, args, train_dataset=data, callbacks=[TransformersCallback("60%")]).train()

    Arguments are those of ``attach``, without those that the Trainer knows.
    """

    def __init__(
        self,
        what: What,
        *,
        loss: Loss = None,
        planner: Planner | None = None,
        show: Callable[[str], None] | None = print,
    ) -> None:
        self.what, self.loss, self.planner, self.show = what, loss, planner, show
        self.attached: Attached | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model = kwargs["model"]
        if getattr(args, "gradient_checkpointing", False):
            raise PlanError("gradient_checkpointing is on, which recomputes all blocks: leave it out, the plan chooses")
        self.attached = Attached(
            model,
            self.what,
            loss=self.loss,
            optimizer=kwargs.get("optimizer"),
            accumulation=args.gradient_accumulation_steps,
            planner=self.planner,
            show=self.show,
        )
        if self.attached.plan is None and getattr(args, "torch_compile", False):
            raise PlanError(
                "torch_compile is on, and a step is planned before it is compiled: make the plan before, "
                "p = memopt.torch.plan(model, batch, budget=...), and give it in place of the budget"
            )
        hook_first_step(self.attached)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.attached is not None:
            self.attached.remove()

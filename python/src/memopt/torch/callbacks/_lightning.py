"""The callback of Lightning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from torch import nn

from .._plan import PlanError
from ._attach import Attached, Planner, What, muted


class _TrainingStep(nn.Module):
    """A step of a LightningModule as one module: a call gives the loss."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.training = module.training

    def forward(self, *batch: Any) -> Any:
        return self.module.training_step(*batch)  # type: ignore[operator]  # of every LightningModule


class LightningCallback(Callback):
    """Plans a LightningModule at its first training step, and takes the plan away after training.

        lightning.Trainer(callbacks=[LightningCallback("60%")]).fit(module, data)

    A step is a call of ``training_step``. Arguments are those of ``attach``; the loss is the step's result.
    """

    def __init__(
        self, what: What, *, planner: Planner | None = None, show: Callable[[str], None] | None = print
    ) -> None:
        self.what, self.planner, self.show = what, planner, show
        self.attached: Attached | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if not pl_module.automatic_optimization:
            raise PlanError("the module has automatic_optimization off, and a step is planned that is forward and "
                            "backward once: give a plan to memopt.torch.apply")
        optimizer = trainer.optimizers[0] if trainer.optimizers else None
        self.attached = Attached(
            pl_module,
            self.what,
            optimizer=optimizer,
            accumulation=trainer.accumulate_grad_batches,
            planner=self.planner,
            show=self.show,
        )

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.attached is None:
            return
        numbered = is_param_in_hook_signature(pl_module.training_step, "batch_idx", min_args=2)
        with trainer.precision_plugin.forward_context(), muted(pl_module, "log", "log_dict"):
            inputs = (batch, batch_idx) if numbered else (batch,)
            self.attached.begin(inputs, _TrainingStep(pl_module), "module.")
        if self.attached.applied is not None:
            self.attached.applied.begin()

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        if self.attached is not None:
            self.attached.mark()
            self.attached.end()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.attached is not None:
            self.attached.remove()

"""The callback of Lightning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import Callback
from lightning.pytorch.utilities.compile import from_compiled, to_uncompiled
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from torch import nn

from .._plan import PlanError
from ._attach import Attached, Planner, What, attach_compiled, budget_or_operators, is_budget, muted
from ._compiled import CompiledStep, compiled_module, operators


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

    A step is a call of ``training_step``. A module that torch.compile has wrapped, ``fit(torch.compile(module))``, or
    that has one such module, is compiled within the budget instead, as ``memopt.torch.compile`` does. Arguments are
    those of ``attach``; the loss is the step's result.
    """

    def __init__(
        self, what: What, *, planner: Planner | None = None, show: Callable[[str], None] | None = print
    ) -> None:
        self.what, self.planner, self.show = what, planner, show
        self.attached: Attached | CompiledStep | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if not pl_module.automatic_optimization:
            raise PlanError("the module has automatic_optimization off, and a step is planned that is forward and "
                            "backward once: give a plan to memopt.torch.apply")
        optimizer = trainer.optimizers[0] if trainer.optimizers else None
        accumulation = trainer.accumulate_grad_batches
        self.attached = self._compiled(pl_module, optimizer, accumulation) or Attached(
            pl_module, self.what, optimizer=optimizer, accumulation=accumulation, planner=self.planner, show=self.show
        )

    def _compiled(self, module: Any, optimizer: Any, accumulation: int) -> CompiledStep | None:
        """The step of a module that is compiled, or that has a compiled one; None where neither is."""
        if not (is_budget(self.what) or operators(self.what)):
            return None
        if module._compiler_ctx is None:
            part = compiled_module(module)
            if part is None:
                return None
            return attach_compiled(
                part, self.what, optimizer=optimizer, accumulation=accumulation, show=self.show, model=module
            )
        from .._compile._replace import settings

        passed = settings(module._compiler_ctx["dynamo_ctx"])
        fullgraph = passed.pop("fullgraph")
        step = CompiledStep(budget_or_operators(self.what), show=self.show, **passed)
        step.prepare(module, optimizer, accumulation)
        compiler: Any = torch.compile
        from_compiled(compiler(to_uncompiled(module), backend=step, fullgraph=fullgraph))
        return step

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if isinstance(self.attached, CompiledStep):
            if self.attached.pending and batch_idx % trainer.accumulate_grad_batches == 0:
                # Lightning frees the gradients of the step before in the midst of this one.
                for p in pl_module.parameters():
                    p.grad = None
            self.attached.begin()
            return
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

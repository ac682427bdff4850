"""The callback of transformers' Trainer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelerate.state import AcceleratorState  # type: ignore[import-untyped]
from accelerate.utils import TorchDynamoPlugin  # type: ignore[import-untyped]
from transformers import TrainerCallback

from .._plan import PlanError
from .._step import Loss
from ._attach import Attached, Planner, What, budget_or_operators, follow, is_budget
from ._compiled import CompiledStep, operators


class TransformersCallback(TrainerCallback):
    """Plans the model of a Trainer at its first step, and takes the plan away after training.

        Trainer(model, args, train_dataset=data, callbacks=[TransformersCallback("60%")]).train()

    Under ``TrainingArguments(torch_compile=True)`` the model is compiled within the budget instead, as
    ``memopt.torch.compile`` does. Arguments are those of ``attach``, without those that the Trainer knows.
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
        self.attached: Attached | CompiledStep | None = None
        self._plugin: _Plugin | None = None

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not args.torch_compile or not (is_budget(self.what) or operators(self.what)):
            return
        step = CompiledStep(
            budget_or_operators(self.what),
            drops=True,
            show=self.show,
            backend=args.torch_compile_backend,
            mode=args.torch_compile_mode,
        )
        self.attached, self._plugin = step, _Plugin.of(step)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model = kwargs["model"]
        if getattr(args, "gradient_checkpointing", False):
            raise PlanError("gradient_checkpointing is on, which recomputes all blocks: leave it out, the plan chooses")
        if self._plugin is not None:
            assert isinstance(self.attached, CompiledStep)
            self.attached.prepare(model, kwargs.get("optimizer"), args.gradient_accumulation_steps)
            return
        if args.torch_compile and is_budget(self.what):
            raise PlanError("torch_compile is on, and the model is compiled already: give the callback to the Trainer "
                            "when it is made, Trainer(…, callbacks=[TransformersCallback(…)])")
        self.attached = Attached(
            model,
            self.what,
            loss=self.loss,
            optimizer=kwargs.get("optimizer"),
            accumulation=args.gradient_accumulation_steps,
            planner=self.planner,
            show=self.show,
        )
        follow(self.attached, self.attached.model)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._plugin is not None and isinstance(self.attached, CompiledStep):
            self.attached.begin()

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.on_pre_optimizer_step(args, state, control)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if isinstance(self.attached, CompiledStep):
            self.attached.end()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.attached is not None:
            self.attached.remove()
        if self._plugin is not None:
            self._plugin.remove()


class _Plugin(TorchDynamoPlugin):  # type: ignore[misc]  # accelerate has no types
    """Has accelerate, which compiles the model for the Trainer, do so with a backend that it has no name for."""

    @staticmethod
    def of(step: CompiledStep) -> _Plugin:
        """Puts a plugin in place of the one of accelerate's state."""
        state = AcceleratorState()
        before = state.dynamo_plugin
        if before.use_regional_compilation:
            raise PlanError("blocks are compiled each by itself (regional compilation), and a budget is of one graph: "
                            "leave it off")
        plugin = _Plugin(backend=before.backend.value, mode=before.mode, fullgraph=before.fullgraph)
        plugin.step, plugin.before, plugin.state = step, before, state
        state.dynamo_plugin = plugin
        return plugin

    def to_kwargs(self) -> dict[str, Any]:
        """The arguments of torch.compile."""
        return {"backend": self.step, "fullgraph": self.before.fullgraph, "dynamic": self.before.dynamic}

    def remove(self) -> None:
        """Puts the plugin from before in place again."""
        if self.state.dynamo_plugin is self:
            self.state.dynamo_plugin = self.before

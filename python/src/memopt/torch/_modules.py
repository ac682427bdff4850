"""Which modules a step calls, and which of them can run again in the backward half."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ._state import tensors

# Attributes of modules on which memory depends.
ATTRIBUTES = ("inplace", "approximate", "p", "momentum", "track_running_stats")


class Watch:
    """Follows the calls of a model's modules while it is entered.

    Attributes:
        call: the innermost call that runs, an index of ``calls``; -1 outside of all.
        calls: of each call the module's name and the call around it.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.call = -1
        self.calls: list[tuple[str, int]] = []
        self._names = {m: n for n, m in model.named_modules() if n}
        self._open: list[list[tuple[torch.Tensor, int]]] = []
        self._counts: dict[nn.Module, int] = {}
        self._changed: set[nn.Module] = set()
        self._odd: dict[nn.Module, str] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> Watch:
        for m in self._names:
            if not isinstance(m, torch.jit.ScriptModule):
                self._handles.append(m.register_forward_pre_hook(self._before, prepend=True))
                self._handles.append(m.register_forward_hook(self._after))
        return self

    def __exit__(self, *_: object) -> None:
        for h in self._handles:
            h.remove()
        self._handles = []

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self._counts[module] = self._counts.get(module, 0) + 1
        self._open.append([(t, t._version) for t in tensors(args)])
        self.calls.append((self._names[module], self.call))
        self.call = len(self.calls) - 1

    def _after(self, module: nn.Module, _: Any, output: Any) -> None:
        if any(t._version != v for t, v in self._open.pop()):
            self._changed.add(module)
        if not any(True for _ in tensors(output)):
            self._odd[module] = type(output).__name__
        self.call = self.calls[self.call][1]

    def listed(self) -> list[dict[str, Any]]:
        """The modules of the model, with the findings of the step."""
        names: dict[nn.Module, int] = {}
        for _, m in self.model.named_modules(remove_duplicate=False):
            names[m] = names.get(m, 0) + 1
        out = []
        for m, name in self._names.items():
            kind = type(m)
            attributes = {a: getattr(m, a, None) for a in ATTRIBUTES}
            out.append(
                {
                    "name": name,
                    "class": f"{kind.__module__}.{kind.__qualname__}",
                    "calls": self._counts.get(m, 0),
                    "training": m.training,
                    "checkpointable": self._why(m, names[m]) or True,
                    "attributes": {a: v for a, v in attributes.items() if isinstance(v, (bool, int, float, str))},
                }
            )
        return out

    def _why(self, module: nn.Module, names: int) -> str:
        """The reason for which a module cannot run again; "" if it can."""
        if isinstance(module, torch.jit.ScriptModule):
            return "it is a ScriptModule"
        if names > 1:
            return "the model has it under several names"
        if self._counts.get(module, 0) > 1:
            return f"a step calls it {self._counts[module]} times"
        if module in self._changed:
            return "it changes its input in place"
        if module in self._odd:
            return f"it returns {self._odd[module]}, not tensors"
        return ""

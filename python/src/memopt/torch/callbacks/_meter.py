"""The measured peak of one step of a loop, beside the promised one."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable

from torch import nn

from .._measure import Meter
from .._plan import size
from .._ranks import rank


class StepMeter:
    """Measures a step of a loop, and says its peak beside the promised one, which promised gives.

    Attributes:
        peak: the measured peak of the step beyond what was there before it; None before, and where another profiler
            was running.
    """

    def __init__(self, show: Callable[[str], None] | None, promised: Callable[[], int]) -> None:
        self.peak: int | None = None
        self._show = show if rank() == 0 else None
        self._meter: Meter | None = None
        self._promised = promised

    @property
    def running(self) -> bool:
        """Whether a step is being measured."""
        return self._meter is not None

    def say(self, text: str) -> None:
        """Prints a line, on rank 0."""
        if self._show is not None:
            self._show(text)

    def start(self, model: nn.Module) -> None:
        """Begins to measure a step of a model."""
        gc.collect()
        meter = Meter("cuda" if any(p.is_cuda for p in model.parameters()) else "cpu")
        try:
            meter.start()
        except RuntimeError as e:  # another profiler runs in this thread
            self.say(f"memopt: the peak is not measured: {e}")
            return
        self._meter = meter
        atexit.register(self.stop)  # a profiler that is running when the process ends lets it crash

    def mark(self) -> None:
        """Ends the step. The end of the backward half may call it."""
        if self._meter is not None:
            self._meter.mark()

    def drop(self) -> None:
        """Gives the measurement up."""
        if self._meter is not None:
            self._meter.stop()
            self._meter = None
            atexit.unregister(self.stop)

    def stop(self) -> None:
        """Says the measured peak of the step that mark has ended, or that ends now."""
        if self._meter is None:
            return
        usage, self._meter = self._meter.stop(), None
        atexit.unregister(self.stop)
        self.peak, promised = usage.peak, self._promised()
        self.say(
            f"memopt: measured peak {size(usage.peak)}, promised {size(promised)} "
            f"({100 * (usage.peak / max(promised, 1) - 1):+.1f} %)"
        )

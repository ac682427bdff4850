"""The table of the first step."""

from __future__ import annotations

from ._measure import Meter
from ._plan import Planned


def table(name: str, settings: str, plan: Planned, meter: Meter) -> str:
    """Promised and measured peak, beside what ORTModule takes without a plan and at its level 1."""
    rows = [("ORTModule", plan.baseline_bytes, "predicted")]
    if plan.level_bytes is not None:
        rows.append(("ORTModule, level 1", plan.level_bytes, "predicted"))
    again = f"promised; {plan.clones} nodes run again, {100 * plan.overhead:.1f} % of a step"
    rows.append(("memopt's plan", plan.promised_bytes, again))
    peak = meter.stop()
    if peak is not None:
        off = 100 * (peak / max(plan.promised_bytes, 1) - 1)
        rows.append(("memopt's plan", peak, f"measured, {off:+.1f} %: {meter.how}"))
    lines = [f"memopt: {settings}, {name} in ORTModule", f"{'':20}{'peak of a step':>15}"]
    base = max(plan.baseline_bytes, 1)
    lines += [f"{what:20}{size(n):>15}{100 * n / base:6.0f} %  {note}" for what, n, note in rows]
    return "\n".join(lines)


def size(n: int) -> str:
    """Bytes for a reader."""
    return f"{n / 2**30:.2f} GiB" if n >= 1 << 30 else f"{n / 2**20:.2f} MiB"

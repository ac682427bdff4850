"""Tables of rows, and the rules that rows have to keep."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def memopts(rows: list[Row]) -> list[Row]:
    """The rows of memopt within a budget."""
    return [r for r in rows if r["way"].startswith("memopt")]


def torchs(rows: list[Row]) -> list[Row]:
    """The rows of PyTorch's ways."""
    return [r for r in rows if r["way"].startswith(("torch", "checkpoint"))]


def at(rows: list[Row], peak: int) -> Row | None:
    """The row of memopt whose budget is a peak."""
    return next((r for r in memopts(rows) if r["budget"] == peak), None)


def faults(model: dict[str, Any]) -> list[str]:
    """Rules that a model's rows break."""
    rows, eager = model["rows"], model["backend"] == "aot_eager"
    found = []
    for r in rows:
        if eager and r["off"] and r["way"].startswith(("memopt", "nothing")):
            found.append(f"{r['way']}: gradients are {r['off']:.1e} off")
    for r in memopts(rows):
        if r["peak"] > r["budget"] * (1 if eager else 1.02):
            found.append(f"{r['way']}: peak {mib(r['peak'])} MiB")
        if abs(r["predicted"] / r["peak"] - 1) > (0.01 if eager else 0.05):
            found.append(f"{r['way']}: predicted {mib(r['predicted'])} MiB, measured {mib(r['peak'])}")
        if r["planning"] > max(0.5, 0.1 * r["compiling"]):
            found.append(f"{r['way']}: {r['planning']:.2f} s of planning in {r['compiling']:.1f} s of compiling")
    for t in torchs(rows):
        ours = at(rows, t["peak"])
        if ours is None:
            found.append(f"{t['way']}: no plan of memopt at {mib(t['peak'])} MiB")
        elif ours["overhead"] > t["overhead"] * (0.75 if t["overhead"] > 0.1 else 1):
            found.append(
                f"{t['way']}: {percent(t['overhead'])} at {mib(t['peak'])} MiB, memopt {percent(ours['overhead'])}"
            )
    if memopts(rows) and min(r["peak"] for r in memopts(rows)) > min(r["peak"] for r in torchs(rows)):
        found.append("PyTorch reaches a lower peak")
    ordered = sorted(memopts(rows), key=lambda r: r["budget"])
    if any(a["peak"] > 1.01 * b["peak"] for a, b in zip(ordered, ordered[1:], strict=False)):
        found.append("a lower budget has a higher peak")
    return found


def page(models: list[dict[str, Any]]) -> str:
    """The page of all tables."""
    parts = [
        "# torch.compile: peaks and recomputation",
        "",
        f"torch {models[0]['torch']}, two threads; written by [table.py](README.md)." if models else "",
    ]
    for backend in sorted({m["backend"] for m in models}):
        chosen = [m for m in models if m["backend"] == backend]
        parts += ["", f"## {backend}", "", *summary(chosen)]
        for m in chosen:
            parts += ["", f"### {m['model']}, {max(r['nodes'] for r in m['rows'])} nodes", "", *table(m["rows"])]
    return "\n".join(parts) + "\n"


def summary(models: list[dict[str, Any]]) -> list[str]:
    """A line a model: the lowest peaks, recomputation at them, and the rules that are broken."""
    lines = [
        "| model | lowest peak of PyTorch | its overhead | memopt there | lowest peak of memopt | rules broken |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for m in models:
        low = min(torchs(m["rows"]), key=lambda r: (r["peak"], r["overhead"]))
        ours, least = at(m["rows"], low["peak"]), min((r["peak"] for r in memopts(m["rows"])), default=0)
        there = percent(ours["overhead"]) if ours else "no plan"
        broken = "; ".join(faults(m)) or "none"
        lines.append(
            f"| {m['model']} | {mib(low['peak'])} | {percent(low['overhead'])} | {there} | {mib(least)} | {broken} |"
        )
    return lines


def table(rows: list[Row]) -> list[str]:
    """The rows of a model by falling peak: PyTorch's way, and memopt at its peak."""
    lines = [
        "| way | peak, MiB | predicted | overhead | at least | time | planning, s | compiling, s | gradients |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in sorted(rows, key=lambda r: (-(r.get("budget") or r["peak"]), r["way"].startswith("memopt"))):
        predicted = mib(r["predicted"]) if r["predicted"] else ""
        bound = percent(r["bound"]) if r["bound"] is not None and r["way"].startswith("memopt") else ""
        same = f"{r['off']:.0e}" if r["off"] else "equal"
        lines.append(
            f"| {r['way']} | {mib(r['peak'])} | {predicted} | {percent(r['overhead'])} | {bound} | {r['time']:.2f} | "
            f"{r['planning']:.2f} | {r['compiling']:.1f} | {same} |"
        )
    return lines


def mib(n: int) -> str:
    """Bytes in MiB."""
    return f"{n / 2**20:.2f}"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.2f} %"

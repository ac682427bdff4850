"""Tables of rows, and the rules that rows have to keep."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any

Row = dict[str, Any]

# Overheads whose difference is less are equal.
_ROUNDING = 1e-9

_HEAD = "# torch.compile: peaks and recomputation\n\nWritten by [table.py](README.md).\n"


def memopts(rows: list[Row]) -> list[Row]:
    """The rows of memopt within a budget."""
    return [r for r in rows if r["way"].startswith("memopt")]


def torchs(rows: list[Row]) -> list[Row]:
    """The rows of PyTorch's ways."""
    return [r for r in rows if r["way"].startswith(("torch", "checkpoint"))]


def at(rows: list[Row], peak: int) -> Row | None:
    """The row of memopt with the largest budget within a peak; of one at which all fits, the first row."""
    if peak >= rows[0]["peak"]:
        return rows[0]
    return max((r for r in memopts(rows) if r["budget"] <= peak), key=lambda r: r["budget"], default=None)


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
        whole = r["compiling"] is not None and not model.get("peaks")
        if whole and r["planning"] > max(0.5, 0.1 * r["compiling"]):
            found.append(f"{r['way']}: {r['planning']:.2f} s of planning in {r['compiling']:.1f} s of compiling")
    found += [text for text, impossible in dearer(model) if not impossible]
    if memopts(rows) and min(r["peak"] for r in memopts(rows)) > min(r["peak"] for r in torchs(rows)):
        found.append("PyTorch reaches a lower peak")
    ordered = sorted(memopts(rows), key=lambda r: r["budget"])
    if any(a["peak"] > 1.01 * b["peak"] for a, b in itertools.pairwise(ordered)):
        found.append("a lower budget has a higher peak")
    return found


def dearer(model: dict[str, Any]) -> list[tuple[str, bool]]:
    """The ways of PyTorch at whose peaks memopt has no plan that is as cheap as the rules want, and whether a bound
    proves that no schedule is."""
    rows, found = model["rows"], []
    for t in torchs(rows):
        ours = at(rows, t["peak"])
        most = t["overhead"] * (0.75 if t["overhead"] > 0.1 else 1) + _ROUNDING
        if ours is None:
            found.append((f"{t['way']}: no plan of memopt at {mib(t['peak'])} MiB", False))
        elif ours["overhead"] > most:
            text = f"{t['way']}: {percent(t['overhead'])} at {mib(t['peak'])} MiB, memopt {percent(ours['overhead'])}"
            least = max((r["bound"] for r in memopts(rows) if bounds(model) and r["budget"] >= t["peak"]), default=-1.0)
            found.append((f"{text}, at least {percent(least)}" if least > most else text, least > most))
    return found


def bounds(model: dict[str, Any]) -> bool:
    """Whether the bounds of a model's rows are bounds of their overheads: Inductor's loops differ by halves, while
    memopt bounds schedules of the joint graph's."""
    return bool(model["backend"] == "aot_eager")


def within(page: str, models: list[dict[str, Any]]) -> str:
    """A page with the sections of the models' backends; sections of other backends stay as they are."""
    sections = {part.split("\n", 1)[0]: part.rstrip("\n") for part in page.split("\n## ")[1:]}
    for backend in {m["backend"] for m in models}:
        sections[backend] = section(backend, [m for m in models if m["backend"] == backend])
    return _HEAD + "".join(f"\n## {sections[backend]}\n" for backend in sorted(sections))


def section(backend: str, models: list[dict[str, Any]]) -> str:
    """The tables of a backend."""
    parts = [backend, "", *about(models), "", *summary(models)]
    for m in models:
        parts += ["", f"### {title(m)}, {max(r['nodes'] for r in m['rows'])} nodes", "", *table(m)]
    return "\n".join(parts)


def title(model: dict[str, Any]) -> str:
    """The name of a model, and whether Inductor's kernels were compiled and ran."""
    ran = model["backend"] == "inductor" and not model["peaks"]
    return f"{model['model']} with kernels" if ran else str(model["model"])


def names(models: list[dict[str, Any]]) -> str:
    """The names of models, in a sentence."""
    return ", ".join(map(title, models))


def planned(models: list[dict[str, Any]]) -> str:
    """The share of planning in compiling, in a clause."""
    shares = sorted(r["planning"] / r["compiling"] for m in models for r in memopts(m["rows"]) if r["compiling"])
    if not shares:
        return "that of planning is not known"
    return f"planning takes {percent(shares[len(shares) // 2])} of it in the median, {percent(shares[-1])} at most"


def about(models: list[dict[str, Any]]) -> list[str]:
    """How rows were measured, and how long plans took."""
    prior = all(m["priority"] for m in models)
    how = "plans and timed steps had the priority of real time" if prior else "they had no priority over other programs"
    days = " and ".join(sorted({m["day"] for m in models}))
    rows = [r for m in models for r in memopts(m["rows"])]
    seconds = sorted(r["planning"] for r in rows)
    several = sum(r["compilations"] > 1 for r in rows)
    if not seconds:
        return []
    middle, most = seconds[len(seconds) // 2], seconds[9 * len(seconds) // 10]
    text = (
        f"torch {models[0]['torch']}, measured on {days} beside other programs, two threads; {how}. memopt planned "
        f"{len(rows)} rows: the median took {middle:.2f} s, nine of ten at most {most:.2f} s, the longest "
        f"{seconds[-1]:.2f} s. {several} were compiled again for less, since the code of the first time took over 1 % "
        "more than the budget."
    )
    if bare := [m for m in models if m["peaks"]]:
        text += f" The code of {names(bare)} ran without Inductor's own kernels, for its peaks: steps' times and "
        text += f"gradients are not known, and compiling is CPU time without that of the C++ compiler; {planned(bare)}."
    if whole := [m for m in models if m.get("rounds")]:
        text += (
            f" Of {names(whole)}, times are medians of {min(m['rounds'] for m in whole)} rounds or more, and compiling "
        )
        text += f"is CPU time, less where another way has compiled the same kernels before; {planned(whole)}."
    for layers in sorted({m.get("layers") or 0 for m in models} - {0}):
        text += f" With {layers} layers: {names([m for m in models if m.get('layers') == layers])}."
    return textwrap.wrap(text, 118)


def summary(models: list[dict[str, Any]]) -> list[str]:
    """A line a model: the lowest peaks, recomputation at them, the rules that are broken, those no schedule keeps."""
    lines = [
        "| model | lowest peak of PyTorch | its overhead | memopt there | lowest peak of memopt | rules broken "
        "| ruled out by the bound |",
        "| --- | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for m in models:
        low = min(torchs(m["rows"]), key=lambda r: (r["peak"], r["overhead"]))
        ours, least = at(m["rows"], low["peak"]), min((r["peak"] for r in memopts(m["rows"])), default=0)
        there = percent(ours["overhead"]) if ours else "no plan"
        broken = "; ".join(faults(m)) or "none"
        out = "; ".join(text for text, impossible in dearer(m) if impossible) or "none"
        lines.append(
            f"| {title(m)} | {mib(low['peak'])} | {percent(low['overhead'])} | {there} | {mib(least)} | {broken} "
            f"| {out} |"
        )
    return lines


def table(model: dict[str, Any]) -> list[str]:
    """The rows of a model by falling peak: PyTorch's way, and memopt at its peak."""
    lines = [
        "| way | peak, MiB | predicted | overhead | at least | time | planning, s | compiling, s | gradients |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in sorted(model["rows"], key=lambda r: (-(r.get("budget") or r["peak"]), r["way"].startswith("memopt"))):
        predicted = mib(r["predicted"]) if r["predicted"] else ""
        bound = percent(r["bound"]) if bounds(model) and r["way"].startswith("memopt") else ""
        time = "" if r["time"] is None else f"{r['time']:.2f}"
        compiling = "" if r["compiling"] is None else f"{r['compiling']:.1f}"
        same = "" if r["off"] is None else f"{r['off']:.0e}" if r["off"] else "equal"
        lines.append(
            f"| {r['way']} | {mib(r['peak'])} | {predicted} | {percent(r['overhead'])} | {bound} | {time} | "
            f"{r['planning']:.2f} | {compiling} | {same} |"
        )
    return lines


def mib(n: int) -> str:
    """Bytes in MiB."""
    return f"{n / 2**20:.2f}"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.2f} %"

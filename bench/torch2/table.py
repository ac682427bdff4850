"""The table of rows, and its totals."""

from __future__ import annotations

import pathlib
import re

from row import GRADIENTS, LOSSES

COLUMNS = ("model", "export", "gradients", "loss", "plan", "ONNX Runtime", "training", "")
STRIDES = (
    "the exporter reads the module's as_strided of a transposed tensor from a contiguous one; a module that "
    "does so, too, has the file's gradients within 5e-7"
)
# Rows that differ for a reason that the row itself cannot find.
REASONS = {
    ("helium", "default-20"): "the exporter leaves out the norms' epsilon of 1e-8",
    ("led", "script-20"): STRIDES,
    ("longformer", "script-17"): STRIDES,
}
EXPORTERS = {"default": "dynamo", "raw": "dynamo, optimize=False", "script": "script"}


def gradient(found: dict | None) -> str:
    """A comparison of gradients: the largest difference, and how many of PyTorch's were compared."""
    if not found:
        return "-"
    return f"{found['worst']:.1e} ({found['compared']}/{found['of']})"


def right(found: dict | None, own: float | None = 0.0) -> bool:
    """Whether gradients and loss are PyTorch's. Where PyTorch is off itself by more than the tolerance, in float64
    or from weights that are off by 1e-7, gradients may be twice as far off."""
    return bool(found) and found["worst"] <= max(GRADIENTS, 2 * (own or 0)) and found["loss"] <= GRADIENTS


def own(found: dict) -> float | None:
    """How far PyTorch is off itself, where that was computed."""
    return found.get("gradients", {}).get("own")


def trained(found: dict) -> bool:
    return found.get("train", 1) <= max(LOSSES, 2 * found.get("train own", 0))


def changed(found: dict) -> str:
    """Why the file trains another model than the module is, by its exporter; "": it does not."""
    if "refused" in found:
        return "train refuses it: weights that the exporter untied or merged"
    if "another" in found:
        return f"not trained: the exporter folded {len(found['another'])} tensors"
    return ""


def whole(found: dict) -> bool:
    """Whether a row is as it should be."""
    if (found["model"], found["way"]) in REASONS:
        return True
    runs = right(found.get("ort"), own(found)) or "ort refuses the export" in found
    return (
        right(found.get("gradients"), own(found))
        and bool(found.get("verified"))
        and runs
        and (trained(found) or bool(changed(found)))
    )


SHORT = 200


def short(text: str) -> str:
    """A message in a cell."""
    text = re.sub(r"/\S*/", "", text.replace("|", "\\|"))
    return text if len(text) <= SHORT else text[:SHORT] + "..."


def remarks(found: dict) -> str:
    """Errors, and the changes that the exporter made."""
    notes = []
    if found.get("inference"):
        notes.append("batch norms in inference mode")
    gradients = found.get("gradients") or {}
    if gradients.get("computed"):
        notes.append(f"{len(gradients['computed'])} computed of parameters")
    for key, text in found.items():
        if key.endswith(" error"):
            notes.append(f"{key[:-6]}: {short(text)}")
    if changed(found):
        notes.append(changed(found))
    if found.get("frozen"):
        notes.append(f"--freeze {', '.join(found['frozen'])}")
    if "ort refuses the export" in found:
        notes.append(f"ONNX Runtime refuses the exported file: {short(found['ort refuses the export'])}")
    if "gradients" in found and not right(found["gradients"]):
        notes.append(f"largest at {gradients['at']}")
    if own(found):
        notes.append(f"PyTorch is {own(found):.1e} off itself")
    if "train own" in found:
        notes.append(f"PyTorch's losses are {found['train own']:.1e} off themselves")
    if (found["model"], found["way"]) in REASONS:
        notes.append(REASONS[found["model"], found["way"]])
    return "; ".join(notes)


def line(found: dict) -> str:
    """A row of the table."""
    exporter, opset = found["way"].split("-")
    cells = [found["model"], f"{EXPORTERS[exporter]}, {opset}", gradient(found.get("gradients"))]
    loss = found.get("gradients", {}).get("loss")
    cells += [
        "-" if loss is None else f"{loss:.1e}",
        "equal" if found.get("verified") else "-",
        gradient(found.get("ort")),
    ]
    cells += [f"{found['train']:.1e}" if "train" in found else "-", remarks(found)]
    return "| " + " | ".join(cells) + " |"


def totals(results: list[dict]) -> list[str]:
    """The numbers of rows that came so far."""
    exported = [r for r in results if "not exported" not in r]
    lines = []
    for title, test in [
        ("read and planned", lambda r: r.get("read")),
        ("differentiated", lambda r: r.get("gradients")),
        ("gradients and loss within 1e-5 of PyTorch's", lambda r: right(r.get("gradients"))),
        ("and no more than twice as far as PyTorch's from themselves", lambda r: right(r.get("gradients"), own(r))),
        ("the plan's step equal bit for bit", lambda r: r.get("verified")),
        ("the applied file within 1e-5 in ONNX Runtime", lambda r: right(r.get("ort"), own(r))),
        ("losses of 5 updates within 1e-4 of PyTorch's", trained),
        ("the exporter made another model, which does not train unasked", changed),
        ("all of these, or the row gives the reason", whole),
    ]:
        passed = [r for r in exported if test(r)]
        lines.append(f"| {title} | {len(passed)} | {len({r['model'] for r in passed})} |")
    ways = {(r["model"], r["way"].startswith("script")) for r in exported}
    both = [r for r in exported if (r["model"], True) in ways and (r["model"], False) in ways]
    lines.insert(0, f"| exported by both exporters | {len(both)} | {len({r['model'] for r in both})} |")
    head = f"| exported | {len(exported)} | {len({r['model'] for r in exported})} |"
    tried = f"| tried | {len(results)} | {len({r['model'] for r in results})} |"
    return ["| | exports | models |", "| --- | ---: | ---: |", tried, head, *lines]


def write(path: pathlib.Path, results: list[dict]) -> None:
    """Writes the totals, a line for each export, and the failures of PyTorch's exporters."""
    exported = [r for r in results if "not exported" not in r]
    lines = ["# Results", "", *totals(results), "", "| " + " | ".join(COLUMNS) + " |", "| " + "--- | " * len(COLUMNS)]
    lines += [line(r) for r in exported]
    lines += ["", "## Not exported by PyTorch", "", "| model | export | message |", "| --- | --- | --- |"]
    for r in results:
        if "not exported" in r:
            exporter, opset = r["way"].split("-")
            lines.append(f"| {r['model']} | {EXPORTERS[exporter]}, {opset} | {short(r['not exported'])} |")
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n")

"""Runs rows of the zoo, and writes their table: see README.md."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import logging
import multiprocessing
import os
import pathlib
import shutil
import sys
import tempfile
import time
import warnings

import torch

import model
import plain  # noqa: F401, these register their models
import timm_models  # noqa: F401
import torchvision_models  # noqa: F401
import transformers_models  # noqa: F401
from row import Row, Way
from table import whole, write

OPSETS, SCRIPT_OPSETS = (18, 20, 23, 25), (17, 18, 20)
# Models that have rows at all operator sets.
EVERYWHERE = ("gpt2", "llama", "bert", "net_diffusion", "net_unet")
# The rows of CI: each exporter, and the special operators of each kind of model.
CHECKED = (
    ("gpt2", Way("raw", 20)),
    ("llama", Way("default", 23)),
    ("bert", Way("script", 18)),
    ("t5", Way("script", 17)),
    ("vit", Way("script", 20)),
    ("net_lstm", Way("default", 18)),
    ("net_unet", Way("raw", 23)),
    ("net_pieces", Way("raw", 25)),
)


def all_rows() -> list[tuple[str, Way]]:
    """All rows: first each model by one exporter, then by the others, at operator sets in turn."""
    rows, names = list(CHECKED), sorted(model.MODELS)
    for turn in range(3):
        for i, name in enumerate(names):
            exporter = ("default", "script", "raw")[(i + turn) % 3]
            opsets = SCRIPT_OPSETS if exporter == "script" else OPSETS
            rows.append((name, Way(exporter, opsets[(i // 3 + turn) % len(opsets)])))
    for name in EVERYWHERE:
        rows += [(name, Way(e, o)) for e in ("default", "raw") for o in OPSETS]
        rows += [(name, Way("script", o)) for o in SCRIPT_OPSETS]
    return list(dict.fromkeys(rows))


def warm_up() -> None:
    """Loads the packages of all rows before they are forked: both exporters, and ONNX Runtime."""
    for package in ("onnxruntime", "timm", "torchvision", "transformers"):
        with contextlib.suppress(ImportError):
            importlib.import_module(package)
    layer, x = torch.nn.Linear(2, 2), torch.zeros(2, 2)
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(layer, (x,), io.BytesIO(), dynamo=False)
        torch.onnx.export(layer, (x,), dynamo=True, verbose=False)


def child(row: Row, out: pathlib.Path) -> None:
    """Runs a row, in a process of its own."""
    log = os.open(row.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    out.write_text(json.dumps(row.run(), indent=1) + "\n")


def run(name: str, way: Way, options, keep: pathlib.Path) -> dict:
    """Runs a row unless it has been; exporters that crash or hang end only their row."""
    out = keep / f"{name}.{way}.json"
    if out.exists() and not options.again:
        return json.loads(out.read_text())
    out.unlink(missing_ok=True)
    folder = keep / f"{name}.{way}" if options.files else pathlib.Path(tempfile.mkdtemp(dir=keep))
    shutil.rmtree(folder / "job", ignore_errors=True)
    folder.mkdir(exist_ok=True)
    process = multiprocessing.get_context("fork").Process(
        target=child, args=(Row(name, way, folder, options.memopt), out)
    )
    begin = time.monotonic()
    process.start()
    process.join(options.limit)
    if process.is_alive():
        process.kill()
        process.join()
    if not out.exists():
        fault = (
            "no end within the limit" if time.monotonic() - begin >= options.limit else f"exit code {process.exitcode}"
        )
        log = (folder / "log").read_text().strip().splitlines() if (folder / "log").exists() else []
        found = {"model": name, "way": str(way), "harness error": f"{fault}: {log[-1] if log else ''}"[:300]}
        out.write_text(json.dumps(found, indent=1) + "\n")
    if not options.files:
        shutil.rmtree(folder)
    return json.loads(out.read_text())


def outcome(found: dict) -> str:
    """A line about a row."""
    if "not exported" in found:
        return f"not exported: {found['not exported']}"
    faults = [f"{key[:-6]}: {text}" for key, text in found.items() if key.endswith(" error")]
    figures = [
        f"{key} {found[key]['worst']:.1e} ({found[key]['compared']}/{found[key]['of']})"
        for key in ("gradients", "ort")
        if key in found
    ]
    if "train" in found:
        figures.append(f"train {found['train']:.1e}")
    return "; ".join(figures + faults)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("memopt", help="the program")
    parser.add_argument(
        "results", type=pathlib.Path, help="the folder of results, one file a row; rows there are not run again"
    )
    parser.add_argument("models", nargs="*", help="names, or NAME.WAY such as gpt2.default-20; none: all")
    parser.add_argument("--checked", action="store_true", help="the rows that CI runs")
    parser.add_argument("--again", action="store_true", help="run rows that have results, too")
    parser.add_argument("--files", action="store_true", help="keep the files of each row in a folder, and its export")
    parser.add_argument("--limit", type=int, default=240, help="seconds of a row")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="only every N-th row, from the I-th on")
    parser.add_argument("--table", type=pathlib.Path, help="write the table of all results into this file")
    options = parser.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    options.results.mkdir(parents=True, exist_ok=True)
    rows = list(CHECKED) if options.checked else all_rows()
    if options.models:
        rows = [(n, w) for n, w in rows if n in options.models or f"{n}.{w}" in options.models]
    warm_up()
    faults = 0
    part, parts = map(int, options.part.split("/"))
    for name, way in rows[part::parts]:
        begin = time.monotonic()
        found = run(name, way, options, options.results)
        print(f"{name}.{way}: {outcome(found)} [{time.monotonic() - begin:.0f} s]", flush=True)
        if not whole(found) and (options.checked or "not exported" not in found):
            faults += 1
    if options.table:
        write(options.table, [json.loads(p.read_text()) for p in sorted(options.results.glob("*.json"))])
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

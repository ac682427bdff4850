"""Peaks of PyTorch that memopt.torch predicts, beside the measured ones: see README.md."""

from __future__ import annotations

import argparse
import json
import logging
import os
import pathlib
import sys
import tempfile
import warnings

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # before torch: its profiler says that there is no GPU

import torch
from torch import nn

import memopt
import memopt.torch as mt
import model
import plain  # noqa: F401, these register their models
import torchvision_models  # noqa: F401
import transformers_models
from memopt.torch._planner import _Steps

SAMPLES = 8
CHOICES = (("no module", []), ("every block", ["--level", "1"]))
KINDS = (("sdpa", None), ("eager", None), ("sdpa", torch.bfloat16))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("models", nargs="*", help="of the zoo; default all of transformers")
    options.add_argument("--table", help="write the table to this file")
    chosen = options.parse_args()
    torch.set_num_threads(2)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    names = chosen.models or families()
    if unknown := sorted(set(names) - set(model.MODELS)):
        options.error(f"the zoo has no {', '.join(unknown)}")
    rows = [row for name in names for row in rows_of(name)]
    text = table(rows)
    if chosen.table:
        pathlib.Path(chosen.table).write_text(text)
    print(text)
    return 1 if any(abs(r["off"]) > 0.01 or not r["equal"] for r in rows) else 0


def families() -> list[str]:
    """The models of transformers, by name."""
    return sorted(n for n, make in model.MODELS.items() if make.__module__ == transformers_models.__name__)


def rows_of(name: str) -> list[dict]:
    """The rows of a model: attention, precision, choice of modules."""
    rows, seen = [], set()
    for attention, autocast in KINDS:
        made = model.build(name)
        inner = getattr(made.module, "module", made.module)
        if not set_attention(inner, attention):
            continue
        torch.manual_seed(2)
        inputs = list(made.inputs(SAMPLES if not made.fixed else made.batch).values())
        step = _Steps(made.module, inputs, None, None, autocast)
        try:
            base = step.trace(None)
        except mt.TraceError as e:  # a model that does not run in this precision
            print(f"{name}, {attention}, {autocast}: {e}", file=sys.stderr)
            continue
        for choice, flags in CHOICES:
            plan = planned(base, flags)
            if plan is None or (attention, autocast, plan.modules) in seen:
                continue
            seen.add((attention, autocast, plan.modules))
            try:
                row = compared(step, made.module, inputs, plan, autocast)
            except (RuntimeError, mt.PlanError) as e:  # elements of masks that a trace does not have; blocks with hooks
                print(f"{name}, {attention}, {autocast}: {e}", file=sys.stderr)
                break
            rows.append({"model": name, "attention": attention, "precision": "bf16" if autocast else "fp32",
                         "choice": choice} | row)
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def set_attention(module: nn.Module, attention: str) -> bool:
    """Chooses a model's attention; False where it has another one only."""
    if not hasattr(module, "set_attn_implementation"):
        return attention == "sdpa"
    try:
        module.set_attn_implementation(attention)
    except ValueError:
        return False
    return True


def planned(base: mt.Trace, flags: list[str]) -> mt.Plan | None:
    """The plan of the program for a traced step; None where no choice fits."""
    with tempfile.TemporaryDirectory() as folder:
        step, out = pathlib.Path(folder, "step.json"), pathlib.Path(folder, "plan.json")
        step.write_text(base.to_json())
        try:
            memopt.run("plan", step, "--select", "modules", "--save-plan", out, "--time-limit", "5s", *flags)
        except memopt.Error as e:
            if e.code != 3:
                raise
            return None
        return mt.Plan.load(json.loads(out.read_text()))


def compared(step: _Steps, module: nn.Module, inputs: list, plan: mt.Plan, autocast: torch.dtype | None) -> dict:
    predicted = step.trace(plan).peak_bytes

    def run() -> None:
        module.zero_grad(set_to_none=True)
        with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
            loss = module(*inputs)[0]
        loss.backward()

    with mt.apply(module, plan):
        measured = mt.measure(run, show=False).peak_bytes
    equal = bool(mt.check(module, plan, inputs, autocast=autocast))
    return {"modules": len(plan.modules), "predicted": predicted, "measured": measured,
            "off": predicted / measured - 1, "equal": equal}


def table(rows: list[dict]) -> str:
    lines = ["| model | attention | precision | under checkpoints | predicted KiB | measured KiB | off | equal bits |",
             "| --- | --- | --- | --- | ---: | ---: | ---: | --- |"]
    for r in rows:
        lines.append(f"| {r['model']} | {r['attention']} | {r['precision']} | {r['choice']} ({r['modules']}) | "
                     f"{r['predicted'] / 1024:.1f} | {r['measured'] / 1024:.1f} | {100 * r['off']:+.2f} % | "
                     f"{'yes' if r['equal'] else 'NO'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

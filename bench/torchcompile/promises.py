"""The promised peak of memopt.torch.compile beside the measured one, model by model: see README.md."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import pathlib
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

PYTHON = pathlib.Path(__file__).resolve().parent.parent.parent / "python"
BUDGETS = ("none", "70%", "50%")
HEADER = "| budget | predicted, MiB | measured, MiB | | recomputed | gradients |"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("models", nargs="*", help="default all of forms.py and further.py")
    options.add_argument("--backend", choices=("aot_eager", "inductor"), default="aot_eager")
    options.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # the only model, in this process
    chosen = options.parse_args()
    if chosen.one:
        for row in measured(chosen.models[0], chosen.backend):
            print(json.dumps(row))
        return 0
    failed = False
    print(f"| model {HEADER}\n| --- | --- | ---: | ---: | ---: | ---: | --- |")
    for model in chosen.models or names():
        rows = of_process(sys.executable, model, chosen.backend)
        failed |= rows is None or any(r["fault"] for r in rows)
        for row in rows or [{"text": "failed |  |  |  |  | "}]:
            print(f"| {model} | {row['text']} |", flush=True)
    return int(failed)


def names() -> list[str]:
    """All models."""
    from forms import FORMS
    from further import FURTHER

    return [*FORMS, *FURTHER]


def of_process(python: str, model: str, backend: str) -> list[dict[str, Any]] | None:
    """The rows of a model, measured in a process of an interpreter; None where it failed."""
    out = run([python, __file__, model, "--one", "--backend", backend], stdout=subprocess.PIPE)
    return [json.loads(line) for line in out.stdout.splitlines()] if out.returncode == 0 else None


def run(command: list[str], **given: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program of this folder or of the package's."""
    path = [str(PYTHON / "src"), str(pathlib.Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    return subprocess.run(command, env=env, text=True, check=False, **given)


def measured(model: str, backend: str) -> list[dict[str, Any]]:
    """The rows of a model: whether one breaks a promise, and its cells."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # before torch: its profiler says that there is no GPU
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    import torch
    from forms import FORMS
    from further import FURTHER

    import memopt.torch

    torch.set_num_threads(2)
    torch.manual_seed(0)
    form = (FORMS | FURTHER)[model]()
    state = {k: v.clone() for k, v in form.module.state_dict().items()}
    wanted: list[torch.Tensor] = []
    rows = []
    for budget in (*(["plain"] if backend == "aot_eager" else []), *BUDGETS):
        torch._dynamo.reset()
        if budget == "plain":
            compiled = torch.compile(form.module, backend=backend)
        else:
            limit = None if budget == "none" else budget
            compiled = memopt.torch.compile(form.module, budget=limit, backend=backend)
        step = step_of(compiled, form)
        try:
            for _ in range(2):  # the first one compiles the code that the second one runs
                form.module.load_state_dict(state)
                torch.manual_seed(1)
                step()
        except torch._dynamo.exc.BackendCompilerFailed as e:
            if not isinstance(e.inner_exception, memopt.torch.BudgetError):
                raise
            lowest, proved = e.inner_exception.lowest_bytes / 2**20, "every schedule" in str(e.inner_exception)
            text = (
                f"no step takes less than {lowest:.2f} MiB" if proved else f"no step below {lowest:.2f} MiB was found"
            )
            rows.append({"fault": False, "text": f"{budget} |  |  | {text} |  | "})
            continue
        found = [p.grad.clone() for p in form.module.parameters() if p.grad is not None]
        wanted = wanted or found
        same = all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
        if budget == "plain":
            continue
        form.module.zero_grad()
        gc.collect()
        peak = memopt.torch.measure(step, warmup=0, repeat=1, device="cpu", show=False).peak_bytes
        promise = compiled.memopt
        error = promise.predicted_peak_bytes / peak - 1
        share = peak / promise.baseline_peak_bytes
        over = budget != "none" and share > float(budget[:-1]) / 100 * (1.02 if backend == "inductor" else 1)
        far = max(
            float((a - b).abs().max() / b.abs().max().clamp_min(1e-9)) for a, b in zip(found, wanted, strict=True)
        )
        cells = (
            budget,
            f"{promise.predicted_peak_bytes / 2**20:.2f}",
            f"{peak / 2**20:.2f}",
            f"{100 * error:+.2f} %",
            f"{100 * promise.overhead:.1f} %",
            "same bits" if same else f"{far:.0e}",
        )
        fault = over or abs(error) > (0.05 if backend == "inductor" else 0.01) or (backend == "aot_eager" and not same)
        rows.append({"fault": fault, "text": " | ".join(cells)})
    return rows


def step_of(compiled: Any, form: Any) -> Callable[[], None]:
    """A training step without an optimizer."""

    def step() -> None:
        form.module.zero_grad()
        compiled(**form.batch).backward()

    return step


if __name__ == "__main__":
    sys.exit(main())

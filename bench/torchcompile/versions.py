"""memopt.torch.compile on other versions of PyTorch: its tests, and predicted against measured peaks: see README.md."""

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

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parent.parent / "python"
MODELS, BUDGETS = ("gpt2", "llama", "bert", "vit"), ("none", "70%", "50%")
TESTS = ("tests/test_compile.py", "tests/test_ask.py")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("versions", nargs="*", help="of torch, such as 2.14.1")
    options.add_argument("--venvs", type=pathlib.Path, default="/tmp/memopt-versions", help="a folder; they stay there")
    options.add_argument("--models", nargs="*", default=MODELS)
    options.add_argument("--backends", nargs="*", default=("aot_eager", "inductor"))
    options.add_argument("--no-tests", action="store_true", help="measure alone")
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # a model and a backend, in this process
    chosen = options.parse_args()
    if chosen.one:
        for row in measured(*chosen.one):
            print(json.dumps(row))
        return 0
    failed = False
    print("| torch | backend | model | budget | predicted, MiB | measured, MiB | | recomputed | gradients |")
    print("| --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |")
    for version in chosen.versions:
        python = environment(chosen.venvs / version, version)
        for backend in chosen.backends:
            for model in chosen.models:
                out = run([python, __file__, "--one", model, backend], stdout=subprocess.PIPE)
                failed |= out.returncode != 0
                for line in out.stdout.splitlines():
                    row = json.loads(line)
                    failed |= row["fault"]
                    print(f"| {version} | {backend} | {model} | {row['text']} |", flush=True)
        if not chosen.no_tests:
            out = run([python, "-m", "pytest", "-q", *TESTS], cwd=PYTHON, stdout=subprocess.PIPE)
            failed |= out.returncode != 0
            print(f"| {version} | tests | {'pass' if out.returncode == 0 else out.stdout[-2000:]} |", flush=True)
    return int(failed)


def environment(folder: pathlib.Path, version: str) -> str:
    """The interpreter of a virtual environment with a version of torch, which is made where it is not there."""
    python = str(folder / "bin" / "python")
    if not os.path.exists(python):
        subprocess.run(["uv", "venv", "--quiet", folder], check=True)
        packages = (f"torch=={version}", "transformers", "pytest")
        subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, *packages], check=True)
    return python


def run(command: list[str], **given: Any) -> subprocess.CompletedProcess[str]:
    path = f"{PYTHON / 'src'}{os.pathsep}{HERE}"
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, text=True, check=False, **given)


def measured(model: str, backend: str) -> list[dict[str, Any]]:
    """The rows of a model: whether one breaks a promise, and its cells."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # before torch: its profiler says that there is no GPU
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    import torch
    from forms import FORMS

    import memopt.torch

    torch.set_num_threads(2)
    torch.manual_seed(0)
    form = FORMS[model]()
    state = {k: v.clone() for k, v in form.module.state_dict().items()}
    wanted: list[torch.Tensor] = []
    rows = []
    for budget in (*(["plain"] if backend == "aot_eager" else []), *BUDGETS):
        torch._dynamo.reset()
        form.module.load_state_dict(state)
        if budget == "plain":
            compiled = torch.compile(form.module, backend=backend)
        else:
            limit = None if budget == "none" else budget
            compiled = memopt.torch.compile(form.module, budget=limit, backend=backend)
        step = step_of(compiled, form)
        step()
        form.module.load_state_dict(state)
        step()
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

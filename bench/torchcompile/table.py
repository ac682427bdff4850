"""memopt.torch.compile beside PyTorch's own ways to save memory, model by model: see README.md."""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import logging
import os
import pathlib
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # before torch: its profiler says that there is no GPU

import torch
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config
from torch._inductor.async_compile import AsyncCompile

import forms
import memopt.torch as mt
import render
import ways
from forms import FORMS, Form

BUDGETS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.0)
SOLVERS = ("dp", "greedy", "ilp")

# A peak that is so large a share of a higher one stands for both.
_ALIKE = 0.99

# Seconds between timed steps, for other programs.
_REST = 0.1


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("models", nargs="*", help=f"default all: {' '.join(FORMS)}")
    options.add_argument("--backend", choices=("aot_eager", "inductor"), default="aot_eager")
    options.add_argument("--budgets", type=float, nargs="*", default=BUDGETS, help="of PyTorch's partitioner")
    options.add_argument("--solvers", nargs="*", default=SOLVERS, help="of PyTorch's partitioner")
    options.add_argument("--layers", type=int, help="of transformers, in place of 4")
    options.add_argument("--rounds", type=int, default=7, help="steps of each way that are timed in turn")
    options.add_argument("--peaks", action="store_true", help="leave Inductor's kernels out: no times and no gradients")
    options.add_argument("--priority", action="store_true", help="plan and time steps before other programs (Linux)")
    options.add_argument("--rows", default="rows.jsonl", help="file to which rows are added; models in it are done")
    options.add_argument("--table", help="write the tables of the file's rows here, other backends' stay")
    options.add_argument("--known", help="file of rows that a process that ended early has printed, with --peaks")
    options.add_argument("--one", action="store_true", help="this process measures the only model")
    chosen = options.parse_args()
    if chosen.one:
        print(json.dumps(measured(chosen.models[0], chosen)))
        return 0
    if unknown := sorted(set(chosen.models) - set(FORMS)):
        options.error(f"no model {', '.join(unknown)}")
    path = pathlib.Path(chosen.rows)
    done = {(r["model"], r["backend"]) for r in read(path)}
    for name in chosen.models or FORMS:
        if (name, chosen.backend) not in done:
            one(name, chosen, path)
    rows = read(path)
    if chosen.table:
        table = pathlib.Path(chosen.table)
        table.write_text(render.within(table.read_text() if table.exists() else "", rows))
    print(render.within("", rows))
    return 0 if all(render.faults(r) == [] for r in rows) else 1


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    """The models of a file of rows."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def one(name: str, chosen: argparse.Namespace, path: pathlib.Path) -> None:
    """Measures a model in a process of its own, and adds its line to the file."""
    command = [sys.executable, __file__, name, "--one", "--backend", chosen.backend, "--rounds", str(chosen.rounds)]
    command += ["--budgets", *map(str, chosen.budgets), "--solvers", *chosen.solvers]
    command += ["--priority"] * chosen.priority + ["--peaks"] * chosen.peaks
    command += ["--layers", str(chosen.layers)] if chosen.layers else []
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if out.returncode:
        print(f"{name}: exit status {out.returncode}", file=sys.stderr)
        return
    with path.open("a") as f:
        f.write(out.stdout.splitlines()[-1] + "\n")


class Bench:
    """One model, its ways, and a row for each."""

    def __init__(self, name: str, backend: str, rounds: int) -> None:
        torch.set_num_threads(2)
        torch._dynamo.config.recompile_limit = 1000
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        torch.manual_seed(0)
        self.form: Form = FORMS[name]()
        self.traced = ways.Traced(self.form.module, self.form.batch)
        self.backend, self.rounds = backend, rounds
        self.parameters = [p for p in self.form.module.parameters() if p.requires_grad]
        self.buffers = [b.clone() for b in self.form.module.buffers()]
        self.steps: list[Callable[[], None]] = []
        self.rows: list[dict[str, Any]] = []
        self.reference: list[torch.Tensor | None] = []
        self.peaks = False  # Inductor's kernels are left out
        self.known: dict[str, dict[str, Any]] = {}  # by way: rows of a process before

    def add(self, way: str, made: ways.Compiled, **more: Any) -> dict[str, Any]:
        """Compiles a way, and measures its peak and its gradients."""
        if way in self.known:
            self.rows.append(self.known[way])
            return self.known[way]

        def step() -> None:
            for p in self.parameters:
                p.grad = None
            made.run(**self.form.batch).backward()

        with torch.no_grad():
            for b, first in zip(self.form.module.buffers(), self.buffers, strict=True):
                b.copy_(first)
        torch.manual_seed(0)
        clock = time.process_time if self.peaks else cpu
        with made.around():
            seconds = clocked(step, clock)
            gradients = [None if p.grad is None else p.grad.clone() for p in self.parameters]
            self.reference = self.reference or gradients
            steady = min(clocked(step, clock) for _ in range(1 if self.peaks else 2))
            for p in self.parameters:
                p.grad = None
            peak = mt.measure(step, warmup=0, device="cpu", show=False).peak_bytes
        row = {
            "way": way,
            "peak": peak,
            "held": made.memopt.held_bytes if made.memopt else None,
            "predicted": made.memopt.predicted_peak_bytes if made.memopt else None,
            "overhead": made.cost / made.base - 1,
            "bound": made.memopt.bound if made.memopt else None,
            "nodes": made.nodes,
            "planning": made.planning,
            "compiling": seconds - steady,
            "compilations": made.compilations,
            "off": None if self.peaks else difference(gradients, self.reference),
            "time": None,
            **more,
        }
        self.rows.append(row)
        self.steps.append(lambda: inside(made, step))
        print(json.dumps(row), file=sys.stderr, flush=True)
        gc.collect()
        gc.freeze()
        return row

    def time(self) -> None:
        """Steps of all ways in turn: each row gets the median of its time as a multiple of the first row's."""
        ratios: list[list[float]] = [[] for _ in self.rows]
        graphs = counters["stats"]["unique_graphs"]
        for _ in range(self.rounds):
            times = []
            for step in self.steps:
                time.sleep(_REST)
                with ways.before_others():
                    times.append(clocked(step))
            for of, t in zip(ratios, times, strict=True):
                of.append(t / times[0])
        if counters["stats"]["unique_graphs"] > graphs:
            raise RuntimeError("Dynamo compiled a graph for a timed step, which has not run in the way of its row")
        for row, of in zip(self.rows, ratios, strict=True):
            row["time"] = sorted(of)[len(of) // 2]


def zeros(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """The memory of a result that no kernel writes: indices have to be within their bounds."""
    return torch.empty_strided(size, stride, dtype=dtype).zero_()


def inside(made: ways.Compiled, step: Callable[[], None]) -> None:
    with made.around():
        step()


def clocked(step: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds of a step."""
    began = clock()
    step()
    return clock() - began


def cpu() -> float:
    """The CPU seconds of this process, and of the programs that it ran."""
    return sum(os.times()[:4])


def difference(given: list[torch.Tensor | None], wanted: list[torch.Tensor | None]) -> float:
    """The largest difference of a gradient, as a share of its largest element; 0: equal bit for bit."""
    off = 0.0
    for a, b in zip(given, wanted, strict=True):
        if a is None or b is None:
            off = max(off, 0.0 if a is b else float("inf"))
        elif not torch.equal(a, b):
            off = max(off, ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item())
    return off


def measured(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """The rows of a model."""
    if chosen.layers:
        forms.deep(chosen.layers)
    bench = Bench(name, chosen.backend, chosen.rounds)
    module, blocks = bench.traced, bench.form.blocks
    ways.prior = chosen.priority
    bench.peaks = chosen.peaks
    if chosen.peaks:
        AsyncCompile.cpp_pybinding = lambda *_: lambda *_: None
        inductor_config.cpp.simdlen = 1  # loops without vectors have the same memory
        torch._C._dynamo.guards._empty_strided_cpu = zeros
        if chosen.known:
            bench.known = {r["way"]: r for r in read(pathlib.Path(chosen.known))}
    held = bench.add("nothing recomputed", ways.memopt_way(module, chosen.backend, None))["held"]
    for solver in chosen.solvers:
        for budget in chosen.budgets:
            if solver == chosen.solvers[0] or 0 < budget < 1:  # at 0 and 1 there is no choice
                bench.add(f"torch {budget:g} {solver}", ways.torch_way(module, chosen.backend, budget, solver))
    for selective in (False, True):
        way = "checkpoint per block" + (", products kept" if selective else "")
        bench.add(way, ways.checkpoint_way(bench.form.module, blocks, chosen.backend, selective))
    lowest(bench, held)
    peaks = sorted({r["peak"] for r in render.torchs(bench.rows) if r["peak"] < bench.rows[0]["peak"]})
    for lower, peak in itertools.pairwise([0, *peaks]):
        if lower < _ALIKE * peak:
            limited(bench, held, peak)
    if not chosen.peaks:
        bench.time()
    about = {
        "torch": torch.__version__,
        "day": time.strftime("%Y-%m-%d"),
        "priority": chosen.priority,
        "peaks": chosen.peaks,
        "layers": chosen.layers,
        "rounds": None if chosen.peaks else chosen.rounds,
    }
    return {"model": name, "backend": chosen.backend, **about, "rows": bench.rows}


def limited(bench: Bench, held: int, budget: int) -> int | None:
    """A row of memopt; the lowest peak that was found, where it has no plan within the budget."""
    try:
        way = ways.memopt_way(bench.traced, bench.backend, held + budget)
        bench.add(f"memopt {budget / 2**20:.2f} MiB", way, budget=budget)
    except torch._dynamo.exc.BackendCompilerFailed as e:
        if not isinstance(e.inner_exception, mt.BudgetError):
            raise
        print(e.inner_exception, file=sys.stderr, flush=True)
        return e.inner_exception.lowest_bytes - held
    return None


def lowest(bench: Bench, held: int) -> None:
    """The row of the lowest peak that memopt finds."""
    budget = limited(bench, held, 1)
    for _ in range(3):
        if budget is None:
            return
        budget = limited(bench, held, budget)


if __name__ == "__main__":
    sys.exit(main())

"""Measures a net in ORTModule: peaks, times, losses and gradients of its levels, of its configurations and of plans of
memopt, in one process and with one export.

    LD_PRELOAD=heap.so MEMOPT_BINARY=memopt python measure.py NET OUT.json --layers 2
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import gc
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("ORTMODULE_FALLBACK_POLICY", "FALLBACK_DISABLE")
for variable in ("MEMOPT_BUDGET", "MEMOPT_PLAN", "ORTMODULE_MEMORY_OPT_LEVEL", "ORTMODULE_MEMORY_OPT_CONFIG"):
    os.environ.pop(variable, None)
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "src"))

import memopt  # noqa: E402
import memopt.ortmodule  # noqa: E402
import nets  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from memopt.ortmodule import _patch, _plan  # noqa: E402
from onnxruntime.training.ortmodule import ORTModule  # noqa: E402
from onnxruntime.training.ortmodule._graph_execution_manager import GraphExecutionManager  # noqa: E402
from onnxruntime.training.ortmodule.options import _MemoryOptimizationLevel  # noqa: E402

HEAP = ctypes.CDLL(None)
HEAP.heap_live.restype = HEAP.heap_peak.restype = ctypes.c_long
made = GraphExecutionManager._get_session_config


def without_arena(self):
    options, *rest = made(self)
    options.enable_cpu_mem_arena = False
    options.intra_op_num_threads = 1
    if os.environ.get("ORDER"):
        options.execution_order = getattr(onnxruntime.ExecutionOrder, os.environ["ORDER"])
    return (options, *rest)


GraphExecutionManager._get_session_config = without_arena
SEARCH = ["--effort", "2", "--time-limit", "5m"]  # as by default, with time enough on a busy machine
flags = _plan.Settings.flags
_plan.Settings.flags = lambda self: flags(self) + (SEARCH if self.budget else [])


class Net:
    """A net in ORTModule that can be given one session after the other."""

    def __init__(self, name: str, **sizes: int) -> None:
        torch.set_num_threads(1)
        self.module, self.batch = nets.build(name, **sizes)
        self.module.train()
        self.reference = copy.deepcopy(self.module)
        self.trained = ORTModule(self.module)
        self.planned = None
        of = _patch.planned

        def planned(*arguments):
            self.planned = of(*arguments)
            return self.planned

        _patch.planned = planned
        self.step()
        self.manager = self.trained._torch_module._execution_manager(True)
        self.graph = self.manager._onnx_models.optimized_model.SerializeToString()

    def session(self, level: int = 0, config: list[str] | None = None, **environment: str):
        """Makes a session; returns its agent."""
        import onnx

        m, o, observer = self.manager, self.manager._runtime_options, self.manager._runtime_inspector.memory_ob
        m._onnx_models.optimized_model = onnx.load_model_from_string(self.graph)
        o.memory_optimization_level = _MemoryOptimizationLevel(level)
        o.recompute_probe_config = "1:1" if level else "1:0"
        o.memory_optimizer_config_file_path = ""
        observer._is_enabled = True
        observer.cluster_id_combination_to_saving_symbolics_map.clear()
        if config:
            o.memory_optimizer_config_file_path = written(config)
        os.environ.update(environment)
        try:
            m._create_execution_agent()
        finally:
            for k in environment:
                del os.environ[k]
        agent = m._execution_agent
        for k in ("run_forward", "run_backward"):  # the first step's table is not wanted
            agent.__dict__.pop(k, None)
        return agent, list(observer.cluster_id_combination_to_saving_symbolics_map)

    def step(self, agent=None):
        """Loss, gradients, peak and processor time of a step."""
        if agent is not None:
            self.manager._execution_agent = agent
        self.trained.zero_grad(set_to_none=True)
        gc.collect()
        HEAP.heap_restart()
        before, start = HEAP.heap_live(), time.process_time()
        loss = self.trained(**self.batch)
        loss.backward()
        seconds = time.process_time() - start
        peak = HEAP.heap_peak() - before
        gradients = {k.replace("_original_module.", ""): p.grad for k, p in self.trained.named_parameters()}
        return loss.item(), gradients, peak, seconds

    def against_torch(self):
        """Loss and gradients of PyTorch, without those that are 0 in double precision, such as of key biases, and of
        biases between two batch norms: in single precision they are rounding errors."""
        exact = copy.deepcopy(self.reference).double()
        torch.set_default_dtype(torch.float64)  # of masks that the model makes
        exact(**{k: v.double() if v.is_floating_point() else v for k, v in self.batch.items()}).backward()
        torch.set_default_dtype(torch.float32)
        vanish = {k for k, p in exact.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-10}
        self.reference.zero_grad(set_to_none=True)
        loss = self.reference(**self.batch)
        loss.backward()
        return loss.item(), {k: p.grad for k, p in self.reference.named_parameters() if k not in vanish}


def difference(got, wanted) -> float:
    """The largest difference of gradients, by each parameter's largest element."""
    return max(float((got[k] - g).abs().max() / g.abs().max()) for k, g in wanted.items())


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("net")
    p.add_argument("out")
    for name, n in (("layers", 4), ("width", 256), ("batch", 4), ("tokens", 128)):
        p.add_argument("--" + name, type=int, default=n)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--configs", type=int, default=6, help="how many configurations are tried")
    a = p.parse_args()
    net = Net(a.net, layers=a.layers, width=a.width, batch=a.batch, tokens=a.tokens)
    agents, rows = {}, {}
    dropout = "dropout" in a.net
    wanted_loss, wanted = net.against_torch()
    plain = {}  # ORTModule's own gradients

    def row(name: str, agent, **more):
        net.step(agent)
        loss, gradients, peak, _ = net.step(agent)
        agents[name] = agent
        rows[name] = {"measured": peak, "loss": loss, **more}
        if not dropout:  # each session draws its own masks
            plain.update({k: gradients[k].clone() for k in wanted} if not plain else {})
            rows[name].update(
                loss_off=abs(loss - wanted_loss) / abs(wanted_loss),
                gradients_off=difference(gradients, wanted),
                changed=difference(gradients, plain),
            )
        print(name, rows[name], flush=True)

    agent, clusters = net.session()
    row("level 0", agent)
    for level in (1, 2):
        agent, _ = net.session(level)
        told = answer(net, "--level", str(level))
        row(f"level {level}", agent, predicted=told["peak"]["planned_bytes"], overhead=told["recompute"]["overhead"])
    rows["level 0"]["predicted"] = answer(net)["peak"]["planned_bytes"]
    best = None
    for config in trials(clusters, a.configs):
        agent, _ = net.session(config=config)
        net.step(agent)
        peak = net.step(agent)[2]
        if best is None or peak < best[0]:
            best = peak, config, agent
    if best:
        told = answer(net, "--config", written(best[1]))
        row("best configuration", best[2], config=best[1], predicted=told["peak"]["planned_bytes"])
    for share in ("70%", "50%"):
        planned_row(net, row, share, share)
    level, base = rows["level 1"], rows["level 0"]["predicted"]
    planned_row(net, row, "at level 1's price", priced(net, level["overhead"], level["predicted"], base))
    lowest(net, row)
    times = {name: [] for name in agents}
    for _ in range(a.rounds):
        for name, agent in agents.items():
            times[name].append(net.step(agent)[3])
    for name, t in times.items():
        ratios = sorted(x / y for x, y in zip(t, times["level 0"], strict=True))
        rows[name]["time_ratio"] = ratios[len(ratios) // 2]
    weights = sum(p.numel() * p.element_size() for p in net.trained.parameters())
    Path(a.out).write_text(
        json.dumps({"net": a.net, "weights": weights, "bound": bound(net), "rows": rows}, indent=1) + "\n"
    )


def written(config: list[str]) -> str:
    """The path of a file with a configuration."""
    path = Path(tempfile.gettempdir()) / f"memopt-{os.getpid()}.json"
    path.write_text(json.dumps(config))
    return str(path)


def trials(clusters: list[str], most: int) -> list[list[str]]:
    """Configurations to try: all clusters, and each of the first ones alone."""
    return ([clusters] + [[c] for c in clusters])[:most] if clusters else []


def priced(net: Net, most: float, peak: int, base: int) -> str:
    """The lowest share whose plan is promised to cost no more than a share of a step, by bisection from a peak on."""
    low, high = 0.0, math.ceil(1e8 * peak / base) / 1e6
    for _ in range(5):
        share = (low + high) / 2
        try:
            fits = answer(net, "--budget", f"{share:.6f}%", *SEARCH)["recompute"]["overhead"] <= most
        except memopt.Error:
            fits = False
        low, high = (low, share) if fits else (share, high)
    return f"{high:.6f}%"


def answer(net: Net, *flags: str) -> dict:
    """What memopt plan says of the graph that the session runs."""
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "step.onnx"
        import onnx

        model = onnx.load_model_from_string(net.graph)
        _patch._write_executed(net.manager, model, str(graph))
        dims = _patch._dims(model, net.manager._memopt_shapes)
        bound = ["--dim", ",".join(f"{k}={v}" for k, v in dims.items())] if dims else []
        return json.loads(
            memopt.run("plan", graph, "--budget-in", "ortmodule", *bound, *flags, "-O", "json", "-q", variables=False)
        )


def bound(net: Net) -> int:
    """The bytes below which no plan exists: a budget that is surely too small names them."""
    try:
        answer(net, "--budget", "1%")
    except memopt.Error as e:
        return json.loads(e.output)["lower_bound_bytes"]
    raise SystemExit("a plan to 1 %")


def planned_row(net: Net, row, name: str, share: str) -> float:
    """The row of a plan to a share of the peak; the lowest share that was found where there is none, else 0."""
    try:
        agent, _ = net.session(MEMOPT_BUDGET=share)
    except memopt.ortmodule.BudgetError as e:
        print(name, e, flush=True)
        return e.lowest_bytes / answer(net)["peak"]["baseline_bytes"]
    plan = net.planned
    row("memopt " + name, agent, predicted=plan.promised_bytes, clones=plan.clones, overhead=plan.overhead)
    return 0


def lowest(net: Net, row) -> None:
    """The row of the lowest peak: a budget that cannot be met tells how low a plan can go."""
    share = 0.05
    for _ in range(4):
        share = 1.01 * planned_row(net, row, "lowest", f"{100 * share:.1f}%")
        if not share:
            break


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Plans of modules in PyTorch: what memopt predicts, and what PyTorch measures. See README.md."""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "torchmodules"), os.path.join(HERE, "..", "..", "python", "src")]
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # others work on the machine
if "--threads" in sys.argv:  # the BLAS library has threads of its own
    os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[sys.argv.index("--threads") + 1]
warnings.filterwarnings("ignore")

import torch

import memopt.torch
from cases import LOSSES, MODELS


def plan(memopt, model, path, *flags):
    """The plan file of memopt, or None where nothing fits; the second result is what was said."""
    done = subprocess.run(
        [memopt, "plan", model, "--select", "modules", "--device", "cpu", "--save-plan", path, *flags],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 3:
        return None
    if done.returncode != 0:
        raise RuntimeError(f"memopt plan {' '.join(flags)}: {done.stderr.strip()}")
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def lowest(memopt, model):
    """The lowest peak that memopt reaches, in bytes: what it says when asked for the impossible."""
    done = subprocess.run(
        [memopt, "plan", model, "--select", "modules", "--device", "cpu", "--budget", "1", "-O", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout)["peak_bytes"]


def held(net, inputs):
    return sum(t.numel() * t.element_size() for t in [*net.parameters(), *net.buffers(), *inputs])


def ways(memopt, model, folder, shares):
    """The plans that are compared: none, every block, memopt's at the peak of that, at shares of the step, and at the
    lowest peak there is."""
    none = plan(memopt, model, os.path.join(folder, "none.json"))
    every = plan(memopt, model, os.path.join(folder, "every.json"), "--level", "1")
    out = [("nothing again", none), ("every block", every)]
    out.append(
        ("at that peak", plan(memopt, model, os.path.join(folder, "same.json"), "--budget", str(every["peak_bytes"])))
    )
    for share in shares:
        out.append((f"{share} %", plan(memopt, model, os.path.join(folder, f"{share}.json"), "--budget", f"{share}%")))
    out.append(
        ("lowest", plan(memopt, model, os.path.join(folder, "lowest.json"), "--budget", str(lowest(memopt, model))))
    )
    return none, out


def row(name, options, folder):
    torch.manual_seed(0)
    case = MODELS[name][0]
    net, inputs = case.build()
    model, loss = net.model.train(), LOSSES[net.loss]
    path = os.path.join(folder, name + ".onnx")
    memopt.torch.export(model, tuple(inputs[:-1]), path, loss=loss, labels=inputs[-1], dynamic_axes=None)
    none, plans = ways(options.memopt, path, folder, options.shares)

    def step():
        for p in model.parameters():
            p.grad = None
        loss(model(*inputs[:-1]), inputs[-1]).backward()

    step()
    records = []
    for way, p in plans:
        record = {"way": way, "fits": p is not None, "times": []}
        if p is not None:
            record["predicted"] = p["peak_bytes"] - held(model, inputs)
            record["modules"] = len(p["modules"])
            record["more"] = p["recompute_share"]
            record["plan"] = p
            with memopt.torch.apply(model, p):
                record["measured"] = memopt.torch.measure(step, show=False).peak_bytes
            record["equal"] = bool(memopt.torch.check(model, p, tuple(inputs[:-1]), loss=loss, labels=inputs[-1]))
        records.append(record)
    for _ in range(options.rounds):  # in turns, so that others on the machine disturb all alike
        for record in records:
            if record["fits"]:
                with memopt.torch.apply(model, record["plan"]):
                    gc.collect()
                    begin = time.perf_counter()
                    step()
                    record["times"].append(time.perf_counter() - begin)
    budgets = {f"{s} %": s / 100 * records[0]["predicted"] for s in options.shares}
    for record in records:
        record["budget"] = budgets.get(record["way"])
        record.pop("plan", None)
    return records


def mib(n):
    return f"{n / 2**20:.2f}"


def table(results, threads):
    print(f"torch {torch.__version__}, {threads} threads; MiB beyond parameters, buffers and inputs\n")
    print(
        "| model | under checkpoints | budget | predicted | measured | off | time, ms | of plain | predicted | bits |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, records in results.items():
        plain = min(records[0]["times"])
        for i, r in enumerate(records):
            budget = mib(r["budget"]) if r["budget"] else ""
            head = f"| {name if i == 0 else ''} | {r['way']} | {budget} |"
            if not r["fits"]:
                print(head + " does not fit | | | | | | |")
                continue
            off = r["measured"] / r["predicted"] - 1
            quick = min(r["times"])
            ratio = statistics.median(a / b for a, b in zip(r["times"], records[0]["times"]))
            print(
                f"{head} {mib(r['predicted'])} | {mib(r['measured'])} | {100 * off:+.1f} % | {1e3 * quick:.0f} "
                f"| {ratio:.2f} | {1 + r['more']:.2f} | {'equal' if r['equal'] else 'NOT EQUAL'} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models; default all")
    parser.add_argument("--memopt", default="memopt", help="the program")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is timed")
    parser.add_argument("--shares", type=lambda text: [int(s) for s in text.split(",")], default=[75, 60, 45])
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    unknown = [n for n in options.names if n not in MODELS]
    if unknown:
        parser.error(f"{unknown[0]}: wanted one of {', '.join(MODELS)}")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or MODELS:
            results[name] = row(name, options, folder)
            print(f"{name} is done", file=sys.stderr)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)
    table(results, options.threads)


if __name__ == "__main__":
    main()

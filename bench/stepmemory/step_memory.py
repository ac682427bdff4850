#!/usr/bin/env python3
"""The memory of whole AdamW steps beside PyTorch's, and what a step takes per parameter: see README.md."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# model, batch, and what else its symbols stand for; whether PyTorch is measured beside it
ROWS = [
    ("gpt2_6l_256", 8, {"seq": 256}, True),
    ("resnet18", 4, {}, True),
    ("mlp_8x1024", 64, {}, True),
    ("gpt2_124m", 2, {"seq": 128}, False),
    ("gpt2_medium", 1, {"seq": 64}, False),
    ("resnet50", 4, {}, False),
    ("vgg11_bn", 4, {}, False),
]


def torch_step(model, batch, sizes):
    """The peak of live bytes of one step in PyTorch, and what lived before it.

    Every event of the CPU's allocator counts, as torch.profiler reports them; parameters, buffers,
    moments and inputs are there before. Gradients are none before the step.
    """
    import torch

    sys.path.insert(0, os.path.join(HERE, "..", "forward"))
    from torch_nets import NETS, Training

    torch.manual_seed(0)
    torch.set_num_threads(2)
    net = Training(NETS[model]()).train()
    if model.startswith("gpt2"):
        x = torch.randint(0, net.model.wte.num_embeddings, (batch, sizes["seq"]))
        labels = torch.randint(0, net.model.wte.num_embeddings, (batch, sizes["seq"]))
    else:
        x = torch.randn((batch, 1024) if model.startswith("mlp") else (batch, 3, 224, 224))
        labels = torch.randint(0, 1000, (batch,))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=False)

    def step():
        net(x, labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()  # makes the moments
    parameters = [*net.parameters(), *net.buffers()]
    moments = [v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v)]
    held = sum(t.numel() * t.element_size() for t in parameters + moments + [x, labels])
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, record_shapes=True
    ) as profile:
        step()
    events = []

    def walk(nodes):
        for e in nodes:
            if e.tag == torch._C._profiler._EventType.Allocation:
                events.append((e.start_time_ns, len(events), e.extra_fields.alloc_size))
            walk(e.children)

    walk(profile.profiler.kineto_results.experimental_event_tree())
    now = top = 0
    for _, _, size in sorted(events):
        now += size
        top = max(top, now)
    return {"peak": held + top, "held": held, "above": top, "version": torch.__version__}


def ask(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def memopt_step(memopt, models, model, batch, sizes, folder):
    """What memopt plans and takes for the same step, with no recomputation."""
    path = os.path.join(folder, model + ".onnx")
    subprocess.run(
        [
            memopt,
            "grad",
            os.path.join(models, model, "model.onnx"),
            "-o",
            path,
            "-q",
            "--optimizer",
            "adamw",
            "--outputs",
            "loss",
        ],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    dims = ",".join(f"{k}={v}" for k, v in {"batch": batch, **sizes}.items())
    run = ask(
        memopt, "run", path, "--dim", dims, "--init", "random:1", "--warmup", "0", "--threads", "2", "-q", "-O", "json"
    )
    plan = ask(memopt, "plan", path, "--dim", dims, "--level", "0", "-q", "-O", "json")
    states = ask(memopt, "inspect", path, "--dim", dims, "-q", "-O", "json")["states"]
    os.remove(path)
    peak, at_peak = run["peak"], plan["at_peak"]
    names = {s["input"] for s in states}
    parameters = sum(s["bytes"] for s in states if s["input"] + "_exp_avg" in names) // 4
    total = peak["persistent_bytes"] + peak["arena_bytes"]
    return {
        "arena": peak["arena_bytes"],
        "measured": peak["measured_arena_bytes"],
        "process": peak["rss_bytes"],
        "held": peak["persistent_bytes"],
        "total": total,
        "parameters": parameters,
        "gradients": at_peak["gradients_bytes"],
        "activations": at_peak["activations_bytes"],
        "per_parameter": (total - at_peak["activations_bytes"]) / parameters,
    }


def mb(n):
    return f"{n / 1e6:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("memopt", nargs="?", help="the program")
    parser.add_argument("models", nargs="?", help="the folder of sample models: NAME/model.onnx")
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--torch", help=argparse.SUPPRESS)  # a process of its own
    parser.add_argument("--json", action="store_true", help="the figures instead of the tables")
    options = parser.parse_args()
    if options.torch:
        model, batch, sizes, _ = next(row for row in ROWS if row[0] == options.torch)
        print(json.dumps(torch_step(model, batch, sizes)))
        return
    if not options.models:
        parser.error("wanted: MEMOPT MODELS")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model, batch, sizes, beside in ROWS:
            if options.only and model not in options.only.split(","):
                continue
            row = memopt_step(options.memopt, options.models, model, batch, sizes, folder)
            row.update(model=model, sizes="x".join(str(n) for n in [batch, *sizes.values()]))
            if beside:
                row["torch"] = ask(sys.executable, os.path.abspath(__file__), "--torch", model)
            found.append(row)
            print(f"{model}: done", file=sys.stderr)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print_tables(found)


def print_tables(rows):
    print(
        "| step | memopt: arena | held throughout | total | PyTorch: above what it holds | held | peak | total ÷ peak |"
    )
    print("| --- " * 8 + "|")
    for r in rows:
        if t := r.get("torch"):
            print(
                f"| {r['model']}, {r['sizes']} | {mb(r['arena'])} | {mb(r['held'])} | {mb(r['total'])} | "
                f"{mb(t['above'])} | {mb(t['held'])} | {mb(t['peak'])} | {r['total'] / t['peak']:.3f} |"
            )
    print()
    print(
        "| step | parameters | total | activations | gradients | bytes per parameter without activations | "
        "measured arena | process ÷ total |"
    )
    print("| --- " * 8 + "|")
    for r in rows:
        exact = "equal" if r["measured"] == r["arena"] else f"{r['measured'] / r['arena']:.6f} of it"
        print(
            f"| {r['model']}, {r['sizes']} | {r['parameters']:,} | {mb(r['total'])} | {mb(r['activations'])} | "
            f"{mb(r['gradients'])} | {r['per_parameter']:.2f} | {exact} | "
            f"{(r['held'] + r['process']) / r['total']:.4f} |"
        )


if __name__ == "__main__":
    main()

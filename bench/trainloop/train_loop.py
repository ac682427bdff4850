#!/usr/bin/env python3
"""Training in PyTorch, and the same training by memopt: see README.md."""
import argparse
import json
import math
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
import warnings

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # no spinning: the machine is shared
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")
warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import torch  # noqa: E402

from forms import FULL, SMALL, Training  # noqa: E402

SEED, THREADS = 7, 2


def build(form, dtype=torch.float32):
    """The module with its first weights, and its data: files, inputs, labels."""
    torch.manual_seed(SEED)
    net = Training(form.net()).to(dtype).train()
    files, x, y = form.data(np.random.default_rng(SEED))
    return net, files, x.to(dtype) if x.is_floating_point() else x, y


class Trainer:
    """PyTorch's loop: AdamW without decay of biases and norms, a linear schedule with warmup, clipping."""

    def __init__(self, form, net, x, y):
        o = form.options
        self.form, self.net, self.x, self.y, self.step, self.limit = form, net, x, y, 0, o["max_grad_norm"]
        groups = [{"params": [p for p in net.parameters() if p.dim() >= 2], "weight_decay": o["weight_decay"]},
                  {"params": [p for p in net.parameters() if p.dim() < 2], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=o["learning_rate"])

        def rate(update):  # as transformers' get_linear_schedule_with_warmup
            if update < o["warmup"]:
                return update / max(1, o["warmup"])
            return max(0.0, (o["steps"] - update) / max(1, o["steps"] - o["warmup"]))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, rate)

    def batch(self):
        """Batch number step: epochs follow each other in the order of the files."""
        per = math.ceil(len(self.x) / self.form.batch)
        rows = slice(self.step % per * self.form.batch, (self.step % per + 1) * self.form.batch)
        return self.x[rows], self.y[rows]

    def update(self):
        loss = self.net(*self.batch())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.limit)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.schedule.step()
        self.step += 1
        return loss.item()


def train(form, steps, dtype=torch.float32, nudge=0.0):
    """The losses of so many updates, from weights that are off by a relative nudge."""
    net, _, x, y = build(form, dtype)
    with torch.no_grad():
        for p in net.parameters() if nudge else []:
            p.mul_(1 + nudge * torch.randn_like(p))
    trainer = Trainer(form, net, x, y)
    return [trainer.update() for _ in range(steps)]


def write_safetensors(path, net):
    """The first weights, under the names of the ONNX file; num_batches_tracked is none of them."""
    tensors = {n: t.detach().numpy() for n, t in net.state_dict().items() if t.dim() and t.is_floating_point()}
    header, at = {}, 0
    for name, a in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in tensors.values():
            f.write(np.ascontiguousarray(a).tobytes())


def write_data(folder, files):
    for name, contents in files.items():
        path = os.path.join(folder, name)
        if isinstance(contents, bytes):
            with open(path, "wb") as f:
                f.write(contents)
        else:
            np.save(path, contents)


def export(form, net, x, y, path):
    """The forward model and its loss, with the weights as initializers."""
    axes = {name: {0: "batch"} for name in form.inputs}
    for name in form.inputs if "seq" in form.dims else []:
        axes[name][1] = "seq"
    torch.onnx.export(net, (x[:form.batch], y[:form.batch]), path, opset_version=17, input_names=form.inputs,
                      output_names=["loss"], dynamic_axes=axes, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False)
    net.train()


def arguments(form, folder):
    """The flags of memopt train that say the same as the loop above."""
    o = form.options
    flags = [*form.flags, "--batch", str(form.batch), "--shuffle=false", "--optimizer", "adamw",
             "--learning-rate", str(o["learning_rate"]), "--weight-decay", str(o["weight_decay"]),
             "--max-grad-norm", str(o["max_grad_norm"]), "--lr-scheduler", "linear",
             "--warmup-steps", str(o["warmup"])]
    for name in form.files:
        flags += ["--data", os.path.join(folder, name)]
    for name, value in form.dims.items():
        flags += ["--dim", f"{name}={value}"]
    return flags


def generate(out):
    """Writes the small forms: model, data, losses, and the flags of memopt train."""
    for name, form in SMALL.items():
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        net, files, x, y = build(form)
        export(form, net, x, y, os.path.join(folder, "model.onnx"))
        write_data(folder, files)
        steps = form.options["steps"]
        losses = train(form, steps)
        exact = train(form, steps, torch.float64)
        off = max(abs(a - b) / abs(b) for a, b in zip(losses, exact))
        with open(os.path.join(folder, "losses.json"), "w") as f:
            json.dump({"made_by": f"bench/trainloop, PyTorch {torch.__version__}", "flags": arguments(form, "."),
                       "losses": [float(f"{v:.8g}") for v in losses]}, f)
            f.write("\n")
        print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}; float32 is {off:.1e} off float64 at most")


def memopt_train(memopt, model, folder, form, steps, *more):
    """The losses and the seconds of each update but the first, by metrics.jsonl."""
    with tempfile.TemporaryDirectory() as job:
        subprocess.run([memopt, "train", model, *arguments(form, folder), "--max-steps", str(steps), "-o", job, "-q",
                        "--threads", str(THREADS), "--logging-steps", "1", *more], check=True,
                       stdout=subprocess.DEVNULL)
        with open(os.path.join(job, "metrics.jsonl")) as f:
            return [line for line in map(json.loads, f) if "loss" in line]


def worst(got, want):
    return max((abs(a - b) / abs(b) for a, b in zip(got, want)), default=math.inf)


def compare(memopt, models, out, only, steps, rounds):
    """Trains the sample models in both, compares losses, and times both in turn."""
    print("| model | batch | losses of memopt | worst loss off PyTorch's | PyTorch's off its own | steps/s | PyTorch | "
          "memopt ÷ PyTorch | of processor time |")
    print("| --- " * 9 + "|")
    for name, form in FULL.items():
        if only and name not in only:
            continue
        form.options = {**form.options, "steps": steps, "warmup": max(1, steps // 10)}
        with tempfile.TemporaryDirectory(dir=out) as folder:
            net, files, x, y = build(form)
            weights = os.path.join(folder, "weights.safetensors")
            write_safetensors(weights, net)
            write_data(folder, files)
            model = os.path.join(models, name, "model.onnx")
            print(f"{name}: {sum(p.numel() for p in net.parameters()):,} parameters", file=sys.stderr)
            losses = train(form, steps)
            lines = memopt_train(memopt, model, folder, form, steps, "--init", weights)
            off, own = worst([line["loss"] for line in lines], losses), worst(train(form, steps, nudge=1e-7), losses)
            speeds = timed(memopt, model, folder, form, weights, net, x, y, rounds)
        mine, theirs = (median([s[i] for s in speeds]) for i in (0, 1))
        ratio, processor = median([s[0] / s[1] for s in speeds]), median([s[2] / s[3] for s in speeds])
        print(f"| {name} | {form.batch} | {lines[0]['loss']:.4f} to {lines[-1]['loss']:.4f} | {off:.1e} | {own:.1e} | "
              f"{mine:.3f} | {theirs:.3f} | {ratio:.3f} | {processor:.3f} |", flush=True)


def timed(memopt, model, folder, form, weights, net, x, y, rounds):
    """Steps per second of memopt and PyTorch, and processor time per step, in turn: the median of a
    run's updates but the first two; what later updates take beside a run of two."""
    trainer = Trainer(form, net, x, y)
    speeds = []
    per_step = form.batch * form.dims.get("seq", 1)
    few, count = 2, 12
    for _ in range(rounds):
        start = children()
        memopt_train(memopt, model, folder, form, few, "--init", weights)
        middle = children()
        lines = memopt_train(memopt, model, folder, form, count, "--init", weights)
        mine = children() - middle - (middle - start)
        rates = [line.get("tokens_per_s", line.get("samples_per_s")) for line in lines[few:]]
        took = []
        for i in range(count):
            if i == few:
                theirs = time.process_time()
            begin = time.perf_counter()
            trainer.update()
            took.append(time.perf_counter() - begin)
        theirs = time.process_time() - theirs
        speeds.append((median(rates) / per_step, 1 / median(took[few:]), mine, theirs))
    return speeds


def children():
    """Seconds of processor time that ended child processes took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def median(values):
    return sorted(values)[len(values) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", metavar="DIR", help="write the small forms there")
    parser.add_argument("memopt", nargs="?", help="the program")
    parser.add_argument("models", nargs="?", help="the folder of sample models: NAME/model.onnx")
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5, help="of timing")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    if options.write:
        generate(options.write)
    if options.models:
        compare(options.memopt, options.models, None, [n for n in options.only.split(",") if n], options.steps,
                options.rounds)
    elif not options.write:
        parser.error("wanted: --write DIR, or MEMOPT MODELS")


if __name__ == "__main__":
    main()

"""Runs a sample model's PyTorch modules, and with the word step their backward pass, for bench/forward.

usage: peer_torch.py MODEL FOLDER THREADS [step]; FOLDER holds manifest.json and the inputs,
parameters among them, as raw files.
Each line on standard input is one step; the answer is its time and the processors' in milliseconds, and the loss.
"""

import json, os, sys, time, warnings

warnings.filterwarnings("ignore")
import numpy as np
import torch
from torch_nets import NETS, Training


def inputs(folder):
    """The inputs by name, in the order of the ONNX file."""
    with open(os.path.join(folder, "manifest.json")) as f:
        for item in json.load(f):
            raw = np.fromfile(os.path.join(folder, item["file"]), dtype=item["numpy"])
            yield item["name"], torch.from_numpy(raw.reshape(item["shape"]))


def build(model, folder):
    """The module in training mode with the given parameters, and its data and labels."""
    net = Training(NETS[model]()).train()
    own = net.state_dict()
    given = dict(inputs(folder))
    missing = [n for n in own if n not in given and not n.endswith("num_batches_tracked")]
    if missing:
        sys.exit("no input holds " + ", ".join(missing))
    with torch.no_grad():
        for name in own.keys() & given.keys():
            own[name].copy_(given[name])
    return net, [t for name, t in given.items() if name not in own]


def main():
    model, folder, threads = sys.argv[1:4]
    backward = sys.argv[4:5] == ["step"]
    if model not in NETS:
        sys.exit("no module for %s; there are: %s" % (model, ", ".join(NETS)))
    torch.set_num_threads(int(threads))
    net, data = build(model, folder)
    torch.set_grad_enabled(backward)
    print("ready", flush=True)
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        net.zero_grad(set_to_none=True)
        loss = net(*data)
        if backward:
            loss.backward()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(1e3 * wall, 1e3 * cpu, float(loss.detach()), flush=True)
        del loss


main()

#!/usr/bin/env python3
"""Exports small PyTorch modules and measures what a training step of each keeps and needs: see README.md."""
import argparse
import json
import os
import sys
import time
import warnings

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # others work on the machine
warnings.filterwarnings("ignore")

import torch

import measure
from cases import CASES, MODELS


def sizes(net, inputs):
    def total(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)
    return {"parameters": total(net.parameters()), "buffers": total(net.buffers()), "inputs": total(inputs)}


def measured(name, case, options):
    """The record of one case: bytes of the plain step, the saved tensors, and steps with checkpoints."""
    net, inputs = case.build()
    record = {**sizes(net, inputs)}
    measure.step(net, inputs)  # what is made once is made now
    record["plain"] = measure.measure(net, inputs)
    record["saved"], table = measure.saved(net, inputs)
    if not options.no_tensors:
        record["tensors"] = table
    ways = {}
    if name in MODELS:
        block = MODELS[name][1]
        blocks = [n for n, m in net.model.named_modules() if isinstance(m, block)]
        ways = {"every": blocks, "second": blocks[::2], "first half": blocks[:len(blocks) // 2]}
        modules = dict(net.model.named_modules())
        inner = [[f"{b}.{child}" for child in measure.children(modules[b])] for b in blocks]
        ways["nested first"] = blocks + [i[0] for i in inner if i]
        ways["nested last"] = blocks + [i[-1] for i in inner if i]
        ways["nested all"] = blocks + [child for i in inner for child in i]
    else:
        children = measure.children(net.model)
        ways = {child: [child] for child in children}
        if len(children) > 1:
            ways["all"] = children
    record["checkpointed"] = {}
    for way, names in ways.items():
        try:
            record["checkpointed"][way] = {"modules": names, **measure.measure(net, inputs, names)}
        except Exception as e:  # a module that cannot be run again this way
            record["checkpointed"][way] = {"modules": names, "error": str(e).splitlines()[0][:120]}
    if options.export:
        from export import export
        net, inputs = case.build()
        try:
            export(net, inputs, os.path.join(options.export, name + ".onnx"))
        except Exception as e:
            record["export_error"] = str(e).strip().splitlines()[0][:160]
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cases; none: all of them, without the whole models")
    parser.add_argument("--models", action="store_true", help="the whole models too")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th of the cases only")
    parser.add_argument("--export", metavar="DIR", help="write NAME.onnx files there")
    parser.add_argument("--json", metavar="FILE", help="write the figures there; what it holds of other cases stays")
    parser.add_argument("--no-tensors", action="store_true", help="leave the saved tensors out of the file")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeline", metavar="NAME", help="print the allocations of one step")
    parser.add_argument("--checkpoint", default="", help="modules to checkpoint in the timeline, separated by commas")
    parser.add_argument("--least", type=int, default=1024, help="bytes below which the timeline leaves an event out")
    parser.add_argument("--list", action="store_true", help="print the names")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cases = {**CASES, **{name: case for name, (case, _) in MODELS.items()}}
    if options.list:
        print("\n".join(cases))
        return
    if options.timeline:
        net, inputs = cases[options.timeline].build()
        names = [n for n in options.checkpoint.split(",") if n]
        print("\n".join(measure.timeline(net, inputs, names, options.least)))
        return
    unknown = [n for n in options.names if n not in cases]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; --list prints them")
    if options.export:
        os.makedirs(options.export, exist_ok=True)
    chosen = (options.names or list(cases if options.models else CASES))[:: options.every]
    known = {}
    if options.json and os.path.exists(options.json):
        with open(options.json) as f:
            known = json.load(f)["cases"]
    begin = time.time()
    for name in chosen:
        start = time.time()
        known[name] = record = measured(name, cases[name], options)
        print(f"{name:24} saved {record['saved'] / 2**20:8.2f} MiB  held {record['plain']['held'] / 2**20:8.2f}"
              f"  peak {record['plain']['peak'] / 2**20:8.2f}  {time.time() - start:5.1f} s"
              f"  {record.get('export_error', '')}", flush=True)
        if options.json:
            write(options, known)
    print(f"{len(chosen)} modules in {time.time() - begin:.0f} s", file=sys.stderr)


def write(options, known):
    """One line a case, so that a change shows as the cases that it changes."""
    head = {"torch": torch.__version__, "threads": options.threads,
            "unit": "bytes above parameters, buffers and inputs"}
    lines = [f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in known.items()]
    with open(options.json + ".new", "w") as f:
        f.write(json.dumps(head)[:-1] + ', "cases": {\n' + ",\n".join(lines) + "\n}}\n")
    os.replace(options.json + ".new", options.json)


if __name__ == "__main__":
    main()

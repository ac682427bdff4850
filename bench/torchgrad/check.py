#!/usr/bin/env python3
"""Compares the gradients of memopt with PyTorch's: see README.md."""

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import torch

from modules import CASES

TYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
CODES = {np.dtype(t): code for code, t in TYPES.items()}


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def write_tensor(path, name, a):
    """Writes an array as ONNX's TensorProto: dims 1, data_type 2, name 8, raw_data 9."""
    body = b"".join(b"\x08" + varint(d) for d in a.shape) + b"\x10" + varint(CODES[a.dtype])
    for tag, data in ((b"\x42", name.encode()), (b"\x4a", np.ascontiguousarray(a).tobytes())):
        body += tag + varint(len(data)) + data
    with open(path, "wb") as f:
        f.write(body)


def read_tensor(path):
    """Reads a TensorProto with raw_data."""
    b, at, dims, code, raw = open(path, "rb").read(), 0, [], 1, b""

    def number():
        nonlocal at
        n = shift = 0
        while True:
            c = b[at]
            at += 1
            n |= (c & 127) << shift
            shift += 7
            if c < 128:
                return n

    while at < len(b):
        key = number()
        if key & 7 == 0:
            n = number()
            dims, code = (dims + [n], code) if key >> 3 == 1 else (dims, n if key >> 3 == 2 else code)
            continue
        size = number()
        part = b[at : at + size]
        at += size
        if key >> 3 == 1:
            dims, inner = [], (part, 0)
            n = shift = 0
            for c in inner[0]:
                n |= (c & 127) << shift
                shift += 7
                if c < 128:
                    dims.append(n)
                    n = shift = 0
        elif key >> 3 == 9:
            raw = part
    return np.frombuffer(raw, TYPES[code]).reshape(dims)


class Failure(Exception):
    pass


def memopt(binary, *args):
    p = subprocess.run([binary, *args], capture_output=True, text=True, timeout=120)
    if p.returncode != 0:
        lines = p.stderr.strip().splitlines() or ["no message"]
        raise Failure(f"memopt {args[0]} ends with {p.returncode}: {lines[-1]}")
    return p


def reference(module, inputs):
    """The loss and all gradients in float64."""
    m = module.double()
    m.zero_grad(set_to_none=True)
    xs = [x.double().requires_grad_() if x.is_floating_point() else x for x in inputs]
    loss = m(*xs)
    loss.backward()
    grads = {n: p.grad for n, p in m.named_parameters() if p.grad is not None}
    grads.update({f"input_{i}": x.grad for i, x in enumerate(xs) if x.is_floating_point() and x.grad is not None})
    m.float()
    return loss.item(), grads


def export(case, module, inputs, opset, path):
    names = [f"input_{i}" for i in range(len(inputs))]
    axes = {n: {k: v for k, v in a.items()} for n, a in zip(names, case.axes) if a}
    torch.onnx.export(
        module,
        inputs,
        path,
        opset_version=opset,
        input_names=names,
        output_names=["loss"],
        dynamic_axes=axes,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
    )
    return names


def different(name, got, want, tol):
    want = want.detach().numpy() if isinstance(want, torch.Tensor) else np.asarray(want)
    if got.shape != want.shape:
        return f"{name}: shape {got.shape}, wanted {want.shape}"
    bound = tol * (np.abs(want).max(initial=0) + 1e-3)
    worst = np.abs(got.astype(np.float64) - want).max(initial=0)
    if not worst <= bound:
        return f"{name}: off by {worst:.3g}, allowed {bound:.3g}"
    return None


def run(case, module, opset, args, folder):
    """Exports, differentiates and runs one module at all of its sizes."""
    torch.manual_seed(1)
    model, train = os.path.join(folder, "model.onnx"), os.path.join(folder, "train.onnx")
    first = case.inputs(*case.sizes[0])
    try:
        names = export(case, module, first, opset, model)
    except Exception as e:
        return "not exported", str(e).strip().splitlines()[-1][:160]
    _, grads = reference(module, first)
    wanted = sorted(grads)
    memopt(args.memopt, "grad", model, "-o", train, "--loss", "loss", "--params", ",".join(wanted), "-q")
    for n, s in case.sizes:
        torch.manual_seed(7 * n + s)
        inputs = case.inputs(n, s)
        loss, grads = reference(module, inputs)
        data, out = os.path.join(folder, f"in{n}_{s}"), os.path.join(folder, f"out{n}_{s}")
        os.makedirs(data)
        dims = {}
        for i, x in enumerate(inputs):
            write_tensor(os.path.join(data, f"input_{i}.pb"), names[i], x.numpy())
            dims.update(
                {symbol: x.shape[axis] for axis, symbol in (case.axes[i] if i < len(case.axes) else {}).items()}
            )
        flags = ["--dim", ",".join(f"{k}={v}" for k, v in dims.items())] if dims else []
        memopt(
            args.memopt,
            "run",
            train,
            "-e",
            args.backend,
            "--data-dir",
            data,
            "--save-outputs",
            out,
            "-r",
            "1",
            "--warmup",
            "0",
            "-q",
            *flags,
        )
        faults = [different("loss", read_tensor(os.path.join(out, "loss.pb")), loss, args.tolerance)]
        for name in wanted:
            faults.append(
                different(
                    name,
                    read_tensor(os.path.join(out, name.replace("/", "%2F") + "_grad.pb")),
                    grads[name],
                    args.tolerance,
                )
            )
        faults = [f for f in faults if f]
        if faults:
            return "WRONG", f"at n={n}, s={s}: " + "; ".join(faults[:3])
    return "equal", f"{len(wanted)} gradients, {len(case.sizes)} sizes"


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("memopt", help="the program")
    p.add_argument("modules", nargs="*", help="names; none: all of them")
    p.add_argument("--opset", type=int, default=0, help="operator set; 0: 13 to 17 in turn")
    p.add_argument("-e", "--backend", default="cpu")
    p.add_argument("--tolerance", type=float, default=1e-3, help="allowed difference, as a part of the largest element")
    p.add_argument("--keep", help="a folder in which the files stay")
    args = p.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    counts, begin = {}, time.time()
    for i, (name, case) in enumerate(CASES.items()):
        if args.modules and name not in args.modules:
            continue
        opset = max(args.opset or 13 + i % 5, case.since)
        torch.manual_seed(0)
        module = case.make().train()
        with tempfile.TemporaryDirectory() as folder:
            if args.keep:
                folder = os.path.join(args.keep, f"{name}_{opset}_{args.backend}")
                os.makedirs(folder)
            try:
                outcome, text = run(case, module, opset, args, folder)
            except Failure as e:
                outcome, text = "refused", str(e)[:300]
            except Exception as e:
                outcome, text = "HARNESS", repr(e)[:300]
        counts[outcome] = counts.get(outcome, 0) + 1
        print(f"{outcome:12}  {opset}  {name:20}  {text}", flush=True)
    print(
        f"{sum(counts.values())} modules in {time.time() - begin:.0f} s:",
        ", ".join(f"{v} {k}" for k, v in sorted(counts.items())),
    )
    return 1 if set(counts) - {"equal", "not exported"} else 0


if __name__ == "__main__":
    sys.exit(main())

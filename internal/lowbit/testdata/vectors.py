"""Writes torchao.json: codes, scales and updates by torchao 0.18, to which package lowbit and the operators Adam8bit
and Adam4bit are held.

    pip install torch torchao==0.18 && python vectors.py > torchao.json

Floats are written as the hexadecimal digits of their 32 bits. torchao's own functions are called eagerly, so that no
compiler joins operations.
"""

import json
import struct
import sys

import torch
from torchao.optim import adam, subclass_4bit, subclass_8bit

STEPS = 3
RATE, BETAS, EPS, DECAY = 0.01, (0.9, 0.999), 1e-8, 0.1


def hexed(values: torch.Tensor) -> str:
    return "".join(struct.pack(">f", v).hex() for v in values.flatten().tolist())


def drawn(seed: int, n: int, kind: str) -> torch.Tensor:
    x = torch.randn(n, generator=torch.Generator().manual_seed(seed))
    if kind == "wide":  # magnitudes over many powers of ten
        x = x * 10.0 ** torch.randint(
            -9, 2, (n,), generator=torch.Generator().manual_seed(seed + 1)
        )
    if kind == "sparse":
        x[torch.arange(n) % 3 != 0] = 0
    if kind == "zeros":
        x.zero_()
    return x


def formats() -> list[dict]:
    out = []
    for bits, state, block in (
        (8, subclass_8bit.OptimState8bit, 256),
        (4, subclass_4bit.OptimState4bit, 128),
    ):
        for signed in (True, False):
            cases = []
            for seed, kind in enumerate(("normal", "wide", "sparse", "zeros")):
                x = drawn(10 * seed + bits, 2 * block, kind)
                x = x if signed else x * x
                zeros = state.zeros(x.shape, signed, block)
                zeros.copy_(x)
                cases.append(
                    {
                        "x": hexed(x),
                        "codes": bytes(zeros.codes.flatten().tolist()).hex(),
                        "scale": hexed(zeros.scale),
                        "back": hexed(zeros.dequantize()),
                    }
                )
            out.append(
                {
                    "bits": bits,
                    "signed": signed,
                    "block": block,
                    "numbers": hexed(zeros.qmap),
                    "cases": cases,
                }
            )
    return out


def updates() -> dict:
    start = drawn(5, 4096, "normal")
    grads = [drawn(20 + step, 4096, "normal") * 0.01 for step in range(STEPS)]
    rows = []
    for bits, optimizer, decoupled in (
        (8, adam.AdamW8bit, True),
        (8, adam.Adam8bit, False),
        (4, adam.AdamW4bit, True),
    ):
        p = start.clone()
        o = optimizer([torch.nn.Parameter(p.clone())], lr=RATE)
        m, v = o._new_buffer(p, True), o._new_buffer(p, False)
        for i, g in enumerate(grads):
            step = torch.tensor(float(i + 1))
            adam.single_param_adam(
                p,
                g,
                step,
                m,
                v,
                None,
                torch.tensor(RATE),
                *BETAS,
                DECAY,
                EPS,
                decoupled,
                False,
            )
        rows.append(
            {
                "bits": bits,
                "adamw": decoupled,
                "w": hexed(p),
                "m": bytes(m.codes.flatten().tolist()).hex(),
                "ms": hexed(m.scale),
                "v": bytes(v.codes.flatten().tolist()).hex(),
                "vs": hexed(v.scale),
            }
        )
    return {"start": hexed(start), "grads": [hexed(g) for g in grads], "rows": rows}


if __name__ == "__main__":
    json.dump({"formats": formats(), "updates": updates()}, sys.stdout, indent=1)
    sys.stdout.write("\n")

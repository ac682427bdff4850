#!/usr/bin/env python3
"""Peaks with torch_remat for the decoder of python/tests/megatron_double.py: every block is under a checkpoint, and
modules of it are saved. Writes JSON, the peak by names of the modules, on standard output. See README.md."""

import copy
import itertools
import json
import os
import sys

import torch
import torch_remat as remat

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "python", part) for part in ("tests", "src")]

import megatron_double
from memopt.torch import measure

PARTS = (
    "input_layernorm",
    "self_attention.linear_qkv",
    "self_attention.linear_proj",
    "pre_mlp_layernorm",
    "mlp",
    "mlp.linear_fc2",
)


class Generators:
    def snapshot(self):
        return torch.get_rng_state()

    def restore(self, state):
        torch.set_rng_state(state)


def saved(forward, name):
    def run(x):
        out = remat.region(forward, name, recompute=False)(x)
        remat.recompute_needs_tensor(out)
        return out

    return run


def apply(model, names):
    for i, layer in enumerate(model.layers):
        for name in names:
            part = layer.get_submodule(name)
            part.forward = saved(part.forward, name)
        layer.forward = remat.checkpoint(region_name=str(i), recompute_state_hooks=(Generators(),))(layer.forward)


def main():
    plain, given, labels = megatron_double.decoder()
    peaks = {}

    def step(model):
        torch.manual_seed(3)
        model.zero_grad(set_to_none=True)
        value = megatron_double.loss(model(given), labels)
        value.backward()
        return value

    expected = step(plain)
    for n in range(len(PARTS)):
        for names in itertools.combinations(PARTS, n):
            if {"mlp", "mlp.linear_fc2"} <= set(names):
                continue
            model = copy.deepcopy(plain)
            apply(model, names)
            assert torch.equal(expected, step(model)), names
            for a, b in zip(plain.parameters(), model.parameters(), strict=True):
                assert torch.equal(a.grad, b.grad), names
            peaks[" ".join(names)] = measure(lambda model=model: step(model), show=False).peak_bytes
    print(json.dumps(peaks, indent=1))


if __name__ == "__main__":
    main()

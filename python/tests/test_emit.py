"""Plans for other mechanisms of PyTorch, measured in real steps."""

import copy
import functools
import itertools
import json
import os
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import megatron_double
import memopt
import models
from memopt.torch import measure, trace

warnings.filterwarnings("ignore")


class Convolutions(nn.Module):
    """Blocks of convolutions, batch norms and a ReLU that writes over its input."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(16, 5)
        self.b = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(16, 16, 3, padding=1),
                nn.BatchNorm2d(16),
                nn.ReLU(inplace=True),
                nn.Conv2d(16, 16, 3, padding=1),
                nn.Tanh(),
            )
            for _ in range(3)
        )

    def forward(self, x):
        x = self.stem(x)
        for block in self.b:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


def perceptron():
    x, y = models.batch()
    return models.Net(blocks=4, p=0.1), x.repeat(64, 1), models.loss, y.repeat(64)


def convolutions():
    return Convolutions(), torch.randn(8, 3, 16, 16), F.cross_entropy, torch.randint(0, 5, (8,))


def transformer():
    config = transformers.GPT2Config(
        vocab_size=128, n_embd=64, n_layer=3, n_head=4, n_positions=64, attn_pdrop=0.0, use_cache=False
    )
    ids = torch.randint(0, 128, (4, 64))
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}, None, None


def stepping(model, given, loss, labels):
    def step():
        torch.manual_seed(3)
        model.zero_grad(set_to_none=True)
        value = loss(model(given), labels) if loss is not None else model(**given).loss
        value.backward()
        return value

    return step


@pytest.mark.parametrize("net", [perceptron, convolutions, transformer])
@pytest.mark.parametrize("budget", ["90%", "75%", "65%"])
def test_policy(net, budget):
    """A step under the policy makes equal gradients, and its peak is the promised one."""
    torch.manual_seed(0)
    model, given, loss, labels = net()
    step = trace(model.train(), given, loss=loss, labels=labels).to_json()
    answer = json.loads(memopt.run("plan", "-", "--emit", "torch-policy", "--budget", budget, "-O", "json", stdin=step))
    assert 0 < answer["peak_bytes"] <= answer["limit_bytes"] < answer["baseline"]["peak_bytes"]
    assert answer["recompute_share"] <= answer["memopt"]["recompute_share"]
    script = {}
    exec(answer["text"], script)
    planned = copy.deepcopy(model)
    script["apply"](planned)
    plain, value = stepping(model, given, loss, labels), stepping(planned, given, loss, labels)
    assert torch.equal(plain(), value())
    for a, b in zip(model.parameters(), planned.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
    peak = answer["peak_bytes"] - answer["held_bytes"]
    assert measure(value, show=False).peak_bytes == pytest.approx(peak, rel=0.01)


class FullAC:
    """The part of torchtitan's classes of this name that a plan uses: checkpoints around the children of layers, which
    do not stop early, and whose SelectiveAC runs every second product of matrices again."""

    @dataclass
    class Config:
        preserve_rng_state: bool = True

    def apply(self, model, config):
        for block in model.layers.children():
            options = {"preserve_rng_state": config.preserve_rng_state, "early_stop": False, "use_reentrant": False}
            block.forward = functools.partial(checkpoint, block.forward, **options, **self.options())

    def options(self):
        return {}


class SelectiveAC(FullAC):
    @dataclass(kw_only=True, slots=True)
    class Config(FullAC.Config):
        force_recompute_mm_shapes_by_fqns: list = field(default_factory=list)

    def options(self):
        def contexts():
            counts = {True: 0, False: 0}

            def policy(ctx, op, *args, **kwargs):
                product = op in (torch.ops.aten.mm.default, torch.ops.aten.linear.default)
                counts[ctx.is_recompute] += product
                if op not in self.get_save_ops() or (product and counts[ctx.is_recompute] % 2 == 0):
                    return CheckpointPolicy.PREFER_RECOMPUTE
                return CheckpointPolicy.MUST_SAVE

            return create_selective_checkpoint_contexts(policy)

        return {"context_fn": contexts}


def square(out, labels):
    return (out - labels).square().mean()


class Decoder(nn.Module):
    """Blocks of a gated perceptron without biases, so that products are aten.mm."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.drop = nn.LayerNorm(32), nn.Dropout(0.1)
            self.up, self.gate, self.down = (nn.Linear(32, 32, bias=False) for _ in range(3))

        def forward(self, x):
            y = self.norm(x)
            return x + self.drop(self.down(F.silu(self.gate(y)) * self.up(y)))

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({str(i): self.Layer() for i in range(4)})

    def forward(self, x):
        for layer in self.layers.values():
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("budget", "kind"), [("100%", "None"), ("90%", "Planned"), ("75%", "Planned"), ("40%", "Full")]
)
def test_torchtitan(budget, kind, monkeypatch):
    """The same of checkpoints as torchtitan puts them, of each kind."""
    module = ModuleType("torchtitan.distributed.activation_checkpoint")
    module.FullAC, module.SelectiveAC = FullAC, SelectiveAC
    for name in ("torchtitan", "torchtitan.distributed"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    torch.manual_seed(0)
    model, given, labels = Decoder().train(), torch.randn(512, 32), torch.randn(512, 32)
    step = trace(model, given, loss=square, labels=labels).to_json()
    answer = json.loads(memopt.run("plan", "-", "--emit", "torchtitan", "--budget", budget, "-O", "json", stdin=step))
    script = {"__name__": "planned"}
    exec(answer["text"], script)
    config, planned = script["activation_checkpoint"], copy.deepcopy(model)
    assert kind in answer["text"]
    assert (config is None) == (kind == "None")
    if config is not None:
        script.get("PlannedAC", FullAC)().apply(planned, config)
    plain, value = stepping(model, given, square, labels), stepping(planned, given, square, labels)
    assert torch.equal(plain(), value())
    for a, b in zip(model.parameters(), planned.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
    peak = answer["peak_bytes"] - answer["held_bytes"]
    assert measure(value, show=False).peak_bytes == pytest.approx(peak, rel=0.01)


def settings(layers, words):
    """All settings of Megatron-LM that plans have, as lists of words."""
    for n in range(1, len(words) + 1):
        for some in itertools.combinations(words, n):
            if {"moe", "moe_act"} <= {*some}:
                continue
            yield ["--recompute-granularity", "selective", "--recompute-modules", *some]
    for method, n in itertools.product(("block", "uniform"), range(1, layers + 1)):
        yield ["--recompute-granularity", "full", "--recompute-method", method, "--recompute-num-layers", str(n)]


def moves(layers, words, names):
    """Settings with modules whose inputs move: each, all, and all beside recomputation."""
    some = [[n] for n in names if n != "attn_proj"] + [["core_attn", "attn_proj"], list(names), list(names[2:])]
    for elements, chosen in itertools.product((1, 4096), some):
        move = ["--fine-grained-activation-offloading", "--offload-modules", *chosen]
        move += ["--min-offloaded-tensor-size", str(elements)]
        yield move
    rest = [n for n in names if n not in ("core_attn", "attn_proj")]
    for flags in settings(layers, words):
        less = {"qkv_linear"} if {"layernorm"} & {*flags} else set()
        less |= {"expert_fc1", "moe_act"} if {"moe"} & {*flags} else set()
        if "full" not in flags:
            yield [*flags, *move[:2], *(n for n in rest if n not in less), *move[-2:]]


@pytest.fixture
def one_thread():
    """Kernels whose workspaces grow with the threads have those of one, on any machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("decoder", ("core_attn", "layernorm", "mlp")),
        ("latent", ("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act")),
    ],
)
@pytest.mark.parametrize("moving", [False, True])
def test_megatron(one_thread, name, words, moving):
    """Settings make equal gradients, and the peaks that tests of the program hold the simulation to are those of
    today's steps. One setting in four is run, and the one that a plan selects; MEMOPT_TESTS=all runs all."""
    model, given, labels = getattr(megatron_double, name)()
    written = json.loads(trace(model, given, loss=megatron_double.loss, labels=labels).to_json())
    written["torch"] = "2.15.0"
    update, chosen = os.environ.get("UPDATE_STEP"), None
    if not moving:
        answer = json.loads(
            memopt.run("plan", "-", "--emit", "megatron", "--budget", "60%", "-O", "json", stdin=json.dumps(written))
        )
        chosen = answer["text"].partition("RECOMPUTE_ARGS=(")[2].split(")")[0].split()
    names = ("attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm")
    names += ("expert_fc1", "moe_act") if "moe" in words else ()
    some = [*(moves(len(model.layers), words, names) if moving else settings(len(model.layers), words))]
    every = 1 if update or os.environ.get("MEMOPT_TESTS") == "all" else 4
    run = [flags for i, flags in enumerate(some) if i % every == 0 or list(flags) == chosen]
    assert moving or any(list(flags) == chosen for flags in run)
    plain = stepping(model, given, megatron_double.loss, labels)
    peaks = {"": measure(plain, show=False).peak_bytes}
    loss, gradients = plain().detach(), [p.grad.clone() for p in model.parameters()]
    for flags in run:
        planned = copy.deepcopy(model)
        planned.set(flags)
        value = stepping(planned, given, megatron_double.loss, labels)
        assert torch.equal(loss, value())
        for a, b in zip(gradients, planned.parameters(), strict=True):
            assert torch.equal(a, b.grad)
        peaks[" ".join(flags)] = measure(value, show=False).peak_bytes
    folder = Path(__file__).parents[2] / "answers" / "emit" / "testdata"
    kind = "moved" if moving else "peaks"
    if update:
        lines = json.dumps(written).replace("{", "\n{").replace("\n{", "{", 1)
        (folder / f"{name}.step.json").write_text(lines + "\n", encoding="utf-8")
        (folder / f"{name}.{kind}.json").write_text(json.dumps(peaks, indent=1) + "\n", encoding="utf-8")
    assert json.loads((folder / f"{name}.step.json").read_text(encoding="utf-8")) == written
    known = json.loads((folder / f"{name}.{kind}.json").read_text(encoding="utf-8"))
    assert {flags: known[flags] for flags in peaks} == pytest.approx(peaks, rel=0.0001)
    assert set(known) == {"", *(" ".join(flags) for flags in some)}
    if moving:
        return
    peak = answer["peak_bytes"] - answer["held_bytes"]
    assert peaks[" ".join(chosen)] == pytest.approx(peak, rel=0.001)

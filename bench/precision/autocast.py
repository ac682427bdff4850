"""Compares the activations of memopt's mixed precision with those of PyTorch's autocast.

For each net it counts the bytes that PyTorch saves for the backward half, in float32 and under CPU autocast to
bfloat16 (each storage once, parameters apart), and the live peak that memopt plans for the same exported model in both
precisions. Run it with the Python of the CI's environment and the memopt on PATH:

    python bench/precision/autocast.py [MEMOPT]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A decoder's block, with attention written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the block's output."""
        batch, seq, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, seq, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, seq, width)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Blocks between an embedding and a loss over 256 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(256, 192), nn.Linear(192, 256)
        self.blocks = nn.ModuleList(Block(192, 6) for _ in range(6))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Returns the loss."""
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(h).float().flatten(0, 1), labels.flatten())


class Classifier(nn.Module):
    """ResNet-18 with its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torchvision.models.resnet18(num_classes=10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Returns the loss."""
        return F.cross_entropy(self.net(x).float(), labels)


def saved(net: nn.Module, inputs: tuple[torch.Tensor, ...], *, low: bool) -> int:
    """Returns the bytes of the storages that the forward half saves, parameters and inputs apart."""
    known = {p.untyped_storage().data_ptr() for p in [*net.parameters(), *net.buffers(), *inputs]}
    storages: dict[int, Any] = {}

    def pack(t: torch.Tensor) -> torch.Tensor:
        storage = t.untyped_storage()
        if storage.data_ptr() not in known:
            storages[storage.data_ptr()] = storage
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), torch.autocast("cpu", torch.bfloat16, low):
        loss = net(*inputs)
    loss.backward()
    return sum(s.nbytes() for s in storages.values())


def planned(memopt: str, file: Path, precision: str) -> dict[str, int]:
    """Returns the bytes at the peak of memopt's step."""
    line = [memopt, "plan", str(file), "--precision", precision, "--optimizer", "adamw", "--outputs", "loss"]
    plan = json.loads(subprocess.run([*line, "-O", "json", "-q"], check=True, stdout=subprocess.PIPE).stdout)
    plan = plan.get("summary", plan)
    return {"peak": plan["peak"]["planned_bytes"], "activations": plan["at_peak"]["activations_bytes"]}


def main() -> None:
    """Prints a line for each net and precision."""
    memopt = sys.argv[1] if len(sys.argv) > 1 else "memopt"
    torch.manual_seed(0)
    tokens = torch.randint(256, (8, 128))
    images = torch.randn(8, 3, 224, 224)
    for name, net, inputs in (
        ("decoder", Decoder(), (tokens, tokens)),
        ("resnet18", Classifier(), (images, torch.randint(10, (8,)))),
    ):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            torch.onnx.export(
                net.train(), inputs, str(file), dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                do_constant_folding=False, input_names=["x", "labels"], output_names=["loss"], opset_version=17,
            )  # fmt: skip
            for precision in ("fp32", "bf16"):
                torch_bytes = saved(net, inputs, low=precision == "bf16")
                ours = planned(memopt, file, precision)
                print(
                    f"{name:9} {precision:5} PyTorch saves {torch_bytes / 2**20:8.2f} MiB   memopt's activations "
                    f"{ours['activations'] / 2**20:8.2f} MiB, live peak {ours['peak'] / 2**20:8.2f} MiB"
                )


if __name__ == "__main__":
    main()

"""What is trained: modules with the names of their ONNX files, their data, and how they are trained."""
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "forward"))
from torch_nets import GPT, NETS, Perceptron, Training  # noqa: E402


# The small networks have no kinks: where a unit crosses that of a ReLU, float32 decides whether it
# does so in this step or the next, and PyTorch's own losses, from weights that differ by 1e-7, are
# up to 7e-4 apart for such small batches.


class Residual(nn.Module):
    """A block of a ResNet: two convolutions with batch norms, and a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.silu(self.bn1(self.conv1(x)))))
        return F.silu(y + self.short(x))


class SmallResNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.layers = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(self.layers(F.silu(self.bn(self.conv(x)))).mean((2, 3)))


class Form:
    """A model with its data and hyperparameters. batch samples of a step follow each other in the
    order of the files, epoch after epoch; the last batch of an epoch may be smaller."""

    def __init__(self, net, batch, data, inputs, **more):
        self.net, self.batch, self.data, self.inputs = net, batch, data, inputs
        self.files, self.dims, self.flags, rate = [], {}, [], more.pop("rate", 1e-3)
        self.options = {"learning_rate": rate, "weight_decay": 0.1, "max_grad_norm": 1.0, "warmup": 20, "steps": 200}
        self.__dict__.update(more)


def tokens(count, vocabulary, seq):
    """Tokens that are no noise: mostly, each says what the next is."""
    def make(rng):
        after, row = rng.permutation(vocabulary), rng.integers(0, vocabulary, count).astype(np.uint16)
        for i in np.flatnonzero(rng.random(count) < 0.8)[1:]:
            row[i] = after[row[i - 1]]
        blocks = [row[i:i + seq + 1].astype(np.int64) for i in range(0, len(row) - seq, seq)]
        x, y = (torch.tensor(np.stack([b[a:a + seq] for b in blocks])) for a in (0, 1))
        return {"train.bin": row.tobytes()}, x, y
    return make


def images(count, classes, *shape):
    """Images with a bright channel or corner for each class, as records: a label, then uint8."""
    def make(rng):
        labels = rng.integers(0, classes, count).astype(np.uint8)
        pixels = rng.integers(0, 160, (count, *shape)).astype(np.uint8)
        side = shape[1] // 2
        for image, label in zip(pixels, labels):
            at = (label % 3, slice(label // 3 % 2 * side, None if label // 3 % 2 else side))
            image[at] += 80
        record = b"".join(bytes([label]) + image.tobytes() for label, image in zip(labels, pixels))
        x = torch.tensor((pixels.astype(np.float64) / 255).astype(np.float32))
        return {"images.dat": record}, x, torch.tensor(labels.astype(np.int64))
    return make


def vectors(count, classes, width, name="x"):
    """Points around a centre for each class, as arrays."""
    def make(rng):
        labels = rng.integers(0, classes, count)
        x = (rng.standard_normal((classes, width))[labels] + rng.standard_normal((count, width))).astype(np.float32)
        return {name + ".npy": x, "labels.npy": labels.astype(np.int64)}, torch.tensor(x), torch.tensor(labels)
    return make


RECORD = "labels:uint8,image:uint8[{}]/255"
SMALL = {
    "gpt2": Form(lambda: GPT(48, 16, 24, 3, 2), 4, tokens(5000, 48, 16), ["input_ids", "labels"],
                 dims={"seq": 16}, files=["train.bin"], rate=3e-3),
    "resnet": Form(lambda: SmallResNet(6), 8, images(130, 6, 3, 8, 8), ["image", "labels"],
                   flags=["--record", RECORD.format("3,8,8")], files=["images.dat"]),
    "mlp": Form(lambda: Perceptron(16, 32, 32, 10), 16, vectors(200, 10, 16), ["x", "labels"],
                files=["x.npy", "labels.npy"], rate=3e-3),
}
# Those of the sample models. Their files have no weights: --init brings them.
FULL = {
    "gpt2_6l_256": Form(NETS["gpt2_6l_256"], 8, tokens(8 * 256 * 60 + 1, 8192, 256), ["input_ids", "labels"],
                        dims={"seq": 256}, files=["train.bin"], rate=3e-4),
    "resnet18": Form(NETS["resnet18"], 4, images(200, 200, 3, 224, 224), ["image", "labels"],
                     flags=["--record", RECORD.format("3,224,224")], files=["images.dat"], rate=1e-4),
    "mlp_8x1024": Form(NETS["mlp_8x1024"], 256, vectors(256 * 40, 1000, 1024), ["x", "labels"],
                       files=["x.npy", "labels.npy"], rate=1e-4),
}

"""Times a training step (forward and backward) of a network in PyTorch, eagerly, for gpuverify.

usage: peer_torch.py gpt2|resnet50 float32|tf32|bfloat16 DEVICE BATCH SEQ [toy]

Prints one line of JSON: the median and the least time of a step in milliseconds, and the peak of PyTorch's memory in
bytes; or what is missing. Attention is written out, as in the graph that memopt gets; everything else is what
torch.nn has.
"""

import json
import statistics
import sys
import time


def missing(text):
    print(json.dumps({"missing": text}))
    sys.exit(0)


try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as e:
    missing("PyTorch cannot be imported: %s" % e)


class Block(nn.Module):
    """A layer of GPT-2: attention and a perceptron, each behind a normalization and beside a residual."""

    def __init__(self, width, heads, seq):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.ones(seq, seq, dtype=torch.bool).triu(1))

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = (
            t.view(b, s, self.heads, w // self.heads).transpose(1, 2) for t in self.qkv(self.ln_1(x)).split(w, dim=2)
        )
        scores = (q @ k.transpose(2, 3)) * (w // self.heads) ** -0.5
        scores = scores.masked_fill(self.mask[:s, :s], float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, s, w)
        x = x + self.proj(y)
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """The language model with its loss; the head's weight is the embedding's."""

    def __init__(self, layers, width, heads, vocabulary, seq):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(seq, width)
        self.blocks = nn.Sequential(*(Block(width, heads, seq) for _ in range(layers)))
        self.ln = nn.LayerNorm(width)

    def forward(self, ids, labels):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        logits = F.linear(self.ln(self.blocks(x)), self.wte.weight)
        return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1))


def conv(i, o, size, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, size, stride, size // 2, bias=False), nn.BatchNorm2d(o))


class Bottleneck(nn.Module):
    """A residual block of ResNet-50 (He et al. 2015), with the stride at the 3x3 convolution."""

    def __init__(self, i, mid, stride):
        super().__init__()
        self.a, self.b, self.c = conv(i, mid, 1), conv(mid, mid, 3, stride), conv(mid, 4 * mid, 1)
        self.short = conv(i, 4 * mid, 1, stride) if stride != 1 or i != 4 * mid else nn.Identity()

    def forward(self, x):
        y = self.c(F.relu(self.b(F.relu(self.a(x)))))
        return F.relu(y + self.short(x))


class ResNet50(nn.Module):
    """The classifier with its loss."""

    def __init__(self, blocks):
        super().__init__()
        layers, i = [conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for n, count in enumerate(blocks):
            for k in range(count):
                layers.append(Bottleneck(i, 64 << n, 2 if k == 0 and n > 0 else 1))
                i = 256 << n
        self.body = nn.Sequential(*layers)
        self.fc = nn.Linear(i, 1000)

    def forward(self, image, labels):
        return F.cross_entropy(self.fc(self.body(image).mean((2, 3))), labels)


def build(name, batch, seq, toy, device, dtype):
    """Returns the network on the device and its inputs."""
    torch.manual_seed(1)
    if name == "gpt2":
        vocabulary = 96 if toy else 50257
        net = GPT2(2, 32, 2, vocabulary, seq) if toy else GPT2(12, 768, 12, vocabulary, seq)
        inputs = [torch.randint(vocabulary, (batch, seq), device=device) for _ in range(2)]
    else:
        net = ResNet50([1, 1] if toy else [3, 4, 6, 3])
        size = 32 if toy else 224
        inputs = [
            torch.randn(batch, 3, size, size, device=device, dtype=dtype),
            torch.randint(1000, (batch,), device=device),
        ]
    return net.to(device=device, dtype=dtype).train(), inputs


def main():
    name, precision, device, batch, seq = sys.argv[1:6]
    toy = sys.argv[6:] == ["toy"]
    cuda = device == "cuda"
    if cuda and not torch.cuda.is_available():
        missing("PyTorch %s sees no GPU" % torch.__version__)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    net, inputs = build(name, int(batch), int(seq), toy, device, dtype)
    wait = torch.cuda.synchronize if cuda else lambda: None
    times = []
    for _ in range(3 if toy else 13):
        wait()
        start = time.perf_counter()
        net.zero_grad(set_to_none=True)
        net(*inputs).backward()
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    times = times[1 if toy else 3 :]  # the others warm up
    peak = torch.cuda.max_memory_allocated() if cuda else 0
    print(
        json.dumps(
            {
                "median_ms": statistics.median(times),
                "min_ms": min(times),
                "peak_bytes": peak,
                "version": torch.__version__,
            }
        )
    )


main()

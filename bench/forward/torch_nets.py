"""The sample models as PyTorch modules, with the parameter names that their ONNX files have."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    """Causal self-attention of GPT-2, queries, keys and values from one product."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        scores = query @ key.transpose(2, 3) / math.sqrt(width // self.heads)
        place = torch.arange(length)
        weights = F.softmax(scores.masked_fill(place > place[:, None], -math.inf), dim=-1)
        return self.c_proj((weights @ value).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2, self.c_fc, self.c_proj = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    """A decoder with learned positions and a head of its own."""

    def __init__(self, vocabulary, context, width, heads, layers):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        return self.lm_head(self.ln_f(self.h(x)))


class Perceptron(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        layers = []
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.net = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.net(x)


def vision(name):
    import torchvision

    return getattr(torchvision.models, name)()


NETS = {
    "gpt2_6l_256": lambda: GPT(8192, 256, 256, 8, 6),
    "mlp_8x1024": lambda: Perceptron(*[1024] * 9, 1000),
    "resnet18": lambda: vision("resnet18"),
    "resnet50": lambda: vision("resnet50"),
    "densenet121": lambda: vision("densenet121"),
}


class Training(nn.Module):
    """The cross-entropy of a model, under the name that the ONNX files give the model."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels):
        scores = self.model(x)
        return F.cross_entropy(scores.flatten(0, -2), labels.flatten())

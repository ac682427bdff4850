"""Writes the files of cmd/memopt/testdata/pytorch/exporter: small modules by PyTorch's exporter.

    python exporter.py FOLDER [NAME...]

Each file is written with optimize=True, the default, by which the exporter merges equal initializers, drops zeros and
folds batch norms, and with optimize=False; masked-script.onnx is of dynamo=False. Nodes keep the entry of metadata that
names their modules. Beside each file NAME.npz has the inputs, the loss by PyTorch and its gradients, but for
symbols.onnx, which has the default alone. Needs torch >= 2.6, transformers, onnx, onnxscript and numpy; the files were
made by torch 2.15.
"""

import logging
import pathlib
import sys

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F

logging.disable(logging.WARNING)
SCOPES = "pkg.torch.onnx.name_scopes"


class Fresh(nn.Module):
    """Norms that are equal, biases of zeros, and an embedding that is the head, too."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.norm = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.layer = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.last = nn.RMSNorm(8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight
        for layer in self.layer:
            nn.init.zeros_(layer.bias)

    def forward(self, x, y):
        h = self.embed(x)
        for norm, layer in zip(self.norm, self.layer):
            h = h + torch.relu(layer(norm(h)))
        return F.cross_entropy(self.head(self.last(h)).flatten(0, 1), y.flatten())


class BatchNorms(nn.Module):
    """Batch norms in training mode, which the exporter turns into inference mode."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.layer, self.last = nn.Linear(4, 5), nn.BatchNorm1d(5)

    def forward(self, x, y):
        h = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return F.cross_entropy(self.last(self.layer(h)), y)


class Splits(nn.Module):
    """Splits, which are sequences without the exporter's optimizer, and the accuracy beside the loss."""

    def __init__(self):
        super().__init__()
        self.heads, self.last = nn.Linear(8, 24), nn.Linear(8, 4)

    def forward(self, x, y):
        q, k, v = self.heads(x).split(8, dim=-1)
        a, b, c = v.split(3, dim=-1)
        h = torch.cat([torch.tanh(q[..., :3]) * a, k[..., :3].sigmoid() * b, c], -1)
        scores = self.last(h).flatten(0, 1)
        right = scores.argmax(-1) == y.flatten()
        return F.cross_entropy(scores, y.flatten()), right.float().mean()


class Pairs(nn.Module):
    """The loss of pairs in a batch, one of them a mixture, with a temperature whose logarithm is a parameter."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 4, bias=False), nn.Linear(8, 4, bias=False)
        self.temperature, self.mix = nn.Parameter(torch.tensor(0.7)), nn.Parameter(torch.rand(8))

    def forward(self, x, y):
        x = self.mix * x + (1 - self.mix) * y
        scores = self.temperature.exp() * self.a(x) @ self.b(y).T
        return F.cross_entropy(scores, torch.arange(x.shape[0]))


class Bags(nn.Module):
    """Bags of an embedding, of which the exporter makes a loop that fills a sequence."""

    def __init__(self):
        super().__init__()
        self.mean, self.sum = nn.EmbeddingBag(16, 8, mode="mean"), nn.EmbeddingBag(16, 8, mode="sum")
        self.scores = nn.Linear(8, 4)

    def forward(self, x, y):
        return F.cross_entropy(self.scores(torch.tanh(self.mean(x)) * self.sum(x)), y)


class Masked(nn.Module):
    """Attention to earlier words that are not 0: the first word of each text attends to none."""

    def __init__(self):
        super().__init__()
        self.embed, self.heads, self.scores = nn.Embedding(16, 8), nn.Linear(8, 24), nn.Linear(8, 4)

    def forward(self, x, y):
        q, k, v = self.heads(self.embed(x)).chunk(3, -1)
        place = torch.arange(x.shape[1])
        earlier = (place[None, :] < place[:, None]) & (x != 0)[:, None, :]
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=earlier)
        return F.cross_entropy(self.scores(h).mean(1), y)


def modules():
    tokens = torch.randint(0, 16, (2, 5))
    yield "fresh", Fresh(), (tokens, torch.randint(0, 16, (2, 5)))
    yield "batchnorms", BatchNorms(), (torch.randn(4, 3, 6, 6), torch.randint(0, 5, (4,)))
    yield "splits", Splits(), (torch.randn(2, 5, 8), torch.randint(0, 4, (2, 5)))
    yield "pairs", Pairs(), (torch.randn(2, 8), torch.randn(2, 8))
    yield "bags", Bags(), (torch.randint(0, 16, (2, 5)), torch.randint(0, 4, (2,)))
    yield "masked", Masked(), (torch.tensor([[3, 5, 0, 2, 9], [0, 0, 1, 4, 4]]), torch.randint(0, 4, (2,)))


def strip(graph):
    """Removes all metadata of nodes but their modules."""
    for node in graph.node:
        kept = [p for p in node.metadata_props if p.key == SCOPES]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        node.doc_string = ""
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                strip(attribute.g)


def symbols(folder):
    """A BERT of transformers with dims that have no names: each input gets symbols of its own."""
    from transformers import BertConfig, BertForMaskedLM

    bert = BertForMaskedLM(BertConfig(vocab_size=16, max_position_embeddings=12, hidden_size=8, num_hidden_layers=1,
                                      num_attention_heads=2, intermediate_size=8)).eval()

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = bert

        def forward(self, input_ids, attention_mask, labels):
            return self.bert(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss

    tokens = torch.randint(0, 16, (2, 7))
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.clone()}
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    path = str(folder / "symbols.onnx")
    torch.onnx.export(Loss().eval(), (), path, kwargs=inputs, dynamo=True, dynamic_shapes=dict.fromkeys(inputs, free),
                      external_data=False, verbose=False)
    model = onnx.load(path)
    strip(model.graph)
    onnx.save(model, path)


def main(folder, names):
    torch.manual_seed(1)
    if not names or "symbols" in names:
        symbols(folder)
        torch.manual_seed(1)
    for name, module, inputs in modules():
        if names and name not in names:
            continue
        module.train()
        if name == "masked":
            torch.onnx.export(module, inputs, str(folder / "masked-script.onnx"), dynamo=False, opset_version=18,
                              input_names=["x", "y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
                              training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
        for optimize in (True, False) if name != "masked" else ():
            path = str(folder / f"{name}{'' if optimize else '-raw'}.onnx")
            torch.onnx.export(module, inputs, path, dynamo=True, optimize=optimize, input_names=["x", "y"],
                              dynamic_shapes=({0: "batch"}, {0: "batch"}), external_data=False, verbose=False)
            model = onnx.load(path)
            strip(model.graph)
            onnx.save(model, path)
        out = module(*inputs)
        loss = out[0] if isinstance(out, tuple) else out
        loss.backward()
        arrays = {f"grad:{key}": p.grad.numpy() for key, p in module.named_parameters()}
        np.savez_compressed(folder / f"{name}.npz", loss=loss.detach().numpy(), x=inputs[0].numpy(),
                            y=inputs[1].numpy(), **arrays)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])

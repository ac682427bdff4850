"""Exports a small network in training mode, as net_13.onnx and net_16.onnx (operator sets 13 and 16),
and writes want.json: inputs, the loss and the scores that PyTorch has for it in evaluation, and the
running statistics after one forward pass in training. Needs PyTorch 1.13, no more:

    python3 net.py
"""
import json

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3, momentum=0.2)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(12, 5)
        self.norm2 = nn.BatchNorm1d(5)
        self.out = nn.Linear(5, 4)

    def forward(self, x, labels):
        x = self.drop(F.relu(self.norm(self.conv(x)))).flatten(1)
        scores = self.out(F.dropout(self.norm2(self.fc(x)), 0.5, self.training))
        return F.cross_entropy(scores, labels), scores


net = Net()
with torch.no_grad():
    for name, b in net.named_buffers():
        if b.dtype.is_floating_point:
            b.copy_(torch.rand_like(b) + 0.5)
    for n in (net.norm, net.norm2):
        n.weight.copy_(torch.rand_like(n.weight) + 0.5)
        n.bias.copy_(torch.randn_like(n.bias))
x, labels = torch.randn(6, 1, 4, 4), torch.tensor([0, 3, 1, 2, 2, 0])
for opset in (13, 16):
    torch.onnx.export(net.train(), (x, labels), f"net_{opset}.onnx", opset_version=opset,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      input_names=["x", "labels"], output_names=["loss", "scores"],
                      dynamic_axes={"x": {0: "batch"}, "labels": {0: "batch"}, "scores": {0: "batch"}})
flat = lambda t: t.detach().double().flatten().tolist()
before = {n: flat(b) for n, b in net.named_buffers() if b.dtype.is_floating_point}
loss, scores = net.eval()(x, labels)
net.train()(x, labels)
after = {n: flat(b) for n, b in net.named_buffers() if b.dtype.is_floating_point}
with open("want.json", "w") as f:
    json.dump({"x": flat(x), "labels": labels.tolist(), "loss": loss.item(), "scores": flat(scores),
               "before": before, "after": after, "count": {"norm": 6 * 2 * 2, "norm2": 6}}, f, indent=1)
    f.write("\n")

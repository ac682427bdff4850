"""Makes the files of this folder with PyTorch 1.13: /usr/bin/python3 export.py

A network is exported to ONNX with constants folded, which transposes the weights of linear layers and
renames them. Then it gets other weights, which are written to a safetensors file by an encoder of a
few lines, made from the format's documentation; and an input with the output for these weights.
"""

import json, struct
import torch
from torch import nn

NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


def save(tensors, path):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, t in tensors.items():
        raw = bytes(t.detach().contiguous().flatten().view(torch.uint8).tolist()) if t.dim() else t.numpy().tobytes()
        header[name] = {
            "dtype": NAMES[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        self.fc = nn.Linear(n, n)  # square: nothing but the name tells that it is transposed
        self.net = nn.Sequential(nn.Linear(n, 2 * n, bias=False), nn.GELU(), nn.Linear(2 * n, n))
        self.scale = nn.Parameter(torch.ones(n, n))

    def forward(self, x):
        return self.net(self.fc(self.norm(x))) @ self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.h = nn.ModuleList([Block(4), Block(4)])
        self.bn = nn.BatchNorm1d(5)
        self.head = nn.Linear(4, 3)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.h:
            x = x + block(x)
        return self.head(self.bn(x))


def random(net, seed):
    torch.manual_seed(seed)
    for t in net.state_dict().values():
        if t.dtype == torch.float32:
            t.copy_((torch.rand_like(t) + 0.25).half())  # numbers that float16 has, too


net = Net()
net.eval()
random(net, 1)
ids = torch.tensor([[0, 6, 3, 2, 1], [5, 5, 4, 1, 0]])
torch.onnx.export(
    net, ids, "net.onnx", input_names=["ids"], output_names=["y"], opset_version=17, do_constant_folding=True
)
random(net, 2)
with torch.no_grad():
    y = net(ids)
save({"module." + name: t for name, t in net.state_dict().items()}, "net.safetensors")
save({name: t.half() if t.dim() > 1 else t for name, t in net.state_dict().items()}, "half.safetensors")
save({"ids": ids, "y": y}, "run.safetensors")

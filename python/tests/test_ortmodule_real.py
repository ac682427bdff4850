"""memopt.ortmodule in ORTModule, where MEMOPT_ORTMODULE_PYTHON names a Python that has it."""

import os
import re
import subprocess

import pytest

import memopt
from test_ortmodule import ROOT, promised

REAL = """
import torch
from torch import nn
from torch.nn import functional as F
from onnxruntime.training.ortmodule import ORTModule


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [part for i in (3, 16, 16) for part in (nn.Conv2d(i, 16, 3, padding=1), nn.GELU())]
        self.parts = nn.Sequential(*layers, nn.MaxPool2d(3, 2, 1), nn.Flatten(), nn.Linear(16 * 64, 10))

    def forward(self, x, y):
        return F.cross_entropy(self.parts(x), y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(128) for _ in range(4)))
        self.head = nn.Linear(128, 10)

    def forward(self, x, y):
        return F.cross_entropy(self.head(self.blocks(x)), y)


torch.set_num_threads(1)
for make, shape in ((Net, (256, 128)), (Conv, (32, 3, 16, 16))):
    torch.manual_seed(0)
    plain = make()
    trained = ORTModule(make())
    trained.load_state_dict({("_original_module." + k): v for k, v in plain.state_dict().items()}, strict=False)
    plain.load_state_dict({k.replace("_original_module.", ""): v for k, v in trained.state_dict().items()})
    for rows in (shape[0], shape[0] // 2):  # the second batch is smaller
        x, y = torch.randn(rows, *shape[1:]), torch.randint(0, 10, (rows,))
        for net in (plain, trained):
            net.zero_grad()
            net(x, y).backward()
        of = {k.replace("_original_module.", ""): p.grad for k, p in trained.named_parameters()}
        off = max(float((of[k] - p.grad).abs().max() / p.grad.abs().max()) for k, p in plain.named_parameters())
        print(make.__name__, rows, "gradients off by", off)
    trained.eval()
    with torch.no_grad():
        print("evaluated", abs(float(trained(x, y) - plain(x, y))) < 1e-5)
"""


def test_ortmodule(tmp_path):
    """Plans of two nets in the real ORTModule: gradients are PyTorch's, for a smaller batch too."""
    executable = os.environ.get("MEMOPT_ORTMODULE_PYTHON")
    if not executable:
        pytest.skip("MEMOPT_ORTMODULE_PYTHON is not set; wanted a Python with ORTModule, as .ci/install makes one")
    (tmp_path / "job.py").write_text(REAL, encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if not k.startswith("ORTMODULE_")}
    env.update(PYTHONPATH=str(ROOT / "src"), MEMOPT_BUDGET="75%", ORTMODULE_FALLBACK_POLICY="FALLBACK_DISABLE",
               MEMOPT_BINARY=memopt.binary())
    done = subprocess.run([executable, "-m", "memopt.ortmodule", "job.py"], env=env, cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    off = [float(x) for x in re.findall(r"gradients off by (\S+)", done.stdout)]
    assert len(off) == 4
    assert max(off) < 1e-5, done.stdout
    assert done.stdout.count("evaluated True") == 2
    assert [row[:2] for row in promised(done.stdout)].count(("memopt's plan", "measured")) == 2
    for name, kind, _, share in promised(done.stdout):
        assert kind != "promised" or name != "memopt's plan" or share <= 75

"""Plans for other mechanisms of PyTorch, measured in real steps."""

import copy
import json
import warnings

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import nn

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

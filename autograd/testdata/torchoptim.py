"""Write torchoptim.json: updates of torch.optim.Muon and torch.optim.Adafactor.

python torchoptim.py > torchoptim.json, with torch 2.15.0.

Muon computes its Newton-Schulz iteration in bfloat16; the cases of products in float32 have the same iteration in
float32.
"""

import json
import sys
from typing import Any

import numpy as np
import torch
from torch.optim import _muon


def in_float32(
    grad: torch.Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> torch.Tensor:
    """Return torch.optim._muon._zeropower_via_newtonschulz with products in float32."""
    a, b, c = coefficients
    tall = grad.size(0) > grad.size(1)
    x = grad.T if tall else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        update = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.addmm(x, update, x, beta=a)
    return x.T if tall else x


def short(t: torch.Tensor) -> list[float]:
    """Return the elements, each in as few digits as tell it apart."""
    return [float(str(x)) for x in t.detach().flatten().numpy().astype(np.float32)]


def record(case: dict[str, Any], make: Any) -> dict[str, Any]:
    """Add three updates to a case."""
    shapes = case["shapes"]
    params = [torch.randn(s).requires_grad_() for s in shapes]
    case |= {"start": [short(p) for p in params], "grads": [], "ends": []}
    optimizer = make(params)
    for _ in range(3):
        for p, s in zip(params, shapes, strict=True):
            p.grad = (0.1 * torch.randn(s)).bfloat16().float()
        case["grads"].append([short(p.grad) for p in params])
        optimizer.step()
        case["ends"].append([short(p) for p in params])
    return case


def main() -> None:
    """Print the cases."""
    torch.manual_seed(1)
    own, cases = _muon._zeropower_via_newtonschulz, []
    for products in ["float32", "bfloat16"]:
        _muon._zeropower_via_newtonschulz = in_float32 if products == "float32" else own
        for adjust in _muon_rates:
            case = {"kind": "muon", "products": products, "adjust": adjust, "lr": 0.02, "decay": 0.1, "momentum": 0.9,
                    "shapes": [[3, 5], [5, 3], [4, 4]]}  # fmt: skip
            cases.append(
                record(
                    case,
                    lambda p, a=adjust: torch.optim.Muon(
                        p, lr=0.02, weight_decay=0.1, momentum=0.9, adjust_lr_fn=a
                    ),
                )
            )
    for lr, decay, shapes in [
        (0.02, 0.0, [[3, 5], [2, 3, 4], [6], []]),
        (0.9, 0.1, [[5, 3], [2, 1, 3, 2], [4]]),
    ]:
        case = {"kind": "adafactor", "lr": lr, "decay": decay, "shapes": shapes}
        cases.append(
            record(
                case,
                lambda p, lr=lr, d=decay: torch.optim.Adafactor(
                    p, lr=lr, weight_decay=d
                ),
            )
        )
    json.dump(cases, sys.stdout)
    print()


_muon_rates = ["match_rms_adamw", "original"]
main()

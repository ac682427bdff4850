"""Writes rates.json: the learning rates of torch.optim.lr_scheduler.LambdaLR under the lambdas that
Hugging Face transformers publishes in optimization.py (get_linear_schedule_with_warmup and so on), and
those of nanoGPT's get_lr for a minimum rate, with transformers' warm-up. Run with PyTorch:

    python3 rates.py > rates.json
"""
import json
import math
import warnings

import torch

warnings.simplefilter("ignore")


def factor(kind, warmup, total, minimum):
    def at(step):
        if kind == "constant":
            return 1.0
        if step < warmup:
            return float(step) / float(max(1, warmup))
        if kind == "constant_with_warmup":
            return 1.0
        if kind == "linear" and minimum is None:
            return max(0.0, float(total - step) / float(max(1, total - warmup)))
        progress = float(step - warmup) / float(max(1, total - warmup))
        if kind == "cosine" and minimum is None:
            return max(0.0, 0.5 * (1.0 + math.cos(math.pi * 0.5 * 2.0 * progress)))
        # nanoGPT: min_lr + coeff * (learning_rate - min_lr), here as a factor of the learning rate
        coeff = 0.5 * (1.0 + math.cos(math.pi * progress)) if kind == "cosine" else 1.0 - progress
        return minimum + coeff * (1.0 - minimum)

    return at


def rates(kind, lr, warmup, total, minimum):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    share = None if minimum == 0 else minimum / lr
    sched = torch.optim.lr_scheduler.LambdaLR(opt, factor(kind, warmup, total, share))
    out = []
    for _ in range(total):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        sched.step()
    return out


cases = []
for kind in ["linear", "cosine", "constant", "constant_with_warmup"]:
    for lr, warmup, total in [(5e-5, 0, 20), (5e-5, 10, 40), (0.1, 1, 7), (3e-4, 7, 7), (1.0, 12, 9), (1e-3, 0, 1)]:
        for minimum in [0.0, lr / 10]:
            if minimum and kind.startswith("constant") or warmup and kind == "constant":
                continue
            cases.append({"kind": kind, "lr": lr, "min_lr": minimum, "warmup": warmup, "total": total,
                          "rates": rates(kind, lr, warmup, total, minimum)})
print("[")
print(",\n".join(json.dumps(c) for c in cases))
print("]")

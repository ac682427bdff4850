"""Writes heads.json: losses and gradients of PyTorch's functions for autograd.Head. python heads.py"""
import json

import torch
import torch.nn.functional as F

cases = []


def case(name, shape, function, labels, dtype="float32", **head):
    z = torch.randn(shape, requires_grad=True)
    loss = function(z.to(getattr(torch, dtype)).float(), labels)
    loss.backward()
    cases.append(dict(name=name, shape=shape, dtype=dtype, head=head, scores=z.flatten().tolist(),
                      labels=["nan" if x != x else x for x in labels.flatten().tolist()],
                      labels_shape=list(labels.shape), loss=loss.item(), grad=z.grad.flatten().tolist()))


def classes(count, shape, ignore=None):
    y = torch.randint(count, shape)
    if ignore is not None:
        y.view(-1)[::3] = ignore
    return y


def following(x, y, **how):
    """What causal heads of transformers do."""
    return F.cross_entropy(x[..., :-1, :].reshape(-1, x.shape[-1]), y[..., 1:].reshape(-1), **how)


def last(x, y):
    return F.cross_entropy(x.flatten(0, -2), y.flatten())


torch.manual_seed(0)
ce, mse, bce = "cross-entropy", "mse", "bce"
case("two dims", (3, 4), F.cross_entropy, classes(4, (3,)), kind=ce)
case("ignored", (4, 3), F.cross_entropy, classes(3, (4,), -100), kind=ce)
case("sum, another label ignored", (4, 3), lambda x, y: F.cross_entropy(x, y, ignore_index=1, reduction="sum"),
     classes(3, (4,), 1), kind=ce, ignore=1, sum=True)
case("three dims", (2, 3, 4), last, classes(4, (2, 3), -100), kind=ce)
case("three dims, classes along axis 1", (2, 3, 4), F.cross_entropy, classes(3, (2, 4)), kind=ce, axis=1)
case("following steps", (2, 4, 3), following, classes(3, (2, 4), -100), kind=ce, shift=True)
case("following steps, summed", (2, 4, 3), lambda x, y: following(x, y, ignore_index=2, reduction="sum"),
     classes(3, (2, 4), 2), kind=ce, shift=True, ignore=2, sum=True)
case("following steps of one sequence", (4, 3), following, classes(3, (4,)), kind=ce, shift=True)
case("four dims", (2, 3, 2, 2), F.cross_entropy, classes(3, (2, 2, 2), -100), kind=ce)
case("four dims, classes last", (2, 2, 2, 3), last, classes(3, (2, 2, 2)), kind=ce, axis=-1)
case("four dims, classes along axis 2", (2, 2, 3, 2), lambda x, y: last(x.transpose(2, 3), y), classes(3, (2, 2, 2)),
     kind=ce, axis=2)
for dtype in "bfloat16", "float16":
    case(dtype, (2, 4, 3), following, classes(3, (2, 4)), dtype, kind=ce, shift=True)
    case(dtype + " mse", (2, 3), F.mse_loss, torch.randn(2, 3), dtype, kind=mse)
    case(dtype + " bce", (2, 3), F.binary_cross_entropy_with_logits, torch.rand(2, 3), dtype, kind=bce)
case("mean of squares", (2, 3, 2), F.mse_loss, torch.randn(2, 3, 2), kind=mse)
case("sum of squares", (2, 3), lambda x, y: F.mse_loss(x, y, reduction="sum"), torch.randn(2, 3), kind=mse, sum=True)
case("squares of following steps", (2, 3, 2), lambda x, y: F.mse_loss(x[:, :-1], y[:, 1:]), torch.randn(2, 3, 2),
     kind=mse, shift=True)
y = torch.randn(2, 3)
y[0, 1] = float("nan")
case("squares without NaNs", (2, 3), lambda x, y: F.mse_loss(x[~y.isnan()], y[~y.isnan()]), y, kind=mse, ignore="nan")
case("binary", (2, 3), F.binary_cross_entropy_with_logits, torch.rand(2, 3), kind=bce)
case("binary, summed", (2, 3), lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="sum"),
     torch.rand(2, 3), kind=bce, sum=True)
case("binary, ignored", (2, 3), lambda x, y: F.binary_cross_entropy_with_logits(x[y >= 0], y[y >= 0]),
     torch.tensor([[1., 0, -1], [0, -1, 1]]), kind=bce, ignore=-1)
z = torch.tensor([60., -60, 0, 0, 25, -25], requires_grad=True)
y = torch.tensor([1., 0, 1, 0, 0, 1])
loss = F.binary_cross_entropy_with_logits(z, y)
loss.backward()
cases.append(dict(name="binary of large scores and of zeros", shape=[6], dtype="float32", head=dict(kind=bce),
                  scores=z.tolist(), labels=y.tolist(), labels_shape=[6], loss=loss.item(), grad=z.grad.tolist()))
with open("heads.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")

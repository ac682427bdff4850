"""Modules whose gradients are compared: name, module, inputs at sizes (n, s), dynamic axes.

A case is Case(make, inputs, axes): make() returns the module, inputs(n, s) its inputs, axes says which axes of which
inputs are dynamic: {0: "n", 1: "s"} for each input. A module returns a loss, a scalar. sizes are those at which it
runs; it is exported at the first. since is the oldest operator set at which PyTorch exports what it computes.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrize, weight_norm

CASES = {}
SIZES = [(2, 6), (3, 5), (1, 4)]


class Case:
    def __init__(self, make, inputs, axes, sizes, since):
        self.make, self.inputs, self.axes, self.sizes, self.since = make, inputs, axes, sizes, since


def case(inputs, *axes, sizes=None, since=13, **parameters):
    """Registers a function forward(self, *inputs) as a module with the given parameters and children."""
    def register(forward):
        def make():
            m = type(forward.__name__, (nn.Module,), {"forward": lambda self, *x: forward(self, *x)})()
            for name, p in parameters.items():
                p = p()
                setattr(m, name, nn.Parameter(p) if isinstance(p, torch.Tensor) else p)
            return m
        CASES[forward.__name__] = Case(make, inputs, axes, sizes or SIZES, since)
        return forward
    return register


def r(*shape):
    return lambda: torch.randn(*shape) * 0.5


def x3(n, s):
    return (torch.randn(n, s, 4),)


def image(n, s):
    return (torch.randn(n, 3, s + 4, s + 6),)


def ids(n, s):
    return (torch.randint(0, 9, (n, s)),)


NS, NHW = {0: "n", 1: "s"}, {0: "n", 2: "h", 3: "w"}
IMAGES = [(2, 6), (3, 5), (1, 9)]


def mean2(y):
    return (y * y).mean()


# Vision.
@case(image, NHW, sizes=IMAGES, c=lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), b=lambda: nn.BatchNorm2d(4),
    d=lambda: nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1))
def autoencoder(m, x):
    return mean2(m.d(F.elu(m.b(m.c(x)))))


@case(image, NHW, sizes=IMAGES, a=lambda: nn.Conv2d(3, 6, 3, padding=2, dilation=2),
    b=lambda: nn.Conv2d(6, 6, 3, padding=1, groups=6), c=lambda: nn.Conv2d(6, 8, 1))
def separable(m, x):
    return F.hardswish(m.c(F.relu6(m.b(m.a(x))))).std()


@case(image, NHW, sizes=IMAGES, c=lambda: nn.Conv2d(3, 8, 3, padding=1))
def pixel_shuffle(m, x):
    return mean2(torch.sin(F.pixel_shuffle(m.c(x), 2)))


@case(image, NHW, sizes=IMAGES, c=lambda: nn.Conv2d(3, 4, 3))
def interpolated(m, x):
    y = F.interpolate(m.c(x), scale_factor=2.0, mode="bilinear", align_corners=False)
    return mean2(y) + F.interpolate(x, scale_factor=3.0, mode="nearest").exp().mean()


@case(image, NHW, sizes=IMAGES, c=lambda: nn.Conv2d(3, 4, 3), k=r(4))
def response_norm(m, x):
    return (F.local_response_norm(m.c(x), 3, alpha=0.5, beta=0.7) * m.k[:, None, None]).abs().sum()


@case(image, NHW, sizes=IMAGES, c=lambda: nn.Conv2d(3, 8, 3), n=lambda: nn.GroupNorm(2, 8))
def group_norm_pool(m, x):
    y = m.n(m.c(x))
    return (F.avg_pool2d(y, 3, 2, 1, count_include_pad=False).tanh().sum()
        + F.max_pool2d(y, 3, 2, 1).logsumexp((2, 3)).mean())


@case(image, NHW, sizes=IMAGES, n=lambda: nn.InstanceNorm2d(3, affine=True))
def instance_norm_pad(m, x):
    return mean2(F.pad(m.n(x), (1, 2, 0, 1), mode="reflect")[:, :, ::2, 1:-1])


@case(image, NHW, sizes=IMAGES, c=lambda: nn.Conv2d(3, 4, 3), f=lambda: nn.Linear(4, 5))
def squeeze_excite(m, x):
    y = m.c(x)
    g = torch.sigmoid(m.f(y.mean((2, 3))))[:, :4, None, None]
    return (y * g).pow(3).mean()


@case(lambda n, s: (torch.randn(n, 2, s, s + 1, s + 2),), {0: "n", 2: "d", 3: "h", 4: "w"}, sizes=[(2, 4), (1, 5)],
    c=lambda: nn.Conv3d(2, 3, 3, padding=1))
def volume(m, x):
    return F.adaptive_avg_pool3d(F.leaky_relu(m.c(x), 0.2), 1).pow(2).sum()


@case(image, NHW, sizes=IMAGES, w=r(5, 3, 3, 3))
def standardized_weights(m, x):
    w = (m.w - m.w.mean((1, 2, 3), keepdim=True)) / (m.w.var((1, 2, 3), keepdim=True) + 1e-5).sqrt()
    return mean2(F.conv2d(x, w))


# Audio and sequences.
@case(lambda n, s: (torch.randn(n, 1, 4 * s + 8),), {0: "n", 2: "t"},
    c=lambda: nn.Conv1d(1, 6, 5, stride=2, padding=2), g=lambda: nn.Conv1d(3, 3, 3, padding=4, dilation=4))
def wavenet(m, x):
    y = F.glu(m.c(x), 1)
    return mean2(torch.tanh(m.g(y)) * torch.sigmoid(y) + y)


@case(x3, NS, g=lambda: nn.GRU(4, 5, bidirectional=True, batch_first=True))
def gru(m, x):
    y, h = m.g(x)
    return mean2(y) + h.sin().sum()


@case(x3, NS, g=lambda: nn.LSTM(4, 3, num_layers=2, batch_first=True))
def lstm(m, x):
    y, (h, c) = m.g(x)
    return (y[:, -1] * c[1]).sum() + h.mean()


@case(x3, NS, g=lambda: nn.RNN(4, 3, nonlinearity="relu"))
def rnn(m, x):
    return mean2(m.g(x)[0])


@case(x3, NS, w=r(4), u=r(4))
def scripted_loop(m, x):
    return loop(x, m.w, m.u)


@torch.jit.script
def loop(x, w, u):
    h = torch.zeros_like(x[:, 0])
    total = torch.zeros_like(h)
    for t in range(x.size(1)):
        h = torch.tanh(h * w + x[:, t])
        total = total + h * u
    return (total * total).mean()


@torch.jit.script
def branch(x, w):
    if bool(x.sum() > 0):
        return (x * w).sin().sum()
    else:
        return (x + w * w).exp().mean()


@case(x3, NS, w=r(4))
def scripted_branch(m, x):
    return branch(x, m.w) + branch(-x, m.w)


@case(x3, NS, w=r(4, 4))
def cumulative(m, x):
    y = (x @ m.w).cumsum(1)
    return mean2(y) + y.flip(1).cumsum(0).cos().sum()


# Attention.
def attention(q, k, v, mask=None):
    a = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        a = a.masked_fill(mask, float("-inf"))
    return a.softmax(-1) @ v


@case(x3, NS, q=lambda: nn.Linear(4, 12), o=lambda: nn.Linear(4, 4, bias=False), n=lambda: nn.LayerNorm(4))
def causal(m, x):
    n, s, _ = x.shape
    q, k, v = m.q(m.n(x)).view(n, s, 3, 2, 2).permute(2, 0, 3, 1, 4)
    mask = torch.triu(torch.ones(s, s, dtype=torch.bool), 1)
    y = attention(q, k, v, mask).transpose(1, 2).reshape(n, s, 4)
    return mean2(x + m.o(y))


@case(x3, NS, a=lambda: nn.MultiheadAttention(4, 2, batch_first=True))
def multihead(m, x):
    y, w = m.a(x, x, x)
    return mean2(y) + w.pow(2).sum()


@case(x3, NS, t=lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation="gelu", norm_first=True,
    batch_first=True))
def encoder_layer(m, x):
    return mean2(m.t(x).tanh())


@case(x3, NS, q=lambda: nn.Linear(4, 4), k=lambda: nn.Linear(4, 2), v=lambda: nn.Linear(4, 2))
def grouped_query(m, x):
    n, s, _ = x.shape
    q = m.q(x).view(n, s, 2, 2).transpose(1, 2)
    k, v = (f(x).view(n, s, 1, 2).transpose(1, 2).expand(n, 2, s, 2) for f in (m.k, m.v))
    return attention(q, k, v).pow(2).sum()


@case(x3, NS, w=r(4, 8), b=r(4))
def rotary(m, x):
    s = x.shape[1]
    angle = torch.arange(s, dtype=x.dtype)[:, None] * torch.tensor([1.0, 0.1], dtype=x.dtype)
    q, k = (x @ m.w).chunk(2, -1)
    def turn(y):
        a, b = y[..., ::2], y[..., 1::2]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)
    return attention(turn(q), turn(k), x * m.b).sin().sum()


@case(x3, NS, w=r(4), slope=r(2))
def alibi(m, x):
    s = x.shape[1]
    i = torch.arange(s)
    bias = (i[None, :] - i[:, None]).abs().to(x.dtype) * m.slope[:, None, None]
    h = (x * m.w).view(x.shape[0], s, 2, 2).transpose(1, 2)
    return ((h @ h.transpose(-1, -2) - bias).softmax(-1) @ h).pow(2).mean()


@case(x3, NS, q=r(3, 4), w=r(4, 4))
def perceiver(m, x):
    return mean2(torch.einsum("qd,bsd->bqs", m.q, x @ m.w).softmax(-1) @ x)


@case(x3, NS, w=r(4, 4))
def linear_attention(m, x):
    q, k = F.elu(x @ m.w) + 1, F.elu(x) + 1
    kv = torch.einsum("bsd,bse->bde", k, x)
    z = 1 / (torch.einsum("bsd,bd->bs", q, k.sum(1)) + 1e-3)
    return mean2(torch.einsum("bsd,bde,bs->bse", q, kv, z))


# Embeddings, indices, gathers and scatters.
@case(ids, NS, e=lambda: nn.Embedding(9, 4))
def tied(m, i):
    return F.cross_entropy(F.linear(m.e(i).tanh(), m.e.weight).flatten(0, 1), i.flatten())


@case(ids, NS, e=lambda: nn.EmbeddingBag(9, 3, mode="sum"))
def bag(m, i):
    return mean2(m.e(i))


@case(lambda n, s: (torch.randn(n, s, 4), torch.randint(0, s, (n, 3))), NS, {0: "n"}, since=16, w=r(4))
def gathered(m, x, i):
    y = torch.gather(x * m.w, 1, i[:, :, None].expand(-1, -1, 4))
    return mean2(y) + torch.zeros_like(x).scatter_add(1, i[:, :, None].expand(-1, -1, 4), y).exp().mean()


@case(lambda n, s: (torch.randn(n, s, 4), torch.randint(0, s, (5,))), NS, {}, w=r(4))
def selected(m, x, i):
    return mean2((x * m.w).index_select(1, i)) + x[:, i].mul(m.w).sum()


@case(x3, NS, w=r(4))
def assigned(m, x):
    y = x * m.w
    z = torch.zeros_like(y)
    z[:, 1:] = y[:, :-1] * 2
    z[:, 0] = y[:, -1].sin()
    return mean2(z)


@case(x3, NS, w=r(4))
def windows(m, x):
    y = (x * m.w).roll(1, 1)
    return mean2(y[:, ::2]) + y[:, -2:].prod(-1).sum() + torch.stack([y[..., 0], y[..., 3]], -1).norm(dim=-1).sum()


@case(x3, NS, w=r(4))
def top(m, x):
    v, _ = (x * m.w).topk(2, dim=1)
    s, _ = (x * m.w).sort(dim=1, descending=True)
    return mean2(v) + (s * torch.arange(x.shape[1], dtype=x.dtype)[:, None]).mean()


@case(lambda n, s: (torch.randn(n, s, s),), {0: "n", 1: "s", 2: "s"}, w=r(1))
def triangles(m, x):
    return mean2(x.tril(-1) * m.w) + x.triu(1).sin().sum() + torch.diagonal(x * m.w, dim1=1, dim2=2).exp().mean()


@case(lambda n, s: (torch.randn(n, s, 4), torch.rand(n, s) > 0.4), NS, NS, w=r(4))
def masked(m, x, keep):
    y = (x * m.w).masked_fill(~keep[..., None], 0.0)
    return ((y.sum(1) / keep.sum(1, keepdim=True).clamp(min=1)).pow(2).sum()
        + torch.where(keep[..., None], x, m.w).mean())


# Broadcasts.
@case(lambda n, s: (torch.randn(n, 1, 4), torch.randn(s, 4)), {0: "n", 1: "a"}, {0: "b"},
    sizes=[(2, 6), (3, 1), (1, 4)], w=r(4))
def pairwise(m, x, y):
    d = ((x - y) * m.w).pow(2).sum(-1)
    return torch.exp(-d).sum() + (d + 1).log().mean()


@case(lambda n, s: (torch.randn(n, 4), torch.randn(s, 4)), {0: "a"}, {0: "b"}, sizes=[(4, 4), (1, 4), (4, 1), (1, 1)],
    w=r(4))
def either_stretched(m, x, y):
    return mean2((x * y + y / (x * x + 1)) * m.w) + torch.maximum(x, y).sum() + torch.where(x > 0, x, y * m.w).mean()


@case(lambda n, s: (torch.randn(n, 3, 4), torch.randn(s, 4, 2)), {0: "a"}, {0: "b"}, sizes=[(3, 3), (1, 3), (3, 1)],
    w=r(2))
def stacked_products(m, x, y):
    return mean2(x @ y * m.w) + torch.matmul(x, y).sum().sin()


@case(lambda n, s: (torch.randn(n, 4), torch.randn(s, 3)), {0: "a"}, {0: "b"}, sizes=[(3, 3), (3, 1)], w=r(4, 3))
def gemm_bias(m, x, c):
    return mean2(torch.addmm(c, x, m.w, beta=0.5, alpha=2.0))


# Norms, losses, reductions.
@case(x3, NS, g=r(4))
def rms(m, x):
    return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * m.g).sin().sum()


@case(x3, NS, w=r(4))
def reductions(m, x):
    y = x * m.w
    return (y.logsumexp(1).sum() + y.std(1, unbiased=False).sum() + y.var(-1, unbiased=True).mean()
        + y.norm(p=1, dim=2).mean() + y.amax(2).sum() + y.amin((0, 1)).sum())


@case(x3, NS, w=r(4))
def products(m, x):
    y = x * m.w + 1.5
    return y.prod(2).sum() + y.prod(1, keepdim=True).tanh().mean()


@case(lambda n, s: (torch.randn(n, 5, s), torch.randint(0, 5, (n, s))), {0: "n", 2: "s"}, {0: "n", 1: "s"}, w=r(5, 1),
    c=lambda: nn.CrossEntropyLoss(ignore_index=2, reduction="mean"))
def ignored(m, x, y):
    return m.c(x * m.w, y) + F.nll_loss(F.log_softmax(x * m.w, 1), y, reduction="sum")


@case(lambda n, s: (torch.randn(n, 5), torch.full((n,), 2)), {0: "n"}, {0: "n"}, w=r(5))
def all_ignored(m, x, y):
    z = F.cross_entropy(x * m.w, y, ignore_index=2)
    return torch.where(z == z, z, torch.zeros_like(z)) + mean2(x * m.w)


@case(lambda n, s: (torch.randn(n, s), torch.rand(n, s)), NS, NS, w=r(1))
def binary_losses(m, x, y):
    z = x * m.w
    return (F.binary_cross_entropy_with_logits(z, y) + F.binary_cross_entropy_with_logits(z, y,
        pos_weight=torch.tensor([2.0], dtype=x.dtype)) + torch.where((z - y).abs() < 1, (z - y) ** 2 / 2, (z
        - y).abs() - 0.5).mean() + ((z - y) ** 2).sum())


@case(lambda n, s: (torch.randn(n, 5), torch.rand(n, 5).softmax(-1)), {0: "n"}, {0: "n"}, w=r(5))
def divergence(m, x, p):
    return F.kl_div((x * m.w).log_softmax(-1), p, reduction="batchmean") + F.cosine_similarity(x * m.w, p).mean()


@case(lambda n, s: (torch.randn(n, 6), torch.randn(n, 6)), {0: "n"}, {0: "n"}, f=lambda: nn.Linear(6, 3))
def contrastive(m, a, b):
    a, b = F.normalize(m.f(a), dim=-1), F.normalize(m.f(b), dim=-1)
    s = a @ b.t() * 5
    return F.cross_entropy(s, torch.arange(a.shape[0])) + F.relu(0.1 - (a - b).norm(dim=-1)).mean()


# Activations, casts, reparametrisations.
@case(x3, NS, w=r(4), p=lambda: nn.PReLU(4))
def activations(m, x):
    y = (x * m.w).transpose(1, 2)
    z = m.p(y)
    return (sum(f(z).mean() for f in (F.mish, F.silu, F.softplus, F.selu, F.celu, F.gelu, F.softsign, F.hardsigmoid,
        F.logsigmoid, F.tanhshrink, F.hardshrink, torch.erf, torch.atan, F.relu)))


@case(x3, NS, w=r(4))
def casts(m, x):
    h = (x.half() * m.w.half()).float()
    return (h.to(x.dtype) * m.w).sum() * (x > 0).to(x.dtype).mean() + (x.double() * m.w.double()).sum().to(x.dtype)


@case(x3, NS, f=lambda: weight_norm(nn.Linear(4, 3)))
def weight_normed(m, x):
    return mean2(m.f(x))


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).t()


def symmetric():
    f = nn.Linear(4, 4)
    parametrize.register_parametrization(f, "weight", Symmetric())
    return f


@case(x3, NS, f=symmetric)
def parametrized(m, x):
    return mean2(m.f(x).sin())


@case(x3, NS, w=r(4, 4), u=r(4))
def spectral(m, x):
    u = m.u.detach()
    v = F.normalize(m.w.t() @ u, dim=0)
    u = F.normalize(m.w @ v, dim=0)
    return mean2(x @ (m.w / (u @ m.w @ v)))


@case(x3, NS, w=r(4), l=r(4, 2), k=r(2, 4))
def low_rank(m, x):
    return mean2(x * m.w + 0.5 * (x @ m.l) @ m.k)


@case(x3, NS, r=lambda: nn.Linear(4, 3), e=r(3, 4, 4))
def experts(m, x):
    g = m.r(x).softmax(-1)
    keep = g >= g.amax(-1, keepdim=True)
    return mean2(torch.einsum("bsd,edf,bse->bsf", x, m.e, g * keep))


@case(x3, NS, w=r(4))
def powers(m, x):
    y = (x * m.w).abs() + 0.5
    return ((y ** 0.5).sum() + (y ** m.w).mean() + (2 ** y).mean() + y.reciprocal().sum()
        + torch.fmod(x * m.w, 0.7).sum() + y.clamp(0.6, 1.1).sum())


@case(x3, NS, w=r(4))
def shapes(m, x):
    n, s, d = x.shape
    y = (x * m.w).reshape(n, -1).view(n, d, s).permute(1, 0, 2).unsqueeze(1).repeat(1, 2, 1, 1)
    a, b = y.flatten(2).split([1, 1], 1)
    return mean2(a.squeeze(1) * b.squeeze(1).sin()) + torch.cat([y, y * 2], 1)[:, 1:3].tanh().sum()


@case(lambda n, s: (torch.randn(n, s, 4), torch.randn(n, 1, 4)), NS, {0: "n", 1: "t"}, w=r(4))
def squeezed(m, x, t):
    return mean2(x * m.w * t) + (t.squeeze(1) * m.w).sum()


@case(lambda n, s: (torch.randn(n, 2, s + 3, s + 3),), NHW, sizes=IMAGES, w=r(8))
def unfolded(m, x):
    y = F.unfold(x, 2)
    return mean2(y * m.w[:, None])


@case(x3, NS, b=lambda: nn.BatchNorm1d(4), w=r(4))
def batch_norm(m, x):
    return (m.b(x.transpose(1, 2)).tanh().transpose(1, 2) * m.w).sum()


@case(lambda n, s: (torch.randn(n, 4), torch.randn(n, 4), torch.randn(n, s)), {0: "n"}, {0: "n"}, NS, b=r(3, 4, 4),
    g=lambda: nn.GRUCell(4, 4), l=lambda: nn.LSTMCell(4, 4))
def cells(m, a, b, c):
    h = m.g(a, b)
    h, k = m.l(h, (a, b))
    return mean2(torch.einsum("ni,oij,nj->no", h, m.b, k)) + (c - c.mean(1, keepdim=True)).abs().max()


# Control flow in scripts.
@torch.jit.script
def while_loop(x, w):
    h = x[:, 0]
    i = 0
    while i < x.size(1) and bool(h.abs().sum() < 50.0):
        if i % 2 == 0:
            h = h * w + x[:, i]
        else:
            h = torch.sin(h) + w
        i += 1
    return (h * h).mean()


@case(x3, NS, w=r(4))
def scripted_while(m, x):
    return while_loop(x, m.w)


@torch.jit.script
def stacked_steps(x, w, b):
    h = torch.zeros(x.size(0), 4, dtype=x.dtype)
    ys = []
    for t in range(x.size(1)):
        h = torch.tanh(torch.mm(h, w) + x[:, t] + b)
        ys.append(h)
    return torch.stack(ys, 1)


@case(x3, NS, w=r(4, 4), b=r(4))
def scripted_stack(m, x):
    return mean2(stacked_steps(x, m.w, m.b))


@torch.jit.script
def nested_loops(x, w, u):
    total = torch.zeros_like(x[:, 0])
    for t in range(x.size(1)):
        h = x[:, t]
        for k in range(3):
            h = torch.tanh(h * w + total * u)
        total = total + h
    return (total * total).sum()


@case(x3, NS, w=r(4), u=r(4))
def scripted_nested(m, x):
    return nested_loops(x, m.w, m.u)


# More of vision.
@case(image, NHW, sizes=IMAGES, d=lambda: nn.ConvTranspose2d(3, 6, 3, stride=2, padding=1, output_padding=1, groups=3),
    e=lambda: nn.ConvTranspose2d(6, 2, 2, dilation=2))
def transposed(m, x):
    return mean2(m.e(m.d(x)).tanh())


@case(image, NHW, sizes=IMAGES, w=r(3, 1, 1))
def pools(m, x):
    y = x * m.w
    return (F.max_pool2d(y, 3, 2, 1, ceil_mode=True).sum() + F.avg_pool2d(y, 2, 2).exp().mean()
        + F.max_pool2d(y, 2, 1, dilation=2).mean() + mean2(F.adaptive_max_pool2d(y, 1)) + F.lp_pool2d(y.abs() + 0.1, 2,
        2).mean())


@case(image, NHW, sizes=IMAGES, w=r(3, 1, 1))
def pads(m, x):
    y = x * m.w
    return (mean2(F.pad(y, (1, 2, 2, 1), mode="replicate")) + F.pad(y, (1, 1, 2, 0), value=0.3).sin().sum()
        + F.pad(y, (-1, 0, 0, -1)).exp().mean())


@case(image, NHW, sizes=IMAGES, w=r(3, 1, 1))
def resized(m, x):
    y = x * m.w
    return ((F.interpolate(y, size=(7, 9), mode="bilinear", align_corners=True).sin().sum()
        + mean2(F.interpolate(y, scale_factor=0.5, mode="nearest")))
            + mean2(F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)))


@case(image, NHW, sizes=IMAGES, since=16, w=r(3, 1, 1))
def warped(m, x):
    h, w = x.shape[2], x.shape[3]
    ys, xs = torch.meshgrid(torch.linspace(-0.9, 0.8, 5, dtype=x.dtype), torch.linspace(-0.7, 0.95, 6, dtype=x.dtype),
        indexing="ij")
    grid = torch.stack([xs, ys], -1)[None].expand(x.shape[0], 5, 6, 2) * m.w[0, 0].tanh()
    return mean2(F.grid_sample(x * m.w, grid, align_corners=False))


@case(image, NHW, sizes=IMAGES, f=lambda: nn.Conv2d(3, 6, 1), b=lambda: nn.BatchNorm2d(6).eval(),
    g=lambda: nn.InstanceNorm2d(6))
def frozen_norms(m, x):
    m.b.eval()
    return mean2(m.g(m.b(m.f(x)).sigmoid()) + m.f(x))


@case(image, NHW, sizes=IMAGES, p=lambda: nn.Conv2d(3, 8, 4, stride=4), c=r(1, 1, 8), n=lambda: nn.LayerNorm(8),
    h=lambda: nn.Linear(8, 3))
def vit(m, x):
    y = m.p(x).flatten(2).transpose(1, 2)
    y = torch.cat([m.c.expand(x.shape[0], -1, -1), y], 1)
    y = y + attention(m.n(y), m.n(y), y)
    return F.cross_entropy(m.h(y[:, 0]), torch.zeros(x.shape[0], dtype=torch.long))


@case(lambda n, s: (torch.randn(n, 4, s, s + 1),), NHW, w=r(4))
def unshuffled(m, x):
    n, c, h, w = x.shape
    y = (x * m.w[:, None, None]).view(n, 2, 2, h, w).transpose(1, 2).reshape(n, c, h, w)
    return mean2(torch.cat([y[:, :2].flip(3), y[:, 2:].roll((1, 2), (2, 3))], 1) * y)


# More of indices.
@case(x3, NS, w=r(4))
def boolean(m, x):
    y = x * m.w
    return mean2(y[x > 0]) + torch.masked_select(y, x < 0.5).sin().sum()


@case(lambda n, s: (torch.randn(n, s, 4), torch.randint(1, s + 1, (n,))), NS, {0: "n"}, w=r(4))
def lengths(m, x, l):
    keep = (torch.arange(x.shape[1])[None, :] < l[:, None]).to(x.dtype)[..., None]
    last = (x * m.w)[torch.arange(x.shape[0]), l - 1]
    return ((x * m.w).tanh() * keep).sum() / keep.sum() + mean2(last)


@case(lambda n, s: (torch.randn(n, s, 4), torch.randperm(s)[:2]), NS, {}, since=16, w=r(4))
def index_put(m, x, i):
    y = x * m.w
    y[:, i] = y[:, i] * 3 + 1
    z = torch.zeros_like(y)
    z.index_put_((torch.zeros(2, dtype=torch.long), i), y[0, i], accumulate=True)
    return mean2(y) + z.exp().mean()


@case(lambda n, s: (torch.randn(n, s, 4), torch.randint(0, 4, (n, s))), NS, NS, w=r(4, 4), o=r(4))
def one_hot(m, x, i):
    hot = F.one_hot(i, 4).to(x.dtype)
    return mean2(hot @ m.w * x) + (x * hot).sum(-1).max(1)[0].sum() + (m.o[i] * x[..., 0]).sum()


@case(x3, NS, w=r(4))
def splits(m, x):
    a, b, c = (x * m.w).split([1, 2, 1], -1)
    p, q = (x * m.w).unbind(-1)[1:3]
    return (mean2(a * b * c) + (p * q).sum() + torch.stack([p, q]).movedim(0, -1).cos().sum()
        + x.narrow(1, 1, 2).mul(m.w).mean())


@case(x3, NS, w=r(4))
def repeats(m, x):
    y = (x * m.w).repeat_interleave(2, 2)
    return mean2(y) + (x * m.w).repeat(1, 3, 1)[:, 2:9:3].sum().sin() + m.w.repeat(x.shape[1], 1).mul(x).exp().mean()


@case(lambda n, s: (torch.randn(n, s, s),), {0: "n", 1: "s", 2: "s"}, w=r(1))
def einsums(m, x):
    y = x * m.w
    return (torch.einsum("bij,bjk->bki", x, y).sin().sum() + torch.einsum("...ij,...j->...i", x,
        y[:, 0]).pow(2).mean() + torch.einsum("bij,bij->", x, y))


@case(x3, NS, v=r(4), w=r(3, 4), u=r(4, 4))
def small_products(m, x):
    return ((x @ m.v).sum() + mean2(F.linear(x, m.w)) + torch.outer(m.v, m.w[0]).sin().sum() + m.v @ m.u @ m.v
        + torch.baddbmm(x @ m.u, x, m.u.expand(x.shape[0], 4, 4)).tanh().mean() + torch.tensordot(x, m.w,
        ([2], [1])).mean())


# More of broadcasts: one symbol per axis, sizes of 1 on either side.
@case(lambda n, s: (torch.randn(n, s, 4), torch.randn(1, s, 4), torch.rand(n, 1, 1) + 0.5), NS, {0: "p", 1: "s"},
    {0: "q"}, sizes=[(2, 6), (1, 4), (3, 1)], w=r(4))
def normalised(m, x, shift, scale):
    y = (x - shift) / scale
    return (y * m.w).tanh().sum() + torch.atan(y).mean() + scale.pow(m.w).sum() + (scale ** y.abs()).mean()


@case(lambda n, s: (torch.randn(n, s), torch.randn(s, n)), {0: "a", 1: "b"}, {0: "c", 1: "d"},
    sizes=[(4, 4), (1, 4), (4, 1), (1, 1)], w=r(1))
def outer_sums(m, x, y):
    z = x[:, None, :] + y[None, :, :].transpose(1, 2) * m.w
    return mean2(z) + torch.minimum(x[:, :1], y[:1]).exp().mean()


@case(lambda n, s: (torch.randn(n, 3, s, 4), torch.randn(s, 4, 2), torch.randn(3, 1, 1)), {0: "n", 2: "s"}, {0: "t"},
    {}, sizes=[(2, 3), (1, 1), (3, 1)], w=r(2))
def batched_products(m, x, y, z):
    y = y.mean(0, keepdim=True)
    return mean2((x * z) @ y * m.w)


@case(lambda n, s: (torch.randn(n, s), torch.randn(n, 1) if s % 2 else torch.randn(n, s)), NS, {0: "n", 1: "t"},
    sizes=[(2, 6), (3, 5), (1, 4), (4, 1)], w=r(1))
def target(m, x, y):
    return ((x * m.w - y) ** 2).mean() + (x - y * m.w).abs().mean()


# More of functions.
@case(x3, NS, w=r(4))
def functions(m, x):
    y = x * m.w
    p = y.abs() + 0.1
    return ((p.log1p() + p.log2() + p.log10() + torch.lerp(y, p, 0.3) + torch.addcmul(y, p, x, value=0.5)
        + torch.rsqrt(p) + torch.sigmoid(y)).mean())


@case(x3, NS, w=r(4))
def kinks(m, x):
    y = x * m.w
    return ((F.hardtanh(y) + F.relu6(y * 5) + F.threshold(y, 0.0, 0.0) + F.softshrink(y, 0.2) + F.softmin(y, 1)
        + y.clamp(min=0) + y.clamp(max=0.2) + torch.sign(y) * y + y.round() + F.elu(y, 0.3) + F.rrelu(y, 0.2,
        0.2)).pow(2).mean())


@case(x3, NS, w=r(4))
def statistics(m, x):
    y = x * m.w
    v, mu = torch.var_mean(y, 1, unbiased=False)
    return (v.sum() + mu.sin().sum() + y.std() + y.var() + y.norm() + y.flatten(1).logsumexp(-1).sum()
        + y.mean((0, 2)).exp().sum() + y.max() - y.min())


@case(x3, NS, n=lambda: nn.LayerNorm((4,), elementwise_affine=False), w=r(4), s=lambda: torch.tensor(0.7),
    e=lambda: torch.tensor([0.2]))
def scalars(m, x):
    return mean2(m.n(x * m.w) * m.s + m.e) * (1 + m.s) + (m.s * m.e).sum()


@case(x3, NS, g=lambda: nn.GRU(4, 3, num_layers=2), h=r(2, 1, 3))
def learned_state(m, x):
    y, h = m.g(x.transpose(0, 1), m.h.expand(2, x.shape[0], 3).contiguous())
    return mean2(y[::2]) + h.prod(-1).sum()


@case(x3, NS, g=lambda: nn.LSTM(4, 3, bidirectional=True, num_layers=2, bias=False))
def bilstm(m, x):
    y, (h, c) = m.g(x)
    return mean2(y) + (h[0] * c[3]).sum()


@case(lambda n, s: (torch.randn(n, 5, s), torch.randint(0, 5, (n, s)), torch.rand(n, 5, s)), {0: "n", 2: "s"},
    {0: "n", 1: "s"}, {0: "n", 2: "s"}, w=r(5, 1))
def segmentation(m, x, y, soft):
    z = x * m.w
    p = z.softmax(1)
    dice = 1 - (2 * (p * soft).sum((0, 2)) + 1) / (p.sum((0, 2)) + soft.sum((0, 2)) + 1)
    focal = ((1 - p.gather(1, y[:, None])) ** 2 * -p.gather(1, y[:, None]).log()).mean()
    return (dice.mean() + focal + F.cross_entropy(z, y, weight=torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0], dtype=x.dtype))
        - (soft * z.log_softmax(1)).sum(1).mean())


@case(lambda n, s: (torch.randn(n, 4), torch.randn(n, 4), torch.randn(n, 4)), {0: "n"}, {0: "n"}, {0: "n"}, w=r(4))
def triplet(m, a, p, q):
    a, p, q = a * m.w, p * m.w, q * m.w
    return F.relu((a - p).norm(dim=1) - (a - q).norm(dim=1) + 1).mean() + (1 - F.cosine_similarity(a, q)).mean()


@case(x3, NS, a=lambda: nn.Linear(4, 4), b=lambda: nn.Linear(4, 4))
def shared_layers(m, x):
    y = x
    for i in range(4):
        y = y + m.a(F.silu(m.b(y))) / (i + 1)
        m_, s_ = y.mean(-1, keepdim=True), y.std(-1, keepdim=True)
        y = (y - m_) / (s_ + 1e-3)
    return mean2(y.cumsum(1))


@case(x3, NS, d=lambda: nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0, batch_first=True), q=r(3, 4))
def decoder_layer(m, x):
    return mean2(m.d(m.q.expand(x.shape[0], 3, 4), x))


@case(x3, NS, a=r(4), b=r(4, 2), c=r(4, 2))
def state_space(m, x):
    decay = torch.sigmoid(m.a)[:, None]
    t = torch.arange(x.shape[1], dtype=x.dtype)
    kernel = (decay ** t[None, :]) * (m.b * m.c).sum(1, keepdim=True)
    lag = (t[:, None] - t[None, :])
    toeplitz = torch.where(lag >= 0, kernel[:, lag.clamp(min=0).long()], torch.zeros((), dtype=x.dtype))
    return mean2(torch.einsum("dts,nsd->ntd", toeplitz, x))


@case(lambda n, s: (torch.randn(n, 4, 3), (torch.rand(4, 4) > 0.5).float()), {0: "n"}, {}, w=r(3, 5), a=r(10))
def graph_attention(m, x, adjacency):
    h = x @ m.w
    e = F.leaky_relu((h @ m.a[:5])[:, :, None] + (h @ m.a[5:])[:, None, :], 0.2)
    e = torch.where(adjacency + torch.eye(4) > 0, e, torch.full_like(e, -1e9))
    return mean2(F.elu(e.softmax(-1) @ h))


# What is one operator and is written in many nodes.


@case(x3, NS, n=lambda: nn.LayerNorm(4), k=lambda: nn.LayerNorm(4), f=lambda: nn.Linear(4, 8),
    b=lambda: nn.Linear(8, 4))
def bert_layer(m, x):
    h = m.f(x)
    return mean2(m.k(m.n(x + m.b(h * 0.5 * (1.0 + torch.erf(h / math.sqrt(2.0))))) * m.n.weight.sin()))


@case(x3, NS, w=r(4), f=lambda: nn.Linear(4, 8), b=lambda: nn.Linear(8, 4))
def gpt_layer(m, x):
    h = m.f(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * m.w)
    h = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))))
    y = x + m.b(h)
    return mean2(F.gelu(y, approximate="tanh") + y / torch.sqrt((y * y).mean((1, 2), keepdim=True) + 1e-5))


@case(x3, NS, f=lambda: nn.Linear(4, 4))
def written_softmax(m, x):
    s = m.f(x) @ x.transpose(1, 2)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    z = m.f(x)
    z = z - z.amax(1, keepdim=True)
    return mean2(e / e.sum(-1, keepdim=True) @ x) + (z - z.exp().sum(1, keepdim=True).log()).sin().mean()

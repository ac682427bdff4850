"""The modules that are measured: operators alone between layers with parameters, blocks of known nets, whole models."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

CASES = {}


class Case:
    """make: the model; data: its inputs, labels last unless the loss is square; loss: square, ce, pixels or tokens."""

    def __init__(self, make, data, loss="square"):
        self.make, self.data, self.loss = make, data, loss

    def build(self):
        torch.manual_seed(0)
        return WithLoss(self.make(), self.loss).train(), tuple(self.data())


class WithLoss(nn.Module):
    """The model under the attribute that names of scopes and parameters begin with, and its loss."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def train(self, mode=True):  # what a case has put into evaluation stays there
        frozen = [m for m in self.modules() if getattr(m, "frozen", False)]
        super().train(mode)
        for m in frozen:
            m.eval()
        return self

    def forward(self, *inputs):
        given = inputs if self.loss == "square" else inputs[:-1]
        output = self.model(*given)
        return LOSSES[self.loss](output, *inputs[len(given):]), output


LOSSES = {
    "square": lambda output: (output * output).mean(),
    "ce": F.cross_entropy,
    "pixels": F.cross_entropy,
    "tokens": lambda output, labels: F.cross_entropy(output.view(-1, output.size(-1)), labels.view(-1)),
}


class Fn(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *x):
        return self.f(*x)


def rows(n=256, width=512):
    return lambda: [torch.randn(n, width)]


def tokens(batch=4, length=64, width=256):
    return lambda: [torch.randn(batch, length, width)]


def images(batch=4, channels=16, size=32):
    return lambda: [torch.randn(batch, channels, size, size)]


def labelled(data, classes):
    return lambda: [*data(), torch.randint(0, classes, (data()[0].shape[0],))]


def words(vocabulary, batch, length):
    return lambda: [torch.randint(1, vocabulary, (batch, length)), torch.randint(0, vocabulary, (batch, length))]


def case(name, make, data, loss="square"):
    CASES[name] = Case(make, data, loss)


def between(name, *middle, width=1024, out=None):
    """Layers between two linear ones, on rows."""
    case(name, lambda: nn.Sequential(nn.Linear(512, width), *[m() for m in middle], nn.Linear(out or width, 256)),
         rows())


def between3(name, *middle, out=256):
    """Layers between two linear ones, on (batch, length, width)."""
    case(name, lambda: nn.Sequential(nn.Linear(256, 256), *[m() for m in middle], nn.Linear(out, 128)), tokens(8, 128))


def between_images(name, *middle, channels=32, loss="square"):
    case(name, lambda: nn.Sequential(nn.Conv2d(16, channels, 3, padding=1), *[m() for m in middle]), images(), loss)


def fn(f):
    return lambda: Fn(f)


# Activations.
for name, make in {
    "relu": nn.ReLU, "relu_inplace": lambda: nn.ReLU(inplace=True), "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"), "silu": nn.SiLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "elu": nn.ELU,
    "leaky_relu": nn.LeakyReLU, "hardswish": nn.Hardswish, "hardsigmoid": nn.Hardsigmoid,
    "softplus": nn.Softplus, "relu6": nn.ReLU6, "mish": nn.Mish,
    "softmax": lambda: nn.Softmax(-1), "log_softmax": lambda: nn.LogSoftmax(-1), "prelu": nn.PReLU,
}.items():
    between(name, make)

# Functions of one tensor.
for name, f in {
    "exp": lambda x: (x * 0.1).exp(), "log": lambda x: (x * x + 1).log(), "sqrt": lambda x: (x * x + 1).sqrt(),
    "erf": torch.erf, "square": lambda x: x.pow(2), "cube": lambda x: x.pow(3.0), "abs": torch.abs,
    "scaled": lambda x: 1 - x * 0.5 / 3, "clamp": lambda x: x.clamp(-1, 1), "reciprocal": lambda x: 1 / (x * x + 1),
    "gate": lambda x: x * torch.sigmoid(x), "add_relu": lambda x: x + F.relu(x), "times_itself": lambda x: x * x,
    "rms_norm": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "hand_norm": lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt(),
}.items():
    between(name, fn(f))
between("halves_gate", fn(lambda x: (lambda a, b: a * torch.sigmoid(b))(*x.split(512, dim=1))), out=512)
between("chunks_gate", fn(lambda x: (lambda a, b: a * F.silu(b))(*x.chunk(2, dim=1))), out=512)
between("slices", fn(lambda x: x[:, :512] + x[:, 512:]), out=512)
between("cat", fn(lambda x: torch.cat([x, torch.tanh(x)], 1)), out=2048)
between("dropout", lambda: nn.Dropout(0.1))
between("dropout_zero", lambda: nn.Dropout(0.0))
between("layer_norm", lambda: nn.LayerNorm(1024))
between("batch_norm_rows", lambda: nn.BatchNorm1d(1024))

# Linear layers and products.
case("linear", lambda: nn.Sequential(nn.Linear(512, 1024), nn.Linear(1024, 512, bias=False)), rows(512))
between3("linear_3d")
between3("linear_3d_no_bias", lambda: nn.Linear(256, 256, bias=False))
between3("linear_transposed", fn(lambda x: x.transpose(0, 1)))
between3("transposed_copy", fn(lambda x: x.transpose(1, 2).contiguous()), out=128)
between3("permuted_reshape", fn(
    lambda x: x.view(8, 128, 4, 64).permute(0, 2, 1, 3).reshape(8, 4, -1).view(8, 128, 256)))
between3("token_mean", fn(lambda x: x.mean(1)))
between3("first_token", fn(lambda x: x[:, 0]))
between3("stacked", fn(lambda x: torch.stack([x, x * 2]).sum(0)))
between3("rolled", fn(lambda x: torch.roll(x, 3, 1)))
between3("masked_scores", fn(lambda x: (x @ x.transpose(1, 2)).masked_fill(
    torch.ones(128, 128, dtype=torch.bool).triu(1), -math.inf).softmax(-1)), out=128)
between3("where_scores", fn(lambda x: torch.where(
    torch.ones(128, 128, dtype=torch.bool).tril(), x @ x.transpose(1, 2), torch.full([], -1e4)).softmax(-1)), out=128)
between3("expanded", fn(lambda x: x[:, :1].expand(8, 128, 256) * x))


class Conv1D(nn.Module):
    """A linear layer with the weight stored the other way, as GPT-2 has it."""

    def __init__(self, width, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, out) * 0.02)
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class LayerScale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.line = nn.LayerNorm(width), nn.Linear(width, width)
        self.gamma, self.shift = nn.Parameter(torch.full([width], 0.1)), nn.Parameter(torch.zeros(1, 128, width))

    def forward(self, x):
        return x + self.gamma * self.line(self.norm(x + self.shift))


between3("conv1d_gpt", lambda: Conv1D(256, 256))
between3("layer_scale", lambda: LayerScale(256))

# Convolutions, norms and pools of images.
between_images("conv", lambda: nn.Conv2d(32, 32, 3, padding=1))
between_images("conv_stride", lambda: nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False))
between_images("conv_point", lambda: nn.Conv2d(32, 64, 1))
between_images("conv_depthwise", lambda: nn.Conv2d(32, 32, 3, padding=1, groups=32), lambda: nn.Conv2d(32, 32, 1))
between_images("conv_groups", lambda: nn.Conv2d(32, 32, 3, padding=1, groups=4))
between_images("conv_transpose", lambda: nn.ConvTranspose2d(32, 16, 2, stride=2))
between_images("batch_norm", lambda: nn.BatchNorm2d(32), nn.ReLU)
between_images("group_norm", lambda: nn.GroupNorm(8, 32), nn.SiLU)
between_images("instance_norm", lambda: nn.InstanceNorm2d(32, affine=True))
between_images("max_pool", lambda: nn.MaxPool2d(2), lambda: nn.Conv2d(32, 32, 3, padding=1))
between_images("max_pool_overlap", lambda: nn.MaxPool2d(3, 2, 1), lambda: nn.Conv2d(32, 32, 3, padding=1))
between_images("avg_pool", lambda: nn.AvgPool2d(2), lambda: nn.Conv2d(32, 32, 3, padding=1))
between_images("global_pool", lambda: nn.AdaptiveAvgPool2d(1), nn.Flatten, lambda: nn.Linear(32, 10))
between_images("upsample", lambda: nn.Upsample(scale_factor=2), lambda: nn.Conv2d(32, 16, 3, padding=1))
between_images("upsample_bilinear", lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
               lambda: nn.Conv2d(32, 16, 3, padding=1))
between_images("pixel_shuffle", lambda: nn.PixelShuffle(2), lambda: nn.Conv2d(8, 16, 3, padding=1))
between_images("padded", fn(lambda x: F.pad(x, (1, 1, 1, 1))), lambda: nn.Conv2d(32, 32, 3))
case("conv1d", lambda: nn.Sequential(nn.Conv1d(32, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 32, 5, padding=2)),
     lambda: [torch.randn(4, 32, 1024)])


def frozen_norm():
    norm = nn.BatchNorm2d(32)
    norm.frozen = True
    return norm


between_images("batch_norm_frozen", frozen_norm, nn.ReLU)

# Losses and indices.
case("cross_entropy", lambda: nn.Linear(256, 2000), labelled(rows(256, 256), 2000), "ce")
case("cross_entropy_pixels", lambda: nn.Conv2d(16, 21, 1),
     lambda: [torch.randn(4, 16, 48, 48), torch.randint(0, 21, (4, 48, 48))], "pixels")
case("embedding", lambda: nn.Sequential(nn.Embedding(1000, 256), nn.Linear(256, 1000)), words(1000, 4, 64), "tokens")


class Distance(nn.Module):
    """Losses that are written by hand over a linear layer."""

    def __init__(self, f):
        super().__init__()
        self.line, self.f = nn.Linear(512, 1024), f

    def forward(self, x, y):
        return self.f(self.line(x), y)


def pair():
    return [torch.randn(256, 512), torch.rand(256, 1024)]


case("squared_error", lambda: Distance(lambda a, b: torch.pow(a - b, 2.0).mean(-1)), pair)
case("smooth_l1", lambda: Distance(
    lambda a, b: (lambda d: torch.where(d < 1, 0.5 * d * d, d - 0.5).sum(-1))((a - b).abs())), pair)
case("binary", lambda: Distance(lambda a, b: F.binary_cross_entropy_with_logits(a, b, reduction="none").mean(-1)), pair)


# Blocks.
class Attention(nn.Module):
    def __init__(self, width, heads, causal=True, dropout=0.0):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out, self.drop = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        w = q @ k.transpose(-1, -2) * (1 / math.sqrt(c // self.heads))
        if self.causal:
            i = torch.arange(t)
            w = w.masked_fill(i > i[:, None], -math.inf)
        w = self.drop(F.softmax(w, dim=-1))
        return self.out((w @ v).transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, causal=True, dropout=0.0, act=nn.GELU):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads, causal, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), act(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class TanhGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class BertLayer(nn.Module):
    """A layer of BERT: the norms come after the sums."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.last = nn.LayerNorm(width)
        self.drop_scores, self.drop_dense, self.drop_down = (nn.Dropout(dropout) for _ in range(3))

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        query = self.split(self.query(x))
        key = self.split(self.key(x))
        value = self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1))
        scores = scores + mask
        weights = self.drop_scores(nn.functional.softmax(scores, dim=-1))
        context = torch.matmul(weights, value).permute(0, 2, 1, 3).contiguous()
        context = context.view(x.size(0), x.size(1), -1)
        hidden = self.norm(self.drop_dense(self.dense(context)) + x)
        return self.last(self.drop_down(self.down(self.act(self.up(hidden)))) + hidden)


class Bert(nn.Module):
    def __init__(self, vocabulary=1000, length=128, width=256, heads=4, layers=4, dropout=0.1):
        super().__init__()
        self.word, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(dropout)
        self.layer = nn.ModuleList([BertLayer(width, heads, dropout) for _ in range(layers)])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        mask = (1.0 - (ids > 0).to(torch.float32))[:, None, None, :] * -10000.0
        x = self.drop(self.norm(self.word(ids) + self.place(torch.arange(ids.size(1)))))
        for layer in self.layer:
            x = layer(x, mask)
        return self.head(x)


class GPT(nn.Module):
    def __init__(self, vocabulary, length, width, heads, layers, dropout=0.0, tied=False):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList([Block(width, heads, True, dropout) for _ in range(layers)])
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.size(1))))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class ViT(nn.Module):
    def __init__(self, width=128, layers=2):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, stride=8)
        self.token, self.place = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 65, width))
        self.blocks = nn.Sequential(*[Block(width, 4, False) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], dim=1) + self.place
        return self.head(self.norm(self.blocks(x))[:, 0])


class Normed(nn.Module):
    """Rows of length one between products."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        x = self.a(x)
        return self.b(x / x.norm(dim=-1, keepdim=True))


class Branches(nn.Module):
    """Modules in a dict, of which the exporter leaves out the name."""

    def __init__(self):
        super().__init__()
        self.ways = nn.ModuleDict({
            k: nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 64)) for k in ("up", "b_1", "3")})

    def forward(self, x):
        return sum(way(x) for way in self.ways.values())


class DoubleConv(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
                         nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64)):
        super().__init__()
        self.down = nn.ModuleList([DoubleConv(a, b) for a, b in zip((3, *widths[:-2]), widths[:-1])])
        self.pool, self.bottom = nn.MaxPool2d(2), DoubleConv(*widths[-2:])
        back = widths[::-1]
        self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in zip(back, back[1:])])
        self.merge = nn.ModuleList([DoubleConv(a, b) for a, b in zip(back, back[1:])])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, middle):
        super().__init__()
        self.stem, self.pool = nn.Conv2d(16, channels, 3, padding=1), nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(channels, middle, 1), nn.Conv2d(middle, channels, 1)

    def forward(self, x):
        x = self.stem(x)
        return x * torch.sigmoid(self.fc2(F.relu(self.fc1(self.pool(x)))))


class ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem, self.deep = nn.Conv2d(16, width, 1), nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.act, self.back = nn.GELU(), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full([width], 1e-2))

    def forward(self, x):
        x = self.stem(x)
        y = self.deep(x).permute(0, 2, 3, 1)
        y = self.gamma * self.back(self.act(self.up(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(500, 128), kind(128, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0][:, -1])


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU())
        self.decode = nn.Sequential(
            nn.ConvTranspose2d(32, 16, 3, 2, 1, 1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 3, 2, 1, 1), nn.Sigmoid())

    def forward(self, x):
        return self.decode(self.encode(x)) - x


class Twice(nn.Module):
    """One module called three times, and another under two names."""

    def __init__(self):
        super().__init__()
        self.line, self.act, self.norm = nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512)
        self.same = self.line

    def forward(self, x):
        x = self.norm(x + self.act(self.line(x)))
        x = self.norm(x + self.act(self.line(x)))
        return self.same(x)


class Locals(nn.Module):
    """Each step has a name of its own, so that nothing is let go before the end."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(512, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        first = self.a(x)
        second = torch.tanh(first)
        third = second + 1
        fourth = third * 2
        return self.b(fourth)


class PositionBias(nn.Module):
    """A learned table that indices spread over the scores of attention, as Swin has it."""

    def __init__(self):
        super().__init__()
        self.line, self.table = nn.Linear(256, 256), nn.Parameter(torch.randn(255, 4) * 0.02)
        place = torch.arange(128)
        self.register_buffer("index", place[:, None] - place + 127)

    def forward(self, x):
        q = self.line(x).view(8, 128, 4, 64).transpose(1, 2)
        bias = self.table[self.index.view(-1)].view(128, 128, 4).permute(2, 0, 1).contiguous()
        return (q @ q.transpose(2, 3) + bias.unsqueeze(0)).softmax(-1)


def basic_block():
    return torchvision.models.resnet.BasicBlock(32, 32)


def bottleneck():
    from torchvision.models.resnet import Bottleneck, conv1x1
    down = nn.Sequential(conv1x1(32, 64, 2), nn.BatchNorm2d(64))
    return Bottleneck(32, 16, 2, down)


def mobile():
    return torchvision.models.mobilenetv2.InvertedResidual(16, 16, 1, 6)


def swin_blocks(depth):
    from torchvision.models.swin_transformer import SwinTransformerBlock
    return nn.Sequential(*[SwinTransformerBlock(96, 3, [7, 7], [i % 2 * 3] * 2, stochastic_depth_prob=0.0)
                           for i in range(depth)])


class SwinStack(nn.Module):
    """Patches and eight shifted-window blocks in two stages, from torchvision's parts."""

    def __init__(self):
        super().__init__()
        net = torchvision.models.swin_transformer.SwinTransformer(
            [4, 4], 64, [2, 6], [2, 4], [7, 7], stochastic_depth_prob=0.0, num_classes=100)
        self.features, self.norm, self.head = net.features, net.norm, net.head

    def forward(self, x):
        x = self.norm(self.features(x))
        return self.head(x.permute(0, 3, 1, 2).mean([2, 3]))


case("locals", Locals, rows())
case("shared_thrice", Twice, rows())
case("attention_bias", PositionBias, tokens(8, 128))
case("block", lambda: nn.Sequential(Block(256, 4)), tokens(4, 128))
case("block_dropout", lambda: nn.Sequential(Block(256, 4, dropout=0.1)), tokens(4, 128))
case("block_tanh_gelu", lambda: nn.Sequential(Block(256, 4, act=TanhGELU), Block(256, 4, act=lambda: nn.GELU("tanh"))),
     tokens(2, 128))
case("encoder_layer", lambda: nn.TransformerEncoder(
    nn.TransformerEncoderLayer(128, 4, 512, 0.1, batch_first=True), 2, enable_nested_tensor=False), tokens(4, 64, 128))
case("bert_layer", lambda: Bert(500, 64, 128, 4, 1), words(500, 8, 64), "tokens")
case("gpt_tied", lambda: GPT(1000, 64, 128, 4, 2, tied=True), words(1000, 4, 64), "tokens")
case("vit", ViT, labelled(images(4, 3, 64), 10), "ce")
case("basic_block", lambda: nn.Sequential(nn.Conv2d(16, 32, 3, padding=1, bias=False), basic_block(), basic_block()),
     images())
case("bottleneck", lambda: nn.Sequential(nn.Conv2d(16, 32, 3, padding=1, bias=False), bottleneck()),
     images(4, 16, 56))
case("mobile_block", lambda: nn.Sequential(nn.Conv2d(16, 16, 1), mobile()), images(4, 16, 32))
case("squeeze_excite", lambda: SqueezeExcite(64, 16), images(4, 16, 32))
case("convnext_block", lambda: ConvNeXtBlock(32), images(4, 16, 28))
case("swin_pair", lambda: nn.Sequential(nn.Linear(96, 96), swin_blocks(2)), lambda: [torch.randn(1, 28, 28, 96)])
case("unet_small", lambda: UNet((8, 16, 32)), lambda: [torch.randn(2, 3, 64, 64), torch.randint(0, 2, (2, 64, 64))],
     "pixels")
case("autoencoder", Autoencoder, images(4, 3, 64))
case("dense_block", lambda: nn.Sequential(nn.Conv2d(16, 32, 3, padding=1),
                                          torchvision.models.densenet._DenseBlock(3, 32, 2, 16, 0)), images())
case("weight_norm", lambda: nn.Sequential(*[nn.Sequential(nn.utils.weight_norm(nn.Linear(64, 64)), nn.Tanh())
                                            for _ in range(3)]), rows(4096, 64))
case("normed", lambda: Normed(), rows(256, 64))
case("branches", lambda: Branches(), rows(256, 64))
case("gru", lambda: Recurrent(nn.GRU), lambda: [torch.randint(0, 500, (16, 12)), torch.randint(0, 10, (16,))], "ce")
case("lstm", lambda: Recurrent(nn.LSTM), lambda: [torch.randint(0, 500, (16, 12)), torch.randint(0, 10, (16,))], "ce")
case("mlp_norm_dropout", lambda: nn.Sequential(
    *[nn.Sequential(nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.2)) for _ in range(3)],
    nn.Linear(512, 10)),
    labelled(rows(), 10), "ce")


# Whole models, measured with every block and with every second block checkpointed.
def perceptron():
    sizes = [1024] * 9 + [1000]
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers += [nn.Linear(a, b)] + [nn.ReLU()] * (i < len(sizes) - 2)
    return nn.Sequential(*layers)


MODELS = {
    "gpt2_6l_256": (Case(lambda: GPT(8192, 256, 256, 8, 6), words(8192, 8, 256), "tokens"), Block),
    "resnet18": (Case(lambda: torchvision.models.resnet18(), labelled(images(4, 3, 224), 1000), "ce"),
                 torchvision.models.resnet.BasicBlock),
    "mlp_8x1024": (Case(perceptron, labelled(rows(256, 1024), 1000), "ce"), nn.Linear),
    "bert_4l_256": (Case(Bert, words(1000, 8, 128), "tokens"), BertLayer),
    "unet": (Case(lambda: UNet((32, 64, 128)),
                  lambda: [torch.randn(2, 3, 128, 128), torch.randint(0, 2, (2, 128, 128))], "pixels"), DoubleConv),
    "swin": (Case(SwinStack, labelled(images(2, 3, 224), 100), "ce"),
             torchvision.models.swin_transformer.SwinTransformerBlock),
}

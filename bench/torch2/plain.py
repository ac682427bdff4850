"""Modules of PyTorch itself."""

import torch
from torch import nn
from torch.nn import functional as F

from model import BATCH, CLASSES, SEQUENCE, WORDS, Model, WithLoss, classes, images, model, words

TEXT = {"x": {0: "batch", 1: "length"}, "y": {0: "batch", 1: "length"}}


def tagger(module) -> Model:
    """A module that gives each word the scores of the next one, with the words on the second axis."""
    return Model(WithLoss(module), lambda n: {"x": words(n), "y": words(n)}, TEXT)


class Recurrent(nn.Module):
    """An embedding, recurrent layers and a head."""

    def __init__(self, kind, **options):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 16)
        self.layers = kind(16, 24, batch_first=True, **options)
        self.head = nn.Linear(48 if options.get("bidirectional") else 24, WORDS)

    def forward(self, x):
        return self.head(self.layers(self.embed(x))[0]).transpose(1, 2)


@model
def net_lstm():
    return tagger(Recurrent(nn.LSTM, num_layers=2, bidirectional=True))


@model
def net_gru():
    return tagger(Recurrent(nn.GRU, num_layers=2))


@model
def net_rnn():
    return tagger(Recurrent(nn.RNN, nonlinearity="relu"))


@model
def net_transformer():
    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 32)
            self.core = nn.Transformer(32, 4, 2, 2, 64, dropout=0.0, batch_first=True)
            self.head = nn.Linear(32, WORDS)

        def forward(self, source, target):
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            out = self.core(self.embed(source), self.embed(target), tgt_mask=mask, tgt_is_causal=True)
            return self.head(out).transpose(1, 2)

    def inputs(n):
        return {"source": words(n), "target": words(n, 9), "y": words(n, 9)}

    axes = {"source": {0: "batch", 1: "length"}, "target": {0: "batch", 1: "short"}, "y": {0: "batch", 1: "short"}}
    return Model(WithLoss(Translator()), inputs, axes)


@model
def net_conv1d():
    """Dilated causal convolutions with gates, as WaveNet's, and normalized weights."""

    class Layer(nn.Module):
        def __init__(self, dilation):
            super().__init__()
            self.dilation = dilation
            self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(24, 48, 2, dilation=dilation))
            self.mix = nn.Conv1d(24, 24, 1)

        def forward(self, x):
            a, b = self.conv(F.pad(x, (self.dilation, 0))).chunk(2, 1)
            return x + self.mix(torch.tanh(a) * torch.sigmoid(b))

    class Wave(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 24)
            self.layers = nn.Sequential(*(Layer(d) for d in (1, 2, 4)))
            self.head = nn.Conv1d(24, WORDS, 1)

        def forward(self, x):
            return self.head(self.layers(self.embed(x).transpose(1, 2)))

    return tagger(Wave())


@model
def net_unet():
    def block(a, b):
        return nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1, bias=False),
            nn.BatchNorm2d(b),
            nn.ReLU(inplace=True),
            nn.Conv2d(b, b, 3, padding=1, bias=False),
            nn.BatchNorm2d(b),
            nn.ReLU(inplace=True),
        )

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down1, self.down2, self.middle = block(3, 8), block(8, 16), block(16, 24)
            self.up2, self.out2 = nn.ConvTranspose2d(24, 16, 2, 2), block(32, 16)
            self.up1, self.out1 = nn.ConvTranspose2d(16, 8, 2, 2), block(16, 8)
            self.head = nn.Conv2d(8, CLASSES, 1)

        def forward(self, x):
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            c = self.up2(self.middle(F.max_pool2d(b, 2)))
            d = self.up1(self.out2(torch.cat([c, b], 1)))
            return self.head(self.out1(torch.cat([d, a], 1)))

    def inputs(n):
        return {"x": torch.randn(n, 3, 16, 16), "y": classes(n, 16, 16)}

    return Model(WithLoss(UNet()), inputs, {"x": {0: "batch"}, "y": {0: "batch"}}, 4)


@model
def net_diffusion():
    """A small U-Net of a diffusion model: time embeddings, group norms and attention."""

    class Residual(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(4, a), nn.Conv2d(a, b, 3, padding=1)
            self.norm2, self.conv2 = nn.GroupNorm(4, b), nn.Conv2d(b, b, 3, padding=1)
            self.time = nn.Linear(16, b)
            self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

        def forward(self, x, t):
            h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
            return self.skip(x) + self.conv2(F.silu(self.norm2(h)))

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.all, self.out = nn.GroupNorm(4, width), nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            b, c, h, w = x.shape
            y = self.all(self.norm(x).flatten(2).transpose(1, 2))
            q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in y.chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            return x + self.out(y).transpose(1, 2).reshape(b, c, h, w)

    class Denoiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16))
            self.begin, self.down1 = nn.Conv2d(3, 16, 3, padding=1), Residual(16, 16)
            self.shrink, self.down2, self.attention = nn.Conv2d(16, 24, 3, 2, 1), Residual(24, 24), Attention(24)
            self.grow = nn.Upsample(scale_factor=2, mode="nearest")
            self.up, self.head = Residual(40, 16), nn.Conv2d(16, 3, 3, padding=1)

        def forward(self, x, t):
            angles = t[:, None].float() * torch.exp(-torch.arange(8) * 0.7)
            t = self.time(torch.cat([angles.sin(), angles.cos()], -1))
            a = self.down1(self.begin(x), t)
            b = self.attention(self.down2(self.shrink(a), t))
            return self.head(self.up(torch.cat([self.grow(b), a], 1), t))

    def inputs(n):
        x = torch.randn(n, 3, 16, 16)
        return {"x": x, "t": torch.randint(0, 100, (n,)), "y": torch.randn_like(x)}

    return Model(WithLoss(Denoiser(), F.mse_loss), inputs, {name: {0: "batch"} for name in "xty"})


@model
def net_bag():
    """Bags of words, as of fastText."""

    class Bags(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.sum = nn.EmbeddingBag(WORDS, 16, mode="mean"), nn.EmbeddingBag(WORDS, 16, mode="sum")
            self.head = nn.Linear(32, CLASSES)

        def forward(self, x):
            return self.head(torch.cat([self.mean(x), self.sum(x)], 1))

    return Model(
        WithLoss(Bags()),
        lambda n: {"x": words(n), "y": classes(n)},
        {"x": {0: "batch", 1: "length"}, "y": {0: "batch"}},
    )


@model
def net_recommender():
    """Tables of categories, a perceptron for numbers, and products of all pairs, as DLRM's."""

    class Recommender(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(n, 8) for n in (50, 30, 20))
            self.bottom = nn.Sequential(nn.Linear(5, 16), nn.PReLU(), nn.Linear(16, 8))
            self.top = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1))

        def forward(self, numbers, kinds):
            x = self.bottom(numbers)
            rows = torch.stack([x] + [table(kinds[:, i]) for i, table in enumerate(self.tables)], 1)
            products = torch.bmm(rows, rows.transpose(1, 2))
            i, j = torch.tril_indices(4, 4, offset=-1)
            return self.top(torch.cat([x, products[:, i, j]], 1)).squeeze(1)

    def inputs(n):
        kinds = torch.stack([torch.randint(0, many, (n,)) for many in (50, 30, 20)], 1)
        return {"numbers": torch.randn(n, 5), "kinds": kinds, "y": torch.rand(n).round()}

    axes = {name: {0: "batch"} for name in ("numbers", "kinds", "y")}
    return Model(WithLoss(Recommender(), F.binary_cross_entropy_with_logits), inputs, axes, 4)


@model
def net_graph():
    """Two layers of messages along edges, added up by node, as of graph networks."""

    class Messages(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(6, 16)
            self.layers = nn.ModuleList(nn.Linear(32, 16) for _ in range(2))
            self.head = nn.Linear(16, CLASSES)

        def forward(self, x, edges):
            h = self.embed(x)
            for layer in self.layers:
                source, target = edges[:, :, 0], edges[:, :, 1]
                a = torch.gather(h, 1, source[..., None].expand(-1, -1, 16))
                b = torch.gather(h, 1, target[..., None].expand(-1, -1, 16))
                message = F.elu(layer(torch.cat([a, b], -1)))
                h = h.scatter_add(1, target[..., None].expand(-1, -1, 16), message)
            return self.head(h.amax(1))

    def inputs(n):
        return {"x": torch.randn(n, 10, 6), "edges": torch.randint(0, 10, (n, 24, 2)), "y": classes(n)}

    return Model(WithLoss(Messages()), inputs, {name: {0: "batch"} for name in ("x", "edges", "y")})


@model
def net_autoencoder():
    """A variational autoencoder; the draw is an input."""

    class Autoencoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(
                nn.Conv2d(1, 8, 3, 2, 1),
                nn.LeakyReLU(),
                nn.Conv2d(8, 16, 3, 2, 1),
                nn.ELU(),
                nn.Flatten(),
                nn.Linear(256, 16),
            )
            self.widen = nn.Linear(8, 256)
            self.decode = nn.Sequential(
                nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.GELU(), nn.ConvTranspose2d(8, 1, 4, 2, 1)
            )

        def forward(self, x, draw):
            mean, log_variance = self.encode(x).chunk(2, 1)
            z = mean + draw * torch.exp(0.5 * log_variance)
            scores = self.decode(self.widen(z).view(-1, 16, 4, 4))
            divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
            return F.binary_cross_entropy_with_logits(scores, x) + 0.01 * divergence, scores

    def inputs(n):
        return {"x": torch.rand(n, 1, 16, 16), "draw": torch.randn(n, 8)}

    return Model(Autoencoder(), inputs, {"x": {0: "batch"}, "draw": {0: "batch"}})


@model
def net_resolution():
    """Super resolution: instance norms, bicubic and bilinear resizes, pixels shuffled into space."""

    class Resolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.begin, self.norm = (
                nn.Conv2d(3, 16, 3, padding=1, padding_mode="reflect"),
                nn.InstanceNorm2d(16, affine=True),
            )
            self.more, self.shuffle = nn.Conv2d(16, 12, 3, padding=1), nn.PixelShuffle(2)

        def forward(self, x):
            rough = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
            soft = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
            return 0.5 * (rough + soft) + self.shuffle(self.more(F.mish(self.norm(self.begin(x)))))

    def inputs(n):
        return {"x": torch.randn(n, 3, 8, 8), "y": torch.randn(n, 3, 16, 16)}

    return Model(WithLoss(Resolution(), F.smooth_l1_loss), inputs, {"x": {0: "batch"}, "y": {0: "batch"}})


@model
def net_spatial():
    """A spatial transformer: a network chooses where to sample the image."""

    class Spatial(nn.Module):
        def __init__(self):
            super().__init__()
            self.locate = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.Hardswish(), nn.Flatten(), nn.Linear(144, 6))
            self.conv, self.head = nn.Conv2d(1, 8, 3), nn.Linear(8, CLASSES)

        def forward(self, x):
            theta = torch.tensor([[1.0, 0, 0], [0, 1, 0]]) + 0.1 * self.locate(x).view(-1, 2, 3)
            steps = torch.linspace(-1, 1, 16)
            rows, columns = torch.meshgrid(steps, steps, indexing="ij")
            base = torch.stack([columns, rows, torch.ones_like(rows)], -1).view(1, -1, 3)
            grid = (base @ theta.transpose(1, 2)).view(-1, 16, 16, 2)
            x = F.grid_sample(x, grid, padding_mode="border", align_corners=True)
            return self.head(F.avg_pool2d(F.softplus(self.conv(x)), 14).flatten(1))

    return images(Spatial(), 16, channels=1)


@model
def net_pieces():
    """Indexes, masks, einsum, sums along, top k, scatters and where."""

    class Pieces(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 24, padding_idx=0)
            self.mix = nn.Parameter(0.1 * torch.randn(4, 6, 6))
            self.head = nn.Linear(24, WORDS)

        def forward(self, x):
            y = F.elu(self.embed(x))
            y = torch.einsum("bshd,hde->bshe", y.unflatten(-1, (4, 6)), self.mix).flatten(2)
            y = y + torch.cumsum(y, 1) * 0.1 + torch.roll(y, 1, 1).flip(-1)
            top, at = y.topk(8, dim=-1)
            y = y.scatter(-1, at, top * 2)
            y = torch.where(y > 0.2, torch.full_like(y, 0.2), y).masked_fill((x == 5)[..., None], 0.1)
            last = y[torch.arange(y.shape[0]), (x != 0).sum(1) - 1]
            y = torch.cat([y[:, :-1], last[:, None]], 1)
            return self.head(F.layer_norm(y, (24,))).transpose(1, 2)

    return tagger(Pieces())


@model
def net_experts():
    """A dense mixture of experts, weighed by the two best scores of a router."""

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.router = nn.Embedding(WORDS, 16), nn.Linear(16, 4, bias=False)
            self.up, self.down = (nn.Parameter(0.2 * torch.randn(*s)) for s in ((4, 16, 32), (4, 32, 16)))
            self.head = nn.Linear(16, WORDS)

        def forward(self, x):
            h = self.embed(x)
            best, at = self.router(h).softmax(-1).topk(2, -1)
            share = torch.zeros(*h.shape[:2], 4).scatter(-1, at, best / best.sum(-1, keepdim=True))
            inner = F.silu(torch.einsum("bsd,edh->bseh", h, self.up))
            h = h + torch.einsum("bseh,ehd,bse->bsd", inner, self.down, share)
            return self.head(h).transpose(1, 2)

    return tagger(Experts())


@model
def net_cells():
    """An LSTM cell in a loop of Python, and the losses of words and of a scale together."""

    class Cells(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.cell = nn.Embedding(WORDS, 16), nn.LSTMCell(16, 16)
            self.head, self.scale = nn.Linear(16, WORDS), nn.Linear(16, 1)

        def forward(self, x, y, z):
            h = c = torch.zeros(x.shape[0], 16)
            states = []
            for i in range(SEQUENCE):
                h, c = self.cell(self.embed(x[:, i]), (h, c))
                states.append(h)
            states = torch.stack(states, 1)
            scores = self.head(states)
            tokens = F.nll_loss(scores.flatten(0, 1).log_softmax(-1), y.flatten())
            return tokens + F.huber_loss(self.scale(states).squeeze(-1), z), scores

    def inputs(n):
        return {"x": words(n), "y": words(n), "z": torch.randn(n, SEQUENCE)}

    return Model(Cells(), inputs, {name: {0: "batch"} for name in "xyz"})


@model
def net_contrast():
    """Two towers and the temperature of their cosines, trained by pairs in a batch."""

    class Contrast(nn.Module):
        def __init__(self):
            super().__init__()
            self.left = nn.Sequential(nn.Linear(10, 32), nn.Softsign(), nn.Linear(32, 16))
            self.right = nn.Sequential(nn.Linear(14, 32), nn.SELU(), nn.Linear(32, 16))
            self.temperature = nn.Parameter(torch.tensor(1.5))

        def forward(self, a, b):
            a, b = F.normalize(self.left(a), dim=-1), F.normalize(self.right(b), dim=-1)
            scores = self.temperature.exp() * a @ b.T
            right = torch.arange(a.shape[0])
            return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2, scores

    def inputs(n):
        return {"a": torch.randn(n, 10), "b": torch.randn(n, 14)}

    return Model(Contrast(), inputs, {"a": {0: "batch"}, "b": {0: "batch"}}, 2 * BATCH)

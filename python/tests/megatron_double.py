"""The checkpoints of Megatron-LM, for tests, and a decoder with its modules.

Checkpoint does what CheckpointFunction does in megatron/core/tensor_parallel/random.py, and Discarding what
CheckpointWithoutOutput does. Hooks of saved tensors find what a Discarding has made again, in place of a function in
C++ that puts it into the old storage.
"""

import math

import torch
from torch import nn


def again(run, state, inputs):
    """Runs a region a second time, with the generator as it was; its inputs as leaves, and what it returns."""
    leaves = [t.detach().requires_grad_(t.requires_grad) for t in inputs]
    now = torch.get_rng_state()
    torch.set_rng_state(state)
    with torch.enable_grad():
        out = run(*leaves)
    torch.set_rng_state(now)
    return leaves, out


class Checkpoint(torch.autograd.Function):
    """Keeps inputs. Its backward makes the region's graph, and goes through it."""

    @staticmethod
    def forward(ctx, run, *inputs):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        with torch.no_grad():
            return run(*inputs)

    @staticmethod
    def backward(ctx, grad):
        saved = ctx.saved_tensors
        leaves, out = again(ctx.run, ctx.state, saved)
        torch.autograd.backward(out, grad)
        return None, *(t.grad for t in leaves)


class _Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, owner, *inputs):
        ctx.save_for_backward(*inputs)
        ctx.owner, owner.ctx = owner, ctx
        with torch.no_grad():
            return run(*inputs)

    @staticmethod
    def backward(ctx, grad):
        owner, ctx.owner = ctx.owner, None
        torch.autograd.backward(owner.out, grad)
        grads = [t.grad for t in owner.leaves]
        owner.out = owner.leaves = None
        return None, None, *grads


class Discarding:
    """A region whose result is freed once a consumer is done, and made again when the consumer has its gradient."""

    def __init__(self, run, *inputs):
        self.run, self.state = run, torch.get_rng_state()
        self.out = _Keeping.apply(run, self, *inputs)

    def then(self, consumer):
        """Runs the consumer, and frees the result."""
        storage = self.out.untyped_storage()
        key = storage._cdata

        def pack(t):
            of = t.untyped_storage()._cdata == key
            return (t.size(), t.stride(), t.storage_offset()) if of else t

        def unpack(x):
            return x if isinstance(x, torch.Tensor) else self.out.detach().as_strided(*x)

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            result = consumer(self.out)
        storage.resize_(0)
        self.out = None
        result.register_hook(self.recompute)
        return result

    def recompute(self, _):
        ctx, self.ctx = self.ctx, None
        self.leaves, self.out = again(self.run, self.state, ctx.saved_tensors)


class Core(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads, self.drop = heads, nn.Dropout(0.1)

    def forward(self, *parts):
        b, t, d = parts[0].shape
        q, k, v = (x.reshape(b, t, self.heads, -1).transpose(1, 2).reshape(b * self.heads, t, -1) for x in parts)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        out = torch.bmm(self.drop(scores.softmax(-1)), v)
        return out.reshape(b, self.heads, t, -1).transpose(1, 2).reshape(b, t, d)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.linear_qkv, self.linear_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.core_attention = Core(heads)
        self.recompute = False

    def forward(self, x):
        parts = self.linear_qkv(x).chunk(3, -1)
        core = self.core_attention
        return self.linear_proj(Checkpoint.apply(core, *parts) if self.recompute else core(*parts))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear_fc1, self.linear_fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.linear_fc2(nn.functional.gelu(self.linear_fc1(x)))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.input_layernorm, self.self_attention = nn.LayerNorm(width), Attention(width, heads)
        self.pre_mlp_layernorm, self.mlp = nn.LayerNorm(width), MLP(width)
        self.drop = nn.Dropout(0.1)
        self.discards = self.recompute = False

    def forward(self, x):
        x = x + self.drop(self.behind(self.input_layernorm, x, self.self_attention))
        mlp = (lambda y: Checkpoint.apply(self.mlp, y)) if self.recompute else self.mlp
        return x + self.drop(self.behind(self.pre_mlp_layernorm, x, mlp))

    def behind(self, norm, x, module):
        return Discarding(norm, x).then(module) if self.discards else module(norm(x))


class Decoder(nn.Module):
    def __init__(self, layers=4, width=64, heads=4):
        super().__init__()
        self.embedding, self.head = nn.Embedding(100, width), nn.Linear(width, 100)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.chunks = [(1, False)] * layers

    def forward(self, ids):
        x, at = self.embedding(ids), 0
        for size, recompute in self.chunks:
            run = nn.Sequential(*self.layers[at : at + size])
            x, at = Checkpoint.apply(run, x) if recompute else run(x), at + size
        return self.head(x)

    def set(self, flags):
        """Follows Megatron-LM's flags, a list of words."""
        n = len(self.layers)
        if "full" in flags:
            size = int(flags[flags.index("--recompute-num-layers") + 1])
            uniform = [(min(size, n - i), True) for i in range(0, n, size)]
            self.chunks = uniform if "uniform" in flags else [(1, i < size) for i in range(n)]
        for layer in self.layers:
            layer.discards, layer.recompute = "layernorm" in flags, "mlp" in flags
            layer.self_attention.recompute = "core_attn" in flags


def decoder():
    """A model in training, its input and its labels."""
    torch.manual_seed(0)
    return Decoder().train(), torch.randint(0, 100, (8, 48)), torch.randint(0, 100, (8, 48))


def loss(out, labels):
    return nn.functional.cross_entropy(out.flatten(0, 1), labels.flatten())

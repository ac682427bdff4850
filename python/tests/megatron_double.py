"""The checkpoints and the moves to the host of Megatron-LM, for tests, and a decoder with its modules.

Checkpoint does what CheckpointFunction does in megatron/core/tensor_parallel/random.py, and Discarding what
CheckpointWithoutOutput does. Hooks of saved tensors find what a Discarding has made again, in place of a function in
C++ that puts it into the old storage. Moves does what PipelineOffloadManager and ChunkOffloadHandler do in
megatron/core/pipeline_parallel/fine_grained_activation_offload.py for one chunk, with copies that take no time.
"""

import ctypes
import itertools
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
    def backward(ctx, *grads):
        owner, ctx.owner = ctx.owner, None
        torch.autograd.backward(owner.out, grads)
        grads = [t.grad for t in owner.leaves]
        owner.out = owner.leaves = None
        return None, None, *grads


class Discarding:
    """A region whose results are freed once a consumer is done, and made again when the consumer has its gradient."""

    def __init__(self, run, *inputs):
        self.run, self.state = run, torch.get_rng_state()
        self.out = listed(_Keeping.apply(run, self, *inputs))

    def then(self, consumer):
        """Runs the consumer, and frees the results."""
        storages = [t.untyped_storage() for t in self.out]
        keys = {s._cdata: i for i, s in enumerate(storages)}

        def pack(t):
            i = keys.get(t.untyped_storage()._cdata)
            return t if i is None else (i, t.size(), t.stride(), t.storage_offset())

        def unpack(x):
            return x if isinstance(x, torch.Tensor) else self.out[x[0]].detach().as_strided(*x[1:])

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            result = consumer(*self.out)
        for s in storages:
            s.resize_(0)
        self.out = None
        result.register_hook(self.recompute)
        return result

    def recompute(self, _):
        ctx, self.ctx = self.ctx, None
        self.leaves, out = again(self.run, self.state, ctx.saved_tensors)
        self.out = listed(out)


def listed(out):
    return [out] if isinstance(out, torch.Tensor) else list(out)


def discarding(on, run, inputs, consumer):
    """Runs a region, and a consumer of its results; they are freed where on."""
    return Discarding(run, *inputs).then(consumer) if on else consumer(*listed(run(*inputs)))


class Group:
    def __init__(self, name):
        self.name, self.tensors, self.stays = name, {}, False


class Moves:
    """The groups of a step, in order, which the first step finds; from then on the last of each name stays."""

    def __init__(self, names, elements, parameters):
        self.names, self.elements = names, elements
        self.parameters = {p.untyped_storage().data_ptr() for p in parameters}
        self.groups, self.known = [], False
        self.reset()

    def reset(self):
        if self.groups and not self.known:
            self.known = True
            for g in {g.name: g for g in self.groups}.values():
                g.stays = True
        self.at, self.open, self.away = 0, [], []

    def start(self, name):
        if not self.known:
            self.groups.append(Group(name))
        self.open.append(self.groups[self.at])
        self.at += 1

    def pack(self, t):
        if t.untyped_storage().data_ptr() in self.parameters:
            return t
        tensors = self.groups[self.at - 1].tensors
        tensors[len(tensors)] = t
        return self.groups[self.at - 1], len(tensors) - 1

    @staticmethod
    def unpack(x):
        if isinstance(x, torch.Tensor):
            return x
        t = x[0].tensors.pop(x[1])
        return t if isinstance(t, torch.Tensor) else from_host(*t)

    def commit(self, name, released):
        group = next(g for g in self.open if g.name == name)
        self.open.remove(group)
        if group.stays:
            return
        for key in group.tensors:
            if group.tensors[key].numel() >= self.elements:
                group.tensors[key] = to_host(group.tensors[key])
        self.away.append(group)
        for t in released:
            if t.numel() >= self.elements:
                t.untyped_storage().resize_(0)

    def back(self):
        tensors = self.away.pop().tensors if self.away else {}
        for key, t in tensors.items():
            if not isinstance(t, torch.Tensor):
                tensors[key] = from_host(*t)


def to_host(t):
    """A copy outside of PyTorch's memory, and the view that it is."""
    view = None
    if not t.is_contiguous():
        storage = t.untyped_storage()
        if 2 * t.numel() * t.element_size() >= storage.nbytes():
            view = t.size(), t.stride(), t.storage_offset()
            t = torch.empty(0, dtype=t.dtype).set_(storage)
        else:
            t = t.contiguous()
    data = bytearray(ctypes.string_at(t.data_ptr(), t.numel() * t.element_size()))
    return data, t.dtype, t.size(), view


def from_host(data, dtype, size, view):
    t = torch.frombuffer(data, dtype=dtype).view(size).clone()
    return t if view is None else t.as_strided(*view)


class _Start(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, moves):
        ctx.moves = moves
        return t

    @staticmethod
    def backward(ctx, grad):
        ctx.moves.back()
        return grad, None


class _Commit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, moves, name, released):
        moves.commit(name, released)
        return t

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None, None


class Part:
    """What FineGrainedActivationOffloadingInterface is; without moves, a context that does not change its tensor."""

    def __init__(self, moves, name, t):
        self.moves, self.name, self.t = moves if moves is not None and name in moves.names else None, name, t

    def __enter__(self):
        t, self.t = self.t, None
        if self.moves is None:
            return t
        t = _Start.apply(t, self.moves)
        self.moves.start(self.name)
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.moves.pack, self.moves.unpack)
        self.hooks.__enter__()
        return t

    def __exit__(self, *error):
        if self.moves is not None:
            self.hooks.__exit__(*error)

    def done(self, t, released=()):
        return t if self.moves is None else _Commit.apply(t, self.moves, self.name, released)


class Core(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads, self.drop = heads, nn.Dropout(0.1)

    def forward(self, *parts):
        b, t, _ = parts[0].shape
        q, k, v = (x.reshape(b, t, self.heads, -1).transpose(1, 2).reshape(b * self.heads, t, -1) for x in parts)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        out = torch.bmm(self.drop(scores.softmax(-1)), v)
        return out.reshape(b, self.heads, t, -1).transpose(1, 2).reshape(b, t, -1)


def cored(attention, q, k, v):
    """The core of an attention, whose inputs move."""
    core = attention.core_attention
    if attention.recompute:
        return Checkpoint.apply(core, q, k, v)
    part = Part(attention.moves, "core_attn", q)
    with part as q:
        out = core(q, k, v)
    return part.done(out, [q, k, v])


def projected(attention, x):
    part = Part(attention.moves, "attn_proj", x)
    with part as x:
        y = attention.linear_proj(x)
    return part.done(y, [x])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.linear_qkv, self.linear_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.core_attention = Core(heads)
        self.recompute, self.moves = False, None

    def moved(self, x):
        part = Part(self.moves, "qkv_linear", x)
        with part as x:
            parts = self.linear_qkv(x).chunk(3, -1)
        return projected(self, cored(self, part.done(parts[0]), *parts[1:]))

    def forward(self, x):
        if self.moves is not None:
            return self.moved(x)
        parts = self.linear_qkv(x).chunk(3, -1)
        core = self.core_attention
        return self.linear_proj(Checkpoint.apply(core, *parts) if self.recompute else core(*parts))


class Latent(nn.Module):
    """The attention with keys and values, and queries, that are projected up from narrow ones."""

    def __init__(self, width, heads):
        super().__init__()
        self.narrow, self.heads, self.position = width // 4, heads, width // heads // 2
        self.linear_q_down_proj, self.q_layernorm = nn.Linear(width, self.narrow), nn.LayerNorm(self.narrow)
        self.linear_kv_down_proj = nn.Linear(width, self.narrow + self.position)
        self.kv_layernorm = nn.LayerNorm(self.narrow)
        self.linear_q_up_proj = nn.Linear(self.narrow, width + heads * self.position)
        self.linear_kv_up_proj, self.linear_proj = nn.Linear(self.narrow, 2 * width), nn.Linear(width, width)
        self.core_attention = Core(heads)
        self.recompute = self.discards = False
        self.moves = None

    def up(self, q, kv, position):
        b, t, _ = q.shape
        q = self.linear_q_up_proj(q)
        k, v = self.linear_kv_up_proj(kv).view(b, t, self.heads, -1).chunk(2, -1)
        k = torch.cat([k, position.sin()[:, :, None].expand(-1, -1, self.heads, -1)], -1)
        return q, k.flatten(2), v.flatten(2)

    def narrowed(self, x):
        q = self.q_layernorm(self.linear_q_down_proj(x))
        kv, position = self.linear_kv_down_proj(x).split([self.narrow, self.position], -1)
        return q, self.kv_layernorm(kv), position

    def moved(self, x):
        part = Part(self.moves, "qkv_linear", x)
        with part as x:
            narrow = self.narrowed(x)
            parts = Discarding(self.up, *narrow) if self.discards else self.up(*narrow)

        def core(q, k, v):
            return cored(self, part.done(q, [x]), k, v)

        return projected(self, parts.then(core) if self.discards else core(*parts))

    def forward(self, x):
        if self.moves is not None:
            return self.moved(x)
        core = self.core_attention
        run = (lambda *parts: Checkpoint.apply(core, *parts)) if self.recompute else core
        return self.linear_proj(discarding(self.discards, self.up, self.narrowed(x), run))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear_fc1, self.linear_fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.linear_fc2(nn.functional.gelu(self.linear_fc1(x)))


class Experts(nn.Module):
    """Gated perceptrons, whose products run together."""

    def __init__(self, number, width):
        super().__init__()
        self.fc1 = nn.Parameter(torch.randn(number, width, 4 * width) / 8)
        self.fc2 = nn.Parameter(torch.randn(number, 2 * width, width) / 8)
        self.discards, self.moves = False, None

    def moved(self, x, weights):
        part = Part(self.moves, "expert_fc1", x)
        with part as x:
            y = torch.bmm(x, self.fc1)
        y = part.done(y, [x])
        part = Part(self.moves, "moe_act", y)
        with part as y:
            z = Discarding(self.act, y, weights) if self.discards else self.act(y, weights)
        return part.done(z.then(self.down) if self.discards else self.down(z), [y])

    def forward(self, x, weights):
        if self.moves is not None:
            return self.moved(x, weights)
        return discarding(self.discards, self.act, (torch.bmm(x, self.fc1), weights), self.down)

    def down(self, y):
        return torch.bmm(y, self.fc2)

    @staticmethod
    def act(y, weights):
        gate, up = y.chunk(2, -1)
        return nn.functional.silu(gate) * up * weights[..., None]


class MoE(nn.Module):
    """Experts that each take as many tokens, those with the highest scores."""

    def __init__(self, width, number=4):
        super().__init__()
        self.router, self.experts = nn.Linear(width, number, bias=False), Experts(number, width)

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, at = self.router(rows).softmax(-1).T.topk(len(rows) // 2, -1)
        out = self.experts(rows[at], weights)
        return torch.zeros_like(rows).index_add(0, at.flatten(), out.flatten(0, 1)).view_as(x)


class Layer(nn.Module):
    def __init__(self, width, attention, mlp):
        super().__init__()
        self.input_layernorm, self.self_attention = nn.LayerNorm(width), attention
        self.pre_mlp_layernorm, self.mlp = nn.LayerNorm(width), mlp
        self.drop = nn.Dropout(0.1)
        self.discards = self.recompute = False
        self.moves = None

    def moved(self, name, norm, module, x):
        part = Part(self.moves, name, x)
        with part as x:
            y = Discarding(norm, x) if self.discards else norm(x)
        out = y.then(module) if self.discards else module(y)
        return part.done(x + self.drop(out), [x])

    def forward(self, x):
        if self.moves is not None:
            x = self.moved("attn_norm", self.input_layernorm, self.self_attention, x)
            mlp = (lambda y: Checkpoint.apply(self.mlp, y)) if self.recompute else self.mlp
            return self.moved("mlp_norm", self.pre_mlp_layernorm, mlp, x)
        x = x + self.drop(self.behind(self.input_layernorm, x, self.self_attention))
        mlp = (lambda y: Checkpoint.apply(self.mlp, y)) if self.recompute else self.mlp
        return x + self.drop(self.behind(self.pre_mlp_layernorm, x, mlp))

    def behind(self, norm, x, module):
        return discarding(self.discards, norm, (x,), module)


class Decoder(nn.Module):
    def __init__(self, attention, mlps, width=64, heads=4):
        super().__init__()
        self.embedding, self.head = nn.Embedding(100, width), nn.Linear(width, 100)
        self.layers = nn.ModuleList(Layer(width, attention(width, heads), mlp(width)) for mlp in mlps)
        layers = len(mlps)
        self.chunks, self.moves = [(1, False)] * layers, None

    def forward(self, ids):
        if self.moves is not None:
            self.moves.reset()
        x, at = self.embedding(ids), 0
        for size, recompute in self.chunks:
            run = nn.Sequential(*self.layers[at : at + size])
            x, at = Checkpoint.apply(run, x) if recompute else run(x), at + size
        return self.head(x)

    def set(self, flags):
        """Follows Megatron-LM's flags, a list of words."""
        n = len(self.layers)
        names, elements = words(flags, "--offload-modules"), words(flags, "--min-offloaded-tensor-size")
        if names:
            self.moves = Moves(names, int(elements[0]), self.parameters())
        chosen = words(flags, "--recompute-modules")
        if "full" in flags:
            size = int(flags[flags.index("--recompute-num-layers") + 1])
            uniform = [(min(size, n - i), True) for i in range(0, n, size)]
            self.chunks = uniform if "uniform" in flags else [(1, i < size) for i in range(n)]
        for layer in self.layers:
            experts = getattr(layer.mlp, "experts", None)
            layer.discards, layer.moves = "layernorm" in chosen, self.moves
            layer.recompute = ("mlp" if experts is None else "moe") in chosen
            layer.self_attention.recompute, layer.self_attention.moves = "core_attn" in chosen, self.moves
            layer.self_attention.discards = "mla_up_proj" in chosen
            if experts is not None:
                experts.discards, experts.moves = "moe_act" in chosen, self.moves


def words(flags, name):
    """The words behind a flag."""
    behind = flags[flags.index(name) + 1 :] if name in flags else []
    return list(itertools.takewhile(lambda w: not w.startswith("--"), behind))


def decoder(attention=Attention, mlps=(MLP,) * 4):
    """A model in training, its input and its labels."""
    torch.manual_seed(0)
    return Decoder(attention, mlps).train(), torch.randint(0, 100, (8, 48)), torch.randint(0, 100, (8, 48))


def latent():
    """The same with latent attention, a perceptron and three layers of experts."""
    return decoder(Latent, (MLP, MoE, MoE, MoE))


def loss(out, labels):
    return nn.functional.cross_entropy(out.flatten(0, 1), labels.flatten())

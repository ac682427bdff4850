"""Records steps of JAX with named values, and the memory that XLA gives each policy on the CPU.

    PYTHONPATH=python/src python bench/jaxnames/names.py OUT.zip [NET ...]

For each net OUT.zip has NET/names.json of memopt.jax.names, NET/K.json the step that JAX itself traces with policy K,
and figures.json: the names that each policy keeps, the bytes of `compiled.memory_analysis()` (arguments + results +
temporaries - aliased), and whether the gradients are those without checkpoints, bit for bit.
"""

import functools
import json
import sys
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name as name
from memopt.jax import _names

Policies = jax.checkpoint_policies
# XLA's compiler for the CPU drops the barriers of jax.checkpoint early, and then merges the equations that are made
# again with the first ones; other backends keep them.
OPTIONS = {"xla_disable_hlo_passes": "cse_barrier_expander"}


def shape(*dims, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(dims, dtype)


def chain(block, policy):
    f = jax.checkpoint(block, policy=policy)

    def loss(params, x, y):
        for p in params:
            x = f(x, p)
        return jnp.mean((x - y) ** 2)

    return loss


def perceptron(x, p):
    for i, (w, b) in enumerate(p):
        x = name(jnp.tanh(name(x @ w + b, f"pre{i}")), f"act{i}")
    return x


def gelu(x, p):
    h = name(x @ p[0] + p[1], "pre")
    return name(jax.nn.gelu(h), "act")


def scanned(policy):
    f = jax.checkpoint(lambda x, p: (gelu(x, p), None), policy=policy, prevent_cse=False)

    def loss(params, x, y):
        x, _ = lax.scan(f, x, params)
        return jnp.mean((x - y) ** 2)

    return loss


def convolutions(x, ws):
    for w in ws:
        x = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = name(jax.nn.relu(name(x, "conv")), "relu")
    return x


def attention(q, k, v, heads):
    batch, length, width = q.shape
    q, k, v = (t.reshape(batch, length, heads, width // heads) for t in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(width / heads)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    probs = name(jax.nn.softmax(scores), "probs")
    return name(jnp.einsum("bhqk,bkhd->bqhd", probs, v).reshape(batch, length, width), "context")


def norm(x, scale):
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale


def gpt(x, p, heads=4):
    qkv = name(name(norm(x, p["n1"]), "norm1") @ p["qkv"], "qkv_proj")
    x = x + name(attention(*jnp.split(qkv, 3, axis=-1), heads) @ p["out"], "out_proj")
    h = name(name(norm(x, p["n2"]), "norm2") @ p["up"], "mlpwi")
    return x + name(jax.nn.gelu(h) @ p["down"], "mlpwo")


def llama(x, p, heads=4):
    x = name(x, "decoder_layer_input")
    h = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * p["n1"]
    q, k, v = (name(h @ p[n], f"{m}_proj") for n, m in (("q", "query"), ("k", "key"), ("v", "value")))
    x = x + name(attention(q, k, v, heads) @ p["o"], "out_proj")
    h = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * p["n2"]
    g, u = name(h @ p["g"], "mlpwi_0"), name(h @ p["u"], "mlpwi_1")
    return x + name((jax.nn.silu(g) * u) @ p["d"], "mlpwo")


def decoder(block, stacked, policy):
    f = jax.checkpoint(block, policy=policy, prevent_cse=not stacked)

    def loss(params, tokens, targets):
        x = params["embed"][tokens]
        if stacked:
            x, _ = lax.scan(lambda x, p: (f(x, p), None), x, params["blocks"])
        else:
            for p in params["blocks"]:
                x = f(x, p)
        logits = jax.nn.log_softmax(x @ params["embed"].T)
        return -jnp.mean(jnp.take_along_axis(logits, targets[..., None], axis=-1))

    return loss


def blocks(one, layers, vocab, width, stacked):
    if stacked:
        return {"embed": shape(vocab, width), "blocks": jax.tree.map(lambda s: shape(layers, *s.shape), one)}
    return {"embed": shape(vocab, width), "blocks": [one] * layers}


def gpt_params(stacked, w=128):
    one = {"qkv": shape(w, 3 * w), "out": shape(w, w), "up": shape(w, 4 * w), "down": shape(4 * w, w)}
    return blocks(one | {"n1": shape(w), "n2": shape(w)}, 3, 512, w, stacked)


def llama_params(stacked, w=128, h=384):
    one = {k: shape(w, w) for k in "qkvo"} | {"g": shape(w, h), "u": shape(w, h), "d": shape(h, w)}
    return blocks(one | {"n1": shape(w), "n2": shape(w)}, 3, 512, w, stacked)


def dense(width, count):
    return [(shape(width, width), shape(width)) for _ in range(count)]


def words(batch, length):
    return shape(batch, length, dtype=jnp.int32)


GPT = [[], ["mlpwi"], ["context", "mlpwo"], ["qkv_proj", "context"], ["probs", "qkv_proj", "mlpwi"]]
QKV = ["query_proj", "key_proj", "value_proj"]
LLAMA = [[], ["context"], ["mlpwi_0", "mlpwi_1"], QKV, [*QKV, "context", "mlpwi_0", "mlpwi_1", "mlpwo"]]
WORDS = words(4, 128), words(4, 128)

# By name: the loss for a policy, its arguments, and the names that policies keep.
NETS = {
    "mlp": (functools.partial(chain, gelu), (dense(256, 6), shape(1024, 256), shape(1024, 256)),
            [[], ["pre"], ["act"], ["pre", "act"]]),
    "mlp_blocks": (functools.partial(chain, perceptron),
                   ([dense(128, 3) for _ in range(4)], shape(2048, 128), shape(2048, 128)),
                   [[], ["pre0"], ["act0"], ["act0", "act1"], ["pre0", "act1"], ["act0", "act1", "act2"]]),
    "mlp_scan": (scanned, ((shape(6, 256, 256), shape(6, 256)), shape(1024, 256), shape(1024, 256)),
                 [[], ["pre"], ["act"]]),
    "cnn": (functools.partial(chain, convolutions),
            ([[shape(3, 3, 16, 16)] * 2] * 3, shape(16, 32, 32, 16), shape(16, 32, 32, 16)),
            [[], ["conv"], ["relu"], ["conv", "relu"]]),
    "gpt": (functools.partial(decoder, gpt, False), (gpt_params(False), *WORDS), GPT),
    "gpt_scan": (functools.partial(decoder, gpt, True), (gpt_params(True), *WORDS), GPT),
    "llama": (functools.partial(decoder, llama, False), (llama_params(False), *WORDS), LLAMA),
    "llama_scan": (functools.partial(decoder, llama, True), (llama_params(True), *WORDS), LLAMA),
}  # fmt: skip


def arrays(args):
    rng = np.random.default_rng(1)

    def one(s):
        if s.dtype == jnp.int32:
            return jnp.asarray(rng.integers(0, 10, s.shape), s.dtype)
        return jnp.asarray(rng.standard_normal(s.shape) * 0.1, s.dtype)

    return jax.tree.map(one, args)


def compiled(loss, args):
    return jax.jit(jax.value_and_grad(loss)).lower(*args).compile(compiler_options=OPTIONS)


def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def nearest(a, b):
    """The largest difference, as a share of the largest element of its array."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(jnp.max(jnp.abs(x - y)) / jnp.maximum(jnp.max(jnp.abs(y)), 1e-30)) for x, y in pairs)


def main(path, *only):
    figures = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for net, (make, args, sets) in NETS.items():
            if only and net not in only:
                continue
            out.writestr(f"{net}/names.json", _names.names(make(None), *args))
            values = arrays(args)
            plain = compiled(make(Policies.everything_saveable), args)(*values)
            for k, kept in enumerate([*sets, None]):
                policy = Policies.everything_saveable if kept is None else Policies.save_only_these_names(*kept)
                program = compiled(make(policy), args)
                m = program.memory_analysis()
                got = program(*values)
                peak = m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes
                figures.append({"net": net, "step": k, "keeps": kept, "peak_bytes": peak - m.alias_size_in_bytes,
                                "equal": equal(got, plain), "nearest": nearest(got, plain)})  # fmt: skip
                print(figures[-1], flush=True)
                out.writestr(f"{net}/{k}.json", json.dumps(_names.traced(make(None), *args, policy=policy)))
        out.writestr("figures.json", json.dumps(figures))


main(*sys.argv[1:])

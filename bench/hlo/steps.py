"""Compiles training steps with JAX for the CPU, and writes each as HLO with the memory that XLA says it takes.

    python bench/hlo/steps.py OUT [NAME ...]

OUT/NAME.hlo is the text of the compiled module, OUT/NAME.hlo.pb the same as a HloModuleProto, and OUT/steps.json has
by name the bytes of `compiled.memory_analysis()`: arguments, outputs, temporaries, aliased bytes. Without a NAME it
also lowers a step with host offload for a TPU, small_offload, which is not in steps.json. NAME_early.hlo and .hlo.pb
are steps for several devices before XLA's passes.
"""

import functools
import json
import os
import pathlib
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Policies = jax.checkpoint_policies
# Keeps the barriers of jax.checkpoint in the compiled module, as other backends than the CPU do.
BARRIERS = {"xla_disable_hlo_passes": "cse_barrier_expander"}


def normal(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def sgd(params, grads):
    return jax.tree.map(lambda p, g: (p - 0.01 * g).astype(p.dtype), params, grads)


def adam(params, grads, state):
    m, v, t = state
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)
    scale = jnp.sqrt(1 - 0.99**t) / (1 - 0.9**t)
    params = jax.tree.map(lambda p, m, v: p - 1e-3 * scale * m / (jnp.sqrt(v) + 1e-8), params, m, v)
    return params, (m, v, t)


def sgd_step(loss):
    def step(params, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        return value, sgd(params, grads)

    return step


def adam_step(loss):
    def step(params, state, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        params, state = adam(params, grads, state)
        return value, params, state

    return step


def moments(params):
    return params, params, normal()


# A perceptron.


def mlp_params(width, layers, dtype=jnp.float32):
    return [(normal(width, width, dtype=dtype), normal(width, dtype=dtype)) for _ in range(layers)]


def mlp_loss(params, x, y, act=jax.nn.relu):
    for w, b in params:
        x = act(x @ w + b)
    return jnp.mean((x - y).astype(jnp.float32) ** 2)


def mlp_remat_loss(policy):
    def loss(params, x, y):
        @functools.partial(jax.checkpoint, policy=policy)
        def layer(x, wb):
            return jax.nn.gelu(jnp.tanh(x @ wb[0] + wb[1]))

        for wb in params:
            x = layer(x, wb)
        return jnp.mean((x - y) ** 2)

    return loss


def scan_loss(policy=None, remat=False):
    def loss(params, x, y):
        def layer(x, wb):
            return jax.nn.gelu(x @ wb[0] + wb[1]), None

        body = jax.checkpoint(layer, policy=policy) if remat else layer
        x, _ = lax.scan(body, x, params)
        return jnp.mean((x - y) ** 2)

    return loss


def scan_params(width, layers):
    return normal(layers, width, width), normal(layers, width)


# A convolutional net.


def cnn_params(width=16):
    return [normal(3, 3, 3, width), normal(3, 3, width, 2 * width), normal(3, 3, 2 * width, 2 * width),
            normal(2 * width, 10)]  # fmt: skip


def cnn_loss(params, x, y, pool=True):
    for w in params[:-1]:
        x = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x)
        if pool:
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    logits = jnp.mean(x, axis=(1, 2)) @ params[-1]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(y, 10), axis=-1))


# A transformer.


def block_params(width):
    return {
        "qkv": normal(width, 3 * width),
        "out": normal(width, width),
        "up": normal(width, 4 * width),
        "down": normal(4 * width, width),
        "n1": normal(width),
        "n2": normal(width),
    }


def norm(x, scale):
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale


def block(p, x, heads=4):
    batch, length, width = x.shape
    q, k, v = jnp.split(norm(x, p["n1"]) @ p["qkv"], 3, axis=-1)
    q, k, v = (t.reshape(batch, length, heads, width // heads) for t in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(width / heads)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(batch, length, width)
    x = x + mixed @ p["out"]
    return x + jax.nn.gelu(norm(x, p["n2"]) @ p["up"]) @ p["down"]


def lm_params(width, layers, vocab, stacked=False):
    p = block_params(width)
    blocks = jax.tree.map(lambda s: normal(layers, *s.shape), p) if stacked else [p] * layers
    return {"embed": normal(vocab, width), "blocks": blocks}


def lm_loss(policy=None, remat=False, stacked=False):
    def loss(params, tokens, targets):
        x = params["embed"][tokens]
        f = jax.checkpoint(block, policy=policy) if remat else block
        if stacked:
            x, _ = lax.scan(lambda x, p: (f(p, x), None), x, params["blocks"])
        else:
            for p in params["blocks"]:
                x = f(p, x)
        logits = jax.nn.log_softmax(x @ params["embed"].T)
        return -jnp.mean(jnp.take_along_axis(logits, targets[..., None], axis=-1))

    return loss


def tokens(batch, length):
    return normal(batch, length, dtype=jnp.int32)


def rnn_loss(params, xs, y):
    w, u = params

    def cell(h, x):
        h = jnp.tanh(h @ w + x @ u)
        return h, h

    _, hs = lax.scan(cell, jnp.zeros((xs.shape[1], w.shape[0])), xs)
    return jnp.mean((hs - y) ** 2)


def per_example(params, x, y):
    grads = jax.vmap(jax.grad(lambda p, x, y: mlp_loss(p, x[None], y[None])), in_axes=(None, 0, 0))(params, x, y)
    grads = jax.tree.map(lambda g: jnp.mean(jnp.clip(g, -1, 1), axis=0), grads)
    return sgd(params, grads)


def accumulating(params, xs, ys):
    def one(sums, batch):
        return jax.tree.map(jnp.add, sums, jax.grad(mlp_loss)(params, *batch)), None

    sums, _ = lax.scan(one, jax.tree.map(jnp.zeros_like, params), (xs, ys))
    return sgd(params, sums)


def until(params, x, y):
    def more(carry):
        return jnp.logical_and(carry[1] > 1e-3, carry[2] < 10)

    def once(carry):
        p, _, i = carry
        value, grads = jax.value_and_grad(mlp_loss)(p, x, y)
        return sgd(p, grads), value, i + 1

    return lax.while_loop(more, once, (params, jnp.float32(1), 0))


def guarded(params, x, y):
    value, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return value, lax.cond(jnp.isfinite(value), lambda: sgd(params, grads), lambda: params)


def dropout_loss(params, key, x, y):
    for i, (w, b) in enumerate(params):
        x = jax.nn.relu(x @ w + b)
        x = jnp.where(jax.random.bernoulli(jax.random.fold_in(key, i), 0.9, x.shape), x / 0.9, 0)
    return jnp.mean((x - y) ** 2)


def moe_loss(params, x, y):
    gate, experts = params
    weights = jax.nn.softmax(x @ gate)
    top, which = lax.top_k(weights, 2)
    mask = jnp.sum(jax.nn.one_hot(which, gate.shape[1]) * top[..., None], axis=1)
    out = jnp.einsum("bi,eio->beo", x, experts)
    return jnp.mean((jnp.einsum("beo,be->bo", jax.nn.silu(out), mask) - y) ** 2)


def offloading(params, x, y):
    """A step whose residuals of the scan move to the memory of the host, lowered for a TPU and not compiled."""
    policy = Policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["hidden", "active"],
        offload_src="device", offload_dst="pinned_host",
    )  # fmt: skip

    def loss(params):
        def layer(x, wb):
            hidden = checkpoint_name(x @ wb[0] + wb[1], "hidden")
            return checkpoint_name(jnp.sin(hidden), "active") * hidden, None

        return jnp.mean((lax.scan(jax.checkpoint(layer, policy=policy), x, params)[0] - y) ** 2)

    return sgd(params, jax.grad(loss)(params))


def xy(batch, width, dtype=jnp.float32):
    return normal(batch, width, dtype=dtype), normal(batch, width, dtype=dtype)


def sharded(tree, spec):
    sharding = NamedSharding(Mesh(jax.devices(), ("x",)), PartitionSpec(*spec))
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=sharding), tree)


def steps():
    """Yields the name, the function, its arguments and the donated ones of each step."""
    mlp = mlp_params(256, 6)
    lm = lm_params(128, 4, 512)
    stacked = lm_params(128, 6, 512, stacked=True)
    cnn = cnn_params()
    images = normal(32, 32, 32, 3), normal(32, dtype=jnp.int32)
    dots = Policies.dots_saveable
    yield "mlp_sgd", sgd_step(mlp_loss), (mlp, *xy(512, 256)), ()
    yield "mlp_sgd_donated", sgd_step(mlp_loss), (mlp, *xy(512, 256)), (0,)
    yield "mlp_adam", adam_step(mlp_loss), (mlp, moments(mlp), *xy(512, 256)), ()
    yield "mlp_adam_donated", adam_step(mlp_loss), (mlp, moments(mlp), *xy(512, 256)), (0, 1)
    yield "mlp_bf16", sgd_step(mlp_loss), (mlp_params(256, 6, jnp.bfloat16), *xy(512, 256, jnp.bfloat16)), (0,)
    yield "mlp_wide", sgd_step(functools.partial(mlp_loss, act=jax.nn.gelu)), (mlp, *xy(4096, 256)), (0,)
    yield "mlp_remat_all", sgd_step(mlp_remat_loss(None)), (mlp, *xy(4096, 256)), (0,)
    yield "mlp_remat_dots", sgd_step(mlp_remat_loss(dots)), (mlp, *xy(4096, 256)), (0,)
    yield "mlp_remat_save", sgd_step(mlp_remat_loss(Policies.everything_saveable)), (mlp, *xy(4096, 256)), (0,)
    yield "mlp_dropout", sgd_step(dropout_loss), (mlp, normal(2, dtype=jnp.uint32), *xy(1024, 256)), (0,)
    yield "scan_mlp", sgd_step(scan_loss()), (scan_params(256, 8), *xy(1024, 256)), ()
    yield "scan_mlp_remat", sgd_step(scan_loss(remat=True)), (scan_params(256, 8), *xy(1024, 256)), (0,)
    yield "scan_mlp_dots", sgd_step(scan_loss(dots, True)), (scan_params(256, 8), *xy(1024, 256)), (0,)
    yield "cnn_sgd", sgd_step(cnn_loss), (cnn, *images), ()
    yield "cnn_adam_donated", adam_step(cnn_loss), (cnn, moments(cnn), *images), (0, 1)
    yield "cnn_flat", sgd_step(functools.partial(cnn_loss, pool=False)), (cnn, *images), (0,)
    yield "lm_sgd", sgd_step(lm_loss()), (lm, tokens(8, 128), tokens(8, 128)), ()
    yield "lm_adam_donated", adam_step(lm_loss()), (lm, moments(lm), tokens(8, 128), tokens(8, 128)), (0, 1)
    yield "lm_remat", sgd_step(lm_loss(remat=True)), (lm, tokens(8, 128), tokens(8, 128)), (0,)
    yield "lm_remat_dots", sgd_step(lm_loss(dots, True)), (lm, tokens(8, 128), tokens(8, 128)), (0,)
    yield "lm_scan", sgd_step(lm_loss(stacked=True)), (stacked, tokens(8, 128), tokens(8, 128)), ()
    yield "lm_scan_remat", sgd_step(lm_loss(None, True, True)), (stacked, tokens(8, 128), tokens(8, 128)), (0,)
    yield (
        "lm_scan_adam", adam_step(lm_loss(None, True, True)),
        (stacked, moments(stacked), tokens(8, 128), tokens(8, 128)), (0, 1),
    )  # fmt: skip
    yield "rnn", sgd_step(rnn_loss), ((normal(128, 128), normal(64, 128)), normal(50, 32, 64), normal(50, 32, 128)), ()
    yield "vmap_clipped", per_example, (mlp_params(64, 3), *xy(64, 64)), ()
    yield "accumulating", accumulating, (mlp, normal(4, 256, 256), normal(4, 256, 256)), (0,)
    yield "until", until, (mlp, *xy(512, 256)), (0,)
    yield "guarded", guarded, (mlp, *xy(512, 256)), ()
    yield "moe", sgd_step(moe_loss), ((normal(128, 8), normal(8, 128, 128)), *xy(512, 128)), (0,)
    # Among four devices.
    yield "sharded_batch", sgd_step(mlp_loss), (sharded(mlp, ()), *sharded(xy(512, 256), ("x", None))), (0,)
    weights, biases = zip(*mlp, strict=False)
    tensors = list(zip(sharded(weights, (None, "x")), sharded(biases, ("x",)), strict=False))
    yield "sharded_weights", sgd_step(mlp_loss), (tensors, *sharded(xy(512, 256), ())), (0,)
    # Small ones: the test data of the readers.
    yield "small_mlp", sgd_step(mlp_loss), (mlp_params(32, 2), *xy(64, 32)), (0,)
    yield "small_scan", sgd_step(scan_loss(remat=True)), (scan_params(32, 4), *xy(64, 32)), (0,)
    yield "small_cond", guarded, (mlp_params(16, 2), *xy(16, 16)), ()
    yield "small_barriers", sgd_step(mlp_remat_loss(None)), (mlp_params(32, 4), *xy(256, 32)), (0,)
    yield "small_scan_barriers", sgd_step(scan_loss(remat=True)), (scan_params(32, 4), *xy(64, 32)), (0,)


def early(path, lowered):
    """Writes a step as it enters XLA, in both forms."""
    path.with_suffix(".hlo").write_text(lowered.as_text("hlo", debug_info=True))
    path.with_suffix(".hlo.pb").write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    table = {"jax": jax.__version__, "steps": {}}
    for name, step, args, donated in steps():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        lowered = jax.jit(step, donate_argnums=donated).lower(*args)
        if name.startswith("sharded"):
            early(out / f"{name}_early", lowered)
        compiled = lowered.compile(compiler_options=BARRIERS if "barriers" in name else None)
        (out / f"{name}.hlo").write_text(compiled.as_text())
        module = compiled.runtime_executable().hlo_modules()[0]
        (out / f"{name}.hlo.pb").write_bytes(module.as_serialized_hlo_module_proto())
        m = compiled.memory_analysis()
        table["steps"][name] = {
            "argument_bytes": m.argument_size_in_bytes,
            "output_bytes": m.output_size_in_bytes,
            "temporary_bytes": m.temp_size_in_bytes,
            "aliased_bytes": m.alias_size_in_bytes,
        }
        print(name, table["steps"][name], flush=True)
    if len(sys.argv) < 3:
        traced = jax.jit(offloading, donate_argnums=0).trace(scan_params(32, 4), *xy(64, 32))
        early(out / "small_offload", traced.lower(lowering_platforms=("tpu",)))
    (out / "steps.json").write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()

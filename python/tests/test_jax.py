"""memopt.jax.names: the step that memopt plans for jax.checkpoint. Without JAX, sim/jax's tests read recorded steps."""

from __future__ import annotations

import json

import pytest

jax = pytest.importorskip("jax", reason="no JAX: pip install jax==0.10.2")

import jax.numpy as jnp  # noqa: E402
from jax.ad_checkpoint import checkpoint_name  # noqa: E402

import memopt  # noqa: E402
import memopt.jax  # noqa: E402

WIDTH, BATCH, LAYERS = 16, 64, 3


def loss(params, x, policy=None):
    def layer(x, w):
        return checkpoint_name(jnp.sin(checkpoint_name(x @ w, "product")), "sine")

    for w in params:
        x = jax.checkpoint(layer, policy=policy)(x, w)
    return jnp.sum(x)


ARGS = ([jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32)] * LAYERS, jax.ShapeDtypeStruct((BATCH, WIDTH), jnp.float32))


def places(body):
    for s in body["steps"]:
        yield s
        for inner in s.get("bodies", ()):
            yield from places(inner)


def test_each_value_is_named_once_forward_and_once_anew():
    f = json.loads(memopt.jax.names(loss, *ARGS, held=ARGS[0]))
    assert (f["format"], f["version"], f["names"]) == ("memopt-names", 1, ["product", "sine"])
    assert f["held_bytes"] == LAYERS * WIDTH * WIDTH * 4
    named = [s for s in places(f["nothing"]) if s["op"] == "name"]
    first = [s["of"] for s in named if "region" not in s]
    again = [s["of"] for s in named if "region" in s and s["name"] == "product"]
    assert sorted(first) == list(range(2 * LAYERS))
    assert len(again) == LAYERS and set(again) < set(first)
    assert sum(s.get("flops", 0) for s in places(f["nothing"]) if s["op"] == "dot_general") > sum(
        s.get("flops", 0) for s in places(f["everything"]) if s["op"] == "dot_general"
    )


def test_own_policies_do_not_matter():
    kept = jax.checkpoint_policies.save_only_these_names("product")
    assert memopt.jax.names(loss, *ARGS) == memopt.jax.names(lambda p, x: loss(p, x, kept), *ARGS)


def test_options_of_value_and_grad():
    f = json.loads(memopt.jax.names(lambda x, p: (loss(p, x), x), *ARGS[::-1], argnums=(0, 1), has_aux=True))
    body = f["nothing"]
    sizes = [body["bytes"][v] for v in body["outputs"]]
    assert sizes == [4, BATCH * WIDTH * 4, BATCH * WIDTH * 4, *[WIDTH * WIDTH * 4] * LAYERS]


def test_errors_say_what_is_missing():
    with pytest.raises(ValueError, match="no value of the loss has a name"):
        memopt.jax.names(lambda p, x: jnp.sum(x @ p[0]), *ARGS)
    with pytest.raises(ValueError, match="the loss has 2 results: wanted one, or has_aux=True"):
        memopt.jax.names(lambda p, x: (loss(p, x), x), *ARGS)


def test_the_policy_that_is_planned_runs(tmp_path):
    path = tmp_path / "names.json"
    path.write_text(memopt.jax.names(loss, *ARGS))
    space: dict = {}
    exec(memopt.run("plan", path, "--emit", "jax", "--budget", "85%"), space)
    params = [jnp.full((WIDTH, WIDTH), 0.1)] * LAYERS
    x = jnp.linspace(0, 1, BATCH * WIDTH).reshape(BATCH, WIDTH)
    want = jax.jit(jax.grad(loss))(params, x)
    got = jax.jit(jax.grad(lambda p, x: loss(p, x, space["policy"])))(params, x)
    for a, b in zip(got, want, strict=True):
        assert (a == b).all()

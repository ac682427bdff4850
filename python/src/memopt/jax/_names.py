"""Writes the step of a loss function, in abstract form, with the values that jax.checkpoint may keep by name."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

FORMAT, VERSION = "memopt-names", 1

_CALLS = ("jaxpr", "call_jaxpr")
_LOOPS = ("scan", "while", "cond")
_MARK = "\0"  # between a name and the number of its place in the loss


def names(
    loss: Callable[..., Any],
    *args: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    held: Any = None,
) -> str:
    """The step ``jax.value_and_grad(loss, argnums, has_aux)(*args)`` as JSON for ``memopt plan --emit jax``.

    The loss has its layers under ``jax.checkpoint``, with values named by ``jax.ad_checkpoint.checkpoint_name``. The
    policies that it has do not matter: the step is traced as if none of them kept a value.

    Args:
        loss: a function whose result is the loss, or with ``has_aux`` a pair of the loss and other results.
        args: its arguments, or ``jax.ShapeDtypeStruct`` in place of arrays.
        argnums: the arguments that gradients are taken of.
        has_aux: as of ``jax.value_and_grad``.
        held: arrays that are in memory beside the arguments throughout, for example the states of an optimizer.

    Raises:
        ValueError: no value has a name, or a name is in the forward function of a custom_vjp.
    """
    policies = jax.checkpoint_policies
    step = _Step(loss, args, argnums, has_aux)
    nothing, everything = (step.jaxpr(p) for p in (policies.nothing_saveable, policies.everything_saveable))
    return json.dumps(_file(nothing, everything, held))


def traced(loss: Callable[..., Any], *args: Any, policy: Callable[..., bool]) -> dict[str, Any]:
    """The step with a policy that keeps names, in abstract form, as JAX itself traces it."""

    def unmarked(prim: Any, *avals: Any, **params: Any) -> bool:
        if prim.name == "name":
            params["name"] = params["name"].partition(_MARK)[0]
        return policy(prim, *avals, **params)

    return _Writer().body(_Step(loss, args, 0, False).jaxpr(unmarked))


class _Step:
    """A loss, to be differentiated with different policies."""

    def __init__(self, loss: Callable[..., Any], args: Any, argnums: int | Sequence[int], has_aux: bool) -> None:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        self.closed = jax.make_jaxpr(loss)(*args)
        if not has_aux and len(self.closed.out_avals) != 1:
            raise ValueError(f"the loss has {len(self.closed.out_avals)} results: wanted one, or has_aux=True")
        sizes = [len(jax.tree.leaves(a)) for a in args]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.numbers = tuple(k for n in numbers for k in range(starts[n], starts[n] + sizes[n]))

    def jaxpr(self, policy: Callable[..., bool]) -> core.Jaxpr:
        run = core.jaxpr_as_fun(core.ClosedJaxpr(_Marker(policy).jaxpr(self.closed.jaxpr), self.closed.consts))

        def loss(*values: Any) -> Any:
            out = run(*values)
            return out[0], out[1:]

        flat = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in self.closed.in_avals]
        return jax.make_jaxpr(jax.value_and_grad(loss, self.numbers, has_aux=True))(*flat).jaxpr


def _file(nothing: core.Jaxpr, everything: core.Jaxpr, held: Any) -> dict[str, Any]:
    writer = _Writer()
    body = writer.body(nothing)
    if not writer.names:
        raise ValueError(
            "no value of the loss has a name: wanted jax.ad_checkpoint.checkpoint_name(x, name) in a function under "
            "jax.checkpoint"
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "jax": jax.__version__,
        "held_bytes": sum(_bytes(leaf) for leaf in jax.tree.leaves(held)),
        "names": sorted(writer.names),
        "free": writer.free,
        "nothing": body,
        "everything": _Writer().body(everything),
    }


def _bytes(x: Any) -> int:
    return int(math.prod(x.shape)) * _width(x.dtype)


def _width(dtype: Any) -> int:
    try:
        return int(np.dtype(dtype).itemsize)
    except TypeError:  # keys of random numbers
        return int(dtype.itemsize)


class _Marker:
    """Copies a jaxpr so that each named value has a name of its own, and all checkpoints have one policy."""

    def __init__(self, policy: Callable[..., bool]) -> None:
        self.policy, self.count = policy, 0

    def jaxpr(self, j: core.Jaxpr) -> core.Jaxpr:
        return j.replace(eqns=[self.eqn(e) for e in j.eqns])

    def eqn(self, e: core.JaxprEqn) -> core.JaxprEqn:
        params = dict(e.params)
        if e.primitive.name == "name":
            params["name"] = f"{params['name']}{_MARK}{self.count}"
            self.count += 1
            return e.replace(params=params)
        for key, value in params.items():
            params[key] = self.value(value)
        if e.primitive.name == "remat2":
            params["policy"] = self.policy
        return e.replace(params=params)

    def value(self, x: Any) -> Any:
        if isinstance(x, core.ClosedJaxpr):
            return core.ClosedJaxpr(self.jaxpr(x.jaxpr), x.consts)
        if isinstance(x, core.Jaxpr):
            return self.jaxpr(x)
        if isinstance(x, tuple) and x and isinstance(x[0], core.ClosedJaxpr):
            return tuple(self.value(v) for v in x)
        return x


@dataclasses.dataclass
class _Body:
    """A jaxpr in abstract form: values have numbers."""

    bytes: list[int] = dataclasses.field(default_factory=list)
    steps: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    numbers: dict[Any, int] = dataclasses.field(default_factory=dict)

    def new(self, var: Any) -> int:
        self.numbers[var] = len(self.bytes)
        self.bytes.append(_bytes(var.aval))
        return self.numbers[var]

    def of(self, atom: Any) -> int:
        """The number of a value; -1 of a constant."""
        return -1 if isinstance(atom, core.Literal) else self.numbers.get(atom, -1)


class _Writer:
    def __init__(self) -> None:
        self.names: set[str] = set()
        self.regions = 0
        self.free: list[int] = []  # regions without a barrier

    def body(self, j: core.Jaxpr) -> dict[str, Any]:
        b = _Body()
        inputs = [b.new(v) for v in j.invars]
        self.eqns(b, j, -1)
        return {
            "bytes": b.bytes,
            "inputs": inputs,
            "outputs": [b.of(v) for v in j.outvars],
            "steps": b.steps,
        }

    def eqns(self, b: _Body, j: core.Jaxpr, region: int) -> None:
        for e in j.eqns:
            inner = next((e.params[k] for k in _CALLS if k in e.params), None)
            if e.primitive.name not in _LOOPS and e.primitive.name != "pallas_call" and inner is not None:
                self.call(b, e, inner, region)
            else:
                self.step(b, e, region)

    def call(self, b: _Body, e: core.JaxprEqn, inner: Any, region: int) -> None:
        """Puts the equations of a call in its place."""
        j = inner.jaxpr if isinstance(inner, core.ClosedJaxpr) else inner
        if e.primitive.name == "remat2" and e.params["differentiated"]:
            region = self.regions
            self.regions += 1
            cse = e.params["prevent_cse"]
            if not (any(cse) if isinstance(cse, tuple) else cse):
                self.free.append(region)
        # A jaxpr that is called twice has the same variables both times.
        for v, x in [(v, b.of(x)) for v, x in zip(j.invars, e.invars, strict=True)]:
            b.numbers[v] = x
        self.eqns(b, j, region)
        for v, x in [(v, b.of(x)) for v, x in zip(e.outvars, j.outvars, strict=True)]:
            b.numbers[v] = x

    def step(self, b: _Body, e: core.JaxprEqn, region: int) -> None:
        s: dict[str, Any] = {"op": e.primitive.name}
        reads = [b.of(x) for x in e.invars]
        s["in"] = reads if s["op"] in _LOOPS else [r for r in reads if r >= 0]
        if s["op"] == "name":
            name, _, number = e.params["name"].partition(_MARK)
            if not number:
                raise ValueError(
                    f"the name {name!r} is given in the forward function of a custom_vjp: give it to the result instead"
                )
            self.names.add(name)
            s |= {"name": name, "of": int(number)}
        if s["op"] == "scan":
            s |= {
                "bodies": [self.body(e.params["jaxpr"].jaxpr)],
                "length": e.params["length"],
                "consts": e.params["num_consts"],
                "carry": e.params["num_carry"],
            }
        elif s["op"] == "while":
            s["bodies"] = [self.body(e.params[k].jaxpr) for k in ("cond_jaxpr", "body_jaxpr")]
        elif s["op"] == "cond":
            s["bodies"] = [self.body(x.jaxpr) for x in e.params["branches"]]
        else:
            s["flops"] = _flops(e)
            if s["op"] in ("dot_general", "conv_general_dilated"):
                s["type"] = str(e.outvars[0].aval.dtype)
        if region >= 0:
            s["region"] = region
        s["out"] = [b.new(v) for v in e.outvars]
        b.steps.append(s)


def _flops(e: core.JaxprEqn) -> int:
    """Operations of an equation: those of a product of matrices or a convolution, else one for each element."""
    size = max((int(math.prod(getattr(v.aval, "shape", ()))) for v in [*e.outvars, *e.invars]), default=0)
    if e.primitive.name == "dot_general":
        (contract, _), _ = e.params["dimension_numbers"]
        return 2 * int(math.prod(e.outvars[0].aval.shape) * math.prod(e.invars[0].aval.shape[d] for d in contract))
    if e.primitive.name == "conv_general_dilated":
        kernel, out = e.invars[1].aval.shape, e.params["dimension_numbers"].rhs_spec[0]
        return 2 * int(math.prod(e.outvars[0].aval.shape) * math.prod(kernel) // kernel[out])
    return size

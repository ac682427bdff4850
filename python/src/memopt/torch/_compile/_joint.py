"""The joint graph of a training step, forward and backward, as an instance of ``memopt solve``."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch._functorch.partitioners import _extract_fwd_bwd_outputs
from torch.fx.experimental.proxy_tensor import py_sym_types
from torch.utils._ordered_set import OrderedSet
from torch.utils.checkpoint import CheckpointPolicy

from .._allocator import BLOCK
from .._replay import HANDOVER
from ._cost import Machine, nbytes, value
from ._differences import HOLDS_TANGENTS, behind_tangents, without_twins
from ._fuse import loops, rejoins

_T = TypeVar("_T")

# It waits for its argument, and once more where that has arrived: no rank takes part in it.
WAIT = "_c10d_functional.wait_tensor.default"

# Operators whose result is another shape of their argument, although their schemas do not say so.
_VIEWS = frozenset(
    [
        "aten._unsafe_view.default",
        "aten.detach.default",
        "aten.alias.default",
        WAIT,
    ]
)

# Operators that make a view only where strides let them.
_MAY_COPY = frozenset(["aten.reshape.default", "aten.contiguous.default", "aten.flatten.using_ints"])

# Namespaces of operators that other ranks take part in.
_COLLECTIVE = frozenset(["_c10d_functional", "_c10d_functional_autograd", "c10d", "c10d_functional", "_dtensor"])

# Norms, with the place of their weights: the kernels of the CPU have statistics in the type of the weights, PyTorch's
# fake ones in that of the input.
_NORMS = {
    torch.ops.aten.native_layer_norm.default: 2,
    torch.ops.aten.native_group_norm.default: 1,
    torch.ops.aten.native_batch_norm.default: 1,
    torch.ops.aten._native_batch_norm_legit_functional.default: 1,
}

# A value may be computed in both halves of values that take so many times its memory, as of its rows' statistics, too.
_KEPT = 1.125

# The bytes that a block of a device's allocator is a multiple of; 1 for devices that are not here.
_BLOCK = {"cuda": BLOCK}


class Joint:
    """A joint graph whose nodes are told apart by the freedom that a schedule has with them.

    A view has no memory of its own: it is remade of its base wherever it is read. ``root`` leads from each node to
    the node whose memory it reads: one that computes, one element of its results, or an input of the graph.

    Attributes:
        root: by node, as above.
        parts: of a node with several results, the elements that are read.
        sizes: symbolic sizes that inputs alone decide; they are free.
        shapes: by view, the computed sizes that its shape has.
        mutations: writes into inputs at the end of the forward half, and of the backward half.
        handed: roots that are there at the handover: results of the forward half, values that it writes into inputs,
            and values for the backward half of inputs that are overwritten then.
        before: the nodes that these need.
        loops: by node that a schedule computes, the nodes that are computed in one loop with it, itself the last.
        computed: those nodes, in an order in which that is possible.
    """

    def __init__(
        self,
        gm: fx.GraphModule,
        num_fwd_outputs: int,
        static_inputs: list[int],
        workspaces: Callable[[fx.Graph], Callable[[fx.Node], int]],
        *,
        fuses: bool = False,
    ) -> None:
        self.gm, self.num_fwd_outputs = gm, num_fwd_outputs
        self._clean()
        self.workspace = workspaces(gm.graph)
        self.after = behind_tangents(gm, num_fwd_outputs)
        self.outputs: tuple[Any, ...] = gm.graph.find_nodes(op="output")[0].args[0]
        self.placeholders: list[fx.Node] = gm.graph.find_nodes(op="placeholder")
        self.tangents = [n for n in self.placeholders if "tangents" in str(n.target)]
        static, given = set(static_inputs), (p for p in self.placeholders if p not in self.tangents)
        self.static = OrderedSet(p for i, p in enumerate(given) if i in static)
        self.device = next((v.device.type for v in map(value, self.placeholders) if isinstance(v, torch.Tensor)), "cpu")
        self.root: dict[fx.Node, fx.Node] = {}
        self.parts: dict[fx.Node, list[fx.Node]] = {}
        self.sizes: set[fx.Node] = set()
        self.shapes: dict[fx.Node, list[fx.Node]] = {}
        self.mutations: tuple[list[fx.Node], list[fx.Node]] = ([], [])
        for n in gm.graph.nodes:
            self._place(n)
        self.position = {n: i for i, n in enumerate(gm.graph.nodes)}
        self.written = self._written_inputs()
        self.handed = self._handed()
        self.before = self._ancestors(map(self.maker, self.handed))
        order = self._order()
        self.loops = self._loops(order) if fuses else {n: [n] for n in order}
        self.computed = [n for n in order if n in self.loops]
        self.fuses = fuses

    def forward_outputs(self) -> list[fx.Node]:
        """The results of the forward half, None and numbers left out."""
        return [o for o in self.outputs[: self.num_fwd_outputs] if isinstance(o, fx.Node)]

    def _copied(self) -> set[fx.Node]:
        """Results of the forward half that PyTorch copies into inputs behind it, and that no one else gets."""
        descs = self.gm.graph.find_nodes(op="output")[0].meta.get("desc", [])
        copied: tuple[set[fx.Node], set[fx.Node]] = (set(), set())
        for o, desc in zip(self.outputs[: self.num_fwd_outputs], descs, strict=False):
            if isinstance(o, fx.Node):
                copied[isinstance(desc, InputMutationAOTOutput)].add(self.root[o])
        return copied[True] - copied[False]

    def backward_outputs(self) -> list[fx.Node]:
        """The results of the backward half, None left out."""
        return [o for o in self.outputs[self.num_fwd_outputs :] if isinstance(o, fx.Node)]

    def _clean(self) -> None:
        """Removes dead nodes, and computations that a half does twice, as PyTorch's own partitioner does."""
        self.gm.graph.eliminate_dead_code()
        if torch._functorch.config.cse:
            wanted = _extract_fwd_bwd_outputs(self.gm, num_fwd_outputs=self.num_fwd_outputs)[1]
            stack = [o for o in wanted if o is not None and o.op != "output"]
            needed: set[fx.Node] = set()
            while stack:
                n = stack.pop()
                if n not in needed:
                    needed.add(n)
                    stack.extend(n.all_input_nodes)
            self.gm.graph = without_twins(self.gm.graph, needed)
        else:
            self.gm.recompile()
        for n in self.gm.graph.nodes:
            if n.target in _NORMS:
                _correct_statistics(n)

    def _place(self, n: fx.Node) -> None:
        """Notes the root of a node, whose arguments come before it."""
        self.root[n] = n
        if n.op != "call_function":
            return
        if _is_mutation(n):
            backward = n in self.after or n.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")
            self.mutations[backward].append(n)
        elif _is_size(n) and all(i in self.sizes or self._is_input(i) for i in n.all_input_nodes):
            self.sizes.add(n)
        elif n.target is operator.getitem:
            self._place_part(n)
        else:
            base = _viewed(n)
            if base is not None:
                self.root[n] = self.root[base]
                shape = [self.root[i] for i in n.all_input_nodes if i is not base and self._is_computed(self.root[i])]
                self.shapes[n] = list(dict.fromkeys([*self.shapes.get(base, ()), *shape]))

    def _is_input(self, n: fx.Node) -> bool:
        """Whether a node is an input of the graph or a view of one, whose shape inputs alone decide."""
        return self.root[n].op == "placeholder" and not self.shapes.get(n)

    def _place_part(self, n: fx.Node) -> None:
        base = n.args[0]
        assert isinstance(base, fx.Node)
        if self.root[base] is not base:  # of several views of one base, as those of split
            self.root[n] = self.root[base]
            return
        known = self.parts.setdefault(base, [])
        first = next((p for p in known if p.args[1] == n.args[1] or _one_storage(p, n)), None)
        if first is not None:
            self.root[n] = first
        else:
            known.append(n)

    def maker(self, root: fx.Node) -> fx.Node:
        """The node that computes a root."""
        return root.args[0] if root.target is operator.getitem else root  # type: ignore[return-value]

    def roots(self, n: fx.Node) -> list[fx.Node]:
        """The roots that a node reads, each once."""
        return list(dict.fromkeys(r for i in n.all_input_nodes for r in (self.root[i], *self.shapes.get(i, ()))))

    def reads(self, n: fx.Node) -> list[fx.Node]:
        """The roots that a node reads and that are computed, each once."""
        return [r for r in self.roots(n) if self._is_computed(r)]

    def loads(self, n: fx.Node) -> list[fx.Node]:
        """The tensors among the roots that a node reads, arguments of the graph among them."""
        return [r for r in self.roots(n) if isinstance(value(r), torch.Tensor)]

    def _is_computed(self, root: fx.Node) -> bool:
        return root.op == "call_function" and root not in self.sizes

    def values(self, n: fx.Node) -> list[fx.Node]:
        """The roots that a node makes."""
        return self.parts.get(n, []) if _several(n) else [n]

    def _written_inputs(self) -> set[fx.Node]:
        """Inputs that the forward half writes into at its end, or PyTorch behind it."""
        written = {self.root[n.args[0]] for n in self.mutations[0] if n.args and isinstance(n.args[0], fx.Node)}
        return written | {p for p in self.placeholders if p.meta.get("aot_runtime_epilogue_input_mutation")}

    def _handed(self) -> list[fx.Node]:
        roots = [self.root[o] for o in self.forward_outputs()]
        roots += [r for n in self.mutations[0] for r in self.roots(n)]
        roots = [r for r in dict.fromkeys(roots) if self._is_computed(r)]
        before = self._ancestors(map(self.maker, roots))
        for n in self.position:
            if self._computes(n) and n not in self.after and n not in before and self._reads_written(n):
                roots += self.values(n)  # for the backward half alone, of inputs that are overwritten at the handover
        return list(dict.fromkeys(roots))

    def _reads_written(self, n: fx.Node) -> bool:
        return not self.written.isdisjoint(self.roots(n))

    def _computes(self, n: fx.Node) -> bool:
        """Whether a schedule computes a node: no view, no element of results, no size of inputs, no write."""
        if n.op != "call_function" or n.target is operator.getitem or self.root[n] is not n:
            return False
        return n not in self.sizes and not _is_mutation(n)

    def _ancestors(self, nodes: Iterable[fx.Node]) -> set[fx.Node]:
        found: set[fx.Node] = set()
        stack = list(nodes)
        while stack:
            n = stack.pop()
            if n not in found:
                found.add(n)
                stack.extend(self.maker(r) for r in self.reads(n))
        return found

    def _order(self) -> list[fx.Node]:
        """The nodes that the handover needs in the order of the graph, then others in that order, where those that no
        gradient reaches wait for their first readers."""
        nodes = [n for n in self.position if self._computes(n)]
        out = [n for n in nodes if n in self.before]
        done = set(self.before)

        def add(n: fx.Node) -> None:
            stack = [n]
            while stack:
                top = stack[-1]
                missing = [m for r in reversed(self.reads(top)) if (m := self.maker(r)) not in done]
                if missing:
                    stack.extend(missing)
                    continue
                stack.pop()
                if top not in done:
                    done.add(top)
                    out.append(top)

        for n in (*(n for n in nodes if n in self.after), *nodes):
            add(n)
        return out

    def _loops(self, order: list[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
        """The loops that a compiler makes of elementwise nodes. Results of the graph are stored, and no loop is in
        both halves. A node may be in loops of both, where it is read in both and is better computed twice."""
        stored = {self.root[o] for o in (*self.forward_outputs(), *self.backward_outputs())} | set(self.handed)
        stored.update(r for n in self.mutations[1] for r in self.roots(n))
        readers: dict[fx.Node, list[fx.Node]] = {}
        for n in order:
            for r in self.reads(n):
                if r not in stored and self.maker(r) is r:
                    readers.setdefault(r, []).append(n)

        behind = {r for n in order if n not in self.before for r in self.reads(n)}

        def twice(n: fx.Node, reads: frozenset[fx.Node], count: int) -> bool:
            size = nbytes(value(n))
            own = {r for r in reads if self._is_computed(r)}
            read, kept = (sum(nbytes(value(r)) for r in of) for of in (reads, own - behind))
            # Stored, it is written once and read by each loop; else each loop reads its operands, of which the
            # backward half needs some in any case.
            return (count - 1) * read <= (count + 1) * size and kept <= _KEPT * size and not self.once(n)

        def apart(a: fx.Node, b: fx.Node) -> bool:
            return (a in self.before) != (b in self.before)

        return loops(order, self.loads, readers, apart, twice, copies=True)

    def once(self, n: fx.Node) -> bool:
        """Whether a node may be computed only once."""
        target = n.target
        if not isinstance(target, torch._ops.OpOverload):
            return not _is_size(n)  # a higher-order operator runs whole, and its body is not looked into
        return (
            _is_random(n)
            or is_collective(n)
            or torch.Tag.data_dependent_output in target.tags
            or torch.Tag.dynamic_output_shape in target.tags
            or n.meta.get("recompute") == CheckpointPolicy.MUST_SAVE
            or self._reads_written(n)
        )

    def size(self, root: fx.Node) -> int:
        """The bytes of a root's memory, as the device's allocator takes them."""
        block = _BLOCK.get(self.device, 1)
        return -(-nbytes(value(root)) // block) * block

    def instance(
        self, budget: int, machine: Machine, beside: int = 0, *, drops: bool = False, rejoins: bool = False
    ) -> dict[str, Any]:
        """The instance; beside is the bytes that other graphs of the step take between the halves. If the caller drops
        results, of a step with a loss the loss alone is kept.

        If loops rejoin, a node whose second computation becomes a part of the loops that read it has the cost of that
        beside its own, as ``again`` (``_solve.cost``)."""
        results = kept_results(self.forward_outputs(), drops, value)
        kept = {self.root[o] for o in (*results, *self.backward_outputs())} - self._copied()
        kept.update(r for n in self.mutations[1] for r in self.roots(n))
        at = sum(n in self.before for n in self.computed)
        nodes = [self._node(n, kept, machine) for n in self.computed]
        if rejoins and self.fuses:
            self._rejoin(dict(zip(self.computed, nodes, strict=True)), machine)
        _chain([out for n, out in zip(self.computed, nodes, strict=True) if any(map(is_collective, self.loops[n]))])
        return {
            "format": "memopt-instance",
            "version": 2,
            "budget": max(budget, 1),
            "cost_unit": "us",
            "nodes": [*nodes[:at], self._handover(beside), *nodes[at:]],
        }

    def _outside(self, n: fx.Node) -> list[fx.Node]:
        """The roots that a node's loop reads, each once."""
        loop = self.loops[n]
        return [r for r in dict.fromkeys(r for m in loop for r in self.roots(m)) if r not in loop]

    def _read(self, n: fx.Node) -> int:
        """The bytes that a node's loop reads: of a root those of the views that are read, at most its own."""
        loop = self.loops[n]
        seen: dict[fx.Node, int] = {}
        for i in dict.fromkeys(i for m in loop for i in m.all_input_nodes):
            root = self.root[i]
            if root not in loop:
                seen[root] = seen.get(root, 0) + nbytes(value(i))
        return sum(min(size, nbytes(value(r))) for r, size in seen.items())

    def _rejoin(self, nodes: dict[fx.Node, dict[str, Any]], machine: Machine) -> None:
        """Notes the cost of nodes that are computed a second time in the loops that read them."""
        readers: dict[fx.Node, list[fx.Node]] = {}
        for n in self.computed:
            for r in self._outside(n):
                readers.setdefault(r, []).append(n)
        for n, out in nodes.items():
            reads, of = self._outside(n), readers.get(n, [])
            times = rejoins(self.loops[n], reads, of, sum(r not in self.before for r in of))
            if times and "recompute" not in out and not _several(n):
                out["again"] = min(out["cost"], machine.again(self.loops[n], self._read(n), times))

    def _handover(self, beside: int) -> dict[str, Any]:
        """The node between the halves, whose results are the gradients of the forward half's results. Other graphs
        make those, so that they are among their bytes. ``Tensor.backward`` holds that of a loss until it ends."""
        made = sum(map(self.size, self.tangents))
        return {
            "id": HANDOVER,
            "cost": 0,
            "inputs": [r.name for r in self.handed],
            "outputs": [
                _sparse(id=t.name, size=self.size(t), keep=HOLDS_TANGENTS or is_scalar(t)) for t in self.tangents
            ],
            "workspace": max(0, beside - made),
            "recompute": False,
        }

    def _node(self, n: fx.Node, kept: set[fx.Node], machine: Machine) -> dict[str, Any]:
        loop, roots = self.loops[n], self._outside(n)
        inputs = [r.name for r in roots if self._is_computed(r) or r in self.tangents]
        out: dict[str, Any] = {"id": n.name, "cost": machine.microseconds(loop, self._read(n)), "inputs": inputs}
        made, work = self.values(n), self.workspace(n)
        if _several(n):
            out["outputs"] = [_sparse(id=v.name, size=self.size(v), keep=v in kept) for v in made]
            work += nbytes(value(n)) - sum(nbytes(value(v)) for v in made)  # results that are not read
        else:
            out.update(_sparse(size=self.size(n), keep=n in kept))
        out.update(_sparse(workspace=work))
        if any(map(self.once, loop)):
            out["recompute"] = False
        return out


def _correct_statistics(n: fx.Node) -> None:
    """Gives the fake statistics of a norm the type that they have."""
    weight = n.args[_NORMS[n.target]]  # type: ignore[index]
    if not isinstance(weight, fx.Node) or value(n)[0].device.type != "cpu":
        return
    first, mean, deviation, *others = value(n)
    n.meta["val"] = (first, *(t.to(value(weight).dtype) for t in (mean, deviation)), *others)
    for part in n.users:
        part.meta["val"] = value(n)[part.args[1]]


def _sparse(**fields: Any) -> dict[str, Any]:
    """Fields without those that are False, and a workspace of 0."""
    return {k: v for k, v in fields.items() if v is not False and (k != "workspace" or v > 0)}


def kept_results(results: list[_T], drops: bool, of: Callable[[_T], Any] = lambda t: t) -> list[_T]:
    """The results of a forward half that its caller keeps: all, or the losses alone, where it has any."""
    losses = [r for r in results if _is_loss(of(r))] if drops else []
    return losses or results


def _is_loss(v: Any) -> bool:
    return isinstance(v, torch.Tensor) and v.dim() == 0 and v.is_floating_point()


def is_scalar(n: fx.Node) -> bool:
    """Whether a value is a tensor without dimensions, as a loss."""
    return isinstance(value(n), torch.Tensor) and value(n).dim() == 0


def _is_random(n: fx.Node) -> bool:
    """Whether a node draws random numbers, as attention does where its dropout is not 0."""
    assert isinstance(n.target, torch._ops.OpOverload)
    if torch.Tag.nondeterministic_seeded not in n.target.tags:
        return False
    for i, a in enumerate(n.target._schema.arguments):
        if a.name == "dropout_p":
            p = n.args[i] if i < len(n.args) else n.kwargs.get(a.name, a.default_value)
            return not isinstance(p, (int, float)) or p != 0
    return True


def is_collective(n: fx.Node) -> bool:
    """Whether other ranks take part in a node, or it waits for them."""
    return isinstance(n.target, torch._ops.OpOverload) and n.target.namespace in _COLLECTIVE


def _chain(collectives: list[dict[str, Any]]) -> None:
    """Makes each collective wait for a value of no bytes of the one before it: all ranks take part in them in one
    order, that of the graph, whatever their plans are."""
    for before, after in itertools.pairwise(collectives):
        if "outputs" not in before:
            own = {k: before.pop(k) for k in ("size", "keep") if k in before}
            before["outputs"] = [{"id": before["id"], **own}]
        name = f"{before['id']} begun"
        before["outputs"].append({"id": name, "size": 0})
        after["inputs"] = [*after["inputs"], name]


def _several(n: fx.Node) -> bool:
    return isinstance(value(n), (tuple, list))


def _is_size(n: fx.Node) -> bool:
    return isinstance(value(n), (*py_sym_types, int, float, bool))


def _is_mutation(n: fx.Node) -> bool:
    """Whether a node writes into its argument, or has an effect and no result."""
    if not isinstance(n.target, torch._ops.OpOverload):
        return False
    return n.target._schema.is_mutable or (not n.users and not isinstance(value(n), torch.Tensor) and n.is_impure())


def _viewed(n: fx.Node) -> fx.Node | None:
    """The node whose memory the result of an operator shares; None where it has memory of its own."""
    target = n.target
    if not isinstance(target, torch._ops.OpOverload):
        return None
    if str(target) in _VIEWS:
        return n.args[0] if isinstance(n.args[0], fx.Node) else None
    if all(r.alias_info is None for r in target._schema.returns):
        return None
    for i, a in enumerate(target._schema.arguments):
        if a.alias_info is not None:
            base = n.args[i] if i < len(n.args) else n.kwargs.get(a.name)
            # A fake view may be of a twin of its base, which was removed as a common subexpression.
            copies = str(target) in _MAY_COPY and not _several(n) and not _one_storage(base, n)  # type: ignore[arg-type]
            if not isinstance(base, fx.Node) or copies:
                return None
            return base
    return None


def _one_storage(a: fx.Node, b: fx.Node) -> bool:
    """Whether two values were traced in one piece of memory."""
    x, y = value(a), value(b)
    if not (isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)):
        return False
    if x.layout != torch.strided or y.layout != torch.strided:
        return False
    return bool(x.untyped_storage()._cdata == y.untyped_storage()._cdata)

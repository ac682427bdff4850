"""From a schedule to the two graphs that PyTorch compiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import fx
from torch._functorch.partitioners import thread_graphsafe_rng_from_hops
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.proxy_tensor import is_sym_node
from torch.utils._ordered_set import OrderedSet

from .._replay import HANDOVER
from ._cost import value
from ._differences import extract_halves
from ._joint import WAIT, Joint, is_collective

Halves = tuple[fx.GraphModule, fx.GraphModule]


def emit(joint: Joint, steps: Iterable[Mapping[str, str]]) -> Halves:
    """The forward and the backward graph, in the order of a schedule, with a node as often as it is computed.

    The joint graph is written anew in that order, and PyTorch's own extraction cuts it at the handover: the values from
    before it that nodes behind it read are saved.
    """
    scheduled = _Scheduled(joint)
    for step in steps:
        scheduled.take(step)
    return scheduled.halves()


class _Scheduled:
    """The joint graph in the order of a schedule."""

    def __init__(self, joint: Joint) -> None:
        self.joint, self.graph = joint, fx.Graph()
        self.by_name = {n.name: n for n in joint.computed}
        self.now: dict[fx.Node, fx.Node] = {}  # by root: the copy that is there
        self.views: dict[fx.Node, fx.Node] = {}  # by node that is no root: its copy
        self.made_of: dict[fx.Node, fx.Node] = {}  # by such a copy: the copy of the root
        self.forward: dict[fx.Node, fx.Node] = {}  # results of the forward half
        self.early: set[fx.Node] = set()  # copies before the handover
        self.freed: set[str] = set()  # values that were given up
        for n in joint.gm.graph.nodes:
            if n.op in ("placeholder", "get_attr"):
                self.now[n] = self.graph.node_copy(n)

    def take(self, step: Mapping[str, str]) -> None:
        """Takes a step: a node is computed, or a value is given up."""
        if "free" in step:
            self.freed.add(step["free"])
        elif step["compute"] == HANDOVER:
            self._hand_over()
        else:
            self._compute(self.by_name[step["compute"]])

    def _compute(self, n: fx.Node) -> None:
        for m in self.joint.loops[n]:
            self.now[m] = self.graph.node_copy(m, self.get)
            self._wait(m)
        for part in self.joint.parts.get(n, ()):
            copy = self.graph.node_copy(part, self.get)
            if part not in self.now or part.name in self.freed:  # one that is still there is read on
                self.now[part] = copy
        self.freed.difference_update(v.name for v in self.joint.values(n))

    def _wait(self, n: fx.Node) -> None:
        """Waits for a collective of the CPU right behind it: gloo holds its argument until then, and a copy."""
        for m in n.users:
            if str(m.target) == WAIT and value(m).device.type == "cpu":
                self.get(m)

    def get(self, n: fx.Node) -> fx.Node:
        """The copy of a node that is there; a view is made of its base where it is read."""
        root = self.joint.root[n]
        if root is n and n not in self.joint.sizes:
            return self.now[n]
        base = self.now.get(root)
        copy = self.views.get(n)
        if copy is None or (base is not None and self.made_of[copy] is not base):
            copy = self.graph.node_copy(n, self.get)
            self.views[n] = copy
            self.made_of[copy] = base if base is not None else copy
        return copy

    def _hand_over(self) -> None:
        self._write(0)
        self.forward = {o: self.get(o) for o in self.joint.forward_outputs()}
        # The backward half makes its own views, so that their bases are saved.
        self.views = {n: copy for n, copy in self.views.items() if n in self.joint.sizes}
        self.early = set(self.graph.nodes)

    def _write(self, half: int) -> None:
        for n in self.joint.mutations[half]:
            self.forward[n] = self.now[n] = self.graph.node_copy(n, self.get)

    def halves(self) -> Halves:
        """The graphs of both halves."""
        joint = self.joint
        self._write(1)
        count = joint.num_fwd_outputs
        outputs = [self.forward[o] if isinstance(o, fx.Node) else o for o in joint.outputs[:count]]
        outputs += [self.get(o) if isinstance(o, fx.Node) else o for o in joint.outputs[count:]]
        end = self.graph.output(tuple(outputs))
        end.meta = dict(joint.gm.graph.find_nodes(op="output")[0].meta)
        saved = self._saved(outputs[count:])
        self._run_once(saved)
        sizes = [n for n in saved if is_sym_node(n)]
        self.graph.lint()
        forward, backward = extract_halves(
            _LazyGraphModule(joint.gm, self.graph),  # no code is made of it
            [n for n in saved if not is_sym_node(n)],
            sizes,
            num_fwd_outputs=count,
            static_lifetime_input_nodes=OrderedSet(self.now[p] for p in joint.static),
        )
        return (
            thread_graphsafe_rng_from_hops(forward, is_backward=False),
            thread_graphsafe_rng_from_hops(backward, is_backward=True),
        )

    def _run_once(self, saved: list[fx.Node]) -> None:
        """Keeps collectives of the forward half out of the backward half: PyTorch's extraction takes nodes for either
        half, and leaves collectives there that have no reader."""
        for n in self.early.difference(saved):
            if is_collective(n):
                n.meta["partitioner_tag"] = "must_be_in_forward"

    def _saved(self, backward_outputs: list[Any]) -> list[fx.Node]:
        """The values from before the handover that are read behind it, in the order in which they are made."""
        read = {o for o in backward_outputs if isinstance(o, fx.Node)}
        for n in self.graph.nodes:
            if n not in self.early and n.op != "output":
                read.update(n.all_input_nodes)
        read -= {self.now[t] for t in self.joint.tangents}
        return [n for n in self.graph.nodes if n in read and n in self.early and n.op != "get_attr"]

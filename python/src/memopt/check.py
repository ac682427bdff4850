#!/usr/bin/env python3
"""Checks a schedule of `memopt solve` against its instance, with the standard library alone.

    python3 check.py ANSWER INSTANCE

It prints the report of `memopt check -O json` and ends with 0, with 4 where a claim of the plan is false, and with 2
where a file cannot be read. docs/check.md has the rules and the kinds of faults. Copies to the host and back are
ordered by waits alone, never by how long they take: by vector clocks.
"""

from __future__ import annotations

import json
import math
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMPUTE, OUT, IN = range(3)  # the streams
UNITS = {"us": 1e6, "ms": 1e3}  # costs in a second
MOST_FAULTS = 100
NEAR = 1e-10  # how far costs and times may be off, as a share
ENDLESS = 1 << 60

MESSAGES = {
    "unknown": "is no node or value that the step can be about",
    "not-made": "is read by %s and was not computed before",
    "freed": "is read by %s and was freed before",
    "not-reloaded": "is read by %s and lies on the host alone",
    "computed-live": "is computed while %s is live",
    "computed-twice": "is computed again, and must not be",
    "other-seed": "is computed again with another seed: %s, and not %s",
    "freed-twice": "is freed while it is not live",
    "freed-kept": "is freed, and must be kept",
    "view-of-freed": "is freed while a view of it is live",
    "coming-in": "is used by %s while its reload may be under way: a wait is missing",
    "going-out": "is freed while its copy to the host may be under way: a wait is missing",
    "reload-live": "is reloaded while it is on the device",
    "no-host-copy": "is reloaded, and the host has no copy of it",
    "no-copy": "is waited for, and no copy of it was queued",
    "not-movable": "is moved, and is a view, or must not be, or the plan names no link",
    "never-computed": "is never computed",
    "wrong-order": "first computes leave the order of the instance",
    "wrong-peak": "the peak is %.15g bytes, and the plan says %.15g",
    "wrong-moved": "%.15g bytes are copied to the host, and the plan says %.15g",
    "wrong-host-peak": "the peak of the host is %.15g bytes, and the plan says %.15g",
    "wrong-cost": "the cost is %.15g, and the plan says %.15g",
    "wrong-base-cost": "the cost of every node once is %.15g, and the plan says %.15g",
    "wrong-makespan": "the makespan is %.15g, and the plan says %.15g",
    "wrong-overhead": "the overhead is %.15g, and the plan says %.15g",
    "wrong-bound": "the %s is %.15g, and the plan says %.15g",
    "wrong-link": "the link has %.15g bytes a second, a latency of %.15g us: wanted these, and a cost_unit",
    "over-budget": "the peak is %.15g bytes, and the budget of the plan %.15g",
}


def texts(f: dict[str, Any]) -> dict[str, Any]:
    """The instance with its ids as texts."""

    def named(x: dict[str, Any]) -> dict[str, Any]:
        y = dict(x)
        for key in ("id", "alias"):
            if y.get(key) is not None:
                y[key] = str(y[key])
        for key in ("inputs", "outputs"):
            if y.get(key):
                y[key] = [named(o) if isinstance(o, dict) else str(o) for o in y[key]]
        return y

    return {**f, "live": [named(x) for x in f.get("live") or []], "nodes": [named(n) for n in f["nodes"]]}


def quoted(name: Any) -> str:
    """An id as a message has it: texts in quotes."""
    return json.dumps(name, ensure_ascii=False)


@dataclass
class Value:
    id: Any
    size: float
    keep: bool  # it, or a view of it
    node: int
    base: int  # the value that it is a view of, or itself
    root: int  # the value with its memory
    still: bool  # it is never moved
    live: bool = False
    made: bool = False
    host: bool = False  # the host has a copy
    views: int = 0  # live views of it
    writer: int = COMPUTE  # the stream that wrote its memory, as its operation number `write`
    write: int = 0
    reads: list[int] = field(default_factory=lambda: [0, 0, 0])  # by stream: the last read since
    written: list[int] | None = None  # the moment of its newest copy out
    newest: list[int] | None = None  # of its newest copy either way
    out_end: float = 0.0
    end: float = 0.0
    reloaded: bool = False  # the newest copy is a reload
    since: int = 0  # the host copy's first step
    until: int = -1  # the step where it is given up


@dataclass
class Node:
    id: Any
    cost: float
    workspace: float
    once: bool
    view: bool
    inputs: list[int]
    outputs: list[int]
    runs: int = 0
    seed: str = ""


class Instance:
    """The nodes and values of an instance of version 1 or 2."""

    def __init__(self, f: dict[str, Any]) -> None:
        self.first = f.get("version") != 2
        if (f.get("format") and (f["format"] != "memopt-instance" or self.first)) or "nodes" not in f:
            raise ValueError("wanted nodes, and version 1 or 2")
        self.given = self.first or f.get("order") == "given"
        self.unit = UNITS.get(f.get("cost_unit", ""), 0.0)
        self.nodes: list[Node] = []
        self.values: list[Value] = []
        self.node_of: dict[str, int] = {}
        self.value_of: dict[str, int] = {}
        self.total = 0.0
        self.resident = 0.0
        if not self.first:  # 7 and "7" are one name
            f = texts(f)
        for x in f.get("live") or []:
            self.add(x["id"], x["size"], -1)
            self.resident += x["size"]
        for n in f["nodes"]:
            self.add_node(n)
        for v in reversed(self.values):
            base = self.values[v.base]
            base.keep = base.keep or v.keep

    def add(self, name: Any, size: float, number: int) -> None:
        self.total += size
        if quoted(name) in self.value_of or not size >= 0 or size != int(size) or self.total > 1 << 53:
            raise ValueError(f"value {quoted(name)}: wanted an id of its own, whole bytes, at most 2^53 in all")
        self.value_of[quoted(name)] = number

    def add_node(self, f: dict[str, Any]) -> None:
        number, alias = len(self.nodes), f.get("alias")
        n = Node(f["id"], f.get("cost") or 0, f.get("workspace") or 0, f.get("recompute") is False, False, [], [])
        self.total += n.workspace
        if quoted(n.id) in self.node_of or not 0 <= n.cost < math.inf or not n.workspace >= 0:
            raise ValueError(f"node {quoted(n.id)}: wanted an id of its own, a cost and a workspace from 0 on")
        self.node_of[quoted(n.id)] = number
        base = -1
        for name in f.get("inputs") or []:
            u = self.value_of.get(quoted(name))
            if u is None:
                raise ValueError(f"node {quoted(n.id)}: its input {quoted(name)} is no value before it")
            if u >= 0:
                n.inputs.append(u)
            if alias is not None and quoted(alias) == quoted(name):
                base = u
        if alias is not None and quoted(alias) not in map(quoted, f.get("inputs") or []):
            raise ValueError(f"node {quoted(n.id)}: its alias {quoted(alias)} is none of its inputs")
        n.view = base >= 0
        for x in f.get("outputs", [f]):
            at = len(self.values)
            size = 0 if alias is not None else x.get("size") or 0
            self.add(x["id"], size, at)
            root = self.values[base].root if n.view else at
            keep, still = x.get("keep") is True, f.get("offload") is False
            self.values.append(Value(x["id"], size, keep, number, base if n.view else at, root, still))
            n.outputs.append(at)
        self.nodes.append(n)


class Replay:
    """Follows the steps of a schedule."""

    def __init__(self, f: Instance, answer: dict[str, Any]) -> None:
        self.f, self.answer, self.steps = f, answer, answer["steps"]
        self.at: int | None = None
        self.bytes = self.peak = f.resident
        self.host_bytes = [0.0] * (len(self.steps) + 1)
        self.moved = 0.0  # bytes that were copied to the host
        self.host_peak = self.cost = self.makespan = self.overhead = 0.0
        self.bound: float | None = None
        self.bound_proved: float | None = None
        self.proved: list[str] = []
        self.faults: list[dict[str, Any]] = []
        self.ordered, self.last = True, -1
        self.clock = [0.0, 0.0, 0.0]
        self.now = [[0, 0, 0] for _ in range(3)]  # by stream: the vector clock of its newest operation
        self.link = answer.get("link")

    def fault(self, kind: str, of: Any, *args: Any) -> None:
        message = MESSAGES[kind] % args
        if of is not None:
            message = f"{quoted(of)} {message}"
        name = "" if of is None else of if isinstance(of, str) else quoted(of)
        self.faults.append({"kind": kind, "step": self.at, "value": name, "message": message})

    def report(self) -> dict[str, Any]:
        return {
            "schema": "memopt.check/v1",
            "valid": not self.faults,
            "peak_bytes": int(self.peak),
            "host_peak_bytes": int(self.host_peak),
            "cost": self.cost,
            "makespan": self.makespan,
            "overhead": self.overhead,
            "bound": self.bound,
            "bound_proved": self.bound_proved,
            "steps": len(self.steps),
            "proved": self.proved,
            "faults": self.faults,
        }

    def run(self) -> None:
        for at, step in enumerate(self.steps):
            self.at = at
            self.step(step)
            self.peak = max(self.peak, self.bytes)
            if len(self.faults) >= MOST_FAULTS:
                return
        for v in self.f.values:
            self.give_up(v, len(self.steps))
        self.at = None
        for n in self.f.nodes:
            if n.runs == 0:
                self.fault("never-computed", n.id)
        if self.link is not None:
            rate, latency = self.link.get("bytes_per_second", 0), self.link.get("latency_us", 0)
            if not rate > 0 or not latency >= 0 or not self.f.unit:
                self.fault("wrong-link", None, rate, latency)
        if not self.faults:
            self.proved += ["steps", "copies"]
            self.compare()
        if not self.faults:
            self.proved.append("numbers")

    def step(self, step: dict[str, Any]) -> None:
        verbs = [v for v in ("compute", "free", "offload", "reload", "wait") if step.get(v) is not None]
        if len(verbs) != 1:
            return self.fault("unknown", step[verbs[1]] if verbs else None)
        verb, name = verbs[0], step[verbs[0]]
        number = (self.f.node_of if verb == "compute" else self.f.value_of).get(quoted(name), -1)
        if number < 0:
            return self.fault("unknown", name)
        if verb == "compute":
            self.compute(number, json.dumps(step["seed"]) if "seed" in step else "")
        else:
            getattr(self, verb)(self.f.values[number])
        return None

    # Vector clocks.

    def next(self, stream: int) -> None:
        self.now[stream][stream] += 1

    def join(self, stream: int, moment: list[int]) -> None:
        self.now[stream] = [max(a, b) for a, b in zip(self.now[stream], moment, strict=True)]

    def fresh(self, stream: int, v: Value) -> None:
        v.writer, v.write, v.reads = stream, self.now[stream][stream], [0, 0, 0]

    def is_written(self, stream: int, v: Value) -> bool:
        return self.now[stream][v.writer] >= v.write

    def is_unread(self, stream: int, v: Value) -> bool:
        return all(now >= read for now, read in zip(self.now[stream], v.reads, strict=True))

    # Verbs.

    def compute(self, number: int, seed: str) -> None:
        n, values = self.f.nodes[number], self.f.values
        self.next(COMPUTE)
        for u in n.inputs:
            self.use(values[u], COMPUTE, "the compute of " + quoted(n.id))
        if n.runs == 0 and not n.view:
            self.ordered, self.last = self.ordered and number > self.last, number
        elif n.runs > 0 and n.once:
            self.fault("computed-twice", n.id)
        if n.runs > 0 and seed != n.seed:
            self.fault("other-seed", n.id, seed, n.seed)
        extra, fresh = n.workspace, not n.outputs
        for u in n.outputs:
            v = values[u]
            if v.live and not v.keep:
                self.fault("computed-live", n.id, quoted(v.id))
            fresh = fresh or not v.live or not v.keep
            if v.live:
                extra += v.size
                continue
            self.give_up(v, self.at or 0)
            v.live, v.made, v.host = True, True, False
            self.fresh(COMPUTE, v)
            self.bytes += v.size
            if v.base != u:
                values[v.base].views += 1
        if not fresh:
            self.fault("computed-live", n.id, "every output")
        n.runs, n.seed = n.runs + 1, seed
        self.clock[COMPUTE] += n.cost
        self.cost += n.cost
        self.peak = max(self.peak, self.bytes + extra)

    def use(self, v: Value, stream: int, by: str) -> bool:
        root = self.f.values[v.root]
        if v.live:
            root.reads[stream] = self.now[stream][stream]
            if not self.is_written(stream, root):
                self.fault("coming-in", v.id, by)
            return True
        self.fault("not-made" if not v.made else "not-reloaded" if root.host else "freed", v.id, by)
        return False

    def free(self, v: Value) -> None:
        self.next(COMPUTE)
        base = self.f.values[v.base]
        if not v.live:
            return self.fault("freed-twice", v.id)
        if v.keep:
            self.fault("freed-kept", v.id)
        elif v.views > 0:
            self.fault("view-of-freed", v.id)
        elif base is v and not self.is_written(COMPUTE, v):
            self.fault("coming-in", v.id, "its free")
        elif base is v and not self.is_unread(COMPUTE, v):
            self.fault("going-out", v.id)
        v.live = False
        self.bytes -= v.size
        if base is not v:
            base.views -= 1
        return None

    def copy(self, v: Value, stream: int, after: float) -> None:
        assert self.link is not None
        rate, latency = self.link.get("bytes_per_second", 0), self.link.get("latency_us", 0)
        takes = (latency / 1e6 + (v.size / rate if rate else 0)) * self.f.unit
        self.clock[stream] = max(self.clock[stream], self.clock[COMPUTE], after) + takes
        v.newest, v.end, v.reloaded = list(self.now[stream]), self.clock[stream], stream == IN

    def movable(self, v: Value, stream: int) -> bool:
        if v.still or self.f.values[v.base] is not v or self.link is None:
            self.fault("not-movable", v.id)
            return False
        self.join(stream, self.now[COMPUTE])
        self.next(stream)
        return True

    def offload(self, v: Value) -> None:
        if not self.movable(v, OUT) or not self.use(v, OUT, "its offload"):
            return
        self.give_up(v, self.at or 0)
        self.copy(v, OUT, 0)
        self.moved += v.size
        v.host, v.written, v.out_end, v.since, v.until = True, v.newest, v.end, self.at or 0, -1

    def reload(self, v: Value) -> None:
        if not self.movable(v, IN):
            return
        if v.live:
            self.fault("reload-live", v.id)
        elif not v.host or v.written is None:
            self.fault("no-host-copy", v.id)
        else:
            self.join(IN, v.written)
            self.copy(v, IN, v.out_end)
            self.fresh(IN, v)
            self.bytes, v.live, v.until = self.bytes + v.size, True, -1

    def wait(self, v: Value) -> None:
        if v.newest is None:
            return self.fault("no-copy", v.id)
        self.next(COMPUTE)
        self.join(COMPUTE, v.newest)
        self.clock[COMPUTE] = max(self.clock[COMPUTE], v.end)
        if v.reloaded and v.until < 0:
            v.until = self.at or 0
        return None

    def give_up(self, v: Value, at: int) -> None:
        """Counts the bytes of a host copy until its last reload has been waited for, or up to a step."""
        if v.host:
            if v.until < 0:
                v.until = at
            self.host_bytes[v.since] += v.size
            self.host_bytes[v.until] -= v.size

    # Claims.

    def compare(self) -> None:
        f, a, live = self.f, self.answer, 0.0
        base = 0.0
        for n in f.nodes:
            base += n.cost
        for change in self.host_bytes:
            live += change
            self.host_peak = max(self.host_peak, live)

        def share(cost: float) -> float:
            return (cost - base) / base if base else 0.0

        self.makespan = self.clock[COMPUTE]
        self.overhead = share(self.makespan)
        for kind, key, got, slack in (
            ("wrong-peak", "peak", self.peak, 0.0),
            ("wrong-host-peak", "host_peak", self.host_peak, 0.0),
            ("wrong-moved", "moved_bytes", self.moved, 0.0),
            ("wrong-cost", "cost", self.cost, NEAR * self.cost),
            ("wrong-base-cost", "base_cost", base, NEAR * base),
            ("wrong-makespan", "makespan", self.makespan, NEAR * self.makespan),
            ("wrong-overhead", "overhead", self.overhead, NEAR),
        ):
            says = a.get(key)
            if says is not None and not abs(says - got) <= slack:
                self.fault(kind, None, got, says)
        if not self.ordered and (a.get("in_order") or f.given):
            self.fault("wrong-order", None)
        if (most := a.get("host_budget")) is not None and self.host_peak > most:
            self.fault("over-budget", None, self.host_peak, most)
        if (lowest := a.get("peak_lower_bound")) is not None and lowest > self.peak:
            self.fault("wrong-bound", None, "peak", self.peak, lowest)
        low, c, proved = a.get("cost_lower_bound"), a.get("certificate"), base
        if low is None:
            return
        self.bound = share(low)
        if not low <= self.makespan * (1 + NEAR) or (a.get("optimal") and low < self.makespan * (1 - NEAR)):
            self.fault("wrong-bound", None, "cost", self.makespan, low)
        elif not low >= base * (1 - NEAR):
            self.fault("wrong-bound", None, "cost of every node once", base, low)
        if c is None:
            return
        if a.get("peak") is not None and self.peak > c.get("budget_bytes", 0):
            self.fault("over-budget", None, self.peak, c.get("budget_bytes", 0))
            return
        t, price, anywhere = f.node_of.get(quoted(c.get("moment"))), c.get("price", 0), c.get("order") == "any"
        rate = self.link["bytes_per_second"] / f.unit if self.link else 0.0
        if t is not None and price >= 0 and price * rate <= 1 and (anywhere or self.ordered):
            proved += cut(f, t, price, c["budget_bytes"], rate, anywhere)
            if not rate and all(n.cost == int(n.cost) for n in f.nodes):
                proved = float(math.ceil(proved * (1 - NEAR)))  # as the cost of any schedule is
        self.bound_proved = share(proved)
        if not c.get("bound", 0) <= proved * (1 + NEAR):
            self.fault("wrong-bound", c.get("moment"), "bound by its certificate", proved, c.get("bound", 0))
        elif low <= proved * (1 + NEAR):
            self.proved.append("bound")


def cut(f: Instance, t: int, price: float, budget: float, rate: float, anywhere: bool) -> float:
    """The least cost of second runs that a moment and a price of a byte prove, by a minimum cut (docs/check.md)."""
    nodes, values = f.nodes, f.values
    before, behind, total, earlier = [False] * len(nodes), [False] * len(nodes), 0.0, 0.0
    before[t] = behind[t] = True
    for v in range(t, -1, -1):
        before[v] = before[v] or not anywhere
        if before[v]:
            for u in nodes[v].inputs:
                before[values[u].node] = True
    for v, n in enumerate(nodes):
        behind[v] = (
            behind[v] or (v > t and not anywhere and not n.view) or any(behind[values[u].node] for u in n.inputs)
        )
        total += n.cost
        if not behind[v]:
            earlier += n.cost
    held = [x.node == t or (x.keep and before[x.node]) for x in values]
    for u in nodes[t].inputs:
        held[values[u].root] = True
    left = budget + rate * earlier - f.resident - nodes[t].workspace
    for x, h in zip(values, held, strict=True):
        total += price * x.size
        if h:
            left -= x.size
    if left < 0 or total == 0 or math.isinf(total) or nodes[t].view:
        return 0.0
    unit, sink = math.ldexp(1, 59 - math.frexp(total)[1]), len(values) + len(nodes)
    net = Net(sink + 2)
    seen: set[int] = set()
    wanted: list[int] = []

    def want(origin: int, v: int) -> None:
        for i in nodes[v].inputs:
            u = values[i].root
            if not held[u] and not behind[values[u].node]:
                net.arc(origin, u, ENDLESS)
                if u not in seen:
                    seen.add(u)
                    wanted.append(u)

    for v, n in enumerate(nodes):
        if v != t and behind[v] and not n.view:
            want(sink + 1, v)
    joined: set[int] = set()
    for u in wanted:  # which grows
        v = values[u].node
        net.arc(u, len(values) + v, int(price * values[u].size * unit))
        if v not in joined:
            joined.add(v)
            cost = int(nodes[v].cost * unit)
            net.arc(len(values) + v, sink, 0 if not before[v] else ENDLESS if nodes[v].once else cost)
            want(len(values) + v, v)
    return max(0.0, net.maximum(sink + 1, sink) / unit - price * left)


class Net:
    """A network for a maximum flow. Arcs stand in pairs, each with its reverse."""

    def __init__(self, nodes: int) -> None:
        self.arcs: list[list[int]] = [[] for _ in range(nodes)]
        self.to: list[int] = []
        self.room: list[int] = []

    def arc(self, origin: int, to: int, room: int) -> None:
        self.arcs[origin].append(len(self.to))
        self.arcs[to].append(len(self.to) + 1)
        self.to += [to, origin]
        self.room += [room, 0]

    def maximum(self, source: int, sink: int) -> int:
        """The largest flow, found on shortest paths (Dinic 1970)."""
        total, to, room = 0, self.to, self.room
        while True:
            level = [0] * len(self.arcs)
            level[source], queue = 1, deque([source])
            while queue:
                at = queue.popleft()
                for a in self.arcs[at]:
                    if room[a] > 0 and not level[to[a]]:
                        level[to[a]] = level[at] + 1
                        queue.append(to[a])
            if not level[sink]:
                return total
            now, path, at = [0] * len(self.arcs), list[int](), source
            while True:
                if at == sink:
                    most = min(room[a] for a in path)
                    for a in path:
                        room[a] -= most
                        room[a ^ 1] += most
                    total += most
                    cut_at = next(i for i, a in enumerate(path) if room[a] == 0)
                    at = to[path[cut_at] ^ 1]
                    del path[cut_at:]
                    continue
                arcs = self.arcs[at]
                while now[at] < len(arcs) and not (
                    room[arcs[now[at]]] > 0 and level[to[arcs[now[at]]]] == level[at] + 1
                ):
                    now[at] += 1
                if now[at] < len(arcs):
                    path.append(arcs[now[at]])
                    at = to[path[-1]]
                elif path:
                    at = to[path.pop() ^ 1]
                    now[at] += 1
                else:
                    break


def check(answer: dict[str, Any], instance: dict[str, Any]) -> dict[str, Any]:
    """The report of `memopt check` about an answer of `memopt solve`, both files as JSON objects.

    Raises ValueError, KeyError or TypeError for an object that is no instance or no answer.
    """
    if not isinstance(answer.get("steps"), list):
        raise ValueError('the plan is no schedule, {"steps": [...], ...}')
    p = Replay(Instance(instance), answer)
    p.run()
    return p.report()


def main(args: list[str]) -> int:
    if len(args) != 2:
        print("usage: check.py ANSWER INSTANCE", file=sys.stderr)
        return 2
    try:
        answer, instance = (json.loads(Path(name).read_text(encoding="utf-8")) for name in args)
        report = check(answer, instance)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        print(f"check.py: {args[0]}, {args[1]}: {e!r}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=2, ensure_ascii=False))
    return 0 if report["valid"] else 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

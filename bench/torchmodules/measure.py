"""What one training step of a PyTorch module allocates and keeps, from the allocator's own events.

A step is forward and backward of a module that returns (loss, output); gradients are None before it
and the output is dropped between the halves. Bytes count what the step adds to parameters, buffers
and inputs. Needs torch 2.6 or later, on the CPU.
"""
import gc
import time

import torch
from torch.utils.checkpoint import checkpoint

MARK = 1234567  # bytes of an allocation that only stands for the end of the forward half


class Scopes:
    """Where in the tree of modules a forward is: (time in ns, name) at each entry and exit."""

    def __init__(self, model):
        self.at, self.times, self.hooks = [""], [], []
        for name, module in model.named_modules():
            if name:
                self.hooks.append(module.register_forward_pre_hook(self.enter(name)))
                self.hooks.append(module.register_forward_hook(self.leave))

    def enter(self, name):
        def hook(*_):
            self.at.append(name)
            self.times.append((time.time_ns(), name))
        return hook

    def leave(self, *_):
        self.at.pop()
        self.times.append((time.time_ns(), self.at[-1]))

    def now(self):
        return self.at[-1]

    def close(self):
        for hook in self.hooks:
            hook.remove()


def storage_of(t):
    return t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage()


def clear(net):
    for p in net.parameters():
        p.grad = None
    gc.collect()


def step(net, inputs, mark=False):
    loss, output = net(*inputs)
    del output
    if mark:
        torch.empty(MARK, dtype=torch.uint8)
    loss.backward()


class Event:
    """One allocation (bytes > 0) or release, and the operators around it, outermost first."""

    def __init__(self, start, size, path, sequence):
        self.start, self.size, self.path, self.sequence = start, size, path, sequence
        self.scope = ""

    def operator(self):
        path = [p.replace("aten::", "").replace("torch::autograd::", "") for p in self.path]
        path = [p for p in path if not p.startswith(("autograd::engine", "ProfilerStep"))]
        return " > ".join(dict.fromkeys(path[:2] + path[-1:]))


def events(net, inputs, scopes=None):
    """Every event of one step in order; with scopes, each says in which module it falls."""
    clear(net)
    kind = torch._C._profiler._EventType.Allocation
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step(net, inputs, mark=True)
    out, sequences = [], {}

    def walk(nodes, path, sequence):
        for node in nodes:
            if node.tag == kind:
                out.append(Event(node.start_time_ns, node.extra_fields.alloc_size, path, sequence))
                continue
            name = node.name() if callable(node.name) else node.name
            number = getattr(node.extra_fields, "sequence_number", -1)
            if number is None or number < 0:
                number = sequence
            elif not any("Backward" in p for p in path + [name]):  # the last operator before the number is given away
                sequences[number] = node.start_time_ns
            walk(node.children, path + [name], number)

    walk(profile.profiler.kineto_results.experimental_event_tree(), [], -1)
    out.sort(key=lambda e: e.start)
    if scopes:
        locate(out, sequences, scopes)
    return out


def locate(found, sequences, scopes):
    """Names the module of each event: by time in the forward half and in what runs again, else by the forward
    operator behind it."""
    def scope_at(moment):
        name = ""
        for at, entered in scopes.times:
            if at > moment:
                break
            name = entered
        return name

    half = next((e.start for e in found if e.size == MARK), None)
    for e in found:
        e.scope = scope_at(e.start)
        if e.scope == "" and half is not None and e.start > half and e.sequence in sequences:
            e.scope = scope_at(sequences[e.sequence])


def summary(found):
    """The peak above what lived before, what lives between the halves, and what the step leaves, in bytes."""
    now = peak = held = forward = 0
    for e in found:
        if e.size == MARK:
            held, forward = now, peak
        if abs(e.size) == MARK:
            continue
        now += e.size
        peak = max(peak, now)
    return {"peak": peak, "forward_peak": forward, "held": held, "left": now}


def graph_names(loss):
    """(address, shape) of a saved tensor -> the entry that saves it, 'Addmm.mat1'; the first one that is met."""
    names, seen, todo = {}, set(), [loss.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        todo.extend(n for n, _ in node.next_functions)
        for attribute in dir(node):
            if attribute.startswith("_saved_"):
                tensor = getattr(node, attribute)
                for t in tensor if isinstance(tensor, (tuple, list)) else [tensor]:
                    if isinstance(t, torch.Tensor):
                        label = node.name().replace("Backward", "") + "." + attribute[len("_saved_"):]
                        names.setdefault((t.data_ptr(), tuple(t.shape)), label)
    return names


def saved(net, inputs):
    """The bytes of distinct storages that autograd keeps (parameters, buffers and inputs left out), and each tensor."""
    clear(net)
    model = net.model
    own = {storage_of(t).data_ptr() for t in [*net.parameters(), *net.buffers(), *inputs]}
    storages, rows, keep = {}, [], []
    scopes = Scopes(model)

    def pack(t):
        storage = storage_of(t)
        address = storage.data_ptr()
        if address in own:
            return t
        first = address not in storages
        if first:
            storages[address] = (len(storages), storage.nbytes())
        keep.append(t)
        rows.append((scopes.now(), t, storages[address][0], storage.nbytes() if first else 0))
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss, output = net(*inputs)
    names = graph_names(loss)
    scopes.close()
    table = [[scope, names.get((t.data_ptr(), tuple(t.shape)), "?"), list(t.shape), str(t.dtype)[6:], storage, n]
             for scope, t, storage, n in rows]
    del loss, output, keep, rows
    return sum(n for _, n in storages.values()), table


class Checkpointed:
    """Runs the named modules of a model under torch.utils.checkpoint inside a with statement."""

    def __init__(self, model, names):
        modules = dict(model.named_modules())
        self.modules = [modules[n] for n in names]

    def __enter__(self):
        for m in self.modules:
            def forward(*args, run=m.forward, **kwargs):
                return checkpoint(run, *args, use_reentrant=False, **kwargs)
            m.forward = forward

    def __exit__(self, *_):
        for m in self.modules:
            del m.forward


def measure(net, inputs, names=()):
    with Checkpointed(net.model, names):
        return summary(events(net, inputs))


def children(model):
    """Direct children that may be checkpointed one at a time: modules with a forward, items of lists."""
    out = []
    for name, module in model.named_children():
        if isinstance(module, torch.nn.ModuleList):
            out.extend(f"{name}.{key}" for key, _ in module.named_children())
        elif next(module.parameters(), None) is not None or not list(module.children()):
            out.append(name)
    return out


def timeline(net, inputs, names=(), least=0):
    """The step as lines: bytes of an event, bytes that live then, module, operators."""
    with Checkpointed(net.model, names):
        step(net, inputs)
        scopes = Scopes(net.model)
        found = events(net, inputs, scopes)
        scopes.close()
    now, lines = 0, []
    for e in found:
        if e.size == MARK:
            lines.append("---- backward")
        if abs(e.size) == MARK:
            continue
        now += e.size
        if abs(e.size) >= least:
            lines.append(f"{e.size:+12d} {now:12d}  {e.scope:24} {e.operator()}".rstrip())
    return lines

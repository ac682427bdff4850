"""Exports a module with its loss, and writes into the file what its modules are (see README.md)."""
import json

import torch


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def attributes(module):
    """The settings of a module on which the memory of a step depends."""
    out = {k: getattr(module, k) for k in ("inplace", "approximate", "p", "track_running_stats") if hasattr(module, k)}
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
        out["momentum"] = module.momentum is not None
    return out


def describe(model, run):
    """Every module of the model in one line of JSON: name, class, calls in a step, settings."""
    calls, hooks = {}, []
    for name, module in model.named_modules():
        def count(*_, name=name):
            calls[name] = calls.get(name, 0) + 1
        hooks.append(module.register_forward_pre_hook(count))
    with torch.no_grad():
        run()
    for hook in hooks:
        hook.remove()
    rows = []
    for name, module in model.named_modules():
        if not name:
            continue
        row = {"name": name, "class": f"{type(module).__module__}.{type(module).__qualname__}",
               "calls": calls.get(name, 0), "training": module.training}
        listed = isinstance(module, (torch.nn.ModuleList, torch.nn.ModuleDict))
        row["checkpointable"] = "it has no forward" if listed else calls.get(name) == 1 or "it is not called once"
        if attributes(module):
            row["attributes"] = attributes(module)
        rows.append(row)
    return json.dumps({"version": 1, "torch": torch.__version__, "root": "model", "modules": rows})


def export(net, inputs, path):
    state = {k: v.clone() for k, v in net.state_dict().items()}
    names = [f"input_{i}" for i in range(len(inputs) - 1)] + ["labels"]
    extra = {} if torch.__version__ < "2.5" else {"dynamo": False}
    torch.onnx.export(net, inputs, path, opset_version=17, input_names=names, output_names=["loss", "output"],
                      do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE, **extra)
    text = describe(net.model, lambda: net(*inputs))
    with open(path, "ab") as f:
        f.write(field(14, field(1, b"memopt.torch") + field(2, text.encode())))
    net.load_state_dict(state)

"""Runs a forward ONNX graph in PyTorch, operator by operator, and with the word step its backward pass, for bench/forward.

usage: peer_torch.py MODEL FOLDER THREADS [step PARAMETER...]; FOLDER holds manifest.json and the inputs as raw files.
Each line on standard input is one step; the answer is its time in milliseconds and output 0.
"""
import json, os, sys, time
import numpy as np
import onnx
from onnx import numpy_helper
import torch
import torch.nn.functional as F

DTYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 11: torch.float64}


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def ints(x):
    return [int(v) for v in x.tolist()] if x.dim() else int(x)


def reshape(x, shape):
    dims = ints(shape)
    return x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(dims)])


def split(x, sizes, a):
    return torch.split(x, ints(sizes), dim=a.get('axis', 0))


def slices(x, starts, ends, axes, steps, _):
    for s, e, d, t in zip(ints(starts), ints(ends), ints(axes), ints(steps) if steps is not None else [1] * starts.numel()):
        assert t == 1
        n = x.shape[d]
        s, e = (s + n if s < 0 else min(s, n)), (e + n if e < 0 else min(e, n))
        x = x.narrow(d, s, max(e - s, 0))
    return x


def conv(x, w, b, a):
    pads = a.get('pads', [0, 0, 0, 0])
    assert pads[:2] == pads[2:]
    return F.conv2d(x, w, b, a.get('strides', 1), pads[:2], a.get('dilations', 1), a.get('group', 1))


def gather(x, idx, a):
    d = a.get('axis', 0)
    if idx.dim() == 0:
        return x.select(d, int(idx))
    return F.embedding(idx, x) if d == 0 and x.dim() == 2 else x.index_select(d, idx.reshape(-1)).reshape(x.shape[:d] + idx.shape + x.shape[d + 1:])


def gemm(x, w, b, a):
    if a.get('transA'):
        x = x.t()
    return F.linear(x, w if a.get('transB') else w.t(), b)


OPS = {
    'Shape': lambda x, a: torch.tensor(list(x.shape)),
    'Gather': gather,
    'Cast': lambda x, a: x.to(DTYPES[a['to']]),
    'Range': lambda s, e, d, a: torch.arange(int(s), int(e), int(d)),
    'Unsqueeze': lambda x, axes, a: unsqueeze(x, ints(axes)),
    'Squeeze': lambda x, axes, a: x.squeeze(ints(axes)[0]),
    'Add': lambda x, y, a: x + y,
    'Mul': lambda x, y, a: x * y,
    'Div': lambda x, y, a: x / y if x.is_floating_point() else torch.div(x, y, rounding_mode='trunc'),
    'Dropout': lambda x, *r: x,  # every model here has ratio 0
    'LayerNormalization': lambda x, g, b, a: F.layer_norm(x, x.shape[-1:], g, b, a.get('epsilon', 1e-5)),
    'Transpose': lambda x, a: x.permute(a['perm']),
    'MatMul': lambda x, y, a: x @ y,
    'Split': split,
    'Concat': lambda *r: torch.cat(r[:-1], r[-1]['axis']),
    'Reshape': lambda x, s, a: reshape(x, s),
    'Greater': lambda x, y, a: x > y,
    'Where': lambda c, x, y, a: torch.where(c, x, y),
    'Softmax': lambda x, a: torch.softmax(x, a.get('axis', -1)),
    'Erf': lambda x, a: torch.erf(x),
    'Slice': slices,
    'SoftmaxCrossEntropyLoss': lambda x, y, a: F.cross_entropy(x, y, ignore_index=a.get('ignore_index', -100)),
    'Conv': conv,
    'BatchNormalization': lambda x, g, b, m, v, a: F.batch_norm(x, m, v, g, b, bool(a.get('training_mode')), 0.1, a.get('epsilon', 1e-5)),
    'Relu': lambda x, a: torch.relu(x),
    'MaxPool': lambda x, a: F.max_pool2d(x, a['kernel_shape'], a['strides'], a['pads'][:2]),
    'GlobalAveragePool': lambda x, a: x.mean((2, 3), keepdim=True),
    'Flatten': lambda x, a: torch.flatten(x, 1),
    'Gemm': gemm,
}
OPTIONAL = {'Conv': 3, 'Slice': 5, 'Gemm': 3}


def unsqueeze(x, axes):
    for d in sorted(axes if isinstance(axes, list) else [axes]):
        x = x.unsqueeze(d)
    return x


def main():
    model, folder, threads = sys.argv[1:4]
    wanted = set(sys.argv[5:]) if sys.argv[4:5] == ['step'] else set()
    torch.set_num_threads(int(threads))
    g = onnx.load(model).graph
    start = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in g.initializer}
    for item in json.load(open(os.path.join(folder, 'manifest.json'))):
        raw = np.fromfile(os.path.join(folder, item['file']), dtype=item['numpy'])
        start[item['name']] = torch.from_numpy(raw.reshape(item['shape']))
    params = [start[name].requires_grad_() for name in sorted(wanted)]
    steps, last = [], {}
    for i, n in enumerate(g.node):
        for name in n.input:
            last[name] = i
        a = attributes(n)
        if n.op_type == 'Constant':
            start[n.output[0]] = torch.from_numpy(numpy_helper.to_array(a['value']).copy())
        else:
            steps.append((i, OPS[n.op_type], list(n.input), list(n.output), a, OPTIONAL.get(n.op_type, 0)))
    out = g.output[0].name
    print('ready', flush=True)
    for _ in sys.stdin:
        t0 = time.perf_counter()
        for p in params:
            p.grad = None
        with torch.set_grad_enabled(bool(params)):
            vals = dict(start)
            for i, f, ins, outs, a, pad in steps:
                args = [vals[x] if x else None for x in ins]
                args += [None] * (pad - len(args))
                r = f(*args, a)
                if isinstance(r, tuple):
                    vals.update(zip(outs, r))
                else:
                    vals[outs[0]] = r
                for x in ins:  # as an autograd-free module would: drop what nobody reads any more
                    if last[x] == i and x not in start:
                        vals.pop(x, None)
        if params:
            vals[out].backward()
        print(1e3 * (time.perf_counter() - t0), float(vals[out].detach().float().flatten()[0]), flush=True)


main()

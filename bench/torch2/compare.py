"""Finds which gradients of a file are those of the module's parameters, and how far they are apart.

An exporter keeps parameters as they are, moves their elements into other tensors (a transpose, gates
of an LSTM in another order, a piece), computes others from them (1 + scale), or multiplies them by a
scale for each channel (a batch norm). Weights are random, so that elements tell where they come from."""

import numpy as np

# What exporters compute of a parameter, element by element: the function, its derivative, and whether an
# optimizer without weight decay changes the result as it would the parameter.
FUNCTIONS = {
    "1 + p": (lambda p: 1 + p, np.ones_like, True),
    "-p": (lambda p: -p, lambda p: -np.ones_like(p), True),
    "1 - p": (lambda p: 1 - p, lambda p: -np.ones_like(p), True),
    "exp(p)": (np.exp, np.exp, False),
    "-exp(p)": (lambda p: -np.exp(p), lambda p: -np.exp(p), False),
}
LEAST = 1e-3  # of the model's largest gradient: differences of smaller ones are relative to it


class Comparison:
    """The gradients of a file, by the parameters of the module."""

    def __init__(self, parameters: dict[str, np.ndarray], initializers: dict[str, np.ndarray]):
        self.parameters, self.initializers = parameters, initializers
        self.computed: set[str] = set()  # initializers that are functions of parameters
        self.another: set[str] = set()  # those of them that do not train as the parameters do
        self.unknown: set[str] = set()
        self.places = self.elements()

    def elements(self):
        """The bits of all elements, sorted, and where each is; elements that are not unique are left out."""
        bits, owner, at = [], [], []
        for i, p in enumerate(self.parameters.values()):
            bits.append(np.ascontiguousarray(p).reshape(-1).view(np.uint32))
            owner.append(np.full(p.size, i))
            at.append(np.arange(p.size))
        bits, owner, at = (np.concatenate(x) for x in (bits, owner, at))
        values, first, counts = np.unique(bits, return_index=True, return_counts=True)
        unique = counts == 1
        return values[unique], owner[first][unique], at[first][unique]

    def spread(self, name: str, gradient: np.ndarray, sums: dict, seen: dict) -> None:
        """Adds the gradient of an initializer to those of the parameters that it consists of."""
        value, own = self.initializers.get(name), self.parameters.get(name)
        if value is None or value.shape != gradient.shape:
            self.unknown.add(name)
            return
        if own is not None and own.shape == value.shape:
            if np.array_equal(own, value):
                add(sums, seen, name, gradient, np.ones(own.shape, bool))
                return
            scale = channel_scale(value, own)
            if scale is not None:
                self.computed.add(name)
                self.another.add(name)
                add(sums, seen, name, gradient * scale, np.ones(own.shape, bool))
                return
        if not self.moved(value, gradient, sums, seen) and not self.function(name, value, gradient, sums, seen):
            self.unknown.add(name)

    def moved(self, value, gradient, sums, seen) -> bool:
        """Whether the elements are those of parameters; some may be equal to others by chance, or zeros."""
        values, owner, at = self.places
        bits = np.ascontiguousarray(value.astype(np.float32)).reshape(-1).view(np.uint32)
        where = np.searchsorted(values, bits).clip(max=len(values) - 1)
        found = values[where] == bits
        if found.sum() < 0.9 * np.count_nonzero(bits) or not found.any():
            return False
        names, flat = list(self.parameters), gradient.reshape(-1)
        for i in np.unique(owner[where[found]]):
            name = names[i]
            mine = found & (owner[where] == i)
            shape = self.parameters[name].shape
            part, known = np.zeros(shape).reshape(-1), np.zeros(shape, bool).reshape(-1)
            np.add.at(part, at[where[mine]], flat[mine])
            known[at[where[mine]]] = True
            add(sums, seen, name, part.reshape(shape), known.reshape(shape))
        return True

    def function(self, name, value, gradient, sums, seen) -> bool:
        for key, p in self.parameters.items():
            if p.size != value.size:
                continue
            for of, derivative, alike in FUNCTIONS.values():
                if np.allclose(of(p).reshape(-1), value.reshape(-1), rtol=1e-6, atol=1e-7):
                    self.computed.add(name)
                    if not alike or key in self.initializers:
                        self.another.add(name)
                    add(sums, seen, key, gradient.reshape(p.shape) * derivative(p), np.ones(p.shape, bool))
                    return True
        return False

    def worst(self, gradients: dict[str, np.ndarray], wanted: dict[str, np.ndarray]):
        """The largest difference, its parameter, and how many parameters were compared.

        Differences are relative to the parameter's largest gradient, or to LEAST of the model's."""
        sums, seen = {}, {}
        for name, gradient in gradients.items():
            self.spread(name, gradient, sums, seen)
        top = max(np.abs(g).max() for g in wanted.values())
        worst, at, compared = 0.0, "", 0
        for name, want in wanted.items():
            if name not in sums:
                continue
            compared += 1
            off = np.where(seen[name], np.abs(sums[name] - want), 0).max() / max(np.abs(want).max(), LEAST * top)
            off = float(off) if np.isfinite(off) else float("inf")
            if off > worst:
                worst, at = off, name
        missing = [n for n, g in wanted.items() if n not in sums and np.abs(g).max() > 1e-7 * top]
        return worst, at, compared, missing


def add(sums, seen, name, gradient, known):
    sums[name] = sums.get(name, 0) + gradient.astype(np.float64)
    seen[name] = seen.get(name, False) | known


def channel_scale(value, own):
    """The factor of each channel, where value is own times such factors; else None."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(np.abs(own) > 1e-4, value / own, np.nan)
    for axis in (0, 1):
        if own.ndim > axis:
            rest = tuple(i for i in range(own.ndim) if i != axis)
            scale = np.nanmedian(ratio, axis=rest, keepdims=True)
            if np.allclose(own * scale, value, rtol=1e-5, atol=1e-7):
                return np.broadcast_to(scale, own.shape)
    return None

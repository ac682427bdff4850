"""The memory that kernels of the CPU take beside their results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

# An operator on more bytes, or of more operations, is not run for its workspace.
_LARGEST = 1 << 30
_LONGEST = 1_000_000_000_000

# Operators that compute on zeros as on other numbers. Others read handles or sizes out of their arguments, as those of
# recurrent layers do, and may not be run on made-up ones.
_KERNELS = frozenset(
    """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _fft_c2c _fft_c2r _fft_r2c _fused_rms_norm
    _fused_rms_norm_backward _log_softmax _log_softmax_backward_data _native_batch_norm_legit
    _native_batch_norm_legit_functional _safe_softmax _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_flash_attention_for_cpu_backward _scaled_mm _softmax _softmax_backward_data _to_copy addbmm
    addmm addmv amax amin argmax avg_pool2d avg_pool2d_backward baddbmm bmm cat clone constant_pad_nd convolution
    convolution_backward copy cumsum dot embedding embedding_dense_backward gather index index_add index_put
    index_select linalg_vector_norm logsumexp masked_fill max max_pool2d_with_indices
    max_pool2d_with_indices_backward mean mm mv native_batch_norm native_batch_norm_backward native_group_norm
    native_group_norm_backward native_layer_norm native_layer_norm_backward nll_loss2d_backward nll_loss2d_forward
    nll_loss_backward nll_loss_forward roll scatter scatter_add select_backward slice_backward slice_scatter
    softplus_backward sort stack sum topk tril triu upsample_bilinear2d upsample_bilinear2d_backward
    upsample_nearest2d upsample_nearest2d_backward var var_mean
    """.split()  # noqa: SIM905, a name in quotes of its own is a line
)

# Collectives by the bytes that gloo, which runs those of the CPU, takes until they have ended, of the bytes of argument
# and result: a gathered result is in one piece first, and a reduction that scatters sums a copy of its argument
# (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp).
_COLLECTIVES: dict[str, Callable[[int, int], int]] = {
    "all_gather_into_tensor": lambda given, made: made,
    "all_reduce": lambda given, made: 0,
    "all_to_all_single": lambda given, made: 0,
    "broadcast": lambda given, made: 0,
    "reduce_scatter_tensor": lambda given, made: given,
    "wait_tensor": lambda given, made: 0,
}

# Operators that only fill their result.
_PLAIN = frozenset("empty_like full_like new_empty new_full new_ones new_zeros ones_like zeros_like".split())  # noqa: SIM905

# The prefix of the ranges that one profile has, a range for each operator.
_RANGE = "memopt:"


@dataclass(frozen=True)
class _Tensor:
    """A tensor argument, of which the values do not matter."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def make(self) -> torch.Tensor:
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype).zero_()


class Workspaces:
    """Runs every operator of a step once by itself, on zeros, and counts the allocations of its kernel.

    How much memory a kernel takes for itself (the packed operands of oneDNN, the gradients of a norm by thread) depends
    on the processor, the number of threads and the libraries of PyTorch, so that no table tells it. Operators of equal
    arguments are run once, and a block that repeats costs one.
    One object serves all traces of a model, or all compilations of a process.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._calls: list[tuple[Any, Any, Any]] = []  # by number: the operator, its flat arguments, their form
        self._peaks: list[int] = []  # by number, of those that have been run
        self._left: set[str] = set()

    def number(self, func: Any, args: Any, kwargs: Any) -> int:
        """Numbers an operator with its arguments; -1 where it is not run by itself."""
        name = func._overloadpacket.__name__
        if func._schema.is_mutable or name in _PLAIN or _is_collective(func):
            return -1
        if not measures(func):
            if any(isinstance(v, torch.Tensor) for v in tree_leaves((args, kwargs))):
                self._left.add(str(func))
            return -1
        flat, form = tree_flatten((args, kwargs))
        bare = [_Tensor(tuple(v.shape), v.stride(), v.dtype) if isinstance(v, torch.Tensor) else v for v in flat]
        key = (func, str(form), tuple((type(v), v) for v in bare))  # 1 is not 1.0
        if key not in self._numbers:
            self._numbers[key] = len(self._calls)
            self._calls.append((func, bare, form))
        return self._numbers[key]

    def measure(self, flops: dict[int, int]) -> tuple[list[int], list[str]]:
        """The most bytes at one time that each operator allocates, its results included, by number; and the operators
        of which that is not known, which have -1: too large ones, ones that may not be run on zeros, ones that fail."""
        done = len(self._peaks)
        self._peaks += [-1] * (len(self._calls) - done)
        calls: list[tuple[int, Callable[[], Callable[[], object]]]] = []
        for i, call in list(enumerate(self._calls))[done:]:
            size = sum(_bytes(t) for t in call[1] if isinstance(t, _Tensor))
            if size <= _LARGEST and flops.get(i, 0) <= _LONGEST:
                calls.append((i, functools.partial(_call, *call)))
        for i, peak in highest(calls).items():
            self._peaks[i] = peak
        self._left.update(str(func) for i, (func, _, _) in enumerate(self._calls) if self._peaks[i] < 0)
        return self._peaks, sorted(self._left)


def highest(calls: list[tuple[int, Callable[[], Callable[[], object]]]]) -> dict[int, int]:
    """The most bytes at one time that each of several calls allocates, results included, by number. One that fails is
    left out.

    Args:
        calls: numbers, and functions that make the arguments and return the call.
    """
    peaks: dict[int, int] = {}
    if not calls or torch._C._autograd._profiler_enabled():
        return peaks
    activities = [torch.profiler.ProfilerActivity.CPU]
    # A compiler that asks runs under a mode of fake tensors.
    with (
        _disable_current_modes(),
        torch.no_grad(),
        torch.profiler.profile(activities=activities, profile_memory=True) as profile,
    ):
        done = [i for i, prepare in calls if _run(i, prepare)]
    _count(profile, peaks)
    return {i: peaks[i] for i in done}


def measures(func: Any) -> bool:
    """Whether an operator is run by itself for its workspace, or has none."""
    name = func._overloadpacket.__name__
    known = func._schema.is_mutable or name in _PLAIN or name in _KERNELS or torch.Tag.pointwise in func.tags
    return known or _is_collective(func)


def of_collective(func: Any, given: int, made: int) -> int:
    """The bytes that a collective of the CPU takes beside its argument and its result; 0 for other operators."""
    return _COLLECTIVES[func._overloadpacket.__name__](given, made) if _is_collective(func) else 0


def _is_collective(func: Any) -> bool:
    return func.namespace == "_c10d_functional" and func._overloadpacket.__name__ in _COLLECTIVES


def not_known(operators: Iterable[str]) -> str:
    """A warning of kernels whose memory a promise leaves out."""
    kernels = f"of the kernels of {', '.join(sorted(operators))}"
    return f"{kernels} the memory that they take beside their results is not known and counts as 0"


@functools.cache
def of_process(threads: int) -> Workspaces:
    """Those of all compilations of a process with so many threads."""
    return Workspaces()


def _bytes(t: _Tensor) -> int:
    n = t.dtype.itemsize
    for d in t.size:
        n *= d
    return n


def _call(func: Any, bare: list[Any], form: Any) -> Callable[[], object]:
    args, kwargs = tree_unflatten([v.make() if isinstance(v, _Tensor) else v for v in bare], form)
    return functools.partial(func, *args, **kwargs)


def _run(number: int, prepare: Callable[[], Callable[[], object]]) -> bool:
    try:
        call = prepare()
        with torch.profiler.record_function(f"{_RANGE}{number}"):
            out = call()
    except (RuntimeError, IndexError, NotImplementedError):
        return False
    del out
    return True


def _count(profile: Any, peaks: dict[int, int]) -> None:
    """Reads the peaks of the ranges from a profile."""
    events: list[tuple[int, int, int, int]] = []
    stack = [(event, -1) for event in profile.profiler.kineto_results.experimental_event_tree()]
    while stack:
        event, number = stack.pop()
        if event.name.startswith(_RANGE):
            number = int(event.name[len(_RANGE) :])
            peaks[number] = 0
        stack.extend((child, number) for child in event.children)
        if number >= 0 and event.tag == torch._C._profiler._EventType.Allocation:
            # Events of one instant lie in the tree in their order, which the stack has turned around.
            events.append((number, event.start_time_ns, -len(events), event.extra_fields.alloc_size))
    last = now = -1
    for number, _, _, size in sorted(events):
        now = size if number != last else now + size
        last = number
        peaks[number] = max(peaks[number], now)

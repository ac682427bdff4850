"""Steps on fake tensors of a GPU that is not there."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from ._attention import attention
from ._engine import Add, Around, in_python, unmarked


@contextlib.contextmanager
def away(around: Around = unmarked, add: Add = operator.add) -> Iterator[None]:
    """Within the block the fake tensors of a GPU are differentiated from Python, and ``torch.autocast`` casts for CUDA
    as it does where there is a GPU that has bfloat16."""
    common, cuda = torch.cuda.amp.common, torch.cuda
    before = common.amp_definitely_not_available, cuda.is_bf16_supported
    common.amp_definitely_not_available = lambda: False
    cuda.is_bf16_supported = lambda *_, **__: True
    try:
        with in_python(around, add):
            yield
    finally:
        common.amp_definitely_not_available, cuda.is_bf16_supported = before


class Attention(TorchFunctionMode):
    """Calls CUDA's kernels of attention where a device would be asked which one."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is scaled_dot_product_attention and args[0].is_cuda:
            return attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

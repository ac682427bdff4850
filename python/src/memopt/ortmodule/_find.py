"""Finds ORTModule, and refuses a version of it whose inside is not known."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

# Releases whose training manager is the one that the patch is written for.
KNOWN = ("1.19.2",)

_INSTALL = (
    "in Python 3.11: pip install onnxruntime-training-cpu==1.19.2 (or onnxruntime-training for CUDA) "
    "'torch<=2.4.1' 'onnx<1.17' 'numpy<2', then python -m onnxruntime.training.ortmodule.torch_cpp_extensions.install; "
    "docs/ortmodule.md has more, and how a job goes on without ORTModule"
)


class ORTModuleError(RuntimeError):
    """A plan that ORTModule cannot be given. The step has not run."""


def find() -> Any:
    """ORTModule's class of training managers.

    Raises:
        ImportError: ORTModule is not there, cannot be imported, lacks its extensions, or is of another version.
    """
    try:
        runtime: Any = importlib.import_module("onnxruntime")
    except ModuleNotFoundError as e:
        if e.name != "onnxruntime":
            raise
        raise ImportError(f"memopt.ortmodule needs ORTModule, and there is no ONNX Runtime; {_INSTALL}") from e
    version = getattr(runtime, "__version__", "without a version")
    ortmodule: Any = _imported(version)
    if version not in KNOWN:
        raise ImportError(
            f"memopt.ortmodule knows ORTModule of onnxruntime-training {', '.join(KNOWN)}, and this is {version}; "
            + _INSTALL
        )
    if getattr(ortmodule, "_FALLBACK_INIT_EXCEPTION", None) is not None:
        raise ImportError(
            f"ORTModule {version} cannot run: {ortmodule._FALLBACK_INIT_EXCEPTION} Its extensions are made by "
            "python -m onnxruntime.training.ortmodule.torch_cpp_extensions.install"
        )
    manager: Any = importlib.import_module("onnxruntime.training.ortmodule._training_manager")
    return manager.TrainingManager


def _imported(version: str) -> ModuleType:
    try:
        return importlib.import_module("onnxruntime.training.ortmodule")
    except ModuleNotFoundError as e:
        if e.name not in ("onnxruntime.training", "onnxruntime.training.ortmodule"):
            raise ImportError(f"ORTModule {version} lacks the package {e.name}; {_INSTALL}") from e
        raise ImportError(
            f"memopt.ortmodule needs ORTModule, and this ONNX Runtime, {version}, is built without training; {_INSTALL}"
        ) from e
    except Exception as e:  # NumPy 2, or a torch that it was not built for
        raise ImportError(f"ORTModule {version} cannot be imported: {e}; {_INSTALL}") from e

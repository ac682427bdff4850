"""A double of onnxruntime-training, as far as memopt.ortmodule uses it: it runs no graph."""

from enum import Enum
from pathlib import Path

__version__ = "1.19.2"


class GraphOptimizationLevel(Enum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_ALL = 99


class ExecutionOrder(Enum):
    DEFAULT = 0
    PRIORITY_BASED = 1


class SessionOptions:
    execution_order = ExecutionOrder.DEFAULT
    graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
    optimized_model_filepath = ""
    log_severity_level = 2


class InferenceSession:
    def __init__(self, model, options, providers, provider_options):
        if options.optimized_model_filepath:
            Path(options.optimized_model_filepath).write_bytes(model)

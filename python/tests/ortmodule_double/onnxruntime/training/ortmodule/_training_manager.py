"""A double: ``jobs`` of one module, whose sessions are lists of the operators of their graphs."""

import os
from enum import IntFlag
from types import SimpleNamespace

import onnx

from onnxruntime import SessionOptions


class Level(IntFlag):
    OWN = 0
    LAYERS = 1


class Agent:
    def __init__(self, graph):
        self.graph = graph
        self.calls = []

    def run_forward(self, *feeds):
        self.calls.append("forward")

    def run_backward(self, *feeds):
        self.calls.append("backward")


class Transformer:
    """The module that is trained."""


class TrainingManager:
    def __init__(self, path):
        self._device = SimpleNamespace(type="cpu")
        self._original_module = Transformer()
        self._graph_transition_manager = SimpleNamespace(_post_export_processed_model_info=self)
        self._runtime_options = SimpleNamespace(
            memory_optimization_level=Level(int(os.environ.get("ORTMODULE_MEMORY_OPT_LEVEL", "0"))),
            memory_optimizer_config_file_path="",
        )
        self._runtime_inspector = SimpleNamespace(memory_ob=SimpleNamespace(_is_enabled=True))
        self._onnx_models = SimpleNamespace(optimized_model=None)
        self.path, self.made, self.said = path, [], []

    def construct_inputs(self, inputs, kwargs, warn, device):
        return kwargs

    def _detect_from_inputs(self, inputs, kwargs):
        self._batch = kwargs

    def _get_session_config(self):
        return SessionOptions(), ["CPUExecutionProvider"], [{}]

    def _create_execution_agent(self):
        options = self._get_session_config()[0]
        self._session = options.graph_optimization_level.name, options.execution_order.name
        graph = self._onnx_models.optimized_model.graph
        if "REFUSES" in os.environ and any("recompute" in n.name for n in graph.node):
            raise RuntimeError("an anchor is not known here")
        self._execution_agent = Agent(graph)
        self.made.append(self._execution_agent)

    def build(self, **shapes):
        """Exports the module for a batch and makes its session."""
        self._onnx_models.optimized_model = onnx.load(self.path)
        self._detect_from_inputs((), {k: SimpleNamespace(shape=s) for k, s in shapes.items()})
        self._create_execution_agent()
        own = self._runtime_options
        observer = self._runtime_inspector.memory_ob
        self.said.append((*self._session, int(own.memory_optimization_level), observer._is_enabled))

    def step(self):
        self._execution_agent.run_forward()
        self._execution_agent.run_backward()

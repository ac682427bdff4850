"""Exports the model of a case with its loss, through memopt's own package for PyTorch."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "src"))

import memopt.torch

from cases import LOSSES


def export(net, inputs, path):
    labels = {} if net.loss == "square" else {"labels": inputs[-1]}
    given = inputs[:len(inputs) - len(labels)]
    memopt.torch.export(net.model, given, path, loss=LOSSES[net.loss], dynamic_axes=None, **labels)

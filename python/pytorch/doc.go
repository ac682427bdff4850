// Package pytorch plans which modules of a PyTorch program to recompute in the backward half, in the
// program's own terms: torch.utils.checkpoint around whole modules, by name, for example h.0.attn. It
// works on the forward model that torch.onnx.export wrote, predicts the peak that PyTorch will have, and
// writes plan files for the Python package memopt.torch (python/src/memopt/torch) and the lines of Python
// that do the same by hand.
package pytorch

// Package pytorch plans which modules of a PyTorch program run again in the backward half, in terms that
// the program takes: torch.utils.checkpoint around whole modules, by name. It works on the forward model
// that torch.onnx.export wrote, predicts the peak that PyTorch will have, and writes plan files for the
// Python package memopt.torch (python/src/memopt/torch) and the lines of Python that do the same by hand.
package pytorch

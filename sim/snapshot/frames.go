package snapshot

import (
	"slices"
	"strings"
)

// libraries are parts of the paths of frames that are not the user's, the code that Inductor generates among them.
var libraries = []string{"/torch/", "/torchgen/", "site-packages/", "dist-packages/", "/lib/python", "<frozen ",
	"/threading.py", "/runpy.py", "/torchinductor_"}

// plumbing is how the names of frames begin that each allocation has: the unwinder, the allocator, the making of an
// empty tensor and the dispatcher.
var plumbing = []string{"torch::unwind", "torch::CapturedTraceback", "torch::cuda::", "c10::", "at::detail::",
	"at::TensorBase at::detail::"}

// The functions of PyTorch that call a node of the backward graph, and that run all of them.
const (
	callNode = "torch::autograd::Node::operator"
	engine   = "torch::autograd::Engine"
)

// lineOf is the line of a stack that answers for its block: the innermost of the user's Python code, else the innermost
// of any Python code, else the name of the backward node or of the operator; no line without frames.
func lineOf(stack []Frame) Frame {
	python := -1
	for i, f := range stack {
		if !strings.HasSuffix(f.File, ".py") && !strings.HasPrefix(f.File, "<") {
			continue
		}
		own := !slices.ContainsFunc(libraries, func(part string) bool { return strings.Contains(f.File, part) })
		if own {
			return f
		}
		if python < 0 {
			python = i
		}
	}
	if python >= 0 {
		return stack[python]
	}
	return native(stack)
}

// native names a block whose stack has no Python, as those of the threads of backward: by the node that was called, for
// example MulBackward0 of torch::autograd::generated::MulBackward0::apply(...), else by the operator, for example
// aten::add_Tensor of at::_ops::add_Tensor::call(...), else by the innermost frame beside the plumbing.
func native(stack []Frame) Frame {
	for i, f := range stack {
		if i > 0 && strings.HasPrefix(f.Func, callNode) {
			if path, ok := strings.CutSuffix(bare(stack[i-1].Func), "::apply"); ok {
				return Frame{Func: path[strings.LastIndexByte(path, ':')+1:]}
			}
			break
		}
	}
	for _, f := range stack {
		if name, ok := strings.CutPrefix(bare(f.Func), "at::_ops::"); ok && strings.HasSuffix(name, "::call") {
			return Frame{Func: "aten::" + strings.TrimSuffix(name, "::call")}
		}
	}
	for _, f := range stack {
		if f.Func != "" && !slices.ContainsFunc(plumbing, func(p string) bool { return strings.HasPrefix(f.Func, p) }) {
			return Frame{Func: bare(f.Func)}
		}
	}
	return Frame{}
}

// bare is the name of a C++ function without its parameters.
func bare(function string) string {
	name, _, _ := strings.Cut(strings.ReplaceAll(function, "(anonymous namespace)::", ""), "(")
	return name
}

// kindOf tells the kind of a block by its frames, the innermost first.
func kindOf(stack []Frame) string {
	kind := Unknown
	for _, f := range stack {
		switch {
		case strings.Contains(f.File, "/torch/optim/"):
			return Optimizer
		case strings.HasPrefix(f.Func, engine), f.Func == "backward", runsBackward(f):
			return Gradients
		case f.Func == "__init__" || f.Func == "reset_parameters",
			f.Func == "_apply" && strings.Contains(f.File, "nn/modules/module.py"):
			return Creation
		case strings.Contains(f.File, "utils/data/"):
			return Data
		case f.Func == "forward":
			kind = Forward
		}
	}
	return kind
}

// runsBackward reports whether a Python frame is one of torch.autograd that runs the backward half. Other frames of
// that package are of the forward half too, for example apply of a Function, as torch.compile makes them.
func runsBackward(f Frame) bool {
	return strings.HasSuffix(f.File, "torch/autograd/__init__.py") && (f.Func == "grad" || f.Func == "_make_grads") ||
		strings.HasSuffix(f.File, "torch/autograd/graph.py") && f.Func == "_engine_run_backward"
}

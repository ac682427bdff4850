package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFrames: blocks are named by the user's line where there is one, else by the backward node or the operator, and
// compiled code counts to the line that it was made from. The names are of the form that recordings on GPUs have.
func TestFrames(t *testing.T) {
	native := func(names ...string) (list []Frame) {
		for _, n := range append([]string{"torch::unwind::unwind()",
			"torch::CapturedTraceback::gather(bool, bool, bool)",
			"torch::cuda::(anonymous namespace)::gather_with_cpp()",
			"c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)",
			"at::TensorBase at::detail::_empty_generic<long>(c10::ArrayRef<long>, c10::Allocator*)",
			"at::detail::empty_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)"}, names...) {
			list = append(list, Frame{File: "??", Func: n})
		}
		return list
	}
	python := func(file string, line int64, function string) Frame {
		return Frame{File: file, Line: line, Func: function}
	}
	const (
		node = "torch::autograd::Node::operator()(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)"
		run  = "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"
		site = "/env/lib/python3.13/site-packages/torch/"
	)
	user := python("/home/u/model.py", 54, "forward")
	for name, c := range map[string]struct {
		stack []Frame
		line  Frame
		kind  string
	}{
		"no frames": {nil, Frame{}, Unknown},
		"node": {native("at::_ops::div_Scalar::call(at::Tensor const&, c10::Scalar const&)",
			"torch::autograd::generated::MeanBackward0::apply(std::vector<at::Tensor>&&)", node, run),
			Frame{Func: "MeanBackward0"}, Gradients},
		"accumulation": {native("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)", node, run),
			Frame{Func: "AccumulateGrad"}, Gradients},
		"sum of gradients": {native("at::_ops::add_Tensor::call(at::Tensor const&, at::Tensor const&)",
			"torch::autograd::InputBuffer::add(unsigned long)", run), Frame{Func: "aten::add_Tensor"}, Gradients},
		"a node without a class": {native("at::_ops::add_Tensor::redispatch(c10::DispatchKeySet, at::Tensor const&)",
			"at::_ops::mul_Tensor::call(at::Tensor const&)", "main", node, run), Frame{Func: "aten::mul_Tensor"},
			Gradients},
		"other native code": {native("at::(anonymous namespace)::create_out(c10::ArrayRef<long>)", "main"),
			Frame{Func: "at::create_out"}, Unknown},
		"plumbing alone": {native(), Frame{}, Unknown},
		"line": {append(native("at::_ops::index_Tensor::call(at::Tensor const&)"), user,
			python(site+"nn/modules/module.py", 1790, "_call_impl"), python("/home/u/train.py", 3, "main")), user,
			Forward},
		"library": {append(native("at::_ops::ones_like::call(at::Tensor const&)"), python(site+"autograd/__init__.py",
			220, "_make_grads")), python(site+"autograd/__init__.py", 220, "_make_grads"), Gradients},
		"grad": {append(native(), python(site+"autograd/__init__.py", 500, "grad")),
			python(site+"autograd/__init__.py", 500, "grad"), Gradients},
		"engine": {append(native(), python(site+"autograd/graph.py", 820, "_engine_run_backward"), user),
			user, Gradients},
		"hooks of saved tensors": {append(native(), python(site+"autograd/graph.py", 300, "pack"), user), user,
			Forward},
		"a function of the user": {append(native(), python("/home/u/norm.py", 9, "backward"),
			python(site+"autograd/function.py", 307, "apply")), python("/home/u/norm.py", 9, "backward"), Gradients},
		"compiled": {append(native(), python("/tmp/torchinductor_u/z3/cz3v.py", 1226, "call"), user,
			python(site+"_functorch/_aot_autograd/runtime_wrappers.py", 1585, "forward"),
			python(site+"autograd/function.py", 575, "apply"), python("/home/u/train.py", 3, "main")), user, Forward},
		"step": {append(native(), python(site+"optim/adamw.py", 100, "step"), python("/home/u/train.py", 7, "main")),
			python("/home/u/train.py", 7, "main"), Optimizer},
		"module": {append(native(), python(site+"nn/modules/module.py", 900, "_apply"),
			python("/home/u/train.py", 2, "main")), python("/home/u/train.py", 2, "main"), Creation},
		"loader": {append(native(), python(site+"utils/data/_utils/pin_memory.py", 60, "pin")),
			python(site+"utils/data/_utils/pin_memory.py", 60, "pin"), Data},
	} {
		require.Equal(t, c.line, lineOf(c.stack), name)
		require.Equal(t, c.kind, kindOf(c.stack), name)
	}
}

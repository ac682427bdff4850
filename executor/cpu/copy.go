package cpu

import (
	"memopt/executor"
)

// newZero makes the kernel of ONNX Runtime's ZeroGradient: zeros like input 0.
func newZero(p *executor.Prep) (executor.Kernel, error) {
	k, err := newCopy(p)
	if err == nil {
		k.(*elemKernel).loop = func(dst, _, _, _ []byte) { clear(dst) }
	}
	return k, err
}

// newCopy makes the kernel of operators that move a tensor between memories: here it is a copy.
func newCopy(p *executor.Prep) (executor.Kernel, error) {
	d := p.DType(0)
	if d.Bits() == 0 || d.Bits()%8 != 0 {
		return nil, unsupportedTypes(p)
	}
	return &elemKernel{loop: copyLoop, grain: elemLight, in: []elemInput{elemIn(p, 0, d)}, out: elemOut(p, 0, d)}, nil
}

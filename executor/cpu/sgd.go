package cpu

import "memopt/executor"

// newSGD makes the kernel of Deeploy's SGD: the weights less the attribute lr times their gradient.
func newSGD(p *executor.Prep) (executor.Kernel, error) {
	lr := p.Node.Float("lr", 0)
	return ortNode(p, 2, elemEqualShapes, loop2(sgdLoop(lr)), loop2(sgdLoop(float64(lr))))
}

func sgdLoop[T elemFloat](lr T) func(dst, w, g []T) {
	return func(dst, w, g []T) {
		w, g = w[:len(dst)], g[:len(dst)]
		for i := range dst {
			step := lr * g[i]
			dst[i] = w[i] - step
		}
	}
}

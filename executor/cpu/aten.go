package cpu

import (
	"strings"

	"memopt/executor"
)

// newATen makes the kernel of a call of PyTorch's operator library, where it is one of
// those that exporters of training graphs leave.
func newATen(p *executor.Prep) (executor.Kernel, error) {
	name := p.Node.Str("operator", "")
	switch strings.TrimPrefix(name, "aten::") {
	case "embedding":
		return newEmbedding(p)
	case "embedding_backward", "embedding_dense_backward":
		return newEmbeddingBackward(p)
	}
	return nil, p.Unsupported("no kernel for PyTorch's operator %q", name)
}

// newEmbedding: rows of a matrix by indices. The other inputs (padding_idx, scale_grad_by_freq, sparse)
// are for the gradient.
func newEmbedding(p *executor.Prep) (executor.Kernel, error) {
	if !p.Has(0) || !p.Has(1) {
		return nil, p.Errorf("wanted a matrix and indices as inputs 0 and 1")
	}
	k, err := newGather(p)
	if err != nil {
		return nil, err
	}
	g := k.(*gatherKernel)
	g.axis, g.index.strict = 0, true
	return g, nil
}

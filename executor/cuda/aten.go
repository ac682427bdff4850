package cuda

import (
	"strings"

	"memopt/executor"
)

// newATen makes the kernel of PyTorch's embedding: a Gather of rows whose indices are not negative.
func newATen(d *Device, p *executor.Prep) (executor.Kernel, error) {
	name := strings.TrimPrefix(p.Node.Str("operator", ""), "aten::")
	if name != "embedding" {
		return nil, p.Unsupported("no CUDA kernel for PyTorch's operator %q", name)
	}
	g, err := newGatherer(d, p)
	g.index.strict = 1
	return &gather{gatherer: g}, err
}

package cuda

import (
	"strings"

	"memopt/executor"
	"memopt/executor/cpu"
)

// gemmKernel computes Y = alpha*A'*B' + beta*C, with C broadcast to Y: C is written to Y first.
type gemmKernel struct {
	*product
	beta float64
	bias *broadcastKernel

	activation  *launch // FusedGemm's, on Y, or nil
	alpha, base float32 // its attributes
}

// newGemm makes the kernel of Gemm.
func newGemm(d *Device, p *executor.Prep) (executor.Kernel, error) { return gemm(d, p) }

func gemm(d *Device, p *executor.Prep) (*gemmKernel, error) {
	k, err := d.product(p)
	if err != nil {
		return nil, err
	}
	k.gemm.TransA, k.gemm.TransB = p.Node.Int("transA", 0) != 0, p.Node.Int("transB", 0) != 0
	k.gemm.Alpha = float64(p.Node.Float("alpha", 1))
	bias, err := newExpandOf(d, p.DType(0).Bits()/8)
	if err != nil {
		return nil, err
	}
	return &gemmKernel{product: k, beta: float64(p.Node.Float("beta", 1)), bias: bias}, nil
}

// newFusedGemm makes the kernel of com.microsoft's FusedGemm: the library's product, and the
// activation in its place.
func newFusedGemm(d *Device, p *executor.Prep) (executor.Kernel, error) {
	k, err := gemm(d, p)
	if err != nil {
		return nil, err
	}
	name, alpha, base, err := cpu.GemmActivation(p)
	if err != nil || name == "" {
		return k, err
	}
	t := p.DType(0)
	if !isFloat(t) {
		return nil, noTypes(p)
	}
	k.alpha, k.base = alpha, base
	k.activation, err = d.launch("unary_"+suffix(t), strings.ToLower(name)+"_"+suffix(t))
	return k, err
}

// newExpandOf makes a kernel that stretches a tensor of elements of a size.
func newExpandOf(d *Device, size int) (*broadcastKernel, error) {
	return newBroadcast(d, "expand", "expand_"+string(rune('0'+size)), 1, 1)
}

// expand writes x, stretched, to y.
func (k *broadcastKernel) expand(c *executor.Ctx, x, y *executor.Tensor) error {
	k.in = append(k.in[:0], x)
	k.shape = append(k.shape[:0], y.Shape...)
	if err := k.place(c); err != nil {
		return err
	}
	k.pack(k.begin(), y)
	return k.line(k.n, 1)
}

// Run computes Y.
func (k *gemmKernel) Run(c *executor.Ctx) error {
	a, b, bias, g := c.In(0), c.In(1), c.In(2), &k.gemm
	for i, t := range []*executor.Tensor{a, b} {
		if t.Rank() != 2 {
			return c.Errorf("input %d has shape %v, wanted a matrix", i, t.Shape)
		}
	}
	g.M, g.K, g.N = a.Shape[0], a.Shape[1], b.Shape[1]
	g.LDA, g.LDB = max(g.K, 1), max(g.N, 1)
	inner := b.Shape[0]
	if g.TransA {
		g.M, g.K = g.K, g.M
	}
	if g.TransB {
		g.N, inner = inner, g.N
	}
	if inner != g.K {
		return c.Errorf("shapes %v and %v cannot be multiplied: %d columns meet %d rows", a.Shape, b.Shape, g.K, inner)
	}
	g.LDC, g.Beta = max(g.N, 1), 0
	if bias != nil && !stretches(bias.Shape, g.M, g.N) {
		return c.Errorf("input 2 has shape %v, wanted one that broadcasts to [%d %d]", bias.Shape, g.M, g.N)
	}
	y := c.Out(0, g.M, g.N)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	if bias != nil && k.beta != 0 {
		g.Beta = k.beta
		if err := k.spread(c, bias, y); err != nil {
			return err
		}
	}
	if err := k.multiply(c, a.Data, b.Data, y.Data); err != nil || k.activation == nil {
		return err
	}
	return k.activation.unary(y.Data, y.Data, y.Len(), k.alpha, k.base)
}

// stretches reports whether a shape broadcasts to a matrix's.
func stretches(s []int, m, n int) bool {
	switch len(s) {
	case 0:
		return true
	case 1:
		return s[0] == 1 || s[0] == n
	case 2:
		return (s[0] == 1 || s[0] == m) && (s[1] == 1 || s[1] == n)
	}
	return false
}

// spread writes C to Y, unless it is there.
func (k *gemmKernel) spread(c *executor.Ctx, bias, y *executor.Tensor) error {
	if len(bias.Data) == len(y.Data) {
		if &bias.Data[0] == &y.Data[0] {
			return nil
		}
		return k.d.driver.Copy(k.d.stream, y.Data, bias.Data)
	}
	return k.bias.expand(c, bias, y)
}

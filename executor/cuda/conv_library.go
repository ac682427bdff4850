package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// libraryCase describes a planned convolution to the library, or says why the library cannot
// compute it: it pads both ends of an axis alike.
func (k *convolver) libraryCase(p *convPlan, kind driver.ConvKind) (driver.ConvCase, string) {
	c := driver.ConvCase{Kind: kind, Elem: k.gemm.Elem, TF32: k.gemm.TF32 && k.gemm.Elem == driver.F32, N: p.n, C: p.c,
		M: p.m, Groups: p.group,
		Axes: max(p.Rank, 2), In: p.In, Out: p.Out, Kernel: p.Kernel, Pad: p.Begin, Stride: p.Stride,
		Dilation: p.Dilation}
	if x, w, y := c.Lens(); x == 0 || w == 0 || y == 0 {
		return c, "there is nothing to compute"
	}
	for i := range c.In {
		// span is by how much the padded input is longer than the window.
		span := c.In[i] + 2*c.Pad[i] - (c.Kernel[i]-1)*c.Dilation[i] - 1
		if c.Pad[i] < 0 || span < 0 {
			return c, unevenPadding
		}
		if c.Out[i] == 1 {
			c.Stride[i] = span + 1 // the window stays where it is
		}
		if c.Places(i) != c.Out[i] {
			return c, unevenPadding
		}
	}
	return c, ""
}

const unevenPadding = "cuDNN pads both ends of an axis alike, and by no negative number"

// choice returns how a planned convolution is computed.
func (k *convolver) choice(p *convPlan, kind driver.ConvKind) convChoice {
	c, own := k.libraryCase(p, kind)
	if own != "" {
		return convChoice{own: own}
	}
	return k.d.chooseConv(convKey{c, k.search})
}

// library reports whether the library computes a planned convolution.
func (c *convChoice) library() bool { return c.own == "" && c.err == nil }

// bytes returns the workspace that the library is lent, 0 if own kernels compute the node.
func (c *convChoice) bytes() int { return executor.RoundUp(c.algo.Workspace) }

// convolve lets the library compute a planned convolution, in a workspace that may be larger than
// its algorithm's.
func (k *convolver) convolve(p *convPlan, kind driver.ConvKind, c *convChoice, x, w, y, workspace []byte) error {
	v := &k.conv
	v.ConvCase, _ = k.libraryCase(p, kind)
	nx, nw, ny := v.Lens()
	v.X, v.W, v.Y, v.Algo, v.Workspace = x[:nx*k.size], w[:nw*k.size], y[:ny*k.size], c.algo,
		workspace[:c.algo.Workspace]
	return withoutCuDNN(k.d.driver.Convolve(k.d.stream, v))
}

// work says who computes a planned convolution, for reports; ownBytes is the workspace of own
// kernels.
func (k *convolver) work(p *convPlan, kind driver.ConvKind, what string, ownBytes int) executor.LibraryWork {
	c := k.choice(p, kind)
	w := executor.LibraryWork{Library: "cuDNN", What: what, Own: c.own}
	switch {
	case c.err != nil:
		w.Own = c.err.Error()
	case !c.library():
	case c.clamped < 0:
		w.Workspace, w.Least = int64(c.bytes()), int64(ownBytes)
	default:
		w.Workspace, w.Least = int64(c.bytes()), int64(executor.RoundUp(c.clamped))
	}
	return w
}

// workspace returns the workspace of an operator that is one convolution, of operands X and W; own
// returns that of own kernels.
func (k *convolver) workspace(in [][]int, kind driver.ConvKind, own func(*convPlan) int) int {
	p, err := newConvPlan(k.geometry, in[0], in[1], k.size)
	if err != nil {
		return 0
	}
	if c := k.choice(&p, kind); c.library() {
		return c.bytes()
	}
	return own(&p)
}

// libraryWork says who computes it.
func (k *convolver) libraryWork(
	in [][]int, kind driver.ConvKind, what string, own func(*convPlan) int,
) []executor.LibraryWork {
	p, err := newConvPlan(k.geometry, in[0], in[1], k.size)
	if err != nil {
		return nil
	}
	return []executor.LibraryWork{k.work(&p, kind, what, own(&p))}
}

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"memopt/executor/cuda/driver"
)

// products is the opened driver; if libcublas cannot be opened, memopt's own kernels
// (kernels/gemm.h) compute products of matrices. All multiplications call Gemm here, the one place
// that chooses.
type products struct {
	driver.Driver
	function func(module, name string) (driver.Function, error)

	mu   sync.Mutex
	why  *driver.Missing // why own kernels are used; nil while the library works
	own  map[productKernel]driver.Function
	args driver.Args
}

// productKernel names a kernel of kernels/gemm.h and its type.
type productKernel struct {
	name string
	elem driver.Elem
}

// Gemm multiplies. An empty product decides between library and own kernels, and loads them.
func (p *products) Gemm(s driver.Stream, g *driver.Gemm) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why == nil {
		err := p.Driver.Gemm(s, g)
		if !errors.As(err, &p.why) {
			return err
		}
	}
	if g.M == 0 || g.N == 0 || g.Batch == 0 {
		return p.load(g.Elem)
	}
	if a, b, c := g.Extents(); a > len(g.A) || b > len(g.B) || c > len(g.C) {
		return fmt.Errorf("a product of %dx%d and %dx%d matrices covers %d, %d and %d bytes of its operands and is "+
			"given %d, %d and %d",
			g.M, g.K, g.K, g.N, a, b, c, len(g.A), len(g.B), len(g.C))
	}
	return p.multiply(s, g)
}

// missing returns why own kernels multiply, nil where the library does.
func (p *products) missing() *driver.Missing {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// elemSuffixes end the names of the modules and kernels of gemm.h.
var elemSuffixes = [...]string{driver.F32: "f32", driver.F64: "f64", driver.F16: "f16", driver.BF16: "bf16"}

// load loads the module of a type, and of float32 besides halves, for products that are summed up
// in several steps: in a step that is being captured there is no loading.
func (p *products) load(e driver.Elem) error {
	if _, err := p.kernel("gemmparts", e); err != nil || e.Size() > 2 {
		return err
	}
	_, err := p.kernel("gemmparts", driver.F32)
	return err
}

// kernel returns a kernel of a type.
func (p *products) kernel(name string, e driver.Elem) (driver.Function, error) {
	key := productKernel{name, e}
	f, ok := p.own[key]
	if ok {
		return f, nil
	}
	f, err := p.function("gemm_"+elemSuffixes[e], name+"_"+elemSuffixes[e])
	if err == nil {
		p.own[key] = f
	}
	return f, err
}

// ownWorkspace is how much of the arena is lent to own kernels for the sums of the pieces of K.
const ownWorkspace = 8 << 20

// libraryWorkspace is the share of the arena that is lent for a product: for cuBLAS the
// recommendation of its documentation, which depends on whether the GPU is of the Hopper generation
// or later.
func (d *Device) libraryWorkspace() int {
	switch {
	case d.products.missing() != nil:
		return ownWorkspace
	case d.driver.Info().Major >= 9:
		return 32 << 20
	}
	return 4 << 20
}

// Remarks are a report's remarks on the device: that own kernels multiply, and why.
func (d *Device) Remarks() []string {
	if why := d.products.missing(); why != nil {
		return []string{"products of matrices by memopt's own kernels, without tensor cores: " + why.Error()}
	}
	return nil
}

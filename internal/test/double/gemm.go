package double

import (
	"errors"
	"fmt"
	"unsafe"

	"memopt/executor/cuda/driver"
	"memopt/internal/half"
)

// Gemm multiplies in the plainest way, with sums in float64.
func (d *Double) Gemm(s driver.Stream, g *driver.Gemm) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opts.NoLibrary {
		return &driver.Missing{Err: errors.New("the double has no libcublas")}
	}
	d.counts.Gemms++
	ea, eb, ec := g.Extents()
	if ea > len(g.A) || eb > len(g.B) || ec > len(g.C) {
		return fmt.Errorf("double: a product of operands that cover %d, %d and %d bytes is given %d, %d and %d",
			ea, eb, ec, len(g.A), len(g.B), len(g.C))
	}
	if least := max(1, g.N); g.LDC < least || g.LDA < 1 || g.LDB < 1 {
		return fmt.Errorf("double: a product with leading dims %d, %d and %d", g.LDA, g.LDB, g.LDC)
	}
	if d.now(s) {
		return d.multiply(*g)
	}
	kept := *g
	return d.later(s, func() error { return d.multiply(kept) })
}

// multiply multiplies the contents of the operands' device addresses.
func (d *Double) multiply(g driver.Gemm) (err error) {
	for _, m := range [...]*[]byte{&g.A, &g.B, &g.C, &g.Workspace} {
		if *m, err = d.find(*m); err != nil {
			return err
		}
	}
	fill(g.Workspace[:min(len(g.Workspace), 4096)], poison) // the library may have anything there
	multiply(&g)
	return nil
}

func multiply(g *driver.Gemm) {
	size := g.Elem.Size()
	at := func(b []byte, i int) unsafe.Pointer { return unsafe.Pointer(&b[i*size]) }
	for batch := range g.Batch {
		for i := range g.M {
			for j := range g.N {
				var sum float64
				for l := range g.K {
					x, y := i*g.LDA+l, l*g.LDB+j
					if g.TransA {
						x = l*g.LDA + i
					}
					if g.TransB {
						y = j*g.LDB + l
					}
					sum += element(g.Elem, at(g.A, batch*g.StrideA+x)) * element(g.Elem, at(g.B, batch*g.StrideB+y))
				}
				c := at(g.C, batch*g.StrideC+i*g.LDC+j)
				sum *= g.Alpha
				if g.Beta != 0 {
					sum += g.Beta * element(g.Elem, c)
				}
				setElement(g.Elem, c, sum)
			}
		}
	}
}

func element(e driver.Elem, p unsafe.Pointer) float64 {
	switch e {
	case driver.F32:
		return float64(*(*float32)(p))
	case driver.F16:
		return float64((*(*half.Float16)(p)).Float32())
	case driver.BF16:
		return float64((*(*half.BFloat16)(p)).Float32())
	}
	return *(*float64)(p)
}

func setElement(e driver.Elem, p unsafe.Pointer, v float64) {
	switch e {
	case driver.F32:
		*(*float32)(p) = float32(v)
	case driver.F16:
		*(*half.Float16)(p) = half.Float16From(float32(v))
	case driver.BF16:
		*(*half.BFloat16)(p) = half.BFloat16From(float32(v))
	default:
		*(*float64)(p) = v
	}
}

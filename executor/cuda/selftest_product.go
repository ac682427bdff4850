package cuda

import (
	"fmt"

	"memopt/executor/cuda/driver"
	"memopt/graph"
)

// selftestProducts multiplies matrices of small integers by the device's own kernels, library or
// not: every type, every tile, K in pieces, and a vector.
func (d *Device) selftestProducts() error {
	for _, t := range [...]graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		for _, tile := range [...]int{0, 32, 64, 128} { // 0 means a vector
			if tile == 128 && t == graph.Float64 {
				continue
			}
			if err := d.selftestProduct(t, tile); err != nil {
				return fmt.Errorf("self-test of products of %v in tiles of %d: %w", t, tile, err)
			}
		}
	}
	return nil
}

// selftestProduct multiplies matrices of integers from -2 to 3, whose sums every type rounds at
// most once.
func (d *Device) selftestProduct(t graph.DType, tile int) error {
	const m, k = 131, 70
	n := 67
	if tile == 0 {
		n = 1
	}
	side := func(i, l int) float64 { return float64(i%5 - 2 + l%2) }
	x, w, want := make([]float64, m*k), make([]float64, n*k), make([]float64, m*n)
	for l := range k {
		for i := range m {
			x[i*k+l] = side(i, l)
		}
		for j := range n {
			w[j*k+l] = side(j, l/2)
		}
	}
	for i := range want {
		for l := range k {
			want[i] += side(i/n, l) * side(i%n, l/2)
		}
	}
	mem := d.Memory()
	e, _ := elemOf(t)
	g := &driver.Gemm{Elem: e, M: m, N: n, K: k, Alpha: 1, Batch: 1, LDA: k, LDB: k, LDC: n, TransB: true}
	for _, o := range []struct {
		to   *[]byte
		data []byte
	}{{&g.A, elementsOf(t, x)}, {&g.B, elementsOf(t, w)}, {&g.C, elementsOf(t, want)},
		{&g.Workspace, make([]byte, 3*m*n*8)}} {
		b, err := mem.Alloc(len(o.data))
		if err != nil {
			return err
		}
		defer mem.Free(b)
		*o.to = b
		if err := mem.CopyIn(b, o.data); err != nil {
			return err
		}
	}
	if err := mem.Fill(g.C, 0); err != nil {
		return err
	}
	if err := d.products.by(d.stream, g, tile); err != nil {
		return err
	}
	got := make([]byte, len(g.C))
	if err := mem.CopyOut(got, g.C); err != nil {
		return err
	}
	if string(got) != string(elementsOf(t, want)) {
		return fmt.Errorf("the bytes are %x, wanted %x", got[:16], elementsOf(t, want)[:16])
	}
	return nil
}

// by computes a product by the device's own kernels in tiles of a size and three pieces of K, or as
// that of a vector.
func (p *products) by(s driver.Stream, g *driver.Gemm, tile int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tile == 0 {
		return p.vector(s, g)
	}
	return p.tiles(s, g, productPlan{tile: tile, pieces: 3, chunk: 32})
}

// elementsOf returns numbers as a type lays them out in memory.
func elementsOf(t graph.DType, x []float64) []byte {
	b := make([]byte, 0, len(x)*t.Bits()/8)
	for _, v := range x {
		bits, _ := bitsOf(t, v)
		for i := range t.Bits() / 8 { // the lowest byte comes first
			b = append(b, byte(bits>>(8*i)))
		}
	}
	return b
}

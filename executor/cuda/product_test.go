package cuda_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor/cuda"
	"memopt/executor/cuda/driver"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
)

// productCase is a product with its operands as numbers that the element type has.
type productCase struct {
	g       driver.Gemm
	a, b, c []float64
	shift   int // elements by which the operands are off a multiple of 256 bytes
	room    int // bytes of workspace
}

// drawProduct draws a product: sizes around those of tiles, matrices with gaps between rows,
// batches that share an operand.
func drawProduct(t *rapid.T) *productCase {
	size := rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(1, 150), rapid.SampledFrom([]int{1, 32, 64, 128}))
	p := &productCase{
		shift: rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "shift"),
		room:  rapid.SampledFrom([]int{0, 1 << 20}).Draw(t, "room"),
	}
	g := &p.g
	g.Elem = rapid.SampledFrom([]driver.Elem{driver.F32, driver.F64, driver.F16, driver.BF16}).Draw(t, "type")
	g.M, g.N = size.Draw(t, "M"), size.Draw(t, "N")
	g.K = rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(500, 600)).Draw(t, "K")
	g.TransA, g.TransB = rapid.Bool().Draw(t, "transA"), rapid.Bool().Draw(t, "transB")
	g.Alpha = rapid.SampledFrom([]float64{1, -0.5, 0}).Draw(t, "alpha")
	g.Beta = rapid.SampledFrom([]float64{0, 0, 1, 0.25}).Draw(t, "beta")
	g.Batch = rapid.IntRange(1, 3).Draw(t, "batch")
	gap := rapid.SampledFrom([]int{0, 0, 1, 8})
	matrix := func(rows, cols int, share bool, name string) (ld, stride, n int) {
		ld = max(cols+gap.Draw(t, "gap"+name), 1)
		stride = rows*ld + gap.Draw(t, "apart"+name)
		if share && rapid.Bool().Draw(t, "shared"+name) {
			stride = 0
		}
		return ld, stride, (g.Batch-1)*stride + rows*ld
	}
	rows := func(trans bool, r, c int) (int, int) {
		if trans {
			return c, r
		}
		return r, c
	}
	ra, ca := rows(g.TransA, g.M, g.K)
	rb, cb := rows(g.TransB, g.K, g.N)
	var na, nb, nc int
	g.LDA, g.StrideA, na = matrix(ra, ca, true, "A")
	g.LDB, g.StrideB, nb = matrix(rb, cb, true, "B")
	g.LDC, g.StrideC, nc = matrix(g.M, g.N, false, "C")
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	p.a, p.b, p.c = numbers(r, na), numbers(r, nb), numbers(r, nc)
	return p
}

// numbers makes up n multiples of 1/64 in [-1, 1]: all types have them, and float32 the sums of
// hundreds of their products, so that results are rounded once, in whatever order they are added
// up.
func numbers(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(r.IntN(129)-64) / 64
	}
	return x
}

// multiplied runs a product on a device, with operands that begin shift elements behind a multiple
// of 256 bytes.
func multiplied(d *cuda.Device, g driver.Gemm, a, b, c []byte, shift, room int) ([]byte, error) {
	m, off := d.Memory(), shift*g.Elem.Size()
	for _, o := range []struct {
		to   *[]byte
		data []byte
		off  int
	}{{&g.A, a, off}, {&g.B, b, off}, {&g.C, c, off}, {&g.Workspace, make([]byte, room), 0}} {
		mem, err := m.Alloc(len(o.data) + o.off)
		if err != nil {
			return nil, err
		}
		defer m.Free(mem)
		*o.to = mem[o.off:]
		if err := m.CopyIn(*o.to, o.data); err != nil {
			return nil, err
		}
	}
	if err := cuda.Multiply(d, &g); err != nil {
		return nil, err
	}
	y := make([]byte, len(c))
	return y, m.CopyOut(y, g.C)
}

// ownProducts returns a device, the GPU where there is one, whose own kernels multiply and that
// cuts products for few blocks, so that small ones have all tiles and several pieces.
func ownProducts(t *testing.T) *cuda.Device {
	d := device(t, double.Options{NoLibrary: true})
	t.Cleanup(cuda.OwnProducts(d))
	blocks, batch := cuda.SetProductBlocks(2), cuda.SetMostBatch(2)
	t.Cleanup(func() { cuda.SetProductBlocks(blocks); cuda.SetMostBatch(batch) })
	return d
}

// TestProductsLikeLoops: own kernels multiply as the double does in three loops, and leave what
// lies between the rows of C.
func TestProductsLikeLoops(t *testing.T) {
	d := ownProducts(t)
	loops, dbl := opened(t, double.Options{})
	rapid.Check(t, func(t *rapid.T) {
		p := drawProduct(t)
		a, b, c := cuda.ElementsOf(p.g.Elem, p.a), cuda.ElementsOf(p.g.Elem, p.b), cuda.ElementsOf(p.g.Elem, p.c)
		want, err := multiplied(loops, p.g, a, b, c, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := multiplied(d, p.g, a, b, c, p.shift, p.room)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%+v: got %x, wanted %x", p.g, got, want)
		}
	})
	require.Positive(t, dbl.Counts().Gemms)
}

// TestProductsAtAnyAddress: the same operands give the same bits wherever they lie, also where
// packs of 16 bytes cannot be read.
func TestProductsAtAnyAddress(t *testing.T) {
	d := ownProducts(t)
	rapid.Check(t, func(t *rapid.T) {
		p := drawProduct(t)
		e := p.g.Elem
		for _, x := range [][]float64{p.a, p.b, p.c} {
			for i := range x {
				x[i] = math.Sin(float64(i) + x[i])
			}
		}
		a, b, c := cuda.ElementsOf(e, p.a), cuda.ElementsOf(e, p.b), cuda.ElementsOf(e, p.c)
		want, err := multiplied(d, p.g, a, b, c, 0, p.room)
		if err != nil {
			t.Fatal(err)
		}
		got, err := multiplied(d, p.g, a, b, c, 1, p.room)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%+v: the bits depend on the address", p.g)
		}
	})
}

// TestProductPlans: large products have large tiles, few tiles and a long K more pieces, and
// vectors and slim matrices small tiles.
func TestProductPlans(t *testing.T) {
	room := make([]byte, 8<<20)
	for _, c := range []struct{ m, n, k, batch, tile, pieces int }{
		{4096, 4096, 4096, 1, 128, 1}, {768, 768, 8192, 1, 128, 3}, {512, 512, 512, 1, 64, 2}, {128, 64, 64, 96, 64, 1},
		{100000, 20, 64, 1, 32, 1}, {64, 576, 100000, 1, 64, 14}, {40, 40, 100, 1, 32, 1}, {256, 256, 0, 200, 128, 1},
	} {
		tile, pieces := cuda.ProductTile(&driver.Gemm{M: c.m, N: c.n, K: c.k, Batch: c.batch, Workspace: room})
		require.Equal(t, [2]int{c.tile, c.pieces}, [2]int{tile, pieces}, "%+v", c)
	}
	tile, pieces := cuda.ProductTile(&driver.Gemm{M: 256, N: 256, K: 4096, Batch: 1})
	require.Equal(t, [2]int{32, 1}, [2]int{tile, pieces}, "no workspace, no pieces")
}

// TestProductCasesWithoutLibrary runs the conformance cases of all operators that multiply matrices
// by own kernels.
func TestProductCasesWithoutLibrary(t *testing.T) {
	d, dbl := opened(t, double.Options{NoLibrary: true})
	kinds := []graph.Kind{op.MatMul, op.FusedMatMul, op.Gemm, op.Conv, op.ConvTranspose, op.FusedConv, op.ConvGrad}
	for _, c := range cases() {
		if slices.Contains(kinds, c.Kind) {
			t.Run(c.Label(), func(t *testing.T) { kerneltest.Check(t, d, c) })
		}
	}
	require.Zero(t, dbl.Counts().Gemms)
	require.Len(t, d.Remarks(), 1)
}

// TestProductErrors: operands that are too short are told before a kernel runs.
func TestProductErrors(t *testing.T) {
	d := ownProducts(t)
	g := driver.Gemm{M: 4, N: 4, K: 4, LDA: 4, LDB: 4, LDC: 4, Batch: 1, Alpha: 1}
	_, err := multiplied(d, g, make([]byte, 64), make([]byte, 60), make([]byte, 64), 0, 0)
	require.ErrorContains(t, err,
		"a product of 4x4 and 4x4 matrices covers 64, 64 and 64 bytes of its operands and is given 64, 60 and 64")
}

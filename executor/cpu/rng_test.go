package cpu_test

import (
	"bytes"
	"math"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// drawMemory gives running nodes fresh memory.
type drawMemory struct{}

func (drawMemory) Output(_, n int) ([]byte, error) { return make([]byte, (n+7)&^7)[:n], nil }
func (drawMemory) Scratch(n int) ([]byte, error)   { return make([]byte, (n+7)&^7)[:n], nil }

// draws runs one node of a kind with inputs in, several times with several steps.
type draws struct {
	kind    graph.Kind
	attrs   []graph.Attr
	in      []*executor.Tensor
	out     []graph.DType
	seed    uint64
	threads int
}

func (d draws) run(t *testing.T, step uint64) []*executor.Tensor {
	t.Helper()
	info := op.Of(d.kind)
	p := &executor.Prep{Node: &graph.Node{Op: info.Name, Kind: d.kind, Attrs: d.attrs}, Label: info.Name, Info: info,
		Version: info.SinceVersion(1 << 30),
		Out:     d.out, Seed: d.seed, Threads: max(d.threads, 1)}
	for _, x := range d.in {
		p.In = append(p.In, x.DType)
	}
	var outs []*executor.Tensor
	for _, o := range d.out {
		outs = append(outs, &executor.Tensor{DType: o})
	}
	k, err := cpu.Device{}.Kernel(p)
	require.NoError(t, err)
	pool := executor.NewPool(p.Threads)
	defer pool.Close()
	c := executor.NewCtx(p, pool, drawMemory{}, d.in, outs)
	c.Step = step
	require.NoError(t, executor.Invoke(k, c))
	return outs
}

// dropout is a training dropout of n ones.
func dropout(n int, d graph.DType, ratio float32, attrs ...graph.Attr) draws {
	x := &executor.Tensor{DType: d, Shape: []int{n}, Data: make([]byte, (n*d.Bits()/8+7)&^7)[:n*d.Bits()/8]}
	return draws{kind: op.Dropout, attrs: attrs, out: []graph.DType{d, graph.Bool},
		in: []*executor.Tensor{x, executor.NewTensor(graph.Float32, []int{}, ratio),
			executor.NewTensor[uint8](graph.Bool, []int{}, 1)}}
}

func seedAttr(seed int64) graph.Attr { return graph.Attr{Name: "seed", Value: seed} }

// within fails if a count of n independent events of probability p is more than 5 standard
// deviations off.
func within(t *testing.T, count, n int, p float64, what string) {
	t.Helper()
	sigma := math.Sqrt(float64(n) * p * (1 - p))
	if off := math.Abs(float64(count) - float64(n)*p); off > 5*sigma {
		t.Errorf("%s: %d of %d, wanted about %.0f ± %.0f", what, count, n, float64(n)*p, sigma)
	}
}

func ones(mask []byte) int { return bytes.Count(mask, []byte{1}) }

func TestDropoutKeepsTheRightShare(t *testing.T) {
	const n = 1 << 20
	for _, ratio := range []float32{0.001, 0.1, 0.5, 0.9} {
		for _, seed := range []int64{0, 1, -1, 12345} {
			mask := dropout(n, graph.Float32, ratio, seedAttr(seed)).run(t, 0)[1].Data
			p := 1 - float64(ratio)
			within(t, ones(mask), n, p, "kept")
			both := 0
			for i := range n - 1 {
				both += int(mask[i] & mask[i+1])
			}
			// Pairs overlap and so are not independent; three times the variance bounds it.
			within(t, (both+1)/3, n/3, p*p, "neighbours kept")
			for _, row := range []int{4, 64, 1024} {
				same := 0
				for i := range n - row {
					same += int(1 - mask[i] ^ mask[i+row])
				}
				within(t, same/3, (n-row)/3, p*p+(1-p)*(1-p), "alike at a distance")
			}
		}
	}
}

func TestDropoutMaskDependsOnSeedAndStepOnly(t *testing.T) {
	const n = 100_003
	base := dropout(n, graph.Float32, 0.3, seedAttr(7))
	want := base.run(t, 5)[1].Data
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		for _, threads := range []int{1, 2, 3, 8} {
			s := dropout(n, d, 0.3, seedAttr(7))
			s.threads, s.seed = threads, uint64(threads)
			assert.True(t, bytes.Equal(want, s.run(t, 5)[1].Data), "%v, %d threads", d, threads)
		}
	}
	packed := base
	packed.kind, packed.out = op.BitmaskDropout, []graph.DType{graph.Float32, graph.Uint32}
	bits := executor.Of[uint32](packed.run(t, 5)[1])
	for i, m := range want {
		require.Equal(t, uint32(m), bits[i/32]>>(i%32)&1, i)
	}
}

// TestStepsAndSeedsDrawAnew compares masks of different steps and seeds: half of the elements are
// equal.
func TestStepsAndSeedsDrawAnew(t *testing.T) {
	const n = 1 << 18
	other := func(seed int64, step uint64) []byte {
		return dropout(n, graph.Float32, 0.5, seedAttr(seed)).run(t, step)[1].Data
	}
	session := func(seed uint64) []byte {
		d := dropout(n, graph.Float32, 0.5)
		d.seed = seed
		return d.run(t, 0)[1].Data
	}
	masks := [][]byte{other(1, 0), other(1, 1), other(1, 2), other(1, 1<<32), other(2, 0), other(1<<32+1, 0),
		session(10), session(11)}
	for i, a := range masks {
		for _, b := range masks[:i] {
			alike := 0
			for k := range a {
				alike += int(1 - a[k] ^ b[k])
			}
			within(t, alike, n, 0.5, "masks alike")
		}
	}
}

// distributions test what the operators that draw promise of their draws, by mean, variance and
// shares.
var distributions = map[graph.Kind]func(t *testing.T, k graph.Kind){
	op.RandomUniform: uniform, op.RandomUniformLike: uniform, op.RandomNormal: normal, op.RandomNormalLike: normal,
	op.Bernoulli: bernoulli, op.Multinomial: multinomial, op.Dropout: kept, op.BitmaskDropout: kept,
	op.BiasDropout: kept, op.BitmaskBiasDropout: kept, op.BiasSoftmaxDropout: kept,
}

// TestDraws: each operator whose cases rest on memopt's own streams has the distribution that it
// promises.
func TestDraws(t *testing.T) {
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		test := distributions[k]
		require.Equal(t, kerneltest.OracleOf(k).By&kerneltest.Streams != 0, test != nil, op.Of(k).Name)
		if test != nil {
			t.Run(op.Of(k).Name, func(t *testing.T) { test(t, k) })
		}
	}
}

// manyDraws is how many draws are examined.
const manyDraws = 1 << 18

// numbers draws, by a shape or by a tensor to resemble.
func numbers(t *testing.T, k graph.Kind) []float64 {
	d := draws{kind: k, out: []graph.DType{graph.Float64}, seed: 3}
	if op.Of(k).Inputs.Max == 0 {
		d.attrs = []graph.Attr{{Name: "shape", Value: []int64{manyDraws}}}
	} else {
		d.in = []*executor.Tensor{executor.NewTensor(graph.Float64, []int{manyDraws}, make([]float64, manyDraws)...)}
	}
	return executor.Of[float64](d.run(t, 0)[0])
}

func moments(v []float64) (mean, variance float64) {
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	for _, x := range v {
		variance += (x - mean) * (x - mean) / n
	}
	return mean, variance
}

func uniform(t *testing.T, k graph.Kind) {
	u := numbers(t, k)
	mean, variance := moments(u)
	assert.InDelta(t, 0.5, mean, 5*math.Sqrt(1.0/12/manyDraws))
	assert.InDelta(t, 1.0/12, variance, 5*math.Sqrt(1.0/180/manyDraws))
	for i := range 10 {
		count := 0
		for _, x := range u {
			if int(x*10) == i {
				count++
			}
		}
		within(t, count, manyDraws, 0.1, "in a tenth")
	}
}

func normal(t *testing.T, k graph.Kind) {
	z := numbers(t, k)
	mean, variance := moments(z)
	assert.InDelta(t, 0, mean, 5*math.Sqrt(1.0/manyDraws))
	assert.InDelta(t, 1, variance, 5*math.Sqrt(2.0/manyDraws))
	tail, pairs := 0, 0.0
	for i, x := range z {
		if x > 1.959964 {
			tail++
		}
		if i%2 == 1 {
			pairs += x * z[i-1] / (manyDraws / 2)
		}
	}
	within(t, tail, manyDraws, 0.025, "above 1.96")
	assert.InDelta(t, 0, pairs, 5*math.Sqrt(2.0/manyDraws), "correlation of pairs")
}

func bernoulli(t *testing.T, k graph.Kind) {
	for _, p := range []float64{0, 0.1, 0.5, 0.99, 1} {
		x := make([]float64, manyDraws)
		for i := range x {
			x[i] = p
		}
		d := draws{kind: k, in: []*executor.Tensor{executor.NewTensor(graph.Float64, []int{manyDraws}, x...)},
			out: []graph.DType{graph.Bool}, seed: 3}
		within(t, ones(d.run(t, 0)[0].Data), manyDraws, p, "drawn")
	}
}

func multinomial(t *testing.T, k graph.Kind) {
	x := executor.NewTensor[float32](graph.Float32, []int{1, 3}, 0, float32(math.Log(2)), float32(math.Log(5)))
	m := draws{kind: k, attrs: []graph.Attr{{Name: "sample_size", Value: int64(manyDraws)}},
		in: []*executor.Tensor{x}, out: []graph.DType{graph.Int32}}
	var count [3]int
	for _, c := range executor.Of[int32](m.run(t, 0)[0]) {
		count[c]++
	}
	for i, p := range []float64{0.125, 0.25, 0.625} {
		within(t, count[i], manyDraws, p, "class drawn")
	}
}

// kept checks how many elements dropouts keep.
func kept(t *testing.T, k graph.Kind) {
	const ratio = 0.3
	row := []int{manyDraws / 64, 64}
	tensor := func(shape ...int) *executor.Tensor {
		x := &executor.Tensor{DType: graph.Float32, Shape: shape}
		return executor.NewTensor(graph.Float32, shape, make([]float32, x.Len())...)
	}
	d := draws{kind: k, attrs: []graph.Attr{seedAttr(9)}, in: []*executor.Tensor{tensor(row...)},
		out: []graph.DType{graph.Float32, graph.Bool}}
	one := executor.NewTensor[uint8](graph.Bool, []int{}, 1)
	share := executor.NewTensor[float32](graph.Float32, []int{}, ratio)
	switch k {
	case op.BiasSoftmaxDropout:
		d.attrs = append(d.attrs, graph.Attr{Name: "axis", Value: int64(1)})
		d.in = append(d.in, tensor(row...), share)
	case op.BiasDropout, op.BitmaskBiasDropout:
		d.in = append(d.in, tensor(64), tensor(row...), share, one)
	default:
		d.in = append(d.in, share, one)
	}
	if k == op.BitmaskDropout || k == op.BitmaskBiasDropout {
		d.out[1] = graph.Uint32
	}
	count := 0
	for _, b := range d.run(t, 0)[1].Data {
		count += bits.OnesCount8(b)
	}
	within(t, count, manyDraws, 1-ratio, "kept")
}

func BenchmarkDropout(b *testing.B) {
	const n = 1 << 22
	d := dropout(n, graph.Float32, 0.1, seedAttr(1))
	p := &executor.Prep{Node: &graph.Node{Op: "Dropout", Kind: op.Dropout}, Info: op.Of(op.Dropout), Version: 13,
		In: []graph.DType{graph.Float32, graph.Float32, graph.Bool}, Out: d.out, Threads: 1}
	k, err := cpu.Device{}.Kernel(p)
	require.NoError(b, err)
	pool := executor.NewPool(1)
	defer pool.Close()
	outs := []*executor.Tensor{{DType: graph.Float32}, {DType: graph.Bool}}
	mem := &keptMemory{}
	c := executor.NewCtx(p, pool, mem, d.in, outs)
	b.SetBytes(9 * n)
	for b.Loop() {
		mem.used = 0
		require.NoError(b, executor.Invoke(k, c))
	}
}

// keptMemory gives the same memory in every run.
type keptMemory struct {
	pieces [][]byte
	used   int
}

func (m *keptMemory) Output(_, n int) ([]byte, error) {
	if m.used == len(m.pieces) {
		m.pieces = append(m.pieces, make([]byte, n))
	}
	m.used++
	return m.pieces[m.used-1], nil
}

func (m *keptMemory) Scratch(n int) ([]byte, error) { return m.Output(0, n) }

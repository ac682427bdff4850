package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// TestFactors: each case of a kernel, cut in two along each factor that its operator's row gives, makes
// the same outputs in parts as in one: with equal bits where the factor's grain says so, whatever the
// number of threads.
func TestFactors(t *testing.T) {
	seen := map[graph.Kind]bool{}
	for _, c := range append(kerneltest.All(), largeCases()...) {
		if c.Fails != "" || op.Of(c.Kind).Factors == nil {
			continue
		}
		whole, err := kerneltest.Run(cpu.Device{}, &c, kerneltest.Setup{Threads: 1, Runs: 1})
		require.NoError(t, err, c.Label())
		for _, f := range op.FactorsOf(pieces(&c, whole)) {
			seen[c.Kind] = true
			places := []int64{1, f.Size / 2, f.Size - 1}
			for at := f.Grain; f.Grain > 1 && at < f.Size; at += f.Grain {
				places = append(places, at)
			}
			for _, at := range slices.Compact(places) {
				cut := cutting{c: &c, f: f, whole: whole}
				cut.draws, cut.stride = op.DrawsPerPlace(pieces(&c, whole), &f)
				if err := cut.check(at); err != nil {
					t.Errorf("%s: %+v at %d: %v", c.Label(), f, at, err)
				}
			}
		}
	}
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		if info := op.Of(k); info.Factors != nil && !seen[k] && !alike[k] {
			t.Errorf("%s: no case has a factor", info.Name)
		}
	}
}

// alike are operators whose cases have one place along each factor; their rules are those of
// ScatterElements and Resize.
var alike = map[graph.Kind]bool{op.Scatter: true, op.Upsample: true, op.ResizeGrad: true}

// pieces is the node of a case, as the rules of the table see it.
func pieces(c *kerneltest.Case, whole []*executor.Tensor) *op.Pieces {
	info := op.Of(c.Kind)
	g := graph.New("case", nil)
	n := &graph.Node{Op: info.Name, Domain: info.Domain, Kind: c.Kind, Attrs: c.Attrs}
	var dims [][]int64
	add := func(x *executor.Tensor, given bool) graph.ValueID {
		if x == nil {
			return graph.NoValue
		}
		v := g.Value(fmt.Sprintf("v%d", len(dims)))
		d := make([]int64, len(x.Shape))
		for i, n := range x.Shape {
			d[i] = int64(n)
		}
		g.Values[v].Type = graph.Type{Form: graph.FormTensor, DType: x.DType}
		if dims = append(dims, d); given {
			g.Values[v].Data = &graph.TensorData{DType: x.DType, Dims: d, Source: graph.Raw(x.Data)}
		}
		return v
	}
	for _, x := range c.In {
		n.Inputs = append(n.Inputs, add(x, true))
	}
	for _, x := range whole {
		n.Outputs = append(n.Outputs, add(x, false))
	}
	version := int64(c.Opset)
	if version == 0 {
		version = 1 << 30
	}
	return &op.Pieces{Graph: g, Node: n, Version: info.SinceVersion(version),
		Dims: func(v graph.ValueID) []int64 { return dims[v] }}
}

// cutting is a case that is cut along a factor.
type cutting struct {
	c     *kerneltest.Case
	f     op.Factor
	whole []*executor.Tensor
	// draws and stride are those of op.DrawsPerPlace.
	draws, stride int64
}

// check runs both parts and compares what they make with the whole.
func (x *cutting) check(at int64) error {
	var parts [2][]*executor.Tensor
	for i, r := range [][2]int64{{0, at}, {at, x.f.Size}} {
		part := x.part(r[0], r[1], i == 0)
		if i == 1 && x.f.Reduce == op.SumOf && (x.exact(at) && continues[x.c.Kind] != op.Unknown || x.needsSum()) {
			goOn(part, parts[0][0])
			parts[0][0] = nil
		}
		var err error
		parts[i], err = kerneltest.Run(cpu.Device{}, part, kerneltest.Setup{Threads: 1 + i, Runs: 1})
		if err != nil {
			return err
		}
	}
	for slot, want := range x.whole {
		if want == nil {
			continue
		}
		var got *executor.Tensor
		if p := x.f.Out[slot]; parts[0][slot] == nil {
			got = parts[1][slot]
		} else if p.Cut() {
			got = glue(parts[0][slot], parts[1][slot], p, at, x.f.Size)
		} else {
			var err error
			if got, err = x.combine(parts[0][slot], parts[1][slot], at); err != nil {
				return err
			}
		}
		tol := max(x.c.Tol, 1e-5)
		if want.DType.Bits() < 32 && want.DType.IsFloat() {
			tol = 0.1 // sums of parts are rounded twice
		}
		if x.exact(at) {
			tol = 0
		}
		if got == nil {
			return fmt.Errorf("output %d: the parts do not make the whole", slot)
		}
		if x.f.Reduce == op.MeanOf && !want.DType.IsFloat() {
			continue // a quotient of integers
		}
		if op.Of(x.c.Kind).Random && x.draws == 0 {
			if !slices.Equal(got.Shape, want.Shape) {
				return fmt.Errorf("output %d has the shape %v, wanted %v", slot, got.Shape, want.Shape)
			}
			continue
		}
		if err := kerneltest.Compare(got, want, tol); err != nil {
			return fmt.Errorf("output %d: %w", slot, err)
		}
	}
	return nil
}

// needsSum reports whether the operator always adds to something.
func (x *cutting) needsSum() bool {
	return len(x.f.Once) > 0 && op.Of(x.c.Kind).Inputs.Min > x.f.Once[0]
}

// exact reports whether parts that begin at a place promise the bits of the whole.
func (x *cutting) exact(at int64) bool { return x.f.Grain > 0 && at%x.f.Grain == 0 }

// continues are the products that another product goes on with where there are stacks of matrices.
var continues = map[graph.Kind]graph.Kind{op.MatMul: op.MatMulAdd, op.FusedMatMul: op.FusedMatMulAdd,
	op.MatMulAdd: op.MatMulAdd, op.FusedMatMulAdd: op.FusedMatMulAdd, op.Gemm: op.Gemm}

// goOn makes a product one that adds to the sum so far: a Gemm of two matrices.
func goOn(c *kerneltest.Case, sum *executor.Tensor) {
	if c.Kind = continues[c.Kind]; len(c.In[0].Shape) == 2 && len(c.In[1].Shape) == 2 {
		c.Kind = op.Gemm
	}
	c.Opset, c.In = 0, []*executor.Tensor{c.In[0], c.In[1], sum}
	c.Attrs = slices.DeleteFunc(slices.Clone(c.Attrs), func(a graph.Attr) bool { return a.Name == "beta" })
}

// part is the case of one part.
func (x *cutting) part(from, to int64, first bool) *kerneltest.Case {
	c := *x.c
	c.In = slices.Clone(c.In)
	if op.Of(c.Kind).Random && x.draws > 0 {
		run := int64(0)
		if x.stride > 0 {
			run = (to - from) * x.draws
		}
		n := &graph.Node{Kind: c.Kind, Attrs: slices.Clone(c.Attrs)}
		n.EditRare(func(r *graph.Rare) { r.Metadata = c.Meta })
		if err := op.SetDrawRuns(n, "", from*x.draws, run, x.stride); err != nil {
			panic(err) // of numbers within a tensor
		}
		c.Attrs, c.Meta = n.Attrs, n.Rare().Metadata
	}
	for slot, in := range c.In {
		switch {
		case in == nil:
		case x.f.In[slot].Cut():
			c.In[slot] = pick(in, x.f.In[slot], from, to, x.f.Size)
		case slices.Contains(x.f.Once, slot) && !first:
			c.In[slot] = nil
		case slices.Contains(op.Of(c.Kind).Shapes, slot) && x.f.Out[0].Cut():
			p := x.f.Out[0]
			shape := slices.Clone(x.whole[0].Shape)
			shape[p.Dim] = int(p.Outer * (to - from) * p.Inner)
			data := make([]byte, 0, 8*len(shape))
			for _, n := range shape {
				data = binary.LittleEndian.AppendUint64(data, uint64(n))
			}
			c.In[slot] = &executor.Tensor{DType: graph.Int64, Shape: []int{len(shape)}, Data: data}
		}
	}
	return &c
}

// rows calls f with runs of bytes: for all before the dim, for every place of its outer part, one run of
// the elements of a range of the factor.
func rows(x *executor.Tensor, p op.Place, size int64, f func(row []byte)) {
	behind := 1
	for _, n := range x.Shape[p.Dim+1:] {
		behind *= n
	}
	width := int(size*p.Inner) * behind * x.DType.Bits() / 8
	for at := 0; at < len(x.Data); at += width {
		f(x.Data[at : at+width])
	}
}

// pick takes a range of a factor out of an operand.
func pick(x *executor.Tensor, p op.Place, from, to, size int64) *executor.Tensor {
	y := &executor.Tensor{DType: x.DType, Shape: slices.Clone(x.Shape)}
	y.Shape[p.Dim] = int(p.Outer * (to - from) * p.Inner)
	rows(x, p, size, func(row []byte) {
		each := len(row) / int(size)
		y.Data = append(y.Data, row[int(from)*each:int(to)*each]...)
	})
	return y
}

// glue puts two parts together; nil: they do not fit.
func glue(a, b *executor.Tensor, p op.Place, at, size int64) *executor.Tensor {
	y := &executor.Tensor{DType: a.DType, Shape: slices.Clone(a.Shape)}
	y.Shape[p.Dim] += b.Shape[p.Dim]
	var second [][]byte
	rows(b, p, size-at, func(row []byte) { second = append(second, row) })
	i := 0
	rows(a, p, at, func(row []byte) {
		if i < len(second) {
			y.Data = append(append(y.Data, row...), second[i]...)
		}
		i++
	})
	if i != len(second) || len(y.Data) != y.Len()*y.DType.Bits()/8 {
		return nil
	}
	return y
}

// combine makes an output of those of both parts, in the way of the factor.
func (x *cutting) combine(a, b *executor.Tensor, at int64) (*executor.Tensor, error) {
	if a.DType == graph.Bool {
		return compute(map[op.Reduction]graph.Kind{op.MaxOf: op.Or, op.MinOf: op.And}[x.f.Reduce], a, b)
	}
	kinds := map[op.Reduction]graph.Kind{op.SumOf: op.Add, op.MeanOf: op.Add, op.MaxOf: op.Max, op.MinOf: op.Min,
		op.ProductOf: op.Mul}
	if x.f.Reduce == op.MeanOf {
		weight, err := x.weight(at)
		if err != nil {
			return nil, err
		}
		if a, err = compute(op.Mul, a, cast(executor.NewTensor(graph.Float64, nil, weight), a.DType)); err != nil {
			return nil, err
		}
		if b, err = compute(op.Mul, b, cast(executor.NewTensor(graph.Float64, nil, 1-weight), b.DType)); err != nil {
			return nil, err
		}
	}
	return compute(kinds[x.f.Reduce], a, b)
}

// compute runs a kernel of two operands.
func compute(k graph.Kind, a, b *executor.Tensor) (*executor.Tensor, error) {
	c := kerneltest.Case{Name: "combine", Kind: k, In: []*executor.Tensor{a, b}, Out: []graph.DType{a.DType}}
	out, err := kerneltest.Run(cpu.Device{}, &c, kerneltest.Setup{Threads: 1, Runs: 1})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// cast converts elements; a tensor that it cannot convert is returned as it is.
func cast(x *executor.Tensor, d graph.DType) *executor.Tensor {
	c := kerneltest.Case{Name: "cast", Kind: op.Cast, In: []*executor.Tensor{x}, Out: []graph.DType{d},
		Attrs: []graph.Attr{kerneltest.Attr("to", int64(d))}}
	out, err := kerneltest.Run(cpu.Device{}, &c, kerneltest.Setup{Threads: 1, Runs: 1})
	if err != nil {
		return x
	}
	return out[0]
}

// weight is how much the first part counts in a mean: by places, or by the weights of the labels that
// count.
func (x *cutting) weight(at int64) (float64, error) {
	if !op.Of(x.c.Kind).Has(op.Loss) {
		return float64(at) / float64(x.f.Size), nil
	}
	var sums [2]float64
	for i, c := range []*kerneltest.Case{x.part(0, at, true), x.part(at, x.f.Size, false)} {
		ignored, has := int64(0), false
		for _, a := range c.Attrs {
			if a.Name == "ignore_index" {
				ignored, has = a.Value.(int64), true
			}
		}
		if len(c.In) > 3 && c.In[3] != nil {
			ignored, has = integers(c.In[3])[0], true
		}
		for _, label := range integers(c.In[1]) {
			switch {
			case has && label == ignored:
			case len(c.In) > 2 && c.In[2] != nil:
				w := cast(c.In[2], graph.Float64)
				sums[i] += math.Float64frombits(binary.LittleEndian.Uint64(w.Data[8*label:]))
			default:
				sums[i]++
			}
		}
	}
	return sums[0] / (sums[0] + sums[1]), nil
}

// integers are the elements of an int32 or int64 tensor.
func integers(x *executor.Tensor) (list []int64) {
	size := x.DType.Bits() / 8
	for at := 0; at < len(x.Data); at += size {
		if size == 4 {
			list = append(list, int64(int32(binary.LittleEndian.Uint32(x.Data[at:]))))
		} else {
			list = append(list, int64(binary.LittleEndian.Uint64(x.Data[at:])))
		}
	}
	return list
}

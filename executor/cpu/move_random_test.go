package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// movers lists operators whose kernels read shapes, axes and indices from inputs.
var movers = []graph.Kind{
	op.CenterCropPad, op.Compress, op.Concat, op.ConcatTraining, op.ConstantOfShape, op.DepthToSpace,
	op.DynamicSlice, op.Expand,
	op.EyeLike, op.FlattenAndUnpad, op.Gather, op.GatherElements, op.GatherElementsGrad, op.GatherGrad, op.GatherND,
	op.GatherNDGrad, op.OneHot, op.Pad, op.PadAndUnflatten, op.Range, op.Reshape, op.ReverseSequence,
	op.ScatterElements,
	op.ScatterND, op.Shape, op.ShrunkenGather, op.Size, op.Slice, op.SliceGrad, op.SpaceToDepth, op.Split,
	op.SplitTraining,
	op.Squeeze, op.TensorScatter, op.Tile, op.Transpose, op.Trilu, op.Unsqueeze, op.ATen, op.Flatten,
}

// TestMoversRefuse runs nodes with random operands, most of which are wrong: the answer
// must be an error or a result, never a panic.
func TestMoversRefuse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ran := map[graph.Kind]int{}
	for _, kind := range movers {
		for i := range 1200 {
			c := randomMove(r, kind)
			err := runMove(&c)
			if err == nil {
				ran[kind]++
			}
			if p, ok := err.(movePanic); ok {
				t.Fatalf("%s, case %d: %v %v: %s", op.Of(kind).Name, i, c.In, c.Attrs, p)
			}
		}
	}
	for _, kind := range movers {
		if ran[kind] == 0 {
			t.Errorf("%s: no random node is right", op.Of(kind).Name)
		}
	}
}

type movePanic string

func (p movePanic) Error() string { return string(p) }

func runMove(c *kerneltest.Case) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = movePanic(fmt.Sprint(p))
		}
	}()
	info := op.Of(c.Kind)
	n := &graph.Node{Op: info.Name, Kind: c.Kind, Attrs: c.Attrs}
	p := &executor.Prep{Node: n, Label: info.Name, Info: info, Version: info.SinceVersion(int64(c.Opset)), Out: c.Out}
	for _, t := range c.In {
		d := graph.Undefined
		if t != nil {
			d = t.DType
		}
		p.In = append(p.In, d)
	}
	var out []*executor.Tensor
	for _, d := range c.Out {
		out = append(out, &executor.Tensor{DType: d})
	}
	k, err := cpu.Device{}.Kernel(p)
	if err != nil {
		return err
	}
	pool := executor.NewPool(1)
	defer pool.Close()
	return executor.Invoke(k, executor.NewCtx(p, pool, smallMemory{}, c.In, out))
}

// smallMemory refuses large requests.
type smallMemory struct{}

func (smallMemory) Output(_, n int) ([]byte, error) {
	if n > 1<<20 {
		return nil, fmt.Errorf("%d bytes are too many", n)
	}
	return make([]byte, n), nil
}

func (m smallMemory) Scratch(n int) ([]byte, error) { return m.Output(0, n) }

// randomMove makes a node: half of the integer inputs are small lists, the data is float or int64.
func randomMove(r *rand.Rand, kind graph.Kind) kerneltest.Case {
	info := op.Of(kind)
	n := info.Inputs.Min
	if most := info.Inputs.Max; most < 0 || most > n {
		n += r.IntN(3)
		if most >= 0 {
			n = min(n, most)
		}
	}
	if kind == op.ATen {
		n = 1 + r.IntN(6)
	}
	c := kerneltest.Case{Name: "random", Kind: kind, Opset: slices.Max(info.Since) - r.IntN(12)}
	if info.SinceVersion(int64(c.Opset)) == 0 {
		c.Opset = info.Since[0]
	}
	shape := randomShape(r)
	for range n {
		c.In = append(c.In, randomOperand(r, shape))
	}
	c.Attrs = randomMoveAttrs(r)
	d := graph.Float32
	for _, x := range c.In {
		if x != nil && r.IntN(2) == 0 {
			d = x.DType
		}
	}
	if kind == op.Shape || kind == op.Size {
		d = graph.Int64
	}
	for range 1 + r.IntN(2)*max(0, min(info.Outputs.Max, 2)-1) {
		c.Out = append(c.Out, d)
	}
	return c
}

func randomShape(r *rand.Rand) []int {
	shape := make([]int, r.IntN(5))
	for i := range shape {
		shape[i] = []int{0, 1, 1, 2, 2, 3, 4}[r.IntN(7)]
	}
	return shape
}

func randomOperand(r *rand.Rand, like []int) *executor.Tensor {
	shape := slices.Clone(like)
	d := []graph.DType{graph.Float32, graph.Int64, graph.Int64, graph.Int32, graph.Bool, graph.Float16}[r.IntN(6)]
	switch r.IntN(8) {
	case 0:
		return nil
	case 1, 2:
		shape, d = []int{len(like)}, graph.Int64
	case 3:
		shape = randomShape(r)
	case 4:
		shape, d = []int{}, graph.Int64
	case 5:
		shape = []int{r.IntN(4)}
	}
	x := &executor.Tensor{DType: d, Shape: shape}
	x.Data = make([]byte, x.Len()*d.Bits()/8)
	for i := range x.Len() {
		v := int64(r.IntN(7) - 2)
		if r.IntN(12) == 0 {
			v = []int64{math.MinInt64, math.MaxInt64, 1 << 40, math.MaxInt32, -1 << 62}[r.IntN(5)]
		}
		switch d {
		case graph.Float32:
			executor.Of[float32](x)[i] = float32(v)
		case graph.Int64:
			executor.Of[int64](x)[i] = v
		case graph.Int32:
			executor.Of[int32](x)[i] = int32(v)
		case graph.Bool:
			x.Data[i] = byte(v & 1)
		}
	}
	return x
}

func randomMoveAttrs(r *rand.Rand) []graph.Attr {
	ints := func() []int64 {
		v := make([]int64, r.IntN(5))
		for i := range v {
			v[i] = int64(r.IntN(6) - 2)
		}
		return v
	}
	all := []graph.Attr{
		kerneltest.Attr("axis", int64(r.IntN(7)-3)), kerneltest.Attr("axes", ints()), kerneltest.Attr("perm", ints()),
		kerneltest.Attr("starts", ints()), kerneltest.Attr("ends", ints()), kerneltest.Attr("split", ints()),
		kerneltest.Attr("pads", ints()),
		kerneltest.Attr("blocksize", int64(r.IntN(4))), kerneltest.Attr("batch_dims", int64(r.IntN(3))),
		kerneltest.Attr("k", int64(r.IntN(9)-4)),
		kerneltest.Attr("mode",
			[]string{"constant", "edge", "reflect", "wrap", "linear", "circular", "DCR", "CRD"}[r.IntN(8)]),
		kerneltest.Attr("reduction", []string{"none", "add", "mul", "max"}[r.IntN(4)]),
		kerneltest.Attr("operator", []string{"embedding", "embedding_backward"}[r.IntN(2)]),
	}
	return slices.DeleteFunc(all, func(graph.Attr) bool { return r.IntN(3) == 0 })
}

package cpu_test

import (
	"math/rand/v2"
	"testing"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// windowKinds lists operators that slide windows, sample or resize.
var windowKinds = []graph.Kind{
	op.Conv, op.ConvTranspose, op.FusedConv, op.ConvGrad, op.MaxPool, op.AveragePool, op.LpPool, op.MaxPoolGrad,
	op.MaxUnpool,
	op.GlobalAveragePool, op.GlobalMaxPool, op.GlobalLpPool, op.MaxRoiPool, op.RoiAlign, op.Col2Im, op.DeformConv,
	op.GridSample,
	op.AffineGrid, op.NonMaxSuppression, op.Resize, op.Upsample, op.ResizeGrad,
}

// TestWindowsRefuse runs nodes with random operands, most of which are wrong: the answer must be an
// error or a result, never a panic.
func TestWindowsRefuse(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, kind := range windowKinds {
		ran := 0
		for i := range 1000 {
			c := randomWindow(r, kind)
			err := runMove(&c)
			if p, ok := err.(movePanic); ok {
				t.Fatalf("%s, case %d: %v %v: %s", op.Of(kind).Name, i, c.In, c.Attrs, p)
			}
			if err == nil {
				ran++
			}
		}
		if ran == 0 && kind != op.DeformConv {
			t.Errorf("%s: no random node is right", op.Of(kind).Name)
		}
	}
}

// windowDice makes random operands and attributes for some number of spatial axes.
type windowDice struct {
	*rand.Rand
	axes int
}

func (r windowDice) shape(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = []int{0, 1, 1, 2, 2, 3, 4, 5, 7}[r.IntN(9)]
	}
	return s
}

func (r windowDice) floats(s []int) *executor.Tensor {
	t := noise(s...)
	for i := range executor.Of[float32](t) {
		executor.Of[float32](t)[i] = float32(r.NormFloat64() * 3)
	}
	return t
}

func (r windowDice) ints(n, lo, hi int) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(lo + r.IntN(hi-lo+1))
	}
	return v
}

func (r windowDice) numbers(s []int, hi int) *executor.Tensor {
	return executor.NewTensor(graph.Int64, s, r.ints(noise(s...).Len(), -r.IntN(2), hi)...)
}

// attrs includes or leaves out, at random, each attribute that the kinds know.
func (r windowDice) attrs() []graph.Attr {
	var list []graph.Attr
	n := r.axes
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	for _, a := range []graph.Attr{
		{Name: "strides", Value: r.ints(n, 1, 3)}, {Name: "dilations", Value: r.ints(n, 1, 3)},
		{Name: "pads", Value: r.ints(2*n, -1, 3)},
		{Name: "kernel_shape", Value: r.ints(n, 1, 4)}, {Name: "ceil_mode", Value: int64(1)},
		{Name: "count_include_pad", Value: int64(1)},
		{Name: "storage_order", Value: int64(1)}, {Name: "output_padding", Value: r.ints(n, 0, 1)},
		{Name: "pooled_shape", Value: r.ints(2, 1, 3)},
		{Name: "output_height", Value: int64(r.IntN(4))}, {Name: "align_corners", Value: int64(1)},
		{Name: "antialias", Value: int64(1)},
		{Name: "mode", Value: pick("linear", "nearest", "cubic", "max")},
		{Name: "padding_mode", Value: pick("border", "reflection")},
		{Name: "coordinate_transformation_mode",
			Value: pick("half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize", "output_half_pixel")},
		{Name: "exclude_outside", Value: int64(1)},
		{Name: "keep_aspect_ratio_policy", Value: pick("not_larger", "not_smaller")},
		{Name: "auto_pad", Value: pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")},
		{Name: "group", Value: int64(1 + r.IntN(2))},
	} {
		if r.IntN(2) == 0 {
			list = append(list, a)
		}
	}
	return list
}

func randomWindow(dice *rand.Rand, kind graph.Kind) kerneltest.Case {
	r := windowDice{dice, 1 + dice.IntN(3)}
	c := kerneltest.Case{Kind: kind, Opset: 1 << 30, Attrs: r.attrs(), Out: []graph.DType{graph.Float32}}
	x := r.shape(2 + r.axes)
	switch kind {
	case op.Conv, op.FusedConv, op.ConvTranspose, op.ConvGrad, op.DeformConv:
		w := r.shape(2 + r.axes)
		if w[1] = x[1]; kind == op.ConvTranspose {
			w[0] = x[1]
		}
		c.In = []*executor.Tensor{r.floats(x), r.floats(w), r.floats(w[:1])}
		if kind == op.ConvGrad {
			y := r.shape(2 + r.axes)
			y[0], y[1] = x[0], w[0]
			c.In, c.Out = []*executor.Tensor{r.floats(y), r.floats(x), r.floats(w)}, []graph.DType{graph.Float32,
				graph.Float32, graph.Float32}
		}
	case op.MaxPoolGrad, op.MaxUnpool:
		c.In = []*executor.Tensor{r.floats(x), r.numbers(x, 4), r.numbers([]int{2 + r.axes}, 9)}[:2+r.IntN(2)]
	case op.MaxRoiPool:
		c.In = []*executor.Tensor{r.floats(r.shape(4)), r.floats([]int{r.IntN(3), 5})}
	case op.RoiAlign:
		c.In = []*executor.Tensor{r.floats(r.shape(4)), r.floats([]int{2, 4}), r.numbers([]int{2}, 2)}
	case op.Col2Im:
		c.In = []*executor.Tensor{r.floats(r.shape(3)), r.numbers([]int{r.axes}, 6), r.numbers([]int{r.axes}, 3)}
	case op.GridSample:
		grid := r.shape(2 + r.axes)
		grid[0], grid[1+r.axes] = x[0], r.axes
		c.In = []*executor.Tensor{r.floats(x), r.floats(grid)}
	case op.AffineGrid:
		size := r.numbers([]int{2 + r.axes}, 4)
		n := max(0, int(executor.Of[int64](size)[0]))
		c.In = []*executor.Tensor{r.floats([]int{n, r.axes, r.axes + 1}), size}
	case op.NonMaxSuppression:
		c.In = []*executor.Tensor{r.floats([]int{x[0], x[1], 4}), r.floats([]int{x[0], 2, x[1]}), r.numbers(nil, 4)}
		c.Out[0] = graph.Int64
	case op.Resize:
		c.In = []*executor.Tensor{r.floats(x), r.floats([]int{2 * len(x)}), nil, r.numbers([]int{len(x)}, 9)}
	case op.Upsample:
		c.In = []*executor.Tensor{r.floats(x), r.floats([]int{len(x)})}
		for i, v := range executor.Of[float32](c.In[1]) {
			executor.Of[float32](c.In[1])[i] = v/2 + 1
		}
	case op.ResizeGrad:
		c.In = []*executor.Tensor{r.floats(r.shape(len(x))), r.floats(x)}
	default:
		c.In = []*executor.Tensor{r.floats(x)}
		if kind == op.MaxPool && r.IntN(2) == 0 {
			c.Out = append(c.Out, graph.Int64)
		}
	}
	if r.IntN(20) == 0 {
		c.In[r.IntN(len(c.In))] = nil
	}
	if r.IntN(20) == 0 {
		c.In[r.IntN(len(c.In))] = r.floats(r.shape(r.IntN(4)))
	}
	return c
}

// TestMaxPoolGradShape: if the shape of X is known, it need not follow from the indices.
func TestMaxPoolGradShape(t *testing.T) {
	info := op.Of(op.MaxPoolGrad)
	n := &graph.Node{
		Op: info.Name, Kind: op.MaxPoolGrad,
		Attrs: []graph.Attr{{Name: "kernel_shape", Value: []int64{2}}, {Name: "strides", Value: []int64{2}}},
	}
	for _, c := range []struct {
		in int
		ok bool
	}{{4, true}, {5, true}, {6, false}} {
		p := &executor.Prep{
			Node: n, Info: info, In: []graph.DType{graph.Float32, graph.Int64}, Out: []graph.DType{graph.Float32},
			Shapes: [][]int{{1, 1, c.in}},
		}
		k, err := cpu.Device{}.Kernel(p)
		if err != nil {
			t.Fatal(err)
		}
		pool := executor.NewPool(1)
		dx := &executor.Tensor{DType: graph.Float32}
		in := []*executor.Tensor{noise(1, 1, 2), executor.NewTensor[int64](graph.Int64, []int{1, 1, 2}, 1, 2)}
		err = executor.Invoke(k,
			executor.NewCtx(p, pool, &benchMemory{out: map[int][]byte{}}, in, []*executor.Tensor{dx}))
		pool.Close()
		if (err == nil) != c.ok || c.ok && dx.Shape[2] != c.in {
			t.Errorf("X of %d elements: got shape %v and error %v", c.in, dx.Shape, err)
		}
	}
}

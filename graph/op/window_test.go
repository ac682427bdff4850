package op

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/symbolic"
)

// places counts the places of a window one by one, as the documents of the pools tell it.
func places(in, begin, end, stride, extent int64, ceil bool) int64 {
	n := int64(0)
	for {
		at := n * stride // from the padded input's begin
		fits := at+extent <= begin+in+end
		late := ceil && n > 0 && at-stride+extent < begin+in+end && at < begin+in
		if !fits && !late || ceil && at >= begin+in {
			return n
		}
		n++
	}
}

// TestSlide compares sizes with counted places, as numbers and as symbols.
func TestSlide(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewSource(seed))
	for range 3000 {
		in, kernel := 1+rng.Int63n(20), 1+rng.Int63n(5)
		stride, dilation := 1+rng.Int63n(4), 1+rng.Int63n(3)
		extent := (kernel-1)*dilation + 1
		begin, end := rng.Int63n(extent), rng.Int63n(extent) // runtimes refuse pads of the extent and more
		ceil := rng.Intn(2) == 1
		if in+begin+end < extent {
			continue
		}
		c := poolNode(in, kernel, stride, dilation, begin, end, ceil)
		w, ok := c.window(0, -1, 1)
		require.True(t, ok)
		want := places(in, begin, end, stride, extent, ceil)
		msg := fmt.Sprintf("seed %d: in %d kernel %d stride %d dilation %d pads %d %d ceil %v",
			seed, in, kernel, stride, dilation, begin, end, ceil)
		got, isConst := w.slide(c, 0, symbolic.Const(in)).Const()
		require.True(t, isConst, msg)
		require.Equal(t, want, got, msg)
		bySymbol, err := w.slide(c, 0, symbolic.Sym("n")).Eval(symbolic.Env{"n": in})
		require.NoError(t, err, msg)
		require.Equal(t, want, bySymbol, msg)
		require.NoError(t, c.err, msg)
	}
}

// TestSpreadInvertsSlide: a transposed window with the right output padding restores the size.
func TestSpreadInvertsSlide(t *testing.T) {
	const seed = 8
	rng := rand.New(rand.NewSource(seed))
	for range 1000 {
		in, kernel, stride := 6+rng.Int63n(20), 1+rng.Int63n(5), 1+rng.Int63n(4)
		pad := rng.Int63n(kernel)
		c := poolNode(in, kernel, stride, 1, pad, pad, false)
		w, ok := c.window(0, -1, 1)
		require.True(t, ok)
		out := w.slide(c, 0, symbolic.Const(in))
		lost := (in + 2*pad - kernel) % stride
		back, _ := w.spread(c, 0, out, lost).Const()
		require.Equal(t, in, back, "seed %d: in %d kernel %d stride %d pad %d", seed, in, kernel, stride, pad)
	}
}

func poolNode(in, kernel, stride, dilation, begin, end int64, ceil bool) *Ctx {
	g := graph.New("g", nil)
	x := g.Value("x")
	n := &graph.Node{Op: "MaxPool", Kind: MaxPool, Inputs: []graph.ValueID{x}}
	g.Values[x].Type = graph.Tensor(graph.Float32, graph.Ints(1, 1, in))
	n.SetAttr("kernel_shape", []int64{kernel})
	n.SetAttr("strides", []int64{stride})
	n.SetAttr("dilations", []int64{dilation})
	n.SetAttr("pads", []int64{begin, end})
	if ceil {
		n.SetAttr("ceil_mode", int64(1))
	}
	if err := g.AddNode(n); err != nil {
		panic(err)
	}
	return &Ctx{Node: n, Info: Of(MaxPool), Version: 22, inf: newInference(g, nil, nil)}
}

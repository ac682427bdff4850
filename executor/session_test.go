package executor_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/null"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// parsed reads a model in text form and infers its types.
func parsed(t testing.TB, text string) (*graph.Model, *op.Result) {
	t.Helper()
	m, err := graph.Parse(text, "test")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	return m, types
}

// opened opens a session on the CPU and closes it with the test.
func opened(t testing.TB, m *graph.Model, types *op.Result, o executor.Options) *executor.Session {
	t.Helper()
	s, err := executor.Open(context.Background(), m, types, cpu.Device{}, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// fill makes up all inputs.
func fill(t testing.TB, s *executor.Session, env symbolic.Env) {
	t.Helper()
	g := s.Model().Graph
	f := dataset.NewFiller(g, env, 1)
	for _, d := range g.Inputs {
		x, err := f.Fill(d.Value)
		require.NoError(t, err)
		require.NoError(t, s.SetInput(g.Values[d.Value].Name, x))
	}
}

func float32s(shape []int, v ...float32) *executor.Tensor {
	return executor.NewTensor(graph.Float32, shape, v...)
}

const fusionModel = `<ir_version: 8, opset_import: ["" : 17]>
fused (float[N, 4096] x, float[4096] b) => (float[N, 4096] y, float[N, 4096] kept) {
	a = Mul(x, x)
	c = Add(a, b)
	kept = Relu(c)
	d = Neg(kept)
	e = Exp(d)
	y = Add(e, x)
}`

// TestRunAllocatesNothing: after the first step, steps allocate nothing on Go's heap.
func TestRunAllocatesNothing(t *testing.T) {
	fused, types := parsed(t, fusionModel)
	training := graphtest.Training(rand.New(rand.NewPCG(5, 5)), graphtest.Options{Nodes: 120, Layers: true})
	trainingTypes, err := op.Infer(training)
	require.NoError(t, err)
	for _, c := range []struct {
		name  string
		m     *graph.Model
		types *op.Result
	}{{"fused", fused, types}, {"training", training, trainingTypes}} {
		for _, onDemand := range []bool{false, true} {
			s := opened(t, c.m, c.types, executor.Options{Threads: 2, Dims: symbolic.Env{"N": 16}, OnDemand: onDemand})
			fill(t, s, symbolic.Env{"N": 16})
			run := func() { require.NoError(t, s.Run(context.Background())) }
			run()
			run()
			least := testing.AllocsPerRun(3, run)
			for range 5 { // the runtime's own allocations come and go
				least = min(least, testing.AllocsPerRun(3, run))
			}
			require.Zero(t, least, "%s, on demand %v", c.name, onDemand)
		}
	}
}

// TestInputFaults: what is wrong with an input is said with its name, what it is and what was
// wanted.
func TestInputFaults(t *testing.T) {
	m, types := parsed(t, fusionModel)
	s := opened(t, m, types, executor.Options{Dims: symbolic.Env{"N": 2}})
	require.ErrorContains(t, s.Run(context.Background()), `input "x" has no data`)
	require.ErrorContains(t, s.SetInput("nope", float32s([]int{1}, 1)), "no such value")
	require.ErrorContains(t, s.SetInput("y", float32s([]int{1}, 1)), "is not an input")
	require.ErrorContains(t, s.SetInput("b", float32s([]int{3}, 1, 2, 3)), "is float[3], wanted float[4096]")
	require.ErrorContains(t, s.SetInput("b", executor.NewTensor[int64](graph.Int64, []int{4096})),
		"is int64[4096], wanted float[4096]")
	require.ErrorContains(t, s.SetInput("b", float32s([]int{4096}, 1)), "has 4 bytes")
	_, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{})
	var unbound *symbolic.UnboundError
	require.ErrorAs(t, err, &unbound)
}

// TestRunFaults: data that an operator cannot take is an error that names the node, never a panic.
func TestRunFaults(t *testing.T) {
	for _, c := range []struct{ graph, want string }{
		{`g (float[3, 2] x, int64[2] i) => (float[2, 2] y) { y = Gather(x, i) }`, "7"},
		{`g (int64[2] i) => (int64[2] y) { z = Constant<value_ints = [0, 0]>()  y = Div(i, z) }`, "division by zero"},
		{`g (float[3, 2] x, int64[2] i) => (float y) { y = ReduceSum<keepdims = 0>(x, i) }`, "7"},
		{`g (int64[2] i) => (float[A, B] y) { y = ConstantOfShape(i) }`, "-7"},
	} {
		m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]> `+c.graph)
		s := opened(t, m, types, executor.Options{Dims: symbolic.Env{"A": 1, "B": 1}})
		for _, d := range m.Graph.Inputs {
			if m.Graph.Values[d.Value].Name == "x" {
				require.NoError(t, s.SetInput("x", float32s([]int{3, 2}, 1, 2, 3, 4, 5, 6)))
				continue
			}
			bad := int64(7)
			if c.want == "-7" {
				bad = -7
			}
			require.NoError(t, s.SetInput("i", executor.NewTensor(graph.Int64, []int{2}, bad, bad)))
		}
		err := s.Run(context.Background())
		require.ErrorContains(t, err, c.want, c.graph)
		require.ErrorContains(t, err, "node ", c.graph)
	}
}

// TestShapeContradiction: declared dims that the data contradict are an error that names the value.
func TestShapeContradiction(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[N] x, int64[1] k) => (float[M] y) { y = Tile(x, k) }`)
	s := opened(t, m, types, executor.Options{Dims: symbolic.Env{"N": 2, "M": 8}})
	require.NoError(t, s.SetInput("x", float32s([]int{2}, 1, 2)))
	require.NoError(t, s.SetInput("k", executor.NewTensor[int64](graph.Int64, []int{1}, 3)))
	var shape *executor.ShapeError
	err := s.Run(context.Background())
	require.ErrorAs(t, err, &shape)
	require.ErrorContains(t, err, `"y"`)
	require.ErrorContains(t, err, "float[6]")
	require.ErrorContains(t, err, "float[8]")
}

// TestMemLimit: a limit below the need ends with an error that says what was live.
func TestMemLimit(t *testing.T) {
	m, types := parsed(t, fusionModel)
	for _, onDemand := range []bool{false, true} {
		s := opened(t, m, types,
			executor.Options{Dims: symbolic.Env{"N": 8}, OnDemand: onDemand, MemLimit: 200 << 10, NoFusion: true})
		fill(t, s, symbolic.Env{"N": 8})
		err := s.Run(context.Background())
		require.ErrorIs(t, err, executor.ErrOutOfMemory)
		require.ErrorContains(t, err, "204800 bytes")
		require.ErrorContains(t, err, `"a" (131072 bytes)`)
	}
	s := opened(t, m, types, executor.Options{Dims: symbolic.Env{"N": 8}, MemLimit: 512 << 10})
	fill(t, s, symbolic.Env{"N": 8})
	require.NoError(t, s.Run(context.Background()))
}

// TestSharedArena: sessions in turn use one arena, which never holds more than the larger one
// needs.
func TestSharedArena(t *testing.T) {
	m, types := parsed(t, fusionModel)
	arena := executor.NewArena(executor.SameAsRequested, 0)
	defer arena.Close()
	var sessions []*executor.Session
	for _, n := range []int64{8, 3} {
		s := opened(t, m, types, executor.Options{Dims: symbolic.Env{"N": n}, Arena: arena})
		fill(t, s, symbolic.Env{"N": n})
		sessions = append(sessions, s)
	}
	for range 3 {
		for _, s := range sessions {
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, s.Prediction().Arena, s.Measured().Arena)
			s.Release()
			require.Zero(t, arena.Stats().InUse)
		}
	}
	require.Equal(t, (sessions[0].Prediction().Arena+255)/256*256, arena.Stats().Reserved)
}

// TestCancel: a step ends between two nodes when its context does, and the session can run again.
func TestCancel(t *testing.T) {
	m, types := parsed(t, fusionModel)
	ctx, cancel := context.WithCancel(context.Background())
	seen := 0
	s := opened(t, m, types, executor.Options{Dims: symbolic.Env{"N": 2}, Probe: func(graph.ValueID, *executor.Tensor) {
		if seen++; seen == 3 {
			cancel()
		}
	}})
	fill(t, s, symbolic.Env{"N": 2})
	require.ErrorIs(t, s.Run(ctx), context.Canceled)
	require.Equal(t, 3, seen)
	require.NoError(t, s.Run(context.Background()))
	require.Equal(t, 9, seen)
}

// TestNaNIsCarried: NaN and infinities go through as IEEE 754 says.
func TestNaNIsCarried(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[2, 2] x) => (float[2, 2] y, float[2, 2] z) { y = MatMul(x, x)  r = Relu(x)  z = Exp(r) }`)
	s := opened(t, m, types, executor.Options{})
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	require.NoError(t, s.SetInput("x", float32s([]int{2, 2}, nan, 0, 1, inf)))
	require.NoError(t, s.Run(context.Background()))
	y, z := executor.Of[float32](s.Output(0)), executor.Of[float32](s.Output(1))
	for _, v := range []float32{y[0], y[1], y[2], z[0]} {
		require.True(t, v != v, "y %v, z %v", y, z)
	}
	require.Equal(t, inf, y[3])
	require.Equal(t, []float32{1, inf}, []float32{z[1], z[3]})
}

// TestNothingLeaks: many steps, and many sessions, leave the peak of resident memory flat.
//
// What is resident also holds Go's garbage and freed pages that the system has not yet counted,
// more of them on a busy machine. A leak grows in every round, noise does not: one flat round is
// enough.
func TestNothingLeaks(t *testing.T) {
	if executor.ReadProcessMemory().Resident == 0 {
		t.Skip("/proc/self/status is missing: the test needs Linux, which says there how much memory is resident")
	}
	m, types := parsed(t, fusionModel)
	env := symbolic.Env{"N": 64}
	cycle := func(steps int) {
		s, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{Threads: 2, Dims: env})
		require.NoError(t, err)
		fill(t, s, env)
		for range steps {
			require.NoError(t, s.Run(context.Background()))
		}
		require.NoError(t, s.Close())
	}
	// round returns by how much 1000 steps and 200 sessions raise what is resident, and its peak
	// meanwhile. One session's arena is 3 MiB.
	round := func() (resident, peak int64) {
		before := executor.SettleProcessMemory()
		cycle(1000)
		for range 200 {
			cycle(1)
		}
		peak = executor.ReadProcessMemory().Peak - before.Resident // the settling has reset it
		return executor.SettleProcessMemory().Resident - before.Resident, peak
	}
	cycle(1000)
	for range 20 {
		cycle(1)
	}
	var resident, peak int64
	for range 5 {
		if resident, peak = round(); resident < 8<<20 && peak < 24<<20 {
			return
		}
		t.Logf("1000 steps and 200 sessions: %d bytes more resident, peak (VmHWM) %d above the start", resident, peak)
	}
	t.Error("every round raises what is resident by 8 MiB, or its peak by 24 MiB")
}

// TestNullDevice: counted memory is that of a real run.
func TestNullDevice(t *testing.T) {
	m := graphtest.Training(rand.New(rand.NewPCG(7, 7)), graphtest.Options{Nodes: 80, Symbolic: true, Yield: true})
	types, err := op.Infer(m)
	require.NoError(t, err)
	env := symbolic.Env{"N": 1 << 33} // no machine has that much
	s, err := executor.Open(context.Background(), m, types, null.Device{}, executor.Options{Dims: env})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Run(context.Background()))
	require.Equal(t, s.Prediction().Arena, s.Measured().Arena)
	require.Greater(t, s.Measured().Arena, int64(1)<<40)
}

// TestYieldGradients: a boundary node hands out the gradient that is given, or what its input is.
func TestYieldGradients(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
		g (float[2] x) => (float[2] dx) {
			y = Mul(x, x)
			dy = com.microsoft.YieldOp<full_shape_outputs = [0]>(y)
			dx = Mul(dy, x)
		}`)
	s := opened(t, m, types, executor.Options{})
	require.NoError(t, s.SetInput("x", float32s([]int{2}, 2, 3)))
	require.NoError(t, s.Run(context.Background()))
	require.Equal(t, []float32{8, 27}, executor.Of[float32](s.Output(0)))
	require.NoError(t, s.SetInput("dy", float32s([]int{1}, 10))) // stretched to the promised shape
	require.NoError(t, s.Run(context.Background()))
	require.Equal(t, []float32{20, 30}, executor.Of[float32](s.Output(0)))
	require.True(t, s.Feeds()[0].Given)
	require.NoError(t, s.SetInput("dy", float32s([]int{3}, 1, 2, 3)))
	require.ErrorContains(t, s.Run(context.Background()), "full_shape_outputs promises float[2]")
}

// TestLossGradient: the gradient of a scalar is one where none is given, beside it those of other outputs are zeros; a
// given gradient comes before either.
func TestLossGradient(t *testing.T) {
	for _, x := range []struct{ dtype, shape string }{
		{"float", ""}, {"float", "[1]"}, {"double", ""}, {"float16", ""}} {
		m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
			g (`+x.dtype+x.shape+` a, `+x.dtype+`[3] b) => (`+x.dtype+x.shape+` da, `+x.dtype+`[3] db, `+x.dtype+`[3] c) {
				y = Mul(a, a)  z = Mul(b, b)  c = Neg(b)
				dy, dz = com.microsoft.YieldOp<full_shape_outputs = [0], non_differentiable_outputs = [1]>(y, c, z)
				ya = Add(a, a)  da = Mul(dy, ya)  db = Add(dz, z)
			}`)
		s := opened(t, m, types, executor.Options{})
		numbers := func(shape []int, list ...float64) *executor.Tensor {
			switch x.dtype {
			case "double":
				return executor.NewTensor(graph.Float64, shape, list...)
			case "float16":
				out := make([]half.Float16, len(list))
				for i, v := range list {
					out[i] = half.Float16From(float32(v))
				}
				return executor.NewTensor(graph.Float16, shape, out...)
			}
			out := make([]float32, len(list))
			for i, v := range list {
				out[i] = float32(v)
			}
			return executor.NewTensor(graph.Float32, shape, out...)
		}
		shape := []int{}
		if x.shape != "" {
			shape = []int{1}
		}
		require.NoError(t, s.SetInput("a", numbers(shape, 5)))
		require.NoError(t, s.SetInput("b", numbers([]int{3}, 1, 2, 3)))
		require.NoError(t, s.Run(context.Background()))
		require.Equal(t, numbers(shape, 10).Data, s.Output(0).Data, "%v", x)
		require.Equal(t, numbers([]int{3}, 1, 4, 9).Data, s.Output(1).Data, "zeros beside the loss's")
		require.Equal(t, []executor.MadeGradient{executor.LossGradient, executor.ZeroGradient},
			[]executor.MadeGradient{s.Feeds()[0].Made, s.Feeds()[1].Made})
		require.Equal(t, s.Prediction().Arena, s.Measured().Arena)
		require.NoError(t, s.SetInput("dy", numbers(shape, 0.5)))
		require.NoError(t, s.SetInput("dz", numbers([]int{3}, 1, 1, 1)))
		require.NoError(t, s.Run(context.Background()))
		require.Equal(t, numbers(shape, 5).Data, s.Output(0).Data)
		require.Equal(t, numbers([]int{3}, 2, 5, 10).Data, s.Output(1).Data)
	}
}

// BenchmarkStep is the executor's own cost: many nodes, hardly any work.
func BenchmarkStep(b *testing.B) {
	for _, nodes := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			m := graphtest.Training(rand.New(rand.NewPCG(1, 1)),
				graphtest.Options{Nodes: nodes, Symbolic: true, Layers: true})
			types, err := op.Infer(m)
			require.NoError(b, err)
			env := symbolic.Env{"N": 1}
			s := opened(b, m, types, executor.Options{Threads: 1, Dims: env})
			fill(b, s, env)
			for b.Loop() {
				if err := s.Run(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(m.Graph.Nodes)), "ns/node")
		})
	}
}

// TestWorkspaceIsLiveForItsStep: what kernels need besides their operands is live during their
// steps and no longer, planned or on demand, in the first step and in later ones.
func TestWorkspaceIsLiveForItsStep(t *testing.T) {
	m, types := parsed(t,
		`<ir_version: 8, opset_import: ["" : 17]> g (float[2, 8, 20, 20] x, float[8, 8, 5, 5] w) => (float[2, 8, 4, 4] z) {
		a = Conv<pads = [2, 2, 2, 2]>(x, w)  b = Conv<pads = [2, 2, 2, 2]>(a, w)  c = Conv<pads = [2, 2, 2, 2]>(b, w)
		d = Conv<strides = [4, 4]>(c, w)  z = Relu(d) }`)
	for _, o := range []executor.Options{{Threads: 1}, {Threads: 2, OnDemand: true}} {
		s := opened(t, m, types, o)
		fill(t, s, nil)
		require.Positive(t, s.Prediction().Workspace)
		for range 3 {
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, s.Prediction().Live, s.Measured().Live, "%+v", o)
			require.Equal(t, s.Prediction().Arena, s.Measured().Arena, "%+v", o)
		}
	}
}

// TestDeclaredSizeIsHeld: a kernel that asks for more or less than was planned for an output ends
// the run, with the memory pattern off, too. Here the declared size alone can be planned with.
func TestDeclaredSizeIsHeld(t *testing.T) {
	for _, declared := range []int{0, 1, 5000} {
		for _, onDemand := range []bool{false, true} {
			m, types := parsed(t,
				fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]> g (float[4] x, int64[1] k) => (float z) <float[%d] y> {
				y = Tile(x, k)  z = ReduceSum<keepdims = 0>(y) }`, declared))
			require.Empty(t, types.Conflicts)
			s := opened(t, m, types, executor.Options{Threads: 1, OnDemand: onDemand, NoFusion: true})
			require.NoError(t, s.SetInput("x", float32s([]int{4}, 1, 2, 3, 4)))
			require.NoError(t, s.SetInput("k", executor.NewTensor[int64](graph.Int64, []int{1}, 1024)))
			var shape *executor.ShapeError
			require.ErrorAs(t, s.Run(context.Background()), &shape, "%d elements declared", declared)
			require.ErrorContains(t, shape, `output 0 ("y")`)
		}
	}
}

// TestStaleSizeIsNotUsed: a declared size that the operators contradict is a conflict, and the run has
// the numbers and the memory of a file without it.
func TestStaleSizeIsNotUsed(t *testing.T) {
	for _, onDemand := range []bool{false, true} {
		var want executor.Prediction
		for i, declared := range []string{"", "<float[4096] y>", "<float[0] y>", "<float[1] y>", "<float[5000] y>",
			"<float[2, 2] y>"} {
			m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]> g (float[4096] x) => (float z) `+declared+` {
				y = Exp(x)  z = ReduceSum<keepdims = 0>(y) }`)
			require.Equal(t, i > 1, len(types.Conflicts) > 0, declared)
			s := opened(t, m, types, executor.Options{Threads: 1, OnDemand: onDemand, NoFusion: true, Guard: true})
			if i == 0 {
				want = s.Prediction()
			}
			require.Equal(t, want, s.Prediction(), declared)
			require.NoError(t, s.SetInput("x", float32s([]int{4096}, make([]float32, 4096)...)))
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, want.Live, s.Measured().Live, declared)
			require.Equal(t, []float32{4096}, executor.Of[float32](s.Output(0)), declared)
		}
	}
}

// TestClashesAreNotRun: no device runs a node of which the file states other elements than the
// operator gives, in bodies neither.
func TestClashesAreNotRun(t *testing.T) {
	for _, graphText := range []string{
		`(float[4] a, float[4] b) => (y) <int8[4] y> { y = Add(a, b) }`,
		`(float[4] a, bool c) => (z) <int8[4] y> { y = Relu(a)  z = If<then_branch = t () => (u) { u = Identity(y) }, else_branch = e () => (w) { w = Identity(a) }>(c) }`,
		`(bool c, float[4] a) => (y) { y = If<then_branch = t () => (int8[4] z) { z = Relu(a) }, else_branch = e () => (w) { w = Identity(a) }>(c) }`,
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g `+graphText, "g")
		require.NoError(t, err)
		types, err := op.InferAsIs(m)
		require.NoError(t, err)
		s, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{Threads: 1})
		if err == nil {
			fill(t, s, nil)
			err = s.Run(context.Background())
			require.NoError(t, s.Close())
		}
		require.ErrorContains(t, err, "is float[4] by the operator's definition, and int8[4] in the file")
	}
}

// TestUnreadClash: a wrong type of an output that no node reads keeps no node from running.
func TestUnreadClash(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]> g (float[1, 1, 4] a) => (y) <int8 p>
		{ y, p = MaxPool<kernel_shape = [1]>(a) }`)
	s, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{Threads: 1})
	require.NoError(t, err)
	fill(t, s, nil)
	require.NoError(t, s.Run(context.Background()))
	require.NoError(t, s.Close())
}

// TestVirtualControlFlow: a device without data takes the outputs of control flow and runs no
// subgraph.
func TestVirtualControlFlow(t *testing.T) {
	for _, body := range []string{
		`y = If<then_branch = t () => (z) { z = Relu(a) }, else_branch = e () => (w) { w = Tanh(a) }>(c)`,
		`y = Loop<body = l (int64 i, bool more, float[4] s) => (again, u) { again = Identity(more)  u = Exp(s) }>(n, c, a)`,
		`y = Scan<num_scan_inputs = 1, body = s (float x) => (z) { z = Exp(x) }>(a)`,
	} {
		m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]> g (bool c, int64 n, float[4] a) => (r) { `+body+
			`  r = Neg(y) }`)
		s, err := executor.Open(context.Background(), m, types, null.Device{}, executor.Options{})
		require.NoError(t, err)
		require.NoError(t, s.Run(context.Background()))
		require.EqualValues(t, s.Prediction().Arena, s.Measured().Arena)
		require.NoError(t, s.Close())
	}
}

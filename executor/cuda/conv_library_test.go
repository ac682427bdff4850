package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda"
	"memopt/executor/cuda/driver"
	"memopt/graph"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
	"memopt/symbolic"
)

// TestOwnConvolutions: the conformance cases of convolutions pass without the library too, as they
// do with it (TestCases).
func TestOwnConvolutions(t *testing.T) {
	eachKind(t, cases(), func(t *testing.T, list []kerneltest.Case) {
		if !convolves(list[0].Kind) {
			return
		}
		d, dbl := opened(t, double.Options{NoConvolutions: true})
		for _, c := range list {
			t.Run(c.Name, func(t *testing.T) { kerneltest.Check(t, d, c) })
		}
		require.Zero(t, dbl.Counts().Convolutions)
	})
}

// ran opens a session of a model, runs it thrice on made-up data, and returns the session and its
// outputs.
func ran(t *testing.T, d executor.Device, text string, o executor.Options) (*executor.Session, [][]float32) {
	m, types := parsed(t, text)
	s, err := executor.Open(context.Background(), m, types, d, o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	for name, x := range made(t, m, o.Dims) {
		require.NoError(t, s.SetInput(name, x))
	}
	for range 3 {
		require.NoError(t, s.Run(context.Background()))
	}
	var out [][]float32
	for i := range m.Graph.Outputs {
		out = append(out, append([]float32{}, executor.Of[float32](s.Output(i))...))
	}
	return s, out
}

// longConv wants 8 MiB and 6 bytes for its operands, four times as much for the double's fastest
// algorithm, and 2 KiB for the usual one.
const longConv = `<ir_version: 8, opset_import: ["" : 17]> g (float[1, 1, 2048, 1024] x, float[1, 1, 1, 1] w) => (float[1, 1, 32, 16] y) {
	y = Conv<strides = [64, 64]>(x, w) }`

// TestConvSearch: the options choose the algorithm whose workspace is in the planned arena, which
// is the measured one; a choice is made once.
func TestConvSearch(t *testing.T) {
	const large, usual = 4 * (8<<20 + 2048 + 4), 2048
	for _, c := range []struct {
		search         driver.ConvSearch
		clamp          bool
		memory         int64
		want, searches int
		clamped        int64
	}{
		{driver.SearchHeuristic, false, 0, large, 1, usual},
		{driver.SearchHeuristic, true, 0, usual, 1, usual},
		{driver.SearchDefault, false, 0, usual, 2, usual},
		{driver.SearchDefault, true, 0, usual, 2, usual},
		{driver.SearchExhaustive, false, 0, large, 2, usual},
		{driver.SearchExhaustive, true, 0, usual, 2, usual},         // two are as fast as each other
		{driver.SearchExhaustive, false, 24 << 20, usual, 2, usual}, // no room to try the large one
	} {
		t.Run(fmt.Sprint(c.search, c.clamp, c.memory), func(t *testing.T) {
			d, dbl := opened(t, double.Options{Memory: c.memory})
			d.ChooseConvolutions(c.search, c.clamp)
			want := int64(executor.RoundUp(c.want))
			for range 2 {
				m, types := parsed(t, longConv)
				s, err := executor.Open(context.Background(), m, types, d, executor.Options{})
				require.NoError(t, err)
				for name, x := range made(t, m, nil) {
					require.NoError(t, s.SetInput(name, x))
				}
				d.ChooseConvolutions(driver.SearchHeuristic, !c.clamp) // for sessions to come
				require.NoError(t, s.Run(context.Background()))
				d.ChooseConvolutions(c.search, c.clamp)
				require.Equal(t, want, s.Prediction().Workspace)
				require.Equal(t, s.Prediction().Arena, s.Measured().Arena)
				require.Equal(t, s.Prediction().Live, s.Measured().Live)
				require.Equal(t, s.Prediction().Live-want+c.clamped, s.Prediction().LeastLive)
				work := s.LibraryNodes()
				require.Len(t, work, 1)
				require.Equal(t,
					executor.LibraryWork{Library: "cuDNN", What: "convolution", Workspace: want, Least: c.clamped},
					work[0].LibraryWork)
				require.NoError(t, s.Close())
			}
			require.Equal(t, c.searches, dbl.Counts().ConvSearches)
		})
	}
}

// smallConvs has a convolution, one that pads ends differently, a transposed one and gradients.
const smallConvs = `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
	g (float[2, 4, 6, 5] x, float[6, 2, 3, 3] w, float[6] b, float[6, 3, 2, 2] v) => (float[2, 6, 6, 5] y, float[2, 3, 7, 6] u, float[2, 4, 6, 5] dx, float[6, 2, 3, 3] dw, float[6] db, float[2, 6, 6, 5] q) {
		y = Conv<group = 2, pads = [1, 1, 1, 1]>(x, w, b)
		u = ConvTranspose(y, v)
		dx, dw, db = com.microsoft.ConvGrad<group = 2, pads = [1, 1, 1, 1]>(y, x, w)
		q = Conv<group = 2, pads = [2, 1, 0, 1]>(x, w)
	}`

// TestConvFallback: what the library does not do own kernels do, and a session says what and why;
// it plans what it takes, and numbers are those of the host.
func TestConvFallback(t *testing.T) {
	_, want := ran(t, cpu.Device{}, smallConvs, executor.Options{})
	refused := func(c *driver.ConvCase) error {
		if c.Kind == driver.ConvForward {
			return nil
		}
		return &driver.Refused{Err: errors.New("not offered")}
	}
	filters := func(c *driver.ConvCase) error {
		if c.Kind != driver.ConvFilter {
			return nil
		}
		return &driver.Refused{Err: errors.New("not offered")}
	}
	const uneven = "cuDNN pads both ends of an axis alike, and by no negative number"
	for _, c := range []struct {
		name    string
		options double.Options
		own     []string // reasons, by the work in order
	}{
		{"library", double.Options{}, []string{"", "", "", "", uneven}},
		{"lazy", double.Options{Lazy: true}, []string{"", "", "", "", uneven}},
		{"missing", double.Options{NoConvolutions: true},
			[]string{"to have no library", "to have no library", "to have no library", "to have no library", uneven}},
		{"refused", double.Options{ConvFault: refused},
			[]string{"", "not offered", "not offered", "not offered", uneven}},
		{"filters refused", double.Options{ConvFault: filters}, []string{"", "", "", "not offered", uneven}},
	} {
		for _, o := range []executor.Options{{Guard: true}, {OnDemand: true}, {Capture: true}} {
			t.Run(fmt.Sprint(c.name, o.Guard, o.OnDemand, o.Capture), func(t *testing.T) {
				d, dbl := opened(t, c.options)
				s, got := ran(t, d, smallConvs, o)
				library := 0
				for i, n := range s.LibraryNodes() {
					if c.own[i] == "" {
						library++
						require.Empty(t, n.Own, n.What)
						require.Positive(t, n.Workspace)
						continue
					}
					require.Contains(t, n.Own, c.own[i], n.What)
					require.Zero(t, n.Workspace)
				}
				runs := 3
				if o.Capture {
					runs = 2 // the second one is noted, and done again
					require.Positive(t, dbl.Counts().Replays)
				}
				require.Equal(t, runs*library, dbl.Counts().Convolutions)
				require.Empty(t, s.HostNodes())
				require.Equal(t, s.Prediction().Arena, s.Measured().Arena)
				require.Equal(t, s.Prediction().Live, s.Measured().Live)
				require.Zero(t, s.Measured().Dynamic)
				for i := range want {
					require.InDeltaSlice(t, want[i], got[i], 1e-4, i)
				}
				require.NoError(t, s.Close())
			})
		}
	}
}

// TestConvFault: a library that fails, and does not only refuse, fails the run with what it said.
func TestConvFault(t *testing.T) {
	for _, kind := range []driver.ConvKind{driver.ConvForward, driver.ConvData, driver.ConvFilter} {
		d, _ := opened(t, double.Options{ConvFault: func(c *driver.ConvCase) error {
			if c.Kind != kind {
				return nil
			}
			return &driver.Error{Call: "cudnnCreate", Code: 4000, Name: "CUDNN_STATUS_INTERNAL_ERROR",
				Text: "of cuDNN 9.1.0"}
		}})
		m, types := parsed(t, smallConvs)
		s, err := executor.Open(context.Background(), m, types, d, executor.Options{})
		require.NoError(t, err)
		for name, x := range made(t, m, nil) {
			require.NoError(t, s.SetInput(name, x))
		}
		require.ErrorContains(t, s.Run(context.Background()),
			"cudnnCreate: CUDNN_STATUS_INTERNAL_ERROR (4000): of cuDNN 9.1.0; MEMOPT_CUDNN=none leaves")
		require.NoError(t, s.Close())
	}
}

// TestConvUnknownShapes: where shapes are known in the run only, the algorithm is chosen there.
func TestConvUnknownShapes(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[24] x, int64[4] shape, float[1, 1, 2, 2] w) => (float[1, 1, ?, ?] y) {
			h = Exp(x)
			r = Reshape(h, shape)
			y = Conv(r, w)
		}`)
	d, dbl := opened(t, double.Options{})
	d.ChooseConvolutions(driver.SearchExhaustive, false)
	var want [][]float32
	for _, dev := range []executor.Device{cpu.Device{}, d} {
		s, err := executor.Open(context.Background(), m, types, dev, executor.Options{Dims: symbolic.Env{}})
		require.NoError(t, err)
		for name, x := range made(t, m, symbolic.Env{}) {
			require.NoError(t, s.SetInput(name, x))
		}
		for i, shape := range [][]int64{{1, 1, 4, 6}, {1, 1, 3, 8}, {1, 1, 4, 6}} {
			require.NoError(t, s.SetInput("shape", executor.NewTensor(graph.Int64, []int{4}, shape...)))
			require.NoError(t, s.Run(context.Background()))
			got := executor.Of[float32](s.Output(0))
			if dev != executor.Device(d) {
				want = append(want, append([]float32{}, got...))
			}
			require.InDeltaSlice(t, want[i], got, 1e-5)
		}
		require.NoError(t, s.Close())
	}
	require.Equal(t, 4, dbl.Counts().ConvSearches, "guessed and timed, for two shapes")
	require.Equal(t, 3, dbl.Counts().Convolutions)
}

// TestParseConvSearch reads ONNX Runtime's names.
func TestParseConvSearch(t *testing.T) {
	for name, want := range map[string]driver.ConvSearch{
		"EXHAUSTIVE": driver.SearchExhaustive, "heuristic": driver.SearchHeuristic, "Default": driver.SearchDefault,
	} {
		got, err := cuda.ParseConvSearch(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := cuda.ParseConvSearch("")
	require.ErrorContains(t, err, `"": wanted exhaustive, heuristic or default`)
}

package executor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/mapfile"
	"memopt/internal/memlimit"
)

// weighty has a small node, and behind it what reads a weight of 1 MiB: a product, which a C
// library computes where there is one, and loops, which are fused.
const weighty = `<ir_version: 8, opset_import: ["" : 17]>
weighty (float[4] s, float[512,512] x) => (float[4] r, float[512,512] y)
<float[512,512] w = {0%s}>
{
	r = Relu(s)
	%s
}`

// readers are the bodies of weighty by what reads the weight.
var readers = map[string]string{
	"product": `y = MatMul(x, w)`,
	"loop":    `y = Add(x, w)`,
	"fused":   "a = Add(x, w)\n\tb = Mul(a, x)\n\ty = Sub(b, x)",
	"view":    "n = Constant<value_ints = [512, 512]>()\n\tv = Reshape(w, n)\n\ty = MatMul(x, v)",
}

// openWeighty writes a model with external data, opens it and makes a session.
func openWeighty(t *testing.T, body string, opts executor.Options) (s *executor.Session, data string, err error) {
	t.Helper()
	const elements = 512 * 512
	m, err := graph.Parse(fmt.Sprintf(weighty, strings.Repeat(", 0", elements-1), body), "weighty")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "model.onnx")
	require.NoError(t, onnx.WriteFile(path, m, onnx.Options{ExternalDataThreshold: 1024}))
	m, opened, err := onnx.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { opened.Close() })
	types, err := op.Infer(m)
	require.NoError(t, err)
	if s, err = executor.Open(context.Background(), m, types, cpu.Device{}, opts); err != nil {
		return nil, path + ".data", err
	}
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.SetInput("s", executor.NewTensor(graph.Float32, []int{4}, 1, 2, 3, float32(4))))
	require.NoError(t, s.SetInput("x",
		executor.NewTensor(graph.Float32, []int{512, 512}, make([]float32, elements)...)))
	return s, path + ".data", nil
}

// afterFirst does something once the first node has run.
type afterFirst func()

func (f afterFirst) Node(i int, _ graph.NodeID, _ time.Time, _ time.Duration, _ int64) {
	if i == 0 && f != nil {
		f()
	}
}

// TestFileOfWeightsShrinks: a file of weights that becomes shorter during a run ends it with an
// error, whatever reads it and on however many threads; so does one that is written to, once the
// step is done.
func TestFileOfWeightsShrinks(t *testing.T) {
	for name, body := range readers {
		for _, threads := range []int{1, 3} {
			for change, with := range map[string]func(path string) error{
				"it has 4096 bytes, but had 1048576": func(path string) error { return os.Truncate(path, 4096) },
				"it was written to": func(path string) error {
					return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour))
				},
			} {
				t.Run(name, func(t *testing.T) {
					var act func()
					var observer afterFirst = func() {
						if act != nil {
							act()
						}
					}
					s, data, err := openWeighty(t, body, executor.Options{Threads: threads, Observer: observer})
					require.NoError(t, err)
					require.NoError(t, s.Run(context.Background()))
					act = func() { require.NoError(t, with(data)) }
					err = s.Run(context.Background())
					var changed *mapfile.ChangedError
					require.ErrorAs(t, err, &changed)
					require.Equal(t, data, changed.Path)
					require.ErrorContains(t, err, change)
					require.ErrorAs(t, s.Run(context.Background()), &changed, "and the next run finds it so")
				})
			}
		}
	}
}

// TestDoesNotFit: weights and arena are refused before they are touched, and what is taken on
// demand when it is wanted.
func TestDoesNotFit(t *testing.T) {
	restore := memlimit.Pretend(1<<20 - 1)
	_, _, err := openWeighty(t, readers["product"], executor.Options{})
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
	require.ErrorContains(t, err, `weights up to "w"`)
	restore()
	restore = memlimit.Pretend(2 << 20) // the weight fits, and so does the arena of 1 MiB
	_, _, err = openWeighty(t, readers["product"], executor.Options{Beside: 5})
	restore()
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
	require.ErrorContains(t, err, "the planned arena of 104")
	require.ErrorContains(t, err, ", weights of 1048576 bytes in their files, copies of outputs of 5 bytes")

	s, _, err := openWeighty(t, readers["loop"], executor.Options{OnDemand: true})
	require.NoError(t, err)
	restore = memlimit.Pretend(1<<20 - 1)
	err = s.Run(context.Background())
	restore()
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
	require.NoError(t, s.Run(context.Background()), "what did not fit then does now")
}

// TestTripCounts: a loop whose trip count nobody could hold ends when memory does.
func TestTripCounts(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
counts (int64 n) => (int64[k] y)
{
	cond = Constant<value = bool {1}>()
	y = Loop(n, cond)<body = body (int64 i, bool go) => (bool more, int64 row) {
		more = Identity(go)
		row = Identity(i)
	}>
}`, "counts")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	s, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.SetInput("n", executor.NewTensor(graph.Int64, nil, int64(1)<<62)))
	defer memlimit.Pretend(0)()
	err = s.Run(context.Background())
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
}

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/cmd/memopt/internal/runcmd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda"
	"memopt/executor/null"
	"memopt/executor/ort/ortengine"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/view/report"
)

// shyCPU is the CPU with kernels that do not announce their workspace.
type shyCPU struct{ cpu.Device }

// shy hides what a kernel is beside a kernel.
type shy struct{ executor.Kernel }

func (d shyCPU) Kernel(p *executor.Prep) (executor.Kernel, error) {
	k, err := d.Device.Kernel(p)
	return shy{k}, err
}

// shyCUDA is the CUDA device with such kernels.
type shyCUDA struct{ *cuda.Device }

func (d shyCUDA) Assign(p *executor.Prep) (executor.Assigned, error) {
	a, err := d.Device.Assign(p)
	a.Kernel = shy{a.Kernel}
	return a, err
}

// copyingNull is the null device, but views take memory of their own.
type copyingNull struct{ null.Device }

type copying struct{ p *executor.Prep }

func (d copyingNull) Kernel(p *executor.Prep) (executor.Kernel, error) { return copying{p}, nil }

func (k copying) Run(c *executor.Ctx) error {
	for i, s := range k.p.Shapes {
		if c.Wants(i) {
			c.Out(i, s...)
		}
	}
	return nil
}

// deviceOf returns the device of a backend; nil: there is no such backend.
func deviceOf(name string) executor.Device {
	if e := option.Backends[name]; e != nil {
		return e.Traits().Device
	}
	return nil
}

// lend makes a backend known for the length of a test.
func lend(t *testing.T, name string, d executor.Device) {
	t.Helper()
	option.Backends[name] = verify.On(d)
	t.Cleanup(func() { delete(option.Backends, name) })
}

// TestPromises: on every backend, run and verify end with 5 where a step takes more of the arena
// than was promised, and with 0 where that much is tolerated. Kernels that take what they have not
// announced force it.
func TestPromises(t *testing.T) {
	exitFolder(t)
	lend(t, "shy", shyCPU{})
	lend(t, "copying", copyingNull{})
	cases := []struct{ backend, model string }{
		{"shy", "example:cnn --dim batch=2 --init random:1"},
		{"copying", "example:transformer --dim batch=2,seq=16"},
	}
	if d, ok := deviceOf("double").(*cuda.Device); ok {
		lend(t, "shy-double", shyCUDA{d})
		cases = append(cases, struct{ backend, model string }{"shy-double", "conv.onnx --level 0 --init random:1"})
	} else {
		t.Log("the driver double is left out: its kernels need a C++ compiler (apt-get install g++)")
	}
	for _, c := range cases {
		for _, verb := range []string{"run", "verify"} {
			line := fmt.Sprintf("%s %s -e %s --mem-pattern off", verb, c.model, c.backend)
			got := inProcess(t.Context(), nil, line)
			require.Equal(t, cli.ExitAbove, got.code, "memopt %s\n%s", line, got.errors)
			require.Regexp(t, `took an arena of \d+ bytes, but \d+ were planned\n$`, got.errors)
			require.NotEmpty(t, got.out, "the report is there all the same")
			got = inProcess(t.Context(), nil, line+" --peak-tolerance 1000")
			require.Zero(t, got.code, "memopt %s\n%s", line, got.errors)
		}
	}
	for _, line := range []string{"run example:cnn --dim batch=2 --init random:1 --mem-pattern off",
		"run example:transformer --dim batch=2,seq=16 -e null --mem-pattern off"} {
		require.Zero(t, inProcess(t.Context(), nil, line).code, line)
	}
}

// wasteful is a model whose plan says nothing of most of the memory of a step: that of NonZero's
// result, whose size depends on data.
const wasteful = `<ir_version: 8, opset_import: ["" : 17]> wasteful (float[64, 256] x, int64[64] labels, float[1024, 1024] many%s) => (float loss, float sum) {
%s	loss = SoftmaxCrossEntropyLoss(r7, labels)  where = NonZero(many)  places = Cast<to = 1>(where)  sum = ReduceMean<keepdims = 0>(places) }`

// TestORTPromises is TestPromises in ONNX Runtime, where a graph forces it.
func TestORTPromises(t *testing.T) {
	needORT(t)
	t.Chdir(t.TempDir())
	var text modelText
	for i := range 8 {
		text.weight("float[256, 256] w%d, float[256] b%d", i, i)
		text.node("h%d = Gemm(%s, w%d, b%d)  t%d = Tanh(h%d)  r%d = Exp(t%d)", i, before("r", i), i, i, i, i, i, i)
	}
	m, err := graph.Parse(fmt.Sprintf(wasteful, &text.weights, &text.nodes), "wasteful")
	require.NoError(t, err)
	require.NoError(t, onnx.WriteFile("wasteful.onnx", m, onnx.Options{}))
	for _, verb := range []string{"run", "verify"} {
		line := verb + " wasteful.onnx --level 1 --init random:1 -e ort --threads 1"
		got := inProcess(t.Context(), nil, line)
		require.Equal(t, cli.ExitAbove, got.code, "memopt %s\n%s", line, got.errors)
		require.Regexp(t,
			`in ONNX Runtime \S+ the planned graph took .* of the arena, .* were predicted \(\d+ and \d+ bytes; --peak-tolerance 0.15\)\n$`,
			got.errors)
		got = inProcess(t.Context(), nil, line+" --peak-tolerance 1000")
		require.Zero(t, got.code, "memopt %s\n%s", line, got.errors)
		// Nothing is promised of a graph as it is.
		require.Zero(t,
			inProcess(t.Context(), nil, verb+" wasteful.onnx --level 0 --init random:1 -e ort --threads 1").code)
	}
	_, err = os.Stat("wasteful.onnx")
	require.NoError(t, err)
}

// runOf is a run of which so many bytes were planned and measured.
func runOf(planned, measured int64) *verify.Run {
	r := &verify.Run{Times: []time.Duration{1}}
	r.Predicted.Arena, r.Measured.Arena = planned, measured
	return r
}

// viewOf is a run of a graph with so many values.
func viewOf(r *verify.Run, values int) *report.RunView {
	return &report.RunView{Run: r, Graph: &graph.Graph{Values: make([]graph.Value, values)}}
}

// TestVerdict: numbers count first, then the promise, of both sides alike.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name              string
		baseline, planned *verify.Run
		differ            bool
		tolerance         float64
		code              int
		says              string
	}{
		{"as planned", runOf(100, 100), runOf(50, 50), false, 0, 0, ""},
		{"below", runOf(100, 90), runOf(50, 1), false, 0, 0, ""},
		{"baseline above", runOf(100, 101), runOf(50, 50), false, 0, cli.ExitAbove,
			"m: the baseline took an arena of 101 bytes, but 100 were planned"},
		{"planned above", runOf(100, 100), runOf(50, 51), false, 0, cli.ExitAbove,
			"m: the planned graph took an arena of 51 bytes, but 50 were planned"},
		{"tolerated to the byte", runOf(100, 110), runOf(50, 55), false, 0.1, 0, ""},
		{"a byte more than tolerated", runOf(1000, 1101), runOf(50, 55), false, 0.1, cli.ExitAbove, "1101 bytes"},
		{"other numbers and above", runOf(100, 200), runOf(50, 50), true, 0, cli.ExitDiffers,
			`m: the numbers differ: value "y": is wrong`},
	} {
		v := &report.VerifyView{Verdict: &verify.Verdict{Equal: !c.differ, Baseline: c.baseline, Planned: c.planned}}
		v.Baseline, v.Planned = *viewOf(c.baseline, 0), *viewOf(c.planned, 0)
		if c.differ {
			v.Verdict.First = &verify.Difference{Value: "y", Text: "is wrong"}
		}
		requireCode(t, c.code, c.says, runcmd.Verdict("m", v, c.tolerance), c.name)
	}
}

func requireCode(t *testing.T, code int, says string, err error, name string) {
	t.Helper()
	if code == 0 {
		require.NoError(t, err, name)
		return
	}
	var e *cli.ExitError
	require.ErrorAs(t, err, &e, name)
	require.Equal(t, code, e.Code, name)
	require.ErrorContains(t, err, says, name)
}

// TestAboveORT: what is promised of ONNX Runtime's arena, to the byte.
func TestAboveORT(t *testing.T) {
	exact, chunks := &verify.Runtime{Arena: true, Exact: true}, &verify.Runtime{Arena: true}
	for _, c := range []struct {
		name        string
		facts       *verify.Runtime
		live, arena int64
		values      int
		measured    int64
		tolerance   float64
		above       bool
	}{
		{name: "exact: live bytes and 256 a value", facts: exact, live: 1000, arena: 9000, values: 2, measured: 1512},
		{name: "a byte more", facts: exact, live: 1000, arena: 9000, values: 2, measured: 1513, above: true},
		{name: "chunks: the arena", facts: chunks, live: 1000, arena: 2000, measured: 2000},
		{name: "a byte more than chunks", facts: chunks, live: 1000, arena: 2000, measured: 2001, above: true},
		{name: "an arena that is not known", facts: chunks, live: 1000, measured: 1001, above: true},
		{name: "tolerated", facts: exact, live: 1000, measured: 1150, tolerance: 0.15},
		{name: "not tolerated", facts: exact, live: 1000, measured: 1151, tolerance: 0.15, above: true},
		{name: "nothing predicted", facts: chunks, measured: 5000},
		{name: "no arena", facts: &verify.Runtime{}, live: 1000, measured: 5000},
	} {
		r := &verify.Run{Runtime: c.facts}
		r.Predicted.Live, r.Predicted.Arena, r.Measured.Arena = c.live, c.arena, c.measured
		code := 0
		if c.above {
			code = cli.ExitAbove
		}
		requireCode(t, code, "m: in ONNX Runtime", runcmd.Above("m", "a step", viewOf(r, c.values), c.tolerance),
			c.name)
	}
	unchanged := &report.VerifyView{Verdict: &verify.Verdict{Equal: true, Planned: runOf(1, 2)}, Unchanged: true}
	unchanged.Planned.Run = &verify.Run{Runtime: chunks}
	require.NoError(t, runcmd.Verdict("m", unchanged, 0), "nothing is promised of a graph as it is")
}

// TestPeakTolerance: the default is the backend's, a value given counts everywhere.
func TestPeakTolerance(t *testing.T) {
	for args, want := range map[string][2]float64{
		"": {0, 0.15}, "--peak-tolerance 0": {0, 0}, "--peak-tolerance 0.5": {0.5, 0.5},
	} {
		var ex option.ExecFlags
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		ex.Register(flags)
		require.NoError(t, flags.Parse(strings.Fields(args)))
		require.Equal(t, want, [2]float64{ex.PeakTolerance(option.Backends["cpu"]),
			ex.PeakTolerance(&ortengine.Engine{})},
			args)
	}
}

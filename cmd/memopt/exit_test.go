package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/configs"
	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/executor/ort"
	"memopt/executor/verify"
	"memopt/graph/live"
	"memopt/planner"
	"memopt/recompute"
	"memopt/symbolic"
)

// ended is what a command line left behind.
type ended struct {
	code        int
	out, errors string
}

// inProcess runs a command line in this process, in the test's folder.
func inProcess(ctx context.Context, in io.Reader, line string) ended {
	var out, errs bytes.Buffer
	code := runUntil(ctx, &cli.Keeper{}, strings.Fields(line), cli.Stdio{In: in, Out: &out, Err: &errs}, nil)
	return ended{code, out.String(), errs.String()}
}

// exitFiles are what the command lines of TestExitCodes read, beside forwardModels.
var exitFiles = map[string]string{
	"empty.onnx": "",
	"text.onnx":  "this is no model",
	"plan.json":  `{"schema":"memopt.recompute/v1","structure_sha256":"0000","dims":{},"order":[],"placements":[]}`,
	// Three buffers of which two live at a time.
	"buffers.csv": "id,lower,upper,size\na,0,2,8\nb,1,3,8\nc,2,4,8\n",
	// A chain whose first value is read again at its end.
	"chain.json": `{"name":"chain","budget":3,"nodes":[{"id":0,"cost":1,"size":1,"inputs":[]},{"id":1,"cost":1,"size":2,"inputs":[0]},{"id":2,"cost":1,"size":1,"inputs":[1]},{"id":3,"cost":1,"size":1,"inputs":[0,2]}]}`,
	"joint.json": `{"format":"memopt-instance","version":2,"name":"joint","budget":5,"cost_unit":"us","live":[{"id":"w","size":1}],"nodes":[{"id":"a","cost":0.5,"inputs":["w"],"size":1,"tags":{"line":7}},{"id":"b","cost":1.5,"inputs":["a"],"outputs":[{"id":"b.0","size":2},{"id":"b.1","size":0,"keep":true}],"recompute":false},{"id":"v","inputs":["b.0"],"alias":"b.0"},{"id":"c","cost":1,"inputs":["a","v"],"size":1}]}`,
	"tight.json": `{"name":"tight","budget":2,"nodes":[{"id":0,"cost":1,"size":2,"inputs":[]},{"id":1,"cost":1,"size":2,"inputs":[0]}]}`,
}

// exitFolder makes the test's folder one with the models and files that command lines name.
func exitFolder(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, writeForward("."))
	for name, text := range exitFiles {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
	}
	require.NoError(t, os.WriteFile("hard.json", hardInstance(40), 0o666))
	require.NoError(t, os.Mkdir("folder", 0o777))
}

// hardInstance is a chain of n computations of which each reads an older one, too, so that no bound
// is met at once.
func hardInstance(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"name":"hard","budget":100,"nodes":[{"id":0,"cost":1,"size":1,"inputs":[]}`)
	for i := 1; i < n; i++ {
		inputs := fmt.Sprint(i - 1)
		if older := (i*i + 3*i) / 7 % i; older != i-1 {
			inputs = fmt.Sprintf("%d,%d", older, i-1)
		}
		fmt.Fprintf(&b, `,{"id":%d,"cost":%d,"size":%d,"inputs":[%s]}`, i, 1+i*5%9, 1+i*7%11, inputs)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

// exitCodes are command lines with the code that each ends with, and a part of what it says.
var exitCodes = []struct {
	line string
	code int
	says string
}{
	{"version", 0, ""},
	{"plan example:mlp", 0, ""},
	{"plan example:mlp --dim batch=4096 --budget 60% --time-limit 1ms", 0, ""},
	{"", 0, ""},
	{"help exit-codes", 0, ""},
	{"run forward.onnx --dim batch=4 --init random:1", 0, "note: "},
	{"verify forward.onnx --level 1 --dim batch=4 --init random:1", 0, ""},
	{"apply example:mlp --level 1 -o written.onnx", 0, ""},
	{"grad forward.onnx -o written.onnx", 0, ""},
	{"inspect forward.onnx", 0, ""},
	{"ops Relu", 0, ""},
	{"examples", 0, ""},
	{"devices", 0, ""},
	{"devices h1000", 2, ""},
	{"pack buffers.csv -o offsets.csv --capacity 16", 0, ""},
	{"solve chain.json -o schedule.json", 0, ""},
	{"check schedule.json chain.json", 0, ""},
	{"check schedule.json joint.json", 4, "the claims of the plan are false: "},
	{"check plan.json example:mlp", 2, "structure_sha256"},
	{"check --trace chain.json", 2, "no trace of events"},
	{"check --trace empty.json chain.json", 2, "leave chain.json out"},
	{"check schedule.json", 2, "wants a PLAN and the MODEL"},
	{"check chain.json chain.json", 2, "the plan is no schedule"},
	{"check schedule.json missing.json", 2, "missing.json"},

	{"frobnicate", 2, "unknown command"},
	{"plan", 2, "wants one MODEL"},
	{"plan example:mlp --lvl 1", 2, "unknown flag"},
	{"plan example:mlp --order foo", 2, "--order"},
	{"plan example:mlp --level 3", 2, "--level"},
	{"plan example:mlp --dim bath=3", 2, "--dim bath"},
	{"plan missing.onnx", 2, "missing.onnx"},
	{"plan folder", 2, "folder"},
	{"plan example:mlp --plan plan.json", 2, "structure_sha256"},
	{"plan forward.onnx --budget 1GiB", 2, "no value"},
	{"run forward.onnx --init random:1", 2, "no value"},
	{"run forward.onnx --dim batch=4", 2, "has no data"},
	{"run forward.onnx --dim batch=4 --init random:1 --atol -1", 2, "--atol"},
	{"run forward.onnx --dim batch=4 --init random:1 --peak-tolerance -1", 2, "--peak-tolerance"},
	{"run forward.onnx --dim batch=4 --init random:1 -e tpu", 2, "--backend"},
	{"verify example:mlp conv.onnx --dim batch=1 --init random:1", 2, "is not an output of the second"},
	{"apply example:mlp --level 1 -o nowhere/out.onnx", 2, "nowhere"},
	{"report example:mlp --dim batch=8 --pareto 0 -o nowhere/page.html", 2, "--out: cannot write nowhere/page.html"},
	{"trace example:mlp --dim batch=8 -o nowhere/step.json", 2, "--out: cannot write nowhere/step.json"},
	{"plan example:mlp --dim batch=8 --plot nowhere/step.svg", 2, "--plot: cannot write nowhere/step.svg"},
	{"grad forward.onnx -o forward.onnx", 2, "an input is never overwritten"},
	{"ops Nonesuch", 2, "no such operator"},
	{"pack buffers.csv -o offsets.csv --capacity none", 2, "--capacity"},
	{"solve plan.json -o schedule.json", 2, "plan.json"},

	{"plan example:mlp --dim batch=8 --budget 1KiB", 3, "no plan fits"},
	{"apply example:mlp --dim batch=8 --budget 1KiB -o written.onnx", 3, "no plan fits"},
	{"run example:cnn --dim batch=2 --init random:1 --mem-limit 1MiB", 3, "out of memory"},
	{"run example:cnn --dim batch=2 -e null --mem-limit 1MiB", 3, "out of memory"},
	{"verify example:cnn --dim batch=2 --init random:1 --mem-limit 1MiB", 3, "out of memory"},
	{"pack buffers.csv -o offsets.csv --capacity 15", 3, "do not fit into 15 bytes"},
	{"solve tight.json -o schedule.json", 3, "tight.json"},

	{"verify forward.onnx other.onnx --dim batch=4 --init random:1", 4, `the numbers differ: value "r"`},
	{"verify forward.onnx other.onnx --dim batch=4 --init random:1 --bitwise off", 4, "the numbers differ"},
	{"run forward.onnx --dim batch=4 --init random:2 --data-dir outputs.npz", 4, "an expected output differs"},

	{"plan empty.onnx", 6, "empty"},
	{"plan - --level 1", 6, "standard input"},
	{"plan text.onnx", 6, "not an ONNX model"},
	{"plan noloss.onnx", 6, "noloss.onnx"},
	{"verify norule.onnx --level 1 --dim batch=2 --init random:1", 6, "Unique"},
	{"grad norule.onnx -o written.onnx", 6, "Unique"},
	{"run strange.onnx --init random:1", 6, "Mystery"},
	{"run clash.onnx --init random:1", 6, "int8[4] in the file"},
	{"run clash.onnx -e null", 6, "int8[4] in the file"},
	{"run leftout.onnx --init random:1", 6, "input 0 is left out"},
	{"verify clash.onnx --level 1 --init random:1", 6, "int8[4] in the file"},

	{"run forward.onnx --dim batch=4 --init random:1 -e cuda", 7, "no NVIDIA driver"},
	{"verify forward.onnx --dim batch=4 --init random:1 -e cuda:1", 7, "no NVIDIA driver"},
	{"run forward.onnx --dim batch=4 --init random:1 -e ort", 7, "ONNX Runtime"},
	{"verify forward.onnx --dim batch=4 --init random:1 -e ort", 7, "ONNX Runtime"},

	{"plan example:transformer --budget 40% --time-limit 0 --require-optimal", 8, "not proved"},
	{"apply example:transformer --budget 40% --time-limit 0 --require-optimal -o early.onnx", 8, "not proved"},
	{"run example:transformer --budget 40% --time-limit 0 --require-optimal -e null", 8, "not proved"},
	{"verify example:transformer --budget 40% --time-limit 0 --require-optimal -e null", 8, "not proved"},
	{"plan example:mlp --dim batch=8 --budget 110% --require-optimal", 0, ""},
	{"plan example:transformer-small --dim batch=4,seq=64 --budget 60% --link 5GB/s --host-budget 1GiB " +
		"--effort 0.01 --require-optimal", 8, "not proved"},
	{"apply example:transformer-small --dim batch=4,seq=64 --budget 60% --link 5GB/s --host-budget 1GiB " +
		"--effort 0.01 --require-optimal -o moved.onnx", 8, "not proved"},
	{"plan example:transformer-small --dim batch=4,seq=64 --budget 60% --link 1TB/s --host-budget 1GiB " +
		"--effort 0.01 --require-optimal", 0, ""},
	{"solve hard.json -o schedule.json --budget 75% --solver greedy --time-limit 0 --require-optimal", 8,
		"without a proof"},
	{"solve chain.json -o schedule.json --require-optimal", 0, ""},
	{"solve hard.json -o schedule.json --budget 40% --time-limit 1ns", 3, "the time limit ended the search"},
}

// TestExitCodes holds command lines to their exit codes: what a script that calls memopt relies on.
func TestExitCodes(t *testing.T) {
	exitFolder(t)
	t.Setenv("MEMOPT_LIBCUDA", "/nowhere/libcuda.so.1")
	t.Setenv(ort.LibraryVariable, "/nowhere/libonnxruntime.so")
	require.Zero(t, inProcess(t.Context(), nil,
		"run forward.onnx --dim batch=4 --init random:1 --save-outputs outputs.npz").code)
	seen := map[int]bool{}
	for _, c := range exitCodes {
		got := inProcess(t.Context(), strings.NewReader(""), c.line)
		require.Equal(t, c.code, got.code, "memopt %s\n%s", c.line, got.errors)
		require.Contains(t, got.errors, c.says, "memopt %s", c.line)
		if seen[c.code] = true; c.code != 0 {
			last := strings.TrimSuffix(got.errors, "\n")
			last = last[strings.LastIndexByte(last, '\n')+1:]
			require.True(t, strings.HasPrefix(last, "memopt: "), "memopt %s: the last line is %q", c.line, last)
		}
	}
	require.FileExists(t, "early.onnx", "what was found is kept")
	for code := range 9 {
		if code != cli.ExitInternal && code != cli.ExitAbove { // of these there are tests of their own
			require.True(t, seen[code], "no command line ends with %d", code)
		}
	}
}

// interrupting is an input that ends a context once it is read.
type interrupting struct {
	io.Reader
	end func()
}

func (r interrupting) Read(p []byte) (int, error) {
	r.end()
	return r.Reader.Read(p)
}

// TestInterrupted: whatever is interrupted ends with 130, or 143 where the system asked for the
// end, and keeps the best that it found.
func TestInterrupted(t *testing.T) {
	exitFolder(t)
	require.Zero(t, inProcess(t.Context(), nil, "apply example:mlp --level 0 -o training.onnx -q").code)
	for _, c := range []struct{ line, input, keeps string }{
		{"plan - --dim batch=4096 --budget 60%", "training.onnx", ""},
		{"plan - --dim batch=4096 --budget 110% --save-plan kept", "training.onnx", "kept"},
		{"apply - --dim batch=4096 --budget 110% -o kept", "training.onnx", "kept"},
		{"plan - --dim batch=4096 --pareto 3", "training.onnx", ""},
		{"run - --dim batch=2 --init random:1 -r 3", "training.onnx", ""},
		{"run - --dim batch=2 -e null -r 3", "training.onnx", ""},
		{"verify - --dim batch=2 --init random:1 --level 1", "training.onnx", ""},
		{"pack - -o kept", "buffers.csv", "kept"},
		{"solve - -o kept", "chain.json", "kept"},
	} {
		for cause, code := range map[error]int{context.Canceled: 130, cli.ErrTerminated: 143, cli.ErrHungUp: 129} {
			data, err := os.ReadFile(c.input)
			require.NoError(t, err)
			os.Remove("kept")
			ctx, end := context.WithCancelCause(t.Context())
			got := inProcess(ctx, interrupting{bytes.NewReader(data), func() { end(cause) }}, c.line)
			require.Equal(t, code, got.code, "memopt %s\n%s", c.line, got.errors)
			require.Contains(t, got.errors, "interrupted", c.line)
			if c.keeps != "" {
				require.FileExists(t, c.keeps, c.line)
			}
		}
	}
}

// full is a disk on which nothing more can be written.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestReportIsWritten: a report that cannot be written is no success.
func TestReportIsWritten(t *testing.T) {
	exitFolder(t)
	for _, line := range []string{"version", "plan example:mlp -O json", "plan example:mlp", "inspect forward.onnx",
		"examples", "ops", "verify forward.onnx --dim batch=4 --init random:1",
		"run forward.onnx --dim batch=4 --init random:1", "pack buffers.csv -o -", "help exit-codes"} {
		var errs bytes.Buffer
		require.Equal(t, cli.ExitUsage, run(strings.Fields(line), cli.Stdio{In: nil, Out: full{}, Err: &errs}, nil),
			line)
		require.Contains(t, errs.String(), "no space left on device", line)
	}
}

// TestClassify gives each kind of error its code, however it is wrapped.
func TestClassify(t *testing.T) {
	require.NoError(t, cli.Classify(nil))
	for _, c := range []struct {
		err  error
		code int
	}{
		{context.Canceled, cli.ExitInterrupted},
		{executor.ErrOutOfMemory, cli.ExitInfeasible},
		{planner.ErrInfeasible, cli.ExitInfeasible},
		{&symbolic.UnboundError{Symbols: []string{"n"}}, cli.ExitUsage},
		{&configs.Error{Where: "f", Err: errors.New("w")}, cli.ExitUsage},
		{recompute.ErrPlacement, cli.ExitUsage},
		{planner.ErrStashLimit, cli.ExitUsage},
		{verify.ErrOutputs, cli.ExitUsage},
		{&driver.Missing{}, cli.ExitMissing},
		{&driver.Error{}, cli.ExitInternal},
		{live.ErrNoBoundary, cli.ExitInvalid},
		{errors.New("a node is wrong"), cli.ExitInvalid},
		{&cli.ExitError{Code: cli.ExitEarly, Err: errors.New("early")}, cli.ExitEarly},
	} {
		for _, err := range []error{c.err, fmt.Errorf("model.onnx: %w", c.err)} {
			var e *cli.ExitError
			require.ErrorAs(t, cli.Classify(err), &e, "%v", err)
			require.Equal(t, c.code, e.Code, "%v", err)
		}
	}
}

// TestExitCodesAreExplained: the help names each code once.
func TestExitCodesAreExplained(t *testing.T) {
	help := (&cli.App{}).ExitCodesTopic().Long
	for _, code := range []int{0, cli.ExitInternal, cli.ExitUsage, cli.ExitInfeasible, cli.ExitDiffers, cli.ExitAbove,
		cli.ExitInvalid,
		cli.ExitMissing, cli.ExitEarly, cli.ExitHungUp, cli.ExitInterrupted, cli.ExitPipe, cli.ExitTerminated} {
		require.Equal(t, 1, strings.Count(help, fmt.Sprintf("\n%5d  ", code)), "%d", code)
	}
}

// TestSameMessage: of two flags that are refused, the message names the same one every time.
func TestSameMessage(t *testing.T) {
	exitFolder(t)
	require.NoError(t, os.WriteFile("gelu.json", []byte(`["Gelu+:1:-1"]`), 0o666))
	line := "plan example:mlp --level 1 --config gelu.json --budget 50%"
	first := inProcess(t.Context(), nil, line)
	require.Equal(t, cli.ExitUsage, first.code)
	require.Contains(t, first.errors, "--level 1 and --budget cannot be combined")
	for range 49 {
		require.Equal(t, first, inProcess(t.Context(), nil, line))
	}
}

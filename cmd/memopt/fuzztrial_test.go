//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/internal/memlimit"
	"memopt/internal/test/mutate"
	"memopt/internal/test/schematest"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/view/report"
)

// bench is where mutants are tried: folders, and the files that are no mutants.
type bench struct {
	data, in, out, temp string
	schemas             map[string]*schematest.Schema
	limits              limits
}

// benchModel is what command lines plan whose mutant is another file than the model.
const benchModel = `bench (float[batch, 8] x, int64[batch] labels, float[16, 8] w1, float[16] b1, float[4, 16] w2) => (float loss, float[4, 16] g) {
	["fc1"] h = Gemm<transB = 1>(x, w1, b1)  ["act"] r = Gelu(h)  ["fc2"] scores = Gemm<transB = 1>(r, w2)  ["loss"] loss, p = SoftmaxCrossEntropyLoss(scores, labels)
	["d1"] d = Mul(p, scores)  ["d2"] e = Gemm<transA = 1>(d, r)  ["d3"] f = MatMul(d, w2)  ["d4"] k = Mul(f, h)  ["d5"] m = ReduceSum<keepdims = 0>(k)  ["d6"] g = Mul(e, m) }`

// benchMemory is what command lines believe to have: less than the watchdog lets them take.
const benchMemory = 512 << 20

// newBench makes the folders.
func newBench(t testing.TB) *bench {
	t.Helper()
	root := t.TempDir()
	b := &bench{data: filepath.Join(root, "data"), in: filepath.Join(root, "in"), out: filepath.Join(root, "out"),
		temp: filepath.Join(root, "temp"), limits: defaultLimits}
	for _, dir := range []string{b.data, b.in, b.out, b.temp} {
		require.NoError(t, os.Mkdir(dir, 0o777))
	}
	t.Setenv("TMPDIR", b.temp)
	t.Cleanup(memlimit.Pretend(benchMemory))
	b.schemas = map[string]*schematest.Schema{}
	for _, verb := range []string{"plan", "pareto", "apply", "grad", "run", "verify", "pack", "solve", "inspect",
		"diff", "explain", "optimize", "quantize", "unfit"} {
		b.schemas[verb] = schematest.Load(t, schematest.Folder(t), verb)
	}
	m, err := graph.Parse("<ir_version: 8, opset_import: [\"\" : 20]> "+benchModel, "bench")
	require.NoError(t, err)
	require.NoError(t, onnx.WriteFile(filepath.Join(b.data, "model.onnx"), m, onnx.Options{}))
	for _, line := range []string{
		"plan DATA/model.onnx --level 1 --dim batch=4 --save-plan DATA/plan.json --save-config DATA/config.json",
		"run DATA/model.onnx --level 0 --dim batch=4 --init random:1 --profile DATA/trace.json --save-outputs " +
			"DATA/arrays.npz",
	} {
		got := inProcess(t.Context(), nil, strings.ReplaceAll(line, "DATA", b.data))
		require.Zero(t, got.code, "%s\n%s", line, got.errors)
	}
	b.planInParts(t, m)
	return b
}

// planInParts writes a plan file for the bench's model with a region in parts.
func (b *bench) planInParts(t testing.TB, read *graph.Model) {
	t.Helper()
	m, err := memopt.New(read, memopt.Options{Dims: map[string]int64{"batch": 4}})
	require.NoError(t, err)
	whole, err := m.Plan(context.Background(), nil, memopt.PlanOptions{})
	require.NoError(t, err)
	bound, err := chunk.Bind(m.Model, m.Dims)
	require.NoError(t, err)
	order := whole.Analysis.Order
	cut, err := chunk.Around(bound, order, "r", "0", 2, 0, chunk.Fast)
	require.NoError(t, err)
	p, err := m.Plan(context.Background(),
		&planner.PlanFile{Cuts: &planner.Cuts{List: []chunk.Cut{*cut}, Order: order}}, memopt.PlanOptions{})
	require.NoError(t, err)
	data, err := p.File(0)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(b.data, "parts.json"), data, 0o666))
}

// finding is what is wrong with how a command line ended.
type finding struct {
	kind  string // panic, exit, output, …
	where string // what findings of one cause have in common
	text  string
}

func (f *finding) String() string { return f.kind + ": " + f.where + "\n" + f.text }

// trial is a command line on a mutant.
type trial struct {
	*bench
	fuzzLine
	mutant []byte
	path   string // of the mutant
	dims   string
	again  bool // a second run is to leave the same bytes

	said  strings.Builder // of all lines
	codes []int           // how they ended
	last  string          // message
}

// try runs the lines and returns what is wrong, nil where nothing is.
func (b *bench) try(line fuzzLine, mutant []byte, again bool) (*finding, *trial) {
	x := &trial{
		bench: b, fuzzLine: line, mutant: mutant, again: again && !line.timed, path: filepath.Join(b.in, "mutant"),
	}
	if line.name != "" {
		x.path = filepath.Join(b.in, line.name)
	} else if line.input == modelInput {
		x.path += ".onnx"
	}
	if line.input == modelInput {
		for i, name := range mutate.Symbols(mutant) {
			x.dims += fmt.Sprintf("\x00--dim\x00%s=%d", name, 2+i%3)
		}
	}
	if err := x.lay(); err != nil {
		return &finding{"bench", "cannot write", err.Error()}, x
	}
	goroutines := runtime.NumGoroutine()
	var code int
	for i, text := range x.lines {
		var f *finding
		if code, f = x.line(text, i); f != nil {
			return f, x
		}
		if code != 0 {
			break
		}
	}
	if f := x.leftovers(code); f != nil {
		return f, x
	}
	return leaked(goroutines), x
}

// lay writes the mutant, alone in its folder, and empties the folder for what is written.
func (x *trial) lay() error {
	for _, dir := range []string{x.in, x.out, x.temp} {
		list, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(x.path, x.mutant, 0o666)
}

// words returns the arguments of a line.
func (x *trial) words(text string) []string {
	text = strings.ReplaceAll(text, " ", "\x00")
	text = strings.ReplaceAll(text, "\x00DIMS", x.dims)
	text = strings.NewReplacer("DATA/", x.data+"/", "OUT/", x.out+"/", "FOLDER", x.in, "\x00IN",
		"\x00"+x.path).Replace(text)
	return strings.Split(text, "\x00")
}

// line runs one line and judges how it ended.
func (x *trial) line(text string, nth int) (int, *finding) {
	args := x.words(text)
	got, f := x.watched(args)
	x.codes = append(x.codes, got.code)
	fmt.Fprintf(&x.said, "memopt %s\nended with %d\n%s", strings.Join(args, " "), got.code, got.errors)
	if f == nil {
		f = x.judge(args, got, nth)
	}
	if f == nil && x.again && nth == 0 && !got.stopped {
		f = x.same(args, got)
	}
	if f != nil {
		f.text += "\n" + x.said.String()
	}
	return got.code, f
}

// watched runs a line under the watchdog.
func (x *trial) watched(args []string) (watchedEnd, *finding) {
	return x.limits.watch(func(ctx context.Context) ended {
		var in io.Reader = strings.NewReader("")
		if x.stdin {
			in = bytes.NewReader(x.mutant)
		}
		var out, errs bytes.Buffer
		code := runUntil(ctx, &cli.Keeper{}, args, cli.Stdio{In: in, Out: &out, Err: &errs}, nil)
		return ended{code, out.String(), errs.String()}
	})
}

// fuzzCodes are the exit codes that a mutant may lead to. Others are judged one by one.
var fuzzCodes = []int{0, cli.ExitUsage, cli.ExitInfeasible, cli.ExitInvalid, cli.ExitEarly}

// judge holds how a line ended to what CLI.md promises.
func (x *trial) judge(args []string, got watchedEnd, nth int) *finding {
	verb := args[0]
	last := got.errors[strings.LastIndexByte(strings.TrimSuffix(got.errors, "\n"), '\n')+1:]
	x.last = last
	switch {
	case got.code == cli.ExitInternal:
		return x.traced(args, last)
	case got.code == cli.ExitInterrupted && got.stopped:
	case got.code == cli.ExitMissing && slices.Contains(args, cli.OrtName): // its library may die of a mutant
	case got.code == cli.ExitDiffers && (x.expects() || nth > 0 && x.draws()):
	case !slices.Contains(fuzzCodes, got.code):
		return &finding{"exit", fmt.Sprintf("%s ends with %d: %s", verb, got.code, general(last)), got.out}
	case nth > 0 && got.code != 0 && !got.stopped && x.rereads(verb) && !strings.Contains(last, "external data"):
		return &finding{"reload", fmt.Sprintf("%s of what was written ends with %d: %s", verb, got.code, general(last)),
			""}
	}
	if f := x.messages(got); f != nil {
		return f
	}
	return x.report(args, got)
}

// rereads reports whether a verb of a later line bears with all that the first line has written.
// What grad writes has types of its own.
func (x *trial) rereads(verb string) bool {
	return verb == "inspect" || verb == "apply" || verb == "plan" && strings.HasPrefix(x.lines[0], "apply")
}

// expects reports whether the mutant is what outputs are compared with.
func (x *trial) expects() bool {
	return x.input != modelInput || strings.Contains(x.lines[0], "--data-dir")
}

// draws reports whether the mutant may have random nodes. One without a seed draws other numbers in
// another file, where a plan has given it a seed; verify of one file gives both sides that seed.
func (x *trial) draws() bool {
	return slices.ContainsFunc([]string{"Dropout", "Random", "Bernoulli", "Multinomial"},
		func(op string) bool { return bytes.Contains(x.mutant, []byte(op)) })
}

// prefixes are those of lines on the error stream.
var prefixes = []string{"memopt: ", "warning: ", "note: "}

// longestMessage is how long a line on the error stream may be.
const longestMessage = 16_000

// messages wants whole lines of text on the error stream, the last of which says what is wrong.
func (x *trial) messages(got watchedEnd) *finding {
	bad := func(where, line string) *finding { return &finding{"message", where + " " + general(line), line} }
	faults := 0
	for line := range strings.Lines(got.errors) {
		switch {
		case !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) &&
			!strings.Contains(strings.Join(x.lines, " "), "-o -"):
			return bad("a line of its own", line)
		case !strings.HasSuffix(line, "\n"):
			return bad("a line that does not end", line)
		case len(line) > longestMessage:
			return bad("a long line", line)
		case strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool {
			return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0
		}):
			return bad("a line with controls", line)
		}
		if strings.HasPrefix(line, "memopt: ") {
			faults++
		}
	}
	if got.code != 0 && faults != 1 {
		return bad(fmt.Sprintf("%d lines say why it ended with %d", faults, got.code), got.errors)
	}
	return nil
}

// writers are the verbs whose file is all that they make.
var writers = []string{"report", "trace"}

// report wants what is on standard output to be of the form that was asked for.
func (x *trial) report(args []string, got watchedEnd) *finding {
	verb, form := args[0], ""
	if at := slices.Index(args, "-O"); at >= 0 {
		form = args[at+1]
	}
	if slices.Contains(args, "--pareto") {
		verb = "pareto"
	}
	if verb == "plan" && got.code == cli.ExitInfeasible &&
		strings.Contains(got.out, `"schema": "`+report.InfeasibleBudgetSchema) {
		verb = "unfit"
	}
	if got.out == "" {
		if got.code == 0 && !slices.Contains(args, "-q") && !slices.Contains(writers, args[0]) {
			return &finding{"report", verb + " reports nothing", ""}
		}
		return nil
	}
	switch form {
	case "json":
		if err := x.schemas[verb].Validate([]byte(got.out)); err != nil {
			return &finding{"report", verb + " prints other JSON than its schema says: " +
				general(err.Error()), got.out}
		}
	case "csv":
		r := csv.NewReader(strings.NewReader(got.out))
		r.FieldsPerRecord = -1
		if _, err := r.ReadAll(); err != nil {
			return &finding{"report", verb + " prints CSV that cannot be read: " + general(err.Error()), got.out}
		}
	}
	return nil
}

// same runs a line again and wants the same bytes.
func (x *trial) same(args []string, first watchedEnd) *finding {
	before := x.written()
	if err := x.lay(); err != nil {
		return &finding{"bench", "cannot write", err.Error()}
	}
	second, f := x.watched(args)
	if f != nil || second.stopped {
		return f
	}
	switch {
	case first.code != second.code || first.errors != second.errors:
		return &finding{"unsteady", args[0] + " says something else the second time",
			first.errors + "\n---\n" + second.errors}
	case args[0] != "run" && args[0] != "verify" && first.out != second.out: // which print times
		return &finding{"unsteady", args[0] + " prints something else the second time",
			first.out + "\n---\n" + second.out}
	}
	for name, data := range before {
		if now := x.written()[name]; now != data && name != "trace.json" {
			return &finding{"unsteady", args[0] + " writes another " + name + " the second time", ""}
		}
	}
	return nil
}

// written returns the files in the folder for what is written.
func (x *trial) written() map[string]string {
	list := map[string]string{}
	filepath.Walk(x.out, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			data, _ := os.ReadFile(path)
			name, _ := filepath.Rel(x.out, path)
			list[name] = string(data)
		}
		return nil
	})
	return list
}

// leftovers wants the mutant unchanged, no temporary file, and nothing written by a line that
// failed.
func (x *trial) leftovers(code int) *finding {
	if data, err := os.ReadFile(x.path); err != nil || !bytes.Equal(data, x.mutant) {
		return &finding{"files", x.lines[0][:4] + " changes its input", fmt.Sprint(err)}
	}
	for _, dir := range []string{x.temp, x.in} {
		list, _ := os.ReadDir(dir)
		for _, e := range list {
			if path := filepath.Join(dir, e.Name()); path != x.path {
				return &finding{"files", "a file is left behind: " + general(e.Name()), x.said.String()}
			}
		}
	}
	for name, data := range x.written() {
		if strings.HasPrefix(filepath.Base(name), ".") {
			return &finding{"files", "a temporary file is left behind: " + general(name), x.said.String()}
		}
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(data)) {
			return &finding{"files", name + " is no JSON", data}
		}
	}
	list, _ := os.ReadDir(x.out)
	if len(x.lines) == 1 && len(list) > 0 && (code == cli.ExitUsage || code == cli.ExitInvalid) {
		return &finding{"files", fmt.Sprintf("%s ends with %d and leaves a file", x.lines[0][:4], code),
			list[0].Name() + "\n" + x.said.String()}
	}
	return nil
}

// traced runs a line again that ended with an internal error, for the trace.
func (x *trial) traced(args []string, said string) *finding {
	if err := x.lay(); err != nil {
		return &finding{"bench", "cannot write", err.Error()}
	}
	got, f := x.watched(append(args[:len(args):len(args)], "-v"))
	if f != nil {
		return f
	}
	where := panickedAt(got.errors)
	if where == "" {
		where = general(said)
	}
	return &finding{"internal", where, said + got.errors}
}

// panickedAt returns the function and line in a trace at which a panic came up, "" where there is
// none.
func panickedAt(trace string) string {
	at := strings.LastIndex(trace, "panic(")
	if at < 0 {
		if at = strings.Index(trace, "\ngoroutine "); at < 0 {
			return ""
		}
	}
	return firstFrame(trace[at:])
}

// firstFrame returns the first function of this module in a stack with its place, "" where there is
// none.
func firstFrame(stack string) string {
	m := frame.FindStringSubmatch("\n" + stack)
	if m == nil {
		return ""
	}
	name := m[1]
	if arguments := strings.LastIndexByte(name, '('); arguments > 0 {
		name = name[:arguments]
	}
	return name + " " + m[2]
}

// frame is a function of this module with its arguments and its place.
var frame = regexp.MustCompile(`\nmemopt/(\S.*)\n\t\S*?([\w-]+\.go:\d+)`)

// general leaves out of a message what differs from mutant to mutant.
func general(text string) string {
	text = quoted.ReplaceAllString(text, "…")
	text = paths.ReplaceAllString(text, "…")
	text = numbers.ReplaceAllString(text, "N")
	if text = strings.TrimSpace(text); len(text) > 150 {
		text = text[:150]
	}
	return text
}

var (
	quoted  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	paths   = regexp.MustCompile(`/\S+`)
	numbers = regexp.MustCompile(`[0-9]+`)
)

//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/internal/test/kerneltest"
	"memopt/internal/test/mutate"
)

// A hunt tries mutants of many samples for hours and collects what it finds, each fault once and
// made small:
//
//	MEMOPT_HUNT=folder MEMOPT_HUNT_TIME=2h go test -run '^TestMutants$' -timeout 0 ./cmd/memopt
//
// The folder has a folder for each finding: report.txt, the mutant, and the entry for the corpus of
// FuzzVerbs; and hunt.json, from which the next hunt in it goes on. The tries are made by a process
// of its own, so that one that kills it is a finding, too. MEMOPT_HUNT_ORT=1 tries lines in ONNX
// Runtime, which show whether numbers and memory agree with it.
const (
	huntVariable     = "MEMOPT_HUNT"
	huntTimeVariable = "MEMOPT_HUNT_TIME"
	huntORTVariable  = "MEMOPT_HUNT_ORT"
	huntChild        = "MEMOPT_HUNT_CHILD" // the end of the hunt, in seconds since 1970
)

// TestMutants tries some hundred mutants, the same in every run, or hunts.
func TestMutants(t *testing.T) {
	folder := os.Getenv(huntVariable)
	switch {
	case folder == "":
		h := newHunt(t, "")
		for _, s := range h.samples {
			if faultyModels[s.name] == "" {
				continue
			}
			for _, line := range fuzzLines {
				if line.input == modelInput {
					if f, x := h.try(line, s.data, false); f != nil {
						t.Errorf("%s: %v\n%s", s.name, f, x.said.String())
					}
				}
			}
		}
		for h.state.Next < 250 {
			if f, x := h.one(h.state.Next); f != nil {
				t.Errorf("mutant %d: %v\n%s", h.state.Next, f, x)
			}
			h.state.Next++
		}
	case os.Getenv(huntChild) == "":
		hunt(t, folder)
	default:
		h := newHunt(t, folder, largeSamples(t)...)
		h.limits.run = 4 * time.Second
		h.untilDeadline(t)
	}
}

// hunt runs the process that tries mutants, again and again until the time is over.
func hunt(t *testing.T, folder string) {
	length, err := time.ParseDuration(os.Getenv(huntTimeVariable))
	require.NoError(t, err, huntTimeVariable)
	require.NoError(t, os.MkdirAll(folder, 0o777))
	end := time.Now().Add(length)
	program, err := os.Executable()
	require.NoError(t, err)
	for time.Now().Before(end) {
		cmd := exec.Command(program, "-test.run", "^TestMutants$", "-test.timeout", "0")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", huntChild, end.Unix()))
		log, err := os.Create(filepath.Join(folder, "log"))
		require.NoError(t, err)
		cmd.Stdout, cmd.Stderr = log, log
		if cmd.Run() != nil { // the next one reads the log of the fault
			require.NoError(t, os.Rename(log.Name(), filepath.Join(folder, "died")))
		}
		log.Close()
	}
	data, err := os.ReadFile(filepath.Join(folder, "hunt.json"))
	require.NoError(t, err)
	t.Logf("%s", data)
}

// huntState is what hunt.json keeps.
type huntState struct {
	Next    uint64                 `json:"next"` // number of the next mutant
	Mutants int                    `json:"mutants"`
	Seconds float64                `json:"seconds"`
	Found   map[string]int         `json:"found"` // how often, by fault
	Codes   map[string]map[int]int `json:"codes"` // how often lines ended so, by verb
	Said    map[string]int         `json:"said"`  // how often, by what a line said last
}

type hunter struct {
	*bench
	folder  string
	samples []sample
	models  *mutate.Models
	lines   []fuzzLine
	state   huntState
}

func newHunt(t *testing.T, folder string, more ...sample) *hunter {
	h := &hunter{bench: newBench(t), folder: folder, lines: fuzzLines}
	h.samples = append(h.smallSamples(t), more...)
	if folder != "" {
		h.samples = append(h.samples, h.trainingGraphs(t)...)
	}
	h.models = mutators(h.samples)
	if os.Getenv(huntORTVariable) != "" {
		h.lines, h.limits.memory = runtimeLines, 4<<30
	}
	h.state.Found, h.state.Codes = map[string]int{}, map[string]map[int]int{}
	h.state.Said = map[string]int{}
	if folder != "" {
		if data, err := os.ReadFile(filepath.Join(folder, "hunt.json")); err == nil {
			require.NoError(t, json.Unmarshal(data, &h.state))
		}
	}
	return h
}

// draw chooses what mutant number n is made of.
func (h *hunter) draw(n uint64) (line int, s sample, genome []byte) {
	rng := rand.New(rand.NewPCG(n, 0x68756e74))
	models := rng.IntN(6) > 0 || len(h.lines) == len(runtimeLines)
	for {
		s = h.samples[rng.IntN(len(h.samples))]
		line = rng.IntN(len(h.lines))
		if (s.kind == modelInput) == models && h.lines[line].input == s.kind &&
			(len(s.data) < 20_000 || len(h.lines) > len(runtimeLines) && rng.IntN(10) == 0) {
			break
		}
	}
	genes := 1
	for genes < 12 && rng.IntN(2) > 0 {
		genes++
	}
	return line, s, mutate.Genome(rng, genes)
}

// one tries mutant number n.
func (h *hunter) one(n uint64) (*finding, string) {
	line, s, genome := h.draw(n)
	mutant, did := mutateInput(h.models, h.lines[line].input, s.data, genome)
	f, x := h.try(h.lines[line], mutant, n%4 == 0)
	for i, code := range x.codes {
		verb, _, _ := strings.Cut(x.lines[i], " ")
		if h.state.Codes[verb] == nil {
			h.state.Codes[verb] = map[int]int{}
		}
		h.state.Codes[verb][code]++
	}
	if text := general(x.last); len(h.state.Said) < 3000 || h.state.Said[text] > 0 {
		h.state.Said[text]++
	}
	if f == nil {
		return nil, ""
	}
	return f, fmt.Sprintf("mutant %d of %s, %d bytes:\n%s\n%s", n, s.name, len(mutant), strings.Join(did, "\n"),
		x.said.String())
}

// untilDeadline tries mutants until the time is over or the process should start anew.
func (h *hunter) untilDeadline(t *testing.T) {
	limit := syscall.Rlimit{Cur: 8 << 30, Max: 8 << 30}
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_AS, &limit))
	var deadline int64
	fmt.Sscan(os.Getenv(huntChild), &deadline)
	h.died(t)
	start := time.Now()
	const most = 20_000 // a process
	for range most {
		if time.Now().Unix() > deadline {
			break
		}
		n := h.state.Next
		h.state.Next++
		h.mark(t, n)
		f, said := h.one(n)
		h.state.Mutants++
		if f != nil {
			h.keep(t, n, f, said)
			if f.kind == "hang" || f.kind == "memory" || f.kind == "goroutines" {
				break // something still runs
			}
		}
		if h.state.Mutants%50 == 0 {
			h.save(t, &start)
		}
	}
	h.save(t, &start)
	require.NoError(t, os.Remove(filepath.Join(h.folder, "current")))
}

// mark notes which mutant is being tried.
func (h *hunter) mark(t *testing.T, n uint64) {
	require.NoError(t, os.WriteFile(filepath.Join(h.folder, "current"), fmt.Append(nil, n), 0o666))
}

// died notes a mutant that ended the process before.
func (h *hunter) died(t *testing.T) {
	log, err := os.ReadFile(filepath.Join(h.folder, "died"))
	if err != nil {
		return
	}
	require.NoError(t, os.Remove(filepath.Join(h.folder, "died")))
	var n uint64
	if data, err := os.ReadFile(filepath.Join(h.folder, "current")); err == nil {
		fmt.Sscan(string(data), &n)
	}
	first := regexp.MustCompile(`(?m)^(panic|fatal error|SIG\w+|runtime): .*$`).Find(log)
	where := general(string(first))
	if at := firstFrame(string(log)); at != "" {
		where += " at " + at
	}
	if len(log) > 100_000 {
		log = log[:100_000]
	}
	h.state.Next = max(h.state.Next, n+1)
	now := time.Now()
	h.save(t, &now) // so that what follows cannot end it twice
	line, s, genome := h.draw(n)
	mutant, did := mutateInput(h.models, h.lines[line].input, s.data, genome)
	f := &finding{"died", where, string(log)}
	h.state.Found[f.kind+": "+f.where]++
	h.write(t, f, line, mutant, fmt.Sprintf("mutant %d of %s\n%s", n, s.name, strings.Join(did, "\n")))
}

func (h *hunter) save(t *testing.T, start *time.Time) {
	h.state.Seconds += time.Since(*start).Seconds()
	*start = time.Now()
	data, err := json.MarshalIndent(h.state, "", "\t")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(h.folder, "hunt.json"), data, 0o666))
}

// keep counts a finding and keeps the first of its kind, made small.
func (h *hunter) keep(t *testing.T, n uint64, f *finding, said string) {
	key := f.kind + ": " + f.where
	if h.state.Found[key]++; h.state.Found[key] > 1 {
		return
	}
	line, s, genome := h.draw(n)
	mutant, _ := mutateInput(h.models, h.lines[line].input, s.data, genome)
	h.write(t, f, line, mutant, said) // before anything else can happen
	if f.kind == "hang" || f.kind == "memory" || f.kind == "goroutines" {
		return
	}
	tries := 0
	fails := func(mutant []byte) bool {
		if tries++; tries > 400 {
			return false
		}
		again, _ := h.try(h.lines[line], mutant, f.kind == "unsteady")
		if again != nil && again.kind == f.kind && again.where == f.where {
			f = again
			return true
		}
		return false
	}
	genome = mutate.ShrinkGenome(genome, func(g []byte) bool {
		m, _ := mutateInput(h.models, h.lines[line].input, s.data, g)
		return fails(m)
	})
	mutant, did := mutateInput(h.models, h.lines[line].input, s.data, genome)
	if h.lines[line].input == modelInput {
		mutant = mutate.ShrinkModel(mutant, fails)
	}
	h.write(t, f, line, mutant, fmt.Sprintf("mutant %d of %s\n%s", n, s.name, strings.Join(did, "\n")))
}

// write keeps a finding.
func (h *hunter) write(t *testing.T, f *finding, line int, mutant []byte, said string) {
	name := regexp.MustCompile(`[^\w.]+`).ReplaceAllString(f.kind+" "+f.where, "-")
	dir := filepath.Join(h.folder, name[:min(len(name), 120)])
	require.NoError(t, os.MkdirAll(dir, 0o777))
	for name, data := range map[string][]byte{
		"mutant":     mutant,
		"corpus":     fmt.Appendf(nil, "go test fuzz v1\nuint16(%d)\n[]byte(%q)\n[]byte(%q)\n", line, mutant, ""),
		"report.txt": fmt.Appendf(nil, "%v\n%v\n%s\n", f, h.lines[line].lines, said),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
}

// largeSamples are the models beside the project, the built-in examples, random training graphs and
// ONNX's own tests of operators.
func largeSamples(t testing.TB) []sample {
	t.Helper()
	var list []sample
	add := func(name, file string) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if len(data) < 250_000 {
			list = append(list, sample{name, modelInput, data})
		}
	}
	shared, err := graphtest.AllSamples.Find()
	require.NoError(t, err)
	for _, s := range shared {
		add(s.Name, s.File)
	}
	if deeploy := "../../../shared/deeploy/transformer_train/network.onnx"; fileExists(deeploy) {
		add("deeploy", deeploy)
	}
	for _, ex := range examples.All() {
		m, err := ex.Build()
		require.NoError(t, err)
		list = append(list, encoded(t, ex.Name, m))
	}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		o := graphtest.Options{Nodes: 5 + rng.IntN(60), Rows: int64(1 + rng.IntN(6)), Width: int64(1 + rng.IntN(10)),
			Yield: seed%4 == 0, Symbolic: seed%3 == 0, Control: seed%2 == 0, Layers: seed%5 == 0}
		list = append(list, encoded(t, fmt.Sprint("random ", seed), graphtest.Training(rng, o)))
	}
	list = append(list, kernelCases(t)...)
	nodes, _ := filepath.Glob("/usr/share/libonnx-testdata/data/node/*/model.onnx")
	for _, file := range nodes {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		name := filepath.Base(filepath.Dir(file))
		list = append(list, sample{name, modelInput, mutate.HasLoss(data)})
		if bytes.Contains(data, []byte("body")) || bytes.Contains(data, []byte("branch")) {
			list = append(list, sample{name, modelInput, data})
		}
	}
	return list
}

// kernelCases are models of one node each, the first few small cases of every operator that has a
// kernel. Its integers are weights, since they are shapes, axes and indices; its other operands are
// inputs.
func kernelCases(t testing.TB) (list []sample) {
	t.Helper()
	const perOperator, largestOperand = 6, 4096
	count := map[graph.Kind]int{}
	for _, c := range kerneltest.All() {
		if c.Fails != "" || count[c.Kind] == perOperator {
			continue
		}
		g, info := graph.New("case", nil), op.Of(c.Kind)
		n := &graph.Node{Op: info.Name, Domain: info.Domain, Attrs: c.Attrs}
		small := true
		for i, x := range c.In {
			n.Inputs = append(n.Inputs, graph.NoValue)
			if x == nil {
				continue
			}
			small = small && len(x.Data) <= largestOperand
			n.Inputs[i] = operand(t, g, fmt.Sprint("in", i), x)
		}
		for i, d := range c.Out {
			n.Outputs = append(n.Outputs, graph.NoValue)
			if d != graph.Undefined {
				n.Outputs[i] = g.Value(fmt.Sprint("out", i))
			}
		}
		require.NoError(t, g.AddNode(n))
		for i, d := range c.Out {
			if d != graph.Undefined {
				require.NoError(t, g.AddOutput(graph.Decl{Value: n.Outputs[i], Type: graph.Tensor(d, graph.Shape{})}))
			}
		}
		if !small || g.Seal() != nil {
			continue
		}
		version := int64(c.Opset)
		if version == 0 {
			version = int64(slices.Max(append(info.Since, 1)))
		}
		m := &graph.Model{
			IRVersion: 10, Graph: g, Opsets: []graph.Opset{{Version: 21}, {Domain: info.Domain, Version: version}},
		}
		if info.Domain == "" {
			m.Opsets = m.Opsets[1:]
		}
		count[c.Kind]++
		s := encoded(t, c.Label(), m)
		s.data = mutate.HasLoss(s.data)
		list = append(list, s)
	}
	return list
}

// operand adds a tensor to a graph: integers as weights, other tensors as inputs.
func operand(t testing.TB, g *graph.Graph, name string, x *executor.Tensor) graph.ValueID {
	t.Helper()
	data := &graph.TensorData{Name: name, DType: x.DType, Source: graph.Raw(x.Data)}
	for _, d := range x.Shape {
		data.Dims = append(data.Dims, int64(d))
	}
	if x.DType.IsInteger() {
		id, err := g.AddInitializer(data)
		require.NoError(t, err)
		return id
	}
	id := g.Value(name)
	require.NoError(t, g.AddInput(graph.Decl{Value: id, Type: graph.Tensor(x.DType, graph.Ints(data.Dims...))}))
	return id
}

// trainingGraphs are what grad makes of the samples of which it makes one.
func (h *hunter) trainingGraphs(t testing.TB) (list []sample) {
	t.Helper()
	in, out := filepath.Join(h.in, "forward.onnx"), filepath.Join(h.out, "training.onnx")
	for _, s := range h.samples {
		if s.kind != modelInput || len(s.data) > 50_000 {
			continue
		}
		require.NoError(t, os.WriteFile(in, s.data, 0o666))
		if inProcess(t.Context(), nil, "grad "+in+" --input-grads -o "+out).code != 0 {
			continue
		}
		data, err := os.ReadFile(out)
		require.NoError(t, err)
		list = append(list, sample{"grad of " + s.name, modelInput, data})
	}
	return list
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

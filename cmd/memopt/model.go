package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"memopt"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/internal/inputfile"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
	"memopt/symbolic"
)

// reading says how a model is read, beside the flags of all verbs. The zero value reads it as it is.
type reading struct {
	states []string         // IN=OUT, as --state has them
	ranged bool             // --dim may give ranges
	dims   map[string]int64 // sizes of symbols that --dim does not give
	stream io.Reader        // that the model "-" is read from; nil: standard input
	// unchecked leaves it to the caller to check that --dim binds symbols of the model, as of two that are compared.
	unchecked bool
}

// load reads a model as read does, and requires it to have the symbols that --dim binds unless unchecked.
func (a *app) load(name string, how reading) (*memopt.Model, error) {
	a.status.say("reading %s", name)
	m, err := a.read(name, how)
	if err != nil || how.unchecked {
		return m, err
	}
	if err := a.checkDims(m); err != nil {
		m.Close()
		return nil, err
	}
	for symbol := range a.ranges() {
		delete(m.Dims, symbol)
	}
	a.noteEqual(m.Equal)
	return m, nil
}

// read reads the model that a name stands for. An error in --dim is reported only if the model
// could be read.
func (a *app) read(name string, how reading) (*memopt.Model, error) {
	given, ranges, wrongDims := parseDims(a.global.dims)
	if wrongDims == nil && !how.ranged {
		wrongDims = refuseRanges(ranges)
	}
	dims := maps.Clone(how.dims)
	if dims == nil {
		dims = map[string]int64{}
	}
	maps.Copy(dims, given)
	in := how.stream
	if in == nil {
		in = a.in
	}
	m, err := open(name, in, memopt.Options{Dims: dims, Apart: slices.Sorted(maps.Keys(ranges)),
		Strict: a.global.strict, States: how.states,
		Warn: func(text string) { a.warn("%s", text) },
		Opened: func(m *graph.Model, files []string) error {
			for _, file := range files {
				if err := a.reads("external data", file); err != nil {
					return err
				}
			}
			a.spareMemory(m.Graph)
			return wrongDims
		}})
	if err != nil {
		return nil, classify(err)
	}
	a.model = m
	return m, nil
}

// open finds the model that a name stands for; "-" is read from in.
func open(name string, in io.Reader, o memopt.Options) (*memopt.Model, error) {
	if example, ok := strings.CutPrefix(name, memopt.ExamplePrefix); ok {
		if _, ok := examples.Lookup(example); !ok {
			return nil, usage("%s: there is no such example%s; list them with memopt examples", name,
				suggest(name, exampleNames()))
		}
		return memopt.Example(example, o)
	}
	if name == streamName {
		return memopt.Read(in, "standard input", o)
	}
	if isOperatorPlan(name) {
		return openOperatorPlan(name, o)
	}
	return memopt.Open(name, o)
}

// openOperatorPlan reads a plan of operators as the graph of its schedule.
func openOperatorPlan(name string, o memopt.Options) (*memopt.Model, error) {
	data, err := inputfile.Read(name, maxInstance)
	if err != nil {
		return nil, usage("%w", err)
	}
	m, err := pytorch.OperatorGraph(data)
	if err != nil {
		return nil, fileError("%s: %w", name, err)
	}
	m.Path = name
	return memopt.New(m, o)
}

// isOperatorPlan reports whether a file is a plan that memopt.torch.plan(select="operators") has written.
func isOperatorPlan(name string) bool {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return false // reading it as a model will give the error
	}
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, 64)
	n, _ := io.ReadFull(file, head)
	return operatorPlan.Match(head[:n])
}

// operatorPlan is the beginning of such a file.
var operatorPlan = regexp.MustCompile(`^\s*\{\s*"format":\s*"memopt-operators"`)

// A graph of largeGraph nodes or more takes gigabytes to plan. There the garbage collector runs
// more often, at the cost of roughly a fifth of the time: it starts when the heap has grown by
// largeGraphGC percent, and not by 100.
const (
	largeGraph   = 250_000
	largeGraphGC = 35
)

// spareMemory trades time for memory if a graph is large, unless the user has set GOGC.
func (a *app) spareMemory(g *graph.Graph) {
	if _, set := a.env("GOGC"); !set && len(g.Nodes) >= largeGraph {
		debug.SetGCPercent(largeGraphGC)
	}
}

// exampleNames lists the built-in models.
func exampleNames() []string {
	var names []string
	for _, ex := range examples.All() {
		names = append(names, memopt.ExamplePrefix+ex.Name)
	}
	return names
}

// sizeless reports whether sizes of a model are not known, because symbols have no values.
func sizeless(m *memopt.Model) bool {
	_, err := live.EvalSizes(m.Graph, m.Dims)
	var unbound *symbolic.UnboundError
	return errors.As(err, &unbound)
}

// maxInstance is the largest size of instances that solve and pack read: some ten million nodes
// or buffers stay below it.
const maxInstance = 1 << 30

// readStep reads a step that PyTorch traced, and the hash of its file. nil: the file is none, or cannot be opened,
// which reading it as a model will say.
func (a *app) readStep(name string) (*torchsim.Traced, string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, "", nil
	}
	defer file.Close()
	r := bufio.NewReader(file)
	if head, _ := r.Peek(256); !torchsim.IsStep(head) {
		return nil, "", nil
	}
	a.status.say("reading %s", name)
	hash := sha256.New()
	t, err := torchsim.ReadStep(io.TeeReader(r, hash))
	return t, hex.EncodeToString(hash.Sum(nil)), err
}

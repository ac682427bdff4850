// Package load reads the models that arguments name: a file, "-", example:NAME, a plan of operators, or a step that
// PyTorch traced. A Reading holds the demands of a verb.
package load

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/internal/inputfile"
	"memopt/python/pytorch"
	jaxsim "memopt/sim/jax"
	torchsim "memopt/sim/torch"
	"memopt/sim/xla"
	"memopt/symbolic"
	"memopt/view/report"
)

// Reading says how a model is read, beside the flags of all verbs. The zero value reads it as it is.
type Reading struct {
	States []string         // IN=OUT, as --state has them
	Ranged bool             // --dim may give ranges
	Dims   map[string]int64 // sizes of symbols that --dim does not give
	Stream io.Reader        // that the model "-" is read from; nil: standard input
	// unchecked leaves it to the caller to check that --dim binds symbols of the model, as of two that are compared.
	Unchecked bool
}

// Model reads a model as read does, and requires it to have the symbols that --dim binds unless unchecked.
func Model(a *cli.App, name string, how Reading) (*memopt.Model, error) {
	a.Status.Say("reading %s", name)
	m, err := Unchecked(a, name, how)
	if err != nil || how.Unchecked {
		return m, err
	}
	if err := CheckDims(a, m); err != nil {
		m.Close()
		return nil, err
	}
	for symbol := range a.Ranges() {
		delete(m.Dims, symbol)
	}
	noteEqual(a, m.Equal)
	return m, nil
}

// Unchecked reads the model that a name stands for. An error in --dim is reported only if the model
// could be read.
func Unchecked(a *cli.App, name string, how Reading) (*memopt.Model, error) {
	given, ranges, wrongDims := cli.ParseDims(a.Global.Dims)
	if wrongDims == nil && !how.Ranged {
		wrongDims = cli.RefuseRanges(ranges)
	}
	dims := maps.Clone(how.Dims)
	if dims == nil {
		dims = map[string]int64{}
	}
	maps.Copy(dims, given)
	in := how.Stream
	if in == nil {
		in = a.In
	}
	m, err := Open(name, in, memopt.Options{Dims: dims, Apart: slices.Sorted(maps.Keys(ranges)),
		Strict: a.Global.Strict, States: how.States,
		Warn: func(text string) { a.Warn("%s", text) },
		Opened: func(m *graph.Model, files []string) error {
			for _, file := range files {
				if err := a.Reads("external data", file); err != nil {
					return err
				}
			}
			spareMemory(a, m.Graph)
			if wrongDims != nil {
				return wrongDims
			}
			list, err := cli.ParseBindings(a.Global.Dims)
			if err != nil {
				return err
			}
			return bindInputs(a, m.Graph, list, dims)
		}})
	if err != nil {
		return nil, cli.Classify(err)
	}
	if m.Compiled != nil && a.Verb != nil {
		if err := takesProgram(a.Verb.Name(), name, m.Compiled); err != nil {
			m.Close()
			return nil, cli.Invalid(err)
		}
	}
	a.Model = m
	return m, nil
}

// takesProgram is the error of a verb that has no answer for a program of XLA; nil of another one.
func takesProgram(verb, name string, p *xla.Program) error {
	switch {
	case slices.Contains(notOfPrograms, verb):
		return fmt.Errorf("%s: is a program that XLA compiled (HLO), which memopt plans and does not execute, rewrite "+
			"or differentiate: %s wants an ONNX model; inspect, plan, explain, fit, diff, report and trace take this "+
			"one",
			name, verb)
	case slices.Contains(ofOneDevice, verb) && p.Read.IsWhole():
		return fmt.Errorf("%s: %s compares a step with the memory of one device, and this program was written before "+
			"the partitioner, with the sizes of all %d devices together (its arguments take %s of each): wanted the "+
			"text of the compiled program", name, verb, p.Read.Devices(), report.Bytes(p.ArgumentPartBytes()))
	}
	return nil
}

// ofOneDevice are the verbs that compare a step with the memory of one device.
var ofOneDevice = []string{"estimate", "fit"}

// notOfPrograms are the verbs that execute or rewrite: a compiled program has no operators for them.
var notOfPrograms = []string{"apply", "export", "grad", "optimize", "quantize", "run", "train", "verify"}

// Open finds the model that a name stands for; "-" is read from in.
func Open(name string, in io.Reader, o memopt.Options) (*memopt.Model, error) {
	if example, ok := strings.CutPrefix(name, memopt.ExamplePrefix); ok {
		if _, ok := examples.Lookup(example); !ok {
			return nil, cli.Usage("%s: there is no such example%s; list them with memopt examples", name,
				cli.Suggest(name, ExampleNames()))
		}
		return memopt.Example(example, o)
	}
	if name == cli.StreamName {
		return memopt.Read(in, "standard input", o)
	}
	if IsOperatorPlan(name) {
		return openOperatorPlan(name, o)
	}
	return memopt.Open(name, o)
}

// openOperatorPlan reads a plan of operators as the graph of its schedule.
func openOperatorPlan(name string, o memopt.Options) (*memopt.Model, error) {
	data, err := inputfile.Read(name, MaxInstance)
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	m, err := pytorch.OperatorGraph(data)
	if err != nil {
		return nil, cli.FileError("%s: %w", name, err)
	}
	m.Path = name
	return memopt.New(m, o)
}

// IsOperatorPlan reports whether a file is a plan that memopt.torch.plan(select="operators") has written.
func IsOperatorPlan(name string) bool {
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
func spareMemory(a *cli.App, g *graph.Graph) {
	if _, set := a.Env("GOGC"); !set && len(g.Nodes) >= largeGraph {
		debug.SetGCPercent(largeGraphGC)
	}
}

// ExampleNames lists the built-in models.
func ExampleNames() []string {
	var names []string
	for _, ex := range examples.All() {
		names = append(names, memopt.ExamplePrefix+ex.Name)
	}
	return names
}

// Sizeless reports whether sizes of a model are not known, because symbols have no values.
func Sizeless(m *memopt.Model) bool {
	_, err := live.EvalSizes(m.Graph, m.Dims)
	var unbound *symbolic.UnboundError
	return errors.As(err, &unbound)
}

// MaxInstance is the largest size of instances that solve and pack read: some ten million nodes
// or buffers stay below it.
const MaxInstance = 1 << 30

// ReadStep reads a step that PyTorch traced, and the hash of its file. nil: the file is none, or cannot be opened,
// which reading it as a model will say.
func ReadStep(a *cli.App, name string) (t *torchsim.Traced, sum string, err error) {
	err = readJSON(a, name, torchsim.IsStep, func(r io.Reader) error {
		hash := sha256.New()
		t, err = torchsim.ReadStep(io.TeeReader(r, hash))
		sum = hex.EncodeToString(hash.Sum(nil))
		return err
	})
	return t, sum, err
}

// ReadNames reads a step of JAX with its named values. nil: the file is none.
func ReadNames(a *cli.App, name string) (p *jaxsim.Program, err error) {
	err = readJSON(a, name, jaxsim.IsNames, func(r io.Reader) error {
		p, err = jaxsim.Read(r)
		return err
	})
	return p, err
}

// readJSON reads a file that begins as files of a kind do. A file that cannot be opened is not read.
func readJSON(a *cli.App, name string, is func(head []byte) bool, read func(io.Reader) error) error {
	var r *bufio.Reader
	if name == cli.StreamName {
		r = bufio.NewReader(a.In)
		a.In = r // with the peeked bytes, for the model
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil
		}
		defer file.Close()
		r = bufio.NewReader(file)
	}
	if head, _ := r.Peek(256); !is(head) {
		return nil
	}
	a.Status.Say("reading %s", name)
	return read(r)
}

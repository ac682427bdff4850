package autograd_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
)

// compared lists the operands whose gradients the package's tests have compared with differences, by
// kind and slot.
var compared = map[graph.Kind]map[int]bool{}

// noteCompared notes the inputs of nodes that are among the moved values.
func noteCompared(g *graph.Graph, moved []string) {
	wrt := map[graph.ValueID]bool{}
	for _, name := range moved {
		if v, ok := g.Lookup(name); ok {
			wrt[v] = true
		}
	}
	for _, n := range g.Nodes {
		for slot, v := range n.Inputs {
			if !wrt[v] {
				continue
			}
			if compared[n.Kind] == nil {
				compared[n.Kind] = map[int]bool{}
			}
			compared[n.Kind][slot] = true
		}
		n.Subgraphs(func(_ string, sub *graph.Graph) { noteCompared(sub, moved) })
	}
}

const (
	differentDraws = "each run draws anew (TestDropout compares with the factors of a run)"
	noDoubles      = "kernels have no float64 (TestMatMulNBits takes differences in front of a cast)"
	noSequences    = "the executor has no sequences (TestSequences compares with graphs without them)"
)

// notCompared says why no central difference holds the gradient of some operands, and which test does.
var notCompared = map[string]string{
	"com.microsoft.MatMulNBits 0":        noDoubles,
	"com.microsoft.MatMulNBits 5":        noDoubles,
	"QuantizeLinear 0":                   "a straight-through estimate (TestStraightThrough)",
	"QuantizeLinear 1":                   "a straight-through estimate (TestStraightThrough)",
	"Dropout 1":                          differentDraws,
	"com.microsoft.BiasDropout 3":        differentDraws,
	"com.microsoft.BitmaskBiasDropout 2": "expanded as BiasDropout",
	"com.microsoft.BitmaskBiasDropout 3": differentDraws,
	"com.microsoft.BitmaskDropout 0":     differentDraws,
	"com.microsoft.BitmaskDropout 1":     differentDraws,
	"ConcatFromSequence 0":               noSequences,
	"Optional 0":                         noSequences,
	"OptionalGetElement 0":               noSequences,
	"SequenceAt 0":                       noSequences,
	"SequenceConstruct 0":                noSequences,
	"SequenceConstruct 1":                noSequences,
	"SequenceErase 0":                    noSequences,
	"SequenceInsert 0":                   noSequences,
	"SequenceInsert 1":                   noSequences,
	"SplitToSequence 0":                  noSequences,
	"DequantizeLinear 1":                 "kernels have no float64 (TestStraightThrough)",
}

// TestMain asks, after all tests, for a difference of each operand of each rule.
func TestMain(m *testing.M) {
	code := m.Run()
	if filter := flag.Lookup("test.run").Value.String(); code == 0 && filter == "" &&
		flag.Lookup("test.list").Value.String() == "" {
		if left := operandsLeft(); len(left) > 0 {
			fmt.Printf("FAIL: no test compares these gradients with differences: operator and input\n  %s\n",
				strings.Join(left, "\n  "))
			code = 1
		}
	}
	os.Exit(code)
}

// operandsLeft lists the operands with a gradient that no test has compared.
func operandsLeft() []string {
	var left []string
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		row := autograd.Of(k)
		if row.Rule == nil && row.Expand == nil {
			continue
		}
		eachFloatInput(k, func(slot int) {
			name := strings.TrimPrefix(fmt.Sprintf("%s.%s %d", op.Of(k).Domain, op.Of(k).Name, slot), ".")
			if o := row.Operand(slot); o.None == "" && o.Why == "" && !compared[k][slot] && notCompared[name] == "" {
				left = append(left, name)
			}
		})
	}
	return left
}

// eachFloatInput calls f with the inputs of an operator that may hold floats; of one that stands for
// several the first.
func eachFloatInput(k graph.Kind, f func(slot int)) {
	info := op.Of(k)
	n := info.Inputs.Max
	if n < 0 {
		n = info.Inputs.Min + 1
	}
	for slot := range n {
		if info.MayHold(slot, graph.Float32) || info.MayHold(slot, graph.Float16) {
			f(slot)
		}
	}
}

// TestOperands: an entry is about an input that the operator has and that may hold floats, and gives the
// mathematical reason why there is no gradient, or why the rule does not make it, or neither.
func TestOperands(t *testing.T) {
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		row, inputs := autograd.Of(k), map[int]bool{}
		eachFloatInput(k, func(slot int) { inputs[slot] = true })
		seen := map[int]bool{}
		for _, o := range row.Operands {
			require.True(t, inputs[o.Slot], "%s: input %d cannot hold floats", op.Of(k).Name, o.Slot)
			require.False(t, seen[o.Slot], "%s: input %d has two entries", op.Of(k).Name, o.Slot)
			require.False(t, o.None != "" && o.Why != "", "%s: input %d", op.Of(k).Name, o.Slot)
			require.True(t, o.None != "" || o.Why != "" || o.Setting, "%s: input %d", op.Of(k).Name, o.Slot)
			seen[o.Slot] = true
		}
	}
}

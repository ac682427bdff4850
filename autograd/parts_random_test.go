package autograd_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/symbolic"
)

// randomTerms are sums over slices of x and over all of it, in any order: the text of the terms, and
// the bounds of the slices as tensors of one element, by name. The axes stay constants.
func randomTerms(rng *rand.Rand) (terms string, bounds map[string]int64, names []string) {
	bounds = map[string]int64{}
	var sums []string
	for i := range 2 + rng.IntN(4) {
		v := fmt.Sprintf("v%d", i)
		switch rng.IntN(4) {
		case 0:
			terms += fmt.Sprintf("%s = %s(x)  ", v, []string{"Sin", "Tanh", "Neg"}[rng.IntN(3)])
		default:
			start, end := fmt.Sprintf("s%d", i), fmt.Sprintf("e%d", i)
			axis := rng.IntN(3)
			bounds[start], bounds[end] = int64(rng.IntN(12)-6), int64(rng.IntN(12)-6)
			if rng.IntN(2) == 0 { // halves and what is next to them, so that parts meet
				bounds[start], bounds[end] = 0, 2
				if rng.IntN(2) == 0 {
					bounds[start], bounds[end] = 2, 1<<62
				}
			}
			names = append(names, start, end)
			terms += fmt.Sprintf("p%d = Slice(x, %s, %s, axis%d)  %s = Mul(p%d, p%d)  ", i, start, end, axis, v, i, i)
		}
		terms += fmt.Sprintf("t%d = ReduceSum<keepdims = 0>(%s)  ", i, v)
		sums = append(sums, fmt.Sprintf("t%d", i))
	}
	return terms + "loss = Sum(" + strings.Join(sums, ", ") + ")", bounds, names
}

// TestRandomParts: gradients of slices between bounds that are known have the bits of those between
// bounds that are not, which all have zeros around them and are added in turn.
func TestRandomParts(t *testing.T) {
	env := symbolic.Env{"N": 4, "S": 5}
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 5))
		terms, bounds, names := randomTerms(rng)
		shape := []string{"[N, S, 16]", "[4, 5, 16]", "[4, S, 6]"}[rng.IntN(3)]
		var sides [2][]float32
		for side, known := range []bool{false, true} {
			inits, inputs := "int64[1] axis0 = {0}, int64[1] axis1 = {1}, int64[1] axis2 = {-1}", "float"+shape+" x"
			in := tensors{}
			for _, name := range names {
				if known {
					inits += fmt.Sprintf(", int64[1] %s = {%d}", name, bounds[name])
				} else {
					inputs += ", int64[1] " + name
					in[name] = ints([]int{1}, bounds[name])
				}
			}
			text := fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]> g (%s) => (float loss) <%s> { %s }`,
				inputs, inits, terms)
			m, err := graph.Parse(text, "g")
			require.NoError(t, err, text)
			inferred(t, m)
			in["x"], err = dataset.NewFiller(m.Graph, env, 1).Fill(m.Graph.Inputs[0].Value)
			require.NoError(t, err)
			j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"x"}})
			require.NoError(t, err, text)
			sides[side] = executor.Of[float32](newRunner(t, j.Model, env)(in)[1])
		}
		for k, want := range sides[0] {
			// 0 equals -0
			require.Equal(t, want, sides[1][k], "seed %d, element %d: %s, bounds %v", seed, k, terms, bounds)
		}
	}
}

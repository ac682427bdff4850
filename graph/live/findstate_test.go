package live

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

const pairsText = `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
step (float[4] a, float[4] b, float[8] c, int64[4] d, float[n] e, float[n] f)
  => (float[4] a2, float[4] b_updated, float[4] shown, float[n] e2, float[m] f2)
  <int64[1] all = {-1}> {
   a2 = Neg(a)  b_updated = Mul(a, b)  shown = Identity(b)  e2 = Neg(e)
   f1 = NonZero(f)  f0 = Reshape(f1, all)  f2 = Cast<to = 1>(f0)  inner = Neg(b)
}`

func pairsModel(t *testing.T) *graph.Model {
	m, err := graph.Parse(pairsText, "pairs")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	return m
}

func TestFindStates(t *testing.T) {
	names := func(m *graph.Model) (list []string) {
		states, err := FindStates(m)
		require.NoError(t, err)
		for _, s := range states {
			list = append(list, m.Graph.ValueName(s.In)+"="+m.Graph.ValueName(s.Out))
		}
		return list
	}
	m := pairsModel(t)
	require.Equal(t, []string{"b=b_updated"}, names(m), "by name")
	RecordStates(m, []StatePair{{"a", "a2"}, {"e", "e2"}})
	require.Equal(t, []string{"a=a2", "e=e2"}, names(m), "what is recorded counts alone")
	RecordStates(m, nil)
	require.Empty(t, names(m), "a record of none is a record")
	m.SetMeta(StatesKey, `{"schema":"memopt.states/v1"}`)
	require.Empty(t, names(m), "and so is one without pairs")
	RecordStates(m, []StatePair{{"a", "a2"}, {"b\xff", "b_updated"}})
	require.Equal(t, []string{"a=a2"}, names(m), "JSON holds no names that are not UTF-8")
	for _, c := range []struct{ pair, why string }{
		{"x=a2", `no value "x"`},
		{"a=x", `no value "x"`},
		{"inner=a2", "neither an input nor an initializer"},
		{"a=inner", "is no output"},
		{"c=a2", "both must be of one type and shape"},
		{"d=a2", "both must be of one type and shape"},
		{"f=f2", "both must be of one type and shape"},
		{"a=shown", `is the input "b" as it is`},
		{"a=a2 a=b_updated", `"a" is in another state`},
		{"a=a2 b=a2", `"a2" is in another state`},
	} {
		var pairs []StatePair
		for _, text := range strings.Fields(c.pair) {
			p, err := ParseStatePair(text, func(StatePair) bool { return true })
			require.NoError(t, err)
			pairs = append(pairs, p)
		}
		RecordStates(m, pairs)
		_, err := FindStates(m)
		require.ErrorContains(t, err, c.why, c.pair)
		require.ErrorContains(t, err, "state "+strings.Fields(c.pair)[len(pairs)-1], c.pair)
	}
	for _, text := range []string{`{}`, `[]`, `{"schema":"memopt.states/v2","pairs":[]}`} {
		m.SetMeta(StatesKey, text)
		_, err := FindStates(m)
		require.ErrorContains(t, err, "remove the entry")
	}
}

func TestParseStatePair(t *testing.T) {
	known := func(p StatePair) bool { return p.Input == "a=b" && p.Output == "c" }
	p, err := ParseStatePair("a=b=c", known)
	require.NoError(t, err)
	require.Equal(t, StatePair{"a=b", "c"}, p)
	p, err = ParseStatePair("x=y", known)
	require.NoError(t, err)
	require.Equal(t, StatePair{"x", "y"}, p)
	for _, text := range []string{"", "x", "=x", "x="} {
		_, err := ParseStatePair(text, known)
		require.ErrorContains(t, err, "IN=OUT", text)
	}
}

// What an operator updates by itself is no state with another next value.
func TestStatesThatOperatorsUpdate(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
step (float[8] sum, float[8] g, float[8] w) => (bool done, float[8] twice, float[8] next) {
   [add] done = com.microsoft.InPlaceAccumulatorV2(sum, g)  twice = Add(g, g)  next = Sub(w, g)
}`, "accumulator")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	RecordStates(m, []StatePair{{"sum", "twice"}})
	_, err = FindStates(m)
	require.EqualError(t, err,
		`state sum=twice: node "add" (InPlaceAccumulatorV2) updates "sum" itself; leave the pair out`)
	RecordStates(m, []StatePair{{"w", "next"}})
	states, err := FindStates(m)
	require.NoError(t, err)
	require.Len(t, states, 1, "it says nothing of other states")
}

// An optimizer's operands are states if they are the graph's own.
func TestStatesOfOperators(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
step (float rate, int64 count, float[8] w, float[8] g, float[8] m, float[8] v)
  => (int64 count2, float[8] m2, float[8] v2, float[8] w2) {
   count2, m2, v2, w2 = com.microsoft.AdamOptimizer(rate, count, w, g, m, v)
}`, "adam")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	sizes, err := EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	sizes.States, err = FindStates(m)
	require.NoError(t, err)
	require.Len(t, sizes.States, 4)
	tl, err := Simulate(m.Graph, graph.FileOrder(m.Graph), sizes)
	require.NoError(t, err)
	require.Empty(t, tl.Copied)
	require.Zero(t, tl.Peak.Bytes)
}

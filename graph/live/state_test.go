package live

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph"
	"memopt/graph/op"
	_ "memopt/internal/test/rapidflags"
)

// kinds of steps in drawn programs: views, steps that write in place, steps that do not, and an
// optimizer with five outputs.
var drawnKinds = []graph.Kind{op.Identity, op.Mul, op.Sub, op.Neg, op.MatMul, op.Where, op.AdamOptimizer}

// drawProgram draws a program of values of two sizes. The first ones are persistent, and some of
// these are the inputs of states; their next values are drawn as well.
func drawProgram(t *rapid.T) *Program {
	p := &Program{}
	value := func(bytes int64, persistent bool) graph.ValueID {
		p.Bytes, p.Persistent = append(p.Bytes, bytes), append(p.Persistent, persistent)
		return graph.ValueID(len(p.Bytes) - 1)
	}
	size := func() int64 { return rapid.SampledFrom([]int64{0, 8, 8, 8, 24}).Draw(t, "bytes") }
	inputs := rapid.IntRange(1, 4).Draw(t, "inputs")
	for range inputs {
		value(size(), true)
	}
	made := []graph.ValueID{}
	for range rapid.IntRange(1, 14).Draw(t, "steps") {
		kind := rapid.SampledFrom(drawnKinds).Draw(t, "kind")
		s := Step{Node: graph.NodeID(len(p.Steps)), Kind: kind}
		s.Fails = rapid.SampledFrom([]op.Failure{7: op.FailsOnce}).Draw(t, "failure")
		reads := map[graph.Kind]int{op.Identity: 1, op.Neg: 1, op.Where: 3, op.AdamOptimizer: 7}[kind]
		for range max(reads, 2) {
			s.In = append(s.In, graph.ValueID(rapid.IntRange(0, len(p.Bytes)-1).Draw(t, "in")))
		}
		if kind == op.Identity || kind == op.Neg {
			s.In = s.In[:1]
		}
		outputs := 1
		if kind == op.AdamOptimizer {
			outputs = 6
		}
		for i := range outputs {
			bytes := size()
			if kind == op.Identity {
				bytes = p.Bytes[s.In[0]]
			}
			if i > 0 && rapid.Bool().Draw(t, "left out") {
				s.Out = append(s.Out, graph.NoValue)
				continue
			}
			s.Out = append(s.Out, value(bytes, false))
		}
		made = append(made, s.Out...)
		p.Steps = append(p.Steps, s)
	}
	made = slices.DeleteFunc(made, func(v graph.ValueID) bool { return v == graph.NoValue })
	taken := map[graph.ValueID]bool{}
	for in := range graph.ValueID(inputs) {
		out := rapid.SampledFrom(made).Draw(t, "next value")
		if p.Bytes[in] != p.Bytes[out] || taken[out] || showsPersistent(p, out) {
			continue
		}
		taken[out] = true
		p.States, p.Outputs = append(p.States, State{in, out}), append(p.Outputs, out)
	}
	for v := range graph.ValueID(len(p.Bytes)) {
		if !taken[v] && rapid.IntRange(0, 7).Draw(t, "output") == 0 {
			p.Outputs = append(p.Outputs, v)
		}
	}
	return p
}

// showsPersistent reports whether a value is a view of a persistent one: such pairs are not states.
func showsPersistent(p *Program, v graph.ValueID) bool {
	for i := len(p.Steps) - 1; i >= 0; i-- {
		if s := &p.Steps[i]; s.Out[0] == v && s.Kind == op.Identity {
			v = s.In[0]
		}
	}
	return p.Persistent[v]
}

// interpret executes a program with its values where a timeline says they lie, and returns the
// first read that finds a value other than the one it asks for, or the first step that may fail when
// a state no longer has its old value. A memory holds the value that was
// last written there; a step writes after it has read, and over what it reads only if the op table
// allows it.
func interpret(p *Program, tl *Timeline) error {
	type place struct {
		state bool
		id    graph.ValueID
	}
	at := func(v graph.ValueID) place {
		switch {
		case tl.State != nil && tl.State[v] != graph.NoValue:
			return place{true, tl.State[v]}
		case tl.Root[v] != graph.NoValue:
			return place{false, tl.Root[v]}
		}
		return place{true, v} // persistent, or a view of a persistent value: see shown
	}
	shown := make([]graph.ValueID, len(p.Bytes)) // by value: the value that it is, through views
	holds := map[place]graph.ValueID{}
	for v := range p.Bytes {
		shown[v] = graph.ValueID(v)
		if p.Persistent[v] {
			holds[place{true, graph.ValueID(v)}] = graph.ValueID(v)
		}
	}
	read := func(who string, v graph.ValueID) error {
		where := at(v)
		if where == (place{true, v}) && shown[v] != v {
			where = place{true, shown[v]} // a view of a persistent value that is not a state
		}
		if p.Bytes[v] > 0 && holds[where] != shown[v] {
			return fmt.Errorf("%s reads %d, which is %d, and finds %d in %v", who, v, shown[v], holds[where], where)
		}
		return nil
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, v := range s.In {
			if err := read(fmt.Sprint("step ", i), v); err != nil {
				return err
			}
		}
		if s.Kind == op.Identity {
			shown[s.Out[0]] = shown[s.In[0]]
			continue
		}
		for _, st := range p.States {
			old := place{true, st.In}
			writes := slices.ContainsFunc(s.Out, func(v graph.ValueID) bool {
				return v != graph.NoValue && at(v) == old
			})
			if s.Fails != op.NeverFails && p.Bytes[st.In] > 0 && (writes || holds[old] != st.In) {
				return fmt.Errorf("step %d may fail, and state %d holds %d", i, st.In, holds[old])
			}
		}
		for slot, v := range s.Out {
			if v == graph.NoValue || p.Bytes[v] == 0 {
				continue
			}
			for j, in := range s.In {
				// Element by element, it makes no difference whether an operand is read twice.
				twice := func(k int) bool { return at(s.In[k]) == at(in) && mayOverwrite(s, slot, k) }
				if at(in) == at(v) && p.Bytes[in] > 0 && !slices.ContainsFunc(upTo(len(s.In)), twice) {
					return fmt.Errorf("step %d writes output %d over input %d", i, slot, j)
				}
			}
			holds[at(v)] = v
		}
	}
	for _, v := range p.Outputs {
		if err := read("the caller", v); err != nil {
			return err
		}
	}
	for _, st := range p.States {
		copied := false
		for _, c := range tl.Copied {
			copied = copied || c == st
		}
		if !copied && p.Bytes[st.In] > 0 && holds[place{true, st.In}] != shown[st.Out] {
			return fmt.Errorf("the input %d of a state holds %d in the end, not %d", st.In,
				holds[place{true, st.In}], shown[st.Out])
		}
	}
	return nil
}

// mayOverwrite reports whether the op table lets an output lie where an input does.
func mayOverwrite(s *Step, slot, input int) bool {
	for _, u := range op.Of(s.Kind).States {
		if u.In == input && u.Out == slot {
			return true
		}
	}
	for _, in := range op.Of(s.Kind).InPlace {
		if slot == 0 && in == input {
			return true
		}
	}
	return false
}

// upTo lists the numbers below n.
func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// Every read finds what it asks for, and in the end every state has its next value.
func TestStatesKeepValues(t *testing.T) {
	var held, copied, whole int
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		tl, err := p.Simulate()
		if err != nil {
			t.Fatal(err)
		}
		if err := interpret(p, tl); err != nil {
			t.Fatalf("%v\n%+v\n%+v", err, p, tl)
		}
		whole += len(p.States)
		copied += len(tl.Copied)
		for v := range p.Bytes {
			if tl.State != nil && tl.State[v] != graph.NoValue && !p.Persistent[v] {
				held++
			}
		}
		// The bound also holds without states in place.
		if tl.LowerBound > tl.Peak.Bytes {
			t.Fatalf("the bound %d is above the peak %d", tl.LowerBound, tl.Peak.Bytes)
		}
	})
	require.Greater(t, held, whole/10, "states are hardly ever written in place")
	require.Greater(t, copied, 0)
}

// adam is one parameter's update, step by step; p, m and v are the states.
const adamText = `<ir_version: 8, opset_import: ["" : 17]>
step (float[64] p, float[64] m, float[64] v, float[64] g) => (float[64] p2, float[64] m2, float[64] v2) {
   b = Constant<value = float {0.5}>()
   d = Sub(m, g)  e = Mul(d, b)  m1 = Add(e, g)  m2 = Identity(m1)
   h = Mul(v, b)  q = Mul(g, g)  r = Mul(q, b)  v1 = Add(h, r)  v2 = Identity(v1)
   s = Sqrt(v1)  u = Div(m1, s)  w = Mul(u, b)  p2 = Sub(p, w)
}`

func TestStatesInPlace(t *testing.T) {
	m, err := graph.Parse(adamText, "adam")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	RecordStates(m, []StatePair{{"p", "p2"}, {"m", "m2"}, {"v", "v2"}})
	sizes, err := EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	sizes.States, err = FindStates(m)
	require.NoError(t, err)
	tl, err := Simulate(m.Graph, graph.FileOrder(m.Graph), sizes)
	require.NoError(t, err)
	require.Empty(t, tl.Copied)
	lies := map[string]string{}
	for v, in := range tl.State {
		if in != graph.NoValue {
			lies[m.Graph.ValueName(graph.ValueID(v))] = m.Graph.ValueName(in)
		}
	}
	require.Equal(t, map[string]string{"p": "p", "p2": "p", "m": "m", "d": "m", "e": "m", "m1": "m", "m2": "m",
		"v": "v", "h": "v", "v1": "v", "v2": "v"}, lies)
	// The square of the gradient, then the root, which the quotient overwrites.
	require.Equal(t, int64(256), tl.Peak.Bytes)
}

// A value that is read after the next value is made does not take its place.
func TestStateLeftToTheNextValue(t *testing.T) {
	p := &Program{Bytes: []int64{8, 8, 8, 8, 8}, Persistent: []bool{true, true, false, false, false},
		States: []State{{0, 3}}, Outputs: []graph.ValueID{3, 4}}
	p.Steps = []Step{
		{Kind: op.Neg, In: []graph.ValueID{0}, Out: []graph.ValueID{2}},
		{Kind: op.Mul, In: []graph.ValueID{2, 1}, Out: []graph.ValueID{3}},
		{Kind: op.MatMul, In: []graph.ValueID{2, 2}, Out: []graph.ValueID{4}},
	}
	tl, err := p.Simulate()
	require.NoError(t, err)
	require.Empty(t, tl.Copied)
	require.Equal(t, []graph.ValueID{0, -1, -1, 0, -1}, tl.State)
	// Under a runtime that keeps the next value elsewhere it has no bytes: it is copied.
	p.Bytes[3] = 0
	tl, err = p.Simulate()
	require.NoError(t, err)
	require.Equal(t, []State{{0, 3}}, tl.Copied)
}

package live

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// refLive is a second simulator: it walks the steps with a table of live buffers,
// allocates, decides in-place reuse by looking ahead over all later steps, and frees. The second result is
// of the host's memory.
func refLive(p *Program) (live, host []int64) {
	source := map[graph.ValueID]graph.ValueID{} // copy → value
	readLater := func(v graph.ValueID, from int) bool {
		for i := from; i < len(p.Steps); i++ {
			for _, x := range p.Steps[i].In {
				if x == v {
					return true
				}
			}
			if src, copied := source[p.Steps[i].In[0]]; copied && src == v && p.Steps[i].Kind == op.Wait {
				return true
			}
		}
		for _, o := range p.Outputs {
			if o == v {
				return true
			}
		}
		return false
	}
	buffer := map[graph.ValueID]int{}  // value → buffer
	users := map[int][]graph.ValueID{} // buffer → values in it
	size := map[int]int64{}
	freed := map[int]bool{}
	far := map[int]bool{}
	next := 0
	for _, s := range p.Steps {
		if s.Kind == op.Offload || s.Kind == op.Reload {
			source[s.Out[0]] = s.In[0]
		}
	}
	for i, s := range p.Steps {
		for slot, v := range s.Out {
			if v == graph.NoValue || p.Persistent[v] {
				continue
			}
			b := -1
			if slot == 0 && op.Of(s.Kind).View {
				src, ok := buffer[s.In[0]]
				if !ok {
					continue // a view of something persistent
				}
				b = src
			}
			if slot == 0 && b < 0 && p.Bytes[v] > 0 {
				for _, in := range op.Of(s.Kind).InPlace {
					if in >= len(s.In) || s.In[in] == graph.NoValue {
						continue
					}
					cand, ok := buffer[s.In[in]]
					if !ok || size[cand] != p.Bytes[v] {
						continue
					}
					busy := false
					for _, u := range users[cand] {
						busy = busy || readLater(u, i+1)
					}
					if !busy {
						b = cand
						break
					}
				}
			}
			if b < 0 {
				b = next
				next++
				size[b] = max(p.Bytes[v], 0)
				far[b] = s.Kind == op.Offload
			}
			buffer[v] = b
			users[b] = append(users[b], v)
		}
		total, away := s.Inner, int64(0)
		for b := range next {
			switch {
			case freed[b]:
			case far[b]:
				away += size[b]
			default:
				total += size[b]
			}
		}
		live, host = append(live, total), append(host, away)
		for b := range next {
			busy := false
			for _, u := range users[b] {
				busy = busy || readLater(u, i+1)
			}
			freed[b] = freed[b] || !busy
		}
	}
	return live, host
}

// randomProgram makes steps over views, in-place operators, products and persistent values.
func randomProgram(rng *rand.Rand, steps int) *Program {
	kinds := []graph.Kind{op.Reshape, op.Relu, op.Add, op.MatMul, op.Identity, op.Mul, op.LayerNormalization}
	p := &Program{}
	value := func(bytes int64, persistent bool) graph.ValueID {
		p.Bytes = append(p.Bytes, bytes)
		p.Persistent = append(p.Persistent, persistent)
		return graph.ValueID(len(p.Bytes) - 1)
	}
	all := []graph.ValueID{value(100, true), value(200, true)}
	for range steps {
		s := Step{Kind: kinds[rng.IntN(len(kinds))]}
		pick := func() graph.ValueID { return all[len(all)-1-rng.IntN(min(len(all), 6))] }
		s.In = []graph.ValueID{pick()}
		if s.Kind == op.Add || s.Kind == op.Mul || s.Kind == op.MatMul {
			s.In = append(s.In, pick())
		}
		bytes := []int64{100, 200, 0, 300}[rng.IntN(4)]
		if op.Of(s.Kind).View {
			bytes = p.Bytes[s.In[0]]
		}
		s.Out = []graph.ValueID{value(bytes, false)}
		if s.Kind == op.LayerNormalization {
			s.Out = append(s.Out, value(50, false), graph.NoValue)
		}
		if rng.IntN(10) == 0 {
			s.Inner = 70
		}
		for _, v := range s.Out {
			if v != graph.NoValue {
				all = append(all, v)
			}
		}
		p.Steps = append(p.Steps, s)
	}
	for range rng.IntN(3) {
		if v := all[rng.IntN(len(all))]; !p.Persistent[v] {
			p.Outputs = append(p.Outputs, v)
		}
	}
	return p
}

// TestSimulateAgainstReference compares live bytes step by step with the second simulator.
func TestSimulateAgainstReference(t *testing.T) {
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := randomProgram(rng, 1+rng.IntN(30))
		got, err := p.Simulate()
		require.NoError(t, err)
		want, _ := refLive(p)
		require.Equal(t, want, got.Live, "seed %d: %+v", seed, p.Steps)
		require.LessOrEqual(t, got.LowerBound, got.Peak.Bytes, "seed %d", seed)
	}
}

// refLowerBound is the bound by its definition: what the hungriest step reads and makes, each
// buffer once and less what it might write in place, or the outputs together.
func refLowerBound(p *Program) int64 {
	root := make([]graph.ValueID, len(p.Bytes))
	for v := range root {
		root[v] = graph.ValueID(v)
		if p.Persistent[v] {
			root[v] = graph.NoValue
		}
	}
	sum := func(values []graph.ValueID) (total int64) {
		seen := map[graph.ValueID]bool{graph.NoValue: true}
		for _, v := range values {
			if v != graph.NoValue && !seen[root[v]] {
				seen[root[v]] = true
				total += max(p.Bytes[root[v]], 0)
			}
		}
		return total
	}
	bound := int64(0)
	for _, s := range p.Steps {
		need := s.Inner + sum(s.In)
		if op.Of(s.Kind).View {
			root[s.Out[0]] = root[s.In[0]]
		} else {
			need += sum(s.Out)
			for _, slot := range op.Of(s.Kind).InPlace {
				if in := root[s.In[slot]]; in != graph.NoValue && p.Bytes[in] == p.Bytes[s.Out[0]] {
					need -= p.Bytes[s.Out[0]]
					break
				}
			}
		}
		bound = max(bound, need)
	}
	return max(bound, sum(p.Outputs))
}

func TestLowerBoundAgainstReference(t *testing.T) {
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 4))
		p := randomProgram(rng, 1+rng.IntN(12))
		got, err := p.Simulate()
		require.NoError(t, err)
		require.Equal(t, refLowerBound(p), got.LowerBound, "seed %d: %+v", seed, p)
	}
}

// TestSumsOverflow: sizes that fit each by itself but not together are an error; the largest sum
// that fits is none.
func TestSumsOverflow(t *testing.T) {
	make := func(a, b int64) *Program {
		return &Program{Bytes: []int64{8, a, b}, Persistent: []bool{true, false, false}, Outputs: []graph.ValueID{1, 2},
			Steps: []Step{
				{Kind: op.MatMul, In: []graph.ValueID{0, 0}, Out: []graph.ValueID{1}},
				{Kind: op.MatMul, In: []graph.ValueID{0, 0}, Out: []graph.ValueID{2}}}}
	}
	_, err := make(math.MaxInt64-10, 11).Simulate()
	require.ErrorIs(t, err, symbolic.ErrOverflow)
	_, err = make(math.MaxInt64-10, 10).Simulate()
	require.ErrorIs(t, err, symbolic.ErrOverflow, "MaxInt64 stands for what does not fit")
	tl, err := make(math.MaxInt64-10, 9).Simulate()
	require.NoError(t, err)
	require.Equal(t, int64(math.MaxInt64-1), tl.Peak.Bytes)
	require.Equal(t, int64(math.MaxInt64-1), tl.LowerBound)
}

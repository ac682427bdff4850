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

// partKinds are the steps of drawn programs with parts.
var partKinds = []graph.Kind{op.Identity, op.Neg, op.Mul, op.MatMul, op.Split, op.Split, op.Slice, op.Concat, op.Concat,
	op.Add, op.InPlaceAccumulatorV2}

// drawParts draws a program of steps that cut and join values, write in place, show values whole,
// and update states.
func drawParts(t *rapid.T) *Program {
	p := &Program{}
	const unit = PartAlignment
	value := func(bytes int64, persistent bool) graph.ValueID {
		p.Bytes, p.Persistent = append(p.Bytes, bytes), append(p.Persistent, persistent)
		return graph.ValueID(len(p.Bytes) - 1)
	}
	size := func() int64 { return unit * int64(rapid.SampledFrom([]int{1, 1, 2, 2, 3, 4}).Draw(t, "units")) }
	inputs := rapid.IntRange(1, 3).Draw(t, "inputs")
	for range inputs {
		value(size(), true)
	}
	var made []graph.ValueID
	for range rapid.IntRange(1, 16).Draw(t, "steps") {
		s := Step{Node: graph.NodeID(len(p.Steps)), Kind: rapid.SampledFrom(partKinds).Draw(t, "kind")}
		pick := func() graph.ValueID {
			back := rapid.IntRange(1, min(len(p.Bytes), 8)).Draw(t, "back")
			return graph.ValueID(len(p.Bytes) - back)
		}
		s.In = []graph.ValueID{pick()}
		whole := p.Bytes[s.In[0]]
		var sizes []int64
		switch s.Kind {
		case op.Identity:
			sizes = []int64{whole}
		case op.Add, op.Mul, op.MatMul:
			s.In = append(s.In, pick())
			sizes = []int64{size()}
		case op.InPlaceAccumulatorV2:
			s.In = []graph.ValueID{graph.ValueID(rapid.IntRange(0, inputs-1).Draw(t, "updated")), s.In[0]}
			sizes = []int64{unit}
		case op.Split:
			s.Slices = &Slices{}
			for at := int64(0); at < whole; {
				n := min(size(), whole-at)
				s.Slices.At, sizes = append(s.Slices.At, at), append(sizes, n)
				at += n
			}
		case op.Slice:
			sizes = []int64{min(size(), whole)}
			s.Slices = &Slices{At: []int64{unit * rapid.Int64Range(0, (whole-sizes[0])/unit).Draw(t, "at")}}
		case op.Concat:
			s.Slices = &Slices{Join: true, At: []int64{0}}
			for range rapid.IntRange(0, 3).Draw(t, "more") {
				s.Slices.At, s.In = append(s.Slices.At, whole), append(s.In, pick())
				whole += p.Bytes[s.In[len(s.In)-1]]
			}
			sizes = []int64{whole}
		default:
			sizes = []int64{rapid.SampledFrom([]int64{whole, size()}).Draw(t, "out")}
		}
		if s.Slices != nil && rapid.IntRange(0, 9).Draw(t, "unaligned") == 0 {
			s.Slices.At[rapid.IntRange(0, len(s.Slices.At)-1).Draw(t, "which")] = -1
		}
		for i, n := range sizes {
			if i > 0 && rapid.IntRange(0, 5).Draw(t, "left out") == 0 {
				s.Out = append(s.Out, graph.NoValue)
				continue
			}
			v := value(n, false)
			s.Out, made = append(s.Out, v), append(made, v)
		}
		p.Steps = append(p.Steps, s)
	}
	drawEnds(t, p, inputs, made)
	return p
}

// drawEnds draws states and outputs.
func drawEnds(t *rapid.T, p *Program, inputs int, made []graph.ValueID) {
	taken := map[graph.ValueID]bool{}
	for in := range graph.ValueID(inputs) {
		out := rapid.SampledFrom(made).Draw(t, "next value")
		mutated := slices.ContainsFunc(p.Steps, func(s Step) bool {
			return s.Kind == op.InPlaceAccumulatorV2 && s.In[0] == in
		})
		if mutated || rapid.Bool().Draw(t, "no state") || p.Bytes[in] != p.Bytes[out] || taken[out] ||
			showsPersistent(p, out) {
			continue
		}
		taken[out] = true
		p.States, p.Outputs = append(p.States, State{in, out}), append(p.Outputs, out)
	}
	for v := range graph.ValueID(len(p.Bytes)) {
		if !taken[v] && rapid.IntRange(0, 9).Draw(t, "output") == 0 {
			p.Outputs = append(p.Outputs, v)
		}
	}
}

// cell is one byte of what a step has made: all bytes are different.
type cell struct {
	value graph.ValueID
	at    int64
}

// bytemap executes a program on bytes: what every step reads and writes, where a timeline says it
// lies. Buffers are there during their ranges only, and hold nothing at first.
type bytemap struct {
	p       *Program
	tl      *Timeline
	buffers map[graph.ValueID][]cell // by root, by state or by other persistent value
	want    [][]cell                 // by value: its contents
	base    []graph.ValueID          // by value that shows a persistent one: that one
}

// place returns the buffer of a value, and where it lies there.
func (b *bytemap) place(v graph.ValueID) (buffer graph.ValueID, lo, hi int64) {
	lo = b.tl.Begin(v)
	switch {
	case b.tl.State != nil && b.tl.State[v] != graph.NoValue:
		buffer = b.tl.State[v]
	case b.tl.Root[v] != graph.NoValue:
		buffer = b.tl.Root[v]
	default:
		buffer = b.base[v]
	}
	return buffer, lo, lo + b.p.Bytes[v]
}

func (b *bytemap) check(who string, v graph.ValueID) error {
	buffer, lo, hi := b.place(v)
	mem := b.buffers[buffer]
	if int64(len(mem)) < hi {
		return fmt.Errorf("%s: value %d lies at %d..%d of buffer %d of %d bytes", who, v, lo, hi, buffer, len(mem))
	}
	if !slices.Equal(mem[lo:hi], b.want[v]) {
		return fmt.Errorf("%s: value %d is overwritten in buffer %d", who, v, buffer)
	}
	return nil
}

// contents is what a step makes of output slot.
func (b *bytemap) contents(s *Step, slot int) []cell {
	v := s.Out[slot]
	n := b.p.Bytes[v]
	switch s.Kind {
	case op.Identity:
		return b.want[s.In[0]]
	case op.Split, op.Slice:
		if at := s.Slices.At[slot]; at >= 0 {
			return b.want[s.In[0]][at : at+n]
		}
	case op.Concat:
		var all []cell
		for _, in := range s.In {
			all = append(all, b.want[in]...)
		}
		return all
	}
	fresh := make([]cell, n)
	for i := range fresh {
		fresh[i] = cell{v, int64(i)}
	}
	return fresh
}

// write puts an output in its place. Bytes that hold already what is to be written are no write;
// others must be no operand's, but where the op table lets the step write in place.
func (b *bytemap) write(i int, s *Step, slot int) error {
	v := s.Out[slot]
	buffer, lo, hi := b.place(v)
	mem := b.buffers[buffer]
	if int64(len(mem)) < hi {
		return fmt.Errorf("step %d writes value %d at %d..%d of buffer %d of %d bytes", i, v, lo, hi, buffer,
			len(mem))
	}
	for k, c := range b.want[v] {
		if mem[lo+int64(k)] == c {
			continue
		}
		at, allowed, hit := lo+int64(k), false, graph.NoValue
		for j, in := range s.In {
			other, from, to := b.place(in)
			if other != buffer || at < from || at >= to {
				continue
			}
			hit = in
			allowed = allowed || from == lo && to == hi && mayOverwrite(s, slot, j)
		}
		if hit != graph.NoValue && !allowed {
			return fmt.Errorf("step %d writes output %d over byte %d of buffer %d, where input %d lies", i, slot,
				at, buffer, hit)
		}
		mem[at] = c
	}
	return nil
}

// run returns the first fault, and the bytes that are live at each step.
func (b *bytemap) run() (live []int64, err error) {
	p := b.p
	b.buffers, b.want = map[graph.ValueID][]cell{}, make([][]cell, len(p.Bytes))
	b.base = make([]graph.ValueID, len(p.Bytes))
	for v, n := range p.Bytes {
		if b.base[v] = graph.ValueID(v); p.Persistent[v] {
			for i := range n {
				b.want[v] = append(b.want[v], cell{graph.ValueID(v), i})
			}
			b.buffers[graph.ValueID(v)] = slices.Clone(b.want[v])
		}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		total := p.Hidden + s.Inner
		for v, root := range b.tl.Root {
			id := graph.ValueID(v)
			switch r := b.tl.Ranges[v]; {
			case root != id:
			case int(r.Start) == i:
				b.buffers[id] = make([]cell, p.Bytes[v])
				for k := range b.buffers[id] {
					b.buffers[id][k].value = graph.NoValue
				}
				total += p.Bytes[v]
			case int(r.End) == i:
				delete(b.buffers, id)
			case int(r.Start) < i && i < int(r.End):
				total += p.Bytes[v]
			}
		}
		live = append(live, total)
		for _, v := range s.In {
			if err := b.check(fmt.Sprint("step ", i), v); err != nil {
				return nil, err
			}
		}
		for slot, v := range s.Out {
			if v == graph.NoValue {
				continue
			}
			b.want[v] = b.contents(s, slot)
			if b.tl.Root[v] == graph.NoValue && (s.Kind == op.Identity || s.Kind == op.Split || s.Kind == op.Slice) {
				b.base[v] = b.base[s.In[0]]
			}
			if err := b.write(i, s, slot); err != nil {
				return nil, err
			}
		}
		if s.Kind == op.InPlaceAccumulatorV2 {
			b.update(s)
		}
		for _, v := range s.Out {
			if v == graph.NoValue {
				continue
			}
			if err := b.check(fmt.Sprint("after step ", i), v); err != nil {
				return nil, err
			}
		}
	}
	for _, st := range p.States {
		if slices.Contains(b.tl.Copied, st) {
			b.buffers[st.In] = b.want[st.Out]
		} else if !slices.Equal(b.buffers[st.In], b.want[st.Out]) {
			return nil, fmt.Errorf("the input %d of a state does not hold %d in the end", st.In, st.Out)
		}
	}
	for _, v := range p.Outputs {
		if b.given(v) {
			continue
		}
		if err := b.check("the caller", v); err != nil {
			return nil, err
		}
	}
	return live, nil
}

// given reports whether a value is the input of a state, or shows all of it: it has the next value
// when the step is done.
func (b *bytemap) given(v graph.ValueID) bool {
	v = b.shown(v)
	return slices.ContainsFunc(b.p.States, func(st State) bool { return st.In == v })
}

// shown returns the value that another one shows whole.
func (b *bytemap) shown(v graph.ValueID) graph.ValueID {
	for i := len(b.p.Steps) - 1; i >= 0; i-- {
		if s := &b.p.Steps[i]; s.Kind == op.Identity && s.Out[0] == v {
			v = s.In[0]
		}
	}
	return v
}

// update has a step change its first input, a persistent value, and with it what shows all of it.
func (b *bytemap) update(s *Step) {
	for i := range b.buffers[s.In[0]] {
		b.buffers[s.In[0]][i] = cell{s.Out[0], int64(i) + 1000}
	}
	for v := range b.want {
		if b.want[v] != nil && b.shown(graph.ValueID(v)) == b.shown(s.In[0]) {
			b.want[v] = slices.Clone(b.buffers[s.In[0]])
		}
	}
}

// withoutParts is the program with every part copied.
func withoutParts(p *Program) *Program {
	c := p.Clone()
	for i := range c.Steps {
		c.Steps[i].Slices = nil
	}
	return c
}

// No live byte is overwritten, whatever parts share; and sharing never needs more than copying.
func TestPartsKeepBytes(t *testing.T) {
	var shared, declined, lower int
	check := func(t *rapid.T) {
		p := drawParts(t)
		var sim Simulator
		holds := func(tl *Timeline, what string) {
			live, err := (&bytemap{p: p, tl: tl}).run()
			if err != nil {
				t.Fatalf("%s: %v\n%+v\n%+v", what, err, p, tl)
			}
			if !slices.Equal(live, tl.Live) {
				t.Fatalf("%s: live bytes are %v, want %v\n%+v", what, tl.Live, live, p)
			}
			for v, at := range tl.Start {
				if at%PartAlignment != 0 {
					t.Fatalf("%s: value %d begins at %d", what, v, at)
				}
			}
		}
		tl, err := sim.Run(p)
		if err != nil {
			t.Fatal(err)
		}
		holds(tl, "best")
		best, bound := tl.Peak.Bytes, tl.LowerBound
		shared += sim.s.share.shared
		plain, err := withoutParts(p).Simulate()
		if err != nil {
			t.Fatal(err)
		}
		holds(plain, "copied")
		if best > plain.Peak.Bytes {
			t.Fatalf("the peak is %d with parts shared, and %d with copies\n%+v", best, plain.Peak.Bytes, p)
		}
		if best < plain.Peak.Bytes {
			lower++
		}
		if bound > best || bound > plain.Peak.Bytes {
			t.Fatalf("the bound is %d, the peak %d with parts shared, and %d with copies\n%+v", bound, best,
				plain.Peak.Bytes, p)
		}
		if !p.hasSlices() {
			return
		}
		// What any other choice gives is sound as well.
		for v := range sim.s.share.declined {
			sim.s.share.declined[v] = uint8(rapid.IntRange(0, 3).Draw(t, "declined"))
		}
		sim.s.begin(p)
		tl, err = sim.s.steps()
		if err != nil {
			t.Fatal(err)
		}
		holds(tl, "drawn")
		if bound != tl.LowerBound || bound > tl.Peak.Bytes {
			t.Fatalf("the bound is %d, %d for a drawn choice with the peak %d\n%+v", bound, tl.LowerBound,
				tl.Peak.Bytes, p)
		}
		if tl.Peak.Bytes > best {
			declined++
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			check(t)
		}
	})
	require.Greater(t, shared, 100)
	require.Greater(t, lower, 5, "sharing hardly ever lowers a peak")
	require.Greater(t, declined, 5)
}

// step is a step of a program that is written by hand.
func step(kind graph.Kind, in []graph.ValueID, parts *Slices, out ...graph.ValueID) Step {
	return Step{Kind: kind, In: in, Out: out, Slices: parts}
}

// units makes a program of values of so many units, the first of them persistent.
func units(sizes ...int64) *Program {
	p := &Program{}
	for i, n := range sizes {
		p.Bytes, p.Persistent = append(p.Bytes, n*PartAlignment), append(p.Persistent, i == 0)
	}
	return p
}

// Of the parts of a program those share that lower its peak, and the others are copied.
func TestPartsToBlame(t *testing.T) {
	type ids = []graph.ValueID
	joined := func(at ...int64) *Slices { return &Slices{Join: true, At: at} }
	// A part of 1 keeps 4 alive beside 8; of 4 and 4, which are joined later, the first is made of these
	// 8.
	cut := units(1, 4, 1, 3, 1, 8, 4, 4, 8, 1)
	cut.Steps = []Step{
		step(op.MatMul, ids{0, 0}, nil, 1),
		step(op.Split, ids{1}, &Slices{At: []int64{0, PartAlignment}}, 2, 3),
		step(op.MatMul, ids{3, 3}, nil, 4),
		step(op.MatMul, ids{4, 4}, nil, 5),
		step(op.MatMul, ids{5, 5}, nil, 6),
		step(op.MatMul, ids{6, 6}, nil, 7),
		step(op.Concat, ids{6, 7}, joined(0, 4*PartAlignment), 8),
		step(op.MatMul, ids{8, 2}, nil, 9),
	}
	// A part of 1 is there before 8, which die before the other part of 7 is made.
	join := units(1, 1, 8, 7, 8, 1)
	join.Steps = []Step{
		step(op.MatMul, ids{0, 0}, nil, 1),
		step(op.MatMul, ids{0, 0}, nil, 2),
		step(op.MatMul, ids{0, 0}, nil, 3),
		step(op.Concat, ids{1, 3}, joined(0, PartAlignment), 4),
		step(op.MatMul, ids{4, 4}, nil, 5),
	}
	for _, c := range []struct {
		name                 string
		p                    *Program
		best, shared, copied int64
	}{
		{"cut", cut, 1 + 8 + 4, 4 + 8 + 8, 1 + 4 + 4 + 8},
		{"join", join, 1 + 8, 8 + 8, 1 + 7 + 8},
	} {
		var sim Simulator
		tl, err := sim.Run(c.p)
		require.NoError(t, err)
		require.Equal(t, c.best, tl.Peak.Bytes/PartAlignment, c.name)
		clear(sim.s.share.declined)
		sim.s.begin(c.p)
		tl, err = sim.s.steps()
		require.NoError(t, err)
		require.Equal(t, c.shared, tl.Peak.Bytes/PartAlignment, c.name)
		tl, err = withoutParts(c.p).Simulate()
		require.NoError(t, err)
		require.Equal(t, c.copied, tl.Peak.Bytes/PartAlignment, c.name)
	}
}

// The next value of a state goes into the state's buffer, whether it is cut, joined or a part.
func TestStatesBeforeParts(t *testing.T) {
	type ids = []graph.ValueID
	whole := &Slices{Join: true, At: []int64{0, PartAlignment}}
	for name, p := range map[string]*Program{
		"joined": {Steps: []Step{step(op.MatMul, ids{1, 1}, nil, 2), step(op.MatMul, ids{1, 1}, nil, 3),
			step(op.Concat, ids{2, 3}, whole, 4)}, States: []State{{0, 4}}},
		"cut": {Steps: []Step{step(op.MatMul, ids{1, 1}, nil, 2), step(op.Concat, ids{1, 1, 1}, nil, 5),
			step(op.Split, ids{5}, &Slices{At: []int64{0, 2 * PartAlignment}}, 4, 3)}, States: []State{{0, 4}}},
		"part": {Steps: []Step{step(op.MatMul, ids{1, 1}, nil, 4), step(op.MatMul, ids{1, 1}, nil, 2),
			step(op.Concat, ids{4, 2}, &Slices{Join: true, At: []int64{0, 2 * PartAlignment}}, 5)},
			States: []State{{0, 4}}},
	} {
		p.Bytes, p.Persistent = []int64{128, 64, 64, 64, 128, 192}, []bool{true, true, false, false, false, false}
		p.Outputs = ids{4}
		if name != "joined" {
			p.Outputs = append(p.Outputs, 5)
		}
		tl, err := p.Simulate()
		require.NoError(t, err)
		require.Empty(t, tl.Copied, name)
	}
}

// Sizes that contradict the places of parts, or that are not known, keep them from sharing.
func TestPartsThatDoNotFit(t *testing.T) {
	for _, bytes := range []int64{192, Unsized, 0} {
		p := units(1, 2, 1, 0)
		p.Bytes[3] = bytes
		p.Steps = []Step{
			step(op.MatMul, []graph.ValueID{0, 0}, nil, 1),
			step(op.Split, []graph.ValueID{1}, &Slices{At: []int64{0, PartAlignment}}, 2, 3),
		}
		p.Outputs = []graph.ValueID{2, 3}
		tl, err := p.Simulate()
		require.NoError(t, err)
		require.Equal(t, graph.ValueID(3), tl.Root[3], "a part of %d bytes", bytes)
		require.Equal(t, graph.ValueID(1), tl.Root[2])
	}
}

// A part of what lies in a state's buffer keeps the next value out of it as long as it is read.
func TestPartsOfStates(t *testing.T) {
	type ids = []graph.ValueID
	for late, held := range map[bool]graph.ValueID{false: 0, true: graph.NoValue} {
		p := units(2, 1, 2, 1, 2, 1)
		p.Persistent[1], p.Outputs, p.States = true, ids{4, 5}, []State{{0, 4}}
		p.Steps = []Step{
			step(op.Neg, ids{0}, nil, 2),
			step(op.Slice, ids{2}, &Slices{At: []int64{PartAlignment}}, 3),
			step(op.Neg, ids{2}, nil, 4),
			step(op.MatMul, ids{3, 1}, nil, 5),
		}
		if !late {
			p.Steps[2], p.Steps[3] = p.Steps[3], p.Steps[2]
		}
		var sim Simulator
		_, err := sim.Run(p)
		require.NoError(t, err)
		clear(sim.s.share.declined)
		sim.s.begin(p)
		tl, err := sim.s.steps()
		require.NoError(t, err)
		_, err = (&bytemap{p: p, tl: tl}).run()
		require.NoError(t, err)
		require.Equal(t, ids{held, 0}, ids{tl.State[2], tl.State[4]})
		require.Equal(t, held, tl.State[3])
		require.Equal(t, int64(PartAlignment), tl.Start[3])
	}
}

// A step writes in place over a part that nobody needs any more, unless its result would keep the
// whole buffer alive.
func TestInPlaceOverParts(t *testing.T) {
	type ids = []graph.ValueID
	p := units(1, 2, 1, 1, 1, 1, 1, 1)
	p.Steps = []Step{
		step(op.MatMul, ids{0, 0}, nil, 1),
		step(op.Split, ids{1}, &Slices{At: []int64{0, PartAlignment}}, 2, 3),
		step(op.Neg, ids{2}, nil, 4), // over 2
		step(op.Neg, ids{4}, nil, 5), // lives on
		step(op.Neg, ids{3}, nil, 6),
		step(op.MatMul, ids{5, 6}, nil, 7),
	}
	tl, err := p.Simulate()
	require.NoError(t, err)
	require.Equal(t, ids{-1, 1, 1, 1, 1, 5, 6, 7}, tl.Root)
	require.Equal(t, []int64{0, 0, 0, PartAlignment, 0, 0, 0, 0}, tl.Start)
	require.Equal(t, Range{0, 5}, tl.Ranges[1])

	// Nor over one that is a graph output.
	p = units(1, 1, 1, 2, 1)
	p.Steps = []Step{
		step(op.MatMul, ids{0, 0}, nil, 1),
		step(op.MatMul, ids{0, 0}, nil, 2),
		step(op.Concat, ids{1, 2}, &Slices{Join: true, At: []int64{0, PartAlignment}}, 3),
		step(op.Mul, ids{1, 3}, nil, 4),
	}
	p.Outputs = ids{1, 4}
	tl, err = p.Simulate()
	require.NoError(t, err)
	require.Equal(t, ids{-1, 3, 3, 3, 4}, tl.Root)
}

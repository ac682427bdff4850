package executor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph"
	"memopt/graph/live"
)

// fusionCase is two neighbouring loops over n elements each, with values of several lengths that
// lie anywhere.
type fusionCase struct {
	f           *frame
	n           int
	early, late step
}

func drawFusion(t *rapid.T) *fusionCase {
	c := &fusionCase{n: rapid.IntRange(2, 6).Draw(t, "n"), f: &frame{}}
	f := c.f
	f.timeline = &live.Timeline{}
	value := func(kind string, lengths ...int) graph.ValueID {
		id := graph.ValueID(len(f.shapes))
		size := rapid.SampledFrom([]int64{4, 8}).Draw(t, kind+" element")
		length := rapid.SampledFrom(lengths).Draw(t, kind+" length")
		f.shapes = append(f.shapes, []int{1, length})
		f.bytes = append(f.bytes, size*int64(length))
		f.offsets = append(f.offsets,
			rapid.SampledFrom([]int64{-1, -1, 0, 4, 8, 16, 96, 192, 288}).Draw(t, kind+" offset"))
		root := id
		if kind == "input" && rapid.IntRange(0, 3).Draw(t, "weight") == 0 {
			root = graph.NoValue
		}
		state := graph.NoValue
		if rapid.IntRange(0, 3).Draw(t, "in a state's memory") == 0 {
			state, root = graph.ValueID(rapid.IntRange(0, 1).Draw(t, "state")), graph.NoValue
		}
		f.timeline.Root, f.timeline.State = append(f.timeline.Root, root), append(f.timeline.State, state)
		return id
	}
	make := func() *graph.Node {
		n := &graph.Node{
			Inputs:  []graph.ValueID{value("input", c.n, 1, 2*c.n), graph.NoValue},
			Outputs: []graph.ValueID{value("output", c.n), graph.NoValue},
		}
		if rapid.Bool().Draw(t, "second") {
			n.Outputs = append(n.Outputs, value("output", c.n, 1))
		}
		return n
	}
	c.early.node, c.late.node = make(), make()
	switch outs := c.early.node.Outputs; rapid.IntRange(0, 3).Draw(t, "reads") {
	case 0:
		c.late.node.Inputs[0] = outs[0]
	case 1:
		c.late.node.Inputs[0] = outs[len(outs)-1]
	case 2: // in place: the late output lies where something of the early step's does
		shared := rapid.SampledFrom([]graph.ValueID{c.early.node.Inputs[0], outs[0]}).Draw(t, "shared")
		f.timeline.Root[c.late.node.Outputs[0]] = f.timeline.Root[shared]
		f.timeline.State[c.late.node.Outputs[0]] = f.timeline.State[shared]
	}
	return c
}

// place is the bytes [from, to) that element i of a value takes; all of the value where it does not
// have n elements, since any of them may be touched for any i.
func (c *fusionCase) place(v graph.ValueID, i int) (block, from, to int64) {
	f, root := c.f, c.f.timeline.Root[v]
	if s := f.timeline.State[v]; s != graph.NoValue {
		block = -2 - int64(s)
	} else if off := f.offsets[root]; off >= 0 {
		block, from = -1, off
	} else {
		block = int64(root) // memory of its own
	}
	if n := f.shapes[v][1]; n == c.n {
		size := f.bytes[v] / int64(n)
		return block, from + int64(i)*size, from + int64(i+1)*size
	}
	return block, from, from + f.bytes[v]
}

// weight reports whether a value lies in memory that nobody writes.
func (c *fusionCase) weight(v graph.ValueID) bool {
	return c.f.timeline.Root[v] == graph.NoValue && c.f.timeline.State[v] == graph.NoValue
}

// safe says by definition whether the late loop may do element i as soon as the early one has done
// it, whatever the early one has done of the others: what it reads is there, and it writes nothing
// that the early one touches for another element.
func (c *fusionCase) safe() bool {
	touches := append(append([]graph.ValueID{}, c.early.node.Inputs...), c.early.node.Outputs...)
	for _, v := range c.early.node.Outputs {
		for _, in := range c.late.node.Inputs {
			if v != graph.NoValue && v == in && c.f.shapes[v][1] != c.n {
				return false
			}
		}
	}
	for _, w := range c.late.node.Outputs {
		for _, v := range touches {
			if w == graph.NoValue || v == graph.NoValue || c.weight(v) || c.weight(w) {
				continue
			}
			for i := range c.n {
				for j := range c.n {
					b1, from1, to1 := c.place(w, i)
					b2, from2, to2 := c.place(v, j)
					whole := c.f.shapes[v][1] != c.n || c.f.shapes[w][1] != c.n
					if (i != j || whole) && b1 == b2 && from1 < to2 && from2 < to1 {
						return false
					}
				}
			}
		}
	}
	return true
}

// TestIndependentLoops: loops are only joined where that is safe by definition; where values lie
// apart, or element on element, they are.
func TestIndependentLoops(t *testing.T) {
	joined, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := drawFusion(t)
		got := c.f.independent(&c.early, &c.late)
		if safe := c.safe(); !safe {
			refused++
			require.False(t, got, "joined, though it is not safe")
			return
		}
		if got {
			joined++
		}
	})
	require.Positive(t, joined)
	require.Positive(t, refused)
}

// TestApart: neighbours may touch but not overlap; the same place is no overlap where elements lie
// on elements.
func TestApart(t *testing.T) {
	f := &frame{shapes: [][]int{{4}, {4}, {8}, {4}},
		layout: layout{bytes: []int64{16, 16, 16, 32}, offsets: []int64{16, 0, 0, 0},
			timeline: &live.Timeline{Root: []graph.ValueID{0, 1, 2, 3}}}}
	at := func(offset int64) bool {
		f.offsets[1] = offset
		return f.apart(0, 1, 4)
	}
	require.True(t, at(0), "it ends where the other begins")
	require.False(t, at(1))
	require.False(t, at(15))
	require.True(t, at(16), "the same place")
	require.False(t, at(17))
	require.False(t, at(31))
	require.True(t, at(32), "it begins where the other ends")
	require.True(t, at(-1), "memory of its own")
	f.offsets[1] = 16
	require.False(t, f.apart(0, 1, 8), "the same place, written again for every other element")
	f.offsets[2], f.offsets[3] = 16, 16
	require.False(t, f.apart(0, 2, 4), "elements of another size")
	require.False(t, f.apart(2, 0, 4), "elements of another size")
	require.False(t, f.apart(0, 3, 4), "as many elements, of another size")
	f.timeline.Root[1], f.offsets[0] = 0, -1
	require.False(t, f.apart(0, 1, 4), "one block on demand")
	f.timeline.Root[1] = graph.NoValue
	require.True(t, f.apart(0, 1, 4), "inputs are not written")

	f.timeline.State = []graph.ValueID{0, 0, 0, 0}
	require.True(t, f.apart(0, 1, 4), "element on element in a state's memory")
	require.False(t, f.apart(0, 2, 4), "eight elements over four")
	f.timeline.State[1] = 1
	require.True(t, f.apart(0, 1, 4), "of two states")
}

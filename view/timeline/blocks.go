package timeline

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/recompute"
)

// kinds are the kinds of bytes by the simulation's names.
var kinds = [...]Kind{live.Gradient: Gradients, live.Activation: Activations, live.Temporary: Temporaries,
	live.Workspace: Workspaces, live.Inner: Subgraphs, live.Unfilled: Temporaries, live.Beside: Temporaries}

// blocks fills in the contents of the memory.
func (b *builder) blocks() {
	b.t.Blocks = make([]Block, len(b.history.Spans))
	for i := range b.history.Spans {
		s := &b.history.Spans[i]
		x := Block{Value: graph.NoValue, Kind: kinds[s.Kind], Bytes: s.Bytes, First: s.Start, Last: s.End - 1, Made: -1,
			Reader: -1, Buffer: -1, Unfilled: s.Kind == live.Unfilled}
		switch s.Kind {
		case live.Inner:
			x.Made = s.Start
			x.Name = fmt.Sprintf("subgraphs of %s", b.t.Steps[s.Start].Name)
		case live.Beside:
			x.Name = "beside clones"
		default:
			b.describe(&x, s)
		}
		b.t.Blocks[i] = x
	}
}

// describe fills in the facts about a value that lies in a buffer.
func (b *builder) describe(x *Block, s *live.Span) {
	x.Made, x.Reader = b.made[s.Value], b.reader[s.Value]
	x.Buffer, x.Lo = b.buffer[s.Root], s.Lo
	if x.Value = b.origin[s.Value]; x.Value == graph.NoValue {
		x.Name = fmt.Sprintf("workspace of %s", b.t.Steps[x.Made].Name)
		return
	}
	x.Name = recompute.CloneName(b.g.ValueName(x.Value), int(b.copies[s.Value]))
	if b.moved[x.Value] && (x.Kind == Activations || x.Kind == Temporaries && !x.Unfilled) {
		x.Kind = Moved
	}
}

// sum adds up the live bytes of each step.
func (b *builder) sum() {
	steps := b.t.Steps
	for i := range b.t.Blocks {
		x := &b.t.Blocks[i]
		if steps[x.First].Live[x.Kind] += x.Bytes; int(x.Last)+1 < len(steps) {
			steps[x.Last+1].Live[x.Kind] -= x.Bytes
		}
	}
	for i := 1; i < len(steps); i++ {
		for k := range steps[i].Live {
			steps[i].Live[k] += steps[i-1].Live[k]
		}
	}
}

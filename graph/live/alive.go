package live

import (
	"memopt/graph"
)

// Kind says as which of the Parts bytes count.
type Kind uint8

// The kinds of live bytes at a step besides persistent ones, as in Parts. Unfilled are bytes of a
// buffer that hold no value yet, and Beside are bytes outside all values (Program.Hidden): both
// count as temporaries there.
const (
	Gradient Kind = iota
	Activation
	Temporary
	Workspace
	Inner
	Unfilled
	Beside
)

var kindNames = [...]string{"gradient", "activation", "temporary", "workspace", "subgraph", "unfilled", "beside"}

// String returns the kind as reports name it.
func (k Kind) String() string { return kindNames[k] }

// Tenant is the value, or other content, of some live bytes.
type Tenant struct {
	// Value is the youngest value of the program that lies there; for Unfilled the root, for Inner and
	// Beside NoValue.
	Value graph.ValueID
	Root  graph.ValueID // whose buffer it is; NoValue for Inner and Beside
	Bytes int64
	Kind  Kind
}

// Alive returns the live bytes at a step of a simulated program, without persistent ones: by root in
// ascending order, and in a buffer by value from the youngest on. All tenants together are
// Timeline.Live of the step. The second result maps each value to the one that it shows through
// views. The arguments are those of Compose.
func Alive(g *graph.Graph, p *Program, t *Timeline, roles *Roles, backward []bool,
	step int) ([]Tenant, []graph.ValueID) {
	c := newComposer(g, p, t, roles, backward)
	c.classify()
	for i := range p.Steps[:step+1] {
		c.place(&p.Steps[i])
	}
	var out []Tenant
	at := int32(step)
	for v, root := range t.Root {
		if graph.ValueID(v) == root && t.Ranges[v].Start <= at && at < t.Ranges[v].End {
			out = c.tenants(out, root)
		}
	}
	if inner := p.Steps[step].Inner; inner > 0 {
		out = append(out, Tenant{graph.NoValue, graph.NoValue, inner, Inner})
	}
	if t.Hidden > 0 {
		out = append(out, Tenant{graph.NoValue, graph.NoValue, t.Hidden, Beside})
	}
	return out, c.source
}

// tenants appends the tenants of a root's buffer.
func (c *composer) tenants(out []Tenant, root graph.ValueID) []Tenant {
	first := len(out)
	c.buffer(root, func(v graph.ValueID, bytes int64) {
		kind := Unfilled
		if v == graph.NoValue {
			v = root
		} else {
			kind = c.kind[v].public()
		}
		for i := first; i < len(out); i++ {
			if out[i].Value == v && out[i].Kind == kind {
				out[i].Bytes += bytes
				return
			}
		}
		if bytes > 0 {
			out = append(out, Tenant{v, root, bytes, kind})
		}
	})
	return out
}

// public is the kind as which the bytes of a value count.
func (k valueKind) public() Kind {
	var parts Parts
	switch parts.live(k) {
	case &parts.Workspace:
		return Workspace
	case &parts.Gradients:
		return Gradient
	case &parts.Activations:
		return Activation
	}
	return Temporary
}

package timeline

import (
	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner/offload"
)

// Copy is a copy of a value between the memories of device and host.
type Copy struct {
	Value      graph.ValueID // of Timeline.Graph, that moves
	Out        bool          // to the host; else back
	Bytes      int64
	Begun      int32   // the step that begins it
	Wait       int32   // the first step that waits for it; -1 without one
	Start, End float64 // seconds since the first step began
}

// trackCopies lists the copies of the graph, in the order of the steps that begin them, and marks the values that they
// move.
func (b *builder) trackCopies() {
	t := b.t
	b.moved, t.copyOf = make([]bool, len(b.g.Values)), make([]int32, len(t.Steps))
	begun := map[graph.ValueID]int32{} // by output of a copy, or of a wait for it
	for i := range t.Steps {
		t.copyOf[i] = -1
		n := b.g.Nodes[t.Steps[i].Node]
		transfer := op.Of(n.Kind).Transfer
		if transfer == op.NoTransfer {
			continue
		}
		in, out := n.Inputs[0], n.Output(0)
		at, known := begun[in]
		if transfer == op.Awaits {
			if known {
				t.copyOf[i], begun[out] = at, at
				if c := &t.Copies[at]; c.Wait < 0 {
					c.Wait = int32(i)
				}
				b.moved[out] = true
			}
			continue
		}
		c := Copy{Value: in, Out: transfer == op.ToHost, Bytes: max(0, b.program.Bytes[out]), Begun: int32(i), Wait: -1}
		if known {
			c.Value = t.Copies[at].Value
		}
		b.moved[in], b.moved[out] = true, true
		t.copyOf[i], begun[out] = int32(len(t.Copies)), int32(len(t.Copies))
		t.Copies = append(t.Copies, c)
	}
}

// CopyOf is the place in Copies of the copy that a step begins or waits for; -1 for other steps.
func (t *Timeline) CopyOf(step int) int { return int(t.copyOf[step]) }

// Waits reports whether a step waits for a copy.
func (t *Timeline) Waits(step int) bool {
	return t.copyOf[step] >= 0 && t.Copies[t.copyOf[step]].Begun != int32(step)
}

// Over puts the copies on a link, one at a time each way beside the nodes, and makes steps wait for them: the seconds
// of a step that waits are those of waiting. Copies take no time where the link has no rate.
func (t *Timeline) Over(link offload.Link) {
	if len(t.Copies) == 0 {
		return
	}
	took := func(bytes int64) float64 {
		if link.BytesPerSecond == 0 {
			return 0
		}
		return link.Latency.Seconds() + float64(bytes)/link.BytesPerSecond
	}
	var now, out, in float64
	ends := map[graph.ValueID]float64{} // by value: when its newest copy has ended
	for i := range t.Steps {
		s := &t.Steps[i]
		s.Start = now
		if t.copyOf[i] < 0 {
			now += s.Seconds
			continue
		}
		c := &t.Copies[t.copyOf[i]]
		switch {
		case t.Waits(i):
			now = max(now, c.End)
		case c.Out:
			c.Start = max(now, out)
			out = c.Start + took(c.Bytes)
			c.End, ends[c.Value] = out, out
		default:
			c.Start = max(now, in, ends[c.Value])
			in = c.Start + took(c.Bytes)
			c.End = in
		}
		s.Seconds = now - s.Start
	}
}

// Host returns the bytes of copies on the host while each step runs; nil without copies.
func (t *Timeline) Host() []int64 {
	if t.Simulated.Host == nil {
		return nil
	}
	return t.Simulated.Host.Live
}

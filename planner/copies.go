package planner

import (
	"context"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner/arena"
	"memopt/planner/offload"
	"memopt/planner/place"
)

// Copies are the copies of a step between the memories of device and host (Offload, Reload), and its time with them.
type Copies struct {
	Out, In           int   // copies to the host, and back
	OutBytes, InBytes int64 // of a step
	Peak, Arena       int64 // bytes on the host at once, and of their layout there
	// Seconds is the time of a step over a link, Waited the part of it that waits for copies. Without a link, copies
	// take no time.
	Seconds, Waited float64
}

// Copies returns the copies of a plan's graph over a link; nil where it has none, or sizes are not known.
func (p *Plan) Copies(ctx context.Context, link offload.Link) (*Copies, error) {
	if p.Planned == nil || p.Planned.Host == nil {
		return nil, nil
	}
	memory := place.Memory{Workspace: p.Options.Workspace, CloneBytes: p.Options.CloneBytes}
	trial, err := place.NewEvaluator(p.Analysis, p.Sizes, memory).Simulate(p.Placements)
	if err != nil {
		return nil, err
	}
	host := trial.Timeline.Host
	c := &Copies{Peak: host.Peak.Bytes, Arena: arena.NewLayout(ctx, host, trial.Program.Bytes).Bytes}
	took := func(bytes int64) float64 {
		if link.BytesPerSecond == 0 {
			return 0
		}
		return link.Latency.Seconds() + float64(bytes)/link.BytesPerSecond
	}
	var out, in float64 // when the newest copy of each direction ends
	ends := map[graph.ValueID]float64{}
	for i := range trial.Program.Steps {
		s := &trial.Program.Steps[i]
		from := s.Input(0)
		switch op.Of(s.Kind).Transfer {
		case op.ToHost:
			bytes := max(trial.Program.Bytes[from], 0)
			c.Out, c.OutBytes = c.Out+1, c.OutBytes+bytes
			out = max(out, c.Seconds) + took(bytes)
			ends[s.Output0()] = out
		case op.FromHost:
			bytes := max(trial.Program.Bytes[s.Output0()], 0)
			c.In, c.InBytes = c.In+1, c.InBytes+bytes
			in = max(in, c.Seconds) + took(bytes)
			ends[s.Output0()] = in
		case op.Awaits:
			if end := ends[from]; end > c.Seconds {
				c.Waited, c.Seconds = c.Waited+end-c.Seconds, end
			}
		default:
			c.Seconds += p.costs.seconds[s.Node]
		}
	}
	return c, nil
}

package check

import (
	"fmt"
	"strconv"

	"memopt/check/streams"
)

// The streams of a schedule: computes, copies to the host, copies from it.
const compute, out, in = 0, 1, 2

// replay follows the steps of a schedule.
type replay struct {
	*instance
	answer    *answer
	report    *Report
	at        int // the step, or -1
	bytes     float64
	hostBytes []float64 // by step: how much more the host holds from then on
	moved     float64   // bytes that were copied to the host
	ordered   bool      // first computes, views aside, have kept the order
	last      int       // of these
	clock     [3]float64
	order     *streams.Order
}

// fault notes a fault of the step at hand, or of the whole plan.
func (p *replay) fault(kind string, of id, args ...any) {
	f := Fault{Kind: kind, Value: string(of), Message: fmt.Sprintf(messages[kind], args...)}
	if at := p.at; at >= 0 {
		f.Step = &at
	}
	if of != "" {
		f.Message = string(of) + " " + f.Message
	}
	if text, err := strconv.Unquote(f.Value); err == nil {
		f.Value = text
	}
	p.report.Faults = append(p.report.Faults, f)
}

// run follows all steps, then compares the plan's numbers where no step is wrong.
func (p *replay) run() {
	r, l := p.report, p.answer.Link
	for p.at = range p.answer.Steps {
		p.step(&p.answer.Steps[p.at])
		if r.Peak = max(r.Peak, p.bytes); len(r.Faults) >= mostFaults {
			return
		}
	}
	for u := range p.values {
		p.giveUp(&p.values[u], len(p.answer.Steps))
	}
	p.at = -1
	for v := range p.Nodes {
		if p.Nodes[v].runs == 0 {
			p.fault("never-computed", p.Nodes[v].ID)
		}
	}
	if l != nil && (!(l.Rate > 0) || !(l.Latency >= 0) || units[p.Unit] == 0) {
		p.fault("wrong-link", "", l.Rate, l.Latency)
	}
	if len(r.Faults) == 0 {
		r.Proved = append(r.Proved, "steps", "copies")
		p.compare()
	}
	if r.Valid = len(r.Faults) == 0; r.Valid {
		r.Proved = append(r.Proved, "numbers")
	}
}

// units is by unit of costs how many are in a second.
var units = map[string]float64{"us": 1e6, "ms": 1e3}

func (p *replay) step(s *step) {
	verb, name := -1, id("")
	for i, of := range []*id{s.Compute, s.Free, s.Offload, s.Reload, s.Wait} {
		if of != nil && verb >= 0 {
			p.fault("unknown", *of)
			return
		} else if of != nil {
			verb, name = i, p.key(*of)
		}
	}
	if v, ok := p.nodeOf[name]; ok && verb == 0 {
		p.compute(&p.Nodes[v], v, string(s.Seed))
	} else if u, ok := p.valueOf[name]; ok && u >= 0 && verb > 0 {
		[]func(*value){nil, p.free, p.offload, p.reload, p.wait}[verb](&p.values[u])
	} else {
		p.fault("unknown", name)
	}
}

func (p *replay) compute(n *node, v int, seed string) {
	p.order.Next(compute)
	for _, u := range n.in {
		p.use(&p.values[u], "the compute of "+string(n.ID))
	}
	switch {
	case n.runs == 0 && !n.view:
		p.ordered, p.last = p.ordered && v > p.last, v
	case n.runs > 0 && n.Recompute != nil && !*n.Recompute:
		p.fault("computed-twice", n.ID)
	}
	if n.runs > 0 && seed != n.seed {
		p.fault("other-seed", n.ID, seed, n.seed)
	}
	extra, fresh := n.Workspace, len(n.out) == 0
	for _, u := range n.out {
		x := &p.values[u]
		if x.live && !x.Keep {
			p.fault("computed-live", n.ID, x.ID)
		}
		if fresh = fresh || !x.live || !x.Keep; x.live {
			extra += x.Size
			continue
		}
		p.giveUp(x, p.at)
		x.live, x.made, x.host, x.memory = true, true, false, p.order.Fresh(compute)
		if p.bytes += x.Size; x.base != u {
			p.values[x.base].views++
		}
	}
	if !fresh {
		p.fault("computed-live", n.ID, "every output")
	}
	n.runs, n.seed = n.runs+1, seed
	p.clock[compute] += n.Cost
	p.report.Cost += n.Cost
	p.report.Peak = max(p.report.Peak, p.bytes+extra)
}

// use tells whether a stream may read x on the device, and that it does.
func (p *replay) use(x *value, by string) bool {
	stream, root := compute, &p.values[x.root]
	if by == "its offload" {
		stream = out
	}
	kind := "freed"
	switch {
	case x.live && p.order.Read(stream, &root.memory):
		return true
	case x.live:
		kind = "coming-in"
	case !x.made:
		kind = "not-made"
	case root.host:
		kind = "not-reloaded"
	}
	p.fault(kind, x.ID, by)
	return x.live
}

func (p *replay) free(x *value) {
	p.order.Next(compute)
	view := &p.values[x.base] != x
	switch {
	case !x.live:
		p.fault("freed-twice", x.ID)
		return
	case x.Keep:
		p.fault("freed-kept", x.ID)
	case x.views > 0:
		p.fault("view-of-freed", x.ID)
	case !view && !p.order.Written(compute, &x.memory):
		p.fault("coming-in", x.ID, "its free")
	case !view && !p.order.Unread(compute, &x.memory):
		p.fault("going-out", x.ID)
	}
	if p.bytes, x.live = p.bytes-x.Size, false; view {
		p.values[x.base].views--
	}
}

// copy queues a copy of x on a stream, not before a time.
func (p *replay) copy(x *value, stream int, after float64) {
	l := p.answer.Link
	p.clock[stream] = max(p.clock[stream], p.clock[compute], after) + (l.Latency/1e6+x.Size/l.Rate)*units[p.Unit]
	x.newest, x.end, x.in = p.order.Now(stream), p.clock[stream], stream == in
}

// movable tells whether x may be moved, and puts a stream behind the computes so far.
func (p *replay) movable(x *value, stream int) bool {
	if x.still || &p.values[x.base] != x || p.answer.Link == nil {
		p.fault("not-movable", x.ID)
		return false
	}
	p.order.Join(stream, p.order.Now(compute))
	p.order.Next(stream)
	return true
}

func (p *replay) offload(x *value) {
	if !p.movable(x, out) || !p.use(x, "its offload") {
		return
	}
	p.giveUp(x, p.at)
	p.copy(x, out, 0)
	p.moved += x.Size
	x.host, x.written, x.outEnd, x.from, x.until = true, x.newest, x.end, p.at, -1
}

func (p *replay) reload(x *value) {
	switch {
	case !p.movable(x, in):
	case x.live:
		p.fault("reload-live", x.ID)
	case !x.host:
		p.fault("no-host-copy", x.ID)
	default:
		p.order.Join(in, x.written)
		p.copy(x, in, x.outEnd)
		p.bytes, x.live, x.memory, x.until = p.bytes+x.Size, true, p.order.Fresh(in), -1
	}
}

func (p *replay) wait(x *value) {
	if x.newest == nil {
		p.fault("no-copy", x.ID)
		return
	}
	p.order.Next(compute)
	p.order.Join(compute, x.newest)
	if p.clock[compute] = max(p.clock[compute], x.end); x.in && x.until < 0 {
		x.until = p.at
	}
}

// giveUp counts the bytes of a host copy until its last reload has been waited for, or up to a step.
func (p *replay) giveUp(x *value, at int) {
	if x.host {
		if x.until < 0 {
			x.until = at
		}
		p.hostBytes[x.from] += x.Size
		p.hostBytes[x.until] -= x.Size
	}
}

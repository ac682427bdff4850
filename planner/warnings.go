package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/graph/op"
)

// warn adds the caveats of a plan.
func (m *maker) warn(p *Plan, c *choice) {
	p.Warnings = append(slices.Clone(m.analysis.Warnings), c.warnings...)
	if m.demands != nil {
		p.Warnings = append(p.Warnings, m.demands.warnings...)
	}
	if p.Rewritten {
		p.warnf("memopt has already rewritten this graph: its clones count as backward nodes, and " +
			"this plan adds to the earlier one")
	}
	p.warnUnknown()
	p.warnUnmeasured()
	if p.Planned == nil {
		return
	}
	if (len(c.sel.chosen) > 0 || len(m.evaluator.Forced) > 0) && p.Planned.Peak.Bytes >= p.Baseline().Base.Peak.Bytes {
		p.warnf("the selection does not lower the peak: %d bytes before, %d after; recomputation "+
			"only costs time", p.Baseline().Base.Peak.Bytes, p.Planned.Peak.Bytes)
	}
	if f, ok := p.Options.Strategy.(*PlanFile); ok {
		f.brokenPromise(p)
	}
	p.warnCopied()
	if n := len(p.Base.Unsized); n > 0 {
		p.warnf("%d values (the first is %q) have a size that depends on data or is unknown, and "+
			"count as 0 bytes", n, p.Analysis.Graph.Values[p.Base.Unsized[0]].Name)
	}
}

// warnCopied names the states whose next values cannot be written in place.
func (p *Plan) warnCopied() {
	copied, bytes := p.Planned.Copied, int64(0)
	for _, s := range copied {
		bytes += max(p.Sizes.Bytes[s.Out], 0)
	}
	if bytes > 0 {
		g := p.Analysis.Graph
		p.warnf("%d of %d states take %d bytes beside their inputs to the end of a step, where they are "+
			"copied: the old value is needed when the next one is made%s; the first is %q, whose next value "+
			"is %q", len(copied), len(p.Sizes.States), bytes, p.mayFail(), g.ValueName(copied[0].In),
			g.ValueName(copied[0].Out))
	}
}

// mayFail names the last backward node that the data of a step can make fail, as a reason why next
// values are not written in place; "" if there is no such node.
func (p *Plan) mayFail() string {
	for _, id := range slices.Backward(p.Analysis.Order) {
		if p.Analysis.Backward[id] && p.Sizes.Failures[id] != op.NeverFails {
			return fmt.Sprintf(", or a node that runs later can fail because of the data, and must find the old one; "+
				"the last such node is %q (%s)", p.Analysis.Graph.NodeLabel(id), p.Analysis.Graph.Nodes[id].Op)
		}
	}
	return ""
}

func (p *Plan) warnf(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// warnUnknown names the operators that memopt does not know.
func (p *Plan) warnUnknown() {
	names := map[string]bool{}
	for _, id := range p.Types.NoRow {
		n := p.Analysis.Graph.Nodes[id]
		names[cmp.Or(n.Domain, "ai.onnx")+"."+n.Op] = true
	}
	if len(names) > 0 {
		p.warnf("%d nodes have operators that memopt does not know; their outputs have the types that "+
			"the file states and are never recomputed: %s", len(p.Types.NoRow),
			strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
}

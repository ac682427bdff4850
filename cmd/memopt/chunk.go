package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/recompute"
)

// chunkModes are the values of --chunk.
var chunkModes = []string{string(chunk.Exact), string(chunk.Fast), string(chunk.Off)}

// registerChunk adds --chunk.
func registerChunk(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "chunk", string(chunk.Exact),
		"how a plan to a budget may compute regions of the graph in parts, one after the other: "+
			"exact, so that every number keeps its bits; fast, sums of parts may differ by rounding; "+
			"off, not at all")
}

// chunkMode reads the value of --chunk.
func chunkMode(text string) (chunk.Mode, error) {
	switch mode := chunk.Mode(text); mode {
	case chunk.Exact, chunk.Fast, chunk.Off:
		return mode, nil
	}
	return "", usage("--chunk %q: wanted exact, fast or off", text)
}

// mode is that of a plan to a budget. Where no region can be in parts it warns those who asked.
func (b *budgetFlags) mode(a *app, limit *planner.Budget) chunk.Mode {
	mode := chunk.Mode(b.chunk)
	why := ""
	switch {
	case limit.Clusters:
		why = "with --select clusters: a configuration of ONNX Runtime cannot express it"
	case len(limit.StashLimits) > 0:
		why = "with --budget-for: what nodes stash is limited for the graph as it is"
	default:
		return mode
	}
	if mode != chunk.Off {
		b.warnIdle(a, why, "chunk")
	}
	return chunk.Off
}

// cutsOf returns the chunked regions that memopt has recorded in files; nil means that it recorded no region.
func cutsOf(files ...*memopt.Model) *planner.Cuts {
	var all planner.Cuts
	for _, m := range files {
		if r := recompute.RecordOf(m.Model); r != nil {
			all.List = append(all.List, planner.ReadCuts(r.InParts())...)
		}
	}
	if all.List == nil {
		return nil
	}
	return &all
}

// sizeIn returns the value of a symbol when memopt chunked regions of a file; ok is false
// of other files, and other symbols.
func sizeIn(m *memopt.Model, symbol string) (n int64, ok bool) {
	if r := recompute.RecordOf(m.Model); r != nil && len(r.InParts()) > 0 {
		n, ok = r.Dims[symbol]
	}
	return n, ok
}

// otherSize says of a binding that a file with regions in parts does not hold for it; "" of others.
func otherSize(files []*memopt.Model, b binding) string {
	for _, m := range files {
		if n, ok := sizeIn(m, b.symbol); ok {
			return fmt.Sprintf("; its regions in parts hold for %.80s=%d alone: apply the plan anew to the model as "+
				"it was", b.symbol, n)
		}
	}
	return ""
}

// sameSize reports whether a binding is the size that a file with regions in parts holds for.
func sameSize(files []*memopt.Model, b binding) bool {
	return !b.ranged && slices.ContainsFunc(files, func(m *memopt.Model) bool {
		n, ok := sizeIn(m, b.symbol)
		return ok && n == b.value
	})
}

// agrees reports whether what a plan file computes in parts is what --chunk allows, where that was
// given.
func (b *budgetFlags) agrees(s memopt.Strategy, file string) error {
	mode, err := chunkMode(b.chunk)
	p, ok := s.(*planner.PlanFile)
	if err != nil || !ok || p.Cuts == nil || !b.set.Changed("chunk") {
		return err
	}
	for _, c := range p.Cuts.List {
		switch {
		case mode == chunk.Off:
			return usage("--chunk off: %s computes %s in parts (region %q); leave --chunk out, or plan anew "+
				"with --budget", file, plural(len(p.Cuts.List), "a region", "regions"), c.Region)
		case mode == chunk.Exact && !c.Exact:
			return usage("--chunk exact: region %q of %s has other bits in parts; wanted exact ones: use "+
				"--chunk fast, or plan anew with --budget", c.Region, file)
		}
	}
	return nil
}

// drawnInParts counts the random nodes that draw for a part of another one.
func drawnInParts(g *graph.Graph) (n int) {
	for _, node := range g.Nodes {
		if _, ok, err := op.DrawsOf(node); ok && err == nil {
			n++
		}
	}
	return n
}

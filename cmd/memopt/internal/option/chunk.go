package option

import (
	"github.com/spf13/pflag"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/planner"
	"memopt/planner/chunk"
)

// ChunkModes are the values of --chunk.
var ChunkModes = []string{string(chunk.Exact), string(chunk.Fast), string(chunk.Off)}

// RegisterChunk adds --chunk.
func RegisterChunk(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "chunk", string(chunk.Exact),
		"how a plan to a budget may compute regions of the graph in parts, one after the other: "+
			"exact, so that every number keeps its bits; fast, sums of parts may differ by rounding; "+
			"off, not at all")
}

// ChunkMode reads the value of --chunk.
func ChunkMode(text string) (chunk.Mode, error) {
	switch mode := chunk.Mode(text); mode {
	case chunk.Exact, chunk.Fast, chunk.Off:
		return mode, nil
	}
	return "", cli.Usage("--chunk %q: wanted exact, fast or off", text)
}

// Mode is that of a plan to a budget. Where no region can be in parts it warns those who asked.
func (b *BudgetFlags) Mode(a *cli.App, limit *planner.Budget) chunk.Mode {
	mode := chunk.Mode(b.chunk)
	why := ""
	switch {
	case limit.Clusters:
		why = "with --select clusters: a configuration of ONNX Runtime cannot express it"
	case limit.ORTModule:
		why = "in ORTModule, whose memory for regions in parts is not known"
	case len(limit.StashLimits) > 0:
		why = "with --budget-for: the stashes of nodes are limited for the graph as it is"
	default:
		return mode
	}
	if mode != chunk.Off {
		b.warnIdle(a, why, "chunk")
	}
	return chunk.Off
}

// agrees reports whether --chunk, where it was given, allows the regions in parts of a plan file.
func (b *BudgetFlags) agrees(s memopt.Strategy, file string) error {
	mode, err := ChunkMode(b.chunk)
	p, ok := s.(*planner.PlanFile)
	if err != nil || !ok || p.Cuts == nil || !b.set.Changed("chunk") {
		return err
	}
	for _, c := range p.Cuts.List {
		switch {
		case mode == chunk.Off:
			return cli.Usage("--chunk off: %s computes %s in parts (region %q); leave --chunk out, or plan anew "+
				"with --budget", file, cli.Plural(len(p.Cuts.List), "a region", "regions"), c.Region)
		case mode == chunk.Exact && !c.Exact:
			return cli.Usage("--chunk exact: region %q of %s has other bits in parts; wanted exact ones: use "+
				"--chunk fast, or plan anew with --budget", c.Region, file)
		}
	}
	return nil
}

package main

import (
	"github.com/spf13/pflag"

	"memopt/fission"
	"memopt/planner"
)

// chunkModes are the values of --chunk.
var chunkModes = []string{string(fission.Exact), string(fission.Fast), string(fission.Off)}

// registerChunk adds --chunk.
func registerChunk(f *pflag.FlagSet, to *string, without fission.Mode) {
	f.StringVar(to, "chunk", string(without),
		"how a plan to a budget may compute regions of the graph in parts, one after the other: "+
			"exact, so that every number keeps its bits; fast, sums of parts may differ by rounding; "+
			"off, not at all")
}

// chunkMode reads the value of --chunk.
func chunkMode(text string) (fission.Mode, error) {
	switch mode := fission.Mode(text); mode {
	case fission.Exact, fission.Fast, fission.Off:
		return mode, nil
	}
	return "", usage("--chunk %q: wanted exact, fast or off", text)
}

// mode is that of a plan to a budget. Where no region can be in parts it warns those who asked.
func (b *budgetFlags) mode(a *app, limit *planner.Budget) fission.Mode {
	mode := fission.Mode(b.chunk)
	why := ""
	switch {
	case limit.Clusters:
		why = "with --select clusters: a configuration of ONNX Runtime cannot express it"
	case limit.Runtime:
		why = "with --budget-in ort: the arena of stock ONNX Runtime is planned without regions in parts"
	case len(limit.StashLimits) > 0:
		why = "with --budget-for: what nodes stash is limited for the graph as it is"
	default:
		return mode
	}
	if mode != fission.Off {
		b.warnIdle(a, why, "chunk")
	}
	return fission.Off
}

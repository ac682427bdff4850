package planner_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner"
	"memopt/recompute"
)

// TestData runs testdata/place.txt: a graph in ONNX's textual syntax goes in, the plan comes out:
// placements, live bytes of every step before and after, clusters and warnings.
//
//	plan [level=L] [config=(entry,…)] [probe=L:B]
func TestData(t *testing.T) {
	datadriven.RunTest(t, "testdata/place.txt", func(t *testing.T, d *datadriven.TestData) string {
		m, err := graph.Parse(d.Input, "test")
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		types, err := op.Infer(m)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		p, err := planner.Make(m, types, options(t, d))
		if err != nil {
			return err.Error() + "\n"
		}
		checkPlan(t, p, 0)
		return printPlan(p)
	})
}

func options(t *testing.T, d *datadriven.TestData) planner.Options {
	opts := planner.Options{RowPeaks: true}
	var config planner.Config
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "level":
			n, err := strconv.Atoi(a.Vals[0])
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			opts.Strategy = planner.Level(n)
		case "probe":
			probe, err := recompute.ParseProbe(a.Vals[0])
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			opts.Probe = &probe
		case "config":
			for _, v := range a.Vals {
				parts := strings.Split(v, ":")
				strategy, _ := strconv.Atoi(parts[1])
				count, _ := strconv.Atoi(parts[2])
				config = append(config,
					planner.ConfigEntry{Cluster: recompute.ClusterID(parts[0]), Strategy: recompute.Strategy(strategy),
						Count: count})
			}
		}
	}
	if opts.Level() == planner.UserSpecified {
		opts.Strategy = config
	}
	return opts
}

func printPlan(p *planner.Plan) string {
	var b strings.Builder
	g := p.Analysis.Graph
	for _, c := range p.Clusters {
		fmt.Fprintf(&b, "cluster %s frequency %d saves %d drops %d applied %d\n", c.Config, c.Frequency, c.SavingBytes,
			c.PeakDrop, c.Applied)
	}
	for _, pl := range p.Placements {
		names := make([]string, len(pl.Nodes))
		for i, id := range pl.Nodes {
			names[i] = g.NodeLabel(id)
		}
		fmt.Fprintf(&b, "copy %d of %s before %s: %s; %s\n", pl.Copy, g.Values[pl.Value].Name, g.NodeLabel(pl.Before),
			strings.Join(names, " "), pl.Reason)
	}
	fmt.Fprintf(&b, "baseline %d at %s: %v\n", p.Base.Peak.Bytes, g.NodeLabel(p.Base.Peak.Node), p.Base.Live)
	fmt.Fprintf(&b, "planned %d at %s: %v\n", p.Planned.Peak.Bytes, g.NodeLabel(p.Planned.Peak.Node), p.Planned.Live)
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	return b.String()
}

package planfile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/check/planfile"
	"memopt/configs"
	"memopt/graph/examples"
	"memopt/recompute"
)

// planned is a model and a plan file for it.
type planned struct {
	name  string
	model *memopt.Model
	file  []byte
}

// plans are those of the built-in models by levels and budgets.
func plans(t *testing.T) []planned {
	var all []planned
	for _, e := range examples.All() {
		for _, c := range []struct {
			name     string
			strategy memopt.Strategy
		}{{"nothing", nil}, {"level 1", memopt.Level(1)}, {"level 2", memopt.Level(2)},
			{"70 %", memopt.Budget{Share: 0.7}}} {
			dims := map[string]int64{}
			m, err := memopt.Example(e.Name, memopt.Options{})
			require.NoError(t, err)
			for _, s := range m.Symbols() {
				dims[s] = 8
			}
			m, err = memopt.Example(e.Name, memopt.Options{Dims: dims})
			require.NoError(t, err)
			p, err := m.Plan(context.Background(), c.strategy, memopt.PlanOptions{})
			if err != nil {
				continue // no plan to the budget
			}
			file, err := p.File(0)
			require.NoError(t, err)
			all = append(all, planned{fmt.Sprintf("%s, %s", e.Name, c.name), m, file})
		}
	}
	return all
}

func (p *planned) record(t *testing.T) *recompute.Record {
	r, err := configs.ParsePlan(p.file, p.name)
	require.NoError(t, err)
	return r
}

// TestValid: no alarm over plans of the planner.
func TestValid(t *testing.T) {
	cloned := 0
	for _, p := range plans(t) {
		r, _, err := planfile.Check(p.model.Model, p.model.StructureSHA256, p.model.Dims, p.record(t))
		require.NoError(t, err, p.name)
		require.Empty(t, r.Faults, p.name)
		require.Equal(t, []string{"steps", "numbers"}, r.Proved, p.name)
		if r.Steps > len(p.model.Graph.Nodes) {
			cloned++
		}
	}
	require.Greater(t, cloned, 5)
}

// TestFaults: each edit of a plan file is found, by its kind.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		kind string
		edit func(r *recompute.Record) bool
	}{
		{"wrong-peak", func(r *recompute.Record) bool { r.Predicted.PlannedBytes--; return true }},
		{"wrong-peak", func(r *recompute.Record) bool { r.Predicted.BaselineBytes++; return true }},
		{"wrong-peak", func(r *recompute.Record) bool { r.Predicted.TotalBytes--; return true }},
		{"wrong-peak", func(r *recompute.Record) bool {
			r.Predicted.ArenaBytes -= 1 << 30
			r.Predicted.TotalBytes -= 1 << 30
			return true
		}},
		{"wrong-cost", func(r *recompute.Record) bool { r.Recompute.Nodes++; return true }},
		{"wrong-bound", func(r *recompute.Record) bool {
			r.Bound = map[string]any{"overhead_lower_bound": 2 + r.Recompute.Overhead}
			return true
		}},
		{"wrong-bound", func(r *recompute.Record) bool { r.Predicted.LowerBoundBytes = 1 << 50; return true }},
		{"wrong-order", func(r *recompute.Record) bool { slices.Reverse(r.Order); return true }},
		{"wrong-order", func(r *recompute.Record) bool { r.Order = r.Order[1:]; return true }},
		{"unknown", func(r *recompute.Record) bool {
			if len(r.Placements) > 0 {
				r.Placements[0].Before = "no such node"
			}
			return len(r.Placements) > 0
		}},
		{"not-made", func(r *recompute.Record) bool {
			for i := range r.Placements {
				if p := &r.Placements[i]; len(p.Nodes) > 1 {
					p.Before = p.Nodes[0] // a forward node
					return true
				}
			}
			return false
		}},
		{"wrong-cost", func(r *recompute.Record) bool {
			if len(r.Placements) == 0 {
				return false
			}
			r.Placements = nil
			return true
		}},
	} {
		count := 0
		for _, p := range plans(t)[:8] {
			r := p.record(t)
			if r.Predicted == nil || r.Recompute == nil || !c.edit(r) {
				continue
			}
			got, _, err := planfile.Check(p.model.Model, p.model.StructureSHA256, p.model.Dims, r)
			require.NoError(t, err, p.name)
			require.False(t, got.Valid, "%s: %s", c.kind, p.name)
			require.Equal(t, c.kind, got.Faults[0].Kind, "%s: %v", p.name, got.Faults)
			count++
		}
		require.Positive(t, count, c.kind)
	}
	var r recompute.Record
	p := plans(t)[0]
	require.NoError(t, json.Unmarshal(p.file, &r))
	_, _, err := planfile.Check(p.model.Model, "another", p.model.Dims, &r)
	require.ErrorIs(t, err, planfile.ErrOther)
}

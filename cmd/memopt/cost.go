package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt"
	"memopt/configs"
	"memopt/planner"
)

// resolveCosts reads the costs of recomputation: a device profile, and measured times if there are
// any. The default device is the one that executes, or that the times were measured on.
func (s *selectionFlags) resolveCosts(a *app, c *chosen, l *memopt.Model, how planning) error {
	if how.bare {
		return nil // two models are compared, without a plan
	}
	device := s.device
	if device == "" && how.executes {
		device = cpuDevice
	}
	if s.cost != "" {
		t, err := configs.LoadTrace(s.cost)
		if err != nil {
			return usage("--cost %w", err)
		}
		if c.options.Costs, _, err = t.Costs(l.Graph); err != nil {
			return usage("--cost %w", err)
		}
		c.options.CostSource = planner.MeasuredPrefix + s.cost
		s.warnStale(a, t, l)
		if device == "" && t.About.Backend == cpuDevice {
			device = cpuDevice
		}
	}
	if device == "" {
		return nil
	}
	var err error
	if c.options.Profile, err = configs.LoadDevice(device); err != nil {
		return usage("--device %w", err)
	}
	return nil
}

// cpuDevice is the profile of the backend of the same name.
const cpuDevice = "cpu"

// warnStale warns if a trace is of another model or of other dims than the plan.
func (s *selectionFlags) warnStale(a *app, t *configs.Trace, l *memopt.Model) {
	about := &t.About
	if about.StructureSHA256 != "" && about.StructureSHA256 != l.StructureSHA256 {
		a.warn("%s: was measured on a model with structure_sha256 %.12s…, this one has %.12s…: "+
			"only the times of nodes with the same name and operator are used",
			s.cost, about.StructureSHA256, l.StructureSHA256)
	}
	dims := map[string]int64(l.Dims)
	if about.Schema != "" && !maps.Equal(about.Dims, dims) {
		a.warn("%s: was measured with %s, but this plan is for %s: its times may be off in "+
			"proportion",
			s.cost, dimText(about.Dims), dimText(dims))
	}
	if about.Backend == "null" {
		a.warn("%s: was measured on the null device, which computes nothing", s.cost)
	}
}

// dimText writes bindings as --dim has them.
func dimText(dims map[string]int64) string {
	if len(dims) == 0 {
		return "no dims"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, dims[name]))
	}
	return strings.Join(parts, ",")
}

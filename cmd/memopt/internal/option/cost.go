package option

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/configs"
	"memopt/planner"
)

// resolveCosts reads the costs of recomputation: a device profile, and measured times if there are
// any. The default device is the one that executes, or that the times were measured on.
func (s *SelectionFlags) resolveCosts(a *cli.App, c *Chosen, l *memopt.Model, how Planning) error {
	if how.Bare {
		return nil // two models are compared, without a plan
	}
	device := s.Device
	if device == "" && how.Executes {
		device = CpuDevice
	}
	if s.cost != "" {
		t, err := configs.LoadTrace(s.cost)
		if err != nil {
			return cli.Usage("--cost %w", err)
		}
		if c.Options.Costs, _, err = t.Costs(l.Graph); err != nil {
			return cli.Usage("--cost %w", err)
		}
		c.Options.CostSource = planner.MeasuredPrefix + s.cost
		s.warnStale(a, t, l)
		if device == "" && t.About.Backend == CpuDevice {
			device = CpuDevice
		}
	}
	if device == "" {
		return nil
	}
	var err error
	if c.Options.Profile, err = configs.LoadDevice(device); err != nil {
		return cli.Usage("--device %w", err)
	}
	return nil
}

// CpuDevice is the profile of the backend of the same name.
const CpuDevice = "cpu"

// warnStale warns if a trace is of another model or of other dims than the plan.
func (s *SelectionFlags) warnStale(a *cli.App, t *configs.Trace, l *memopt.Model) {
	about := &t.About
	if about.StructureSHA256 != "" && about.StructureSHA256 != l.StructureSHA256 {
		a.Warn("%s: was measured on a model with structure_sha256 %.12s…, this one has %.12s…: "+
			"only the times of nodes with the same name and operator are used",
			s.cost, about.StructureSHA256, l.StructureSHA256)
	}
	dims := map[string]int64(l.Dims)
	if about.Schema != "" && !maps.Equal(about.Dims, dims) {
		a.Warn("%s: was measured with %s, but this plan is for %s: its times may be off in "+
			"proportion",
			s.cost, dimText(about.Dims), dimText(dims))
	}
	if about.Backend == "null" {
		a.Warn("%s: was measured on the null device, which does not compute", s.cost)
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

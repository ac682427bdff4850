package main

import (
	"github.com/spf13/pflag"

	"memopt/configs"
	"memopt/planner"
	"memopt/recompute"
)

// selectionFlags are the flags that choose what is recomputed.
type selectionFlags struct {
	level  string
	config string
	probe  string
	plan   string
	order  string
	bare   bool // no selection, whatever ORTModule's variables say: of two models that are compared
}

func (s *selectionFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.level, "level", "", "0: what the configuration lists (default), 1: every cluster, layer by layer, 2: with compromises")
	f.StringVar(&s.config, "config", "", "ONNX Runtime configuration, a JSON array of \"ClusterID:Strategy:Count\"; for level 0")
	f.StringVar(&s.probe, "probe", "", "how far to search, LEVEL:LAYERS; default 1:0 at level 0, else 1:1")
	f.StringVar(&s.plan, "plan", "", "use the placements of a plan.json")
	f.StringVar(&s.order, "order", "auto", "order of execution: auto, file or ort")
}

// chosen is a selection with where it came from.
type chosen struct {
	options    planner.Options
	configPath string
}

// resolve makes planner options of the flags and of ORTModule's variables.
func (s *selectionFlags) resolve(a *app, l *loaded) (*chosen, error) {
	c := &chosen{options: planner.Options{Dims: l.dims, Order: planner.OrderChoice(s.order)}}
	if s.probe != "" {
		probe, err := recompute.ParseProbe(s.probe)
		if err != nil {
			return nil, usage("--probe: %w", err)
		}
		c.options.Probe = &probe
	}
	if s.plan != "" {
		return c, s.usePlan(c, l)
	}
	if s.bare {
		return c, nil
	}
	if err := s.resolveLevel(a, c); err != nil {
		return nil, err
	}
	return c, s.resolveConfig(a, c)
}

func (s *selectionFlags) resolveLevel(a *app, c *chosen) error {
	text, where := s.level, "--level"
	if text == "" && s.config == "" { // a configuration on the command line is meant to be used
		text, _ = a.env(configs.LevelVariable)
		where = configs.LevelVariable
	}
	if text == "" {
		return nil
	}
	level, err := configs.ParseLevel(text, where)
	if err != nil {
		return usage("%w", err)
	}
	c.options.Level = level
	return nil
}

func (s *selectionFlags) resolveConfig(a *app, c *chosen) error {
	path := s.config
	if path == "" {
		path, _ = a.env(configs.ConfigVariable)
	}
	if path == "" {
		return nil
	}
	if c.options.Level != planner.UserSpecified {
		a.warn("the configuration %s is ignored: level %d recomputes every cluster; use level 0 for it", path, c.options.Level)
		return nil
	}
	entries, err := configs.LoadORT(path)
	if err != nil {
		return usage("%w", err)
	}
	c.options.Config, c.configPath = entries, path
	return nil
}

// usePlan takes over the placements of a plan file made for the same structure.
func (s *selectionFlags) usePlan(c *chosen, l *loaded) error {
	r, err := configs.LoadPlan(s.plan)
	if err != nil {
		return usage("%w", err)
	}
	if r.StructureSHA256 != l.sha {
		return usage("%s: was made for a model with structure_sha256 %.12s…, this one has %.12s…; plan anew", s.plan, r.StructureSHA256, l.sha)
	}
	if c.options.Placements, err = recompute.ResolvePlacements(l.Graph, r.Placements); err != nil {
		return usage("%s: %w", s.plan, err)
	}
	if c.options.Placements == nil {
		c.options.Placements = []recompute.Placement{}
	}
	if c.options.FixedOrder, err = recompute.ResolveOrder(l.Graph, r.Order); err != nil {
		return usage("%s: %w", s.plan, err)
	}
	c.configPath = s.plan
	return nil
}

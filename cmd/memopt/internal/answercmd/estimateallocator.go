package answercmd

import (
	"slices"

	"github.com/spf13/pflag"

	"memopt/answers/estimate"
	"memopt/cmd/memopt/internal/cli"
	"memopt/sim/allocator"
)

// allocatorFlags say which allocator serves an estimated step.
type allocatorFlags struct{ name, conf string }

func (f *allocatorFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.name, "allocator", "", "replay the step through this allocator: arena, torch, bfc or ort (default: "+
		"arena, and torch for PyTorch's step on a GPU)")
	s.StringVar(&f.conf, "allocator-conf", "", "options of PyTorch's allocator, such as expandable_segments:True, in "+
		"the form of PYTORCH_CUDA_ALLOC_CONF")
}

// read puts the flags into options.
func (f *allocatorFlags) read(o *estimate.Options, r estimate.Runtime) (err error) {
	o.Allocator = estimate.Allocator(f.name)
	if f.name != "" && !slices.Contains(estimate.Allocators, o.Allocator) {
		return cli.Usage("--allocator %q: wanted arena, torch, bfc or ort", f.name)
	}
	if f.conf == "" {
		return nil
	}
	switch {
	case o.Allocator == estimate.ByRuntime && r == estimate.Own:
		o.Allocator = estimate.Caching
	case o.Allocator != estimate.ByRuntime && o.Allocator != estimate.Caching:
		return cli.Usage("--allocator-conf has options of PyTorch's allocator: leave it out with --allocator %s",
			f.name)
	}
	if o.Conf, err = allocator.ParseConf(f.conf); err != nil {
		return cli.Usage("--allocator-conf: %w", err)
	}
	return nil
}

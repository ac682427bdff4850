package emit

import (
	"slices"

	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
)

// RematUsage is the memory with all blocks under torch_remat's checkpoints, whose parts of these names are saved.
func RematUsage(p *pytorch.Plan, saved []string) torchsim.Usage {
	s := newRemat(p)
	x := s.set(p.Every.Calls)
	for i := range s.blocks {
		for k := range s.blocks[i].parts {
			x.saved[i][k] = slices.Contains(saved, s.blocks[i].parts[k].name)
		}
	}
	s.run(x)
	return x.usage
}

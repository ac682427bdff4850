package emit

import (
	"slices"
	"strings"

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

// MegatronPeaks are the peaks of all of Megatron-LM's settings, by their flags, without held bytes.
func MegatronPeaks(p *pytorch.Plan) map[string]int64 {
	out := map[string]int64{}
	layers := layersOf(p.Program)
	for _, x := range megatronSettings(p.Program, layers, megatronWords(p.Program, layers)) {
		if u, err := x.run(p); err == nil {
			out[strings.TrimSpace(x.lines(" "))] = u.Peak - p.Program.Held
		}
	}
	return out
}

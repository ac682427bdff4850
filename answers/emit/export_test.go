package emit

import (
	"math"
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

// MegatronPeaks are the peaks of all of Megatron-LM's settings, by their flags, without held bytes; copies take no
// time. Tensors of fewer elements stay.
func MegatronPeaks(p *pytorch.Plan, moves bool, elements int64) map[string]int64 {
	out := map[string]int64{}
	layers := layersOf(p.Program)
	choices := []offload{{}}
	if moves {
		choices, _ = offloads(p, layers, Moves{HostBudget: math.MaxInt64, Link: math.Inf(1)})
	}
	settings := megatronSettings(p.Program, layers, megatronWords(p.Program, layers))
	for i := range choices {
		choices[i].moves.Elements = elements
		for k := range settings {
			if !choices[i].beside(&settings[k]) {
				continue
			}
			if x, err := settings[k].run(p, &choices[i]); err == nil {
				out[strings.TrimSpace(x.lines(" "))] = x.usage.Peak - p.Program.Held
			}
		}
	}
	return out
}

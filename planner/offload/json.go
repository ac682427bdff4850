package offload

import (
	"io"

	"memopt/planner/remat"
)

// WriteSteps writes steps as {"steps": [{"compute": node}, {"offload": value}, ...]}.
func WriteSteps(w io.Writer, p *remat.Problem, steps []Step) error {
	return p.WriteVerbs(w, len(steps), func(i int) (string, int32) { return steps[i].Kind.String(), steps[i].Of })
}

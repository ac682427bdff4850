package stages

import (
	"fmt"
	"maps"
)

// sized is a model with the dims of a check.
type sized struct {
	name string
	dims map[string]int64
}

// toyBatch is the batch that tests plan to budgets.
var toyBatch = sized{"mlp_tiny", map[string]int64{"batch": 64}}

// budgetModels are the models that are planned to budgets.
func (r *runner) budgetModels() []sized {
	if r.toy {
		return []sized{toyBatch}
	}
	return []sized{{"gpt2_tiny", nil}, {"resnet_tiny", nil}, {"gpt2_6l_256", map[string]int64{"batch": 8, "seq": 256}},
		{"resnet18", map[string]int64{"batch": 16}}}
}

// driversOwn is the most memory that the driver may take for itself in a session beside 1 % of
// arena and weights: for modules of kernels, and for its product library.
const driversOwn = 512 << 20

// driversSlack is how much memory that the driver keeps from earlier allocations may serve this
// session's: it takes small ones out of blocks of 2 MiB, and holds on to some.
const driversSlack = 8 << 20

// exitInfeasible is memopt's exit code if no plan fits or memory is short.
const exitInfeasible = 3

// budgetOf are the arguments that ask for a plan to a budget, found by a bounded search.
func (r *runner) budgetOf(budget string) []string {
	effort := "3"
	if r.toy {
		effort = "0.1"
	}
	return []string{"--budget", budget, "--time-limit", "20s", "--effort", effort}
}

// runBudgets verifies plans to budgets and looks for the largest batch under a limit.
func runBudgets(r *runner) {
	for _, s := range r.budgetModels() {
		m := r.named(s.name)
		if m == nil {
			continue
		}
		for _, share := range []string{"80%", "60%", "40%"} {
			r.budget(m, s.dims, share)
		}
	}
	r.largestBatch()
}

// budget verifies the plan for a share of the peak.
func (r *runner) budget(m *model, dims map[string]int64, share string) {
	check := fmt.Sprintf("%s: budget of %s", m.name, share)
	var v verifyReport
	a := r.onDevice(&v, "verify", m.file, append(append(m.inputs(dims), "-r", "3"), r.budgetOf(share)...)...)
	switch {
	case a.code == exitInfeasible:
		r.row(check, NotAvailable, a.why())
		return
	case a.code != 0:
		r.row(check, Fail, a.why())
		return
	}
	p := v.Planned.Peak
	figures := []Figure{{"planned arena", float64(p.Planned), "bytes"},
		{"measured arena", float64(p.Measured), "bytes"}, {"saved", float64(v.Saved), "bytes"},
		{"slowdown", v.Slowdown, ""}}
	if p.Growth == 0 {
		r.judge(check, p.Planned == p.Measured, "planned and measured bytes differ", figures...)
		return
	}
	own := p.Growth - p.Reserved - p.Weights
	allowed := driversOwn + (p.Reserved+p.Weights)/100
	figures = append(figures, Figure{"GPU memory", float64(p.Growth), "bytes"},
		Figure{"the driver's own of it", float64(own), "bytes"})
	r.judge(check, p.Planned == p.Measured && own >= -driversSlack && own <= allowed,
		fmt.Sprintf("wanted equal planned and measured bytes, and a GPU memory of arena and weights with at most %d "+
			"bytes of the driver's own", allowed), figures...)
}

// largestBatch takes the memory of a step without recomputation as a limit, finds the largest batch
// with a plan under it, and runs that. The next larger batch is refused.
func (r *runner) largestBatch() {
	s := sized{"gpt2_6l_256", map[string]int64{"batch": 8, "seq": 256}}
	if r.toy {
		s = toyBatch
	}
	m := r.named(s.name)
	if m == nil {
		return
	}
	check := s.name + ": largest batch under a limit"
	var plain runReport
	if a := r.onDevice(&plain, "run", m.file, append(m.inputs(s.dims), "--level", "0")...); a.code != 0 {
		r.row(check, Fail, a.why())
		return
	}
	limit := plain.Peak.Measured + plain.Peak.Persistent
	first := s.dims["batch"]
	best, v, refused := r.bisect(first, func(batch int64) (*answer, *runReport) {
		dims := maps.Clone(s.dims)
		dims["batch"] = batch
		v := new(runReport)
		return r.onDevice(v, "run", m.file, append(m.inputs(dims), r.budgetOf(fmt.Sprint(limit))...)...), v
	})
	figures := []Figure{{"limit", float64(limit), "bytes"}, {"batch without recomputing", float64(first), ""},
		{"largest batch", float64(best), ""}}
	if v == nil {
		r.row(check, Fail, refused, figures...)
		return
	}
	took := v.Peak.Measured + v.Peak.Persistent
	r.judge(check, took <= limit, "more than the limit",
		append(figures, Figure{"arena, inputs and weights", float64(took), "bytes"})...)
}

// closeEnough ends the search for the largest batch: within one part in so many.
const closeEnough = 64

// bisect finds the largest batch that try takes, or one that is close enough, from first on, and
// its memory. Without such a batch, it reports the reason.
func (r *runner) bisect(first int64, try func(int64) (*answer, *runReport)) (int64, *runReport, string) {
	var best *runReport
	low, high := int64(0), int64(0) // low fits, high does not; 0 means not known yet
	for high == 0 || high-low > max(1, low/closeEnough) {
		batch := max(first, 2*low)
		if high > 0 {
			batch = (low + high) / 2
		}
		a, v := try(batch)
		switch {
		case a.code == 0:
			low, best = batch, v
		case a.code == exitInfeasible && low > 0:
			high = batch
		default:
			return batch, nil, fmt.Sprintf("batch %d: %s", batch, a.why())
		}
	}
	return low, best, ""
}

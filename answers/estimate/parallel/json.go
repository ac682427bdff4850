package parallel

import (
	"memopt/answers/estimate/parts"
)

// schema is the schema of the JSON, which is that of estimates on one device; the fields of several
// devices are layout, limiting_stage and weights, and more of ranks.
const schema = "memopt.estimate/v1"

type resultJSON struct {
	parts.Head
	Ranks    []rankJSON         `json:"ranks"`
	WithPlan *parts.PlannedJSON `json:"with_plan"`
	Lowest   *int64             `json:"lowest_bytes"`
	Advice   []string           `json:"advice"`
	Sources  []string           `json:"sources"`
	Notes    []string           `json:"notes"`
	Layout   layoutJSON         `json:"layout"`
	Limiting int                `json:"limiting_stage"`
	Weights  []weightJSON       `json:"weights"`
}

type layoutJSON struct {
	DP           int    `json:"dp"`
	Zero         int    `json:"zero"`
	TP           int    `json:"tp"`
	PP           int    `json:"pp"`
	Microbatches int    `json:"microbatches"`
	Interleave   int    `json:"interleave"`
	Sequence     bool   `json:"sequence_parallel"`
	Devices      int    `json:"devices"`
	Cuts         string `json:"cuts"`
	Rule         string `json:"rule"`
}

type rankJSON struct {
	Stage int   `json:"stage"`
	Total int64 `json:"total_bytes"`
	parts.Breakdown
	Devices    int            `json:"devices"`
	InFlight   float64        `json:"in_flight"`
	Parameters int64          `json:"parameters"`
	Time       float64        `json:"time_ms"`
	Chunks     []chunkJSON    `json:"chunks"`
	Arithmetic []lineJSON     `json:"arithmetic"`
	Budget     *int64         `json:"budget_bytes"`
	WithPlan   *stagePlanJSON `json:"with_plan"`
}

type chunkJSON struct {
	Layers string `json:"layers"`
	Nodes  int    `json:"nodes"`
	Stash  int64  `json:"stash_bytes"`
	Peak   int64  `json:"peak_bytes"`
	Inputs int64  `json:"inputs_bytes"`
}

type lineJSON struct {
	What  string `json:"what"`
	Sum   string `json:"sum"`
	Bytes int64  `json:"bytes"`
}

type stagePlanJSON struct {
	Fits     bool    `json:"fits"`
	Total    int64   `json:"total_bytes"`
	Overhead float64 `json:"overhead"`
	Nodes    int     `json:"nodes"`
}

type weightJSON struct {
	Names []string `json:"names"`
	Dims  []int64  `json:"dims"`
	Axis  *int     `json:"axis"`
	Role  string   `json:"role"`
	Why   string   `json:"why_whole"`
}

func (r *Result) json(f *Facts) *resultJSON {
	l, most := r.Layout, r.Most()
	head := parts.Head{Schema: schema, Model: parts.ModelJSON{Path: f.Path, StructureSHA256: f.StructureSHA256},
		Dims: f.Dims, Answer: r.Answer(), Runtime: "memopt", Total: most.Parts.Total(), Breakdown: most.Parts.JSON(),
		PeakNode:  most.Chunks[most.load.chunk].Node,
		Step:      parts.StepJSON{Text: f.Text, Made: f.Optimizer != "", Micros: l.Microbatches},
		Precision: f.Types.JSON(f.Precision), Parameters: f.PerParameter.JSON(f.Parameters)}
	out := &resultJSON{Head: head, Advice: []string{}, Sources: append([]string{}, f.Sources...), Notes: r.notes(f),
		Layout: layoutJSON{l.DP, l.Zero, l.TP, l.PP, l.Microbatches, l.Interleave, l.SequenceParallel, l.Devices(),
			r.Cuts, r.Rule},
		Limiting: r.Limiting, Weights: []weightJSON{}}
	if fits, known := r.Fits(); known {
		out.Fits, out.Memory = &fits, &r.Options.Memory
	}
	if f.Device != "" {
		out.Device = &f.Device
	}
	if f.Optimizer != "" {
		out.Step.Optimizer = &f.Optimizer
	}
	for i := range r.Stages {
		out.Ranks = append(out.Ranks, r.rank(&r.Stages[i]))
	}
	r.plannedJSON(out)
	for i := range r.Weights {
		w := &r.Weights[i]
		j := weightJSON{w.Names, w.Dims, nil, w.Role, w.Why}
		if w.Axis >= 0 {
			j.Axis = &w.Axis
		}
		out.Weights = append(out.Weights, j)
	}
	return out
}

// plannedJSON adds the plan of the stage that limits.
func (r *Result) plannedJSON(out *resultJSON) {
	st := &r.Stages[r.Limiting]
	switch {
	case r.FitsPlanned():
		with := parts.PlannedJSON{Total: st.need(), Overhead: r.Overhead(), Breakdown: st.Parts.JSON()}
		if st.Plan != nil {
			with.Nodes, with.Breakdown = st.Plan.Nodes, st.Plan.Parts.JSON()
		}
		out.WithPlan = &with
	case st.Plan != nil:
		out.Lowest = &st.Plan.Total
	}
}

func (r *Result) rank(st *Stage) rankJSON {
	const ms = 1000
	out := rankJSON{Stage: st.Stage, Total: st.Parts.Total(), Breakdown: st.Parts.JSON(),
		Devices: r.Layout.DP * r.Layout.TP, InFlight: float64(st.InFlight) / float64(r.Layout.Interleave),
		Parameters: st.Params, Time: ms * st.Seconds}
	for _, c := range st.Chunks {
		out.Chunks = append(out.Chunks, chunkJSON{c.Name, c.Nodes, c.Stash, c.Peak, c.Inputs})
	}
	for _, l := range r.Arithmetic(st) {
		out.Arithmetic = append(out.Arithmetic, lineJSON(l))
	}
	if r.Options.Memory > 0 {
		out.Budget = &st.Budget
	}
	if p := st.Plan; p != nil {
		out.WithPlan = &stagePlanJSON{p.Fits, p.Total, p.Overhead, p.Nodes}
	}
	return out
}

// Package check tells whether the claims of a schedule are true, without any code of those that make schedules: it
// imports neither planner nor planner/remat, reads the files by itself, and follows the steps one by one.
// Copies to the host and back are ordered by waits alone, never by how long they take (package streams).
package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"memopt/check/streams"
)

// Schema names the format of a Report.
const Schema = "memopt.check/v1"

// Report is the outcome of a check. Costs and times are in the unit of the instance.
type Report struct {
	Schema      string   `json:"schema"`
	Valid       bool     `json:"valid"`      // all claims of the plan are true
	Peak        float64  `json:"peak_bytes"` // of the device, with what lives throughout
	HostPeak    float64  `json:"host_peak_bytes"`
	Cost        float64  `json:"cost"`         // of all computes
	Makespan    float64  `json:"makespan"`     // the cost and the waits for copies
	Overhead    float64  `json:"overhead"`     // the makespan beyond computing every node once, as a share of that
	Bound       *float64 `json:"bound"`        // the least overhead of any schedule as the plan says, or nil
	BoundProved *float64 `json:"bound_proved"` // the least overhead that the plan's certificate proves, or nil
	Steps       int      `json:"steps"`
	Proved      []string `json:"proved"` // parts of the plan: steps, copies, numbers, bound
	Faults      []Fault  `json:"faults"`
}

// Fault is a step that may not be taken, or a claim of the plan that is false.
type Fault struct {
	Kind    string `json:"kind"`
	Step    *int   `json:"step"`  // the place in the list of steps; nil: about the whole plan
	Value   string `json:"value"` // the value or node, if it has one
	Message string `json:"message"`
}

const (
	mostFaults = 100   // the replay ends there
	near       = 1e-10 // how far costs and times may be off, as a share
)

// messages has the kinds of faults.
var messages = map[string]string{
	"unknown":         "is no node or value that the step can be about",
	"not-made":        "is read by %s and was not computed before",
	"freed":           "is read by %s and was freed before",
	"not-reloaded":    "is read by %s and lies on the host alone",
	"computed-live":   "is computed while %s is live",
	"computed-twice":  "is computed again, and must not be",
	"other-seed":      "is computed again with another seed: %s, and not %s",
	"freed-twice":     "is freed while it is not live",
	"freed-kept":      "is freed, and must be kept",
	"view-of-freed":   "is freed while a view of it is live",
	"coming-in":       "is used by %s while its reload may be under way: a wait is missing",
	"going-out":       "is freed while its copy to the host may be under way: a wait is missing",
	"reload-live":     "is reloaded while it is on the device",
	"no-host-copy":    "is reloaded, and the host has no copy of it",
	"no-copy":         "is waited for, and no copy of it was queued",
	"not-movable":     "is moved, and is a view, or must not be, or the plan names no link",
	"never-computed":  "is never computed",
	"wrong-order":     "first computes leave the order of the instance",
	"wrong-peak":      "the peak is %.15g bytes, and the plan says %.15g",
	"wrong-host-peak": "the peak of the host is %.15g bytes, and the plan says %.15g",
	"wrong-moved":     "%.15g bytes are copied to the host, and the plan says %.15g",
	"wrong-cost":      "the cost is %.15g, and the plan says %.15g",
	"wrong-base-cost": "the cost of every node once is %.15g, and the plan says %.15g",
	"wrong-makespan":  "the makespan is %.15g, and the plan says %.15g",
	"wrong-overhead":  "the overhead is %.15g, and the plan says %.15g",
	"wrong-bound":     "the %s is %.15g, and the plan says %.15g",
	"wrong-link":      "the link has %.15g bytes a second, a latency of %.15g us: wanted these, and a cost_unit",
	"over-budget":     "the peak is %.15g bytes, and the budget of the plan %.15g",
}

// Answer checks an answer of memopt solve, of version 1 or 2, against its instance. An error is about a file that
// cannot be read as such.
func Answer(plan, model io.Reader) (*Report, error) {
	in, a := &instance{}, &answer{}
	if err := errors.Join(json.NewDecoder(model).Decode(in), in.index()); err != nil {
		return nil, fmt.Errorf("the instance: %w", err)
	}
	if err := json.NewDecoder(plan).Decode(a); err != nil || a.Steps == nil {
		return nil, errors.Join(errors.New("the plan is no schedule, {\"steps\": […], …}"), err)
	}
	r := &Report{Schema: Schema, Steps: len(a.Steps), Peak: in.resident, Proved: []string{}, Faults: []Fault{}}
	p := &replay{instance: in, answer: a, report: r, order: streams.New(3), bytes: in.resident, last: -1, ordered: true,
		hostBytes: make([]float64, len(a.Steps)+1)}
	p.run()
	return r, nil
}

// compare holds the claims of a plan whose steps are right to the outcome.
func (p *replay) compare() {
	a, r, base, live, whole := p.answer, p.report, 0.0, 0.0, true
	for v := range p.Nodes {
		base += p.Nodes[v].Cost
		whole = whole && p.Nodes[v].Cost == math.Trunc(p.Nodes[v].Cost)
	}
	for _, change := range p.hostBytes {
		live += change
		r.HostPeak = max(r.HostPeak, live)
	}
	share := func(cost float64) float64 {
		if base == 0 {
			return 0
		}
		return (cost - base) / base
	}
	r.Makespan = p.clock[compute]
	r.Overhead = share(r.Makespan)
	for i, says := range []*float64{a.Peak, a.HostPeak, a.Moved, a.Cost, a.BaseCost, a.Makespan, a.Overhead} {
		got := []float64{r.Peak, r.HostPeak, p.moved, r.Cost, base, r.Makespan, r.Overhead}[i]
		slack := []float64{0, 0, 0, near * got, near * got, near * got, near}[i]
		if says != nil && !(math.Abs(*says-got) <= slack) {
			name := []string{"peak", "host-peak", "moved", "cost", "base-cost", "makespan", "overhead"}[i]
			p.fault("wrong-"+name, "", got, *says)
		}
	}
	if !p.ordered && (a.InOrder || p.Version != 2 || p.Order == "given") {
		p.fault("wrong-order", "")
	}
	if a.HostBudget != nil && r.HostPeak > *a.HostBudget {
		p.fault("over-budget", "", r.HostPeak, *a.HostBudget)
	}
	if low := a.PeakLowerBound; low != nil && *low > r.Peak {
		p.fault("wrong-bound", "", "peak", r.Peak, *low)
	}
	if a.CostLowerBound == nil {
		return
	}
	low := *a.CostLowerBound
	bound := share(low)
	switch r.Bound = &bound; {
	case !(low <= r.Makespan*(1+near)), a.Optimal && low < r.Makespan*(1-near):
		p.fault("wrong-bound", "", "cost", r.Makespan, low)
	case !(low >= base*(1-near)):
		p.fault("wrong-bound", "", "cost of every node once", base, low)
	}
	c, proved := a.Certificate, base
	switch {
	case c == nil:
		return
	case a.Peak != nil && r.Peak > c.Budget:
		p.fault("over-budget", "", r.Peak, c.Budget)
		return
	}
	rate := 0.0 // bytes that the link carries in a unit of cost
	if a.Link != nil {
		rate = a.Link.Rate / units[p.Unit]
	}
	if t, ok := p.nodeOf[p.key(c.Moment)]; ok && c.Price >= 0 && c.Price*rate <= 1 && (c.Order == "any" || p.ordered) {
		if proved += p.graph().Cut(t, c.Price, c.Budget, rate, c.Order == "any"); whole && rate == 0 {
			proved = math.Ceil(proved * (1 - near)) // as the cost of any schedule is
		}
	}
	least := share(proved)
	if r.BoundProved = &least; !(c.Bound <= proved*(1+near)) {
		p.fault("wrong-bound", c.Moment, "bound by its certificate", proved, c.Bound)
	} else if low <= proved*(1+near) {
		r.Proved = append(r.Proved, "bound")
	}
}

package main

import (
	"fmt"
	"math"
	"strings"

	"memopt"
	"memopt/answers/estimate"
	"memopt/answers/estimate/parts"
	"memopt/answers/explain"
	"memopt/answers/fit"
	"memopt/planner"
	"memopt/train"
	"memopt/view/report"
)

// afterInspect plans the model with sizes; nil where it has no gradients.
func (a *app) afterInspect(name string, m *memopt.Model) *nextCommand {
	if !train.HasBackward(m) {
		if _, err := train.MakeStep(m, train.Recipe{Micros: 1, Bare: true}); err != nil {
			return nil
		}
	}
	return &nextCommand{verb: "plan", args: []string{name}, dims: a.examples(m, unbound(m))}
}

// afterPlan binds symbols without a size, names a budget for a plan without recomputation, and else writes the
// planned file.
func (a *app) afterPlan(name string, p *memopt.Plan, c *chosen, view *report.PlanView, saved string) *nextCommand {
	args := []string{name}
	byFile := [][2]string{{"plan", saved}, {"out", fileLike(name, ".opt.onnx")}}
	switch {
	case p.Fit != nil && !p.Fit.Fits():
		return nil
	case p.Span != nil && saved == "":
		return &nextCommand{verb: "plan", args: args, set: [][2]string{{"save-plan", fileLike(name, ".plan.json")}}}
	case p.Span != nil:
		return &nextCommand{verb: "apply", args: args, dims: a.examples(c.file, unbound(c.file)), set: byFile, drop: ofSelection}
	case len(p.Unbound) > 0:
		return &nextCommand{verb: "plan", args: args, dims: a.examples(c.file, p.Unbound)}
	case p.Options.Enabled() && saved != "":
		return &nextCommand{verb: "apply", args: args, set: byFile, drop: ofSelection}
	case p.Options.Enabled():
		return applied(name)
	}
	for _, o := range view.TradeOffs {
		if share, ok := strings.CutPrefix(o.Name, "--budget "); ok {
			return &nextCommand{verb: "plan", args: args, set: [][2]string{{"budget", share}}}
		}
	}
	return &nextCommand{verb: "explain", args: args}
}

// afterInfeasible plans the largest size that fits, else to the lowest peak that was reached; where a bound ruled
// the budget out, without one, to see the price of lower peaks.
func (a *app) afterInfeasible(name string, u *report.InfeasibleBudget, b *memopt.Budget) *nextCommand {
	n := &nextCommand{verb: "plan", args: []string{name}}
	e := u.Error
	if u.Headroom != nil && u.Headroom.Size > 0 {
		n.dims = map[string]int64{u.Headroom.Symbol: u.Headroom.Size}
		if b.Share > 0 { // a share means another peak there
			n.set = [][2]string{{"budget", report.WholeKiB(u.Headroom.Total)}}
		}
		return n
	}
	if e.Stopped && a.limits != nil && a.limits.limit < defaultLimit { // more time may find a plan
		n.drop = []string{limitName, "effort"}
		return n
	}
	n.drop = []string{"gpu", "reserve", limitName, "effort"}
	if e.Searched() && e.LowestArena > 0 && !e.Stopped && !b.Runtime && !b.Clusters && len(b.StashLimits) == 0 {
		switch {
		case b.Total > 0:
			n.set = [][2]string{{"budget", report.WholeKiB(b.Total - e.Budget + e.LowestArena)}}
			return n
		case b.Share > 0 && e.Budget > 0:
			if share := math.Ceil(100 * b.Share * float64(e.LowestArena) / float64(e.Budget)); share < 100 {
				n.set = [][2]string{{"budget", fmt.Sprintf("%g%%", share)}}
				return n
			}
		}
	}
	n.drop = append(n.drop, "budget", "budget-for", "budget-in", "select", "solver", "require-optimal", "chunk")
	return n
}

// afterCurve plans to the budget in the middle of a curve.
func afterCurve(name string, c *planner.Curve) *nextCommand {
	if len(c.Points) == 0 {
		return nil
	}
	at := &c.Points[len(c.Points)/2]
	return &nextCommand{verb: "plan", args: []string{name},
		set: [][2]string{{"budget", report.WholeKiB(c.Persistent + at.Arena)}}}
}

// afterRun proves a selection, or makes one.
func (a *app) afterRun(name string, sel *selectionFlags, x *execution) *nextCommand {
	switch {
	case x.Planned.BackwardNodes() == 0:
		return nil
	case sel.asks(a) && x.Changed():
		return a.proved(name, x.file)
	}
	return &nextCommand{verb: "plan", args: []string{name}, drop: ofSelection}
}

// afterVerify writes the file that was verified.
func (a *app) afterVerify(name string, v *report.VerifyView) *nextCommand {
	if v.Unchanged {
		return &nextCommand{verb: "plan", args: []string{name}, drop: ofSelection}
	}
	return applied(name)
}

// afterGrad plans the file that was written.
func (a *app) afterGrad(out string, step *memopt.Model) *nextCommand {
	return &nextCommand{verb: "plan", args: []string{out}, dims: a.examples(step, unbound(step)), bare: true}
}

// afterExplain plans with the change that lowers the peak most; without such a change it looks for a device.
func afterExplain(name string, r *explain.Result) *nextCommand {
	if r.Plan.Options.Enabled() {
		return applied(name)
	}
	n := &nextCommand{verb: "plan", args: []string{name}}
	most := int64(0)
	if r.Order != nil && r.Order.Saves > most {
		most, n.set = r.Order.Saves, [][2]string{{"order", "memory"}}
	}
	for _, v := range r.Values {
		for _, f := range v.Fixes {
			if f.What == explain.Recompute && f.Saves > most {
				most, n.set = f.Saves, [][2]string{{"recompute", v.Name}}
			}
		}
	}
	if most == 0 {
		return &nextCommand{verb: "fit", args: []string{name}, set: [][2]string{{"vary", deviceName}},
			drop: ofSelection}
	}
	return n
}

// afterPage writes the file of the plan on a page, or looks for a plan.
func afterPage(name string, p *memopt.Plan) *nextCommand {
	if p.Options.Enabled() {
		return applied(name)
	}
	return &nextCommand{verb: "plan", args: []string{name}}
}

// afterFit explains the step at the largest size, or writes its plan's file; where no size fits, it
// looks for a device.
func (a *app) afterFit(name string, r *fit.Result, t *fit.Target) *nextCommand {
	list := r.Frontier
	if r.Sizes != nil {
		list = []*fit.Sizes{r.Sizes}
	}
	last := r.Options.Vary[len(r.Options.Vary)-1]
	for _, s := range list {
		dims := map[string]int64{}
		for _, name := range r.Options.Vary[:len(r.Options.Vary)-1] {
			dims[name] = s.Fixed[name]
		}
		if plain, best := s.By[fit.Plain].Value, s.By[fit.Best].Value; best > plain {
			dims[last] = best
			n := applied(name)
			n.dims, n.set = dims, append(n.set, [2]string{"gpu", report.Exact(t.Memory)})
			n.drop = []string{"effort", "time-limit"} // which were for many searches
			return n
		} else if plain > 0 {
			dims[last] = plain
			verb := "estimate"
			if t.Reserve > 0 { // it counts the allocator's rounding with the reserve, which may be too much there
				verb = "explain"
			}
			return &nextCommand{verb: verb, args: []string{name}, dims: dims}
		}
	}
	if r.Sizes == nil {
		return nil
	}
	return &nextCommand{verb: "fit", args: []string{name}, dims: map[string]int64{last: r.Sizes.By[fit.Plain].Least},
		set: [][2]string{{"vary", deviceName}}, drop: []string{"gpu", "device", "reserve"}}
}

// afterDevices estimates the step on the smallest device, or writes the file of its plan.
func afterDevices(name string, d *fit.Devices) *nextCommand {
	if s := d.Smallest(fit.Plain); s != nil {
		return &nextCommand{verb: "estimate", args: []string{name}, set: [][2]string{{"device", s.Profile.Name}}}
	}
	s := d.Smallest(fit.Best)
	if s == nil {
		return nil
	}
	n := applied(name)
	n.set = append(n.set, [2]string{"device", s.Profile.Name}, [2]string{"gpu", report.Exact(s.Profile.Memory)})
	return n
}

// afterEstimate looks for the largest batch of a step that fits, writes the plan's file where one makes it fit, and
// else looks for a device. No other verb counts in another precision.
func (a *app) afterEstimate(name string, m *memopt.Model, f *estimateFlags, r *estimate.Result) *nextCommand {
	if r.Precision != parts.AsIs {
		return nil
	}
	devices := &nextCommand{verb: "fit", args: []string{name}, set: [][2]string{{"vary", deviceName}},
		drop: []string{"gpu", "device", "reserve"}}
	fits, known := r.Fits()
	switch batch := m.BatchSymbol(); {
	case !known:
		return devices
	case fits && batch != "":
		return &nextCommand{verb: "fit", args: []string{name}, free: []string{batch}, set: [][2]string{{"vary", batch}}}
	case fits:
		return &nextCommand{verb: "explain", args: []string{name}}
	case r.Planned != nil:
		n := applied(name)
		n.set = append(n.set, [2]string{"gpu", report.Exact(r.Memory)})
		return n
	}
	return devices
}

// models are the model of a job's command line, where it has one.
func (t *training) models() []string { return []string{t.given} }

// afterSolve searches for longer, unless the schedule is proved to be optimal.
func (sf *solveFlags) afterSolve(path string, optimal bool) *nextCommand {
	if optimal || sf.out == streamName {
		return nil
	}
	return &nextCommand{verb: "solve", args: []string{path},
		set: [][2]string{{limitName, (max(2*sf.limit, defaultLimit)).String()}}}
}

// afterDiff explains the second side, where it is a model.
func (d *differ) afterDiff(name string) *nextCommand {
	if d.last == nil || !d.second || len(d.ranges()) > 0 {
		return nil
	}
	n := &nextCommand{verb: "explain", args: []string{name}, dims: d.examples(d.last.file, unbound(d.last.file))}
	return n.of(d.last.step)
}

// afterTrain writes the trained model, or goes on with a job that was stopped.
func (t *training) afterTrain(r *train.Result) *nextCommand {
	switch {
	case r.Saved == "" || t.ranks() > 1:
		return nil
	case r.Stopped:
		return &nextCommand{verb: "train", bare: true, set: [][2]string{{"resume", ""}, {"out", t.out}}}
	case t.steps.Forward == nil:
		return nil
	}
	return &nextCommand{verb: "export", args: []string{r.Saved}, bare: true,
		set: [][2]string{{"out", fileLike(t.name, ".trained.onnx")}}}
}

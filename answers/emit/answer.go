package emit

import (
	"context"
	"fmt"
	"io"
	"strings"

	"memopt/planner/moduleplan"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
	"memopt/view/report"
)

// Schema is the schema of an answer's JSON.
const Schema = "memopt.emit/v1"

// Memory is the bytes that a setting takes.
type Memory struct {
	Peak     int64   `json:"peak_bytes"`
	Overhead float64 `json:"recompute_share"` // recomputed time and waits for copies, as a share of a step
}

// Moved is the bytes that a setting moves to the host.
type Moved struct {
	Bytes  int64   `json:"to_host_bytes"`
	Waited float64 `json:"waited_share"` // time that the step waits for copies, as a share of a step
}

// Answer is a setting of a target's mechanism.
type Answer struct {
	Schema string `json:"schema"`
	Target string `json:"target"`
	Model  struct {
		Path string `json:"path"`
	} `json:"model"`
	Fits     bool   `json:"fits"`
	Limit    *int64 `json:"limit_bytes"` // nil: no budget
	Held     int64  `json:"held_bytes"`  // parameters, buffers and inputs, which peaks contain
	Baseline Memory `json:"baseline"`    // without recomputation
	// Memory is that of the mechanism with its setting; of an answer that does not fit, the lowest that was found.
	Memory
	Moved   *Moved  `json:"moved"`  // by that setting; nil: no values move
	Own     *Memory `json:"memopt"` // memopt's own plan for the budget; nil if it has none
	OwnName string  `json:"-"`      // the unit that it recomputes: whole modules
	Text    string  `json:"text"`   // for the framework; "" if it does not fit

	target *Target
	moves  Moves
	found  func()
}

// InfeasibleError means that no setting of a mechanism fits.
type InfeasibleError struct {
	Target        *Target
	Limit, Lowest int64
}

func (e *InfeasibleError) Error() string {
	return fmt.Sprintf("no setting of %s (%s) fits: the lowest peak that was found is %s, the "+
		"budget %s; allow more, or make the batch smaller", e.Target.Title, e.Target.Decides,
		report.Bytes(e.Lowest), report.Bytes(e.Limit))
}

// Torch finds a setting of a mechanism of PyTorch within the budget of a plan of modules, which is memopt's own.
// found is called where a setting that fits is found. Targets whose Moves is set may move values to the host.
func Torch(ctx context.Context, t *Target, p *pytorch.Plan, moves Moves, found func()) (*Answer, error) {
	a := &Answer{Schema: Schema, Target: t.Name, Fits: p.Fits, Held: p.Program.Held, target: t, moves: moves,
		found: found, OwnName: "whole modules", Baseline: memoryOf(p, p.Baseline.Usage)}
	a.Model.Path = p.Source.Path
	if p.Limit > 0 {
		a.Limit = &p.Limit
	}
	if p.Fits {
		own := memoryOf(p, p.Chosen.Usage)
		a.Own = &own
	}
	return a, t.torch(ctx, p, a)
}

func memoryOf(p *pytorch.Plan, u torchsim.Usage) Memory {
	return Memory{u.Peak, p.Overhead(&moduleplan.Plan{Usage: u})}
}

// wholeModules is the target of the plan of modules itself.
func wholeModules(_ context.Context, p *pytorch.Plan, a *Answer) error {
	a.Memory = memoryOf(p, p.Chosen.Usage)
	if !p.Fits {
		return nil
	}
	var b strings.Builder
	err := p.Lines(&b)
	a.Text = b.String()
	return err
}

// Infeasible is the error of an answer that does not fit, nil of one that does.
func (a *Answer) Infeasible() error {
	if a.Fits {
		return nil
	}
	return &InfeasibleError{a.target, *a.Limit, a.Peak}
}

// JSON prints the answer as JSON.
func (a *Answer) JSON(w io.Writer) error { return report.WriteJSON(w, a) }

// movesTo notes the bytes that a setting moves, and the time of waiting as a share of a step.
func (a *Answer) movesTo(bytes int64, waited float64) {
	if bytes > 0 {
		a.Moved = &Moved{bytes, waited}
	}
}

// header are the first lines of the text of an answer, each behind the mark of a comment.
func (a *Answer) header(comment string) string {
	lines := []string{fmt.Sprintf("%s: peak %s by %s, instead of %s; %s of a step more.", report.Plain(a.Model.Path),
		report.Bytes(a.Peak), a.target.Title, report.Bytes(a.Baseline.Peak), report.Percent(a.Overhead))}
	if a.Own != nil {
		lines = append(lines, fmt.Sprintf("memopt's own plan for the budget, of %s: %s, %s of a step more.", a.OwnName,
			report.Bytes(a.Own.Peak), report.Percent(a.Own.Overhead)))
	}
	if a.Moved != nil {
		lines = append(lines, fmt.Sprintf("%s move to the host; the step waits for copies for %s of its time.",
			report.Bytes(a.Moved.Bytes), report.Percent(a.Moved.Waited)))
	}
	return comment + " " + strings.Join(lines, "\n"+comment+" ") + "\n"
}

package parallel

import (
	"fmt"
	"strings"

	"memopt/hint"
	"memopt/view/report"
)

// Fits reports whether every device has enough memory without a plan; known is false if the memory
// of the device is unknown.
func (r *Result) Fits() (fits, known bool) {
	for i := range r.Stages {
		if r.Stages[i].Parts.Total() > r.Options.Memory {
			return false, r.Options.Memory > 0
		}
	}
	return true, r.Options.Memory > 0
}

// FitsPlanned reports whether every device has enough memory with its plan, if it needs one.
func (r *Result) FitsPlanned() bool {
	for i := range r.Stages {
		st := &r.Stages[i]
		if st.Parts.Total() > r.Options.Memory && (st.Plan == nil || !st.Plan.Fits) {
			return false
		}
	}
	return r.Options.Memory > 0
}

// Overhead is how much longer a micro-batch takes with the plans, as a share: that of the slowest
// stage, which the others wait for.
func (r *Result) Overhead() float64 {
	plain, planned := 0.0, 0.0
	for i := range r.Stages {
		st := &r.Stages[i]
		seconds := st.Seconds
		if st.Plan != nil {
			seconds *= 1 + st.Plan.Overhead
		}
		plain, planned = max(plain, st.Seconds), max(planned, seconds)
	}
	if plain == 0 {
		return 0
	}
	return planned/plain - 1
}

// Text describes the devices of a layout.
func (l Layout) Text() string {
	l = l.WithDefaults()
	var terms []string
	add := func(n int, what string) {
		if n > 1 {
			terms = append(terms, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(l.DP, "replicas")
	add(l.PP, "stages")
	add(l.TP, "ranks of tensor parallel")
	if len(terms) == 0 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices (%s)", l.Devices(), strings.Join(terms, " × "))
}

// Answer says in a sentence or two whether the step fits, and which stage limits it.
func (r *Result) Answer() string {
	st := r.Most()
	who := "each device takes"
	if len(r.Stages) > 1 {
		who = fmt.Sprintf("stage %d limits: each of its devices takes", st.Stage)
	}
	total := st.Parts.Total()
	fits, known := r.Fits()
	switch {
	case !known:
		return fmt.Sprintf("On %s, %s %s. Whether that fits, %v or %v would tell.", r.Layout.Text(), who,
			report.Bytes(total), hint.Memory.With("SIZE"), hint.Device.With("NAME"))
	case fits:
		return fmt.Sprintf("Yes: on %s, %s %s of %s; %s stay free.", r.Layout.Text(), who, report.Bytes(total),
			report.Bytes(r.Options.Memory), report.Bytes(r.Options.Memory-total))
	}
	no := fmt.Sprintf("No: on %s, %s %s, %s more than %s.", r.Layout.Text(), who, report.Bytes(total),
		report.Bytes(total-r.Options.Memory), report.Bytes(r.Options.Memory))
	switch st := &r.Stages[r.Limiting]; {
	case r.FitsPlanned():
		return no + fmt.Sprintf(" With a plan for each stage it fits: %s, for an estimated %s more time of "+
			"the slowest.",
			report.Bytes(st.need()), report.Percent(r.Overhead()))
	case st.Plan != nil:
		return no + fmt.Sprintf(" No plan that was found makes stage %d fit; the least was %s.", st.Stage,
			report.Bytes(st.Plan.Total))
	}
	return no + fmt.Sprintf(" No plan makes stage %d fit.", r.Stages[r.Limiting].Stage)
}

// Most is the stage that takes the most without a plan.
func (r *Result) Most() *Stage {
	most := &r.Stages[0]
	for i := range r.Stages {
		if r.Stages[i].Parts.Total() > most.Parts.Total() {
			most = &r.Stages[i]
		}
	}
	return most
}

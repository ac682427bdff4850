package stages

import (
	"fmt"
	"strings"

	"memopt/executor/cuda/driver"
)

// runOOM checks the behaviour when memory is short: one line, exit code 3, and a next run that is
// not affected.
func runOOM(r *runner) {
	m := r.named(tinyModel)
	if m == nil {
		return
	}
	r.refused("--mem-limit too small, planned", m, nil, "--mem-limit", "1KiB")
	r.refused("--mem-limit too small, on demand", m, nil, "--mem-limit", "1KiB", "--mem-pattern", "off")
	if dims, why := r.tooLarge(m); why != "" {
		r.row("more than the device has", NotAvailable, why)
	} else {
		r.refused("more than the device has, planned", m, dims)
		if !r.toy { // on demand the step runs until memory runs out, which takes the stand-in long
			r.refused("more than the device has, in the middle of a step", m, dims, "--mem-pattern", "off")
		}
	}
	var v runReport
	a := r.onDevice(&v, "run", m.file, append(m.inputs(nil), "--level", "0")...)
	r.judge("the next run works", a.code == 0, a.why())
}

// tinyModel has inputs that are much smaller than the values computed from them.
const tinyModel = "gpt2_tiny"

// refused checks that a run ends for lack of memory, with an explanation.
func (r *runner) refused(check string, m *model, dims map[string]int64, args ...string) {
	var v runReport
	a := r.onDevice(&v, "run", m.file, append(append(m.inputs(dims), "--level", "0"), args...)...)
	if a.code == exitInfeasible && strings.Contains(a.stderr, "out of memory") {
		r.row(check, Pass, a.why())
		return
	}
	r.row(check, Fail, fmt.Sprintf("exit code %d, wanted %d with an explanation: %s", a.code, exitInfeasible, a.why()))
}

// doubleMemory is the memory of the device that stands in for a GPU in tests.
const doubleMemory = 8 << 30

// tooLarge returns a batch whose step is predicted to take twice the device's memory.
func (r *runner) tooLarge(m *model) (map[string]int64, string) {
	memory := int64(doubleMemory)
	if r.backend == "cuda" {
		d, err := driver.Open(0)
		if err != nil {
			return nil, err.Error()
		}
		memory = d.Info().Memory
		d.Close()
	}
	for batch := int64(1); batch < 1<<40; batch *= 4 {
		dims := map[string]int64{"batch": batch}
		size, why := r.size(m, dims)
		if why != "" {
			return nil, why
		}
		if size > 2*memory {
			return dims, ""
		}
	}
	return nil, "no batch takes so much"
}

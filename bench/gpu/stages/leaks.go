package stages

import "fmt"

// runLeaks checks that the device's memory is the same after many steps and after many sessions.
func runLeaks(r *runner) {
	r.judgeTests("sessions and steps in one process", r.tests(testPrograms[0], nil, "-test.run", "^TestLeaks$"))
	m := r.named(tinyModel)
	if m == nil {
		return
	}
	few, many := 10, 1000
	if r.toy {
		many = 30
	}
	var reports [2]runReport
	for i, steps := range []int{few, many} {
		a := r.onDevice(&reports[i], "run", m.file, append(m.inputs(nil), "--level", "1", "-r", fmt.Sprint(steps))...)
		if a.code != 0 {
			r.row("memopt run", Fail, a.why())
			return
		}
	}
	a, b := reports[0].Peak, reports[1].Peak
	r.judge(fmt.Sprintf("memopt run of %d and of %d steps", few, many), a.Growth == b.Growth &&
		a.Reserved == b.Reserved && a.Weights == b.Weights,
		"the device's memory has grown with the steps", Figure{"GPU memory", float64(a.Growth), "bytes"},
		Figure{"after more steps", float64(b.Growth), "bytes"})
}

package offload

import (
	"slices"

	"memopt/planner/remat"
)

// program is a schedule of computes and frees with its timeline.
type program struct {
	p      *remat.Problem
	values remat.Values
	steps  []remat.Step
	line   Timeline
	of     []int32   // by gap: its value
	views  [][]int32 // by gap: the views of the value that live over it, in the order of their computes
}

// follow executes steps, which must be valid, and finds the gaps between uses of values.
func follow(p *remat.Problem, steps []remat.Step) (*program, error) {
	values := p.Values()
	f := &follower{
		program: &program{p: p, values: values, steps: steps}, Simulation: remat.NewSimulation(p),
		used: make([]int32, len(values.Maker)), made: make([]int32, len(values.Maker)),
		life: make([]int32, len(values.Maker)),
		live: make([][]int32, len(values.Maker)),
	}
	for _, s := range steps {
		if s.Free {
			if err := f.free(s.Node); err != nil {
				return nil, err
			}
		} else if err := f.compute(s.Node); err != nil {
			return nil, err
		}
	}
	order := f.line.Sort()
	r := f.program
	r.of, r.views = permuted(r.of, order), permuted(r.views, order)
	return r, nil
}

func permuted[T any](list []T, order []int32) []T {
	next := make([]T, len(list))
	for i, o := range order {
		next[i] = list[o]
	}
	return next
}

// follower is the state of follow.
type follower struct {
	*program
	*remat.Simulation
	used  []int32   // by value with memory of its own: the newest run that uses it
	made  []int32   // by value: the run that made it
	life  []int32   // by value: which of its lives this is
	live  [][]int32 // by value: its views that are live, in the order of their computes
	lives int32
}

func (f *follower) compute(v int32) error {
	run := int32(len(f.line.Cost))
	n := &f.p.Nodes[v]
	for _, u := range n.Inputs {
		f.use(f.values.Root[u], run)
	}
	var fresh []int32
	for u := f.values.First[v]; u < f.values.First[v+1]; u++ {
		if !f.Live(u) {
			fresh = append(fresh, u)
		}
	}
	if err := f.Compute(v); err != nil {
		return err
	}
	for _, u := range fresh {
		if root := f.values.Root[u]; root != u {
			f.live[root] = append(f.live[root], u)
			continue
		}
		f.lives++
		f.life[u], f.made[u], f.used[u] = f.lives, run, run
	}
	f.line.Cost = append(f.line.Cost, n.Cost)
	f.line.Bytes = append(f.line.Bytes, f.During)
	return nil
}

func (f *follower) free(u int32) error {
	if root := f.values.Root[u]; root != u {
		f.live[root] = slices.DeleteFunc(f.live[root], func(w int32) bool { return w == u })
	}
	return f.Free(u)
}

// use notes a use of a value that has memory, and the gap before it.
func (f *follower) use(u, run int32) {
	after := f.used[u]
	f.used[u] = run
	m := f.values.Maker[u]
	node := &f.p.Nodes[m]
	size := node.Outputs[u-f.values.First[m]].Size
	if run-after < 2 || size == 0 || node.Stay || f.values.Kept[u] || !f.viewsMove(u) {
		return
	}
	f.line.Gaps = append(f.line.Gaps, Gap{Life: f.life[u], Size: size, Made: f.made[u], After: after, Before: run})
	f.of = append(f.of, u)
	f.views = append(f.views, slices.Clone(f.live[u]))
}

// viewsMove tells whether the live views of a value can be made anew when it comes back.
func (f *follower) viewsMove(u int32) bool {
	for _, w := range f.live[u] {
		if n := &f.p.Nodes[f.values.Maker[w]]; n.Once || n.Stay || len(n.Inputs) != 1 {
			return false
		}
	}
	return true
}

// with puts moves into the steps.
func (r *program) with(moves []Move) []Step {
	runs := len(r.line.Cost)
	before := make([][]Step, runs)
	copies := queue(moves)
	for _, c := range copies {
		if !c.back {
			before[c.run] = append(before[c.run], Step{Offload, r.of[moves[c.move].Gap]})
		}
	}
	for i := range moves {
		m := &moves[i]
		if u := r.of[m.Gap]; !m.Clean {
			before[m.Free] = append(before[m.Free], Step{Wait, u})
		}
		for _, w := range slices.Backward(r.views[m.Gap]) {
			before[m.Free] = append(before[m.Free], Step{Free, w})
		}
		before[m.Free] = append(before[m.Free], Step{Free, r.of[m.Gap]})
	}
	for _, c := range copies {
		if c.back {
			before[c.run] = append(before[c.run], Step{Reload, r.of[moves[c.move].Gap]})
		}
	}
	for _, m := range moves {
		b := r.line.Gaps[m.Gap].Before
		before[b] = append(before[b], Step{Wait, r.of[m.Gap]})
		before[b] = append(before[b], r.viewsAnew(r.views[m.Gap])...)
	}
	var steps []Step
	run := 0
	for _, s := range r.steps {
		if s.Free {
			steps = append(steps, Step{Free, s.Node})
			continue
		}
		steps = append(append(steps, before[run]...), Step{Compute, s.Node})
		run++
	}
	return steps
}

// viewsAnew are the steps that make views again: outputs of their nodes that were not live are freed.
func (r *program) viewsAnew(views []int32) (steps []Step) {
	for i, w := range views {
		v := r.values.Maker[w]
		if slices.ContainsFunc(views[:i], func(x int32) bool { return r.values.Maker[x] == v }) {
			continue
		}
		steps = append(steps, Step{Compute, v})
		for u := r.values.First[v]; u < r.values.First[v+1]; u++ {
			if !slices.Contains(views, u) {
				steps = append(steps, Step{Free, u})
			}
		}
	}
	return steps
}

package remat

import (
	"cmp"
	"fmt"
	"slices"
)

// Graph is a problem in its general form: an Instance with the further memory rules of a training
// graph. A task makes any number of values, some tasks never run again, and an output may take over
// the bytes of an input.
//
// Every task runs once in the given order. Extra runs of tasks stand between these first runs (see
// Extra), for example a second run of task 2 before task 9. A reader gets the output of the newest
// run before it. An output lives to its last reader, or during its run without readers.
type Graph struct {
	Tasks  []Task
	Values []Value
	From   int32 // extra runs stand before first runs of tasks at or behind this place only
	// Fixed are extra runs that every answer of a search has, one of a task at most. Bounds and
	// Simulate ignore them.
	Fixed []Extra
	// Beside are bytes by task that count during its first run and extra runs right before it, beside
	// values; nil: none.
	Beside []int64
}

// Task is one computation.
type Task struct {
	Cost      int64   // of one run
	Workspace int64   // bytes that count only during a run
	Uses      []int32 // values that must be live, each once, made by earlier tasks
	Makes     []int32 // values; each value is made by one task

	// InPlace lists those of Uses whose bytes Makes[0] takes over if they are not needed
	// afterwards, in the order of trials. Their sizes are that of Makes[0].
	InPlace []int32
	Once    bool // never runs again
	// Until limits extra runs of the task to those before first runs of tasks up to this place; 0
	// means no limit. Behind it, memory that the task reads besides values may be overwritten.
	Until int32
}

// Value is something that a task makes.
type Value struct {
	Size int64 // bytes, 0 included
	Keep bool  // the first run's output lives to the end

	// Part is the bytes of a value without a Size that may lie in the only output of task Join, which reads it, beside
	// other parts. They count in bounds, at moments when the first output of Join cannot be live, and nowhere else.
	Part int64
	Join int32
}

// Extra is a second or later run of a task: right before the first run of the task Before,
// where extra runs stand in ascending order of their tasks, each task once.
type Extra struct{ Task, Before int32 }

func compareExtras(a, b Extra) int {
	return cmp.Or(cmp.Compare(a.Before, b.Before), cmp.Compare(a.Task, b.Task))
}

// Outcome is the outcome of a list of extra runs.
type Outcome struct {
	Cost int64 // of the extra runs
	Peak int64
	At   int     // place of the first run with the highest need, among all runs
	Live []int64 // bytes during every run, first and extra ones, in order of execution
}

// Run is one execution of a task.
type Run struct {
	Task  int32
	Extra bool
}

// Runs lists all executions in order. The extras must be sorted (see SortExtras).
func (g *Graph) Runs(extras []Extra) []Run {
	runs := make([]Run, 0, len(g.Tasks)+len(extras))
	for t := range g.Tasks {
		for len(extras) > 0 && extras[0].Before == int32(t) {
			runs = append(runs, Run{extras[0].Task, true})
			extras = extras[1:]
		}
		runs = append(runs, Run{Task: int32(t)})
	}
	return runs
}

// SortExtras puts extra runs in the order of execution and drops repetitions.
func SortExtras(extras []Extra) []Extra {
	slices.SortFunc(extras, compareExtras)
	return slices.Compact(extras)
}

// Simulate executes the graph with the given extra runs, which it sorts, and returns the outcome.
// It is the plain definition of the model, in time linear in the graph; searches keep the same
// figures up to date step by step.
func (g *Graph) Simulate(extras []Extra) (*Outcome, error) {
	extras = SortExtras(slices.Clone(extras))
	for _, x := range extras {
		if err := g.checkExtra(x); err != nil {
			return nil, err
		}
	}
	runs := g.Runs(extras)
	out := &Outcome{Live: make([]int64, len(runs))}
	last := g.lastReads(runs)
	end := make([]int32, len(g.Values)) // by value: the last run that needs the newest run's output
	delta := make([]int64, len(runs)+1)
	for i, r := range runs {
		task := &g.Tasks[r.Task]
		if r.Extra {
			out.Cost += task.Cost
		}
		out.Live[i] += task.Workspace - g.takenOver(task, int32(i), end)
		for slot, v := range task.Makes {
			end[v] = last[i][slot]
			if g.Values[v].Keep && !r.Extra {
				end[v] = int32(len(runs)) // no run takes it over
			}
			delta[i] += g.Values[v].Size
			delta[min(int(end[v])+1, len(runs))] -= g.Values[v].Size
		}
	}
	live, stage := int64(0), 0
	for i := range runs {
		live += delta[i]
		out.Live[i] += g.beside(stage)
		if !runs[i].Extra {
			stage++
		}
		if out.Live[i] += live; i == 0 || out.Live[i] > out.Peak {
			out.Peak, out.At = out.Live[i], i
		}
	}
	return out, nil
}

// beside is the bytes beside values at the first run of task t.
func (g *Graph) beside(t int) int64 {
	if g.Beside == nil {
		return 0
	}
	return g.Beside[t]
}

func (g *Graph) checkExtra(x Extra) error {
	switch {
	case x.Task < 0 || int(x.Task) >= len(g.Tasks) || int(x.Before) >= len(g.Tasks) || x.Before <= x.Task:
		return fmt.Errorf("remat: task %d cannot run again before task %d", x.Task, x.Before)
	case g.Tasks[x.Task].Once:
		return fmt.Errorf("remat: task %d must not run again", x.Task)
	case x.Before < g.From:
		return fmt.Errorf("remat: task %d cannot run again before task %d: no task can before task %d",
			x.Task, x.Before, g.From)
	case !g.intime(x.Task, x.Before):
		return fmt.Errorf("remat: task %d cannot run again before task %d: it can up to task %d",
			x.Task, x.Before, g.Tasks[x.Task].Until)
	}
	return nil
}

// latest is the last place up to a given one where a task may be recomputed as far as Until goes.
func (g *Graph) latest(task, before int32) int32 {
	if until := g.Tasks[task].Until; until > 0 {
		return min(before, until)
	}
	return before
}

// intime tells whether a task may still run again before the first run of another.
func (g *Graph) intime(task, before int32) bool {
	return g.latest(task, before) == before
}

// lastReads returns, by run and slot of Makes, the last run that reads the output; the run itself
// without readers.
func (g *Graph) lastReads(runs []Run) [][]int32 {
	last := make([][]int32, len(runs))
	read := make([]int32, len(g.Values)) // by value: the last reader behind the newest run seen from the end, or -1
	for v := range read {
		read[v] = -1
	}
	for i := len(runs) - 1; i >= 0; i-- {
		task := &g.Tasks[runs[i].Task]
		last[i] = make([]int32, len(task.Makes))
		for slot, v := range task.Makes {
			last[i][slot] = max(read[v], int32(i))
			read[v] = -1
		}
		for _, v := range task.Uses {
			if read[v] < 0 {
				read[v] = int32(i)
			}
		}
	}
	return last
}

// takenOver is the bytes that run i saves by writing its first output over an input, whose last
// readers are in end.
func (g *Graph) takenOver(task *Task, i int32, end []int32) int64 {
	if len(task.Makes) == 0 {
		return 0
	}
	for _, u := range task.InPlace {
		if end[u] == i {
			return g.Values[task.Makes[0]].Size
		}
	}
	return 0
}

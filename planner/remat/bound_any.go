package remat

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// Bounds for first computes in any order. In every order, when a task t runs for the first time all
// tasks that it depends on have run, and its dependents have not. Each other task has run or has not:
// if it is needed behind t, its outputs are held or it runs there, which is free if that is its first
// run. So the graph with t as its moment, those other tasks before it and free of cost, has the bounds
// that bound.go proves for a given order.

// kinship is the dependences among tasks.
type kinship struct {
	g     *Graph
	maker []int32 // by value
	kept  []int32 // values
	alone proof   // of anyCost
	words int
	bits  []uint64 // by task: the set of the tasks that it depends on
}

// newKinship follows the inputs of tasks, and the edges given besides.
func newKinship(g *Graph, more func(yield func(from, to int32) bool)) *kinship {
	n := len(g.Tasks)
	k := &kinship{g: g, maker: make([]int32, len(g.Values)), words: (n + 63) / 64}
	k.bits = make([]uint64, n*k.words)
	before := make([][]int32, n)
	for t := range g.Tasks {
		for _, v := range g.Tasks[t].Makes {
			if k.maker[v] = int32(t); g.Values[v].Keep {
				k.kept = append(k.kept, v)
			}
		}
		for _, u := range g.Tasks[t].Uses {
			before[t] = append(before[t], k.maker[u])
		}
	}
	more(func(from, to int32) bool {
		before[to] = append(before[to], from)
		return true
	})
	for t, list := range before {
		row := k.row(int32(t))
		for _, u := range list {
			if row[u/64]>>(u%64)&1 != 0 {
				continue
			}
			row[u/64] |= 1 << (u % 64)
			for i, w := range k.row(u) {
				row[i] |= w
			}
		}
	}
	return k
}

func (k *kinship) row(t int32) []uint64 { return k.bits[int(t)*k.words : (int(t)+1)*k.words] }

// needs tells whether task t depends on task u.
func (k *kinship) needs(t, u int32) bool { return k.row(t)[u/64]>>(u%64)&1 != 0 }

// mostKin is the largest number of tasks whose dependences are found: the sets take the square of it
// in bits.
const mostKin = 20_000

// moment is the graph with the tasks that do not depend on t in front of t, those that t does not
// depend on free of cost, and the place of t there.
func (k *kinship) moment(t int32) (*Graph, int32) {
	g, place := &Graph{}, make([]int32, len(k.g.Values))
	add := func(x int32) {
		task := k.g.Tasks[x]
		task.Uses, task.Makes = make([]int32, len(task.Uses)), nil
		for i, u := range k.g.Tasks[x].Uses {
			task.Uses[i] = place[u]
		}
		free := x != t && !k.needs(t, x) && !k.needs(x, t)
		if free {
			task.Cost, task.Once = 0, false
		}
		for _, v := range k.g.Tasks[x].Makes {
			place[v] = int32(len(g.Values))
			task.Makes = append(task.Makes, place[v])
			value := k.g.Values[v]
			value.Keep = value.Keep && !free
			g.Values = append(g.Values, value)
		}
		g.Tasks = append(g.Tasks, task)
	}
	n := int32(len(k.g.Tasks))
	for x := range n {
		if x != t && !k.needs(x, t) {
			add(x)
		}
	}
	at := int32(len(g.Tasks))
	add(t)
	for x := t + 1; x < n; x++ {
		if k.needs(x, t) {
			add(x)
		}
	}
	return g, at
}

// ranked lists the tasks by the bytes of their moments without recomputation, the highest first, and
// these bytes by task.
func (k *kinship) ranked(most int) (tasks []int32, bytes []int64) {
	n := int32(len(k.g.Tasks))
	readers := make([][]int32, len(k.g.Values))
	reads := 0
	for t := range k.g.Tasks {
		for _, u := range k.g.Tasks[t].Uses {
			readers[u] = append(readers[u], int32(t))
			reads++
		}
	}
	bytes = make([]int64, n)
	stride := max(1, int32(int64(n)*int64(reads)/rankWork))
	for t := int32(0); t < n; t += stride {
		task := &k.g.Tasks[t]
		bytes[t] = task.Workspace
		for _, v := range task.Makes {
			bytes[t] += k.g.Values[v].Size
		}
		for v, m := range k.maker {
			if m != t && !k.needs(m, t) && (k.g.Values[v].Keep && k.needs(t, m) ||
				slices.ContainsFunc(readers[v], func(r int32) bool { return r == t || k.needs(r, t) })) {
				bytes[t] += k.g.Values[v].Size
			}
		}
		tasks = append(tasks, t)
	}
	slices.SortStableFunc(tasks, func(a, b int32) int { return cmp.Compare(bytes[b], bytes[a]) })
	return tasks[:min(len(tasks), most)], bytes
}

const (
	rankWork   = 40_000_000 // pairs of tasks and reads looked at by ranked
	anyMoments = 24         // moments that a bound is looked for at
)

// anyPeak returns a lower bound on the peak with first runs in any order.
func (k *kinship) anyPeak(ctx context.Context, work int64) int64 {
	best := k.lastPeak()
	tasks, bytes := k.ranked(math.MaxInt)
	for i, t := range tasks {
		if bytes[t] <= best || ctx.Err() != nil || work <= 0 || i >= anyMoments {
			break
		}
		g, at := k.moment(t)
		c := newMomentCut(newMoments(g))
		if choice, full := c.smallest(at, work); full {
			best = max(best, choice.bytes)
		}
		work -= c.work() + int64(len(g.Values))
	}
	for t := range k.g.Tasks {
		best = max(best, k.ownPeak(int32(t)))
	}
	return best
}

// ownPeak is the bytes of the first run of t with the kept values that it depends on.
func (k *kinship) ownPeak(t int32) int64 {
	task := &k.g.Tasks[t]
	sum := task.Workspace
	for _, v := range task.Makes {
		sum += k.g.Values[v].Size
	}
	for _, u := range task.Uses {
		if !k.g.Values[u].Keep {
			sum += k.g.Values[u].Size
		}
	}
	for _, v := range k.kept {
		if k.needs(t, k.maker[v]) {
			sum += k.g.Values[v].Size
		}
	}
	return sum
}

// lastPeak is the bytes of the last of all first runs: it has no dependents, and all kept outputs
// are live.
func (k *kinship) lastPeak() int64 {
	kept := int64(0)
	for _, v := range k.kept {
		kept += k.g.Values[v].Size
	}
	needed := make([]uint64, k.words)
	for t := range k.g.Tasks {
		for i, w := range k.row(int32(t)) {
			needed[i] |= w
		}
	}
	least := int64(math.MaxInt64)
	for t := range k.g.Tasks {
		if needed[t/64]>>(t%64)&1 != 0 {
			continue
		}
		task := &k.g.Tasks[t]
		sum := task.Workspace
		for _, list := range [][]int32{task.Makes, task.Uses} {
			for _, v := range list {
				if !k.g.Values[v].Keep {
					sum += k.g.Values[v].Size
				}
			}
		}
		least = min(least, sum)
	}
	if least == math.MaxInt64 {
		return 0
	}
	return kept + least
}

// anyCost returns a lower bound on the cost of extra runs with first runs in any order;
// math.MaxInt64 where there is no schedule within the budget. best is a bound that is known; tight
// tells to branch where prices leave bytes free.
func (k *kinship) anyCost(ctx context.Context, budget, work, best int64, tight bool) int64 {
	tasks, bytes := k.ranked(anyMoments)
	for _, t := range tasks {
		if bytes[t] <= budget || ctx.Err() != nil || work <= 0 {
			break
		}
		g, at := k.moment(t)
		b := newBounder(ctx, newMoments(g), budget, work)
		b.best = best
		b.only(at, tight)
		best = b.best
		k.learn(b, t, at)
		work -= b.spent()
	}
	return best
}

// learn takes over the proof at the moment of t, which is task at of the bounder's graph.
func (k *kinship) learn(b *bounder, t, at int32) {
	if b.alone.extra > k.alone.extra && b.alone.t == at {
		k.alone = proof{t, b.alone.price, b.alone.extra}
	}
}

// only looks for the best bound of one moment.
func (b *bounder) only(t int32, tight bool) {
	if !b.start() {
		return
	}
	for s := range b.views {
		if int32(s) != t {
			b.views[s].promise = 0
		}
	}
	for b.ctx.Err() == nil && b.spent() < b.limit && b.promising() == t && b.improve(t) {
	}
	if left := b.limit - b.spent(); tight && b.best > 0 && b.best < math.MaxInt64 && left > 0 {
		b.at = t
		b.best = max(b.best, b.tighten(0, min(branchWork/anyMoments, left)))
	}
}

package remat

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
)

// Bounds for first computes in any order. In every order, when a task t runs for the first time all
// tasks that it depends on have run, and its dependents have not. Each other task has run or has not:
// if it is needed behind t, its outputs are held or it runs there, which is free if that is its first
// run. So the graph with t as its moment, those other tasks before it and free of cost, has the bounds
// that bound.go proves for a given order.

// kinship is the dependences among tasks.
type kinship struct {
	g       *Graph
	maker   []int32   // by value
	kept    []int32   // values, in the order of their makers
	reads   [][]int32 // by value: the tasks that read it
	before  [][]int32 // by task: those that it directly depends on
	behind  [][]int32 // by task: those that directly depend on it
	alone   proof     // of anyCost
	highest []int32   // see ranked
	bytes   []int64

	// The sides of all tasks, seen from the one looked at last; see look.
	looked int32
	side   []side
	queue  []int32
}

// side says where a task runs, seen from another one.
type side uint8

const (
	anywhere side = iota
	earlier       // the other task depends on it
	later         // it depends on the other task
)

// newKinship follows the inputs of tasks, and the edges given besides. All lead from an earlier task to a later one.
func newKinship(g *Graph, more func(yield func(from, to int32) bool)) *kinship {
	n := len(g.Tasks)
	k := &kinship{g: g, maker: make([]int32, len(g.Values)), reads: make([][]int32, len(g.Values)),
		before: make([][]int32, n), behind: make([][]int32, n), looked: -1, side: make([]side, n)}
	link := func(from, to int32) bool {
		k.before[to] = append(k.before[to], from)
		k.behind[from] = append(k.behind[from], to)
		return true
	}
	for t := range g.Tasks {
		for _, v := range g.Tasks[t].Makes {
			if k.maker[v] = int32(t); g.Values[v].Keep {
				k.kept = append(k.kept, v)
			}
		}
		for _, u := range g.Tasks[t].Uses {
			k.reads[u] = append(k.reads[u], int32(t))
			link(k.maker[u], int32(t))
		}
	}
	more(link)
	return k
}

// look finds the sides of all tasks, seen from t.
func (k *kinship) look(t int32) {
	if k.looked == t {
		return
	}
	k.looked = t
	clear(k.side)
	k.spread(t, earlier, k.before)
	k.spread(t, later, k.behind)
}

func (k *kinship) spread(t int32, to side, next [][]int32) {
	k.queue = append(k.queue[:0], t)
	for len(k.queue) > 0 {
		x := k.queue[len(k.queue)-1]
		k.queue = k.queue[:len(k.queue)-1]
		for _, y := range next[x] {
			if k.side[y] == anywhere {
				k.side[y] = to
				k.queue = append(k.queue, y)
			}
		}
	}
}

// moment is the graph with the tasks that do not depend on t in front of t, those that t does not
// depend on free of cost, and the place of t there.
func (k *kinship) moment(t int32) (*Graph, int32) {
	k.look(t)
	g, place := &Graph{}, make([]int32, len(k.g.Values))
	add := func(x int32) {
		task := k.g.Tasks[x]
		task.Uses, task.Makes = make([]int32, len(task.Uses)), nil
		for i, u := range k.g.Tasks[x].Uses {
			task.Uses[i] = place[u]
		}
		free := x != t && k.side[x] == anywhere
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
		if x != t && k.side[x] != later {
			add(x)
		}
	}
	at := int32(len(g.Tasks))
	add(t)
	for x := t + 1; x < n; x++ {
		if k.side[x] == later {
			add(x)
		}
	}
	return g, at
}

// ranked lists tasks by the bytes of their moments without recomputation, the highest first, and these bytes by
// task: all tasks, or where they are too many some at equal distances and those around the highest of these.
func (k *kinship) ranked(ctx context.Context, most int) (tasks []int32, bytes []int64) {
	if k.bytes == nil {
		k.rank(ctx)
	}
	return k.highest[:min(len(k.highest), most)], k.bytes
}

func (k *kinship) rank(ctx context.Context) {
	n, reads := int32(len(k.g.Tasks)), 0
	for _, list := range k.reads {
		reads += len(list)
	}
	k.bytes = make([]int64, n)
	rate := func(from, to, step int32) {
		for t := max(0, from); t < min(to, n) && ctx.Err() == nil; t += step {
			if k.bytes[t] == 0 {
				k.bytes[t] = k.momentBytes(t)
				k.highest = append(k.highest, t)
			}
		}
		slices.SortStableFunc(k.highest, func(a, b int32) int { return cmp.Compare(k.bytes[b], k.bytes[a]) })
	}
	stride := max(1, int32(int64(n)*int64(reads)/rankWork))
	rate(0, n, stride)
	for stride > 1 && len(k.highest) > 0 {
		top, step := k.highest[0], max(1, stride/rankFiner)
		rate(top-stride+step, top+stride, step)
		stride = step
	}
}

// momentBytes is the bytes of the moment of t without recomputation.
func (k *kinship) momentBytes(t int32) int64 {
	k.look(t)
	task := &k.g.Tasks[t]
	sum := task.Workspace
	for _, v := range task.Makes {
		sum += k.g.Values[v].Size
	}
	for v, m := range k.maker {
		if m != t && k.side[m] != later && (k.g.Values[v].Keep && k.side[m] == earlier ||
			slices.ContainsFunc(k.reads[v], func(r int32) bool { return r == t || k.side[r] == later })) {
			sum += k.g.Values[v].Size
		}
	}
	return sum
}

const (
	rankWork   = 40_000_000  // pairs of tasks and reads looked at by ranked
	rankFiner  = 16          // distances between ranked tasks become so many times smaller around the highest
	anyMoments = 24          // moments that a bound is looked for at
	keptWork   = 200_000_000 // pairs of tasks and kept values looked at by keptBefore
)

// anyPeak returns a lower bound on the peak with first runs in any order.
func (k *kinship) anyPeak(ctx context.Context, work int64) int64 {
	best := k.lastPeak()
	tasks, bytes := k.ranked(ctx, math.MaxInt)
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
	return max(best, k.ownPeak())
}

// ownPeak is the most bytes of the first run of a task with the kept values that it depends on.
func (k *kinship) ownPeak() (most int64) {
	kept := k.keptBefore()
	for t := range k.g.Tasks {
		task := &k.g.Tasks[t]
		sum := task.Workspace + kept[t]
		for _, v := range task.Makes {
			sum += k.g.Values[v].Size
		}
		for _, u := range task.Uses {
			if !k.g.Values[u].Keep {
				sum += k.g.Values[u].Size
			}
		}
		most = max(most, sum)
	}
	return most
}

// keptBefore is by task the bytes of the kept values that it depends on, or of fewer of them where they are too many.
func (k *kinship) keptBefore() []int64 {
	sums, has := make([]int64, len(k.g.Tasks)), make([]uint64, len(k.g.Tasks))
	left := int64(keptWork)
	for group := range slices.Chunk(k.kept, 64) { // a bit of has for each
		if left -= int64(len(k.g.Tasks)) * int64(len(group)); left < 0 {
			break
		}
		clear(has)
		made := 0
		for t := range k.g.Tasks {
			for _, u := range k.before[t] {
				has[t] |= has[u]
			}
			for set := has[t]; set != 0; set &= set - 1 {
				sums[t] += k.g.Values[group[bits.TrailingZeros64(set)]].Size
			}
			for ; made < len(group) && k.maker[group[made]] == int32(t); made++ {
				has[t] |= 1 << made
			}
		}
	}
	return sums
}

// lastPeak is the bytes of the last of all first runs: it has no dependents, and all kept outputs
// are live.
func (k *kinship) lastPeak() int64 {
	kept := int64(0)
	for _, v := range k.kept {
		kept += k.g.Values[v].Size
	}
	least := int64(math.MaxInt64)
	for t := range k.g.Tasks {
		if len(k.behind[t]) > 0 {
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
	tasks, bytes := k.ranked(ctx, anyMoments)
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

package offload

import (
	"container/heap"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/planner/remat"
)

// exhausted is a state of a schedule of a small problem without views, in the given order of first
// computes. Times are whole, and relative to the clock of computations.
type exhausted struct {
	next       int8 // computed so far, in order
	live, host uint16
	in         uint16    // values that come back and have not been waited for
	out        [12]int16 // until the copy out ends
	back       [12]int16 // until the copy back ends
}

// exhaust finds the shortest makespan of all schedules that end before a limit, or the limit: uniform-cost
// search over states, with the cost of the nodes that have not been computed added. Copies take length[u].
// It gives up, with false, behind so many states.
type exhaust struct {
	p      *remat.Problem
	length []int16
	limit  int
	rest   []int // cost of the nodes from one on
	heap   exhaustHeap
	seen   map[exhausted]int
}

type exhaustItem struct {
	state exhausted
	time  int // with rest
}

type exhaustHeap []exhaustItem

func (h exhaustHeap) Len() int           { return len(h) }
func (h exhaustHeap) Less(i, j int) bool { return h[i].time < h[j].time }
func (h exhaustHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *exhaustHeap) Push(x any)        { *h = append(*h, x.(exhaustItem)) }
func (h *exhaustHeap) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

func exhaustively(p *remat.Problem, length []int16, limit, most int) (best int, ok bool) {
	n := len(p.Nodes)
	e := &exhaust{p: p, length: length, limit: limit, rest: make([]int, n+1), seen: map[exhausted]int{}}
	for v := n - 1; v >= 0; v-- {
		e.rest[v] = e.rest[v+1] + int(p.Nodes[v].Cost)
	}
	e.push(exhausted{}, 0)
	for len(e.heap) > 0 {
		x := heap.Pop(&e.heap).(exhaustItem)
		if x.time > e.seen[x.state] {
			continue
		}
		if int(x.state.next) == n {
			return x.time, true
		}
		if len(e.seen) > most {
			return 0, false
		}
		e.expand(x.state, x.time-e.rest[x.state.next])
	}
	return limit, true
}

// push takes a state at a time, unless it cannot end before the limit.
func (e *exhaust) push(s exhausted, time int) {
	time += e.rest[s.next]
	if old, ok := e.seen[s]; time >= e.limit || ok && old <= time {
		return
	}
	e.seen[s] = time
	heap.Push(&e.heap, exhaustItem{s, time})
}

func (e *exhaust) bytes(s exhausted) (sum int64) {
	for u := range e.p.Nodes {
		if s.live>>u&1 != 0 {
			sum += e.p.Nodes[u].Outputs[0].Size
		}
	}
	return sum
}

// passed is a state so much later.
func passed(s exhausted, time int16) exhausted {
	for u := range s.out {
		s.out[u], s.back[u] = max(0, s.out[u]-time), max(0, s.back[u]-time)
	}
	return s
}

func (e *exhaust) expand(s exhausted, now int) {
	bytes := e.bytes(s)
	for v := range e.p.Nodes {
		node, bit := &e.p.Nodes[v], uint16(1)<<v
		size := node.Outputs[0].Size
		if s.live&bit == 0 {
			e.compute(s, v, now, bytes)
			if s.host&bit != 0 && bytes+size <= e.p.Budget {
				next, busy := s, int16(0)
				for u := range s.back {
					busy = max(busy, s.back[u])
				}
				next.live, next.in = s.live|bit, s.in|bit
				next.back[v] = busy + e.length[v]
				e.push(next, now)
			}
			continue
		}
		if s.in&bit != 0 || node.Outputs[0].Keep {
			continue
		}
		freed := passed(s, s.out[v])
		freed.live &^= bit
		e.push(freed, now+int(s.out[v]))
		if s.host&bit == 0 {
			next, busy := s, int16(0)
			for u := range s.out {
				busy = max(busy, s.out[u])
			}
			next.host |= bit
			next.out[v] = busy + e.length[v]
			e.push(next, now)
		}
	}
}

func (e *exhaust) compute(s exhausted, v, now int, bytes int64) {
	node := &e.p.Nodes[v]
	if v > int(s.next) || v < int(s.next) && node.Once || bytes+node.Outputs[0].Size > e.p.Budget {
		return
	}
	wait := int16(0)
	for _, u := range node.Inputs {
		if s.live>>u&1 == 0 {
			return
		}
		if s.in>>u&1 != 0 {
			wait = max(wait, s.back[u])
			s.in &^= 1 << u
		}
	}
	took := int(wait) + int(node.Cost)
	s = passed(s, int16(took))
	for _, u := range node.Inputs {
		s.back[u] = 0
	}
	s.live |= 1 << v
	s.host &^= 1 << v
	s.out[v] = 0
	if v == int(s.next) {
		s.next++
	}
	e.push(s, now+took)
}

// smallProblem is a random training graph: a forward half, and a backward half that reads it in reverse.
func smallProblem(rng *rand.Rand) *remat.Problem {
	p := &remat.Problem{Unit: "us", InOrder: true}
	half := 2 + rng.IntN(4)
	add := func(inputs ...int32) {
		p.Nodes = append(p.Nodes, remat.Computation{Cost: float64(1 + rng.IntN(9)), Inputs: inputs,
			Outputs: []remat.Output{{Size: int64(1 + rng.IntN(6))}}, Once: rng.IntN(8) == 0})
	}
	add()
	for v := 1; v < half; v++ {
		if inputs := []int32{int32(v - 1)}; v > 1 && rng.IntN(3) == 0 {
			add(append(inputs, int32(rng.IntN(v-1)))...)
		} else {
			add(inputs...)
		}
	}
	for v := half - 1; v >= 0; v-- {
		inputs := []int32{int32(len(p.Nodes) - 1)}
		if int(inputs[0]) != v {
			inputs = append(inputs, int32(v))
		}
		add(inputs...)
	}
	p.Nodes[len(p.Nodes)-1].Outputs[0].Keep = true
	return p
}

var problems = flag.Int("problems", 30, "how many problems TestBruteForce solves by brute force")

// TestBruteForce compares answers and bounds with the best of all schedules of small problems. The bound
// never exceeds it, and the answer is never better; nine of ten answers are as good, and each problem that
// has an answer gets one.
func TestBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 7))
	solved, reached, bounds, excess, missed, refuted, skipped := 0, 0, 0, 0.0, 0, 0, 0
	for solved < *problems {
		p := smallProblem(rng)
		rate := []float64{0.25, 0.5, 1, 2}[rng.IntN(4)] // bytes per us: times of copies are whole
		link := Link{BytesPerSecond: rate * 1e6}
		length := make([]int16, len(p.Nodes))
		for v := range length {
			length[v] = int16(math.Ceil(float64(p.Nodes[v].Outputs[0].Size) / rate))
			p.Nodes[v].Outputs[0].Size = int64(float64(length[v]) * rate)
			if p.Nodes[v].Outputs[0].Size == 0 {
				p.Nodes[v].Outputs[0].Size, length[v] = int64(math.Ceil(rate)), int16(math.Ceil(1/rate))
			}
		}
		_, peak, err := p.Simulate(plain(p))
		require.NoError(t, err)
		need := int64(0)
		for _, n := range p.Nodes {
			sum := n.Outputs[0].Size
			for _, u := range n.Inputs {
				sum += p.Nodes[u].Outputs[0].Size
			}
			need = max(need, sum)
		}
		p.Budget = need + int64(rng.Float64()*float64(peak-need))
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		s, err := Solve(ctx, p, Options{Link: link, HostBudget: 1 << 40, Work: 2_000_000})
		stop()
		limit := int(p.BaseCost())*3 + 200
		if err == nil {
			limit = int(math.Ceil(s.Makespan)) + 1
		}
		best, ok := exhaustively(p, length, limit, 400_000)
		if !ok {
			skipped++
			continue
		}
		if err != nil {
			require.ErrorIs(t, err, remat.ErrInfeasible)
			if refuted++; best < limit {
				missed++
				t.Logf("missed %d: %s", best, text(p, rate))
			}
			continue
		}
		solved++
		require.LessOrEqual(t, s.LowerBound, float64(best)+1e-6, "%+v", p)
		require.GreaterOrEqual(t, s.Makespan, float64(best)-1e-6, "%+v", p)
		if s.Makespan <= float64(best)+1e-6 {
			reached++
		} else {
			if testing.Verbose() {
				t.Logf("%v against %d: %s", s.Makespan, best, text(p, rate))
			}
			excess += s.Makespan/float64(best) - 1
		}
		if s.LowerBound >= float64(best)-1e-6 {
			bounds++
		}
	}
	t.Logf("%d problems: %d answers are the best, the others %.2f %% above it; %d bounds are", solved, reached,
		100*excess/float64(max(1, solved-reached)), bounds)
	t.Logf("%d without an answer, %d that have one; %d were too large", refuted, missed, skipped)
	require.GreaterOrEqual(t, 10*reached, 9*solved)
	require.LessOrEqual(t, 100*missed, solved)
}

// text is a problem in short: cost/size of each node and its inputs.
func text(p *remat.Problem, rate float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "budget %d, %g bytes/us:", p.Budget, rate)
	for v := range p.Nodes {
		n := &p.Nodes[v]
		fmt.Fprintf(&b, " %g/%d%v", n.Cost, n.Outputs[0].Size, n.Inputs)
		if n.Once {
			b.WriteString("once")
		}
	}
	return b.String()
}

// plain computes every node once, and frees values behind their last readers.
func plain(p *remat.Problem) (steps []remat.Step) {
	last := make([]int, len(p.Nodes))
	for v := range p.Nodes {
		last[v] = v
		for _, u := range p.Nodes[v].Inputs {
			last[u] = v
		}
	}
	for v := range p.Nodes {
		steps = append(steps, remat.Step{Node: int32(v)})
		for u := range p.Nodes {
			if last[u] == v && !p.Nodes[u].Outputs[0].Keep {
				steps = append(steps, remat.Step{Free: true, Node: int32(u)})
			}
		}
	}
	return steps
}

package remat

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// repeated is a training graph of equal layers that are drawn at random: forward tasks that read others of their layer
// and the output of the layer before, and backward tasks that read forward values of their layer. The layer odd, if
// there is one, makes a value that is larger by a byte.
func repeated(rng *rand.Rand, layers, odd int) *Graph {
	g := &Graph{}
	add := func(cost, size int64, uses ...int32) int32 {
		v := int32(len(g.Values))
		slices.Sort(uses)
		g.Values = append(g.Values, Value{Size: size})
		g.Tasks = append(g.Tasks, Task{Cost: cost, Uses: slices.Compact(uses), Makes: []int32{v}})
		return v
	}
	type made struct {
		cost, size int64
		uses       []int // of the layer, from 1 on; 0 is its input
	}
	draw := func(n, most int) (list []made) {
		for i := range n {
			m := made{cost: 1 + rng.Int64N(30), size: 1 + rng.Int64N(40)}
			for range 1 + rng.IntN(2) {
				m.uses = append(m.uses, rng.IntN(min(most, 1+i)))
			}
			list = append(list, m)
		}
		return list
	}
	n := 2 + rng.IntN(5)
	forth, back := draw(n, math.MaxInt), draw(n, 1)
	reads := make([][]int, n)
	for i := range reads {
		reads[i] = append(reads[i], rng.IntN(n+1))
	}
	var all [][]int32
	x := add(1, 20)
	for l := range layers {
		values := []int32{x}
		for i, m := range forth {
			var uses []int32
			for _, u := range m.uses {
				uses = append(uses, values[u])
			}
			if l == odd && i == 0 {
				m.size++
			}
			values = append(values, add(m.cost, m.size, uses...))
		}
		all = append(all, values)
		x = values[n]
	}
	d := add(1, 20, x)
	for l := layers - 1; l >= 0; l-- {
		for i, m := range back {
			d = add(m.cost, m.size, d, all[l][reads[i][0]])
		}
	}
	return g
}

// tight is a bounder at work on a graph: it has found the moment that proves most.
func tight(g *Graph, share int64) *bounder {
	plain, _ := g.Simulate(nil)
	b := newBounder(context.Background(), newMoments(g), plain.Peak*share/100, 0)
	b.run()
	return b
}

// TestPieces: any choice of the pieces between two cuts has the bytes and the cost that they add up to.
func TestPieces(t *testing.T) {
	many, rng := 0, rand.New(rand.NewPCG(1, 1))
	for range 600 {
		g := repeated(rng, 1+rng.IntN(8), rng.IntN(9))
		if rng.IntN(3) == 0 {
			g = randomGraph(rng, 2+rng.IntN(12))
		}
		m := newMoments(g)
		b := newBounder(t.Context(), m, math.MaxInt64/4, 0)
		b.at = rng.Int32N(int32(m.n))
		price := math.Exp2(8*rng.Float64() - 4)
		_, one, full := b.cut.price(b.at, price, b.budget, math.MaxInt64)
		require.True(t, full)
		again, first := slices.Clone(b.cut.again), slices.Clone(b.cut.net.level)
		_, other, full := b.cut.price(b.at, price*math.Exp2(4*rng.Float64()-2), b.budget, math.MaxInt64)
		require.True(t, full)
		second := slices.Clone(b.cut.net.level)
		pieces := b.pieces(first, second)
		for _, p := range pieces {
			one.bytes -= p.bytes
			one.cost += p.cost
		}
		require.Equal(t, other, one, "all pieces")
		for _, p := range pieces {
			if rng.IntN(2) == 0 {
				one.bytes += p.bytes
				one.cost -= p.cost
				continue
			}
			for _, x := range p.runs {
				require.False(t, again[x])
				again[x] = true
			}
			for _, x := range p.ends {
				require.True(t, again[x])
				again[x] = false
			}
		}
		b.judge(again)
		require.LessOrEqual(t, b.bytes[b.at], one.bytes)
		require.LessOrEqual(t, b.costs[b.at], one.cost)
		if len(pieces) > 2 {
			many++
		}
	}
	require.Greater(t, many, 20)
}

// TestClassesOfLayers: equal layers have the same classes, however many there are, and a layer that differs by one
// size has classes of its own.
func TestClassesOfLayers(t *testing.T) {
	classes := func(g *Graph) []pieceClass {
		b := tight(g, 40)
		_, _, sides := b.cutsAt(steeps[:2])
		require.Greater(t, len(sides), 1)
		list := classify(nil, b.pieces(sides[0], sides[1]))
		order(list)
		return list
	}
	few, more := classes(transformer(40)), classes(transformer(80))
	require.Equal(t, len(few), len(more))
	for i, c := range few {
		require.Equal(t, c.bytes, more[i].bytes)
		require.Equal(t, c.cost, more[i].cost)
		if n := len(c.pieces); n > 2 { // classes of one or two pieces are those of the ends
			require.InDelta(t, 2*n, len(more[i].pieces), 4)
		}
		require.True(t, slices.IsSortedFunc(c.pieces, func(p, q piece) int { return int(q.next - p.next) }))
	}
	altered := transformer(40)
	altered.Values[20*14+11].Size += 4
	alone := 0
	for _, c := range classes(altered) {
		if !slices.ContainsFunc(few, func(d pieceClass) bool { return c.bytes == d.bytes && c.cost == d.cost }) {
			require.Len(t, c.pieces, 1)
			alone++
		}
	}
	require.Positive(t, alone)
}

// TestCheapestCover compares it with all counts.
func TestCheapestCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var classes []pieceClass
		total := int64(0)
		for range rapid.IntRange(1, 4).Draw(t, "classes") {
			c := pieceClass{bytes: rapid.Int64Range(1, 20).Draw(t, "bytes"),
				cost:   rapid.Int64Range(0, 20).Draw(t, "cost"),
				pieces: make([]piece, rapid.IntRange(1, 5).Draw(t, "pieces"))}
			total += c.bytes * int64(len(c.pieces))
			classes = append(classes, c)
		}
		order(classes)
		bytes := rapid.Int64Range(1, total+3).Draw(t, "wanted")
		best := int64(math.MaxInt64)
		var try func(i int, saved, cost int64)
		try = func(i int, saved, cost int64) {
			if i == len(classes) {
				if saved >= bytes {
					best = min(best, cost)
				}
				return
			}
			for k := range len(classes[i].pieces) + 1 {
				try(i+1, saved+int64(k)*classes[i].bytes, cost+int64(k)*classes[i].cost)
			}
		}
		try(0, 0, 0)
		got := cheapestCover(classes, bytes)
		require.Equal(t, best == math.MaxInt64, got == nil)
		saved, cost := int64(0), int64(0)
		for i, k := range got {
			require.LessOrEqual(t, k, len(classes[i].pieces))
			saved, cost = saved+int64(k)*classes[i].bytes, cost+int64(k)*classes[i].cost
		}
		if got != nil {
			require.GreaterOrEqual(t, saved, bytes)
			require.Equal(t, best, cost)
		}
	})
}

// TestMixed: a mixture costs no less than the bound and no more than the cut that fits, and it fits.
func TestMixed(t *testing.T) {
	cheaper, tries, rng := 0, 0, rand.New(rand.NewPCG(2, 1))
	for range 600 {
		g := repeated(rng, 2+rng.IntN(12), rng.IntN(20))
		b := tight(g, 40+rng.Int64N(50))
		if b.best == 0 || b.best == math.MaxInt64 {
			continue
		}
		judged := func(tasks []int32) (bytes, cost int64) {
			again := make([]bool, b.n)
			for _, x := range tasks {
				again[x] = true
			}
			b.judge(again)
			return b.bytes[b.at], b.costs[b.at]
		}
		whole := b.suggestion()
		mixed := b.mixed()
		require.Equal(t, mixed, b.mixed())
		if whole == nil || mixed == nil {
			continue
		}
		tries++
		_, most := judged(whole)
		bytes, cost := judged(mixed)
		require.LessOrEqual(t, bytes, b.budget)
		require.GreaterOrEqual(t, cost, b.best)
		require.LessOrEqual(t, cost, most)
		if cost < most {
			cheaper++
		}
	}
	t.Logf("%d of %d mixtures are cheaper than a whole cut", cheaper, tries)
	require.Greater(t, cheaper, tries/4)
}

// TestFirstAnswerOfClasses: the first plan of a graph of equal layers is proved to be the optimum, however many there
// are.
func TestFirstAnswerOfClasses(t *testing.T) {
	for _, layers := range []int{20, 200} {
		g := transformer(layers)
		in := &Instance{}
		for _, task := range g.Tasks {
			size := g.Values[task.Makes[0]].Size
			in.Nodes = append(in.Nodes, Node{Cost: task.Cost, Size: size, Inputs: task.Uses, Alias: -1})
		}
		for _, share := range []int64{70, 50, 30} {
			in.Budget = in.OnePassPeak() * share / 100
			r, err := Solve(t.Context(), in, Options{First: true})
			require.NoError(t, err)
			t.Logf("%d layers, %d %%: %d of at least %d by %s", layers, share, r.Cost, r.CostLowerBound, r.Solver)
			require.True(t, r.Optimal)
		}
	}
}

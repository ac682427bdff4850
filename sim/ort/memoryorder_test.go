package ort

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// refOrder is a second, naive implementation of ONNX Runtime's memory-efficient order for graphs
// with a YieldOp: sets of strings for tags, linear searches in lists, recursion. It follows the
// written description of the algorithm step by step.
func refOrder(g *graph.Graph, yield int) []int {
	ins := refInEdges(g)
	outs := make([][][3]int, len(g.Nodes))
	for c := range ins {
		for _, e := range ins[c] {
			outs[e[0]] = append(outs[e[0]], [3]int{c, e[1], e[2]})
		}
	}
	for i := range outs {
		sort.Slice(outs[i], func(a, b int) bool { return slices.Compare(outs[i][a][:], outs[i][b][:]) < 0 })
	}
	isShape := func(n int) bool { return g.Nodes[n].Op == "Shape" || g.Nodes[n].Op == "Size" }

	memo := map[int]int{}
	var distance func(n int) int
	distance = func(n int) int {
		if d, ok := memo[n]; ok {
			return d
		}
		d := 0
		for _, e := range ins[n] {
			d = max(d, distance(e[0])+1)
		}
		memo[n] = d
		return d
	}

	// The forward part.
	var forward []int
	marked := map[int]bool{}
	type frame struct {
		n     int
		leave bool
	}
	var stack []frame
	for _, e := range ins[yield] {
		stack = append(stack, frame{e[0], false})
	}
	for len(stack) > 0 {
		f := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if f.leave {
			forward = append(forward, f.n)
			continue
		}
		if marked[f.n] {
			continue
		}
		marked[f.n] = true
		stack = append(stack, frame{f.n, true})
		var ps []int
		for _, e := range ins[f.n] {
			if !marked[e[0]] {
				ps = append(ps, e[0])
			}
		}
		sort.SliceStable(ps, func(a, b int) bool {
			if distance(ps[a]) != distance(ps[b]) {
				return distance(ps[a]) < distance(ps[b])
			}
			return ps[a] < ps[b]
		})
		for _, p := range ps {
			stack = append(stack, frame{p, false})
		}
	}
	// Shapes of forward values.
	for i := 0; i < len(forward); i++ {
		for n := range g.Nodes {
			if isShape(n) && len(ins[n]) > 0 && ins[n][0][0] == forward[i] && !slices.Contains(forward, n) {
				forward = slices.Insert(forward, i+1, n)
			}
		}
	}
	order := slices.Clone(forward)
	placed := map[int]bool{}
	for _, n := range order {
		placed[n] = true
	}

	// The remaining nodes.
	degree := map[int]int{}
	for n := range g.Nodes {
		if placed[n] || n == yield {
			continue
		}
		for _, e := range ins[n] {
			if !placed[e[0]] {
				degree[n]++
			}
		}
	}
	var side []int
	copied := maps.Clone(degree)
	for n := range g.Nodes {
		if !placed[n] && n != yield && degree[n] == 0 {
			side = append(side, n)
		}
	}
	for i := 0; i < len(side); i++ {
		for _, e := range outs[side[i]] {
			if copied[e[0]]--; copied[e[0]] == 0 {
				side = append(side, e[0])
			}
		}
	}
	isSide := map[int]bool{}
	for _, n := range side {
		isSide[n] = true
	}
	tags := map[int]map[string]bool{}
	var tagsOf func(n int) map[string]bool
	tagsOf = func(n int) map[string]bool {
		if t, ok := tags[n]; ok {
			return t
		}
		t := map[string]bool{}
		for _, e := range outs[n] {
			if isSide[e[0]] {
				maps.Copy(t, tagsOf(e[0]))
			} else {
				t[g.ValueName(g.Nodes[n].Outputs[e[1]])] = true
			}
		}
		if len(outs[n]) == 0 {
			for _, v := range g.Nodes[n].Outputs {
				t[g.ValueName(v)] = true
			}
		}
		tags[n] = t
		return t
	}
	groups := map[string][]int{}
	groupOf := map[int]string{}
	for _, n := range side {
		key := strings.Join(slices.Sorted(maps.Keys(tagsOf(n))), ",")
		groups[key] = append(groups[key], n)
		groupOf[n] = key
		for _, e := range outs[n] {
			if !isSide[e[0]] {
				degree[e[0]]--
			}
		}
	}
	done := map[string]bool{}
	var placeGroup func(key string)
	placeGroup = func(key string) {
		if done[key] {
			return
		}
		done[key] = true
		for _, n := range groups[key] {
			for _, e := range ins[n] {
				if k, ok := groupOf[e[0]]; ok {
					placeGroup(k)
				}
			}
		}
		order = append(order, groups[key]...)
	}
	queue := []int{yield}
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		for _, e := range ins[n] {
			if k, ok := groupOf[e[0]]; ok {
				placeGroup(k)
			}
		}
		order = append(order, n)
		for _, e := range outs[n] {
			if degree[e[0]]--; degree[e[0]] == 0 {
				queue = append(queue, e[0])
			}
		}
	}
	byName := map[string]string{} // output name → group
	for key, nodes := range groups {
		for _, n := range nodes {
			crosses := map[int]bool{}
			for _, e := range outs[n] {
				if groupOf[e[0]] != key {
					crosses[e[1]] = true
				}
			}
			for slot, v := range g.Nodes[n].Outputs {
				if len(outs[n]) == 0 || crosses[slot] {
					byName[g.ValueName(v)] = key
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		placeGroup(byName[name])
	}
	return order
}

// refInEdges lists (producer, output, input) of every node, sorted.
func refInEdges(g *graph.Graph) [][][3]int {
	ins := make([][][3]int, len(g.Nodes))
	for c, n := range g.Nodes {
		for slot, v := range n.Inputs {
			if v != graph.NoValue && g.Values[v].Def != graph.NoNode {
				ins[c] = append(ins[c], [3]int{int(g.Values[v].Def), int(g.Values[v].DefSlot), slot})
			}
		}
		sort.Slice(ins[c], func(a, b int) bool { return slices.Compare(ins[c][a][:], ins[c][b][:]) < 0 })
	}
	return ins
}

// randomJoint makes a graph of n nodes around a YieldOp: operators without meaning, with Shape
// nodes, nodes of several outputs, side chains and dead ends.
func randomJoint(rng *rand.Rand, n int) (*graph.Graph, graph.NodeID) {
	g := graph.New("random", nil)
	x := g.Value("x")
	if err := g.AddInput(graph.Decl{Value: x}); err != nil {
		panic(err)
	}
	values := []graph.ValueID{x}
	at := n/3 + rng.IntN(n/3+1)
	for i := range n {
		node := &graph.Node{Name: fmt.Sprintf("n%d", i), Op: "Add"}
		switch {
		case i == at:
			node.Op, node.Domain = "YieldOp", "com.microsoft"
		case rng.IntN(6) == 0:
			node.Op = "Shape"
		}
		node.Kind = op.Lookup(node.Domain, node.Op)
		for range 1 + rng.IntN(3) {
			if rng.IntN(5) == 0 {
				node.Inputs = append(node.Inputs, x)
				continue
			}
			// Mostly near values, sometimes far ones.
			back := 1 + rng.IntN(min(len(values), 1+rng.IntN(len(values))))
			node.Inputs = append(node.Inputs, values[len(values)-back])
			if node.Op == "Shape" {
				break
			}
		}
		for k := range 1 + rng.IntN(2) {
			v := g.Value(fmt.Sprintf("v%d_%d", rng.IntN(1000)*1000+i, k))
			node.Outputs = append(node.Outputs, v)
			values = append(values, v)
		}
		if err := g.AddNode(node); err != nil {
			panic(err)
		}
	}
	return g, graph.NodeID(at)
}

// TestOrderAgainstReference compares the order with the second implementation.
func TestOrderAgainstReference(t *testing.T) {
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 7))
		g, yield := randomJoint(rng, 3+rng.IntN(60))
		if hasShapeOfShape(g) {
			continue // ONNX Runtime's order of these depends on its hash tables
		}
		got := MemoryEfficientOrder(g, yield)
		require.NoError(t, got.Check(g), "seed %d", seed)
		want := refOrder(g, int(yield))
		ints := make([]int, len(got))
		for i, id := range got {
			ints[i] = int(id)
		}
		require.Equal(t, want, ints, "seed %d", seed)
	}
}

func hasShapeOfShape(g *graph.Graph) bool {
	for _, n := range g.Nodes {
		if n.Op != "Shape" {
			continue
		}
		if def := g.Values[n.Inputs[0]].Def; def != graph.NoNode && g.Nodes[def].Op == "Shape" {
			return true
		}
	}
	return false
}

// TestOrderWithoutYield checks that the walk from the leaves is a topological order and puts Shape
// nodes right after their producers.
func TestOrderWithoutYield(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 8))
		g, _ := randomJoint(rng, 3+rng.IntN(60))
		order := MemoryEfficientOrder(g, graph.NoNode)
		require.NoError(t, order.Check(g), "seed %d", seed)
		pos := order.Positions()
		for _, n := range g.Nodes {
			if n.Op != "Shape" {
				continue
			}
			def := g.Values[n.Inputs[0]].Def
			if def == graph.NoNode {
				continue
			}
			for at := pos[def] + 1; at < pos[n.ID]; at++ {
				require.Equal(t, "Shape", g.Nodes[order[at]].Op, "seed %d: %s stands away from its producer",
					seed, n.Name)
			}
		}
	}
}

// TestPriorityOrder compares the order with that of a list of all ready nodes, of which the first is taken: Shape
// nodes before others, then the first in the file.
func TestPriorityOrder(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		g, _ := randomJoint(rng, 3+rng.IntN(60))
		done := make([]bool, len(g.Nodes))
		var want graph.Order
		for range g.Nodes {
			best := graph.NoNode
			for i, n := range g.Nodes {
				waits := slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool {
					def := g.Values[v].Def
					return def != graph.NoNode && !done[def]
				})
				if !done[i] && !waits && (best == graph.NoNode || n.Op == "Shape" && g.Nodes[best].Op != "Shape") {
					best = graph.NodeID(i)
				}
			}
			done[best] = true
			want = append(want, best)
		}
		require.Equal(t, want, PriorityOrder(g), "seed %d", seed)
	}
}

// TestIDSets compares the shared sets with Go maps.
func TestIDSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := newIDSets()
	type pair struct {
		id  setID
		set map[uint32]bool
	}
	list := []pair{{emptySet, map[uint32]bool{}}}
	for range 3000 {
		if rng.IntN(3) == 0 {
			x := rng.Uint32N(40)
			if rng.IntN(4) == 0 {
				x = rng.Uint32()
			}
			list = append(list, pair{s.single(x), map[uint32]bool{x: true}})
			continue
		}
		a, b := list[rng.IntN(len(list))], list[rng.IntN(len(list))]
		u := maps.Clone(a.set)
		maps.Copy(u, b.set)
		list = append(list, pair{s.union(a.id, b.id), u})
	}
	for _, a := range list {
		b := list[rng.IntN(len(list))]
		require.Equal(t, maps.Equal(a.set, b.set), a.id == b.id, "%v %v", a.set, b.set)
	}
}

package remat

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// The bound of a moment with one price leaves the remainder of a division: pieces of equal layers exchange 2 MiB each,
// and the bytes that are free are no multiple of that. A cut that is not the minimum is dearer by the flow's residual
// capacities that it crosses, and by the price of the bytes that it leaves free. So, to be cheaper than a plan at hand,
// a choice crosses no arc with more residual capacity than that plan costs beyond the bound. These arcs decide about
// most nodes; the others fall into pieces of a few nodes each, and one piece of each class, told by its arcs, is
// solved by trying all its sides. Those of its options that cross no capacity are relaxed to any number of exchanges
// of their common divisor; the rest are few, since each one costs.

const (
	pieceNodes  = 12        // larger pieces are not solved
	mostOptions = 64        // different options that are not free
	countSteps  = 1_000_000 // combinations of these that are looked at
	freeShare   = 32        // options that cross less than such a part of the room count as free
)

// option is a way to choose the sides of a piece: bytes and residual capacity crossed, beyond those of the minimum.
type option struct{ bytes, crossed int64 }

// counter is the state of counted.
type counter struct {
	*momentCut
	room    int64   // the most capacity that a choice may cross
	side    []int8  // by node: 1 with the source, -1 with the sink, 0 open
	sets    sets    // pieces of open nodes
	nodes   []int32 // open ones, by piece
	perByte ratio
	free    int64    // bytes left free by the minimum of every piece
	step    int64    // the common divisor of free exchanges, or 0
	costs   []option // that are not free
	best    int64
	steps   int
}

// counted is a bound on the cost of the choices at a moment from one price, at most target.
func (b *bounder) counted(p proof, target int64) int64 {
	proved, c, full := b.cut.price(p.t, p.price, b.budget, math.MaxInt64)
	if !full || b.cut.fixed > b.budget || proved >= target || target > b.cost {
		return min(proved, target)
	}
	k := &counter{momentCut: b.cut, perByte: newRatio(p.price, b.cut.scale), free: b.budget - c.bytes}
	if k.room = shift(target-1, b.cut.scale) - b.cut.value; k.room <= 0 || !k.open() || !k.solve() {
		return proved
	}
	k.best, k.steps = k.room+1, countSteps
	if k.visit(0, k.free, 0); k.steps < 0 {
		return proved
	}
	return min(target, max(proved, shiftUp(b.cut.value+k.best, b.cut.scale)))
}

// open finds the nodes that arcs with more capacity than the room leave open, and their pieces.
func (k *counter) open() bool {
	net := k.net
	k.side = make([]int8, len(net.head))
	spread := func(from int32, side int8, flip int32) {
		k.side[from] = side
		queue := []int32{from}
		for i := 0; i < len(queue); i++ {
			for a := net.head[queue[i]]; a >= 0; a = net.next[a] {
				if v := net.to[a]; k.side[v] == 0 && net.room[a^flip] > k.room {
					k.side[v] = side
					queue = append(queue, v)
				}
			}
		}
	}
	spread(flowSource, 1, 0)
	if k.side[flowSink] != 0 {
		return false
	}
	spread(flowSink, -1, 1)
	k.sets = newSets(len(net.head))
	for a := 0; a < len(net.to); a += 2 {
		if from, to := net.to[a+1], net.to[a]; k.side[from] == 0 && k.side[to] == 0 {
			k.sets.join(from, to)
		}
	}
	for v, side := range k.side {
		if side == 0 {
			k.nodes = append(k.nodes, int32(v))
		}
	}
	slices.SortStableFunc(k.nodes, func(u, v int32) int { return cmp.Compare(k.sets.root(u), k.sets.root(v)) })
	return true
}

// solve finds the options of the pieces, one of each class.
func (k *counter) solve() bool {
	sizes := make(map[int32]int64, len(k.held))
	for _, h := range k.held {
		sizes[h.arc] = h.size
	}
	known := make(map[string]bool)
	for i := 0; i < len(k.nodes); {
		end := i + 1
		for end < len(k.nodes) && k.sets.root(k.nodes[end]) == k.sets.root(k.nodes[i]) {
			end++
		}
		if end-i > pieceNodes {
			return false
		}
		p := k.arcs(k.nodes[i:end], sizes)
		if key := p.key(); !known[key] {
			known[key] = true
			if !k.add(p.options(k.room)) {
				return false
			}
		}
		i = end
	}
	return k.reduce()
}

// arcsPiece is the arcs of a piece: ends are numbers of its nodes, from 2 on, or 0 and 1 for the sides of the source
// and the sink.
type arcsPiece struct {
	nodes int
	start uint // the nodes with the source in the minimum
	arcs  []pieceArc
}

type pieceArc struct {
	from, to          int32
	room, back, bytes int64
}

// arcs are the arcs of a piece.
func (k *counter) arcs(nodes []int32, sizes map[int32]int64) *arcsPiece {
	p := &arcsPiece{nodes: len(nodes)}
	end := func(v int32) int32 {
		if k.side[v] != 0 {
			return (1 - int32(k.side[v])) / 2
		}
		i, _ := slices.BinarySearch(nodes, v)
		return int32(i) + 2
	}
	for i, v := range nodes {
		if k.net.level[v] == 1 {
			p.start |= 1 << i
		}
		for a := k.net.head[v]; a >= 0; a = k.net.next[a] {
			if out := a &^ 1; a == out || k.side[k.net.to[a]] != 0 { // an arc inside the piece counts once
				p.arcs = append(p.arcs, pieceArc{end(k.net.to[out^1]), end(k.net.to[out]), k.net.room[out],
					k.net.room[out^1], sizes[out]})
			}
		}
	}
	return p
}

// key tells pieces of different arcs apart.
func (p *arcsPiece) key() string {
	b := binary.AppendUvarint(nil, uint64(p.start))
	for _, a := range p.arcs {
		b = binary.AppendUvarint(b, uint64(a.from))
		b = binary.AppendUvarint(b, uint64(a.to))
		for _, n := range []int64{a.room, a.back, a.bytes} {
			b = binary.AppendVarint(b, n)
		}
	}
	return string(b)
}

// judge is the option of the nodes that are with the source.
func (p *arcsPiece) judge(set uint) (o option) {
	in := func(end int32) bool { return end == 0 || end > 1 && set>>(end-2)&1 == 1 }
	for _, a := range p.arcs {
		switch from, to := in(a.from), in(a.to); {
		case from && !to:
			o.bytes += a.bytes
			o.crossed += min(a.room, math.MaxInt64-o.crossed)
		case to && !from:
			o.crossed += min(a.back, math.MaxInt64-o.crossed)
		}
	}
	return o
}

// options are the options of a piece that cross no more than some capacity, less its option in the minimum.
func (p *arcsPiece) options(room int64) (list []option) {
	least := p.judge(p.start)
	for set := range uint(1) << p.nodes {
		if o := p.judge(set); o.crossed <= room {
			list = append(list, option{o.bytes - least.bytes, o.crossed})
		}
	}
	return list
}

// add takes the options of a class.
func (k *counter) add(list []option) bool {
	for _, o := range list {
		if o.crossed < k.room/freeShare+1 {
			k.step = divisor(k.step, max(o.bytes, -o.bytes))
		} else {
			k.costs = append(k.costs, o)
		}
	}
	return len(k.costs) < 1<<16
}

// divisor is the greatest common divisor of two numbers; that of 0 and x is x.
func divisor(x, y int64) int64 {
	for y > 0 {
		x, y = y, x%y
	}
	return x
}

// reduce leaves of the options that are not free the cheapest one for each number of bytes.
func (k *counter) reduce() bool {
	if k.step > 0 {
		for i, o := range k.costs {
			k.costs[i].bytes = ((o.bytes % k.step) + k.step) % k.step
		}
		k.free = ((k.free % k.step) + k.step) % k.step
	}
	slices.SortFunc(k.costs, func(x, y option) int {
		return cmp.Or(cmp.Compare(x.bytes, y.bytes), cmp.Compare(x.crossed, y.crossed))
	})
	k.costs = slices.CompactFunc(k.costs, func(x, y option) bool { return x.bytes == y.bytes })
	k.costs = slices.DeleteFunc(k.costs, func(o option) bool { return o.bytes == 0 })
	slices.SortStableFunc(k.costs, func(x, y option) int { return cmp.Compare(x.crossed, y.crossed) })
	return len(k.costs) <= mostOptions
}

// visit tries numbers of the options from i on, where those before leave so many bytes free and cross so much.
func (k *counter) visit(i int, free, crossed int64) {
	if k.steps--; k.steps < 0 {
		return
	}
	left := free
	if k.step > 0 {
		left = ((free % k.step) + k.step) % k.step
	}
	if left >= 0 {
		k.best = min(k.best, crossed+k.perByte.times(left, false))
	}
	for j := i; j < len(k.costs); j++ {
		if o := k.costs[j]; crossed+o.crossed < k.best {
			k.visit(j, free-o.bytes, crossed+o.crossed)
		}
	}
}

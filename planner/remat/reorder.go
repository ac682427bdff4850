package remat

import (
	"cmp"
	"slices"
)

// runs is a sequence of computes of the nodes of a folded problem, with the runs that each of them
// reads from. Its runs may change places as long as each stays behind those.
type runs struct {
	*folded
	seq     []int32
	inputs  [][]int32 // by run: the runs that make its inputs, in the order of folded.seen
	readers [][]int32 // by run: the runs that read its outputs, in order
	key     []int32   // by run: its new place; runs with the same one keep their order
}

func (f *folded) linked(seq []int32) *runs {
	r := &runs{folded: f, seq: seq, inputs: make([][]int32, len(seq)), readers: make([][]int32, len(seq)),
		key: make([]int32, len(seq))}
	newest := make([]int32, len(f.maker)) // by value: the run that made it
	for u := range newest {
		newest[u] = -1
	}
	for i, v := range seq {
		r.key[i] = int32(i)
		for _, u := range f.seen[v] {
			m := newest[u]
			r.inputs[i] = append(r.inputs[i], m)
			if k := len(r.readers[m]); k == 0 || r.readers[m][k-1] != int32(i) {
				r.readers[m] = append(r.readers[m], int32(i))
			}
		}
		for u := f.first[v]; u < f.first[v+1]; u++ {
			if newest[u] < 0 || !f.keeps[u] { // a kept output stays as it is
				newest[u] = int32(i)
			}
		}
	}
	return r
}

// mostReaders is how many readers of a value are looked at; with more of them, one is taken to come
// later.
const mostReaders = 64

// made is the bytes of the outputs of run i.
func (r *runs) made(i int) int64 {
	sum := int64(0)
	for u := r.first[r.seq[i]]; u < r.first[r.seq[i]+1]; u++ {
		sum += r.bytes(u)
	}
	return sum
}

// lastReads is the bytes of those inputs of run i that no other run reads at a place or later, and
// that are not kept.
func (r *runs) lastReads(i int, place int32) int64 {
	sum := int64(0)
	for k, u := range r.seen[r.seq[i]] {
		if r.keeps[u] {
			continue
		}
		readers := r.readers[r.inputs[i][k]]
		later := len(readers) > mostReaders || slices.ContainsFunc(readers, func(d int32) bool {
			return int(d) != i && r.key[d] >= place && slices.Contains(r.seen[r.seq[d]], u)
		})
		if !later {
			sum += r.bytes(u)
		}
	}
	return sum
}

// sink moves runs to right before the first run that reads their outputs, where that keeps fewer
// bytes live.
func (r *runs) sink() []int32 {
	for i := len(r.seq) - 1; i >= 0; i-- {
		if len(r.readers[i]) == 0 {
			continue
		}
		to := r.key[r.readers[i][0]]
		for _, d := range r.readers[i] {
			to = min(to, r.key[d])
		}
		if r.made(i) > r.lastReads(i, to) {
			r.key[i] = to
		}
	}
	return r.sorted()
}

// hoist moves runs to right behind the last run that they read from, where that keeps fewer bytes
// live.
func (r *runs) hoist() []int32 {
	for i := range r.seq {
		to := int32(0)
		for _, m := range r.inputs[i] {
			to = max(to, r.key[m])
		}
		if len(r.inputs[i]) > 0 && r.made(i) < r.lastReads(i, r.key[i]) {
			r.key[i] = to
		}
	}
	return r.sorted()
}

// postponed moves runs whose outputs no run reads, as products that are gradients of weights, behind all others, where
// that keeps fewer bytes live until then: those first that need most bytes beyond the ones that they leave.
func (r *runs) postponed() []int32 {
	end := int32(len(r.seq))
	var last []int32
	beyond := make([]int64, len(r.seq)) // by run that is moved
	for i := len(r.seq) - 1; i >= 0; i-- {
		if freed := r.lastReads(i, end); len(r.readers[i]) == 0 && r.made(i) > freed {
			r.key[i], beyond[i] = end, r.p.Nodes[r.seq[i]].Workspace+freed
			last = append(last, int32(i))
		}
	}
	slices.SortFunc(last, func(a, b int32) int { return cmp.Or(cmp.Compare(beyond[b], beyond[a]), cmp.Compare(a, b)) })
	for k, i := range last {
		r.key[i] = end + int32(k)
	}
	return r.sorted()
}

// sorted is the sequence with the new places.
func (r *runs) sorted() []int32 {
	place := make([]int32, len(r.seq))
	for i := range place {
		place[i] = int32(i)
	}
	slices.SortStableFunc(place, func(a, b int32) int { return cmp.Compare(r.key[a], r.key[b]) })
	for i, k := range place {
		place[i] = r.seq[k]
	}
	return place
}

// pruned leaves out runs whose outputs are not read before they are recomputed, first ones included.
func (f *folded) pruned(seq []int32) []int32 {
	count := make([]int32, len(f.p.Nodes))
	for _, v := range seq {
		count[v]++
	}
	wanted := make([]bool, len(f.maker))
	out := make([]int32, 0, len(seq))
	for i := len(seq) - 1; i >= 0; i-- {
		v := seq[i]
		use := f.keptOf(v) > 0 || count[v] == 1
		for u := f.first[v]; u < f.first[v+1]; u++ {
			use = use || wanted[u]
			wanted[u] = false
		}
		if !use {
			count[v]--
			continue
		}
		for _, u := range f.seen[v] {
			wanted[u] = true
		}
		out = append(out, v)
	}
	slices.Reverse(out)
	return out
}

// firsts is the order of the first runs of a sequence.
func (f *folded) firsts(seq []int32) (order []int32) {
	seen := make([]bool, len(f.p.Nodes))
	for _, v := range seq {
		if !seen[v] {
			seen[v] = true
			order = append(order, v)
		}
	}
	return order
}

// extras is the other runs of a sequence, in the graph of the order of its first ones. Runs behind
// all first ones are left out.
func (f *folded) extras(seq, order []int32) (extras []Extra) {
	next := 0
	for _, v := range seq {
		switch {
		case next == len(order):
			return extras
		case v == order[next]:
			next++
		default:
			extras = append(extras, Extra{Task: f.task[v], Before: f.task[order[next]]})
		}
	}
	return extras
}

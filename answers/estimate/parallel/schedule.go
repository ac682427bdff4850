package parallel

// unit is a device's next work on a chunk of its layers: the forward or the backward half for the next
// micro-batch of that chunk.
type unit struct {
	chunk    int
	backward bool
}

// schedule is the sequence of a pipeline device's work for one update. Without interleaving it is 1F1B: stage
// i of p runs the forward halves of min(m, p−i−1) micro-batches, then one forward and one backward half in
// turn, then the remaining backward halves. With v chunks on each device the micro-batches go through in
// groups of p, chunk by chunk, and the first phase has 2(p−i−1)+(v−1)p forward halves (arXiv 2104.04473,
// section 2.2; Megatron-LM's forward_backward_pipelining_with_interleaving).
func schedule(l Layout, device int) []unit {
	p, m, v := l.PP, l.Microbatches, l.Interleave
	total := m * v
	ahead := p - device - 1
	if v > 1 {
		ahead = 2*ahead + (v-1)*p
		if m == p {
			ahead = total
		}
	}
	ahead = min(ahead, total)
	var units []unit
	for i := range total + ahead {
		if i < total {
			units = append(units, unit{chunkOf(l, i), false})
		}
		if i >= ahead {
			units = append(units, unit{v - 1 - chunkOf(l, i-ahead), true})
		}
	}
	return units
}

// chunkOf is the chunk of the i-th forward half on a device.
func chunkOf(l Layout, i int) int {
	if l.Interleave == 1 {
		return 0
	}
	return i % (l.PP * l.Interleave) / l.PP
}

// load is the state of a device at its worst moment: the chunk whose backward half runs then, and for every
// chunk the number of other micro-batches that wait for theirs.
type load struct {
	chunk   int
	waiting []int
	bytes   int64 // the peak of that chunk, and the stashes of those that wait
}

// worst finds the backward half when a device holds the most. stash is the bytes of a micro-batch of a chunk
// between its halves, peak its largest memory.
func worst(l Layout, device int, stash, peak []int64) load {
	held := make([]int, l.Interleave)
	at := load{chunk: -1}
	for _, u := range schedule(l, device) {
		if !u.backward {
			held[u.chunk]++
			continue
		}
		held[u.chunk]--
		bytes := peak[u.chunk]
		for c, n := range held {
			bytes += int64(n) * stash[c]
		}
		if at.chunk < 0 || bytes > at.bytes {
			at = load{u.chunk, append(at.waiting[:0], held...), bytes}
		}
	}
	return at
}

// inFlight is the most micro-batches that a device holds, counted in parts of a chunk: divided by
// Interleave, micro-batches of all of its layers.
func inFlight(l Layout, device int) int {
	held, most := 0, 0
	for _, u := range schedule(l, device) {
		if u.backward {
			held--
		} else {
			held++
			most = max(most, held)
		}
	}
	return most
}

package pack

// waiting is a job that is not placed, with the lowest level that lets it take part; or a crew,
// with that of its first job.
type waiting struct {
	level int64
	rank  int32 // in the order
	crew  int32
}

func (a waiting) before(b waiting) bool {
	return a.level < b.level || a.level == b.level && a.rank < b.rank
}

// sink restores the order of a heap, the smallest at the front, after one element may have come too
// near the front.
func sink(q []waiting, at int) {
	if at >= len(q) {
		return
	}
	x := q[at]
	for {
		child := 2*at + 1
		if child+1 < len(q) && q[child+1].before(q[child]) {
			child++
		}
		if child >= len(q) || !q[child].before(x) {
			q[at] = x
			return
		}
		q[at], at = q[child], child
	}
}

// push adds an element to a heap.
func push(q *[]waiting, x waiting) {
	list := append(*q, x)
	at := len(list) - 1
	for at > 0 && x.before(list[(at-1)/2]) {
		list[at], at = list[(at-1)/2], (at-1)/2
	}
	list[at] = x
	*q = list
}

// pop takes the first element out of a heap.
func pop(q *[]waiting) {
	list := *q
	last := len(list) - 1
	list[0] = list[last]
	*q = list[:last]
	sink(*q, 0)
}

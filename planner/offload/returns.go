package offload

import "math"

// returns are copies that must end by deadlines, one after the other in ascending order of these, which is best
// (Jackson's rule, 1955): a tree with a leaf for each copy that there may be, in this order.
type returns struct {
	n      int       // leaves: a power of two
	due    []float64 // by leaf: the deadline
	length []float64 // by node: the time of the copies below it
	start  []float64 // by node: the last moment when the first of them may start so that all are in time
}

func newReturns(due []float64) *returns {
	r := &returns{n: 1, due: due}
	for r.n < len(due) {
		r.n *= 2
	}
	r.length, r.start = make([]float64, 2*r.n), make([]float64, 2*r.n)
	for i := range r.start {
		r.start[i] = math.Inf(1)
	}
	return r
}

// set has the copy of a leaf take so long; 0 is no copy.
func (r *returns) set(leaf int32, length float64) {
	i := int(leaf) + r.n
	r.length[i], r.start[i] = length, math.Inf(1)
	if length > 0 {
		r.start[i] = r.due[leaf] - length
	}
	for i /= 2; i > 0; i /= 2 {
		r.length[i] = r.length[2*i] + r.length[2*i+1]
		r.start[i] = min(r.start[2*i], r.start[2*i+1]-r.length[2*i])
	}
}

// latest is the last moment when the first copy may start so that all are in time.
func (r *returns) latest() float64 { return r.start[1] }

// latestWith is latest with the copy of one more leaf.
func (r *returns) latestWith(leaf int32, length float64) float64 {
	start := r.due[leaf] - length
	for i := int(leaf) + r.n; i > 1; i /= 2 {
		if i%2 == 0 {
			start = min(start, r.start[i+1]-length)
			length += r.length[i+1]
		} else {
			start = min(r.start[i-1], start-r.length[i-1])
			length += r.length[i-1]
		}
	}
	return start
}

// first is the leaf of the copy with the first deadline; -1 without one.
func (r *returns) first() int32 {
	if r.length[1] <= 0 {
		return -1
	}
	i := 1
	for i < r.n {
		if i *= 2; r.length[i] <= 0 {
			i++
		}
	}
	return int32(i - r.n)
}

package remat

// profile is a segment tree over stages: a number by stage, with a range of stages raised and the
// highest stage found in logarithmic time.
type profile struct {
	leaves int // a power of two
	nodes  []profileNode
}

// profileNode is a node of the tree; its children are 2i and 2i+1.
type profileNode struct {
	top int64 // the largest number below the node, without additions further up
	add int64 // the addition to all of it
}

// beneath is lower than any number of bytes and stays so whatever is added.
const beneath = -1 << 62

func newProfile(numbers []int64) profile {
	p := profile{leaves: 1}
	for p.leaves < len(numbers) {
		p.leaves *= 2
	}
	p.nodes = make([]profileNode, 2*p.leaves)
	for i := range p.leaves {
		p.nodes[p.leaves+i].top = beneath
		if i < len(numbers) {
			p.nodes[p.leaves+i].top = numbers[i]
		}
	}
	for i := p.leaves - 1; i > 0; i-- {
		p.nodes[i].top = max(p.nodes[2*i].top, p.nodes[2*i+1].top)
	}
	return p
}

// raise adds d to the numbers first to last.
func (p *profile) raise(first, last int, d int64) {
	l, r := first+p.leaves, last+p.leaves+1
	for l < r {
		if l&1 != 0 {
			p.nodes[l].top += d
			p.nodes[l].add += d
			l++
		}
		if r&1 != 0 {
			r--
			p.nodes[r].top += d
			p.nodes[r].add += d
		}
		l, r = l/2, r/2
	}
	l, r = (first+p.leaves)/2, (last+p.leaves)/2
	for ; l != r; l, r = l/2, r/2 {
		p.pull(l)
		p.pull(r)
	}
	for ; l > 0; l /= 2 {
		p.pull(l)
	}
}

func (p *profile) pull(i int) {
	n := &p.nodes[i]
	n.top = max(p.nodes[2*i].top, p.nodes[2*i+1].top) + n.add
}

// shift adds d to one number.
func (p *profile) shift(i int, d int64) {
	i += p.leaves
	p.nodes[i].top += d
	for i /= 2; i > 0; i /= 2 {
		old := p.nodes[i].top
		if p.pull(i); p.nodes[i].top == old {
			return
		}
	}
}

// max is the largest of the numbers first to last.
func (p *profile) max(first, last int) int64 {
	l, r := first+p.leaves, last+p.leaves
	left, right := p.nodes[l].top, p.nodes[r].top
	for ; l/2 != r/2; l, r = l/2, r/2 {
		if l&1 == 0 {
			left = max(left, p.nodes[l+1].top)
		}
		if r&1 != 0 {
			right = max(right, p.nodes[r-1].top)
		}
		left += p.nodes[l/2].add
		right += p.nodes[r/2].add
	}
	left = max(left, right)
	for l /= 2; l > 0; l /= 2 {
		left += p.nodes[l].add
	}
	return left
}

// highest is the first stage with the largest number, and that number.
func (p *profile) highest() (int, int64) {
	i := 1
	for i < p.leaves {
		want := p.nodes[i].top - p.nodes[i].add
		if i *= 2; p.nodes[i].top != want {
			i++
		}
	}
	return i - p.leaves, p.nodes[1].top
}

// reach is a tree over tasks: the last stage that reads an output of a task.
type reach struct {
	leaves int
	tops   []int32
}

func newReach(ends []int32) reach {
	r := reach{leaves: 1}
	for r.leaves < len(ends) {
		r.leaves *= 2
	}
	r.tops = make([]int32, 2*r.leaves)
	for i := range r.tops {
		r.tops[i] = -1
	}
	copy(r.tops[r.leaves:], ends)
	for i := r.leaves - 1; i > 0; i-- {
		r.tops[i] = max(r.tops[2*i], r.tops[2*i+1])
	}
	return r
}

func (r *reach) set(i int, end int32) {
	i += r.leaves
	r.tops[i] = end
	for i /= 2; i > 0; i /= 2 {
		top := max(r.tops[2*i], r.tops[2*i+1])
		if r.tops[i] == top {
			return
		}
		r.tops[i] = top
	}
}

// next is the first task at or behind i that is read at the stage or later; past all tasks without
// one.
func (r *reach) next(i int, stage int32) int {
	if i >= r.leaves {
		return i
	}
	for i += r.leaves; r.tops[i] < stage; i++ { // up to the first subtree that has one
		for i&1 != 0 {
			i /= 2
		}
		if i == 0 {
			return r.leaves
		}
	}
	for i < r.leaves {
		if i *= 2; r.tops[i] < stage {
			i++
		}
	}
	return i - r.leaves
}

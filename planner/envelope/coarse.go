package envelope

import "slices"

// coarse joins the remaining boxes. Cuts do not follow a border along the diagonal of a box: each
// takes off a strip, until the work ends. Cuts without effect are therefore taken back, and made
// again, the largest box first, as long as there are no more than most boxes.
func coarse(left []*task, most int) []*task {
	if len(left) <= most {
		return left
	}
	open := map[*task]int{}     // by box that was cut: its parts that are wholly left
	whole := slices.Clone(left) // with the boxes that are wholly left
	for _, t := range left {
		for t.of != nil {
			if open[t.of]++; open[t.of] < len(t.of.parts) {
				break
			}
			t = t.of
			whole = append(whole, t)
		}
	}
	var list []*task
	for _, t := range whole {
		if t.of == nil || open[t.of] < len(t.of.parts) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, larger)
	for len(list) < most {
		at := slices.IndexFunc(list, func(t *task) bool { return t.parts[0] != nil })
		if at < 0 {
			break
		}
		t := list[at]
		list = slices.Delete(list, at, at+1)
		for _, part := range t.parts {
			at, _ := slices.BinarySearchFunc(list, part, larger)
			list = slices.Insert(list, at, part)
		}
	}
	return list
}

// larger sorts tasks by their boxes, the largest first.
func larger(x, y *task) int { return x.box.before(y.box) }

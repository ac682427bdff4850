package remat

import (
	"cmp"
	"slices"
)

// apply inserts the runs of the drop that was appraised last, and takes out later runs of the same
// tasks where their values can be held until then.
func (d *dropper) apply() {
	slices.Sort(d.again)
	for _, y := range d.again {
		d.insert(y, d.stage[y])
	}
	for i := len(d.again) - 1; i >= 0; i-- {
		y := d.again[i]
		if k := d.newest(y, d.stage[y]); k+1 < len(d.runs[y]) {
			d.tryRemove(Extra{y, d.runs[y][k+1]})
		}
	}
}

// tryRemove takes out an extra run, and those that only served it, if this brings no run above the
// budget. The output of the run before is then held longer; the release of inputs is not set off
// against that.
func (d *dropper) tryRemove(x Extra) bool {
	d.work++
	if d.isFixed(x) {
		return false
	}
	first, last, bytes := d.heldWithout(x)
	if d.peak() <= d.budget { // then the peak tells about the runs of the first and last stage one by one
		first, last = first+1, last-1
	}
	if bytes > 0 && first <= last && d.need.max(int(first), int(last))+bytes > d.budget {
		return false
	}
	mark, before := len(d.log), max(d.budget, d.peak())
	if d.prune(x); d.peak() > before {
		d.undo(mark)
		return false
	}
	return true
}

// heldWithout is the bytes that are held if an extra run is taken out, and the first and last stages
// of that.
func (d *dropper) heldWithout(x Extra) (first, last int32, bytes int64) {
	p, k := at(x.Before, x.Task), d.newest(x.Task, x.Before)
	start, limit := d.span(x.Task, k-1)
	_, next := d.span(x.Task, k)
	first = x.Before
	for _, v := range d.g.Tasks[x.Task].Makes {
		if d.end(v, p, next) > p && !d.kept(v, k-1) {
			bytes += d.g.Values[v].Size
			first = min(first, d.end(v, start, limit).stage())
		}
	}
	return first, x.Before, bytes
}

// prune removes an extra run and then those whose values have no readers any more. Fixed runs stay.
func (d *dropper) prune(x Extra) {
	if d.isFixed(x) {
		return
	}
	d.queue = append(d.queue[:0], x)
	for len(d.queue) > 0 {
		x = d.queue[len(d.queue)-1]
		d.queue = d.queue[:len(d.queue)-1]
		d.remove(x.Task, x.Before)
		for _, u := range d.g.Tasks[x.Task].Uses {
			m := d.maker[u]
			if k := d.newest(m, x.Before); k > 0 && d.needless(m, d.runs[m][k]) {
				if e := (Extra{m, d.runs[m][k]}); !d.isFixed(e) && !slices.Contains(d.queue, e) {
					d.queue = append(d.queue, e)
				}
			}
		}
	}
}

// tidy takes out extra runs that are not needed to stay within the budget, the dear ones first.
func (d *dropper) tidy() {
	list := slices.Clone(d.extras)
	slices.SortFunc(list, func(a, b Extra) int {
		return cmp.Or(cmp.Compare(d.g.Tasks[b.Task].Cost, d.g.Tasks[a.Task].Cost), compareExtras(a, b))
	})
	for _, x := range list {
		if d.runsAt(x.Task, x.Before) {
			d.tryRemove(x)
		}
	}
}

package remat

import "math"

// gap finds the values of task x that are in memory during the run at p without need: their bytes,
// the stage of their last reader before p and the stage of the next one behind.
func (d *dropper) gap(x int32, p place) (bytes int64, last, next int32) {
	k := d.newest(x, p.stage())
	start, limit := d.span(x, k)
	last, next = start.stage(), math.MaxInt32
	if start >= p {
		return 0, last, next
	}
	for _, v := range d.g.Tasks[x].Makes {
		readers, j := d.readers[v], d.from(v, p)
		if d.kept(v, k) || j == len(readers) || readers[j] >= limit || readers[j] == p {
			continue
		}
		bytes += d.g.Values[v].Size
		next = min(next, readers[j].stage())
		if j > 0 {
			last = max(last, readers[j-1].stage())
		}
	}
	return bytes, last, next
}

// glance finds the drop of the values of x in memory during the run at p, if there is one, with a
// first estimate of its score: it takes the cost of missing inputs from their last appraisal.
func (d *dropper) glance(x int32, p place) (r drop, ok bool) {
	d.work++
	bytes, last, next := d.gap(x, p)
	if next = d.g.latest(x, next); bytes == 0 || d.barred[x] > d.turn || at(next, x) <= p || !d.allowed(x, next) {
		return r, false
	}
	r = drop{task: x, stage: next, bytes: bytes, luck: d.far * math.Log(float64(next-last+1))}
	if d.noise > 0 {
		r.luck += d.noise * d.rng.NormFloat64()
	}
	cost := float64(d.g.Tasks[x].Cost)
	for _, u := range d.g.Tasks[x].Uses {
		if end, missing := d.missing(u, at(next, x)); missing && end < p {
			cost += d.guess[d.maker[u]]
		}
	}
	r.score = d.score(&r, bytes, cost)
	return r, true
}

// score is that of a drop with the given relief and cost.
func (d *dropper) score(r *drop, relief int64, cost float64) float64 {
	return r.luck + d.mass*math.Log(float64(min(relief, d.excess))) - d.dear*math.Log(cost+1)
}

// appraise scores a drop for the run at p; ok tells whether it helps. The runs that it takes are in
// again.
func (d *dropper) appraise(r *drop, p place) (ok bool) {
	d.work++
	most := math.Inf(1) // largest cost that lets the score reach the floor
	if d.dear > 0 {
		most = math.Exp((d.score(r, r.bytes, 0) - d.floor) / d.dear)
	}
	held, cost, ok := d.follow(r.task, r.stage, p, r.bytes, most)
	if d.guess[r.task] = cost; !ok || held >= r.bytes {
		d.guess[r.task] *= 2
		return false
	}
	r.score = d.score(r, r.bytes-held, cost)
	return true
}

// follow collects in again the tasks to recompute with x at a stage, or before it as late as that
// is allowed, and returns the bytes that are held over p for them instead, and their cost. It fails
// if that would cost more than most, save more than bytes or take too many runs.
func (d *dropper) follow(x, stage int32, p place, bytes int64, most float64) (held int64, cost float64, ok bool) {
	d.stamp++
	d.again = append(d.again[:0], x)
	d.mark[x], d.stage[x] = d.stamp, stage
	cost = float64(d.g.Tasks[x].Cost)
	for i := 0; i < len(d.again); i++ {
		y := d.again[i]
		for _, u := range d.g.Tasks[y].Uses {
			m := d.maker[u]
			if d.mark[m] == d.stamp && d.stage[m] <= d.stage[y] {
				continue
			}
			end, missing := d.missing(u, at(d.stage[y], y))
			if !missing {
				continue
			}
			d.work++
			size, stage := d.g.Values[u].Size, d.g.latest(m, d.stage[y])
			hold := !d.allowed(m, stage) || d.runsAt(m, stage) || d.mark[m] == d.stamp ||
				stage < d.stage[y] && at(stage, m) <= p
			if end >= p {
				hold = hold || d.need.max(int(end.stage()), int(d.stage[y]))+size <= d.budget
			} else if hold = hold || float64(size) <= d.hold*float64(bytes-held); hold {
				held += size
			}
			if hold {
				continue
			}
			if len(d.again) == d.dropRule.reruns || held >= bytes || cost > most {
				return held, cost, false
			}
			d.mark[m], d.stage[m] = d.stamp, stage
			d.again = append(d.again, m)
			if k := d.newest(m, stage); k+1 < len(d.runs[m]) {
				cost += d.share * float64(d.g.Tasks[m].Cost)
			} else {
				cost += float64(d.g.Tasks[m].Cost)
			}
		}
	}
	return held, cost, true
}

// missing tells whether u is not live at p, and where its instance ends.
func (d *dropper) missing(u int32, p place) (end place, missing bool) {
	m := d.maker[u]
	k := d.newest(m, p.stage())
	if d.kept(u, k) {
		return 0, false
	}
	start, limit := d.span(m, k)
	readers, j := d.readers[u], d.from(u, p)
	if j < len(readers) && readers[j] < limit {
		return 0, false
	}
	if j > 0 {
		start = max(start, readers[j-1])
	}
	return start, true
}

package remat

import "slices"

// runsAt tells whether task x has a run at a stage.
func (l *ledger) runsAt(x, stage int32) bool { return l.runs[x][l.newest(x, stage)] == stage }

// allowed tells whether x may be recomputed at a stage.
func (l *ledger) allowed(x, stage int32) bool {
	return !l.g.Tasks[x].Once && stage > x && stage >= l.g.From && l.g.intime(x, stage)
}

// insert adds an extra run that is allowed and not there.
func (l *ledger) insert(x, stage int32) {
	l.work++
	p := at(stage, x)
	list, i := l.stages[stage], l.find(p)
	task := &l.g.Tasks[x]
	run := stageRun{live: list[i].live - l.made[list[i].task], own: task.Workspace, task: x, id: int32(len(l.extras))}
	l.stages[stage] = slices.Insert(list, i, run)
	l.moved(stage, beneath, run.live+run.own)
	k := l.newest(x, stage)
	for _, v := range task.Makes {
		l.part(v, k, p)
	}
	l.runs[x] = slices.Insert(l.runs[x], k+1, stage)
	for _, u := range task.Uses {
		l.read(u, p)
	}
	l.cost += task.Cost
	l.extras = append(l.extras, Extra{x, stage})
	l.log = append(l.log, ledgerChange{Extra{x, stage}, true})
	l.touch(p)
	l.refresh()
}

// part splits the instance of v that run k made at a new run at p.
func (l *ledger) part(v int32, k int, p place) {
	start, limit := l.span(p.task(), k)
	size, readers, j := l.g.Values[v].Size, l.readers[v], l.from(v, at(p.stage(), -1))
	read := j < len(readers) && readers[j] < limit
	switch end := start; {
	case l.kept(v, k): // the old one stays as it is
		if end = p; read {
			end = l.end(v, p, limit)
			l.touch(end)
		}
		l.raise(p-1, end, size)
	case !read:
		l.raise(p-1, p, size)
	default:
		if j > 0 {
			end = max(start, readers[j-1])
		}
		l.raise(end, p-1, -size)
		l.touch(end)
	}
}

// join takes back part: run k+1 at p is gone.
func (l *ledger) join(v int32, k int, p place) {
	start, limit := l.span(p.task(), k)
	size, readers, j := l.g.Values[v].Size, l.readers[v], l.from(v, at(p.stage(), -1))
	read := j < len(readers) && readers[j] < limit
	switch end := start; {
	case l.kept(v, k):
		if end = p; read {
			end = l.end(v, p, limit)
			l.touch(end)
		}
		l.raise(p-1, end, -size)
	case !read:
		l.raise(p-1, p, -size)
	default:
		if j > 0 {
			end = max(start, readers[j-1])
		}
		l.raise(end, p-1, size)
		l.touch(end)
	}
}

// read adds the run at p to the readers of u.
func (l *ledger) read(u int32, p place) {
	maker := l.maker[u]
	k := l.newest(maker, p.stage())
	start, limit := l.span(maker, k)
	readers, j := l.readers[u], l.from(u, p)
	if !l.kept(u, k) && (j == len(readers) || readers[j] >= limit) {
		end := start
		if j > 0 {
			end = max(start, readers[j-1])
		}
		l.raise(end, p, l.g.Values[u].Size)
		l.touch(end)
	}
	l.readers[u] = slices.Insert(readers, j, p)
	if l.reach.tops[l.reach.leaves+int(maker)] < p.stage() {
		l.reach.set(int(maker), p.stage())
	}
}

// unread takes the run at p out of the readers of u.
func (l *ledger) unread(u int32, p place) {
	maker := l.maker[u]
	k := l.newest(maker, p.stage())
	start, limit := l.span(maker, k)
	j := l.from(u, p)
	readers := slices.Delete(l.readers[u], j, j+1)
	l.readers[u] = readers
	if !l.kept(u, k) && (j == len(readers) || readers[j] >= limit) {
		end := start
		if j > 0 {
			end = max(start, readers[j-1])
		}
		l.raise(end, p, -l.g.Values[u].Size)
		l.touch(end)
	}
	if j == len(readers) {
		l.reach.set(int(maker), l.lastReader(maker))
	}
}

// lastReader is the stage of the last run that reads something made by x, or -1.
func (l *ledger) lastReader(x int32) int32 {
	last := int32(-1)
	for _, v := range l.g.Tasks[x].Makes {
		if k := len(l.readers[v]); k > 0 {
			last = max(last, l.readers[v][k-1].stage())
		}
	}
	return last
}

// remove takes out an extra run that is there.
func (l *ledger) remove(x, stage int32) {
	l.work++
	p, task := at(stage, x), &l.g.Tasks[x]
	for _, u := range task.Uses {
		l.unread(u, p)
	}
	k := l.newest(x, stage) - 1
	l.runs[x] = slices.Delete(l.runs[x], k+1, k+2)
	for _, v := range task.Makes {
		l.join(v, k, p)
	}
	i := l.find(p)
	gone := l.stages[stage][i]
	l.stages[stage] = slices.Delete(l.stages[stage], i, i+1)
	l.moved(stage, gone.live+gone.own, beneath)
	last := len(l.extras) - 1
	other := l.extras[last]
	l.extras = l.extras[:last]
	if id := gone.id; int(id) != last {
		l.extras[id] = other
		q := at(other.Before, other.Task)
		l.stages[other.Before][l.find(q)].id = id
	}
	l.cost -= task.Cost
	l.log = append(l.log, ledgerChange{Extra{x, stage}, false})
	l.refresh()
}

// undo reverts the log to so many entries.
func (l *ledger) undo(mark int) {
	for len(l.log) > mark {
		c := l.log[len(l.log)-1]
		if c.inserted {
			l.remove(c.Task, c.Before)
		} else {
			l.insert(c.Task, c.Before)
		}
		l.log = l.log[:len(l.log)-2]
	}
}

// forget makes all changes final.
func (l *ledger) forget() { l.log = l.log[:0] }

// load makes the list of extra runs that given, and those that are always there.
func (l *ledger) load(extras []Extra) {
	for len(l.extras) > 0 {
		x := l.extras[len(l.extras)-1]
		l.remove(x.Task, x.Before)
	}
	for _, x := range extras {
		l.insert(x.Task, x.Before)
	}
	l.fix()
	l.forget()
}

// needless tells whether the outputs of the extra run of x at a stage have no readers.
func (l *ledger) needless(x, stage int32) bool {
	start, limit := l.span(x, l.newest(x, stage))
	for _, v := range l.g.Tasks[x].Makes {
		if l.end(v, start, limit) != start {
			return false
		}
	}
	return true
}

package remat

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// dropRule says which value goes first when memory is short at a run. The score of a task whose
// values are held over the run is relief^mass · gap^far / cost^dear, where relief is the bytes that
// running it again before their next reader saves, gap the stages to that reader, and cost that of
// the runs this takes.
type dropRule struct {
	mass, far, dear float64
	noise           float64 // scores are multiplied by e^(noise·normal)
	share           float64 // part of the cost that counts for a run that may replace a later one of the same task
	hold            float64 // an input is held instead of made again if it is so small in parts of the relief
	reruns          int     // most runs for one drop
}

// dropRules are tried in this order before random ones.
var dropRules = []dropRule{
	{mass: 1, far: 0.5, dear: 1, share: 0.5, hold: 0.1, reruns: 24},
	{mass: 1, far: 1, dear: 1.5, share: 1, hold: 0, reruns: 24},
	{mass: 0.5, far: 1, dear: 0.25, share: 1, hold: 0.03, reruns: 24},
	{mass: 1, far: 0, dear: 1, share: 0, hold: 0.1, reruns: 128},
	{mass: 1, far: 0.25, dear: 2, share: 0.5, hold: 0.3, reruns: 12},
	{mass: 0, far: 1, dear: 0, share: 1, hold: 0, reruns: 24},
}

// sampleSize is how many tasks are scored for a drop in a graph of n tasks.
func sampleSize(n int) int {
	if n > dropMany {
		return dropFew
	}
	return dropSome
}

func randomDropRule(rng *rand.Rand) dropRule {
	return dropRule{
		mass: 1.5 * rng.Float64(), far: 1.2 * rng.Float64(), dear: 2 * rng.Float64(), noise: 0.5 * rng.Float64(),
		share: rng.Float64(), hold: 0.4 * rng.Float64(), reruns: 8 << rng.IntN(5),
	}
}

const (
	dropAll  = 160 // up to so many tasks held over a run, all are scored, for a construction
	dropSome = 64  // tasks scored where there are more,
	// And in graphs of more than dropMany tasks, where so many drops are made that each must be
	// quick.
	dropFew      = 10
	dropMany     = 20_000
	dropCut      = 2 // scores so far below the best are not looked at
	mostReruns   = 1 << 13
	dropPatience = 12
	dropLevels   = 16
	mostSetbacks = 400 // of one construction
)

// dropper lowers the memory of a ledger by dropping values and making them again.
type dropper struct {
	*ledger
	dropRule
	rng      *rand.Rand
	budget   int64
	all      int     // up to so many tasks held over a run, all are scored
	some     int     // tasks scored where there are more
	patience int     // random choices without success before a drop may take more runs
	longest  int     // runs that a drop may take as a last resort; 0 to give up early
	cut      float64 // scores so far below the best do not matter
	mark     []int32 // by task: the appraisal that it belongs to
	stamp    int32
	again    []int32 // tasks that run again for the drop appraised last, in no order
	stage    []int32 // by task of again: where
	drops    []drop
	mean     int64     // mean size of a value
	excess   int64     // bytes to save at the run at hand, at least 1
	floor    float64   // scores below do not matter
	turn     int64     // runs that relieve was called for
	barred   []int64   // by task: it is not dropped up to this turn
	guess    []float64 // by task: latest estimate of the cost of its recomputation, with missing inputs
	queue    []Extra   // scratch of prune
}

// drop is a task to be recomputed at a stage.
type drop struct {
	task, stage int32
	bytes       int64   // that it may save
	luck        float64 // part of the score that does not depend on bytes and cost
	score       float64
}

func newDropper(l *ledger, rng *rand.Rand) *dropper {
	sum := int64(0)
	for v := range l.g.Values {
		sum += l.g.Values[v].Size
	}
	guess := make([]float64, len(l.runs))
	for t := range guess {
		guess[t] = float64(l.g.Tasks[t].Cost)
	}
	return &dropper{
		mean:   sum / int64(max(1, len(l.g.Values))),
		ledger: l, rng: rng, mark: make([]int32, len(l.runs)), stage: make([]int32, len(l.runs)),
		barred: make([]int64, len(l.runs)), guess: guess,
		all: dropAll, some: sampleSize(len(l.runs)), cut: dropCut,
	}
}

// collect scores the tasks that have something in memory during the run at p: all of them if they
// are few or if all is set, else a random choice. Only those with the best estimates are appraised,
// the best of these come first.
func (d *dropper) collect(p place, all bool) (sampled bool) {
	d.drops = d.drops[:0]
	d.excess, d.floor = max(1, d.needAt(p)-d.budget), math.Inf(-1)
	stage, n := p.stage(), int(p.stage())
	tasks := 0
	for x := d.reach.next(0, stage); x <= n; x = d.reach.next(x+1, stage) {
		if tasks++; tasks > d.all && !all {
			sampled = true
			break
		}
		d.add(int32(x), p)
	}
	if sampled {
		d.drops = d.drops[:0]
		for k := 0; k < 6*d.some && len(d.drops) < 2*d.some; k++ {
			if x := d.reach.next(d.rng.IntN(n+1), stage); x <= n {
				d.add(int32(x), p)
			}
		}
	}
	d.sift(p, all)
	return sampled
}

func (d *dropper) add(x int32, p place) {
	if r, ok := d.glance(x, p); ok {
		d.drops = append(d.drops, r)
	}
}

// sift appraises the drops in the order of their estimates, until there are enough, and keeps the
// good ones.
func (d *dropper) sift(p place, all bool) {
	sortDrops(d.drops)
	good, saved := 0, int64(0)
	for i, r := range d.drops {
		if good > 0 && !all && i >= d.some || saved > 2*d.excess {
			break
		}
		if !d.appraise(&r, p) {
			continue
		}
		d.drops[good] = r
		good++
		saved += r.bytes
		if !all {
			d.floor = max(d.floor, r.score-d.cut)
		}
	}
	d.drops = d.drops[:good]
	sortDrops(d.drops)
}

func sortDrops(drops []drop) {
	slices.SortFunc(drops, func(a, b drop) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.task, b.task), cmp.Compare(a.stage, b.stage))
	})
}

// relieve drops values held over the run at p until it is within the budget. Without a candidate it
// tries again, then lets a drop take more runs, and in the end looks at all values.
func (d *dropper) relieve(p place, stop func() bool) bool {
	all, misses, reruns := false, 0, d.dropRule.reruns
	defer func() { d.dropRule.reruns = reruns }()
	for d.needAt(p) > d.budget {
		if stop() {
			return false
		}
		sampled := d.collect(p, all || d.many(p))
		most := len(d.drops)
		if sampled {
			most = (most + 3) / 4
		}
		switch done := d.take(p, most); {
		case done > 0:
			all, misses = false, 0
		case sampled && misses < d.patience:
			misses++
		case d.dropRule.reruns < d.longest:
			d.dropRule.reruns = min(4*d.dropRule.reruns, d.longest)
		case sampled && !all && d.longest > 0:
			all = true
		default:
			return false
		}
	}
	return true
}

// many tells whether so many drops are needed at p that it pays to look at all values.
func (d *dropper) many(p place) bool {
	return d.longest > 0 && (d.needAt(p)-d.budget)/dropAll > d.mean
}

// take makes the best of the collected drops, as long as they are still as good as estimated and p
// is above the budget.
func (d *dropper) take(p place, most int) (done int) {
	for _, old := range d.drops {
		if done == most || d.needAt(p) <= d.budget {
			break
		}
		r, ok := d.review(old, p)
		if !ok || done > 0 && r.score < old.score-0.7-2*d.noise {
			continue
		}
		d.apply()
		done++
	}
	return done
}

// review appraises a drop again after others were made.
func (d *dropper) review(r drop, p place) (drop, bool) {
	bytes, _, next := d.gap(r.task, p)
	if next = d.g.latest(r.task, next); bytes == 0 || at(next, r.task) <= p || !d.allowed(r.task, next) {
		return r, false
	}
	d.excess, d.floor = max(1, d.needAt(p)-d.budget), math.Inf(-1)
	r.bytes, r.stage = bytes, next
	return r, d.appraise(&r, p)
}

// lower makes drops until the peak is within the budget. It goes level by level, so that all runs
// above a level are relieved evenly and runs made needless by the drops of one level are gone
// before the next; reached is called after each level but the last.
func (d *dropper) lower(limit int64, reached func(), stop func() bool) bool {
	goal := d.budget
	defer func() { d.budget = goal }()
	step := max(1, (d.peak()-goal)/dropLevels)
	for d.peak() > goal {
		d.budget = max(goal, d.peak()-step)
		if !d.descend(limit, stop) {
			return false
		}
		if d.tidy(); d.peak() > goal {
			reached()
		}
	}
	return true
}

// descend makes drops until the peak is within the budget. If no drop helps at a run, it undoes the
// drops near it, bars them for a while and goes on; after too many such setbacks or when the cost
// exceeds limit it gives up.
func (d *dropper) descend(limit int64, stop func() bool) bool {
	setbacks := 0
	for d.peak() > d.budget {
		d.turn++
		if d.cost > limit || stop() {
			return false
		}
		p := d.worst()
		if d.relieve(p, stop) {
			continue
		}
		if setbacks++; setbacks > mostSetbacks || !d.takeBack(p, setbacks) {
			return false
		}
	}
	return true
}

// takeBack removes the extra runs of the stage of p and of some stages around it, and bars their
// tasks from being dropped for some turns. It reports whether there were any.
func (d *dropper) takeBack(p place, setbacks int) bool {
	width := int32(d.rng.IntN(1 + setbacks/8))
	count := len(d.extras)
	for s := max(0, p.stage()-width); s <= min(p.stage()+width, int32(len(d.stages)-1)); s++ {
		for x := d.randomExtra(s); x >= 0; x = d.randomExtra(s) {
			d.barred[x] = d.turn + 1 + int64(d.rng.IntN(2+4*setbacks))
			d.prune(Extra{x, s})
		}
	}
	return len(d.extras) < count
}

// randomExtra is an optional extra run at a stage, or -1.
func (d *dropper) randomExtra(stage int32) int32 {
	list := d.stages[stage]
	free := len(list) - 1
	if d.fixed != nil {
		for i := range list[:len(list)-1] {
			if d.isFixed(Extra{list[i].task, stage}) {
				free--
			}
		}
	}
	if free == 0 {
		return -1
	}
	k := d.rng.IntN(free)
	for i := range list {
		if d.isFixed(Extra{list[i].task, stage}) {
			continue
		}
		if k == 0 {
			return list[i].task
		}
		k--
	}
	return -1
}

// Package envelope finds the peak of a program as formulas: the worst step in each part of a box of
// sizes, and its live bytes, exactly. For example the peak may be 24*n*n + 8*n up to n = 96, and 40*n*n
// from 97 on.
//
// A simulation (package live) depends on sizes by its comparisons: whether an output is as large as the
// input that it could be written over, whether a part lies at an aligned byte, whether indices fit. A
// [Sample] is a simulation at one binding, in symbols: the live bytes of every step as an expression, and
// all these questions. If every question is proved to have the same answer in all of a box
// (symbolic.Compare), the expressions hold in all of it. Otherwise the box is cut, at the integer where
// the answer changes, and both parts are sampled anew; a single binding has no open questions.
//
// If that would take too many parts, the rest of the box gets an upper bound ([Bound]): a simulation in
// which values share memory only where they do at all of its sizes. The work is counted ([Work]), not
// timed.
//
// The peak is then the largest of the steps' expressions. Steps that another one is proved to exceed
// everywhere are dropped, and the box is cut where the worst step changes. In more than one dimension
// such borders are curves, which boxes follow only so far: a [Piece] may have several peaks, and the
// largest counts.
package envelope

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"memopt/graph"
	"memopt/symbolic"
)

// Load is the bytes that live at a step.
type Load struct {
	Bytes symbolic.Expr
	Step  int
	Node  graph.NodeID
}

// Piece is a part of a box where the peak is the largest of a few expressions, mostly of a single one.
type Piece struct {
	Box   Box
	Peaks []Load
	// Bound is set if the formula is an upper bound instead of the exact peak.
	Bound bool
}

// Envelope is the peak of a program for all bindings of a box: boxes that cover it and do not
// overlap.
type Envelope struct {
	Box    Box
	Pieces []Piece
}

// Peak returns the peak at a binding and the step that has it. It fails if the binding is outside the
// box, or if the bytes exceed int64.
func (e *Envelope) Peak(env symbolic.Env) (bytes int64, at Load, err error) {
	if p := e.Piece(env); p != nil {
		return p.Peak(env)
	}
	return 0, Load{}, fmt.Errorf("bindings %v are outside of %v", env, e.Box)
}

// Piece is the piece with a binding; nil where the box does not have it.
func (e *Envelope) Piece(env symbolic.Env) *Piece {
	for i := range e.Pieces {
		if e.Pieces[i].Box.Contains(env) {
			return &e.Pieces[i]
		}
	}
	return nil
}

// Peak is Envelope.Peak for a binding within the piece.
func (p *Piece) Peak(env symbolic.Env) (bytes int64, at Load, err error) {
	for i, l := range p.Peaks {
		n, err := l.Bytes.Eval(env)
		if err != nil {
			return 0, Load{}, err
		}
		if i == 0 || n > bytes {
			bytes, at = n, l
		}
	}
	return bytes, at, nil
}

// Exact reports whether the formulas are the peak at every binding, not only an upper bound.
func (e *Envelope) Exact() bool {
	return !slices.ContainsFunc(e.Pieces, func(p Piece) bool { return p.Bound })
}

const (
	maxAxes       = 8   // symbols with more than one value
	maxPieces     = 48  // made by cuts where the worst step changes
	maxLinePieces = 384 // the same, of boxes along a single symbol
	maxPeaks      = 6   // expressions of a piece; the largest counts
	maxBounds     = 8   // simulations for upper bounds
	maxNumbers    = 32  // values of a symbol that each need a part of their own
)

// ErrPieces means that a box has more parts than are worth looking at.
var ErrPieces = errors.New("the peak has no useful formula over these ranges")

// Sampler simulates at a binding.
type Sampler func(symbolic.Env) (*Sample, error)

// Bound finds loads whose maximum is at least the peak at every binding of a box.
type Bound func(Box) ([]Load, error)

// Build finds the envelope of a sampler's simulation over a box, with upper bounds where the work
// does not suffice. The error is the sampler's at a binding of the box, or the context's.
func Build(ctx context.Context, box Box, sample Sampler, bound Bound, work *Work) (*Envelope, error) {
	p := &partitioner{ctx: ctx, sample: sample, work: work, bounded: true}
	if err := p.run(box); err != nil {
		return nil, err
	}
	e := &Envelope{Box: box}
	e.refine(p.parts, work)
	if err := e.bound(p.left, bound, work); err != nil {
		return nil, err
	}
	e.Pieces = merge(e.Pieces)
	return e, nil
}

// bound adds pieces for the rest of the box: the largest have bounds of their own, the others
// that of the whole box.
func (e *Envelope) bound(left []*task, bound Bound, work *Work) error {
	var whole []Load
	for i, t := range left {
		loads, err := whole, error(nil)
		switch {
		case i < maxBounds-1 || len(left) == maxBounds:
			loads, err = bound(t.box)
		case whole == nil:
			if loads, err = bound(e.Box); err == nil {
				whole = worst(newRegion(e.Box, work), loads)
				loads = whole
			}
		}
		if err != nil {
			return err
		}
		e.add(candidatesIn(t.box, loads, work), true)
	}
	return nil
}

// condense replaces the last of many expressions by one that is at least as large as each.
func (p *Piece) condense(r *region) {
	if len(p.Peaks) <= maxPeaks {
		return
	}
	value := func(l Load) int64 { n, _ := l.Bytes.Eval(r.high); return n }
	slices.SortStableFunc(p.Peaks, func(x, y Load) int { return cmp.Compare(value(y), value(x)) })
	last := p.Peaks[maxPeaks-1]
	for _, l := range p.Peaks[maxPeaks:] {
		last.Bytes = symbolic.Majorant(last.Bytes, l.Bytes)
	}
	p.Peaks = append(p.Peaks[:maxPeaks-1:maxPeaks-1], last)
	p.Bound = true
}

// Part is a part of a box, and a sample that holds in all of it.
type Part struct {
	Box    Box
	Sample *Sample
}

// Partition cuts a box into parts whose bindings all give the same answers to the simulation's questions.
// Errors are those of Build, and ErrPieces if the work does not suffice.
func Partition(ctx context.Context, box Box, sample Sampler, work *Work) ([]Part, error) {
	p := &partitioner{ctx: ctx, sample: sample, work: work}
	if err := p.run(box); err != nil {
		return nil, err
	}
	if len(p.left) == 0 {
		return p.parts, nil
	}
	if n := len(newRegion(box, work).wide); n > maxAxes {
		return nil, fmt.Errorf("%w: %d symbols vary, wanted at most %d", ErrPieces, n, maxAxes)
	}
	t := p.left[0]
	return nil, fmt.Errorf("%w: values share memory in too many ways, for example near %v, where the "+
		"sign of %.120s matters; bind a symbol of it to one number, or narrow its range",
		ErrPieces, t.box, t.question.of)
}

// task is a box that may need more cuts until a sample holds in it.
type task struct {
	box      Box
	sample   *Sample // at the largest sizes; nil before it is taken
	from     int     // doubts of the sample before this are settled
	question question
	of       *task    // the box that it is a part of; nil for the whole
	parts    [2]*task // nil before it is cut
}

// partitioner cuts the largest boxes first, so that little is left where the work ends.
type partitioner struct {
	ctx    context.Context
	sample Sampler
	work   *Work
	parts  []Part
	left   tasks // boxes that have not been looked at
	// bounded says that there are bounds for boxes: stuck are those that are left because each value of a
	// symbol would need a part of its own.
	bounded bool
	stuck   []*task
}

func (p *partitioner) run(box Box) error {
	p.left = tasks{{box: box}}
	if len(newRegion(box, p.work).wide) > maxAxes {
		return nil
	}
	for first := true; len(p.left) > 0 && (first || !p.work.done()); first = false {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := p.cut(heap.Pop(&p.left).(*task)); err != nil {
			return err
		}
	}
	slices.SortFunc(p.left, larger)
	if p.left = append(p.stuck, p.left...); p.bounded {
		p.left = coarse(p.left, maxBounds)
	}
	return nil
}

// cut checks whether a sample holds in a box, and cuts the box in two if it does not.
func (p *partitioner) cut(t *task) error {
	if t.sample == nil {
		var err error
		if t.sample, err = p.sample(t.box.High()); err != nil {
			return fmt.Errorf("at %v: %w", t.box.at(func(a Axis) int64 { return a.Hi }), err)
		}
		p.work.spend(t.sample.work)
	}
	r := newRegion(t.box, p.work)
	q, at, open := t.sample.open(r, t.from)
	if !open {
		p.parts = append(p.parts, Part{t.box, t.sample})
		return nil
	}
	if _, single := t.sample.doubts[at].(fixedNumber); single && p.bounded && q.spread(t.box) > maxNumbers {
		p.stuck = append(p.stuck, t)
		return nil
	}
	below, above := q.divide(t.box)
	t.parts = [2]*task{{box: below, question: q, of: t}, {box: above, sample: t.sample, from: at, question: q, of: t}}
	t.sample = nil
	p.work.spend(cutWork * q.of.Size())
	for _, part := range t.parts {
		heap.Push(&p.left, part)
	}
	return nil
}

// cutWork is the units of a search for the place of a cut, for each term and factor of the question.
const cutWork = 32

// tasks is a heap, the largest box on top.
type tasks []*task

func (l tasks) Len() int           { return len(l) }
func (l tasks) Less(i, j int) bool { return larger(l[i], l[j]) < 0 }
func (l tasks) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *tasks) Push(t any)        { *l = append(*l, t.(*task)) }
func (l *tasks) Pop() any {
	last := len(*l) - 1
	t := (*l)[last]
	*l = (*l)[:last]
	return t
}

// before sorts boxes by how many bindings they have, the largest first.
func (b Box) before(c Box) int { return cmp.Or(cmp.Compare(c.volume(), b.volume()), b.compare(c)) }

// volume is how many bindings a box has.
func (b Box) volume() float64 {
	n := 1.0
	for _, a := range b {
		n *= float64(a.Hi-a.Lo) + 1
	}
	return n
}

// candidates are the loads that may be the peak in a region.
type candidates struct {
	in    *region
	loads []Load
}

// line is 1 if one symbol varies: then cuts always end.
func (c candidates) line() int {
	if len(c.in.wide) == 1 {
		return 1
	}
	return 0
}

func candidatesIn(b Box, loads []Load, work *Work) candidates {
	r := newRegion(b, work)
	return candidates{r, worst(r, loads)}
}

// refine makes pieces of parts, with cuts where the worst step changes as long as there are cuts
// left: those with one symbol first, then the largest.
func (e *Envelope) refine(parts []Part, work *Work) {
	cuts := [2]int{maxPieces, maxLinePieces}
	var open []candidates
	push := func(c candidates) {
		if len(c.loads) == 1 || c.in.point() {
			e.add(c, false)
			return
		}
		at, _ := slices.BinarySearchFunc(open, c, func(x, y candidates) int {
			return cmp.Or(cmp.Compare(y.line(), x.line()), x.in.before(y.in.Box))
		})
		open = slices.Insert(open, at, c)
	}
	for _, p := range parts {
		push(candidatesIn(p.Box, p.Sample.Loads, work))
	}
	for len(open) > 0 && !work.done() {
		c := open[0]
		left := &cuts[c.line()]
		if *left == 0 {
			break
		}
		*left--
		open = open[1:]
		below, above := changing(c.in.Box, c.loads).divide(c.in.Box)
		push(candidatesIn(below, c.loads, work))
		push(candidatesIn(above, c.loads, work))
	}
	for _, c := range open {
		e.add(c, false)
	}
}

// add adds a piece with few expressions.
func (e *Envelope) add(c candidates, bound bool) {
	p := Piece{Box: c.in.Box, Peaks: c.loads, Bound: bound}
	p.condense(c.in)
	e.Pieces = append(e.Pieces, p)
}

// changing is the question which of two candidates is larger that are the worst at different corners
// of a box.
func changing(box Box, loads []Load) question {
	at := func(env symbolic.Env) Load {
		_, l, _ := (&Piece{Box: box, Peaks: loads}).Peak(env)
		return l
	}
	probes := box.probes()
	first := at(probes[0])
	for _, env := range probes[1:] {
		if l := at(env); l.Step != first.Step {
			return question{of: first.Bytes.Sub(l.Bytes)}
		}
	}
	return question{of: loads[0].Bytes.Sub(loads[1].Bytes)}
}

// merge joins pieces whose peaks are the same.
func merge(pieces []Piece) []Piece {
	for again := true; again; {
		again = false
		for i := 0; i < len(pieces); i++ {
			for k := i + 1; k < len(pieces); k++ {
				box, ok := pieces[i].Box.joined(pieces[k].Box)
				if !ok {
					continue
				}
				peaks, ok := common(&pieces[i], &pieces[k])
				if !ok {
					continue
				}
				pieces[i] = Piece{box, peaks, pieces[i].Bound}
				pieces = slices.Delete(pieces, k, k+1)
				k, again = i, true
			}
		}
	}
	sort.Slice(pieces, func(i, k int) bool { return pieces[i].Box.compare(pieces[k].Box) < 0 })
	return pieces
}

// common returns one list of peaks for two pieces: that of one piece, if its maximum equals that of the
// other there.
func common(p, q *Piece) ([]Load, bool) {
	if len(p.Peaks) != len(q.Peaks) || p.Bound != q.Bound {
		return nil, false
	}
	for _, pair := range [2][2]*Piece{{p, q}, {q, p}} {
		from, to := pair[0], pair[1]
		fixed := to.Box.fixed()
		holds := true
		for i, l := range from.Peaks {
			own := to.Peaks[i]
			holds = holds && l.Node == own.Node && l.Bytes.Bind(fixed).Equal(own.Bytes.Bind(fixed))
		}
		if holds {
			return from.Peaks, true
		}
	}
	return nil, false
}

// compare orders boxes by their lowest corners.
func (b Box) compare(c Box) int {
	for i := range b {
		if b[i].Lo != c[i].Lo {
			if b[i].Lo < c[i].Lo {
				return -1
			}
			return 1
		}
	}
	return 0
}

// Package envelope finds the peak of a program as formulas: which step is the worst in which part of
// a box of sizes, and how many bytes live there, exactly.
//
// A simulation (package live) depends on sizes by what it asks of them: whether an output is as
// large as the input that it could be written over, whether a part lies at an aligned byte, whether
// indices fit. A [Sample] is a simulation at one binding, in symbols: the bytes that live at every
// step as an expression, and all these questions. Where every question is proved to have the same
// answer in all of a box (symbolic.Compare), the expressions hold in all of it. Where one is not, the
// box is cut, at the integer at which the answer changes, and both parts are sampled anew; a single
// binding has no open questions.
//
// What is left is the largest of the steps' expressions. Steps that another one is proved to exceed
// everywhere are dropped, and the box is cut where the worst step changes. In more than one
// dimension such borders are curves, which boxes follow only so far: a [Piece] may have several
// peaks, of which the largest counts.
package envelope

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// Load is the bytes that live at a step.
type Load struct {
	Bytes symbolic.Expr
	Step  int
	Node  graph.NodeID
}

// Piece is a part of a box in which the peak is the largest of a few expressions; mostly there is
// one.
type Piece struct {
	Box   Box
	Peaks []Load
}

// Envelope is the peak of a program for all bindings of a box: boxes that cover it and do not
// overlap.
type Envelope struct {
	Box    Box
	Pieces []Piece
}

// Peak returns the peak at a binding and the step that has it. The error says that the box does not
// have the binding, or that bytes exceed int64.
func (e *Envelope) Peak(env symbolic.Env) (bytes int64, at Load, err error) {
	for i := range e.Pieces {
		if e.Pieces[i].Box.Contains(env) {
			return e.Pieces[i].Peak(env)
		}
	}
	return 0, Load{}, fmt.Errorf("bindings %v are outside of %v", env, e.Box)
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

// Limits of the work. A program whose memory changes its ways more often has no useful formula.
const (
	maxSamples = 4000
	maxSteps   = 8_000_000 // simulated in all samples
	maxAxes    = 8         // symbols with more than one value
	maxPieces  = 48        // made by cuts where the worst step changes; with one axis: several times as many
)

// ErrPieces says that a box has more parts than are worth looking at.
var ErrPieces = errors.New("the peak has no useful formula over these ranges")

// Sampler simulates at a binding.
type Sampler func(symbolic.Env) (*Sample, error)

// Build finds the envelope of what a sampler simulates over a box. The error is the sampler's at a
// binding of the box, the context's, or ErrPieces.
func Build(ctx context.Context, box Box, sample Sampler) (*Envelope, error) {
	pieces, err := Partition(ctx, box, sample)
	if err != nil {
		return nil, err
	}
	e := &Envelope{Box: box}
	cuts := maxPieces
	if len(box)-len(box.fixed()) == 1 {
		cuts *= 8
	}
	for i := range pieces {
		p := &pieces[i]
		e.Pieces = refine(e.Pieces, p.Box, worst(p.Box, p.Sample.Loads), &cuts)
	}
	e.Pieces = merge(e.Pieces)
	return e, nil
}

// Part is a part of a box in which a sample holds.
type Part struct {
	Box    Box
	Sample *Sample
}

// Partition cuts a box into parts in each of which all bindings give the same answers to what a
// simulation asks. Errors are those of Build.
func Partition(ctx context.Context, box Box, sample Sampler) ([]Part, error) {
	if n := len(box) - len(box.fixed()); n > maxAxes {
		return nil, fmt.Errorf("%w: %d symbols vary, wanted at most %d", ErrPieces, n, maxAxes)
	}
	p := &partitioner{ctx: ctx, sample: sample, left: maxSamples}
	if err := p.add(box); err != nil {
		return nil, err
	}
	return p.parts, nil
}

type partitioner struct {
	ctx    context.Context
	sample Sampler
	left   int // how many samples may still be taken
	parts  []Part
}

func (p *partitioner) add(box Box) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	s, err := p.sample(box.High())
	if err != nil {
		return fmt.Errorf("at %v: %w", box.at(func(a Axis) int64 { return a.Hi }), err)
	}
	p.left = min(p.left, maxSteps/max(len(s.Program.Steps), 1)) - 1
	q, open := s.open(box)
	if !open {
		p.parts = append(p.parts, Part{box, s})
		return nil
	}
	if p.left <= 0 {
		return fmt.Errorf("%w: values share memory in too many ways, for example near %v, where the "+
			"sign of %.120s matters; bind a symbol of it to one number, or narrow its range",
			ErrPieces, box, q.of)
	}
	below, above := q.divide(box)
	if err := p.add(below); err != nil {
		return err
	}
	return p.add(above)
}

// refine appends the pieces of a box in which loads are the candidates for the peak, with cuts where
// the worst one changes as long as there are cuts left.
func refine(pieces []Piece, box Box, loads []Load, cuts *int) []Piece {
	if len(loads) == 1 || box.point() || *cuts <= 0 {
		return append(pieces, Piece{box, loads})
	}
	*cuts--
	below, above := changing(box, loads).divide(box)
	pieces = refine(pieces, below, worst(below, loads), cuts)
	return refine(pieces, above, worst(above, loads), cuts)
}

// changing is the question which of two candidates is larger that are the worst at different corners
// of a box.
func changing(box Box, loads []Load) question {
	at := func(env symbolic.Env) Load {
		_, l, _ := (&Piece{box, loads}).Peak(env)
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
				pieces[i] = Piece{box, peaks}
				pieces = slices.Delete(pieces, k, k+1)
				k, again = i, true
			}
		}
	}
	slices.SortFunc(pieces, func(x, y Piece) int { return x.Box.compare(y.Box) })
	return pieces
}

// common returns peaks that hold in two pieces: those of one of them where they are as large in the
// other as its own.
func common(p, q *Piece) ([]Load, bool) {
	if len(p.Peaks) != len(q.Peaks) {
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

// compare sorts boxes by where they begin.
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

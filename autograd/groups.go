package autograd

import (
	"fmt"
	"math"

	"memopt/graph"
)

// Group gives parameters a learning rate and a weight decay of their own, as PyTorch's parameter
// groups do.
type Group struct {
	Match   []string // globs of names of parameters
	LRScale float64  // the factor of the learning rate; 0 means 1
	// WeightDecay takes the place of the optimizer's, NoDecay or not; nil keeps the optimizer's.
	WeightDecay *float64
}

// NoDecayOfVectors exempts the parameters of a model that have fewer than two dims from weight decay:
// biases, and the scales of norms. It is nanoGPT's rule; Hugging Face's Trainer exempts biases and
// norms by their names and modules, which a file does not have.
func NoDecayOfVectors(m *graph.Model) func(param string) bool {
	return func(param string) bool {
		v, ok := m.Graph.Lookup(param)
		if !ok {
			return false
		}
		s := m.Graph.Values[v].Type.Shape
		return s.Ranked && s.Rank() < 2
	}
}

// checkGroups rejects numbers that no group can have.
func (o *Optimizer) checkGroups() error {
	for i, g := range o.Groups {
		switch {
		case len(g.Match) == 0:
			return fmt.Errorf("optimizer %s: group %d matches no parameter: give it globs of parameters", o.Kind, i+1)
		case !(g.LRScale >= 0 && !math.IsInf(g.LRScale, 0)):
			return fmt.Errorf("optimizer %s: group %d (%q) multiplies the learning rate by %v; it must be a "+
				"number of at least 0", o.Kind, i+1, g.Match, g.LRScale)
		case g.WeightDecay != nil && !(*g.WeightDecay >= 0 && !math.IsInf(*g.WeightDecay, 0)):
			return fmt.Errorf("optimizer %s: group %d (%q) has the weight decay %v; it must be a number of at "+
				"least 0", o.Kind, i+1, g.Match, *g.WeightDecay)
		}
	}
	return nil
}

// member is the part of a group in a parameter's update.
type member struct {
	scale float64 // of the learning rate
	decay float64
}

// pace is a learning rate.
type pace struct {
	scale          float64
	rate, stepSize Value // double; the latter, of adam, without the first mean's bias, of adafactor relative
	kept           []kept
}

// kept is the share of a parameter that decay in adamw's way keeps.
type kept struct {
	decay float64
	value Value // double
}

// join finds the group of each parameter. A glob that matches no parameter is a mistake.
func (u *updater) join() {
	var names []string
	for _, p := range u.params {
		names = append(names, u.j.g.ValueName(p))
		u.members = append(u.members, u.memberOf(names[len(names)-1]))
	}
	for i, g := range u.Groups {
		for _, glob := range g.Match {
			hit := false
			for _, name := range names {
				hit = hit || graph.MatchGlob(glob, name)
			}
			if !hit {
				u.must(fmt.Errorf("optimizer %s: group %d: %q matches no parameter; they are %s",
					u.Kind, i+1, glob, u.j.names(u.params)))
			}
		}
	}
}

// memberOf resolves the group of a parameter.
func (u *updater) memberOf(name string) member {
	m := member{scale: 1, decay: u.WeightDecay}
	if u.NoDecay != nil && u.NoDecay(name) {
		m.decay = 0
	}
	for _, g := range u.Groups {
		if !matchAny(g.Match, name) {
			continue
		}
		if g.LRScale != 0 {
			m.scale = g.LRScale
		}
		if g.WeightDecay != nil {
			m.decay = *g.WeightDecay
		}
		break
	}
	return m
}

// setPaces makes the learning rates of all groups. stepSize makes the size of a step of a rate; nil means that there
// is none.
func (u *updater) setPaces(rate Value, stepSize func(rate Value) Value) {
	for _, m := range u.members {
		if u.pace(m.scale) != nil {
			continue
		}
		p := pace{m.scale, rate, None, nil}
		if m.scale != 1 {
			p.rate = u.Mul(rate, u.double(m.scale))
		}
		if stepSize != nil {
			p.stepSize = stepSize(p.rate)
		}
		u.paces = append(u.paces, p)
	}
}

// pace returns the learning rate of a scale, nil before there is one.
func (u *updater) pace(scale float64) *pace {
	for i := range u.paces {
		if u.paces[i].scale == scale {
			return &u.paces[i]
		}
	}
	return nil
}

// kept is 1 - rate·decay. With a guard it is made once for all parameters.
func (u *updater) kept(p *pace, decay float64) Value {
	for _, k := range p.kept {
		if k.decay == decay && u.guards() {
			return k.value
		}
	}
	v := u.Sub(u.double(1), u.Mul(p.rate, u.double(decay)))
	p.kept = append(p.kept, kept{decay, v})
	return v
}

package autograd

import "strings"

// optimizerKind is a rule of updates with a number of bits for its states.
type optimizerKind struct {
	name, title string
	rule        string // of the update: the name of the kind with states in float32
	bits        int    // of an element of a state that is stored in codes; 0: states are float32
}

var optimizerKinds = []optimizerKind{
	{"sgd", "SGD", "sgd", 0},
	{"adam", "Adam", "adam", 0},
	{"adamw", "AdamW", "adamw", 0},
	{"lion", "Lion", "lion", 0},
	{"muon", "Muon, with AdamW beside hidden matrices", "muon", 0},
	{"adafactor", "Adafactor", "adafactor", 0},
	{"adam8bit", "Adam with moments of 8 bits (inexact)", "adam", 8},
	{"adamw8bit", "AdamW with moments of 8 bits (inexact)", "adamw", 8},
	{"adam4bit", "Adam with moments of 4 bits (inexact)", "adam", 4},
	{"adamw4bit", "AdamW with moments of 4 bits (inexact)", "adamw", 4},
}

// OptimizerKinds lists the optimizers that there are.
var OptimizerKinds = func() (names []string) {
	for _, k := range optimizerKinds {
		names = append(names, k.name)
	}
	return names
}()

// Kinds lists the optimizers in a phrase, with further words in their row: "sgd, adam or none".
func Kinds(more ...string) string {
	names := append(OptimizerKinds[:len(OptimizerKinds):len(OptimizerKinds)], more...)
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// kind is the row of an optimizer; the zero row for Kind "".
func (o *Optimizer) kind() optimizerKind {
	for _, k := range optimizerKinds {
		if k.name == o.Kind {
			return k
		}
	}
	return optimizerKind{name: o.Kind, rule: o.Kind}
}

func (o *Optimizer) rule() string { return o.kind().rule }

// Title names an optimizer in texts; one whose states lose digits says so.
func (o *Optimizer) Title() string { return o.kind().title }

// Bits is how many bits an element of a state has; 0: states are not stored in codes.
func (o *Optimizer) Bits() int { return o.kind().bits }

// FewerBits are the kinds with the rule of an optimizer whose states take fewer bits, the most bits first; nil: there
// are none, or the optimizer keeps no states.
func (o *Optimizer) FewerBits() (kinds []string) {
	own := o.kind()
	if len(o.States()) == 0 {
		return nil
	}
	for _, k := range optimizerKinds { // the table has those with more bits first
		if k.rule == own.rule && k.bits > 0 && (own.bits == 0 || k.bits < own.bits) {
			kinds = append(kinds, k.name)
		}
	}
	return kinds
}

// Uniform reports whether all parameters have the same states, as floats in the shape of the parameter.
func (o *Optimizer) Uniform() bool {
	return o.Bits() == 0 && o.rule() != "muon" && o.rule() != "adafactor"
}

// States are the suffixes of the states that an optimizer keeps of a parameter, for example MomentumSuffix; nil: it
// keeps none. Each state has the shape of the parameter, or is stored in codes with scales (ScaleSuffix). An optimizer
// whose parameters differ in their states has all suffixes in the list.
func (o *Optimizer) States() []string {
	switch {
	case o.rule() == "muon":
		return []string{MomentumSuffix, AvgSuffix, SqAvgSuffix}
	case o.rule() == "adafactor":
		return []string{RowSuffix, ColumnSuffix, VarianceSuffix}
	case o.unbiased():
		return []string{AvgSuffix, SqAvgSuffix}
	case o.rule() == "lion":
		return []string{AvgSuffix}
	case o.Momentum != 0:
		return []string{MomentumSuffix}
	}
	return nil
}

package op

import (
	"strings"

	"memopt/graph"
)

// signature holds a schema version's operands and attributes.
type signature struct {
	since           int
	inputs, outputs []operand
	attrs           []AttrSpec
}

// operand is a formal input or output. The last one may stand for several.
type operand struct {
	variable string // operands with the same variable have one type; "" for a fixed type
	types    typeSet
	optional bool
	variadic bool
	least    int  // of a variadic one: how many there must be
	mixed    bool // of a variadic one: they may have different types
}

// AttrSpec is an attribute that a schema has.
type AttrSpec struct {
	Name     string
	Kind     string // "int", "ints", "float", "floats", "string", "strings", "tensor", "sparse", "graph" or "type"
	Required bool
}

// Attrs lists the attributes of an operator's schema version; do not edit it.
func (i *Info) Attrs(version int) []AttrSpec {
	if sig := i.signature(version); sig != nil {
		return sig.attrs
	}
	return nil
}

// typeSet is a set of types: bit d stands for element type d.
type typeSet struct{ tensor, sequence, optional, optionalSequence uint32 }

// signature returns the signature of a schema version; nil if there is no such version.
func (i *Info) signature(version int) *signature {
	var found *signature
	list := signatures()[i.Kind]
	for k := range list {
		if list[k].since <= version {
			found = &list[k]
		}
	}
	return found
}

// MayHold reports whether the schema of some version lets an input have elements of a type, in a
// tensor, a sequence or an optional. It is true where there is no schema.
func (i *Info) MayHold(input int, d graph.DType) bool {
	list := signatures()[i.Kind]
	for k := range list {
		o := slot(list[k].inputs, input)
		if o == nil {
			continue
		}
		if s := &o.types; (s.tensor|s.sequence|s.optional|s.optionalSequence)>>uint(d)&1 != 0 {
			return true
		}
	}
	return len(list) == 0
}

// laterAdmits reports whether the signature of a version after the given one passes a test.
func (i *Info) laterAdmits(version int, test func(*signature) bool) bool {
	list := signatures()[i.Kind]
	for k := range list {
		if list[k].since > version && test(&list[k]) {
			return true
		}
	}
	return false
}

// slot returns the formal operand of slot i, or nil.
func slot(list []operand, i int) *operand {
	if last := len(list) - 1; i > last && last >= 0 && list[last].variadic {
		return &list[last]
	} else if i > last {
		return nil
	}
	return &list[i]
}

// arity returns how many operands a list of formal ones admits.
func arity(list []operand) Arity {
	a := Arity{0, len(list)}
	for i := range list {
		switch o := &list[i]; {
		case o.variadic:
			a.Max = -1
			a.Min = i + o.least
		case !o.optional:
			a.Min = i + 1
		}
	}
	return a
}

// admits reports whether an arity has room for n operands.
func (a Arity) admits(n int) bool { return n >= a.Min && (a.Max < 0 || n <= a.Max) }

// has reports whether a type may be in the set; an unknown type may.
func (s typeSet) has(t graph.Type) bool {
	switch t.Form {
	case graph.FormUnknown:
		return true
	case graph.FormTensor:
		return inSet(s.tensor, t.DType)
	case graph.FormSequence:
		return elementIn(s.sequence, t.Elem)
	case graph.FormOptional:
		if t.Elem != nil && t.Elem.Form == graph.FormSequence {
			return elementIn(s.optionalSequence, t.Elem.Elem)
		}
		if t.Elem == nil || t.Elem.Form == graph.FormUnknown {
			return s.optional|s.optionalSequence != 0
		}
		return t.Elem.Form == graph.FormTensor && inSet(s.optional, t.Elem.DType)
	}
	return false
}

func inSet(set uint32, d graph.DType) bool {
	return set != 0 && (d == graph.Undefined || d.Valid() && set>>uint(d)&1 != 0)
}

// elementIn is inSet for the element type of a sequence.
func elementIn(set uint32, elem *graph.Type) bool {
	if elem == nil || elem.Form == graph.FormUnknown {
		return set != 0
	}
	return elem.Form == graph.FormTensor && inSet(set, elem.DType)
}

// String lists the types as messages do.
func (s typeSet) String() string {
	var parts []string
	for _, form := range []struct {
		set  uint32
		text string
	}{{s.tensor, ""}, {s.sequence, "a sequence of "}, {s.optional, "an optional of "},
		{s.optionalSequence, "an optional sequence of "}} {
		if form.set != 0 {
			parts = append(parts, form.text+elementNames(form.set))
		}
	}
	return strings.Join(parts, ", or ")
}

// elementNames lists element types; sets that have a name for people are called by it.
func elementNames(set uint32) string {
	switch sets := typeSets(); set {
	case sets["any"], sets["plainb"]:
		return "any type"
	case sets["plain"]:
		return "any type but bfloat16"
	case sets["numbersb"]:
		return "numbers"
	case sets["floats"]:
		return "floating-point numbers"
	case sets["integers"]:
		return "integers"
	}
	var names []string
	for d := graph.DType(1); d.Valid(); d++ {
		if set>>uint(d)&1 != 0 {
			names = append(names, d.String())
		}
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return strings.Join(names, "")
}

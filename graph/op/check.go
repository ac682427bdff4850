package op

import (
	"fmt"

	"memopt/graph"
)

// checkDefinition checks a node's operands and attributes against the schema of its version. No
// rule, of shapes or of gradients, and no kernel sees a node that contradicts the schema.
func (c *Ctx) checkDefinition() {
	sig := c.Info.signature(c.Version)
	if sig == nil {
		return // row 0: the operator is unknown
	}
	c.checkCounts(sig)
	c.laterOrNever(sig, (*Ctx).attrFault)
	c.laterOrNever(sig, (*Ctx).givenFault)
	c.laterOrNever(sig, (*Ctx).typeFault)
}

// laterOrNever checks a node against a signature. It notes and accepts a feature of a later version
// of the operator, because rules and kernels are written for all versions.
func (c *Ctx) laterOrNever(sig *signature, fault func(*Ctx, *signature) string) {
	text := fault(c, sig)
	if text == "" || c.err != nil {
		return
	}
	if c.Info.laterAdmits(c.Version, func(s *signature) bool { return fault(c, s) == "" }) {
		c.loosely("%s", text)
	} else {
		c.Errorf("%s", text)
	}
}

// checkCounts rejects operands that the version does not have: in another version they may mean
// something else than this version's rule assumes.
func (c *Ctx) checkCounts(sig *signature) {
	if n, want := len(c.Node.Inputs), arity(sig.inputs); want.Max >= 0 && n > want.Max {
		c.Errorf("has %d inputs, wanted %v", n, want)
	}
	n, want := len(c.Node.Outputs), arity(sig.outputs)
	if want.Min = min(want.Min, c.Info.Outputs.Min); !want.admits(n) {
		c.Errorf("has %d outputs, wanted %v", n, want)
	}
}

// givenFault says which required operand is left out.
func (c *Ctx) givenFault(sig *signature) string {
	if n, want := len(c.Node.Inputs), arity(sig.inputs); n < want.Min {
		return fmt.Sprintf("has %d inputs, wanted %v", n, want)
	}
	for i := range c.Node.Inputs {
		if o := slot(sig.inputs, i); !c.Has(i) && o != nil && !o.optional {
			return fmt.Sprintf("input %d is left out; the operator requires it", i)
		}
	}
	for i, id := range c.Node.Outputs {
		if o := slot(sig.outputs, i); id == graph.NoValue && o != nil && !o.optional && !o.variadic {
			return fmt.Sprintf("output %d is left out; the operator requires it", i)
		}
	}
	return ""
}

// attrFault checks the kinds of attributes against the schema. Attributes that the schema does not
// have are ignored.
func (c *Ctx) attrFault(sig *signature) string {
	for i := range sig.attrs {
		spec := &sig.attrs[i]
		a := c.Node.Attr(spec.Name)
		switch {
		case a == nil && spec.Required:
			return fmt.Sprintf("lacks the attribute %q, %s", spec.Name, attrKinds[spec.Kind])
		case a == nil:
		case a.Value == nil && a.Ref != "":
			return fmt.Sprintf("attribute %q stands for the attribute %q of a function; inline the function first",
				a.Name, a.Ref)
		case spec.Kind == "ints" && attrKind(a.Value) == "int" && !c.inf.strict: // IntList accepts it
		case attrKind(a.Value) != spec.Kind:
			return fmt.Sprintf("attribute %q holds %s, wanted %s", a.Name, attrForm(a.Value), attrKinds[spec.Kind])
		}
	}
	return ""
}

// typeFault holds the types of inputs, as far as they are known, to a schema's: each has a set, and
// those of one variable are equal.
//
// The operands of a variadic operator are each held to the first, and to the first whose element
// type is known: a check of all pairs would take quadratic time.
func (c *Ctx) typeFault(sig *signature) string {
	known := -1 // the first of the repeated operands that is a tensor of known type
	for i := range c.Node.Inputs {
		o, t := slot(sig.inputs, i), c.In(i)
		if o == nil || t.Form == graph.FormUnknown {
			continue
		}
		if !o.types.has(t) {
			return fmt.Sprintf("input %d has type %s, wanted %v", i, formOf(t), o.types)
		}
		if o.mixed || o.variable == "" {
			continue
		}
		for j := range min(i, len(sig.inputs)+1) {
			if why := c.apartFrom(sig, o.variable, j, i); why != "" {
				return why
			}
		}
		if known >= 0 {
			if why := c.apartFrom(sig, o.variable, known, i); why != "" {
				return why
			}
		} else if i >= len(sig.inputs) && t.Form == graph.FormTensor && t.DType != graph.Undefined {
			known = i
		}
	}
	return ""
}

// apartFrom says how the type of input i contradicts that of input j, where both have one type
// variable.
func (c *Ctx) apartFrom(sig *signature, variable string, j, i int) string {
	if slot(sig.inputs, j).variable != variable || !apart(c.In(j), c.In(i)) {
		return ""
	}
	return fmt.Sprintf("input %d has type %s and input %d has type %s; they must be equal",
		j, formOf(c.In(j)), i, formOf(c.In(i)))
}

// apart reports whether two types are known to differ in more than shapes.
func apart(a, b graph.Type) bool {
	switch {
	case a.Form == graph.FormUnknown || b.Form == graph.FormUnknown:
		return false
	case a.Form != b.Form:
		return true
	case a.Form == graph.FormTensor:
		return a.DType != b.DType && a.DType != graph.Undefined && b.DType != graph.Undefined
	}
	return a.Elem != nil && b.Elem != nil && apart(*a.Elem, *b.Elem)
}

// formOf names a type without its shape.
func formOf(t graph.Type) string {
	switch {
	case t.Form == graph.FormTensor:
		return t.DType.String()
	case t.Elem != nil:
		elem := *t.Elem
		elem.Shape = graph.Shape{}
		t.Elem = &elem
	}
	return t.String()
}

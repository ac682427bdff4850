package graph

import "strings"

// node reads "[label] outputs = domain.Op:overload <attributes> (inputs)".
func (p *parser) node(g *Graph) *Node {
	var about notes
	var devices []NodeDevices
	p.header("a description", func(key string) bool {
		if key == "device_configurations" {
			devices = p.devices()
			return true
		}
		return about.field(p, key)
	})
	n := &Node{}
	n.SetRare(Rare{Doc: about.doc, Metadata: about.metadata, Devices: devices, Extra: about.extra})
	if p.accept("[") {
		n.Name = p.word("the label of a node")
		p.expect("]")
	}
	n.Outputs = p.operands(g, "=")
	p.operator(n)
	p.attrs(g, n)
	p.expect("(")
	n.Inputs = p.operands(g, ")")
	if !p.atNotes() { // those of the next node
		p.attrs(g, n)
	}
	g.ResolveShardings(n)
	return n
}

// atNotes reports whether a list in angle brackets describes the part that follows: its first entry
// has a value behind the colon, where an attribute has a type.
func (p *parser) atNotes() bool {
	if !p.is("<") {
		return false
	}
	tok, at := p.tok, p.at
	p.next()
	p.next()
	found := p.accept(":") && (p.tok.kind == tokQuoted || p.is("["))
	p.tok, p.at = tok, at
	return found
}

// operands reads names up to a closing mark. An operand that is left out is written as "" or, in
// front of a comma, not at all.
func (p *parser) operands(g *Graph, end string) []ValueID {
	var list []ValueID
	for !p.accept(end) {
		switch {
		case p.is(","):
			list = append(list, NoValue)
		default:
			list = append(list, g.Value(p.word("the name of a value or \""+end+"\"")))
		}
		if !p.accept(",") && !p.is(end) {
			p.unexpected("\",\" or \"" + end + "\"")
		}
	}
	return list
}

// operator reads an operator, its domain in front and its overload behind it.
func (p *parser) operator(n *Node) {
	at := p.tok.at
	n.Op = p.word("an operator")
	if p.is(".") {
		parts := []string{n.Op}
		for p.accept(".") {
			parts = append(parts, p.word("an operator"))
		}
		last := len(parts) - 1
		n.Domain, n.Op = strings.Join(parts[:last], "."), parts[last]
	}
	if n.Op == "" {
		p.fail(at, "an operator cannot have an empty name")
	}
	if p.accept(":") {
		overload := p.word("the overload of an operator")
		n.EditRare(func(r *Rare) { r.Overload = overload })
	}
}

// attrs reads "<name = value, ...>", if there is one, which there may be once.
func (p *parser) attrs(g *Graph, n *Node) {
	at := p.tok.at
	if len(n.Attrs) > 0 || !p.accept("<") {
		return
	}
	names := map[string]bool{}
	p.items(">", func() {
		doc := p.docOnly()
		place := p.tok.at
		name := p.word("an attribute")
		if names[name] {
			p.fail(place, "attribute %q occurs twice", shorten(name))
		}
		names[name] = true
		a := p.attrRest(g, name)
		a.Doc = doc
		n.Attrs = append(n.Attrs, a)
	})
	if len(n.Attrs) == 0 {
		p.fail(at, "a list of attributes cannot be empty")
	}
}

package op

import (
	"fmt"
	"slices"

	"memopt/graph"
)

// Deviation is a node of a file that contradicts its operator's definition in the version that the file imports.
type Deviation struct {
	Node graph.NodeID
	Why  error  // names the node
	Read string // the reading of the node; "" if it is opaque
}

// Opaque reports whether the node has no reading, so that its effect is unknown.
func (d *Deviation) Opaque() bool { return d.Read == "" }

// reading is a way to understand a node.
type reading struct {
	kind    graph.Kind
	version int // 0: that of the imported operator set
}

// read finds the row and the version that fit a node: those that the file states, if the node does
// not contradict the definition and the file states no other types for its outputs; else the first
// other reading that fits so, or at least does not contradict the definition. A node without a
// reading is opaque.
func (inf *inference) read(n *graph.Node) error {
	kind, start := n.Kind, inf.mark()
	fault := inf.apply(n, kind, 0)
	version, written, loose := inf.ctx.Version, inf.movedVersion(n, kind), inf.ctx.loose
	sound := fault == nil && version != 0 && written == 0
	if sound && loose == nil && inf.asStated(n) {
		return nil
	}
	others := inf.readings(n, kind, written)
	if kind == Unknown && len(others) == 0 {
		return nil // NoRow has it
	}
	against := fault
	if against == nil {
		against = loose
	}
	why := inf.whyNot(n, kind, against)
	for _, stated := range []bool{true, false} {
		if !stated && sound {
			break
		}
		for _, r := range others {
			inf.undo(n, start)
			if inf.apply(n, r.kind, r.version) == nil && (!stated || inf.asStated(n)) {
				inf.deviate(n, why, Of(r.kind).Title(inf.ctx.Version))
				return nil
			}
		}
	}
	inf.undo(n, start)
	if !sound {
		inf.opaque(n, why)
		return nil
	}
	if err := inf.apply(n, kind, 0); err != nil {
		return err
	}
	if loose != nil {
		inf.deviate(n, loose, inf.ctx.Info.Title(version))
	}
	return nil // Result.Conflicts has the file's type
}

// readings lists the other ways to understand a node, the likeliest first: the version of its form,
// the first version that has the operator or as many inputs, and the dialects of tools.
func (inf *inference) readings(n *graph.Node, kind graph.Kind, written int) []reading {
	var list []reading
	if info := Of(kind); kind != Unknown {
		switch imported := info.SinceVersion(inf.versions[info.Domain]); {
		case written != 0:
			list = append(list, reading{kind, written})
		case imported == 0 && len(info.Since) > 0:
			list = append(list, reading{kind, info.Since[0]})
		case !arity(info.signature(imported).inputs).admits(len(n.Inputs)):
			list = laterReading(n, info, imported)
		}
	}
	for _, k := range inf.dialectsOf(n) {
		list = append(list, reading{k, Of(k).Since[0]})
	}
	return list
}

// laterReading is the first later version that has as many inputs as a node.
func laterReading(n *graph.Node, info *Info, imported int) []reading {
	for _, v := range info.Since {
		if v > imported && arity(info.signature(v).inputs).admits(len(n.Inputs)) {
			return []reading{{info.Kind, v}}
		}
	}
	return nil
}

// dialectsOf lists the rows of dialects that have the node's name.
func (inf *inference) dialectsOf(n *graph.Node) []graph.Kind {
	key := opKey{graph.CanonicalDomain(n.Domain), n.Op}
	if inf.local[key] {
		return nil
	}
	return dialects[key]
}

// movedVersion returns the version of a node's form if it has an attribute that became an input,
// and not the input; else 0.
func (inf *inference) movedVersion(n *graph.Node, kind graph.Kind) int {
	m := inf.moved(n, kind)
	if m == nil {
		return 0
	}
	return Of(kind).SinceVersion(int64(m.Since) - 1)
}

func (inf *inference) moved(n *graph.Node, kind graph.Kind) *Moved {
	info := Of(kind)
	version := info.SinceVersion(inf.versions[info.Domain])
	for i := range info.Moved {
		if m := &info.Moved[i]; version >= m.Since && n.Attr(m.Attr) != nil && n.Input(m.Slot) == graph.NoValue {
			return m
		}
	}
	return nil
}

// whyNot returns the reason against the plain reading of a node; fault is the error of its rule.
func (inf *inference) whyNot(n *graph.Node, kind graph.Kind, fault error) error {
	info := Of(kind)
	version := info.SinceVersion(inf.versions[info.Domain])
	var text, title string
	switch m := inf.moved(n, kind); {
	case m != nil:
		title, text = info.Title(version), fmt.Sprintf("has the attribute %q, which is input %d from version %d on",
			m.Attr, m.Slot, m.Since)
	case fault != nil:
		return fault
	case kind == Unknown:
		title, text = n.Op, fmt.Sprintf("no operator set of domain %q has it", domainTitle(n.Domain))
	case version == 0:
		title, text = n.Op, fmt.Sprintf("operator set %d of domain %q does not have it; it came with %d",
			inf.versions[info.Domain], domainTitle(n.Domain), info.Since[0])
	default:
		title, text = info.Title(version), "its outputs would not have the types that the file states"
	}
	return fmt.Errorf("node %q (%s): %s", inf.g.NodeLabel(n.ID), title, text)
}

// domainTitle is the name of a domain for people.
func domainTitle(domain string) string {
	if domain == "" {
		return "ai.onnx"
	}
	return domain
}

// asStated reports whether the types that a rule has found agree with those that the file states.
func (inf *inference) asStated(n *graph.Node) bool {
	for slot, id := range n.Outputs {
		if id == graph.NoValue {
			continue
		}
		if _, ok := inf.merge(inf.declared.get(id), inf.ctx.outType(slot)); !ok {
			return false
		}
	}
	return true
}

// deviate records a node that is read in another way than the file says.
func (inf *inference) deviate(n *graph.Node, why error, read string) {
	inf.res.Deviations = append(inf.res.Deviations, Deviation{n.ID, why, read})
}

// opaque records a node whose outputs have only the types that the file states.
func (inf *inference) opaque(n *graph.Node, why error) {
	n.Kind, n.Version = Unknown, 0
	setFaults(n, why, n.Clash())
	inf.ctx = Ctx{inf: inf, Node: n, Info: Of(Unknown), outs: inf.ctx.outs[:0]}
	inf.deviate(n, why, "")
}

// mark notes how much has been found so far.
type mark struct{ noRow, bodies, deviations int }

func (inf *inference) mark() mark {
	return mark{len(inf.res.NoRow), len(inf.res.Bodies), len(inf.res.Deviations)}
}

// undo forgets the results of a rule since the mark.
func (inf *inference) undo(n *graph.Node, m mark) {
	r := inf.res
	r.NoRow, r.Deviations = r.NoRow[:m.noRow], r.Deviations[:m.deviations]
	if len(r.Bodies) > m.bodies { // a needless clip would have the next one copy them all
		r.Bodies = slices.Clip(r.Bodies[:m.bodies])
	}
	for _, id := range n.Outputs {
		if id != graph.NoValue {
			r.contents.drop(id)
			r.setDen(id, 1)
		}
	}
}

// Opaque counts the opaque nodes of a graph that was inferred as it is, bodies included.
func (r *Result) Opaque(g *graph.Graph) int {
	n := 0
	r.Walk(g, func(_ *graph.Graph, r *Result) {
		for i := range r.Deviations {
			if r.Deviations[i].Opaque() {
				n++
			}
		}
	})
	return n
}

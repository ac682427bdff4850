package diff

import (
	"fmt"
	"math/big"
	"strings"

	"memopt/view/report"
)

// shown is a value as people read it.
func shown(v Value, u Unit) string {
	switch {
	case !v.Known:
		return "-"
	case v.Number == nil:
		return v.Text
	}
	return number(v.Number, u, v.Text)
}

// number is a number in its unit; exact is how one without a unit prints.
func number(n *big.Rat, u Unit, exact string) string {
	x, _ := n.Float64()
	switch u {
	case Bytes:
		if n.IsInt() && n.Num().IsInt64() {
			return report.Bytes(n.Num().Int64())
		}
	case Millis:
		return fmt.Sprintf("%.2f ms", x)
	case Share:
		return report.Percent(x)
	}
	return exact
}

// change is the difference of two numbers, and its size beside the first: "+1.00 MiB (+25.0 %)";
// "" where one is no number.
func (p Pair) change() string {
	if p.A.Number == nil || p.B.Number == nil {
		return ""
	}
	d := new(big.Rat).Sub(p.B.Number, p.A.Number)
	if d.Sign() == 0 {
		return ""
	}
	sign := "+"
	if d.Sign() < 0 {
		sign = "-"
	}
	size := new(big.Rat).Abs(d)
	x, _ := size.Float64()
	if p.Unit == Share {
		return fmt.Sprintf("%s%.1f pp", sign, 100*x)
	}
	text := sign + number(size, p.Unit, fmt.Sprintf("%.6g", x))
	if p.A.Number.Sign() != 0 {
		share, _ := new(big.Rat).Quo(size, new(big.Rat).Abs(p.A.Number)).Float64()
		text += fmt.Sprintf(" (%s%.1f %%)", sign, 100*share)
	}
	return text
}

// sentence describes the change of a number: "peak rises from 4.00 MiB to 5.00 MiB, +1.00 MiB (+25.0
// %)".
func sentence(p Pair) string {
	switch {
	case !p.A.Known && p.B.Known:
		return fmt.Sprintf("%s: %s", p.Name, shown(p.B, p.Unit))
	case p.A.Known && !p.B.Known:
		return fmt.Sprintf("%s: unknown in B, %s in A", p.Name, shown(p.A, p.Unit))
	case p.A.same(p.B):
		return fmt.Sprintf("%s: %s in both", p.Name, shown(p.B, p.Unit))
	}
	plural := p.Name == "nodes" || p.Name == "placements" || p.Name == "moves"
	verb := "change"
	if p.A.Number != nil && p.B.Number != nil {
		verb = "rise"
		if p.B.Number.Cmp(p.A.Number) < 0 {
			verb = "fall"
		}
	}
	if !plural {
		verb += "s"
	}
	text := fmt.Sprintf("%s %s from %s to %s", p.Name, verb, shown(p.A, p.Unit), shown(p.B, p.Unit))
	if c := p.change(); c != "" {
		text += ", " + c
	}
	return text
}

// headline says the measures that people look at first, and how much differs.
func (r *Result) headline() string {
	if r.Same() {
		return "No difference."
	}
	var parts []string
	for _, p := range r.Measures {
		switch p.Name {
		case "peak":
			parts = append(parts, sentence(p))
		case "overhead", "time":
			if !p.A.same(p.B) && (p.Name == "overhead" || r.A.Kind == ReportKind) {
				parts = append(parts, sentence(p))
			}
		}
	}
	text := ""
	if len(parts) > 0 {
		text = capital(strings.Join(parts, "; ")) + ".\n"
	}
	if blame := r.Blame(); blame != "" {
		text += "At the peak: " + blame + ".\n"
	}
	return text + r.counts()
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// counts is the number of differences of each kind.
func (r *Result) counts() string {
	var parts []string
	for _, k := range []struct {
		what      ChangeKind
		one, many string
	}{{LiveChange, "row of live memory", "rows of live memory"}, {RegionChange, "region in parts", "regions in parts"},
		{PlacementChange, "placement", "placements"}, {MoveChange, "move", "moves"},
		{ClusterChange, "cluster", "clusters"},
		{StashChange, "stashed activation", "stashed activations"}, {OrderChange, "order of execution", ""},
		{FieldChange, "other field", "other fields"}} {
		switch n := r.Count(k.what); n {
		case 0:
		case 1:
			parts = append(parts, "1 "+k.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, k.many))
		}
	}
	switch n := len(parts); n {
	case 0:
		return "All else is equal."
	case 1:
		if r.single() {
			return parts[0] + " differs."
		}
		return parts[0] + " differ."
	default:
		return strings.Join(parts[:n-1], ", ") + " and " + parts[n-1] + " differ."
	}
}

// single reports whether one thing differs besides measures.
func (r *Result) single() bool { return len(r.Changes)-r.Count(MeasureChange) == 1 }

// aside are the facts that lines about added or removed items leave out.
var aside = map[string]bool{"enabled": true, "applied": true, "peak_drop_bytes": true, "saving_expr": true,
	"state": true, "expr": true, "producer": true}

// brief is a change's facts in one line.
func (c *Change) brief() string {
	switch c.Kind {
	case PlacementChange:
		return c.placement()
	case OrderChange:
		return "other nodes run at " + c.Facts[0].A.Text + " places"
	}
	var parts []string
	for _, f := range c.Facts {
		name := f.Name + " "
		if c.Kind == FieldChange {
			name = ""
		}
		switch {
		case c.How != Changed && aside[f.Name]:
		case c.Kind == MoveChange && c.How != Changed && f.Name != "out" && f.Name != "back":
		case c.How == Added && f.B.Known:
			parts = append(parts, name+shown(f.B, f.Unit))
		case c.How == Removed && f.A.Known:
			parts = append(parts, name+shown(f.A, f.Unit))
		case c.How == Changed:
			a, b := shown(f.A, f.Unit), shown(f.B, f.Unit)
			if a == b { // but for their last digits
				a, b = f.A.Text, f.B.Text
			}
			parts = append(parts, fmt.Sprintf("%s%s, now %s", name, a, b))
		}
	}
	return strings.Join(parts, "; ")
}

// placement describes where a value is recomputed, and by how many nodes.
func (c *Change) placement() string {
	var parts []string
	for _, f := range c.Facts {
		v := f.B
		if c.How == Removed {
			v = f.A
		}
		switch {
		case f.Name == "before" && c.How == Changed:
			parts = append(parts, fmt.Sprintf("now before %s, was before %s", f.B.Text, f.A.Text))
		case f.Name == "before":
			parts = append(parts, "before "+v.Text)
		case c.How == Changed:
			parts = append(parts, fmt.Sprintf("by %s, was by %s", f.B.nodes(), f.A.nodes()))
		default:
			parts = append(parts, "by "+v.nodes())
		}
	}
	return strings.Join(parts, "; ")
}

// nodes counts the nodes of a list, or names the only one.
func (v Value) nodes() string {
	if n := strings.Count(v.Text, nodeSeparator) + 1; n > 1 {
		return fmt.Sprintf("%d nodes", n)
	}
	return v.Text
}

package diff

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ChangeKind is the kind of a change.
type ChangeKind string

// The kinds of changes.
const (
	MeasureChange   ChangeKind = "measure"
	RegionChange    ChangeKind = "region"
	PlacementChange ChangeKind = "placement"
	MoveChange      ChangeKind = "move"
	ClusterChange   ChangeKind = "cluster"
	StashChange     ChangeKind = "stash"
	LiveChange      ChangeKind = "live" // of the memory at the peak of a compiled program
	OrderChange     ChangeKind = "order"
	FieldChange     ChangeKind = "field"
)

// changeKinds is the order of listed changes.
var changeKinds = []ChangeKind{MeasureChange, LiveChange, RegionChange, PlacementChange, MoveChange, ClusterChange,
	StashChange, OrderChange, FieldChange}

// How is the direction of a change from a to b.
type How string

// The ways to change.
const (
	Added   How = "added"
	Removed How = "removed"
	Changed How = "changed"
)

// Change is a difference between two subjects.
type Change struct {
	Kind  ChangeKind
	How   How
	Name  string // of the measure, the region, the value, the cluster, or the path of the field
	Layer string // of placements, moves and stashes; else ""
	Facts []Pair // those that differ; all for an added or removed item
}

// Pair is a fact on both sides; unknown where a side does not have it.
type Pair struct {
	Name string
	Unit Unit
	A, B Value
}

// Result is the differences of two subjects.
type Result struct {
	A, B *Subject
	// Measures are those that at least one side has, whether they differ or not.
	Measures []Pair
	Changes  []Change // by kind, layer and name
	Layers   []Layer  // those with changes, by name
	Failed   []Failure
}

// Same reports whether there are no differences.
func (r *Result) Same() bool { return len(r.Changes) == 0 }

// Count is the number of changes of one kind.
func (r *Result) Count(k ChangeKind) (n int) {
	for i := range r.Changes {
		if r.Changes[i].Kind == k {
			n++
		}
	}
	return n
}

// UnlikeError means that two subjects have a symbol of one name with two sizes, or a measure of one name
// with two meanings, so that their numbers do not compare.
type UnlikeError struct {
	A, B     string    // names of the subjects
	Symbol   string    // "" for a measure
	Sizes    [2]string // of the symbol
	Measure  string    // "" for a symbol
	Meanings [2]string // of the measure
}

// Error names the symbol and both sizes, or the measure and both meanings.
func (e *UnlikeError) Error() string {
	if e.Measure != "" {
		return fmt.Sprintf("the %s of %s is %s, and that of %s %s: they do not compare",
			e.Measure, e.A, e.Meanings[0], e.B, e.Meanings[1])
	}
	return fmt.Sprintf("%s is for %s=%s and %s for %s=%s: their bytes and times do not compare",
		e.A, e.Symbol, e.Sizes[0], e.B, e.Symbol, e.Sizes[1])
}

// Like returns an *UnlikeError where the sizes of the two subjects differ, for the first such symbol, or
// where a measure that both have means something else in each.
func Like(a, b *Subject) error {
	for _, f := range a.fields {
		symbol, ok := strings.CutPrefix(f.path, "dims.")
		if !ok {
			continue
		}
		other, _ := b.field(f.path)
		if other.Known && f.value.Known && !f.value.same(other) {
			return &UnlikeError{A: a.Name, B: b.Name, Symbol: symbol,
				Sizes: [2]string{shown(f.value, NoUnit), shown(other, NoUnit)}}
		}
	}
	for _, m := range measures {
		x, y := meaning(m.Name, a.Schema), meaning(m.Name, b.Schema)
		if x != y && a.measure(m.Name).Known && b.measure(m.Name).Known {
			return &UnlikeError{A: a.Name, B: b.Name, Measure: m.Name, Meanings: [2]string{x, y}}
		}
	}
	return nil
}

// Compare compares two subjects. It fails if they have no field in common.
func Compare(a, b *Subject) (*Result, error) {
	r := &Result{A: a, B: b}
	c := comparer{r, a.Structure != "" && a.Structure == b.Structure}
	both := 0
	for _, m := range measures {
		x, y := a.measure(m.Name), b.measure(m.Name)
		if x.Known && y.Known {
			both++
		}
		if x.Known || y.Known {
			r.Measures = append(r.Measures, Pair{m.Name, m.Unit, x, y})
		}
	}
	if a.Schema != b.Schema && both == 0 {
		return nil, fmt.Errorf("%s (%s) and %s (%s) have no measure in common; wanted two of a "+
			"kind, or plans", a.Name, a.Schema, b.Name, b.Schema)
	}
	for _, p := range r.Measures {
		if !p.A.same(p.B) && (a.Schema == b.Schema || p.A.Known && p.B.Known) {
			r.Changes = append(r.Changes,
				Change{Kind: MeasureChange, How: how(p.A, p.B), Name: p.Name, Facts: []Pair{p}})
		}
	}
	c.lists(RegionChange, a.regions, b.regions)
	c.lists(PlacementChange, a.placements, b.placements)
	c.lists(MoveChange, a.moves, b.moves)
	c.lists(ClusterChange, a.clusters, b.clusters)
	c.lists(StashChange, a.stashes, b.stashes)
	c.lists(LiveChange, a.live, b.live)
	alike := c.structure && r.Count(RegionChange) == 0 // numbers of nodes mean the same nodes
	if n := positions(a.order, b.order); n > 0 && alike && a.order != nil && b.order != nil {
		r.Changes = append(r.Changes, Change{Kind: OrderChange, How: Changed, Name: "order",
			Facts: []Pair{{"places", NoUnit, intValue(int64(n)), intValue(int64(n))}}})
	}
	if a.Schema == b.Schema {
		c.fields(a.fields, b.fields)
	}
	slices.SortStableFunc(r.Changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(slices.Index(changeKinds, x.Kind), slices.Index(changeKinds, y.Kind)),
			bySize(&x, &y), natural(x.Layer, y.Layer), x.measureRank()-y.measureRank(), natural(x.Name, y.Name))
	})
	r.Layers = layersOf(a, b, r.Changes)
	return r, nil
}

// measureRank keeps measures in their own order.
func (c *Change) measureRank() int {
	if c.Kind != MeasureChange {
		return 0
	}
	return slices.IndexFunc(measures[:], func(m Measure) bool { return m.Name == c.Name })
}

// how returns whether a change is an addition, a removal or a difference.
func how(a, b Value) How {
	switch {
	case !a.Known:
		return Added
	case !b.Known:
		return Removed
	}
	return Changed
}

// comparer collects the changes of two subjects.
type comparer struct {
	*Result
	structure bool // both have the same structure: numbers of nodes mean the same nodes
}

// lists matches items by name: those that say the same first, then, of one name, in their order.
func (c *comparer) lists(kind ChangeKind, a, b list) {
	if !a.known || !b.known {
		return
	}
	alike := map[string]int{} // of a, by all that an item says
	for i := range a.items {
		alike[c.text(&a.items[i])]++
	}
	matched := map[string]int{} // likewise
	var rest []item             // of b, without an equal one in a
	for i := range b.items {
		if text := c.text(&b.items[i]); alike[text] > matched[text] {
			matched[text]++
		} else {
			rest = append(rest, b.items[i])
		}
	}
	left := map[string][]item{} // of a, by name, likewise
	var names []string
	for i := range a.items {
		text, name := c.text(&a.items[i]), a.items[i].name
		if matched[text] > 0 { // of equal ones the first, as in b
			matched[text]--
			continue
		}
		if left[name] == nil {
			names = append(names, name)
		}
		left[name] = append(left[name], a.items[i])
	}
	for _, i := range rest {
		if old := left[i.name]; len(old) > 0 {
			left[i.name] = old[1:]
			c.change(kind, Changed, old[0], i)
		} else {
			c.change(kind, Added, item{}, i)
		}
	}
	for _, name := range names {
		for _, old := range left[name] {
			c.change(kind, Removed, old, item{})
		}
	}
}

// text is all that an item says, for look-up.
func (c *comparer) text(i *item) string {
	var b strings.Builder
	b.WriteString(strconv.Quote(i.name))
	for _, f := range i.facts {
		switch {
		case f.Value.Number != nil:
			b.WriteString(" " + f.Value.Number.RatString())
		case f.Value.Known:
			b.WriteString(" " + strconv.Quote(c.label(f.Value.Text)))
		default:
			b.WriteString(" null")
		}
	}
	return b.String()
}

// placeNumber is the number that stands for the name of an unnamed node: the 12 of Gelu#12.
var placeNumber = regexp.MustCompile(`#\d+(,|$)`)

// label leaves places in the file out of names of nodes, unless both subjects have the same.
func (c *comparer) label(text string) string {
	if c.structure {
		return text
	}
	return placeNumber.ReplaceAllString(text, "$1")
}

// same compares two values.
func (c *comparer) same(a, b Value) bool {
	if a.same(b) || a.Number != nil || b.Number != nil || !a.Known || !b.Known {
		return a.same(b)
	}
	return c.label(a.Text) == c.label(b.Text)
}

// change adds the change of an item.
func (c *comparer) change(kind ChangeKind, how How, a, b item) {
	ch := Change{Kind: kind, How: how, Name: cmp.Or(b.name, a.name), Layer: cmp.Or(b.layer, a.layer)}
	if a.layer != "" && natural(a.layer, ch.Layer) < 0 {
		ch.Layer = a.layer // whichever side is called b
	}
	for i := range max(len(a.facts), len(b.facts)) {
		var p Pair
		if i < len(a.facts) {
			p = Pair{a.facts[i].Name, a.facts[i].Unit, a.facts[i].Value, Value{}}
		}
		if i < len(b.facts) {
			p = Pair{b.facts[i].Name, b.facts[i].Unit, p.A, b.facts[i].Value}
		}
		if how != Changed || !c.same(p.A, p.B) {
			ch.Facts = append(ch.Facts, p)
		}
	}
	c.Changes = append(c.Changes, ch)
}

// fields compares two sorted lists of fields of one schema.
func (c *comparer) fields(a, b []field) {
	for len(a) > 0 || len(b) > 0 {
		var path string
		var x, y Value
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].path < b[0].path:
			path, x, a = a[0].path, a[0].value, a[1:]
		case len(a) == 0 || b[0].path < a[0].path:
			path, y, b = b[0].path, b[0].value, b[1:]
		default:
			path, x, y, a, b = a[0].path, a[0].value, b[0].value, a[1:], b[1:]
		}
		if c.same(x, y) || c.A.isSource(path) || c.B.isSource(path) {
			continue
		}
		name := path[strings.LastIndexByte(path, '.')+1:]
		c.Changes = append(c.Changes, Change{Kind: FieldChange, How: how(x, y), Name: path,
			Facts: []Pair{{name, unitOf(path), x, y}}})
	}
}

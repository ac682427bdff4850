package diff

import (
	"cmp"
	"math/big"
	"sort"
)

// Layer sums up the changes of one layer.
type Layer struct {
	Name                    string
	Added, Removed, Changed int // placements
	Moves                   int // those that changed
	Stashes                 int // stashed activations that changed
	// A and B are the layer's stashed and kept bytes on either side; unknown if a subject does not
	// list its stashes or a size is a formula.
	A, B Value
}

// layersOf sums up changes by layer.
func layersOf(a, b *Subject, changes []Change) []Layer {
	at := map[string]int{}
	var layers []Layer
	for i := range changes {
		c := &changes[i]
		if c.Layer == "" {
			continue
		}
		k, ok := at[c.Layer]
		if !ok {
			k = len(layers)
			at[c.Layer] = k
			layers = append(layers, Layer{Name: c.Layer})
		}
		layers[k].count(c)
	}
	x, y := a.stashedBytes(), b.stashedBytes()
	for i := range layers {
		layers[i].A, layers[i].B = x(layers[i].Name), y(layers[i].Name)
	}
	sort.Slice(layers, func(i, k int) bool { return natural(layers[i].Name, layers[k].Name) < 0 })
	return layers
}

func (l *Layer) count(c *Change) {
	switch {
	case c.Kind == StashChange:
		l.Stashes++
	case c.Kind == MoveChange:
		l.Moves++
	case c.How == Added:
		l.Added++
	case c.How == Removed:
		l.Removed++
	default:
		l.Changed++
	}
}

// stashedBytes returns the bytes that a layer stashes and neither recomputes nor moves.
func (s *Subject) stashedBytes() func(layer string) Value {
	sums := map[string]*big.Rat{}
	unknown := !s.stashes.known
	for _, i := range s.stashes.items {
		if sums[i.layer] == nil {
			sums[i.layer] = new(big.Rat)
		}
		if state := i.facts[0].Value.Text; state != stateKept {
			continue
		}
		n := i.facts[1].Value.Number
		if n == nil {
			unknown = true
			continue
		}
		sums[i.layer].Add(sums[i.layer], n)
	}
	return func(layer string) Value {
		switch {
		case unknown:
			return Value{}
		case sums[layer] == nil:
			return intValue(0)
		}
		n := sums[layer]
		return Value{Number: n, Text: n.FloatString(0), Known: true}
	}
}

// natural compares names so that h.2 comes before h.10: runs of digits as numbers.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == 0 || y == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		m, n := trimZeros(a[:x]), trimZeros(b[:y])
		if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[x:], b[y:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is the number of digits that a text begins with.
func digits(s string) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func trimZeros(s string) string {
	for len(s) > 1 && s[0] == '0' {
		s = s[1:]
	}
	return s
}

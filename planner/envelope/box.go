package envelope

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/symbolic"
)

// Box is a set of bindings: every combination of integers from the ranges of its symbols. Symbols
// are sorted by name.
type Box []Axis

// Axis is a symbol and the values that it takes, Lo and Hi included.
type Axis struct {
	Symbol string
	Lo, Hi int64
}

// NewBox makes a box of ranges by symbol. The error names a range without a value, or one with
// negative numbers.
func NewBox(ranges map[string]symbolic.Range) (Box, error) {
	var b Box
	for name, r := range ranges {
		if r.Lo < 0 || r.Hi < r.Lo {
			return nil, fmt.Errorf("range %s=%d..%d: wanted LO..HI with 0 ≤ LO ≤ HI", name, r.Lo, r.Hi)
		}
		b = append(b, Axis{name, r.Lo, r.Hi})
	}
	slices.SortFunc(b, func(x, y Axis) int { return strings.Compare(x.Symbol, y.Symbol) })
	return b, nil
}

// String prints a box as the flag --dim takes it: "batch=1..64,seq=128".
func (b Box) String() string {
	var parts []string
	for _, a := range b {
		parts = append(parts, a.String())
	}
	return strings.Join(parts, ",")
}

// String prints "batch=1..64", or "batch=8" for a single value.
func (a Axis) String() string {
	if a.Lo == a.Hi {
		return fmt.Sprintf("%s=%d", a.Symbol, a.Lo)
	}
	return fmt.Sprintf("%s=%d..%d", a.Symbol, a.Lo, a.Hi)
}

// High returns the bindings of the corner with the largest value of every symbol.
func (b Box) High() symbolic.Env { return b.at(func(a Axis) int64 { return a.Hi }) }

// Low returns the bindings of the corner with the smallest value of every symbol.
func (b Box) Low() symbolic.Env { return b.at(func(a Axis) int64 { return a.Lo }) }

func (b Box) at(f func(Axis) int64) symbolic.Env {
	env := symbolic.Env{}
	for _, a := range b {
		env[a.Symbol] = f(a)
	}
	return env
}

// Contains reports whether the box has the bindings.
func (b Box) Contains(env symbolic.Env) bool {
	for _, a := range b {
		if n, ok := env[a.Symbol]; !ok || n < a.Lo || n > a.Hi {
			return false
		}
	}
	return true
}

// bounds are the ranges for proofs.
func (b Box) bounds() symbolic.Bounds {
	bounds := symbolic.Bounds{}
	for _, a := range b {
		bounds[a.Symbol] = symbolic.Range{Lo: a.Lo, Hi: a.Hi}
	}
	return bounds
}

// fixed binds the symbols that have one value.
func (b Box) fixed() symbolic.Env {
	env := symbolic.Env{}
	for _, a := range b {
		if a.Lo == a.Hi {
			env[a.Symbol] = a.Lo
		}
	}
	return env
}

// point reports whether the box is a single binding.
func (b Box) point() bool {
	return !slices.ContainsFunc(b, func(a Axis) bool { return a.Lo != a.Hi })
}

// cut returns the two parts of the box whose values of an axis are up to at, and above.
func (b Box) cut(axis int, at int64) (below, above Box) {
	below, above = slices.Clone(b), slices.Clone(b)
	below[axis].Hi, above[axis].Lo = at, at+1
	return below, above
}

// maxCorners bounds how many corners of a box are looked at.
const maxCorners = 16

// probes returns some bindings of the box: corners, the lowest and the highest among them, and one
// from the middle.
func (b Box) probes() []symbolic.Env {
	list := []symbolic.Env{b.High()}
	if b.point() {
		return list
	}
	list = append(list, b.Low(), b.at(func(a Axis) int64 { return a.Lo + (a.Hi-a.Lo)/2 }))
	var wide []int
	for i, a := range b {
		if a.Lo != a.Hi {
			wide = append(wide, i)
		}
	}
	for mask := 1; mask < 1<<len(wide)-1 && len(list) < maxCorners; mask++ {
		env := b.Low()
		for k, i := range wide {
			if mask>>k&1 == 1 {
				env[b[i].Symbol] = b[i].Hi
			}
		}
		list = append(list, env)
	}
	return list
}

// joined returns the union of two boxes if it is a box: they differ in one axis, and are adjacent
// there.
func (b Box) joined(c Box) (Box, bool) {
	at := -1
	for i := range b {
		if b[i] == c[i] {
			continue
		}
		if at >= 0 {
			return nil, false
		}
		at = i
	}
	switch {
	case at < 0:
		return nil, false
	case b[at].Hi+1 == c[at].Lo:
		out := slices.Clone(b)
		out[at].Hi = c[at].Hi
		return out, true
	case c[at].Hi+1 == b[at].Lo:
		return c.joined(b)
	}
	return nil, false
}

// Diagonal returns bindings from the lowest to the highest of a box: both, and those between at equal
// distances, at most n in all.
func (b Box) Diagonal(n int64) []symbolic.Env {
	var list []symbolic.Env
	for i := range n {
		env := b.at(func(a Axis) int64 { return a.Lo + (a.Hi-a.Lo)*i/(n-1) })
		if !slices.ContainsFunc(list, func(old symbolic.Env) bool { return maps.Equal(old, env) }) {
			list = append(list, env)
		}
	}
	return list
}

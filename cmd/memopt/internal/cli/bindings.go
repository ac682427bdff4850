package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"memopt/symbolic"
)

// Binding is one symbol's value, or its range from value to last, or all dims of an input, as --dim gives it.
type Binding struct {
	Symbol      string
	Value, last int64
	Ranged      bool
	Shape       []int64 // of the input of that name; nil for a symbol
}

// Text is a binding as --dim has it.
func (b *Binding) Text() string {
	switch {
	case b.Ranged:
		return fmt.Sprintf("%s=%d..%d", b.Symbol, b.Value, b.last)
	case b.Shape != nil:
		sizes := make([]string, len(b.Shape))
		for axis, n := range b.Shape {
			sizes[axis] = fmt.Sprint(n)
		}
		return b.Symbol + "=" + strings.Join(sizes, "x")
	}
	return fmt.Sprintf("%s=%d", b.Symbol, b.Value)
}

// ParseBindings reads --dim flags.
func ParseBindings(flags []string) ([]Binding, error) {
	var list []Binding
	for _, flag := range flags {
		for part := range strings.SplitSeq(flag, ",") {
			at := strings.LastIndexByte(part, '=')
			if at <= 0 {
				return nil, Usage("--dim %q: wanted NAME=VALUE, for example batch=8", part)
			}
			b := Binding{Symbol: strings.TrimSpace(part[:at])}
			var err, err2 error
			if sizes := strings.Split(strings.TrimSpace(part[at+1:]), "x"); len(sizes) > 1 {
				if b.Shape, err = parseShape(sizes); err != nil {
					return nil, Usage("--dim %q: wanted the sizes of an input, such as input_ids=4x128", part)
				}
				list = append(list, b)
				continue
			}
			first, last, ranged := strings.Cut(part[at+1:], "..")
			b.Value, err = strconv.ParseInt(strings.TrimSpace(first), 10, 64)
			if b.Ranged = ranged; ranged {
				b.last, err2 = strconv.ParseInt(strings.TrimSpace(last), 10, 64)
			}
			switch {
			case err != nil || err2 != nil || b.Value < 0:
				return nil, Usage("--dim %q: the value must be an integer of at least 0, or for plan and "+
					"fit a range of two such as 1..64", part)
			case ranged && b.last < b.Value:
				return nil, Usage("--dim %q: the range ends before it begins", part)
			}
			list = append(list, b)
		}
	}
	return list, nil
}

// parseShape reads the sizes of an input's dims.
func parseShape(sizes []string) ([]int64, error) {
	shape := make([]int64, len(sizes))
	for axis, text := range sizes {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, strconv.ErrSyntax
		}
		shape[axis] = n
	}
	return shape, nil
}

// ParseDims reads --dim flags: values and ranges of symbols. The last one of a symbol counts.
func ParseDims(flags []string) (map[string]int64, map[string]symbolic.Range, error) {
	list, err := ParseBindings(flags)
	dims, ranges := map[string]int64{}, map[string]symbolic.Range{}
	for _, b := range list {
		delete(dims, b.Symbol)
		delete(ranges, b.Symbol)
		if b.Shape != nil {
			continue
		}
		if b.Ranged {
			ranges[b.Symbol] = symbolic.Range{Lo: b.Value, Hi: b.last}
		} else {
			dims[b.Symbol] = b.Value
		}
	}
	return dims, ranges, err
}

// Ranges are the ranges of symbols that --dim gives.
func (a *App) Ranges() map[string]symbolic.Range {
	_, ranges, _ := ParseDims(a.Global.Dims)
	return ranges
}

// RefuseRanges is the error of a verb that wants one number for every symbol.
func RefuseRanges(ranges map[string]symbolic.Range) error {
	for _, symbol := range slices.Sorted(maps.Keys(ranges)) {
		r := ranges[symbol]
		return Usage("--dim %s=%d..%d: a range is for plan and fit; wanted one number here", symbol, r.Lo, r.Hi)
	}
	return nil
}

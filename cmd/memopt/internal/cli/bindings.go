package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"memopt/symbolic"
)

// Binding is one symbol's value, or its range from value to last, as --dim gives it.
type Binding struct {
	Symbol      string
	Value, last int64
	Ranged      bool
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

// ParseDims reads --dim flags: values and ranges. The last one of a symbol counts.
func ParseDims(flags []string) (map[string]int64, map[string]symbolic.Range, error) {
	list, err := ParseBindings(flags)
	dims, ranges := map[string]int64{}, map[string]symbolic.Range{}
	for _, b := range list {
		delete(dims, b.Symbol)
		delete(ranges, b.Symbol)
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

package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"memopt/symbolic"
)

// binding is one symbol's value, or its range from value to last, as --dim gives it.
type binding struct {
	symbol      string
	value, last int64
	ranged      bool
}

// parseBindings reads --dim flags.
func parseBindings(flags []string) ([]binding, error) {
	var list []binding
	for _, flag := range flags {
		for part := range strings.SplitSeq(flag, ",") {
			at := strings.LastIndexByte(part, '=')
			if at <= 0 {
				return nil, usage("--dim %q: wanted NAME=VALUE, for example batch=8", part)
			}
			b := binding{symbol: strings.TrimSpace(part[:at])}
			var err, err2 error
			first, last, ranged := strings.Cut(part[at+1:], "..")
			b.value, err = strconv.ParseInt(strings.TrimSpace(first), 10, 64)
			if b.ranged = ranged; ranged {
				b.last, err2 = strconv.ParseInt(strings.TrimSpace(last), 10, 64)
			}
			switch {
			case err != nil || err2 != nil || b.value < 0:
				return nil, usage("--dim %q: the value must be an integer of at least 0, or for plan and "+
					"fit a range of two such as 1..64", part)
			case ranged && b.last < b.value:
				return nil, usage("--dim %q: the range ends before it begins", part)
			}
			list = append(list, b)
		}
	}
	return list, nil
}

// parseDims reads --dim flags: values and ranges. The last one of a symbol counts.
func parseDims(flags []string) (map[string]int64, map[string]symbolic.Range, error) {
	list, err := parseBindings(flags)
	dims, ranges := map[string]int64{}, map[string]symbolic.Range{}
	for _, b := range list {
		delete(dims, b.symbol)
		delete(ranges, b.symbol)
		if b.ranged {
			ranges[b.symbol] = symbolic.Range{Lo: b.value, Hi: b.last}
		} else {
			dims[b.symbol] = b.value
		}
	}
	return dims, ranges, err
}

// ranges are the ranges of symbols that --dim gives.
func (a *app) ranges() map[string]symbolic.Range {
	_, ranges, _ := parseDims(a.global.dims)
	return ranges
}

// refuseRanges is the error of a verb that wants one number for every symbol.
func refuseRanges(ranges map[string]symbolic.Range) error {
	for _, symbol := range slices.Sorted(maps.Keys(ranges)) {
		r := ranges[symbol]
		return usage("--dim %s=%d..%d: a range is for plan and fit; wanted one number here", symbol, r.Lo, r.Hi)
	}
	return nil
}

package configs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"memopt/planner"
)

// ParseHistogram reads how often a symbol has which size: a JSON object that has a list of pairs, size and weight, for
// each symbol, for example
//
//	{"tokens": [[128, 0.5], [512, 0.3], [2048, 0.2]]}
//
// The errors are those of planner.NewHistogram, besides a file of another form, and one that has the symbol not.
func ParseHistogram(data []byte, symbol string) (*planner.Histogram, error) {
	var file map[string][][]float64
	dec := json.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&file)
	if err == nil && dec.More() {
		err = fmt.Errorf("more than one value")
	}
	if odd := new(json.UnmarshalTypeError); errors.As(err, &odd) {
		err = fmt.Errorf("byte %d: got the JSON %s there", odd.Offset, odd.Value)
	} else if err == io.EOF {
		err = fmt.Errorf("the file is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("wanted JSON such as {%q: [[size, weight], ...]}: %w", symbol, err)
	}
	pairs, ok := file[symbol]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(file)), ", ")
		return nil, fmt.Errorf("has no sizes of %s; it has those of: %s", symbol, cmp.Or(known, "no symbol"))
	}
	lengths := make([]planner.Length, len(pairs))
	for i, p := range pairs {
		if len(p) != 2 || p[0] != math.Trunc(p[0]) || math.Abs(p[0]) > 1<<53 {
			return nil, fmt.Errorf("%s[%d] is %s: wanted a pair, a whole size and its weight", symbol, i,
				strings.ReplaceAll(fmt.Sprint(p), " ", ", "))
		}
		lengths[i] = planner.Length{Size: int64(p[0]), Share: p[1]}
	}
	return planner.NewHistogram(symbol, lengths)
}

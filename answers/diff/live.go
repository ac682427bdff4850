package diff

import (
	"context"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"memopt"
	"memopt/answers/explain"
	"memopt/view/report"
)

// liveOf lists the memory at the peak of a plan of a compiled program: arguments and results, and the temporaries then,
// added up by operator and place in the source. A compiler numbers its instructions anew each time, so only these are
// the same in two compilations.
func liveOf(p *memopt.Plan) ([]item, error) {
	r, err := explain.Explain(context.Background(), p, explain.Options{Top: -1})
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	var names []string
	var bytes, counts []int64
	add := func(name string, n int64) {
		name = repeated.ReplaceAllString(name, "")
		k, ok := at[name]
		if !ok {
			k = len(names)
			at[name] = k
			names, bytes, counts = append(names, name), append(bytes, 0), append(counts, 0)
		}
		bytes[k] += n
		counts[k]++
	}
	for _, d := range p.Analysis.Graph.Inputs {
		if n, err := p.Analysis.Graph.Values[d.Value].Type.Bytes().Eval(p.Of.Dims); err == nil {
			add(p.Analysis.Graph.ValueName(d.Value), n)
		}
	}
	for _, v := range r.Values {
		add(v.Name, v.Bytes)
	}
	items := make([]item, len(names))
	for i, name := range names {
		items[i] = item{name: name, facts: []Fact{{"bytes", Bytes, intValue(bytes[i])},
			{"values", NoUnit, intValue(counts[i])}}}
	}
	return items, nil
}

// repeated is the number that tells values of one operator and line apart.
var repeated = regexp.MustCompile(` #\d+$`)

// grown is by how many bytes a change of live memory raises the peak.
func (c *Change) grown() *big.Rat {
	d := new(big.Rat)
	for _, f := range c.Facts {
		if f.Name != "bytes" {
			continue
		}
		if f.B.Number != nil {
			d.Add(d, f.B.Number)
		}
		if f.A.Number != nil {
			d.Sub(d, f.A.Number)
		}
	}
	return d
}

// bySize puts changes of live memory that move the peak most first.
func bySize(x, y *Change) int {
	if x.Kind != LiveChange || y.Kind != LiveChange {
		return 0
	}
	return new(big.Rat).Abs(y.grown()).Cmp(new(big.Rat).Abs(x.grown()))
}

// blamed is how many values the sentence about a risen peak names.
const blamed = 3

// Blame names the values at the peak whose bytes have changed most, for example "+24.00 MiB at jvp()/tanh
// (train.py:81)"; "" where the peak has not risen, or the values at it are not compared.
func (r *Result) Blame() string {
	risen := func(p Pair) bool {
		return p.Name == "peak" && p.A.Number != nil && p.B.Number != nil && p.B.Number.Cmp(p.A.Number) > 0
	}
	if !slices.ContainsFunc(r.Measures, risen) {
		return ""
	}
	var parts []string
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Kind != LiveChange || c.grown().Sign() == 0 || len(parts) == blamed {
			continue
		}
		n := c.grown().Num().Int64()
		sign := "+"
		if n < 0 {
			sign, n = "-", -n
		}
		parts = append(parts, sign+report.Bytes(n)+" at "+c.Name)
	}
	return strings.Join(parts, ", ")
}

package op

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSignaturesAndRows: every row has a signature from its first version on, and the row's arities are those of
// its signatures together. Rows may have fewer required outputs: tools leave out what nobody reads.
func TestSignaturesAndRows(t *testing.T) {
	for k := Unknown + 1; k < NumKinds; k++ {
		row := Of(k)
		list := signatures()[k]
		if !assert.NotEmpty(t, list, row.Name) {
			continue
		}
		assert.LessOrEqual(t, list[0].since, row.Since[0], row.Name)
		in, out := arity(list[0].inputs), arity(list[0].outputs)
		for i := range list {
			assert.Contains(t, row.Since, list[i].since, row.Name)
			in, out = union(in, arity(list[i].inputs)), union(out, arity(list[i].outputs))
		}
		assert.Equal(t, row.Inputs, in, "%s: inputs", row.Name)
		assert.Equal(t, row.Outputs.Max, out.Max, "%s: outputs", row.Name)
		assert.LessOrEqual(t, row.Outputs.Min, out.Min, "%s: outputs", row.Name)
	}
}

func union(a, b Arity) Arity {
	if a.Max < 0 || b.Max < 0 {
		return Arity{min(a.Min, b.Min), -1}
	}
	return Arity{min(a.Min, b.Min), max(a.Max, b.Max)}
}

package op_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// TestEqualSizes: symbols of inputs that stand for one size become one where operators bring them
// together, or where inputs agree otherwise, and never where a value has an element for each pair.
func TestEqualSizes(t *testing.T) {
	for name, c := range map[string]struct {
		model, kept string
		want        map[string]string
	}{
		"an addition": {`g (float[s1, 4] x, float[s5, 4] y) => (float[a, 4] z) { z = Add(x, y) }`, "",
			map[string]string{"s5": "s1"}},
		"a size that the caller gives": {`g (float[s1, 4] x, float[s5, 4] y) => (float[a, 4] z) { z = Add(x, y) }`, "s5",
			nil},
		"the first one is given": {`g (float[s1, 4] x, float[s5, 4] y) => (float[a, 4] z) { z = Add(x, y) }`, "s1",
			map[string]string{"s5": "s1"}},
		"names of the caller": {`g (float[rows, 4] x, float[s5, 4] y) => (float[a, 4] z) { z = Add(x, y) }`, "", nil},
		"three in a chain": {
			`g (float[s9] x, float[s5] y, float[s2] w) => (float[a] z) { v = Add(y, w) z = Add(x, v) }`, "",
			map[string]string{"s5": "s9", "s2": "s9"}},
		"the inner dim of a product": {`g (float[3, s1] x, float[s2, 4] y) => (float[3, 4] z) { z = MatMul(x, y) }`, "",
			map[string]string{"s2": "s1"}},
		"inside a branch": {
			`g (float[s1] x, float[s2] y, bool c) => (float[a] z) {
				z = If(c) <then_branch = t () => (float[b] p) { p = Add(x, y) },
					else_branch = e () => (float[d] q) { q = Neg(x) }> }`, "",
			map[string]string{"s2": "s1"}},
		"labels of all tokens": {
			`g (float[s1, s2, 8] x, int64[s3, s4] y) => (float loss) <int64[2] r = {-1, 8}, int64[1] l = {-1}> {
				a = Reshape(x, r) b = Reshape(y, l) loss = SoftmaxCrossEntropyLoss(a, b) }`, "",
			nil}, // of other ranks
		"tokens and labels": {
			`g (int64[s1, s2] x, int64[s3, s4] y) => (float loss) <int64[1] l = {-1}, float[2, 3] table = {1, 2, 3, 4, 5, 6}> {
				f = Reshape(x, l) a = Gather(table, f) b = Reshape(y, l) loss = SoftmaxCrossEntropyLoss(a, b) }`, "",
			map[string]string{"s3": "s1", "s4": "s2"}},
		"labels with one size of their own": {
			`g (int64[s1, s2] x, int64[s3, s4] y) => (float loss) <int64[1] l = {-1}, float[2, 3] table = {1, 2, 3, 4, 5, 6}> {
				f = Reshape(x, l) a = Gather(table, f) b = Reshape(y, l) loss = SoftmaxCrossEntropyLoss(a, b) }`, "s4",
			nil},
		"rows of a mask": {`g (int64[s1, s2] x, int64[s3, s2] y) => (int64[s1, s2] u, int64[s3, s2] v) {
				u = Neg(x) v = Neg(y) }`, "", map[string]string{"s3": "s1"}},
		"lengths of two texts": {`g (int64[s1, s2] x, int64[s1, s4] y) => (int64[s1, s2] u, int64[s1, s4] v) {
				u = Neg(x) v = Neg(y) }`, "", nil},
		"vectors": {`g (int64[s1] x, int64[s2] y) => (int64[s1] u, int64[s2] v) { u = Neg(x) v = Neg(y) }`, "", nil},
		"points that agree in a number only": {
			`g (float[s1, 4] x, float[s3, 4] y) => (float[s1, 4] u, float[s3, 4] v) { u = Neg(x) v = Neg(y) }`, "", nil},
		"an element for each pair": {
			`g (float[s1, s2] x, float[s3, s2] y) => (float[s1, s3] z) { t = Transpose(y) z = MatMul(x, t) }`, "", nil},
		"turned around": {
			`g (float[s1, s2] x, float[s3, s4] y) => (float[s1, s2] z) { t = Transpose(y) z = Add(x, t) }`, "",
			map[string]string{"s3": "s2", "s4": "s1"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+c.model, name)
			require.NoError(t, err)
			r, err := op.Infer(m)
			require.NoError(t, err)
			made := func(s string) bool { return strings.HasPrefix(s, "s") }
			got := r.EqualSizes(m.Graph, made, func(s string) bool { return s == c.kept })
			if c.want == nil {
				c.want = map[string]string{}
			}
			require.Equal(t, c.want, got)
			op.Rename(m.Graph, got)
			r, err = op.Infer(m)
			require.NoError(t, err)
			require.Empty(t, r.Conflicts)
			require.Empty(t, r.EqualSizes(m.Graph, made, func(s string) bool { return s == c.kept }), "all at once")
			for _, in := range m.Graph.Inputs {
				for _, d := range m.Graph.Values[in.Value].Type.Shape.Dims {
					require.NotContains(t, got, d.String())
					require.Nil(t, in.Wire)
				}
			}
		})
	}
}

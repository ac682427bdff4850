package live_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// Which values are gradients and state, and which nodes update, in steps that are written by hand.
func TestFindRoles(t *testing.T) {
	for _, c := range []struct {
		name, text                string
		gradients, state, updates string
	}{
		{"a weight used twice: what is added to its gradient is of it",
			`step (float[4, 4] x, float[4, 4] w, float[4, 4] w_momentum)
				=> (float loss, float[4, 4] w_updated, float[4, 4] w_momentum_updated)
			< float half = {0.5}, float zero = {0} > {
				a = MatMul(x, w)  y = MatMul(a, w)  loss = ReduceMean<keepdims = 0>(y)
				dy = Where(some, y, zero)
				[part] g1 = MatMul(a, dy)
				da = MatMul(dy, w)
				[other] g2 = MatMul(x, da)
				[total] g = Add(g1, g2)
				[keep] m = Mul(w_momentum, half)  [move] w_momentum_updated = Add(m, g)
				[scale] d = Mul(w_momentum_updated, half)  [update] w_updated = Sub(w, d)
			}`, "g1 g2 g", "w_momentum", "keep move scale update"},
		{"a weight that is multiplied elementwise: what goes on is not its update",
			`step (float[4, 4] x, float[4, 4] v, float[4, 4] w)
				=> (float loss, float[4, 4] v_updated, float[4, 4] w_updated)
			< float rate = {0.5}, float zero = {0} > {
				a = MatMul(x, v)  y = Mul(a, w)  loss = ReduceMean<keepdims = 0>(y)
				dy = Where(some, y, zero)
				dw = Mul(dy, a)
				da = Mul(dy, w)
				dv = MatMul(x, da)
				sw = Mul(dw, rate)  [update_w] w_updated = Sub(w, sw)
				sv = Mul(dv, rate)  [update_v] v_updated = Sub(v, sv)
			}`, "dw sw dv sv", "", "update_w update_v"},
		{"a gradient of a bias that is one of the activation as well: its other readers do not update",
			`step (float[4, 4] x, float[4, 4] u, float[4, 4] v, float[4, 4] b)
				=> (float loss, float[4, 4] u_updated, float[4, 4] v_updated, float[4, 4] b_updated) {
				z = MatMul(x, u)  a = MatMul(z, v)  y = Add(a, b)  loss = ReduceMean<keepdims = 0>(y)
				dy = Neg(y)
				dv = MatMul(z, dy)
				dz = MatMul(dy, v)
				du = MatMul(x, dz)
				[update_b] b_updated = Sub(b, dy)
				[update_v] v_updated = Sub(v, dv)
				[update_u] u_updated = Sub(u, du)
			}`, "dy dv du", "", "update_b update_v update_u"},
		{"a weight that is used twice elementwise: its gradient reads it",
			`step (float[8, 4] x, float[4] w) => (float loss, float[4] w_updated) < int64[1] rows = {0} > {
				a = Mul(x, w)  y = Mul(a, w)  loss = ReduceMean<keepdims = 0>(y)
				dy = Neg(y)
				da = Mul(dy, w)
				p = Mul(da, x)  q = Mul(dy, a)
				pq = Add(p, q)
				dw = ReduceSum<keepdims = 0>(pq, rows)
				[update] w_updated = Sub(w, dw)
			}`, "dw", "", "update"},
		{"a norm of all gradients is part of the update; a weight of one element has no gradient to speak of",
			`step (float[4, 4] x, float[4, 4] v, float[4, 4] w, float s)
				=> (float loss, float[4, 4] v_updated, float[4, 4] w_updated, float s_updated) {
				a = MatMul(x, v)  b = MatMul(a, w)  y = Mul(b, s)  loss = ReduceMean<keepdims = 0>(y)
				dy = Neg(y)
				p = Mul(dy, b)  ds = ReduceSum<keepdims = 0>(p)
				db = Mul(dy, s)
				dw = MatMul(a, db)
				da = MatMul(db, w)
				dv = MatMul(x, da)
				[square_w] qw = Mul(dw, dw)  [sum_w] nw = ReduceSum<keepdims = 0>(qw)
				[square_v] qv = Mul(dv, dv)  [sum_v] nv = ReduceSum<keepdims = 0>(qv)
				[norm] n = Add(nw, nv)
				[clip_w] cw = Div(dw, n)  [update_w] w_updated = Sub(w, cw)
				[clip_v] cv = Div(dv, n)  [update_v] v_updated = Sub(v, cv)
				[clip_s] cs = Div(ds, n)  [update_s] s_updated = Sub(s, cs)
			}`, "dw cw dv cv", "",
			"square_w sum_w square_v sum_v norm clip_w update_w clip_v update_v clip_s update_s"},
		{"a weight that the forward half scales: that is no update",
			`step (float[4, 4] x, float[4, 4] w) => (float loss, float[4, 4] w_updated) < float rate = {0.5} > {
				h = Mul(w, rate)  y = MatMul(x, h)  loss = ReduceMean<keepdims = 0>(y)
				dy = Neg(y)
				dh = MatMul(x, dy)
				dw = Mul(dh, rate)
				[update] w_updated = Sub(w, dw)
			}`, "dh dw", "", "update"},
		{"gradients that are outputs, by name and form",
			`step (float[4, 4] x, float[4, 4] v, float[4, 4] w)
				=> (float loss, float[4, 4] v_grad, float[4] w_grad, float[4, 4] u_grad) {
				a = MatMul(x, v)  y = MatMul(a, w)  loss = ReduceMean<keepdims = 0>(y)
				dy = Neg(y)
				v_grad = MatMul(x, dy)
				w_grad = ReduceSum<keepdims = 0>(dy, axis)
				u_grad = MatMul(dy, x)
			}`, "v_grad", "", ""},
		{"gradients that are accumulated",
			`step (float[4, 4] x, float[4, 4] w, float[4, 4] sum) => (float loss, float[4, 4] sum_updated) {
				y = MatMul(x, w)  loss = ReduceMean<keepdims = 0>(y)
				dy = Neg(y)
				dw = MatMul(x, dy)
				[add] sum_updated = Add(sum, dw)
			}`, "sum dw", "", "add"},
		{"gradients that are accumulated beside the running statistics of a norm",
			`step (float[4, 4] x, float[4, 4] w, float[4, 4] sum, float[4] scale, float[4] bias, float[4] mean,
				float[4] var) => (float loss, float[4, 4] sum_updated, float[4] mean_updated, float[4] var_updated) {
				a = MatMul(x, w)
				y, mean_updated, var_updated = BatchNormalization<training_mode = 1>(a, scale, bias, mean, var)
				loss = ReduceMean<keepdims = 0>(y)
				dy = Neg(y)
				dw = MatMul(x, dy)
				[add] sum_updated = Add(sum, dw)
			}`, "sum dw", "", "add"},
	} {
		head := `<ir_version: 8, opset_import: ["" : 17]> `
		text := strings.Replace(c.text, "step (", "step (bool[4, 4] some, int64[1] axis, ", 1)
		m, err := graph.Parse(head+text, "step")
		require.NoError(t, err, c.name)
		_, err = op.Infer(m)
		require.NoError(t, err, c.name)
		g := m.Graph
		b, err := live.FindBoundary(m)
		require.NoError(t, err, c.name)
		states, err := live.FindStates(m)
		require.NoError(t, err, c.name)
		order := graph.FileOrder(g)
		r := live.FindRoles(g, states, live.Split(g, b, order), order)
		require.ElementsMatch(t, strings.Fields(c.gradients), names(g, r.Gradient), c.name)
		require.ElementsMatch(t, strings.Fields(c.state), names(g, r.State), c.name)
		var updates []string
		for id, is := range r.Update {
			if is {
				updates = append(updates, g.NodeLabel(graph.NodeID(id)))
			}
		}
		require.ElementsMatch(t, strings.Fields(c.updates), updates, c.name)
	}
}

func names(g *graph.Graph, marked []bool) (list []string) {
	for v, is := range marked {
		if is {
			list = append(list, g.Values[v].Name)
		}
	}
	return list
}

package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// recurrenceRule is the shape rule of RNN, GRU and LSTM. gates is the number of gates: the weights
// W [directions, gates·hidden, input] and R [directions, gates·hidden, hidden] hold one block for
// each. With layout 0 X is [seq, batch, input], Y [seq, directions, batch, hidden] and the final
// states [directions, batch, hidden]; with layout 1 batch comes first everywhere.
func recurrenceRule(gates int64, states int) func(*Ctx) {
	return func(c *Ctx) {
		r, ok := c.rnnDims(gates)
		if !ok {
			return
		}
		y, state := []symbolic.Expr{r.seq, r.directions, r.batch, r.hidden}, []symbolic.Expr{r.directions,
			r.batch, r.hidden}
		if r.batchFirst {
			y, state = []symbolic.Expr{r.batch, r.seq, r.directions, r.hidden},
				[]symbolic.Expr{r.batch, r.directions, r.hidden}
		}
		c.OutTensor(0, c.DType(0), graph.Dims(y...))
		for k := range states {
			c.OutTensor(1+k, c.DType(0), graph.Dims(state...))
		}
	}
}

type rnnDims struct {
	seq, batch, input, directions, hidden symbolic.Expr
	batchFirst                            bool
}

func (c *Ctx) rnnDims(gates int64) (r rnnDims, ok bool) {
	if !c.wantRank(0, 3) || !c.wantRank(1, 3) || !c.wantRank(2, 3) {
		return r, false
	}
	x, w, rec := c.Shape(0), c.Shape(1), c.Shape(2)
	r.seq, r.batch, r.input = dimAt(x, 0), dimAt(x, 1), dimAt(x, 2)
	if r.batchFirst = c.Version >= 14 && c.Int("layout", 0) == 1; r.batchFirst {
		r.seq, r.batch = r.batch, r.seq
	}
	switch d := c.Str("direction", "forward"); d {
	case "forward", "reverse":
		r.directions = symbolic.Const(1)
	case "bidirectional":
		r.directions = symbolic.Const(2)
	default:
		c.Errorf("attribute direction is %q, wanted forward, reverse or bidirectional", d)
		return r, false
	}
	r.hidden = dimAt(rec, 2)
	if h := c.Int("hidden_size", 0); h > 0 {
		r.hidden = c.Unify("hidden_size and the last dim of input 2", symbolic.Const(h), r.hidden)
	} else if c.Node.Attr("hidden_size") != nil {
		c.Errorf("attribute hidden_size is %d, wanted at least 1", h)
	}
	c.Unify("the number of directions and dim 0 of input 1", r.directions, dimAt(w, 0))
	c.Unify("the number of directions and dim 0 of input 2", r.directions, dimAt(rec, 0))
	r.input = c.Unify("the last dims of inputs 0 and 1", r.input, dimAt(w, 2))
	blocks := r.hidden.Mul(symbolic.Const(gates))
	c.Unify("the gates' rows and dim 1 of input 1", blocks, dimAt(w, 1))
	c.Unify("the gates' rows and dim 1 of input 2", blocks, dimAt(rec, 1))
	return r, !c.Failed()
}

// recurrenceFLOPs counts the products with the weights, two operations each, of every step and
// direction: 2·seq·batch·directions·gates·hidden·(input + hidden).
func recurrenceFLOPs(gates int64) func(*Ctx) symbolic.Expr {
	return func(c *Ctx) symbolic.Expr {
		r, ok := c.rnnDims(gates)
		if !ok {
			return symbolic.Unknown()
		}
		return mul(symbolic.Const(2*gates), r.seq, r.batch, r.directions, r.hidden, r.input.Add(r.hidden))
	}
}

package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// part is the gradient of some places of an axis of a value: of first, first+1, …, as many as the
// part is long; first is a number, or the part ends where the axis does. Elsewhere the gradient is
// zero. Parts wait until the gradient of the whole value is asked for: by then there may be other
// parts that are joined with it, a sum that it is added to, or a node whose rule can work with the
// part alone.
type part struct {
	c             *Ctx // whose rule has made it
	prefix        string
	g             Value
	axis          int64
	first, length symbolic.Expr
	pad           func() Value // emits the part with zeros around it
}

func (p *part) end() symbolic.Expr { return p.first.Add(p.length) }

// apart reports whether two parts of an axis surely have no place in common.
func (p *part) apart(q *part) bool {
	return p.axis == q.axis &&
		(symbolic.AtMost(p.end(), q.first, nil) || symbolic.AtMost(q.end(), p.first, nil))
}

// setPart gives input i the gradient of a part of it. Parts that wait have no place in common.
func (c *Ctx) setPart(i int, p part) {
	c.account.given = append(c.account.given, i)
	if !c.Wants(i) {
		return
	}
	p.c, p.prefix = c, c.j.prefix
	x := c.Node.Input(i)
	if slices.ContainsFunc(c.j.parts[x], func(q part) bool { return !p.apart(&q) }) {
		c.j.joinParts(x)
	}
	if c.j.parts == nil {
		c.j.parts = map[Value][]part{}
	}
	c.j.parts[x] = append(c.j.parts[x], p)
}

// hasGrad reports whether a value has a gradient, in parts or as a whole.
func (j *joint) hasGrad(v Value) bool {
	j.grow()
	return j.grads[v] != None || len(j.parts[v]) > 0
}

// joinParts adds the waiting parts of a gradient to the gradient of the whole value. Parts that make
// up the value are one Concat; one beside a gradient is added to its places there; otherwise it is
// padded with zeros.
func (j *joint) joinParts(v Value) {
	parts := j.parts[v]
	if len(parts) == 0 {
		return
	}
	delete(j.parts, v)
	prefix, node := j.prefix, j.node
	defer func() { j.prefix, j.node = prefix, node }()
	last := parts[len(parts)-1]
	j.prefix, j.node = last.prefix, last.c.Node
	if whole := j.partition(v, parts); whole != None {
		j.addGrad(v, whole)
		return
	}
	for _, p := range parts {
		j.prefix, j.node = p.prefix, p.c.Node
		if sum := j.grads[v]; sum != None && p.scatters(v) {
			j.grads[v] = p.scatter(sum, v)
			j.grow()
		} else {
			j.addGrad(v, p.pad())
		}
	}
}

// partition joins two or more parts that make up a value; None if they do not.
func (j *joint) partition(v Value, parts []part) Value {
	dims := j.g.Values[v].Type.Shape.Dims
	if len(parts) < 2 {
		return None
	}
	var joined []Value
	at := symbolic.Const(0)
	for range parts {
		i := slices.IndexFunc(parts, func(p part) bool { return p.first.Equal(at) })
		if i < 0 {
			return None
		}
		joined, at = append(joined, parts[i].g), parts[i].end()
	}
	if axis := parts[0].axis; at.Equal(dims[axis]) {
		return parts[0].c.Concat(axis, joined...)
	}
	return None
}

// leastRow is how many elements a row must have so that the indices of rows are small beside them.
const leastRow = 16

// scatters reports whether a part can be added to the places of a gradient row by row: in ONNX's
// operators as they are since set 16, in rows that are behind the axis. If the gradient is a sum of
// steps the places must be known: other places might not exist, and no sum could be written before
// the scatter.
func (p *part) scatters(v Value) bool {
	c := p.c
	_, known := p.first.Const()
	_, known2 := p.length.Const()
	if _, accumulated := c.j.sums[v]; accumulated && !(known && known2) {
		return false
	}
	dims, row := c.j.g.Values[v].Type.Shape.Dims, int64(1)
	for _, d := range dims[p.axis+1:] {
		n, ok := d.Const()
		if !ok || n < 1 {
			return false
		}
		row *= min(n, leastRow)
	}
	d := c.DType(p.g)
	return c.j.opset() >= scatterReduce && row >= leastRow && (d == graph.Float32 || d == graph.Float64)
}

// scatter adds a part to its places in a sum.
func (p *part) scatter(sum, v Value) Value {
	c := p.c
	length := c.Dim(p.g, p.axis)
	places := c.iota(length)
	if first, ok := p.first.Const(); !ok {
		places = c.Add(places, c.Sub(c.Dim(v, p.axis), length)) // the part ends where the value does
	} else if first > 0 {
		places = c.Add(places, c.Int(first))
	}
	tuples := c.Unsqueeze(places, 1)
	if axis := int(p.axis); axis > 0 {
		tuples = c.Op("Expand", nil, tuples, c.vector(append(c.extentsOf(p.g, 0)[:axis+1], number(1))))
		tuples = c.batchTuples(tuples, axis)
	}
	return c.scatterND(sum, tuples, p.g, true)
}

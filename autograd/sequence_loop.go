package autograd

import (
	"slices"

	"memopt/graph"
)

// collection is a state of a Loop that begins empty, and gets one tensor appended in every
// iteration.
type collection struct {
	body *graph.Graph
	in   Value       // the state in the body
	push *graph.Node // the SequenceInsert that makes its next
}

// collectionOf returns the collection that is state i of a Loop, if it is one that has no other
// reader in the body.
func (j *joint) collectionOf(n *graph.Node, i int) (s collection, ok bool) {
	body := n.GraphAttr("body")
	if body == nil || i >= len(n.Inputs)-2 || i+2 >= len(body.Inputs) || i+1 >= len(body.Outputs) ||
		n.Inputs[2+i] == None {
		return s, false
	}
	def := j.g.Values[n.Inputs[2+i]].Def
	if def == graph.NoNode || !table[j.g.Nodes[def].Kind].Sequence.empty {
		return s, false
	}
	s = collection{body: body, in: body.Inputs[2+i].Value}
	out := body.Outputs[1+i].Value
	if body.Values[out].Def == graph.NoNode {
		return s, false
	}
	s.push = body.Nodes[body.Values[out].Def]
	uses := graph.NewUses(body)
	ok = table[s.push.Kind].Sequence.inserts && s.push.Input(0) == s.in && s.push.Input(2) == None &&
		len(uses.Of(s.in)) == 1 && len(uses.Of(out)) == 0 && !body.Values[s.in].Output
	return s, ok
}

// joinedRows joins the tensors that the iterations of a Loop have appended to the sequence in input
// 0: they become rows that the Loop stacks. They must have one shape unless they are stacked
// anyway.
func (c *Ctx) joinedRows(p *graph.Node) []Value {
	s, ok := c.j.collectionOf(p, int(c.j.g.Values[c.In(0)].DefSlot))
	if !ok {
		return nil
	}
	c.must(c.j.types.Node(p))
	row := s.body.Values[s.push.Inputs[1]].Type.Shape
	if !row.Ranked {
		return nil
	}
	stacks, rank := c.Node.Int("new_axis", 0) != 0, len(row.Dims)
	for _, d := range row.Dims {
		if !stacks && !d.IsKnown() {
			return nil
		}
	}
	if stacks {
		rank++
	}
	axis := c.Axis(c.Node.Int("axis", 0), rank)
	rows := c.collect(p, s)
	if axis > 0 {
		rows = c.Transpose(rows, backAxes(axis, int64(len(row.Dims)+1))...)
	}
	if stacks {
		return []Value{rows}
	}
	shape := []Value{c.Vector(make([]int64, axis)...), c.Vector(-1)}
	for i := axis + 2; i <= int64(rank); i++ {
		shape = append(shape, c.Dim(rows, i))
	}
	return []Value{c.Reshape(rows, c.joinInts(shape...))}
}

// collect makes a Loop stack the tensors of a collection, as a further output.
func (c *Ctx) collect(p *graph.Node, s collection) Value {
	j := c.j
	f, err := j.inside(s.body, "collect")
	c.must(err)
	(&emitter{f}).output(s.push.Inputs[1])
	p.SetAttr("body", s.body)
	v := j.newValue(j.labelOf(p) + "/rows")
	j.g.Values[v].Def, j.g.Values[v].DefSlot = p.ID, int32(len(p.Outputs))
	p.Outputs = append(p.Outputs, v)
	c.must(sealNode(p))
	c.must(j.types.Node(p))
	return v
}

// dropCollections removes the collections from a Loop whose sequences are not read.
func (j *joint) dropCollections(n *graph.Node, read []bool) {
	e := &emitter{j}
	for i := len(n.Inputs) - 3; i >= 0; i-- {
		s, ok := j.collectionOf(n, i)
		if out := n.Output(i); !ok || out != None && read[out] {
			continue
		}
		body := s.body
		body.Values[s.in].Input, body.Values[body.Outputs[1+i].Value].Output = false, false
		body.Inputs, body.Outputs = slices.Delete(body.Inputs, 2+i, 3+i), slices.Delete(body.Outputs, 1+i, 2+i)
		body.SetNodes(slices.DeleteFunc(slices.Clone(body.Nodes), func(b *graph.Node) bool { return b == s.push }))
		n.Inputs = slices.Delete(n.Inputs, 2+i, 3+i)
		if out := n.Output(i); out != None {
			j.g.Values[out].Def = graph.NoNode
		}
		n.Outputs = slices.Delete(n.Outputs, i, i+1)
		for slot, v := range n.Outputs {
			if v != None {
				j.g.Values[v].DefSlot = int32(slot)
			}
		}
		n.SetAttr("body", body)
		e.must(sealNode(n))
		e.must(j.types.Node(n))
	}
}

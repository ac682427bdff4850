package kerneltest

import (
	"bytes"
	"fmt"
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// CheckDrawsInParts cuts a random node at rows of its data and compares the joined outputs of the
// parts with those of the whole, bit for bit, and for a dropout also the gradients. choose chooses
// a number from lo to hi, which makes up shapes, seeds, the step and the cuts.
func CheckDrawsInParts(d executor.Device, kind graph.Kind, choose func(what string, lo, hi int) int) error {
	c, rows, per := drawnNode(kind, choose)
	step := []uint64{0, 1, 7, 1<<32 + 2}[choose("step", 0, 3)]
	whole, err := Run(d, &c, Setup{Threads: 1 + choose("threads", 0, 2), Step: step})
	if err != nil {
		return err
	}
	wholeGrad, isDropout, err := dropped(d, &c, whole)
	if err != nil {
		return err
	}
	joined := make([][]byte, len(whole)+1)
	for from := 0; from < rows; {
		to := min(rows, from+1+choose("rows of a part", 0, rows-1))
		p := partOf(c, from, to, rows)
		if p, err = drawFrom(p, int64(from*per)); err != nil {
			return err
		}
		made, err := Run(d, &p, Setup{Threads: 1 + choose("threads", 0, 2), Step: step})
		if err != nil {
			return fmt.Errorf("rows %d to %d: %w", from, to, err)
		}
		for slot, x := range made {
			joined[slot] = append(joined[slot], x.Data...)
		}
		grad, _, err := dropped(d, &p, made)
		if err != nil {
			return fmt.Errorf("gradient of rows %d to %d: %w", from, to, err)
		}
		joined[len(whole)] = append(joined[len(whole)], grad...)
		from = to
	}
	for slot, x := range whole {
		if !bytes.Equal(joined[slot], x.Data) {
			return fmt.Errorf("output %d of %v: the parts are not the whole", slot, x)
		}
	}
	if isDropout && !bytes.Equal(joined[len(whole)], wholeGrad) {
		return fmt.Errorf("gradient of %v: the parts are not the whole", whole[0])
	}
	return nil
}

// drawnNode is a random node of a number of rows, with per draws each.
func drawnNode(kind graph.Kind, choose func(string, int, int) int) (c Case, rows, per int) {
	rows, per = choose("rows", 1, 9), choose("columns", 1, 41)
	if kind == op.BitmaskDropout || kind == op.BitmaskBiasDropout {
		per = 32 * choose("words", 1, 3) // a part of a mask is made of whole words
	}
	if choose("many columns", 0, 9) == 0 {
		per *= 64
	}
	d := seqFloats()[choose("type", 0, len(seqFloats())-1)]
	c = Case{Kind: kind, Name: "in parts", Out: []graph.DType{d}}
	x := seqTensor(d, []int{rows, per}, seqValues(rows*per, 1))
	bias := seqTensor(d, []int{per}, seqValues(per, 2))
	ratio := seqTensor(graph.Float32, []int{}, []float64{0.25 * float64(choose("ratio", 0, 3))})
	training := seqTensor(graph.Bool, []int{}, []float64{1})
	switch kind {
	case op.RandomNormal, op.RandomUniform:
		c.Attrs = []graph.Attr{Attr("shape", []int64{int64(rows), int64(per)}), Attr("dtype", int64(d))}
	case op.RandomNormalLike, op.RandomUniformLike, op.Bernoulli:
		c.In = []*executor.Tensor{x}
	case op.Multinomial:
		c.In, c.Out = []*executor.Tensor{x}, []graph.DType{graph.Int32}
		per = choose("samples", 1, 1500)
		c.Attrs = []graph.Attr{Attr("sample_size", int64(per))}
	case op.Dropout, op.BitmaskDropout:
		c.In = []*executor.Tensor{x, ratio, training}
	case op.BiasDropout, op.BitmaskBiasDropout:
		c.In = []*executor.Tensor{x, bias, x, ratio, training}
	case op.BiasSoftmaxDropout:
		c.In = []*executor.Tensor{x, bias, ratio}
		c.Attrs = []graph.Attr{Attr("axis", int64(1)), Attr("is_inner_broadcast", int64(0))}
		c.Out = append(c.Out, graph.Bool, d)
	}
	switch kind {
	case op.Dropout, op.BiasDropout:
		c.Out = append(c.Out, graph.Bool)
	case op.BitmaskDropout, op.BitmaskBiasDropout:
		c.Out = append(c.Out, graph.Uint32)
	}
	if seed := choose("seed", 0, 1<<30); choose("seeded", 0, 2) > 0 {
		n := &graph.Node{Kind: kind, Attrs: c.Attrs}
		op.SetSeed(n, int32(seed)-1<<29)
		c.Attrs = n.Attrs
	}
	return c, rows, per
}

// partOf is a case of the rows from..to-1 of a case with more.
func partOf(c Case, from, to, rows int) Case {
	c.In, c.Attrs = slices.Clone(c.In), slices.Clone(c.Attrs)
	for slot, x := range c.In {
		if x == nil || x.Rank() < 2 {
			continue
		}
		width := len(x.Data) / rows
		c.In[slot] = &executor.Tensor{DType: x.DType, Shape: []int{to - from, x.Shape[1]},
			Data: x.Data[from*width : to*width]}
	}
	for i, a := range c.Attrs {
		if a.Name == "shape" {
			c.Attrs[i].Value = []int64{int64(to - from), a.Value.([]int64)[1]}
		}
	}
	return c
}

// CheckDrawsInColumns cuts a random node at a column of its data, so that parts have runs of each
// row, and compares as CheckDrawsInParts does. Nodes that work on rows as wholes have no such
// parts.
func CheckDrawsInColumns(d executor.Device, kind graph.Kind, choose func(what string, lo, hi int) int) error {
	c, rows, per := drawnNode(kind, choose)
	unit := 1
	if kind == op.BitmaskDropout || kind == op.BitmaskBiasDropout {
		unit = 32
	}
	if kind == op.Multinomial || kind == op.BiasSoftmaxDropout || per == unit {
		return nil
	}
	whole, err := Run(d, &c, Setup{Threads: 1, Step: 3})
	if err != nil {
		return err
	}
	at := unit * choose("first column of the second part", 1, per/unit-1)
	joined := make([][]byte, len(whole))
	var parts [2][]*executor.Tensor
	for i, r := range [2][2]int{{0, at}, {at, per}} {
		p := columnsOf(c, r[0], r[1])
		n := &graph.Node{Kind: kind, Attrs: p.Attrs}
		if err := op.SetDrawRuns(n, "", int64(r[0]), int64(r[1]-r[0]), int64(per)); err != nil {
			return err
		}
		p.Attrs, p.Meta = n.Attrs, n.Rare().Metadata
		if parts[i], err = Run(d, &p, Setup{Threads: 1 + choose("threads", 0, 2), Step: 3}); err != nil {
			return fmt.Errorf("columns %d to %d: %w", r[0], r[1], err)
		}
	}
	for slot, x := range whole {
		for row := range rows {
			for _, p := range parts {
				width := len(p[slot].Data) / rows
				joined[slot] = append(joined[slot], p[slot].Data[row*width:(row+1)*width]...)
			}
		}
		if !bytes.Equal(joined[slot], x.Data) {
			return fmt.Errorf("output %d of %v, cut at column %d: the parts are not the whole", slot, x, at)
		}
	}
	return nil
}

// columnsOf is a case of the columns from..to-1 of a case with more.
func columnsOf(c Case, from, to int) Case {
	c.In, c.Attrs = slices.Clone(c.In), slices.Clone(c.Attrs)
	for slot, x := range c.In {
		if x == nil || x.Rank() == 0 {
			continue
		}
		y := &executor.Tensor{DType: x.DType, Shape: slices.Clone(x.Shape)}
		last, size := x.Rank()-1, x.DType.Bits()/8
		y.Shape[last] = to - from
		for row := 0; row < len(x.Data); row += x.Shape[last] * size {
			y.Data = append(y.Data, x.Data[row+from*size:row+to*size]...)
		}
		c.In[slot] = y
	}
	for i, a := range c.Attrs {
		if a.Name == "shape" {
			c.Attrs[i].Value = []int64{a.Value.([]int64)[0], int64(to - from)}
		}
	}
	return c
}

// dropped runs the gradient of a dropout with its output as the gradient of the output; ok is false
// for other nodes.
func dropped(d executor.Device, c *Case, out []*executor.Tensor) (dx []byte, ok bool, err error) {
	g := Case{Kind: op.DropoutGrad, Name: "of parts", Out: c.Out[:1]}
	switch c.Kind {
	case op.BitmaskDropout, op.BitmaskBiasDropout:
		g.Kind = op.BitmaskDropoutGrad
	case op.Dropout, op.BiasDropout, op.BiasSoftmaxDropout:
	default:
		return nil, false, nil
	}
	ratio := seqTensor(graph.Float32, []int{}, []float64{0.25})
	g.In = []*executor.Tensor{out[0], out[1], ratio}
	made, err := Run(d, &g, Setup{Threads: 1})
	if err != nil {
		return nil, true, err
	}
	return made[0].Data, true, nil
}

// drawFrom makes a case that of a part of another: it draws from the whole's element first on.
func drawFrom(c Case, first int64) (Case, error) {
	n := &graph.Node{Kind: c.Kind, Attrs: c.Attrs}
	if err := op.SetDrawFrom(n, "", first); err != nil {
		return c, err
	}
	c.Attrs, c.Meta = n.Attrs, n.Rare().Metadata
	return c, nil
}

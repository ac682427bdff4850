package op

// softmaxFactors: every dim but the axis; before version 13 the dims before it.
func softmaxFactors(p *Pieces) []Factor {
	if p.Version < 13 {
		return p.rows(1)
	}
	return softmaxDims(p)
}

// softmaxDims: every dim but the axis. Behind it, the order of a sum depends on how many lie side by
// side.
func softmaxDims(p *Pieces) []Factor {
	axis, ok := p.axis("axis", -1, len(p.in(0)))
	if !ok {
		return nil
	}
	list := p.allBut(axis)
	inexact(list[axis:])
	return kept(list)
}

// softmaxRows: the axis divides the shape into rows, whatever the version.
func softmaxRows(p *Pieces) []Factor { return p.rows(1) }

// rows are the dims before the axis.
func (p *Pieces) rows(preset int64) []Factor {
	axis := p.Node.Int("axis", preset)
	if axis < 0 {
		axis += int64(len(p.in(0)))
	}
	return kept(p.leading(int(max(axis, 0)), nil, nil))
}

// bitmaskFactors makes a rule: the dims of the data, to which the other inputs are broadcast, if the
// elements of one place of them fill words of the mask, which has a bit for each element. The mask is
// operand 1 of the places that the function places returns: the inputs, or the outputs.
func bitmaskFactors(inputs []int, places func(*Factor) []Place) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		x := p.in(0)
		list := p.aligned(x, inputs, []int{0})
		for d, f := range list {
			run := elements(x[d+1:])
			switch masks := places(f); {
			case run == 0 || run%bitsPerWord != 0:
				f.Size = 0
			case len(masks) > 1:
				masks[1] = Place{Dim: 0, Outer: elements(x[:d]), Inner: run / bitsPerWord}
			}
		}
		return kept(list)
	}
}

// ins and outs are the places of a factor's operands.
func ins(f *Factor) []Place { return f.In }

func outs(f *Factor) []Place { return f.Out }

// bitsPerWord is how many elements share a word of a bitmask.
const bitsPerWord = 32

// biasSoftmaxFactors: the rows of the data; those of the bias are broadcast to them.
func biasSoftmaxFactors(p *Pieces) []Factor {
	axis, ok := p.axis("axis", 1, len(p.in(0)))
	if !ok || p.in(1) == nil {
		return nil
	}
	list := p.aligned(p.in(0), []int{0, 1}, upTo(len(p.Node.Outputs)))
	if len(p.in(1)) > len(p.in(0)) {
		return nil
	}
	return kept(list[:axis])
}

// normFactors makes a rule: the dims before the first axis of the norm. params are the inputs with an
// element for each of a row, sums the outputs that are gradients of such.
func normFactors(params, sums []int) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		axis, ok := p.axis("axis", -1, len(p.in(0)))
		if !ok {
			return nil
		}
		return kept(p.leading(axis, params, sums))
	}
}

// skipNormFactors: the dims but the last; the skip input may be broadcast.
func skipNormFactors(p *Pieces) []Factor {
	x := p.in(0)
	if len(x) < 2 {
		return nil
	}
	list := p.aligned(x, []int{0, 1}, []int{0, 3})
	for _, slot := range []int{1, 2} { // statistics
		for d, f := range list[:len(x)-1] {
			if p.hasOut(slot) {
				f.out(p, slot, d)
			}
		}
	}
	return kept(list[:len(x)-1])
}

// batchNormFactors: the channels, with their parameters and statistics. Where the statistics are given
// and not made, every other dim, too.
func batchNormFactors(p *Pieces) []Factor {
	x := p.in(0)
	if len(x) < 2 || len(p.in(1)) != 1 { // a parameter for each place, before version 9
		return nil
	}
	channels := p.factor(x[1]).in(p, 0, 1).out(p, 0, 1)
	for slot := 1; slot < len(p.Node.Inputs); slot++ {
		channels.in(p, slot, 0)
	}
	for slot := 1; slot < len(p.Node.Outputs); slot++ {
		channels.out(p, slot, 0)
	}
	list := inexact([]*Factor{channels}) // gradients of parameters: sums depend on all dims
	if info := Of(p.Node.Kind); info.Trains == nil || info.Trains(p.Node, p.Version) {
		return kept(list)
	}
	for d := range x {
		if d != 1 {
			list = append(list, p.sameDim(d, []int{1, 2, 3, 4}, nil))
		}
	}
	return kept(list)
}

// batchNormGradFactors: of dY, X, the scale and the statistics.
func batchNormGradFactors(p *Pieces) []Factor {
	if len(p.in(1)) < 2 {
		return nil
	}
	f := p.factor(p.in(1)[1]).in(p, 0, 1).in(p, 1, 1).out(p, 0, 1).out(p, 1, 0).out(p, 2, 0)
	for _, slot := range []int{2, 3, 4} {
		f.in(p, slot, 0)
	}
	return kept(inexact([]*Factor{f}))
}

// instanceNormFactors: batch and channels.
func instanceNormFactors(p *Pieces) []Factor {
	if len(p.in(0)) < 2 {
		return nil
	}
	return kept([]*Factor{p.sameDim(0, []int{1, 2}, nil),
		p.factor(p.in(0)[1]).in(p, 0, 1).in(p, 1, 0).in(p, 2, 0).out(p, 0, 1)})
}

// meanVarianceFactors: the dims that statistics are not taken over.
func meanVarianceFactors(p *Pieces) []Factor {
	var over []int
	for _, a := range p.Node.IntList("axes", []int64{0, 2, 3}) {
		if a < 0 {
			a += int64(len(p.in(0)))
		}
		over = append(over, int(a))
	}
	return kept(inexact(p.allBut(over...))) // the order of its sums depends on all dims
}

// convFactors: the batch, and without groups the channels. weightOut is the weights' dim of output
// channels; the other one has the input channels, which are summed, and one part adds the bias. An
// activation needs the whole sum. How the CPU cuts a convolution depends on all sizes.
func convFactors(weightOut int) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		x, w := p.in(0), p.in(1)
		if len(x) < 2 || len(w) < 2 {
			return nil
		}
		list := []*Factor{p.factor(x[0]).in(p, 0, 0).out(p, 0, 0)}
		if p.hasIn(3) {
			list[0].in(p, 3, 0)
		}
		if p.Node.Int("group", 1) != 1 {
			return kept(inexact(list))
		}
		made := p.factor(w[weightOut]).in(p, 1, weightOut).in(p, 2, 0).out(p, 0, 1)
		if p.hasIn(3) {
			made.in(p, 3, 1)
		}
		list = append(list, made)
		if p.Node.Attr("activation") == nil && !p.hasIn(3) {
			read := p.factor(x[1]).in(p, 0, 1).in(p, 1, 1-weightOut).reduced(SumOf)
			if p.hasIn(2) {
				read.Once = []int{2}
			}
			list = append(list, read)
		}
		return kept(inexact(list))
	}
}

// convGradFactors: of dY, X and W to the gradients of X, W and the bias.
func convGradFactors(p *Pieces) []Factor {
	x := p.in(1)
	if len(x) < 2 || len(p.in(0)) < 2 {
		return nil
	}
	batch := p.factor(x[0]).in(p, 0, 0).in(p, 1, 0).out(p, 0, 0)
	if p.hasOut(1) || p.hasOut(2) {
		batch.Reduce = SumOf
	}
	list := []*Factor{batch}
	if p.Node.Int("group", 1) != 1 {
		return kept(inexact(list))
	}
	made := p.factor(p.in(0)[1]).in(p, 0, 1).in(p, 2, 0).out(p, 1, 0).out(p, 2, 0)
	if p.hasOut(0) {
		made.Reduce = SumOf
	}
	list = append(list, made)
	if !p.hasOut(2) { // each part would make all of the bias's gradient
		list = append(list, p.factor(x[1]).in(p, 1, 1).in(p, 2, 1).out(p, 0, 1).out(p, 1, 1))
	}
	return kept(inexact(list))
}

// poolFactors: batch and channels. Indices of a maximum count through the whole tensor.
func poolFactors(p *Pieces) []Factor {
	if p.hasOut(1) {
		return nil
	}
	return dimsOf([]int{0, 1})(p)
}

// resizeFactors: batch and channels, where they keep their size.
func resizeFactors(p *Pieces) []Factor {
	x, y := p.in(0), p.out(0)
	if len(x) < 2 || len(y) != len(x) || p.Node.Str("coordinate_transformation_mode", "") == "tf_crop_and_resize" ||
		p.Node.Attr("axes") != nil {
		return nil
	}
	return kept(p.unchanged(x[:2], y, 0))
}

// lossFactors: all dims but the classes, of scores, labels and log-probabilities. The loss is a sum, a
// mean, or has a number for each label.
func lossFactors(p *Pieces) []Factor {
	x := p.in(0)
	var list []*Factor
	for d, n := range x {
		if d == 1 {
			continue
		}
		f := p.factor(n).in(p, 0, d).in(p, 1, label(d)).out(p, 1, d)
		switch p.Node.Str("reduction", "mean") {
		case "none":
			f.out(p, 0, label(d))
		case "sum":
			f.reduced(SumOf)
		default:
			f.reduced(MeanOf)
		}
		list = append(list, f)
	}
	return kept(behindClasses(list))
}

// behindClasses says of the dims behind the classes, all but the first, that the order of a sum depends
// on how many lie side by side.
func behindClasses(list []*Factor) []*Factor {
	inexact(list[min(1, len(list)):])
	return list
}

// label is the dim of the labels that is dim d of the scores.
func label(d int) int { return max(d-1, 0) }

// lossGradFactors: the loss's gradient, log-probabilities and labels are divided. The gradient of a
// mean counts all labels. added is the input that is added to the gradient and has its shape.
func lossGradFactors(added int) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		how := p.Node.Str("reduction", "mean")
		if how != "none" && how != "sum" {
			return nil
		}
		var list []*Factor
		for d, n := range p.in(1) {
			if d == 1 {
				continue
			}
			f := p.factor(n).in(p, 1, d).in(p, 2, label(d)).in(p, added, d).out(p, 0, d)
			if how == "none" {
				f.in(p, 0, label(d))
			}
			list = append(list, f)
		}
		return kept(behindClasses(list))
	}
}

// recurrenceFactors: the batch.
func recurrenceFactors(p *Pieces) []Factor {
	x := p.in(0)
	if len(x) != 3 {
		return nil
	}
	at, state, all := 1, 1, 2
	if p.Node.Int("layout", 0) == 1 {
		at, state, all = 0, 0, 0
	}
	f := p.factor(x[at]).in(p, 0, at).in(p, 4, 0).in(p, 5, state).in(p, 6, state)
	// The CPU multiplies all places of a step at once, in bands.
	return kept(inexact([]*Factor{f.out(p, 0, all).out(p, 1, state).out(p, 2, state)}))
}

// attentionFactors: the batch, and in four dims the heads where all operands have as many. A mask is
// broadcast to the scores.
func attentionFactors(p *Pieces) []Factor {
	q := p.in(0)
	if len(q) < 3 || p.hasIn(6) {
		return nil
	}
	var list []*Factor
	for d := range min(len(q)-2, 2) {
		f := p.factor(q[d])
		for slot := range p.Node.Inputs {
			if slot != 3 {
				f.in(p, slot, d)
			}
		}
		if mask := p.in(3); mask != nil {
			f.aligned(f.In, mask, 3, d-4)
		}
		for slot := range p.Node.Outputs {
			f.out(p, slot, d)
		}
		list = append(list, f)
	}
	return kept(list)
}

// rotaryFactors makes a rule: the batch, and in four dims the heads. Caches of angles are shared unless
// they have the batch as well, as positions have.
func rotaryFactors(positions int, caches ...int) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		x := p.in(0)
		if len(x) < 3 {
			return nil
		}
		f := p.factor(x[0]).in(p, 0, 0).out(p, 0, 0)
		if len(p.in(positions)) == 2 {
			f.in(p, positions, 0)
		}
		for _, slot := range caches {
			if len(p.in(slot)) == 3 {
				f.in(p, slot, 0)
			}
		}
		list := []*Factor{f}
		if len(x) == 4 {
			list = append(list, p.factor(x[1]).in(p, 0, 1).out(p, 0, 1))
		}
		return kept(list)
	}
}

// quantizeFactors: a scale and a zero point for all elements, or for each place along an axis.
func quantizeFactors(p *Pieces) []Factor {
	x, scale := p.in(0), p.in(1)
	if x == nil || scale == nil || p.Node.Int("block_size", 0) != 0 {
		return nil
	}
	axis, ok := p.axis("axis", 1, len(x))
	perPlace := len(scale) == 1 && elements(scale) != 1
	if perPlace && !ok {
		return nil
	}
	var list []*Factor
	for d := range x {
		f := p.sameDim(d, []int{1, 2}, nil)
		if perPlace && d == axis {
			f.in(p, 1, 0).in(p, 2, 0)
		}
		list = append(list, f)
	}
	return kept(list)
}

// gridSampleFactors: the batch; the grid is for all channels.
func gridSampleFactors(p *Pieces) []Factor {
	if len(p.in(0)) < 2 {
		return nil
	}
	return kept([]*Factor{p.sameDim(0, nil, nil), p.factor(p.in(0)[1]).in(p, 0, 1).out(p, 0, 1)})
}

// lrnFactors: every dim but the channels.
func lrnFactors(p *Pieces) []Factor { return kept(p.allBut(1)) }

// multiHeadFactors: the batch of queries, keys and values that are not packed, without masks and caches.
func multiHeadFactors(p *Pieces) []Factor {
	for slot := 4; slot < len(p.Node.Inputs); slot++ {
		if p.hasIn(slot) {
			return nil
		}
	}
	if !p.hasIn(1) {
		return nil
	}
	return dimsOf([]int{0}, 3)(p)
}

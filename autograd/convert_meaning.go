package autograd

import (
	"errors"
	"fmt"

	"memopt/graph"
)

// Changes of an operator's computation, or of the meaning of names.

// softmaxOneAxis: before 13, Softmax, LogSoftmax and Hardmax took all axes from the given one on,
// by default from 1 on, as one; since, they take one axis.
func softmaxOneAxis(x *conversion) (string, error) {
	axis := x.n.Int("axis", 1)
	s := x.typeOf(0).Shape
	if one, ok := oneLongAxis(s, axis); ok {
		x.n.SetAttr("axis", one)
		return "the axis is stated", nil
	}
	in := x.n.Inputs[0]
	shape := x.first("Shape", nil, in)
	x.n.Inputs[0] = x.first("Flatten", Attrs{A("axis", axis)}, in)
	x.n.SetAttr("axis", int64(-1))
	x.then(0, "Reshape", nil, shape)
	return "the axes from the given one on are flattened", nil
}

// oneLongAxis returns the axis that is meant if, of the axes from axis on, all but one have
// length 1.
func oneLongAxis(s graph.Shape, axis int64) (int64, bool) {
	rank := int64(len(s.Dims))
	if axis < 0 {
		axis += rank
	}
	if !s.Ranked || axis < 0 || axis >= rank {
		return 0, false
	}
	long := rank - 1
	for i, count := axis, 0; i < rank; i++ {
		if s.Dims[i].IsConst(1) {
			continue
		}
		if count++; count > 1 {
			return 0, false
		}
		long = i
	}
	return long, true
}

// spatialGone: with spatial = 0 BatchNormalization took statistics per place and not per channel.
func spatialGone(x *conversion) (string, error) {
	if x.n.Int("spatial", 1) == 0 {
		return "", errors.New("its attribute spatial is 0: statistics per place are gone since operator set 9")
	}
	x.take("spatial")
	return "", nil
}

// trainingMode: before 14 BatchNormalization trained where it had more than one output, and could
// give the statistics of the batch besides.
func trainingMode(x *conversion) (string, error) {
	trains := false
	for i := 1; i < len(x.n.Outputs); i++ {
		trains = trains || x.n.Outputs[i] != None
		if i >= 3 && x.used(x.n.Outputs[i]) {
			return "", fmt.Errorf("its output %d, which is gone, is read", i)
		}
	}
	if !trains {
		return "", nil
	}
	x.n.Outputs = x.n.Outputs[:min(len(x.n.Outputs), 3)]
	x.n.SetAttr("training_mode", int64(1))
	return "training_mode is stated", nil
}

// roiCoordinates: before 16 RoiAlign did not shift by half a pixel.
func roiCoordinates(x *conversion) (string, error) {
	if x.n.Attr("coordinate_transformation_mode") != nil {
		return "", nil
	}
	x.n.SetAttr("coordinate_transformation_mode", "output_half_pixel")
	return "the coordinates without a shift are stated", nil
}

// sampleModes: GridSample's modes have the names of Resize's.
func sampleModes(x *conversion) (string, error) {
	mode := x.n.Str("mode", "bilinear")
	name, ok := map[string]string{"bilinear": "linear", "bicubic": "cubic"}[mode]
	if !ok {
		return "", nil
	}
	x.n.SetAttr("mode", name)
	return fmt.Sprintf("mode %s is called %s", mode, name), nil
}

// scalePerChannel: GroupNormalization's scale and bias had one element per group; since 21 they
// have one per channel.
func scalePerChannel(x *conversion) (string, error) {
	groups := x.n.Int("num_groups", 1)
	repeat, err := x.channelsPerGroup(groups)
	if err != nil {
		return "", err
	}
	one, err := x.vector(1)
	if err != nil {
		return "", err
	}
	shape := x.first("Concat", Attrs{A("axis", int64(0))}, one, repeat)
	all, err := x.vector(-1)
	if err != nil {
		return "", err
	}
	for i := 1; i <= 2; i++ {
		column := x.first("Unsqueeze", nil, x.n.Inputs[i], one)
		x.n.Inputs[i] = x.first("Reshape", nil, x.first("Expand", nil, column, shape), all)
	}
	return "scale and bias are repeated for the channels of a group", nil
}

// channelsPerGroup is a vector of one element.
func (x *conversion) channelsPerGroup(groups int64) (Value, error) {
	if s := x.typeOf(0).Shape; s.Rank() > 1 {
		if n, ok := s.Dims[1].Const(); ok && groups > 0 {
			return x.vector(n / groups)
		}
	}
	one, err := x.vector(1)
	if err != nil {
		return None, err
	}
	count, err := x.vector(groups)
	return x.first("Div", nil, x.first("Gather", nil, x.first("Shape", nil, x.n.Inputs[0]), one), count), err
}

// scanWithoutBatch: the Scan of operator set 8 runs over the elements of a batch one by one.
func scanWithoutBatch(*conversion) (string, error) {
	return "", errors.New("since operator set 9 Scan has no batch axis")
}

package autograd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"memopt/graph"
	"memopt/graph/op"
)

// Changes that make attributes inputs.

// axesToInput: reductions, Squeeze and Unsqueeze.
func axesToInput(x *conversion) (string, error) {
	moved, err := x.intsToInput("axes", 1)
	return said(moved, "axes become an input"), err
}

func said(moved bool, what string) string {
	if moved {
		return what
	}
	return ""
}

func sizesToInput(x *conversion) (string, error) {
	moved, err := x.intsToInput("split", 1)
	return said(moved, "the sizes become an input"), err
}

// countedParts: since 18 a Split without sizes says how many parts it makes.
func countedParts(x *conversion) (string, error) {
	if x.n.Input(1) != None || x.n.Attr("num_outputs") != nil {
		return "", nil
	}
	x.n.SetAttr("num_outputs", int64(len(x.n.Outputs)))
	return "the number of equal parts is stated", nil
}

func sliceToInputs(x *conversion) (string, error) {
	for slot, name := range []string{"starts", "ends", "axes"} {
		if _, err := x.intsToInput(name, slot+1); err != nil {
			return "", err
		}
	}
	return "starts, ends and axes become inputs", nil
}

func countToInput(x *conversion) (string, error) {
	v, err := x.vector(x.n.Int("k", 0))
	x.set(1, v)
	x.take("k")
	return "k becomes an input", err
}

func padsToInputs(x *conversion) (string, error) {
	if _, err := x.intsToInput("pads", 1); err != nil {
		return "", err
	}
	value := x.n.Float("value", 0)
	x.take("value")
	if value == 0 || x.n.Str("mode", "constant") != "constant" {
		return "pads become an input", nil
	}
	return "pads and value become inputs", x.scalarInput(2, value)
}

// scalarInput makes a number an input of the type of input 0.
func (x *conversion) scalarInput(slot int, f float32) error {
	d := x.typeOf(0).DType
	raw, err := scalarBytes(d, float64(f))
	if err != nil {
		return fmt.Errorf("its element type %v has no constant %v", d, f)
	}
	v, err := x.constant(&graph.TensorData{DType: d, Dims: []int64{}, Source: graph.Raw(raw)})
	x.set(slot, v)
	return err
}

// limitsToInputs: the limits of Clip. A limit that is left out does not limit, before and after.
func limitsToInputs(x *conversion) (string, error) {
	moved := false
	for slot, name := range []string{"min", "max"} {
		if x.n.Attr(name) == nil {
			continue
		}
		if err := x.scalarInput(slot+1, x.n.Float(name, 0)); err != nil {
			return "", err
		}
		x.take(name)
		moved = true
	}
	return said(moved, "min and max become inputs"), nil
}

// maskToBool: the mask of Dropout had the type of the data.
func maskToBool(x *conversion) (string, error) {
	mask := x.n.Output(1)
	if mask == None {
		return "", nil
	}
	d := x.g.Values[mask].Type.DType
	if d == graph.Undefined {
		return "", errors.New("the type of its mask is not known")
	}
	x.then(1, "Cast", Attrs{A("to", int64(d))})
	return "the mask is bool and converted", nil
}

// ratioToInput: before 12 Dropout was defined for inference only, as an identity; without an input
// training_mode it still is one.
func ratioToInput(x *conversion) (string, error) {
	ratio := x.n.Float("ratio", 0.5)
	x.take("ratio")
	v, err := x.constant(graph.Float32Tensor("", []int64{}, ratio))
	x.set(1, v)
	return "the ratio becomes an input; without training_mode it is an identity, as before", err
}

// scalesToInput: the scales of Upsample.
func scalesToInput(x *conversion) (string, error) {
	scales := x.n.FloatList("scales", nil)
	raw := make([]byte, 0, 4*len(scales))
	for _, s := range scales {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(s))
	}
	v, err := x.constant(&graph.TensorData{DType: graph.Float32, Dims: []int64{int64(len(scales))},
		Source: graph.Raw(raw)})
	x.set(1, v)
	x.take("scales")
	return "the scales become an input", err
}

// scatterRenamed: ScatterElements is Scatter under another name.
func scatterRenamed(x *conversion) (string, error) {
	x.rename("ScatterElements")
	return "replaced by ScatterElements", nil
}

func (x *conversion) rename(name string) { x.n.Op, x.n.Kind = name, op.Lookup("", name) }

// fourierAxis: the axis of DFT, whose default was 1.
func fourierAxis(x *conversion) (string, error) {
	v, err := x.constant(graph.Int64Tensor("", []int64{}, x.n.Int("axis", 1)))
	x.set(2, v)
	x.take("axis")
	return "the axis becomes an input", err
}

package cuda_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"

	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
	_ "memopt/internal/test/rapidflags"
)

// fusionShape is a shape with an operand shape for every way in which an operand is broadcast.
type fusionShape struct {
	whole string
	parts []string
}

var fusionShapes = []fusionShape{
	{"2, 3, 8", []string{"", "8", "3, 8", "2, 1, 1", "2, 3, 1", "3, 1", "1, 3, 1", "1"}},
	{"5, 7", []string{"", "7", "5, 1", "1, 7", "1"}},
	{"2, 2, 33, 16", []string{"", "16", "33, 16", "2, 1, 1", "2, 33, 1", "1, 2, 33, 1", "1, 33, 16"}},
	{"64", []string{"", "1", "64"}},
	{"3", []string{"", "1"}},
}

// fusionOps are node texts: of one operand, and of two.
var fusionOps = [2][]string{
	{"Abs", "Erf", "Exp", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Tanh", "Log", "com.microsoft.Gelu",
		"com.microsoft.QuickGelu<alpha = 1.5>"},
	{"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "com.microsoft.GeluGrad", "com.microsoft.FastGeluGrad",
		"com.microsoft.QuickGeluGrad<alpha = 0.5>",
		"com.microsoft.ReluGrad", "com.microsoft.SigmoidGrad", "com.microsoft.TanhGrad"},
}

// drawFusion draws the text of a graph whose nodes are elementwise, with some that part them.
func drawFusion(t *rapid.T) (text string, dt graph.DType) {
	dt = rapid.SampledFrom([]graph.DType{graph.Float32, graph.Float16, graph.BFloat16}).Draw(t, "type")
	name := map[graph.DType]string{graph.Float32: "float", graph.Float16: "float16", graph.BFloat16: "bfloat16"}[dt]
	shape := rapid.SampledFrom(fusionShapes).Draw(t, "shape")
	inputs := []string{fmt.Sprintf("%s[%s] a", name, shape.whole), fmt.Sprintf("%s[%s] b", name, shape.whole)}
	whole, rows, conds := []string{"a", "b"}, []string(nil), []string(nil)
	for i, p := range shape.parts {
		rows, conds = append(rows, fmt.Sprintf("r%d", i)), append(conds, fmt.Sprintf("c%d", i))
		of, ofBool := fmt.Sprintf("%s[%s]", name, p), fmt.Sprintf("bool[%s]", p)
		if p == "" {
			of, ofBool = name, "bool"
		}
		inputs = append(inputs, of+" "+rows[i], ofBool+" "+conds[i])
	}
	inputs, conds = append(inputs, fmt.Sprintf("bool[%s] c", shape.whole)), append(conds, "c")
	var body strings.Builder
	for i := range rapid.IntRange(2, 20).Draw(t, "nodes") {
		out := fmt.Sprintf("v%d", i)
		one := func(name string) string { return rapid.SampledFrom(whole[max(0, len(whole)-6):]).Draw(t, name) }
		either := func(name string) string {
			if rapid.IntRange(0, 3).Draw(t, name+" kind") == 0 {
				return rapid.SampledFrom(rows).Draw(t, name)
			}
			return one(name)
		}
		switch k := rapid.IntRange(0, 12).Draw(t, "kind"); {
		case k < 3:
			fmt.Fprintf(&body, "%s = %s(%s)\n", out, rapid.SampledFrom(fusionOps[0]).Draw(t, "op"), one("x"))
		case k < 9:
			x, z := one("x"), either("z")
			f := rapid.IntRange(0, len(fusionOps[1])-1).Draw(t, "op")
			if f >= 7 { // gradients are not broadcast
				z = one("z")
			} else if rapid.Bool().Draw(t, "swapped") {
				x, z = z, x
			}
			fmt.Fprintf(&body, "%s = %s(%s, %s)\n", out, fusionOps[1][f], x, z)
		case k < 11:
			fmt.Fprintf(&body, "%s = Where(%s, %s, %s)\n", out, rapid.SampledFrom(conds).Draw(t, "cond"), one("x"),
				either("z"))
		case k < 12:
			fmt.Fprintf(&body, "%s = Clip(%s)\n", out, one("x")) // which no fusion group has
		default:
			fmt.Fprintf(&body, "k%d = Constant<value = float[1] {0.5}>()\n%s = Sub(%s, %s)\n",
				i, out, one("x"), one("z"))
		}
		whole = append(whole, out)
	}
	outputs := []string{fmt.Sprintf("%s[%s] %s", name, shape.whole, whole[len(whole)-1])}
	for _, v := range whole[2 : len(whole)-1] {
		if rapid.IntRange(0, 4).Draw(t, "output") == 0 {
			outputs = append(outputs, fmt.Sprintf("%s[%s] %s", name, shape.whole, v))
		}
	}
	return fmt.Sprintf("<ir_version: 8, opset_import: [\"\" : 17, \"com.microsoft\" : 1]> g (%s) => (%s) {\n%s}",
		strings.Join(inputs, ", "), strings.Join(outputs, ", "), body.String()), dt
}

// fusionInputs makes up inputs, with some numbers that are none and some zeros among them.
func fusionInputs(m *graph.Model, dt graph.DType, seed uint64) map[string]*executor.Tensor {
	r := rand.New(rand.NewPCG(seed, 5))
	inputs := map[string]*executor.Tensor{}
	for _, d := range m.Graph.Inputs {
		v := &m.Graph.Values[d.Value]
		shape := executor.EvalShape(v.Type, nil)
		n, _ := executor.Bytes(graph.Bool, shape)
		x := executor.NewTensor(graph.Float32, shape, make([]float32, n)...)
		for i, f := range executor.Of[float32](x) {
			f = float32(r.NormFloat64())
			switch r.IntN(20) {
			case 0:
				f = 0
			case 1:
				f /= 0
			}
			executor.Of[float32](x)[i] = f
		}
		inputs[v.Name] = inType(x, v.Type.DType, r)
	}
	return inputs
}

// inType converts numbers to a type; bools are drawn, and some halves are NaN of unusual bits.
func inType(x *executor.Tensor, dt graph.DType, r *rand.Rand) *executor.Tensor {
	from := executor.Of[float32](x)
	y := &executor.Tensor{DType: dt, Shape: x.Shape, Data: make([]byte, len(from)*dt.Bits()/8)}
	for i, f := range from {
		switch dt {
		case graph.Bool:
			y.Data[i] = byte(r.IntN(2))
		case graph.Float16:
			executor.Of[half.Float16](y)[i] = half.Float16From(f)
			if r.IntN(30) == 0 {
				executor.Of[half.Float16](y)[i] = half.Float16(0xfc01)
			}
		case graph.BFloat16:
			executor.Of[half.BFloat16](y)[i] = half.BFloat16From(f)
		default:
			executor.Of[float32](y)[i] = f
		}
	}
	return y
}

// sameNumbers reports whether tensors have the same bits, but for those of NaN: of two NaN a
// processor's product has the first one's, and compilers change factors. A GPU has one NaN.
func sameNumbers(a, b *executor.Tensor) bool {
	size := a.DType.Bits() / 8
	for i := 0; i < len(a.Data); i += size {
		if x, y := a.Data[i:i+size], b.Data[i:i+size]; !bytes.Equal(x, y) && !(isNaN(a.DType, x) && isNaN(a.DType, y)) {
			return false
		}
	}
	return len(a.Data) == len(b.Data)
}

// isNaN reports whether the bytes of an element, the lowest first, are those of a NaN.
func isNaN(dt graph.DType, e []byte) bool {
	switch dt {
	case graph.Float16:
		return binary.LittleEndian.Uint16(e)&0x7fff > 0x7c00
	case graph.BFloat16:
		return binary.LittleEndian.Uint16(e)&0x7fff > 0x7f80
	}
	return dt == graph.Float32 && binary.LittleEndian.Uint32(e)&0x7fffffff > 0x7f800000
}

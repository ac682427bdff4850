package mutate

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// extremes are whole numbers that tend to break code.
var extremes = []int64{0, 1, -1, 2, 3, -2, 4, 7, 8, 16, 255, 256, -128, math.MaxInt32, math.MaxInt32 + 1, math.MinInt32,
	math.MaxUint32, math.MaxUint32 + 1, 1 << 20, 1 << 40,
	1 << 53, 1 << 62, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, 1e9 + 7}

// whole returns a whole number in place of n: mostly a neighbor or an extreme.
func whole(rng *rand.Rand, n int64) int64 {
	switch rng.IntN(6) {
	case 0:
		return n + 1
	case 1:
		return n - 1
	case 2:
		return -n
	case 3:
		return int64(rng.IntN(8)) - 1
	}
	return pick(rng, extremes)
}

// floats are numbers that tend to break arithmetic.
var floats = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32,
	-math.MaxFloat32, math.SmallestNonzeroFloat32, 1e-45, 1e300, -1e-300, 1 << 24}

// texts are invalid names.
var texts = []string{"", " ", ".", "..", "/", "../x", "a/b", "a%2Fb", "x\x00y", "\n", "name\nmemopt: fake", "\x1b[31m",
	"\u202e", "\xff\xfe", "0", "-1", "batch", "batch*2", "N", "a,b", "=x", "{}", "\"", "*", "loss", "é", "unk__1"}

// word returns a text in place of one.
func word(rng *rand.Rand, old string) string {
	switch rng.IntN(8) {
	case 0:
		return strings.Repeat(old+"x", 1+rng.IntN(2000/(len(old)+1)+1))
	case 1:
		return old + pick(rng, texts)
	case 2:
		return old + "_grad"
	case 3:
		return old + "_recompute"
	}
	return pick(rng, texts)
}

// flipBytes changes an encoded input below the level of its structure.
func flipBytes(rng *rand.Rand, data []byte) ([]byte, string) {
	if len(data) == 0 {
		return []byte{byte(rng.Uint32())}, "a byte in place of nothing"
	}
	data = append([]byte(nil), data...)
	at := rng.IntN(len(data))
	switch rng.IntN(4) {
	case 0:
		return data[:at], fmt.Sprintf("cut at byte %d", at)
	case 1:
		end := min(len(data), at+1+rng.IntN(16))
		return append(data[:at:at], data[end:]...), fmt.Sprintf("bytes %d to %d left out", at, end)
	case 2:
		data[at] = byte(rng.Uint32())
		return data, fmt.Sprintf("byte %d replaced", at)
	}
	data[at] ^= 1 << rng.IntN(8)
	return data, fmt.Sprintf("a bit of byte %d turned", at)
}

// number replaces a whole number, wherever it stands.
func (s *state) number() string {
	x, ok := s.where(func(f *fieldInfo) bool { return f.wire == protowire.VarintType })
	if !ok {
		return ""
	}
	old := int64(x.f.num)
	n := whole(s.rng, old)
	x.f.wire, x.f.num = protowire.VarintType, uint64(n)
	return fmt.Sprintf("%v: %d in place of %d", x, n, old)
}

// float replaces a floating-point number.
func (s *state) float() string {
	x, ok := s.where(func(f *fieldInfo) bool {
		return f.wire == protowire.Fixed32Type || f.wire == protowire.Fixed64Type
	})
	if !ok || x.f.wire != x.f.info.wire {
		return ""
	}
	v := pick(s.rng, floats)
	if x.f.wire == protowire.Fixed32Type {
		x.f.num = uint64(math.Float32bits(float32(v)))
	} else {
		x.f.num = math.Float64bits(v)
	}
	return fmt.Sprintf("%v: %v", x, v)
}

// name replaces a text.
func (s *state) name() string {
	x, ok := s.where(func(f *fieldInfo) bool { return f.text })
	if !ok || x.f.msg != nil {
		return ""
	}
	old := string(x.f.data)
	if y, _ := s.any(x.f.info.key); one(s.rng, 3) {
		x.f.data = append([]byte(nil), y.f.data...)
	} else {
		x.f.data = []byte(word(s.rng, old))
	}
	return fmt.Sprintf("%v: %.40q in place of %.40q", x, x.f.data, old)
}

// symbol turns dims into symbols, or symbols into numbers.
func (s *state) symbol() string {
	x, ok := s.any("TensorShapeProto.dim")
	if !ok {
		return ""
	}
	return fmt.Sprintf("%v: %s", x, s.setDim(x.f.msg))
}

// setDim gives a dim another size.
func (s *state) setDim(dim *message) string {
	var old int64
	if f := dim.get("dim_value"); f != nil {
		old = int64(f.num)
	}
	dim.fields = nil
	switch s.rng.IntN(4) {
	case 0:
		return "no size"
	case 1:
		name := pick(s.rng,
			[]string{"batch", "seq", "N", "unk__7", "batch + 1", "2*batch", "batch/seq", "", "?", "-1",
				"batch*seq*9223372036854775807"})
		if y, ok := s.any("Dimension.dim_param"); ok && one(s.rng, 2) {
			name = string(y.f.data)
		}
		dim.addText("dim_param", name)
		return fmt.Sprintf("the symbol %q", name)
	}
	n := whole(s.rng, old)
	dim.addNum("dim_value", n)
	return fmt.Sprintf("%d in place of %d", n, old)
}

// payload changes a tensor's dims, or how many bytes it has.
func (s *state) payload() string {
	x, ok := s.tensor()
	if !ok {
		return ""
	}
	t := x.f.msg
	switch s.rng.IntN(5) {
	case 0: // a dim
		list := t.all("dims")
		if len(list) == 0 {
			t.addNum("dims", whole(s.rng, 1))
			return fmt.Sprintf("%v: a dim more", x)
		}
		f := pick(s.rng, list)
		f.num = uint64(whole(s.rng, int64(f.num)))
		return fmt.Sprintf("%v: a dim of %d", x, int64(f.num))
	case 1:
		t.addNum("dims", whole(s.rng, 1))
		return fmt.Sprintf("%v: a dim more", x)
	case 2:
		t.drop("dims")
		return fmt.Sprintf("%v: a scalar", x)
	case 3:
		f := t.only("raw_data")
		n := s.rng.IntN(len(f.data) + 9)
		f.data = append(f.data[:min(n, len(f.data)):min(n, len(f.data))], make([]byte, max(0, n-len(f.data)))...)
		return fmt.Sprintf("%v: %d raw bytes", x, n)
	}
	key := pick(s.rng, []string{"raw_data", "float_data", "int32_data", "int64_data", "string_data", "double_data",
		"uint64_data"})
	t.drop(key)
	return fmt.Sprintf("%v: without %s", x, key)
}

// tensor returns a site that holds a tensor: an initializer, an attribute, or the root itself.
func (s *state) tensor() (site, bool) {
	if s.root.typ.name == "TensorProto" {
		root := &field{info: fields["AttributeProto.t"], msg: s.root}
		return site{in: &message{typ: messages["AttributeProto"], fields: []*field{root}}, f: root}, true
	}
	x, ok := s.any("GraphProto.initializer", "AttributeProto.t", "AttributeProto.tensors", "SparseTensorProto.values",
		"SparseTensorProto.indices")
	return x, ok
}

// contents writes an extreme number among a tensor's: into the tensors that hold shapes, axes and
// indices.
func (s *state) contents() string {
	x, ok := s.tensor()
	if !ok {
		return ""
	}
	if f := x.f.msg.get("raw_data"); f != nil {
		width, size := 4, len(f.data)
		if typ := x.f.msg.get("data_type"); typ != nil && (typ.num == 7 || typ.num == 11 || typ.num == 13) {
			width = 8
		}
		if size < width {
			return ""
		}
		at := s.rng.IntN(size/width) * width
		f.data = append([]byte(nil), f.data...)
		n := whole(s.rng, int64(f.data[at]))
		if width == 8 {
			binary.LittleEndian.PutUint64(f.data[at:], uint64(n))
		} else if one(s.rng, 2) {
			binary.LittleEndian.PutUint32(f.data[at:], uint32(n))
		} else {
			binary.LittleEndian.PutUint32(f.data[at:], math.Float32bits(float32(pick(s.rng, floats))))
		}
		return fmt.Sprintf("%v: element %d of its raw bytes", x, at/width)
	}
	list := append(x.f.msg.all("int64_data"), x.f.msg.all("int32_data")...)
	if len(list) == 0 {
		return ""
	}
	f := pick(s.rng, list)
	f.num = uint64(whole(s.rng, int64(f.num)))
	return fmt.Sprintf("%v: an element of %d", x, int64(f.num))
}

// external makes a tensor's contents lie in another file.
func (s *state) external() string {
	x, ok := s.tensor()
	if !ok {
		return ""
	}
	t := x.f.msg
	t.only("data_location").num = 1
	t.drop("external_data")
	if one(s.rng, 2) {
		t.drop("raw_data")
	}
	entry := func(key, value string) {
		e := t.add("external_data").msg
		e.addText("key", key)
		e.addText("value", value)
	}
	place := pick(s.rng,
		[]string{"weights.bin", "model.onnx", "../model.onnx", "/etc/hostname", ".", "", "nowhere",
			"/dev/zero", "x\x00"})
	entry("location", place)
	var numbers []string
	for _, key := range []string{"offset", "length"} {
		if !one(s.rng, 3) {
			text := pick(s.rng,
				[]string{"0", "4", "16", "64", "-1", "9223372036854775807", "18446744073709551616", "1e3", "", "x"})
			numbers = append(numbers, key+"="+text)
			entry(key, text)
		}
	}
	return fmt.Sprintf("%v: lies in %q %v", x, place, numbers)
}

package op

import (
	"fmt"
	"strconv"
	"strings"

	"memopt/graph"
	"memopt/internal/lowbit"
	"memopt/symbolic"
)

// Inputs of Adam8bit and Adam4bit: a step of Adam whose moments are codes with a scale per block.
//
//	W weights, G their gradient, M and V the codes of the moments, MS and VS their scales, rate lr/(1-β1^t),
//	root √(1-β2^t), keep the share of the weight that decay leaves, factor that of the gradient, update whether there
//	is one
//
//	g = factor·G + decay·W,  m = M + share1·(g - M),  v = V + share2·(g² - V)
//	W' = keep·W - rate·m/(√v/root + epsilon), rounded to the type that the attribute to has
//
// M' and V' are the codes of m and v; W' is made of these before they are rounded. share1 is 1-β1.
// StochasticAdam8bit and StochasticAdam4bit round W', of bfloat16, as StochasticRound does, and have its step behind
// these inputs.
const (
	lowBitW = iota
	lowBitG
	lowBitM
	lowBitMS
	lowBitV
	lowBitVS
	lowBitRate   // the first of the scalars
	lowBitInputs = 11
)

// lowBitStates are the inputs that the outputs are the next values of.
var lowBitStates = []Update{{lowBitW, 0}, {lowBitM, 1}, {lowBitMS, 2}, {lowBitV, 3}, {lowBitVS, 4}}

// lowBitAdamRule: a weight of whole blocks, codes in its shape or, of 4 bits, two in each element of a vector, and a
// scale for each block. The outputs have the types of the inputs that they are the next values of.
func lowBitAdamRule(bits int, stochastic bool) func(*Ctx) {
	return dense(func(c *Ctx) {
		for k, u := range lowBitStates {
			c.Out(k, c.In(u.In))
		}
		if stochastic {
			c.wantScalar(lowBitInputs)
		} else if d := c.DTypeAttr("to", graph.Undefined); !c.Failed() && d != c.DType(lowBitW) {
			c.Errorf("attribute to is %v, wanted the weight's type, %v", d, c.DType(lowBitW))
		}
		for i := lowBitRate; i < lowBitInputs; i++ {
			c.wantScalar(i)
		}
		c.sameShape(lowBitG, c.Shape(lowBitW))
		n, ok := c.Shape(lowBitW).Elements().Const()
		if c.Failed() || !ok {
			return
		}
		f := lowbit.FormatOf(bits, true)
		if n%int64(f.Block) != 0 {
			c.Errorf("input 0 has %d elements, wanted blocks of %d", n, f.Block)
			return
		}
		vector := func(n int64) graph.Shape { return graph.Dims(symbolic.Const(n)) }
		codes := c.Shape(lowBitW)
		if bits < 8 {
			codes = vector(f.CodeBytes(n))
		}
		for _, i := range []int{lowBitM, lowBitV} {
			c.sameShape(i, codes)
			c.sameShape(i+1, vector(n/int64(f.Block)))
		}
	})
}

// sameShape requires an input to have a shape.
func (c *Ctx) sameShape(i int, want graph.Shape) {
	s := c.Shape(i)
	if !s.Ranked || !want.Ranked {
		return
	}
	if len(s.Dims) != len(want.Dims) {
		c.Errorf("input %d has shape %v, wanted %v", i, s, want)
		return
	}
	for k := range s.Dims {
		c.Unify(fmt.Sprintf("dim %d of input %d and the one that follows from input 0", k, i), s.Dims[k], want.Dims[k])
	}
}

// lowBitAdamDefinition is the function of Adam8bit or Adam4bit, or of StochasticAdam8bit or StochasticAdam4bit.
func lowBitAdamDefinition(bits int, stochastic bool) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	signed := lowbit.FormatOf(bits, true)
	version, prefix, attribute, input := 13, "", "to", ""
	if stochastic {
		version, prefix, attribute, input = StochasticSince, "Stochastic", "seed", ", step"
	}
	fmt.Fprintf(&b, `
<domain: "memopt", opset_import: ["": %d]>
%sAdam%dbit <decay, epsilon, share1, share2, %s> (W, G, M, MS, V, VS, rate, root, keep, factor, update%s)
  => (W2, M2, MS2, V2, VS2) {
`, version, prefix, bits, attribute, input)
	for _, name := range []string{"decay", "epsilon", "share1", "share2"} {
		line("%s_ = Constant <value_float: float = @%s> ()", name, name)
	}
	line("rows = Constant <value_ints = [-1, %d]> ()", signed.Block)
	line("planes = Constant <value_ints = [1, -1, %d]> ()", signed.Block)
	line("column = Constant <value_ints = [-1, 1]> ()")
	line("vector = Constant <value_ints = [-1]> ()")
	line("half = Constant <value_float = 0.5> ()")
	line("tiny = Constant <value_float = 1e-12> ()")
	for step := len(signed.Numbers) / 2; step > 0; step /= 2 {
		line("step%d_64 = Constant <value_int = %d> ()  step%d = Cast <to = 6> (step%d_64)", step, step, step, step)
	}
	line("last_64 = Constant <value_int = %d> ()  last = Cast <to = 6> (last_64)", len(signed.Numbers)-1)
	if bits == 4 {
		line("sixteen_64 = Constant <value_int = 16> ()  sixteen = Cast <to = 6> (sixteen_64)")
		line("pairs = Constant <value_ints = [-1, 2]> ()  places_64 = Constant <value_ints = [16, 1]> ()")
		line("places = Cast <to = 6> (places_64)  axis1 = Constant <value_ints = [1]> ()")
	}
	line("W_shape = Shape (W)  W_rows = Reshape (W, rows)  w = Cast <to = 1> (W_rows)")
	line("G_rows = Reshape (G, rows)  G_float = Cast <to = 1> (G_rows)  G_scaled = Mul (G_float, factor)")
	line("w_decay = Mul (w, decay_)  g = Add (G_scaled, w_decay)  gg = Mul (g, g)")
	for _, s := range []struct{ name, of, share string }{{"M", "g", "share1_"}, {"V", "gg", "share2_"}} {
		lowBitDecode(line, bits, s.name)
		line("%s_change = Sub (%s, %s_old)  %s_step = Mul (%s_change, %s)  %s_new = Add (%s_old, %s_step)",
			s.name, s.of, s.name, s.name, s.name, s.share, s.name, s.name, s.name)
	}
	line("V_root = Sqrt (V_new)  V_mean = Div (V_root, root)  V_safe = Add (V_mean, epsilon_)")
	line("ratio = Div (M_new, V_safe)  moved = Mul (ratio, rate)  kept = Mul (w, keep)  w_new = Sub (kept, moved)")
	line("w_chosen = Where (update, w_new, w)")
	if stochastic {
		line("W_count = Size (w)") // ONNX Runtime has no Size of bfloat16
		stochasticBits(line, "W_count")
		line("w_random = Reshape (random, rows)")
		stochasticRounding(line, "w_chosen", "w_random", "w_to")
	} else {
		line("w_to = Cast <to: int = @to> (w_chosen)")
	}
	line("W2 = Reshape (w_to, W_shape)")
	for _, name := range []string{"M", "V"} {
		lowBitEncode(line, signed, name)
		line("%s2 = Where (update, %s_encoded, %s)", name, name, name)
		line("%sS2 = Where (update, %s_scale, %sS)", name, name, name)
	}
	b.WriteString("}\n")
	return b.String()
}

// lowBitDecode makes NAME_old, in rows of a block, of the codes NAME and the scales NAMES.
func lowBitDecode(line func(string, ...any), bits int, name string) {
	f := lowbit.FormatOf(bits, name == "M")
	var numbers []string
	for _, x := range f.Numbers {
		numbers = append(numbers, strconv.FormatFloat(float64(x), 'e', -1, 32))
	}
	line("%s_numbers = Constant <value_floats = [%s]> ()", name, strings.Join(numbers, ", "))
	line("%s_int = Cast <to = 6> (%s)", name, name)
	if bits == 4 {
		line("%s_high = Div (%s_int, sixteen)  %s_low = Mod (%s_int, sixteen)", name, name, name, name)
		line("%s_high1 = Reshape (%s_high, column)  %s_low1 = Reshape (%s_low, column)", name, name, name, name)
		line("%s_codes = Concat <axis = 1> (%s_high1, %s_low1)", name, name, name)
	} else {
		line("%s_codes = Identity (%s_int)", name, name)
	}
	line("%s_values = Gather (%s_numbers, %s_codes)  %s_rows = Reshape (%s_values, rows)", name, name, name, name, name)
	line("%sS_column = Reshape (%sS, column)  %s_old = Mul (%s_rows, %sS_column)", name, name, name, name, name)
}

// lowBitEncode makes NAME_encoded and NAME_scale of NAME_new, which is in rows of a block.
func lowBitEncode(line func(string, ...any), f *lowbit.Format, name string) {
	line("%s_size = Abs (%s_new)  %s_planes = Reshape (%s_size, planes)  %s_largest = GlobalMaxPool (%s_planes)",
		name, name, name, name, name, name)
	line("%s_scales = Reshape (%s_largest, column)  %s_divisor = Max (%s_scales, tiny)", name, name, name, name)
	line("%s_scale = Reshape (%s_divisor, vector)  %s_unit = Div (%s_new, %s_divisor)", name, name, name, name, name)
	for step, at := len(f.Numbers)/2, ""; step > 0; step /= 2 {
		next := fmt.Sprintf("%s_at%d", name, step)
		probe := fmt.Sprintf("step%d", step)
		if at != "" {
			probe = next + "_probe"
			line("%s = Add (%s, step%d)", probe, at, step)
		}
		line("%s_number = Gather (%s_numbers, %s)  %s_over = GreaterOrEqual (%s_unit, %s_number)",
			next, name, probe, next, name, next)
		line("%s_int = Cast <to = 6> (%s_over)  %s_add = Mul (%s_int, step%d)", next, next, next, next, step)
		if at == "" {
			line("%s = Identity (%s_add)", next, next)
		} else {
			line("%s = Add (%s, %s_add)", next, at, next)
		}
		at = next
	}
	line("%s_next = Add (%s_at1, step1)  %s_up = Min (%s_next, last)", name, name, name, name)
	line("%s_from = Gather (%s_numbers, %s_at1)  %s_to = Gather (%s_numbers, %s_up)", name, name, name, name, name,
		name)
	line("%s_rest = Sub (%s_unit, %s_from)  %s_gap = Sub (%s_to, %s_from)  %s_half = Mul (%s_gap, half)",
		name, name, name, name, name, name, name, name)
	line("%s_nearer = GreaterOrEqual (%s_rest, %s_half)  %s_code = Where (%s_nearer, %s_up, %s_at1)",
		name, name, name, name, name, name, name)
	if f.Bits == 4 {
		line("%s_pairs = Reshape (%s_code, pairs)  %s_placed = Mul (%s_pairs, places)", name, name, name, name)
		line("%s_packed = ReduceSum <keepdims = 0> (%s_placed, axis1)", name, name)
		line("%s_encoded = Cast <to = 2> (%s_packed)", name, name)
		return
	}
	line("%s_flat = Reshape (%s_code, W_shape)  %s_encoded = Cast <to = 2> (%s_flat)", name, name, name, name)
}

// LowBitNumbers returns the elements of a block of Adam8bit's and Adam4bit's codes, and the numbers that the codes
// stand for, by code and in ascending order, as the definitions of both operators have them. For example, 4 unsigned
// bits have blocks of 128 and the numbers 1/16, 2/16 to 1.
func LowBitNumbers(bits int, signed bool) (block int, numbers []float32) {
	f := lowbit.FormatOf(bits, signed)
	return f.Block, f.Numbers
}

package op

import (
	"fmt"
	"strconv"
	"strings"

	"memopt/graph"
)

// StochasticSince is the version of ONNX's operator set that definitions of stochastic rounding need, for BitwiseXor.
const StochasticSince = 18

// StochasticRounds reports whether a number of this magnitude is rounded up or down by chance. Others, and NaN, are
// rounded to the nearest: the definition's float32 does not reach further.
func StochasticRounds(size float32) bool { return size >= 0x1p-100 && size <= 0x1p100 }

// stochasticRoundRule: Y has X's shape.
//
// X of float32 is rounded to bfloat16: up or down in magnitude, so that the mean is X. The 16 bits that X has beyond
// those of bfloat16 and 16 random ones are added, and a carry rounds up; so a number of bfloat16 stays. The random bits
// of element i are the high ones of word i mod 4 of Philox4x32-10 with the counter (i/4, step) and the key seed, all of
// 64 bits, low word first.
func stochasticRoundRule(c *Ctx) {
	dense(func(c *Ctx) {
		c.wantScalar(1)
		t := c.In(0)
		t.DType = graph.BFloat16
		c.Out(0, t)
	})(c)
}

func stochasticRoundDefinition() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	fmt.Fprintf(&b, `
<domain: "memopt", opset_import: ["": %d]>
StochasticRound <seed> (X, step) => (Y) {
`, StochasticSince)
	line("vector = Constant <value_ints = [-1]> ()  X_shape = Shape (X)  X_count = Size (X)")
	stochasticBits(line, "X_count")
	line("X_random = Reshape (random, X_shape)")
	stochasticRounding(line, "X", "X_random", "Y")
	b.WriteString("}\n")
	return b.String()
}

// stochasticBits makes random, a vector of as many floats as size says, from the attribute seed and the input step: the
// high 16 bits of a word of Philox each. Words are computed in uint64, products in int64, as ONNX Runtime can.
func stochasticBits(line func(string, ...any), size string) {
	constant := func(name string, x uint64) {
		line("%s_i = Constant <value_int = %d> ()  %s = Cast <to = 13> (%s_i)", name, int64(x), name, name)
	}
	for _, c := range []struct {
		name string
		x    uint64
	}{{"mask", 1<<32 - 1}, {"n32", 32}, {"n16", 16}, {"mul0", 0xD2511F53}, {"mul1", 0xCD9E8D57},
		{"add0", 0x9E3779B9}, {"add1", 0xBB67AE85}} {
		constant(c.name, c.x)
	}
	line("zero_i = Constant <value_int = 0> ()  one_i = Constant <value_int = 1> ()")
	line("three_i = Constant <value_int = 3> ()  four_i = Constant <value_int = 4> ()")
	line("last_axis = Constant <value_ints = [1]> ()  first_i = Constant <value_ints = [0]> ()")
	line("rounded_up = Add (%s, three_i)  draws = Div (rounded_up, four_i)", size)
	line("place_i = Range (zero_i, draws, one_i)  place = Cast <to = 13> (place_i)")
	line("seed_i = Constant <value_int: int = @seed> ()  seed_ = Cast <to = 13> (seed_i)")
	line("step_ = Cast <to = 13> (step)  none = BitwiseXor (place, place)")
	for i, from := range []string{"place", "step_"} {
		line("low%d = BitwiseAnd (%s, mask)  high%d = BitShift <direction = \"RIGHT\"> (%s, n32)", i, from, i, from)
		for k, half := range []string{"low", "high"} {
			line("c%d_0 = BitwiseXor (none, %s%d)", 2*i+k, half, i)
		}
	}
	line("k0_0 = BitwiseAnd (seed_, mask)  k1_0 = BitShift <direction = \"RIGHT\"> (seed_, n32)")
	const rounds = 10
	for r := range rounds {
		for i, c := range []int{0, 2} {
			line("f%d_%d = Cast <to = 7> (c%d_%d)  p%d_%d_i = Mul (f%d_%d, mul%d_i)", i, r, c, r, i, r, i, r, i)
			line("p%d_%d = Cast <to = 13> (p%d_%d_i)", i, r, i, r)
			line("h%d_%d = BitShift <direction = \"RIGHT\"> (p%d_%d, n32)", i, r, i, r)
			line("x%d_%d = BitwiseXor (h%d_%d, c%d_%d)", i, r, i, r, 3-c, r)
			line("c%d_%d = BitwiseXor (x%d_%d, k%d_%d)", 2-c, r+1, i, r, 1-i, r)
			line("c%d_%d = BitwiseAnd (p%d_%d, mask)", 3-c, r+1, i, r)
			line("k%d_%d_i = Cast <to = 7> (k%d_%d)  k%d_%d_s = Add (k%d_%d_i, add%d_i)", i, r, i, r, i, r, i, r, i)
			line("k%d_%d_w = Cast <to = 13> (k%d_%d_s)  k%d_%d = BitwiseAnd (k%d_%d_w, mask)", i, r, i, r, i, r+1, i, r)
		}
	}
	var columns []string
	for c := range 4 {
		line("word%d = Unsqueeze (c%d_%d, last_axis)", c, c, rounds)
		columns = append(columns, fmt.Sprintf("word%d", c))
	}
	line("words = Concat <axis = 1> (%s)  row = Reshape (words, vector)", strings.Join(columns, ", "))
	line("size_1 = Reshape (%s, vector)  drawn = Slice (row, first_i, size_1)", size)
	line("high_bits = BitShift <direction = \"RIGHT\"> (drawn, n16)  random = Cast <to = 1> (high_bits)")
}

// stochasticRounding makes out, of bfloat16, of x and of random numbers in its shape. The unit in the first place is
// that of Rump, Ogita, Oishi, "Accurate Floating-Point Summation", SIAM J. Sci. Comput. 31(1), 2008, algorithm 3.5.
func stochasticRounding(line func(string, ...any), x, random, out string) {
	for _, c := range []struct {
		name string
		x    float64
	}{{"split", 1<<23 + 1}, {"below_one", 1 - 0x1p-24}, {"ulp_float", 0x1p-23}, {"ulp_bfloat", 0x1p-7},
		{"no_number", 0}, {"least", 0x1p-100}, {"most", 0x1p100}} {
		line("%s = Constant <value_float = %s> ()", c.name, strconv.FormatFloat(c.x, 'e', -1, 64))
	}
	unit := func(of string) {
		line("%s_split = Mul (%s, split)  %s_lower = Mul (%s_split, below_one)", of, of, of, of)
		line("%s_unit = Sub (%s_split, %s_lower)", of, of, of)
	}
	line("%s_size = Abs (%s)  sized = Identity (%s_size)", x, x, x)
	unit("sized")
	line("ulp = Mul (sized_unit, ulp_float)  more = Mul (%s, ulp)  raised = Add (sized, more)", random)
	unit("raised")
	line("near_low = Cast <to = 16> (raised)  near = Cast <to = 1> (near_low)  over = Greater (near, raised)")
	line("ulp_low = Mul (raised_unit, ulp_bfloat)  under = Sub (near, ulp_low)  cut = Where (over, under, near)")
	line("negative = Less (%s, no_number)  cut_negative = Neg (cut)", x)
	line("signed_cut = Where (negative, cut_negative, cut)")
	line("large_enough = GreaterOrEqual (sized, least)  small_enough = LessOrEqual (sized, most)")
	line("by_chance = And (large_enough, small_enough)  result = Where (by_chance, signed_cut, %s)", x)
	line("%s = Cast <to = 16> (result)", out)
}

package jax

// fused are the primitives that XLA's compiler for the CPU computes within their readers
// (CanBeLoopFused in xla/service/cpu/cpu_instruction_fusion.cc), named as jaxprs name them.
var fused = set("abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh",
	"bitcast_convert_type", "broadcast_in_dim", "cbrt", "ceil", "clamp", "complex", "concatenate", "conj",
	"convert_element_type", "cos", "cosh", "digamma", "div", "dynamic_slice", "eq", "eq_to", "erf", "erf_inv",
	"erfc", "exp", "exp2", "expm1", "floor", "gather", "ge", "gt", "imag", "integer_pow", "iota", "is_finite", "le",
	"le_to", "lgamma", "log", "log1p", "logistic", "lt", "lt_to", "max", "min", "mul", "ne", "neg", "nextafter", "not",
	"or", "pad", "population_count", "pow", "real", "rem", "rev", "round", "rsqrt", "select_n", "shift_left",
	"shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "slice", "sqrt", "square", "sub", "tan",
	"tanh", "xor")

// reduces are primitives that read elementwise ones, but are not computed again by each of their readers.
var reduces = set("argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod",
	"reduce_sum", "reduce_xor", "dynamic_update_slice")

// costly are elementwise primitives that are not computed more than once (InstructionFusion::IsExpensive in
// xla/service/instruction_fusion.cc).
var costly = set("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "digamma", "div",
	"erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "gather", "integer_pow", "lgamma", "log", "log1p", "logistic",
	"pow", "rem", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh")

// aliases are primitives whose result is the memory of their operand.
var aliases = set("copy", "expand_dims", "name", "optimization_barrier", "pbroadcast", "pvary", "reduce_precision",
	"reshape", "sharding_constraint", "squeeze", "stop_gradient", "transpose", opTake)

func set(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// fusion says of a body where its values lie.
type fusion struct {
	body    *Body
	root    []int32 // by value: the value whose memory it is
	maker   []int32 // by value: its step; -1 of an operand of the body
	virtual []bool  // by root: it is computed within its readers, and has no memory
	pushed  []bool  // by root: it is written into a stack
	readers []int   // by root
}

// fuse finds out where the values of a body lie; results from number stacks on are written into stacks.
func fuse(b *Body, stacks int, free map[int32]bool) *fusion {
	n := len(b.Bytes)
	f := &fusion{b, make([]int32, n), make([]int32, n), make([]bool, n), make([]bool, n), make([]int, n)}
	for v := range f.root {
		f.root[v], f.maker[v] = int32(v), -1
	}
	for i := range b.Steps {
		s := &b.Steps[i]
		for _, v := range s.Out {
			f.maker[v] = int32(i)
		}
		if aliases[s.Primitive] && len(s.In) == 1 && len(s.Out) == 1 && b.Bytes[s.In[0]] == b.Bytes[s.Out[0]] {
			f.root[s.Out[0]] = f.root[s.In[0]]
			continue
		}
		if len(s.Out) == 1 {
			f.virtual[s.Out[0]] = fused[s.Primitive]
		}
		f.read(s, free)
	}
	for i, v := range b.Outputs {
		if v >= 0 {
			f.pushed[f.root[v]] = f.pushed[f.root[v]] || i >= stacks && stacks >= 0
			f.virtual[f.root[v]] = f.virtual[f.root[v]] && i >= stacks && stacks >= 0
		}
	}
	return f
}

// read notes the readers of a step's operands.
func (f *fusion) read(s *Step, free map[int32]bool) {
	for _, v := range s.In {
		if v < 0 {
			continue
		}
		v = f.root[v]
		if !f.takes(v, s, free) || f.readers[v] > 0 && !f.cheap(v) {
			f.virtual[v] = false
		}
		f.readers[v]++
	}
}

// cheap reports whether several readers each compute a value within themselves: not by a costly function.
func (f *fusion) cheap(v int32) bool {
	return f.maker[v] >= 0 && !costly[f.body.Steps[f.maker[v]].Primitive]
}

// alias reports whether a step's result is the memory of its operand.
func (f *fusion) alias(s *Step) bool { return len(s.Out) == 1 && f.root[s.Out[0]] != s.Out[0] }

// takes reports whether a step computes an operand within itself: not one that comes into the region of a checkpoint,
// since a barrier is there.
func (f *fusion) takes(v int32, s *Step, free map[int32]bool) bool {
	if !fused[s.Primitive] && !reduces[s.Primitive] {
		return false
	}
	if s.Region == nil || free[*s.Region] {
		return true
	}
	if f.maker[v] < 0 {
		return false
	}
	r := f.body.Steps[f.maker[v]].Region
	return r != nil && *r == *s.Region
}

package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// Constructors of rows state the common columns of a family; options add the rest.

// option sets a column of a row.
type option func(*Info)

// versions lists schema versions.
func versions(v ...int) []int { return v }

// define is a row of ONNX's own domain whose rule takes inputs of any type, sequences for example.
func define(
	k graph.Kind, name string, since []int, in, out Arity, class RecomputeClass, rule func(*Ctx), opts ...option,
) Info {
	r := Info{
		Schema: Schema{Kind: k, Name: name, Since: since, Inputs: in, Outputs: out}, Class: class, Infer: rule,
	}
	for _, o := range opts {
		o(&r)
	}
	return r
}

// row is a row of ONNX's own domain with a rule for dense tensors.
func row(
	k graph.Kind, name string, since []int, in, out Arity, class RecomputeClass, rule func(*Ctx), opts ...option,
) Info {
	return define(k, name, since, in, out, class, dense(rule), opts...)
}

// contrib is an operator that ONNX Runtime defines, in its one version.
func contrib(k graph.Kind, name string, in, out Arity, class RecomputeClass, rule func(*Ctx), opts ...option) Info {
	return define(k, name, versions(1), in, out, class, rule, append([]option{domain(domainMS)}, opts...)...)
}

// own is an operator that memopt defines, in its one version.
func own(k graph.Kind, name string, in, out Arity, class RecomputeClass, rule func(*Ctx), opts ...option) Info {
	return define(k, name, versions(1), in, out, class, rule, append([]option{domain(DomainMemopt)}, opts...)...)
}

// dense runs a rule on nodes whose inputs are dense tensors; others are errors.
func dense(rule func(*Ctx)) func(*Ctx) {
	return func(c *Ctx) {
		if c.Dense() {
			rule(c)
		}
	}
}

// exactly is the arity of operators with a fixed number of operands.
func exactly(n int) Arity { return Arity{n, n} }

// unary is an elementwise operator of one operand: cheap and possible in place.
func unary(k graph.Kind, name string, since []int, set dtypeSet, opts ...option) Info {
	return row(k, name, since, exactly(1), exactly(1), Cheap, unaryRule(set, nil),
		append([]option{inPlace(0), factors(elementwise)}, opts...)...)
}

// floatUnary is unary for floating-point numbers alone.
func floatUnary(k graph.Kind, name string, since []int, opts ...option) Info {
	return unary(k, name, since, floats, opts...)
}

// arithmetic is an elementwise operator of two operands of one type.
func arithmetic(k graph.Kind, name string, since []int, set dtypeSet, fold func(*Ctx), opts ...option) Info {
	return row(k, name, since, exactly(2), exactly(1), Cheap, binaryRule(set, fold),
		append([]option{inPlace(0, 1), factors(elementwise)}, opts...)...)
}

// comparison is an elementwise operator of two operands with bools as result.
func comparison(k graph.Kind, name string, since []int, set dtypeSet, fold func(*Ctx), opts ...option) Info {
	return row(k, name, since, exactly(2), exactly(1), Cheap, compareRule(set, fold),
		append([]option{factors(elementwise)}, opts...)...)
}

// variadic is an elementwise operator of any number of operands.
func variadic(k graph.Kind, name string, since []int, fold func(*Ctx)) Info {
	return row(k, name, since, Arity{1, -1}, exactly(1), Cheap, variadicRule(fold), inPlace(0, 1), flops(variadicFLOPs),
		factors(elementwise))
}

// reduction is an operator that folds axes, which are an input from version axesSince on. by says how
// the results of parts make the whole.
func reduction(k graph.Kind, name string, since []int, axesSince int, fold binary, by Reduction) Info {
	return row(k, name, since, Arity{1, 2}, exactly(1), Cheap, reduceRule(axesSince, fold), flops(inputElements),
		moved(axesSince, 1, "axes"), factors(reduceFactors(by)))
}

// moves is an operator that moves or selects elements without arithmetic.
func moves(k graph.Kind, name string, since []int, in Arity, rule func(*Ctx), opts ...option) Info {
	return row(k, name, since, in, exactly(1), Cheap, rule, append([]option{flops(noFLOPs)}, opts...)...)
}

// view is an operator whose result is input 0 under another shape.
func view(k graph.Kind, name string, since []int, in Arity, rule func(*Ctx), opts ...option) Info {
	viewed := []option{role(ReshapeRole), func(r *Info) { r.View = true }}
	return row(k, name, since, in, exactly(1), Free, rule, append(viewed, opts...)...)
}

// random is an operator whose draw the attribute seed fixes.
func random(k graph.Kind, name string, since []int, in Arity, rule func(*Ctx), opts ...option) Info {
	seeded := []option{opsEach(10), draws(since[0]), func(r *Info) { r.FloatSeed = true }}
	return row(k, name, since, in, exactly(1), Seeded, rule, append(seeded, opts...)...)
}

func inPlace(slots ...int) option { return func(r *Info) { r.InPlace = slots } }

func throughout(slots ...int) option { return func(r *Info) { r.Throughout = slots } }

func cuts(f func(*Pieces) []int64) option { return func(r *Info) { r.Cuts = f } }

func joins(f func(*Pieces) []int64) option { return func(r *Info) { r.Joins = f } }

func domain(name string) option { return func(r *Info) { r.Domain = name } }

func dialect(tool string) option { return func(r *Info) { r.Dialect = tool } }

func control(c Control) option { return func(r *Info) { r.Control = c } }

func mutates(slots ...int) option { return func(r *Info) { r.Mutates = slots } }

func transfer(t Transfer) option { return func(r *Info) { r.Transfer = t } }

func pending(r *Info) { r.Pending = true }

func states(list ...Update) option { return func(r *Info) { r.States = list } }

// statistics lists running statistics with their new values, which are made where trains says so.
func statistics(trains func(*graph.Node, int) bool, list ...Update) option {
	return func(r *Info) { r.Trains, r.Updates = trains, list }
}

func evaluation(edit func(*graph.Node, int) error) option { return func(r *Info) { r.Evaluate = edit } }

// draws marks a random operator whose draw the attribute seed fixes from a version on.
func draws(since int) option {
	return func(r *Info) { r.Random, r.SeedAttr, r.SeedSince = true, "seed", since }
}

// drawsInTraining names the input that turns draws on, from a version on.
func drawsInTraining(slot, since int) option {
	return func(r *Info) { r.Training, r.TrainingSince = slot, since }
}

// moved lists attributes that are inputs from a version on, the first of them in the given slot and
// the others behind.
func moved(since, slot int, attrs ...string) option {
	return func(r *Info) {
		for i, name := range attrs {
			r.Moved = append(r.Moved, Moved{name, since, slot + i})
		}
	}
}

func factors(f func(*Pieces) []Factor) option { return func(r *Info) { r.Factors = f } }

// shapes marks inputs that list the dims of output 0.
func shapes(slots ...int) option { return func(r *Info) { r.Shapes = slots } }

func role(x Role) option { return func(r *Info) { r.Role |= x } }

func flops(f func(*Ctx) symbolic.Expr) option { return func(r *Info) { r.FLOPs = f } }

// recomputable adds an entry of ONNX Runtime's table.
func recomputable(level int, v []int, skip ...int) option {
	return func(r *Info) { r.ORT = append(r.ORT, Recomputable{level, v, skip}) }
}

// opsEach counts n operations per element of output 0. Transcendental functions count
// as 10, the usual cost of a polynomial or rational approximation.
func opsEach(n int64) option {
	return flops(func(c *Ctx) symbolic.Expr { return symbolic.Const(n).Mul(c.OutElements(0)) })
}

// inputElements counts one operation per element of input 0.
func inputElements(c *Ctx) symbolic.Expr { return c.Shape(0).Elements() }

// variadicFLOPs counts one operation per element and operand.
func variadicFLOPs(c *Ctx) symbolic.Expr {
	return symbolic.Const(int64(len(c.Node.Inputs))).Mul(c.OutElements(0))
}

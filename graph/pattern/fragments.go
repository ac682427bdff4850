package pattern

// Parts of patterns, as exporters write them.
const (
	// Spread is the root of the mean square of d, plus a little.
	Spread = `Sqrt(Add(ReduceMean({Pow(d, 2) | Mul(d, d)}), eps))`
	// Centred is x less its mean.
	Centred = `d: Sub(x, ReduceMean(x))`
	// Inverse is one over Spread.
	Inverse = `i: {Div(1, ` + Spread + `) | Reciprocal(` + Spread + `)}`
	// Twice is 1 + erf(x/√2), twice the share of the normal distribution below x.
	Twice = `Add(Erf({Div(x, 1.4142135623730951) | Mul(x, 0.7071067811865476)}), 1)`
	// NearTwice approximates it: 1 + tanh(√(2/π)·(x + 0.044715·x³)).
	NearTwice = `Add(Tanh({
			Mul(Add(x, Mul({Pow(x, 3) | Mul(x, Mul(x, x))}, 0.044715)), 0.7978845608028654) |
			Mul(Mul(x, 0.7978845608028654), Add(Mul(Mul(x, 0.044715), x), 1))}), 1)`
)

// Package pattern finds nodes that together are one operator: the square root of a mean of squares
// and the nodes around it are a norm. A pattern is a text in the notation of calls, such as
//
//	Div(d: Sub(x, ReduceMean(x)), Sqrt(Add(ReduceMean({Pow(d, 2) | Mul(d, d)}), eps)))
//
// and is matched from its last node on. Tables of patterns belong to the packages that rewrite the
// matches: package autograd takes the operator's gradient, inference/optimize writes the operator.
package pattern

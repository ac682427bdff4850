// Package symbolic computes with exact integer expressions over named dimensions,
// such as batch*seq*1024, the way a tensor's shape or its bytes depend on them.
//
// # Normal form
//
// An [Expr] is a polynomial with int64 coefficients: a sorted list of terms, each a
// coefficient times a product of powers of atoms. An atom is a symbol, or something that
// polynomials cannot express:
//
//	floor(p/q)     rounding down (Go's p/q rounds to zero; this is Python's p//q)
//	ceiling(p/q)   rounding up
//	Mod(p, q)      p - q*floor(p/q): the result has the sign of q, as in Python
//	Min(p, q, ..)  Max(p, q, ..)
//
// Every operation returns this form, so two expressions that the rules below can tell equal
// have the same form, and [Expr.Equal] only compares. The rules, each true for every integer:
//
//	floor((k*a + r)/k)          = a + floor(r/k)             k > 0; coefficients of r end in [0, k)
//	floor((g*a + c)/(g*k))      = floor((a + floor(c/g))/k)  g, k > 0
//	floor((floor(a/m) + z)/k)   = floor((a + m*z)/(m*k))     m, k > 0
//	ceiling(a/k)                = floor((a + k - 1)/k)       k > 0
//	floor(a/-b)                 = floor(-a/b)
//	floor(g*a/(g*b))            = floor(a/b)
//	ceiling(a/b)                = -floor(-a/b)
//	Mod(a + k*b, k)             = Mod(a, k)
//	Mod(g*a + c, g*k)           = g*Mod(a + floor(c/g), k) + Mod(c, g)
//	Mod(a, -b)                  = -Mod(-a, b)
//	Mod(c*Mod(a, m) + z, k)     = Mod(c*a + z, k)            k divides c*m
//	Max(a, Max(b, c))           = Max(a, b, c)
//	Max(a, Min(a, b))           = a
//	Max(a, b)                   = a                          a - b ≥ 0 by interval arithmetic
//
// and the mirror images for Min. Dims may be any integer here, zero and negative ones included;
// only [Compare] and [Expr.Bounds] assume more, and take their assumptions as an argument. There is
// one exception: a quotient is undefined where its divisor is zero, and cancelling may define it,
// so batch*seq/seq is batch even though seq might be 0.
//
// The form is not complete (no form with floor and Min is, cheaply): unequal forms may still
// have equal values, as x and 2*floor(x/2) + Mod(x, 2) have.
//
// # Unknown and failed values
//
// [Unknown] is an unknown dim; like NaN it absorbs other operands and is not equal to any
// expression. An operation that fails returns a value with an [Expr.Err], which absorbs likewise,
// so a series of operations is checked once at its end. An error outweighs unknown.
//
// # Limits
//
// Coefficients are int64; an operation whose coefficient leaves that range fails with
// [ErrOverflow]; it never wraps. Expressions are kept small: [MaxTerms], [MaxSize], [MaxDegree] and
// [MaxDepth] bound them, and larger ones fail with [ErrTooLarge]. Together they bound the time and
// the memory that any operation takes. [Expr.Eval] is exact: it fails with [ErrOverflow] only where
// the value itself does not fit int64.
//
// # Text
//
// [Expr.String] prints as sympy's str does, terms in the same order, and [Parse] reads that text
// back to the identical expression. It prints the normal form of this package, so where the rules
// above differ from sympy's own, so does the text: floor(x/2 + 1/2) is ceiling(x/2).
package symbolic

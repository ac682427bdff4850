package symbolic

import (
	"math"
	"strconv"
	"strings"
)

// floatDigits is the number of decimal digits that sympy prints of a 53-bit float.
const floatDigits = 15

// FloatString prints a*num/den as sympy prints an expanded polynomial times Float(num/den): every
// coefficient is a float, "96.0*batch*seq + 64.0*batch", those inside floor, Max and so on stay
// integers. A constant prints as its float, "1234.0". If den is 0 it prints String's text of a
// value divided by 0.
func (a Expr) FloatString(num, den int64) string {
	switch {
	case !a.IsKnown():
		return a.String()
	case den == 0:
		return without(stateDivisionByZero).String()
	case a.IsConst(0) || num == 0:
		return "0.0"
	}
	scale := float64(num) / float64(den)
	parts := displayTerms(a, 1)
	if scale < 0 { // the sign is that of the coefficient, which decides the order "1 - x"
		for i := range parts {
			parts[i].coef.negative = !parts[i].coef.negative
		}
	}
	if len(parts) == 2 {
		parts = orderTwo(parts)
	}
	return string(appendSum(nil, parts, func(buf []byte, r ratio, _ bool) ([]byte, bool) {
		return appendFloat(buf, float64(r.num)*math.Abs(scale)), true
	}))
}

// orderTwo puts two terms, a constant perhaps among them, into their printing order.
func orderTwo(parts []part) []part {
	if len(parts[0].bases) == 0 {
		parts[0], parts[1] = parts[1], parts[0]
	}
	if constantFirst(parts) {
		parts[0], parts[1] = parts[1], parts[0]
	}
	return parts
}

// appendFloat appends a finite x ≥ 0 with 15 significant digits, rounded half up, without
// trailing zeros: in fixed point if its decimal exponent is from -4 to 14, else as 1.5e+20.
func appendFloat(buf []byte, x float64) []byte {
	if x == 0 {
		return append(buf, "0.0"...)
	}
	digits, exponent := decimalDigits(x)
	point := 1
	if -5 < exponent && exponent < floatDigits {
		if exponent < 0 {
			digits = strings.Repeat("0", -exponent) + digits
		} else {
			point += exponent
		}
		exponent = 0
	}
	whole, rest := digits[:point], strings.TrimRight(digits[point:], "0")
	if rest == "" {
		rest = "0"
	}
	buf = append(append(append(buf, whole...), '.'), rest...)
	switch {
	case exponent > 0:
		buf = append(buf, "e+"...)
	case exponent < 0:
		buf = append(buf, 'e')
	default:
		return buf
	}
	return strconv.AppendInt(buf, int64(exponent), 10)
}

// decimalDigits returns the first 15 digits of x > 0 and the exponent of the first one.
func decimalDigits(x float64) (digits string, exponent int) {
	// 60 digits are more than enough to see the exact sixteenth.
	mantissa, exp, _ := strings.Cut(strconv.FormatFloat(x, 'e', 60, 64), "e")
	exponent, _ = strconv.Atoi(exp)
	all := strings.Replace(mantissa, ".", "", 1)
	n, _ := strconv.ParseInt(all[:floatDigits], 10, 64)
	if all[floatDigits] >= '5' {
		n++
	}
	digits = strconv.FormatInt(n, 10)
	if len(digits) > floatDigits { // 999... became 1000...
		digits = digits[:floatDigits]
		exponent++
	}
	return digits, exponent
}

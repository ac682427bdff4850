package report

import (
	"fmt"
	"math"
)

// units are the units of printed sizes, each 1024 of the one before.
var units = [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// leastOfUnit is how many of the unit the largest size of a column has at least: more than one, so
// that smaller sizes keep their digits.
const leastOfUnit = 10

// SizeUnit returns the unit for a column of sizes, the largest unit that divides the largest size
// at least ten times, and a function that prints a size in it, without the unit.
func SizeUnit(sizes ...int64) (unit string, print func(n int64) string) {
	most := float64(0)
	for _, n := range sizes {
		most = max(most, math.Abs(float64(n)))
	}
	u, each := 0, float64(1)
	for u < len(units)-1 && most >= leastOfUnit*1024*each {
		u, each = u+1, each*1024
	}
	if u == 0 {
		return units[0], Thousands
	}
	return units[u], func(n int64) string { return inUnit(float64(n) / each) }
}

// inUnit prints a number with two decimals; a number other than zero does not print as zero.
func inUnit(x float64) string {
	cents := int64(math.Round(100 * math.Abs(x)))
	text := fmt.Sprintf("%s.%02d", Thousands(cents/100), cents%100)
	switch {
	case cents == 0 && x != 0:
		return "<0.01"
	case x < 0:
		return "-" + text
	}
	return text
}

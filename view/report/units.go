package report

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"memopt/planner"
	"memopt/symbolic"
)

// Bytes prints a size with two decimals in the largest binary unit that it reaches:
// "1.50 GiB"; below 1 KiB as "512 B".
func Bytes(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	if n > -1024 && n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	x, u := float64(n)/1024, 0
	for math.Abs(x) >= 1023.995 && u < len(units)-1 {
		x /= 1024
		u++
	}
	return fmt.Sprintf("%.2f %s", x, units[u])
}

// Thousands prints an integer with commas: "1,234,567".
func Thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Percent prints a share with one decimal: "3.1 %".
func Percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// rankHint stands for symbols without a binding when sizes are only sorted.
const rankHint = 128

// rank returns a number to sort sizes by: the value at the bindings, unbound symbols at the hint;
// -1 for an unknown size.
func rank(e symbolic.Expr, dims symbolic.Env) int64 {
	n, err := e.Eval(dims)
	if err == nil {
		return n
	}
	env := symbolic.Env{}
	for _, name := range e.Symbols() {
		env[name] = rankHint
	}
	maps.Copy(env, dims)
	if n, err = e.Eval(env); err != nil {
		return -1
	}
	return n
}

// costNote names the costs that predict a time: those of a device profile, or measured ones.
func costNote(profile string) string {
	if file, ok := strings.CutPrefix(profile, planner.MeasuredPrefix); ok {
		return "by the times in " + file
	}
	return "by the " + profile + " profile"
}

// Exact writes a size as ParseBytes reads it back, to the byte, in the largest binary unit that divides it: "24GiB".
func Exact(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	u := 0
	for n > 0 && n%1024 == 0 && u < len(units)-1 {
		n /= 1024
		u++
	}
	return fmt.Sprint(n) + units[u]
}

// WholeKiB is Exact of a size that is rounded up to KiB.
func WholeKiB(n int64) string { return Exact((n + 1023) / 1024 * 1024) }

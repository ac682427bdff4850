package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits maps the endings of sizes to bytes, the longest ending first, in lower case. A lone
// letter is binary: 16G = 16Gi = 16GiB; GB is decimal.
var sizeUnits = []struct {
	suffix string
	bytes  float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"ki", 1 << 10}, {"mi", 1 << 20}, {"gi", 1 << 30}, {"ti", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1},
}

// ParseBytes reads a size: "16GiB", "16Gi" and "16G" are 2^34 bytes, "16GB" is 16·10^9, a bare
// number is bytes. Letter case does not matter. Fractions of units such as "1.5GiB" are allowed,
// fractions of a byte are not.
func ParseBytes(text string) (int64, error) {
	number, unit := strings.ToLower(strings.TrimSpace(text)), 1.0
	for _, u := range sizeUnits {
		if strings.HasSuffix(number, u.suffix) {
			number, unit = strings.TrimSpace(strings.TrimSuffix(number, u.suffix)), u.bytes
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && unit == 1 {
		if n < 0 {
			return 0, fmt.Errorf("size %q: is negative", text)
		}
		return n, nil
	}
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("size %q: wanted a number with B, KiB, MiB, GiB, TiB (or KB, MB, GB, TB)", text)
	}
	if x < 0 || x*unit >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q: is negative or beyond 2^63 bytes", text)
	}
	if unit == 1 && x != math.Trunc(x) {
		return 0, fmt.Errorf("size %q: is a fraction of a byte; give it a unit, as in %sGiB", text, number)
	}
	return int64(math.Round(x * unit)), nil
}

// BareNumber reports whether a text that ParseBytes reads is a number alone, which is bytes.
func BareNumber(text string) bool {
	text = strings.TrimSpace(text)
	return text != "" && strings.Trim(text[len(text)-1:], "0123456789.") == ""
}

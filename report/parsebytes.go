package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits maps the endings of sizes to bytes, the longest ending first. A lone letter is binary:
// 16G = 16Gi = 16GiB; GB is decimal.
var sizeUnits = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
	{"KB", 1e3}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
}

// ParseBytes reads a size: "16GiB", "16Gi" and "16G" are 2^34 bytes, "16GB" is 16·10^9, a
// bare number is bytes. Fractions such as "1.5GiB" are allowed.
func ParseBytes(text string) (int64, error) {
	number, unit := strings.TrimSpace(text), 1.0
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
	return int64(math.Round(x * unit)), nil
}

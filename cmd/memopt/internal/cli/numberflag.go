package cli

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"

	"github.com/spf13/pflag"
)

// number is the value of a flag that holds a number within bounds. Other numbers are rejected when
// the flag is read, from the command line or a variable, so that no further check is needed:
// infinities and NaN are outside all bounds.
type number[T int | float64] struct {
	to *T
	Bounds
}

// Bounds is an interval. An infinite end excludes infinity alone.
type Bounds struct {
	Least, Most float64
	below       bool // most itself is excluded
}

// Bounds that several flags have.
var (
	NotNegative = Bounds{Least: 0, Most: math.Inf(1)}
	Positive    = Bounds{Least: 1, Most: math.Inf(1)} // of whole numbers
	ShareBelow1 = Bounds{Least: 0, Most: 1, below: true}
)

// MaxThreads is the most threads that --threads takes: 256, or one per core where there are more.
// More would wait for each other, and each needs a stack and buffers of the libraries that it
// calls; OpenBLAS has buffers for that many callers.
func MaxThreads() int { return max(256, runtime.NumCPU()) }

// NumberVar registers a flag of a number.
func NumberVar[T int | float64](f *pflag.FlagSet, to *T, name, short string, value T, b Bounds, usage string) {
	*to = value
	f.VarP(&number[T]{to, b}, name, short, usage)
}

// String returns the value as pflag prints defaults.
func (n *number[T]) String() string {
	if n.to == nil {
		return "0"
	}
	return strconv.FormatFloat(float64(*n.to), 'g', -1, 64)
}

// Type is the name of the value's type in help texts.
func (n *number[T]) Type() string {
	if _, whole := any(T(0)).(int); whole {
		return "int"
	}
	return "float"
}

// Set reads the value. The error says which values are valid.
func (n *number[T]) Set(text string) error {
	v, err := n.parse(text)
	if err != nil || !n.holds(float64(v)) {
		return errors.New("wanted " + n.wanted())
	}
	*n.to = v
	return nil
}

func (n *number[T]) parse(text string) (T, error) {
	if n.Type() == "int" {
		i, err := strconv.Atoi(text)
		return T(i), err
	}
	x, err := strconv.ParseFloat(text, 64)
	return T(x), err
}

// holds reports whether a number lies within the bounds.
func (b Bounds) holds(x float64) bool {
	return !math.IsInf(x, 0) && x >= b.Least && (x < b.Most || x == b.Most && !b.below)
}

// wanted names the bounds.
func (n *number[T]) wanted() string {
	kind := "a number"
	if n.Type() == "int" {
		kind = "a whole number"
	}
	switch most := !math.IsInf(n.Most, 0); {
	case most && n.below:
		return fmt.Sprintf("%s of %g or more, below %g", kind, n.Least, n.Most)
	case most:
		return fmt.Sprintf("%s from %g to %g", kind, n.Least, n.Most)
	default:
		return fmt.Sprintf("%s of %g or more", kind, n.Least)
	}
}

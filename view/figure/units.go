package figure

import (
	"math"
	"strconv"
)

// unit is the divisor of numbers on an axis, and its name.
type unit struct {
	name string
	each float64
}

var (
	byteUnits = []unit{{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"PiB", 1 << 50}, {"EiB", 1 << 60}}
	timeUnits = []unit{{"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}}
)

// unitOf is the largest unit that a number reaches.
func unitOf(list []unit, most float64) unit {
	u := list[0]
	for _, v := range list {
		if most >= v.each {
			u = v
		}
	}
	return u
}

// tick is a mark on an axis.
type tick struct {
	value float64
	label string
}

// ticks marks an axis at round numbers, 1, 2 or 5 times a power of ten apart, at 4 to 10 places.
func ticks(low, high float64) (list []tick) {
	if !(high > low) {
		return nil
	}
	each := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, more := range []float64{5, 2} {
		if (high-low)/(each*more) >= 4 {
			each *= more
			break
		}
	}
	for i := math.Ceil(low / each); i*each <= high; i++ {
		list = append(list, tick{i * each, strconv.FormatFloat(i*each, 'g', 6, 64)})
	}
	return list
}

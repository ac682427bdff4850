package events

import (
	"encoding/json"
	"fmt"
	"math"
)

// Number is a float64 in JSON, a string where it is not finite (package comment).
type Number float64

// MarshalJSON writes the number.
func (n Number) MarshalJSON() ([]byte, error) {
	switch x := float64(n); {
	case math.IsNaN(x):
		return []byte(`"NaN"`), nil
	case math.IsInf(x, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(x, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return json.Marshal(x)
	}
}

// UnmarshalJSON reads the form of MarshalJSON.
func (n *Number) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"NaN"`:
		*n = Number(math.NaN())
	case `"Infinity"`:
		*n = Number(math.Inf(1))
	case `"-Infinity"`:
		*n = Number(math.Inf(-1))
	default:
		var x float64
		if err := json.Unmarshal(text, &x); err != nil {
			return fmt.Errorf(`%.40s: wanted a number, "NaN", "Infinity" or "-Infinity"`, text)
		}
		*n = Number(x)
	}
	return nil
}

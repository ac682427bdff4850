package edit

import (
	"encoding/binary"
	"fmt"
	"math"

	"memopt/graph"
	"memopt/internal/memlimit"
)

// Floats reads the elements of a constant of float32.
func Floats(t *graph.TensorData) ([]float32, error) {
	size, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	if t.DType != graph.Float32 || t.Source == nil {
		return nil, fmt.Errorf("tensor %q is %v, wanted float with contents", t.Name, t.DType)
	}
	if err := memlimit.Check(size, "tensor %q", t.Name); err != nil {
		return nil, err
	}
	raw, err := t.Source.Bytes()
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if int64(len(raw)) != size {
		return nil, fmt.Errorf("tensor %q: has %d bytes, wanted %d", t.Name, len(raw), size)
	}
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out, nil
}

package train

import (
	"fmt"
	"io"
	"strings"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
	"memopt/internal/lowbit"
	"memopt/train/checkpoint"
	"memopt/train/safetensors"
)

// WriteMoments writes the optimizer's states of a checkpoint as a file of safetensors in float32, by their names in the
// checkpoint, for other programs: moments in codes are decoded, in the shape of their parameter and without scales, and
// moments of bfloat16 widened. All else, such as the number of updates, stays as it is.
func WriteMoments(w io.Writer, c *checkpoint.Checkpoint) error {
	var entries []safetensors.Entry
	var read []func(dst []byte) error
	for _, e := range c.Others.Entries() {
		t, _ := c.Others.Tensor(e.Name)
		scales, coded := c.Others.Tensor(e.Name + autograd.ScaleSuffix)
		of, isScale := strings.CutSuffix(e.Name, autograd.ScaleSuffix)
		if codes, ok := c.Others.Tensor(of); isScale && ok && codes.DType == graph.Uint8 {
			continue
		}
		copied := func(dst []byte) error { copy(dst, t.Data); return nil }
		switch {
		case coded && t.DType == graph.Uint8:
			f, err := formatOf(e.Name, t, scales)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Others.Path(), err)
			}
			e.DType, e.Shape = graph.Float32, []int{len(scales.Data) / 4 * f.Block}
			if p, ok := c.Weights.Tensor(parameterOf(e.Name)); ok && p.Len() == e.Shape[0] {
				e.Shape = p.Shape
			}
			copied = func(dst []byte) error { decode(f, executor.Cast[float32](dst), t, scales); return nil }
		case t.DType == graph.BFloat16:
			e.DType = graph.Float32
			copied = func(dst []byte) error {
				for i, x := range executor.Of[half.BFloat16](t) {
					executor.Cast[float32](dst)[i] = x.Float32()
				}
				return nil
			}
		}
		entries, read = append(entries, e), append(read, copied)
	}
	return safetensors.Write(w, entries, nil, func(i int, dst []byte) error { return read[i](dst) })
}

// parameterOf is the parameter of a moment.
func parameterOf(moment string) string {
	for _, suffix := range []string{autograd.SqAvgSuffix, autograd.AvgSuffix} {
		if name, ok := strings.CutSuffix(moment, suffix); ok {
			return name
		}
	}
	return moment
}

// formatOf is the format of a moment's codes, which follows from their number and that of the scales.
func formatOf(name string, codes, scales *executor.Tensor) (*lowbit.Format, error) {
	for _, bits := range []int{8, 4} {
		f := lowbit.FormatOf(bits, !strings.HasSuffix(name, autograd.SqAvgSuffix))
		if n := int64(scales.Len()) * int64(f.Block); scales.DType == graph.Float32 &&
			f.CodeBytes(n) == int64(len(codes.Data)) {
			return f, nil
		}
	}
	return nil, fmt.Errorf("tensor %q has %d codes beside %v: wanted blocks of 256 codes of 8 bits, or of 128 of 4",
		name, len(codes.Data), scales)
}

// decode writes the numbers of all blocks.
func decode(f *lowbit.Format, dst []float32, codes, scales *executor.Tensor) {
	bytes := int(f.CodeBytes(int64(f.Block)))
	for b, scale := range executor.Of[float32](scales) {
		f.Decode(dst[b*f.Block:(b+1)*f.Block], codes.Data[b*bytes:], scale)
	}
}

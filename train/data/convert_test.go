package data

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
)

// numeric lists the types that are converted.
var numeric = []graph.DType{graph.Bool, graph.Uint8, graph.Int8, graph.Uint16, graph.Int16, graph.Uint32, graph.Int32,
	graph.Uint64, graph.Int64, graph.Float16, graph.BFloat16, graph.Float32, graph.Float64}

// exact returns the value of an element as a number of any size; nil if it is none.
func exact(d graph.DType, data []byte) *big.Float {
	t := &executor.Tensor{DType: d, Data: data}
	f := func(v float64) *big.Float {
		if math.IsNaN(v) {
			return nil
		}
		return new(big.Float).SetPrec(200).SetFloat64(v)
	}
	i := func(v int64) *big.Float { return new(big.Float).SetPrec(200).SetInt64(v) }
	switch d {
	case graph.Bool, graph.Uint8:
		return i(int64(executor.Of[uint8](t)[0]))
	case graph.Int8:
		return i(int64(executor.Of[int8](t)[0]))
	case graph.Uint16:
		return i(int64(executor.Of[uint16](t)[0]))
	case graph.Int16:
		return i(int64(executor.Of[int16](t)[0]))
	case graph.Uint32:
		return i(int64(executor.Of[uint32](t)[0]))
	case graph.Int32:
		return i(int64(executor.Of[int32](t)[0]))
	case graph.Uint64:
		return new(big.Float).SetPrec(200).SetUint64(executor.Of[uint64](t)[0])
	case graph.Int64:
		return i(executor.Of[int64](t)[0])
	case graph.Float16:
		return f(float64(executor.Of[half.Float16](t)[0].Float32()))
	case graph.BFloat16:
		return f(float64(executor.Of[half.BFloat16](t)[0].Float32()))
	case graph.Float32:
		return f(float64(executor.Of[float32](t)[0]))
	}
	return f(executor.Of[float64](t)[0])
}

// patterns returns bits of elements: all of a type of up to 16 bits, else edges and random ones.
func patterns(d graph.DType) []uint64 {
	var out []uint64
	switch n := d.Bits(); {
	case d == graph.Bool:
		return []uint64{0, 1}
	case n <= 16:
		for v := range uint64(1) << n {
			out = append(out, v)
		}
	default:
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		for range 2000 {
			out = append(out, rng.Uint64()>>rng.IntN(64), ^(rng.Uint64() >> rng.IntN(64)))
		}
		out = append(out, 1<<24+1, 1<<53+1, 1<<31, 1<<63, math.MaxUint64)
	}
	return out
}

// TestConversions holds every pair of types to exact numbers: where lossless says so, nothing is
// lost; elsewhere some value is.
func TestConversions(t *testing.T) {
	for _, from := range numeric {
		for _, to := range numeric {
			c := converter(from, to)
			if c == nil {
				require.False(t, lossless(from, to), "%v to %v", from, to)
				continue
			}
			lost := ""
			for _, bits := range patterns(from) {
				var src, dst [8]byte
				for i := range src {
					src[i] = byte(bits >> (8 * i))
				}
				c(dst[:to.Bits()/8], src[:from.Bits()/8])
				want, got := exact(from, src[:]), exact(to, dst[:])
				if (want == nil) != (got == nil) || want != nil && want.Cmp(got) != 0 {
					lost = fmt.Sprintf("%x: %v becomes %v", bits, want, got)
					break
				}
			}
			require.Equal(t, lost == "", lossless(from, to), "%v to %v: %s", from, to, lost)
		}
	}
}

// TestUnaligned: elements are read at any place, as an archive has them.
func TestUnaligned(t *testing.T) {
	for _, from := range numeric {
		for _, to := range numeric {
			c := converter(from, to)
			if c == nil {
				continue
			}
			n := from.Bits() / 8
			src := make([]byte, 3*n+8)
			for i := range src {
				src[i] = byte(i%7) / 3
			}
			want, got := make([]byte, 3*to.Bits()/8), make([]byte, 3*to.Bits()/8)
			c(want, append([]byte(nil), src[3:3+3*n]...))
			c(got, src[3:3+3*n])
			require.Equal(t, want, got, "%v to %v", from, to)
		}
	}
}

// TestRangedConversion: integers of a wider type are taken where their range fits.
func TestRangedConversion(t *testing.T) {
	for _, c := range []struct {
		from, to graph.DType
		classes  int64
		ignore   int64
		has, ok  bool
	}{
		{graph.Int64, graph.Int32, 10, 0, false, true},
		{graph.Int64, graph.Int32, 10, -100, true, true},
		{graph.Int64, graph.Int32, 0, 0, false, false},
		{graph.Int64, graph.Int32, 1 << 31, 0, false, true},
		{graph.Int64, graph.Int32, 1<<31 + 1, 0, false, false},
		{graph.Int64, graph.Int32, 10, -1 << 31, true, true},
		{graph.Int64, graph.Int32, 10, -1<<31 - 1, true, false},
		{graph.Int64, graph.Int32, 10, 1 << 31, true, false},
		{graph.Int64, graph.Uint8, 256, 0, false, true},
		{graph.Int64, graph.Uint8, 257, 0, false, false},
		{graph.Int64, graph.Uint8, 10, 255, true, true},
		{graph.Int64, graph.Uint8, 10, -1, true, false},
		{graph.Uint64, graph.Int64, 10, 0, false, true},
		{graph.Float32, graph.Int64, 10, 0, false, false},
		{graph.Int64, graph.Float32, 10, 0, false, false},
		{graph.Uint32, graph.Int32, 100000, 0, false, true},
	} {
		in := &Input{Name: "y", DType: c.to, Classes: c.classes, Ignore: c.ignore, HasIgnore: c.has}
		_, err := conversion(c.from, in)
		if c.ok {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorContains(t, err, fmt.Sprintf(`has elements of type %v; input "y" takes %v`, c.from, c.to))
		}
	}
}

// TestScaled: quotients are those of float64, rounded once.
func TestScaled(t *testing.T) {
	for _, from := range numeric {
		for _, to := range numeric {
			c, err := scaled(from, to, 255)
			if !from.IsInteger() || from.Bits() > 16 || !to.IsFloat() {
				require.Error(t, err)
				continue
			}
			require.NoError(t, err)
			n := 1 << from.Bits()
			size := from.Bits() / 8
			src, dst := make([]byte, n*size), make([]byte, n*to.Bits()/8)
			for i := range n {
				for b := range size {
					src[i*size+b] = byte(i >> (8 * b))
				}
			}
			c(dst, src)
			for i := range n {
				v, _ := exact(from, src[i*size:]).Float64()
				want := v / 255
				switch to {
				case graph.Float32:
					want = float64(float32(want))
				case graph.Float16:
					want = float64(half.Float16From(float32(want)).Float32())
				case graph.BFloat16:
					want = float64(half.BFloat16From(float32(want)).Float32())
				}
				got, _ := exact(to, dst[i*to.Bits()/8:]).Float64()
				require.Equal(t, want, got, "%v %v to %v", v, from, to)
			}
		}
	}
}

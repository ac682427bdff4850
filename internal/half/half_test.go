package half

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// format is one of the two formats, by patterns.
type format struct {
	name             string
	expBits, manBits int
	widen            func(uint16) float32
	round            func(float32) uint16
}

var formats = []format{
	{"float16", 5, 10, func(h uint16) float32 { return Float16(h).Float32() },
		func(f float32) uint16 { return uint16(Float16From(f)) }},
	{"bfloat16", 8, 7, func(h uint16) float32 { return BFloat16(h).Float32() },
		func(f float32) uint16 { return uint16(BFloat16From(f)) }},
}

// value is the meaning of a pattern by the definition of IEEE 754.
func (f format) value(h uint16) float64 {
	bias := 1<<(f.expBits-1) - 1
	exp, man := int(h>>f.manBits)&(1<<f.expBits-1), float64(int(h)&(1<<f.manBits-1))
	var v float64
	switch {
	case exp == 0:
		v = math.Ldexp(man, 1-bias-f.manBits)
	case exp < 1<<f.expBits-1:
		v = math.Ldexp(man+float64(int(1)<<f.manBits), exp-bias-f.manBits)
	case man == 0:
		v = math.Inf(1)
	default:
		return math.NaN()
	}
	if h>>15 == 1 {
		v = math.Copysign(v, -1)
	}
	return v
}

func (f format) infinity() uint16 { return uint16((1<<f.expBits - 1) << f.manBits) }

// TestRoundTrip widens every pattern and rounds it back.
func TestRoundTrip(t *testing.T) {
	for _, f := range formats {
		quiet := uint16(1) << (f.manBits - 1)
		for i := range 1 << 16 {
			h := uint16(i)
			got, want := float64(f.widen(h)), f.value(h)
			if math.IsNaN(want) {
				require.True(t, math.IsNaN(got), "%s %#x", f.name, h)
				require.Equal(t, h|quiet, f.round(f.widen(h)), "%s: NaN keeps sign and payload", f.name)
				continue
			}
			require.Equal(t, math.Float64bits(want), math.Float64bits(got), "%s %#x is %g, not %g",
				f.name, h, want, got)
			require.Equal(t, h, f.round(f.widen(h)), "%s", f.name)
		}
	}
}

// TestRounding looks at the middle between neighbours, where the even one is nearest, and
// at the float32s beside it. The middle after the largest number rounds to infinity.
func TestRounding(t *testing.T) {
	up := func(f float32, to float64) float32 { return math.Nextafter32(f, float32(to)) }
	for _, f := range formats {
		for h := range f.infinity() {
			below := f.value(h)
			above := f.value(h + 1)
			if math.IsInf(above, 1) {
				above = 2*below - f.value(h-1)
			}
			middle := float32((below + above) / 2)
			require.Equal(t, (below+above)/2, float64(middle), "the middle is a float32")
			even := h + h&1
			for _, sign := range []uint16{0, 1 << 15} {
				s := float32(1)
				if sign != 0 {
					s = -1
				}
				require.Equal(t, sign|even, f.round(s*middle), "%s: %g between %g and %g", f.name, middle, below, above)
				require.Equal(t, sign|h, f.round(s*up(middle, 0)), "%s: just below %g", f.name, middle)
				require.Equal(t, sign|(h+1), f.round(s*up(middle, math.Inf(1))), "%s: just above %g", f.name, middle)
			}
		}
	}
}

func TestOverflow(t *testing.T) {
	for _, f := range formats {
		for _, v := range []float32{math.MaxFloat32, float32(math.Inf(1))} {
			assert.Equal(t, f.infinity(), f.round(v), f.name)
			assert.Equal(t, f.infinity()|1<<15, f.round(-v), f.name)
		}
		assert.Equal(t, uint16(0), f.round(0x1p-149), f.name)
		assert.Equal(t, uint16(1<<15), f.round(-0x1p-149), f.name)
	}
	assert.Equal(t, Float16(0x7bff), Float16From(65519.996), "the largest below the middle to 2^16")
	assert.Equal(t, Float16(0x7c00), Float16From(65520))
	assert.Equal(t, Float16(0x7c00), Float16From(1e6))
}

// TestNaN holds NaN to NaN, also where its payload is in the bits cut off.
func TestNaN(t *testing.T) {
	for _, bits := range []uint32{0x7f800001, 0xff800001, 0x7fc00000, 0x7fffffff, 0x7f801fff, 0xffffffff} {
		f := math.Float32frombits(bits)
		for _, format := range formats {
			back := format.widen(format.round(f))
			assert.True(t, back != back, "%s: %#x", format.name, bits)
			assert.Equal(t, bits>>31, math.Float32bits(back)>>31, "%s: the sign of %#x", format.name, bits)
		}
	}
}

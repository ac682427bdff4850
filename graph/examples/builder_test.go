package examples

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFloat16(t *testing.T) {
	for x, want := range map[float64]uint16{
		1:                   0x3c00,
		0.125:               0x3000,
		1.0 / 3:             0x3555,
		1 / math.Sqrt(8):    0x35a8,
		65504:               0x7bff,
		math.Ldexp(1, -14):  0x0400,
		1 + 1.0/2048:        0x3c00, // half way, to even
		1 + 3.0/2048:        0x3c02, // half way, to even
		2 - math.Exp2(-12):  0x4000, // carries into the exponent
		1 - math.Exp2(-13):  0x3c00,
		0.1:                 0x2e66,
		1 / math.Sqrt(1024): 0x2800,
	} {
		assert.Equalf(t, want, float16(x), "%v: got %#x, wanted %#x", x, float16(x), want)
	}
}

func TestIntsName(t *testing.T) {
	assert.Equal(t, "shared_int64_0_m1_12", intsName([]int64{0, -1, 12}))
	assert.Equal(t, "shared_int64", intsName(nil))
}

func TestScopeOf(t *testing.T) {
	for module, want := range map[string]string{
		"head":                "/head",
		"layers.0":            "/layers.0",
		"transformer.h.10":    "/transformer/h.10",
		"transformer.h.0.mlp": "/transformer/h.0/mlp",
	} {
		assert.Equal(t, want, scopeOf(module))
	}
}

// TestMissingContribution: a recorded reader that makes no gradient is reported.
func TestMissingContribution(t *testing.T) {
	b := newBuilder("broken")
	tp := newTape(b)
	w := tp.weight("w", 1, 2)
	y := tp.apply(onnxDomain, "Neg", "/Neg", []*value{w})
	tp.push("/Neg", []*value{w}, func(*gradient) {})
	tp.backward(y, y.id)
	_, err := tp.finish()
	assert.ErrorContains(t, err, `value "w": 0 of 1 gradient contributions were made`)
}

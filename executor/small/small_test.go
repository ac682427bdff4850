package small

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

var floats = []graph.DType{graph.Float8E4M3FN, graph.Float8E4M3FNUZ, graph.Float8E5M2, graph.Float8E5M2FNUZ,
	graph.Float4E2M1, graph.Float8E8M0}

// TestValues holds the tables to the numbers of ONNX's documents.
func TestValues(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		d    graph.DType
		code byte
		want float64
	}{
		{graph.Float8E4M3FN, 0x7e, 448}, {graph.Float8E4M3FN, 0x7f, nan}, {graph.Float8E4M3FN, 0xff, nan},
		{graph.Float8E4M3FN, 0x08, 0x1p-6}, {graph.Float8E4M3FN, 0x01, 0x1p-9}, {graph.Float8E4M3FN, 0xb8, -1},
		{graph.Float8E4M3FNUZ, 0x7f, 240}, {graph.Float8E4M3FNUZ, 0x80, nan}, {graph.Float8E4M3FNUZ, 0x01, 0x1p-10},
		{graph.Float8E5M2, 0x7b, 57344}, {graph.Float8E5M2, 0x7c, math.Inf(1)},
		{graph.Float8E5M2, 0xfc, math.Inf(-1)},
		{graph.Float8E5M2, 0x7d, nan}, {graph.Float8E5M2, 0x01, 0x1p-16},
		{graph.Float8E5M2FNUZ, 0x7f, 57344}, {graph.Float8E5M2FNUZ, 0x80, nan},
		{graph.Float8E5M2FNUZ, 0x01, 0x1p-17},
		{graph.Float4E2M1, 1, 0.5}, {graph.Float4E2M1, 7, 6}, {graph.Float4E2M1, 13, -3},
		{graph.Float8E8M0, 0, 0x1p-127}, {graph.Float8E8M0, 127, 1}, {graph.Float8E8M0, 254, 0x1p127},
		{graph.Float8E8M0, 255, nan},
	} {
		got := float64(Values(c.d)[c.code])
		require.True(t, got == c.want || got != got && c.want != c.want, "%v %#x: %v, wanted %v", c.d, c.code, got,
			c.want)
	}
}

// TestNearest compares with a search for the nearest number among all, ties to the even code.
func TestNearest(t *testing.T) {
	for _, d := range floats[:5] {
		e := NewEncoder(d, true, Up)
		codes := 1 << d.Bits()
		for i := -3000; i < 3000; i++ {
			x := math.Copysign(math.Exp2(float64(i%60)/2.5-18)*(1+float64(i%17)/16), float64(i))
			best, far := 0, math.Inf(1)
			for c := range codes {
				v := float64(Values(d)[c])
				if away := math.Abs(v - x); !math.IsInf(v, 0) && (away < far || away == far && c%2 == 0 && v != 0) {
					best, far = c, away
				}
			}
			require.Equal(t, Values(d)[best], Values(d)[e.Code(x)], "%v of %v", d, x)
		}
		for c := range codes { // each number is its own
			v := float64(Values(d)[c])
			if v == v && !math.IsInf(v, 0) {
				require.Equal(t, byte(c), e.Code(v), "%v", d)
			}
		}
	}
}

// TestBeyond holds numbers beyond the largest to the tables of Cast.
func TestBeyond(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		d                graph.DType
		x                float64
		saturated, plain byte
	}{
		{graph.Float8E4M3FN, inf, 0x7e, 0x7f}, {graph.Float8E4M3FN, -inf, 0xfe, 0xff},
		{graph.Float8E4M3FN, 464, 0x7e, 0x7e},
		{graph.Float8E4M3FN, 465, 0x7e, 0x7f}, {graph.Float8E4M3FN, nan, 0x7f, 0x7f},
		{graph.Float8E4M3FN, math.Copysign(0, -1), 0x80, 0x80},
		{graph.Float8E4M3FNUZ, -1e9, 0xff, 0x80}, {graph.Float8E4M3FNUZ, nan, 0x80, 0x80},
		{graph.Float8E4M3FNUZ, math.Copysign(0, -1), 0, 0}, {graph.Float8E4M3FNUZ, -1e-9, 0, 0},
		{graph.Float8E5M2, inf, 0x7b, 0x7c}, {graph.Float8E5M2, -61440, 0xfb, 0xfc},
		{graph.Float8E5M2, nan, 0x7f, 0x7f},
		{graph.Float8E5M2FNUZ, inf, 0x7f, 0x80}, {graph.Float8E5M2FNUZ, nan, 0x80, 0x80},
		{graph.Float4E2M1, inf, 7, 7}, {graph.Float4E2M1, -7, 15, 15}, {graph.Float4E2M1, nan, 7, 7},
		{graph.Float8E8M0, 0, 0, 0xff}, {graph.Float8E8M0, inf, 0xfe, 0xff}, {graph.Float8E8M0, nan, 0xff, 0xff},
		{graph.Float8E8M0, 0x1p128, 0xfe, 0xff}, {graph.Float8E8M0, 0x1p-130, 0, 0xff},
		{graph.Float8E8M0, -1, 0xff, 0xff},
	} {
		saturated, plain := NewEncoder(c.d, true, Up), NewEncoder(c.d, false, Up)
		require.Equal(t, c.saturated, saturated.Code(c.x), "%v of %v", c.d, c.x)
		require.Equal(t, c.plain, plain.Code(c.x), "%v of %v without saturation", c.d, c.x)
	}
}

// TestScale rounds to powers of two.
func TestScale(t *testing.T) {
	for i, want := range [][]byte{{127, 128, 128, 128}, {127, 127, 127, 127}, {127, 127, 128, 128}} {
		e := NewEncoder(graph.Float8E8M0, true, Rounding(i))
		for j, x := range []float64{1, 1.49, 1.5, 1.9} {
			require.Equal(t, want[j], e.Code(x), "rounding %d of %v", i, x)
		}
	}
}

// TestPack packs as ONNX's raw_data does.
func TestPack(t *testing.T) {
	for _, c := range []struct {
		d           graph.DType
		bytes, want []byte
	}{
		{graph.Uint4, []byte{1, 2, 3}, []byte{0x21, 0x03}},
		{graph.Int4, []byte{0xff, 7, 0xf8}, []byte{0x7f, 0x08}},
		{graph.Uint2, []byte{3, 0, 1, 2, 1}, []byte{0x93, 0x01}},
		{graph.Int2, []byte{0xff, 0xfe, 1}, []byte{0x1b}},
		{graph.Float4E2M1, []byte{15, 1}, []byte{0x1f}},
	} {
		data := []byte{0xa5, 0xa5}[:len(c.want)]
		Pack(c.d, data, 0, c.bytes)
		require.Equal(t, c.want, data, "%v", c.d)
		back := make([]byte, len(c.bytes)-1)
		Unpack(c.d, back, data, 1)
		require.Equal(t, c.bytes[1:], back, "%v", c.d)
	}
	least, most := Limits(graph.Int2)
	require.Equal(t, [2]int32{-2, 1}, [2]int32{least, most})
}

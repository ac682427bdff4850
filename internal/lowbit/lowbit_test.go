package lowbit_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/internal/lowbit"
)

// hexed are bytes as hexadecimal digits.
type hexed []byte

func (h *hexed) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// floats are the float32 of vectors.py.
func (h hexed) floats() []float32 {
	out := make([]float32, len(h)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.BigEndian.Uint32(h[4*i:]))
	}
	return out
}

// TestTorchao: numbers, codes, scales and decoded values are those of torchao 0.18, bit for bit
// (testdata/vectors.py).
func TestTorchao(t *testing.T) {
	text, err := os.ReadFile("testdata/torchao.json")
	require.NoError(t, err)
	var want struct {
		Formats []struct {
			Bits    int
			Signed  bool
			Block   int
			Numbers hexed
			Cases   []struct{ X, Codes, Scale, Back hexed }
		}
	}
	require.NoError(t, json.Unmarshal(text, &want))
	require.Len(t, want.Formats, 4)
	for _, w := range want.Formats {
		f := lowbit.FormatOf(w.Bits, w.Signed)
		require.Equal(t, w.Block, f.Block)
		require.Equal(t, w.Numbers.floats(), f.Numbers, "%d bits, signed %v", w.Bits, w.Signed)
		for _, c := range w.Cases {
			x, codes, back := c.X.floats(), make([]byte, len(c.Codes)), make([]float32, len(c.X)/4)
			size := len(codes) / len(c.Scale.floats())
			for i, scale := range c.Scale.floats() {
				got := f.Encode(codes[i*size:], x[i*f.Block:(i+1)*f.Block])
				require.Equal(t, scale, got)
				f.Decode(back[i*f.Block:(i+1)*f.Block], codes[i*size:], got)
			}
			require.Equal(t, []byte(c.Codes), codes)
			require.Equal(t, c.Back.floats(), back)
		}
	}
}

// nearest is torchao's search for a code (quantize_8bit_with_qmap and quantize_4bit_with_qmap), word for word.
func nearest(numbers []float32, x float32) byte {
	code := 0
	for step := len(numbers) / 2; step > 0; step /= 2 {
		if x >= numbers[code+step] {
			code += step
		}
	}
	up := min(code+1, len(numbers)-1)
	if x-numbers[code] >= (numbers[up]-numbers[code])*0.5 {
		code = up
	}
	return byte(code)
}

// TestEveryBoundary: beside every number that a code stands for, and halfway between two, the codes of the floats next
// to it are those of torchao's search.
func TestEveryBoundary(t *testing.T) {
	for _, f := range []*lowbit.Format{lowbit.Signed8, lowbit.Unsigned8, lowbit.Signed4, lowbit.Unsigned4} {
		tried := []float32{0, float32(math.Copysign(0, -1)), 1e-30, -1e-30, -1, 1}
		for i, x := range f.Numbers {
			tried = append(tried, x)
			if i > 0 {
				mid := f.Numbers[i-1] + (x-f.Numbers[i-1])*0.5
				tried = append(tried, mid)
			}
		}
		for _, x := range tried {
			for range 10 {
				x = math.Nextafter32(x, -2)
			}
			for range 20 {
				if x = math.Nextafter32(x, 2); math.Abs(float64(x)) > 1 {
					continue
				}
				// The first element sets the scale to 1.
				block, codes := make([]float32, f.Block), make([]byte, f.Block)
				block[0], block[2], block[3] = 1, x, x
				require.EqualValues(t, 1, f.Encode(codes, block))
				want := nearest(f.Numbers, x)
				if f.Bits == 8 {
					require.Equal(t, want, codes[2], "%v", x)
				} else {
					require.Equal(t, want<<4|want, codes[1], "%v", x)
				}
			}
		}
	}
}

// TestNotANumber: the scale of a block tells of an element that is not a number.
func TestNotANumber(t *testing.T) {
	for _, at := range []int{0, 7, 127} {
		block := make([]float32, 128)
		for i := range block {
			block[i] = float32(i)
		}
		block[at] = float32(math.NaN())
		scale := lowbit.Signed4.Encode(make([]byte, 64), block)
		require.True(t, scale != scale, "element %d", at)
	}
}

// TestSizes: small tensors, and those with a part of a block, are not stored in codes; the bytes of others are known.
func TestSizes(t *testing.T) {
	for n, takes := range map[int64][2]bool{0: {}, 4095: {}, 3840: {}, 4096: {true, true}, 4097: {},
		4224: {false, true}, 4352: {true, true}} {
		require.Equal(t, takes, [2]bool{lowbit.Signed8.Takes(n), lowbit.Signed4.Takes(n)}, "%d", n)
	}
	require.EqualValues(t, 4096+16*4, lowbit.Signed8.Bytes(4096))
	require.EqualValues(t, 2048+32*4, lowbit.Unsigned4.Bytes(4096))
	require.Nil(t, lowbit.FormatOf(5, true))
}

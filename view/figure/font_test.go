package figure

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// TestFont: the font without hints has the shapes, widths and kernings of Go Regular, character by character.
func TestFont(t *testing.T) {
	whole, err := opentype.Parse(goregular.TTF)
	require.NoError(t, err)
	var a, b sfnt.Buffer
	found, size := 0, fixed.I(1000)
	for r := rune(0); r < 0x10000; r++ {
		x, err := whole.GlyphIndex(&a, r)
		require.NoError(t, err)
		y, err := regular().GlyphIndex(&b, r)
		require.NoError(t, err)
		if x == 0 {
			require.Zero(t, y, "%q", r)
			continue
		}
		found++
		want, err := whole.LoadGlyph(&a, x, size, nil)
		require.NoError(t, err)
		got, err := regular().LoadGlyph(&b, y, size, nil)
		require.NoError(t, err)
		require.Equal(t, want, got, "%q", r)
		wide, err := whole.GlyphAdvance(&a, x, size, font.HintingNone)
		require.NoError(t, err)
		narrow, err := regular().GlyphAdvance(&b, y, size, font.HintingNone)
		require.NoError(t, err)
		require.Equal(t, wide, narrow, "%q", r)
	}
	require.Greater(t, found, 600)
	wantMetrics, err := whole.Metrics(&a, size, font.HintingNone)
	require.NoError(t, err)
	gotMetrics, err := regular().Metrics(&b, size, font.HintingNone)
	require.NoError(t, err)
	require.Equal(t, wantMetrics, gotMetrics)
	old, err := opentype.NewFace(whole, &opentype.FaceOptions{Size: 12, DPI: 72})
	require.NoError(t, err)
	new := face(12)
	for first := rune(' '); first <= '~'; first++ {
		for second := rune(' '); second <= '~'; second++ {
			require.Equal(t, old.Kern(first, second), new.Kern(first, second))
		}
	}
}

package figure

import (
	"io"
	"math"

	"git.sr.ht/~sbinet/gg"
	"golang.org/x/image/font"
)

// dots is the number of dots of a PNG file to a point: 150 to the inch.
const dots = 150.0 / 72

// raster is a canvas that becomes a PNG file.
type raster struct {
	*gg.Context
	faces map[float64]font.Face // by size, in points
}

func newRaster() *raster {
	r := &raster{gg.NewContext(pixels(width), pixels(height)), map[float64]font.Face{}}
	r.SetHexColor("#ffffff")
	r.Clear()
	return r
}

// pixels returns a length in whole dots.
func pixels(length float64) int { return int(math.Round(length * dots)) }

func (r *raster) polygon(corners []point, color string) {
	r.trace(corners)
	r.ClosePath()
	r.SetHexColor(color)
	r.Fill()
}

func (r *raster) line(corners []point, s stroke) {
	scaled := make([]float64, len(s.dashes))
	for i, d := range s.dashes {
		scaled[i] = d * dots
	}
	r.trace(corners)
	r.SetDash(scaled...)
	r.SetLineCapButt()
	r.SetLineWidth(s.width * dots)
	r.SetHexColor(s.color)
	r.Stroke()
}

// trace makes corners the path to draw.
func (r *raster) trace(corners []point) {
	for _, p := range corners {
		r.LineTo(p.x*dots, p.y*dots) // the first one moves
	}
}

func (r *raster) dot(centre point, radius float64, color string) {
	r.DrawCircle(centre.x*dots, centre.y*dots, radius*dots)
	r.SetHexColor(color)
	r.Fill()
}

func (r *raster) text(at point, l label) {
	if r.faces[l.size] == nil {
		r.faces[l.size] = face(l.size * dots)
	}
	r.SetFontFace(r.faces[l.size])
	r.SetHexColor("#000000")
	x, y := math.Round(at.x*dots), math.Round(at.y*dots)
	r.Push()
	if l.upward {
		r.RotateAbout(-math.Pi/2, x, y)
	}
	r.DrawStringAnchored(l.words, x, y, float64(l.anchor)/2, 0)
	r.Pop()
}

func (r *raster) write(w io.Writer) error { return r.EncodePNG(w) }

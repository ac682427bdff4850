package figure

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
)

// canvas is a white sheet of width by height. Places and lengths are in points, counted from the top
// left corner; colours are written as #rrggbb.
type canvas interface {
	polygon(corners []point, color string)
	line(corners []point, s stroke)
	dot(centre point, radius float64, color string)
	text(at point, l label)
	write(w io.Writer) error
}

// point is a place in a figure: on its canvas, or in the units of its axes.
type point struct{ x, y float64 }

// stroke is how a line looks.
type stroke struct {
	color  string
	width  float64
	dashes []float64 // lengths of dashes and gaps in turn; nil for a line without gaps
}

// label is a text of one line, whose base line goes through the point where it is drawn.
type label struct {
	words  string
	size   float64
	anchor anchor
	upward bool // turned to be read from below to above
}

// anchor is the part of a label that lies at its point.
type anchor int

const (
	atStart anchor = iota
	atMiddle
	atEnd
)

// The size of figures, 24 by 12 cm, in points.
const (
	centimetre    = 72 / 2.54
	width, height = 24 * centimetre, 12 * centimetre
)

// Go Regular (Bigelow & Holmes, 2016; golang.org/x/image/font/gofont, licence in go-regular.LICENSE) is the font of PNG
// files, and measures the labels of both formats. The file is without its hints, which package opentype does not read,
// and compressed.
//
//go:embed go-regular.ttf.gz
var regularFile []byte

var regular = sync.OnceValue(func() *opentype.Font {
	text, err := gzip.NewReader(bytes.NewReader(regularFile))
	if err == nil {
		var data []byte
		if data, err = io.ReadAll(text); err == nil {
			var f *opentype.Font
			if f, err = opentype.Parse(data); err == nil {
				return f
			}
		}
	}
	panic("figure: " + err.Error()) // the file is part of the program
})

// face returns the font in a size, in dots. A face serves one goroutine at a time.
func face(size float64) font.Face {
	f, err := opentype.NewFace(regular(), &opentype.FaceOptions{Size: size, DPI: 72})
	if err != nil {
		panic("figure: " + err.Error())
	}
	return f
}

// widest returns the width of the longest of some words, in points.
func widest(size float64, words ...string) (most float64) {
	f := face(size)
	for _, w := range words {
		most = max(most, float64(font.MeasureString(f, w))/64)
	}
	return most
}

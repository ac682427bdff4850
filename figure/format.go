package figure

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Format is a format of files with figures.
type Format string

// The formats.
const (
	SVG Format = "svg"
	PNG Format = "png"
)

// FormatOf returns the format that the name of a file asks for. The error says which there are.
func FormatOf(path string) (Format, error) {
	switch f := Format(strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))); f {
	case SVG, PNG:
		return f, nil
	}
	return "", fmt.Errorf("%q: wanted a name that ends in .svg or .png", path)
}

// The size of figures, of which the legend takes a share on the right.
const (
	width, height = 24 * vg.Centimeter, 12 * vg.Centimeter
	legendWidth   = 4 * vg.Centimeter
	dotsPerInch   = 150
)

// figure is a plot with a legend beside it.
type figure struct {
	*plot.Plot
	legend plot.Legend
}

// newFigure begins a figure.
func newFigure(title, x, y string) *figure {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.X.Min, p.Y.Min = 0, 0
	p.Title.Padding, p.X.Padding, p.Y.Padding = 8, 0, 0
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(ticks), plot.TickerFunc(ticks)
	f := &figure{p, plot.NewLegend()}
	f.legend.Top, f.legend.Left = true, true
	f.legend.XOffs = 12
	for _, style := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &f.legend.TextStyle.Font} {
		style.Variant = "Sans"
	}
	f.legend.TextStyle.Font.Size = 10
	f.legend.Padding = 3
	return f
}

// What an SVG file gets besides what is drawn: fonts for machines that lack the first one, and words for
// those who do not see it.
const (
	ownFont  = "font-family:Liberation Sans;"
	anyFonts = "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"
	svgEnd   = "xmlns:xlink=\"http://www.w3.org/1999/xlink\">"
)

// write draws the figure in a format. words describe it.
func (f *figure) write(w io.Writer, format Format, words string) error {
	if format == PNG {
		c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}
		f.draw(draw.New(c))
		_, err := c.WriteTo(w)
		return err
	}
	c := vgsvg.New(width, height)
	f.draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	text := bytes.ReplaceAll(b.Bytes(), []byte(ownFont), []byte(anyFonts))
	var said bytes.Buffer
	said.WriteString(svgEnd[:len(svgEnd)-1] + " role=\"img\">\n<title>")
	xml.EscapeText(&said, []byte(f.Title.Text))
	said.WriteString("</title>\n<desc>")
	xml.EscapeText(&said, []byte(words))
	said.WriteString("</desc>")
	_, err := w.Write(bytes.Replace(text, []byte(svgEnd), said.Bytes(), 1))
	return err
}

// draw puts the plot on a canvas, and its legend beside it.
func (f *figure) draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	f.Draw(draw.Crop(c, 8, -legendWidth, 8, -4))
	f.legend.Draw(draw.Crop(c, c.Max.X-c.Min.X-legendWidth, 0, 0, -28))
}

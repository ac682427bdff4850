package figure

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// vector is a canvas that becomes an SVG file.
type vector struct{ b bytes.Buffer }

// newVector begins a file with its title and its content in words.
func newVector(title, words string) *vector {
	v := &vector{}
	fmt.Fprintf(&v.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]spt" height="%[2]spt" viewBox="0 0 %[1]s %[2]s"`+
		` role="img" font-family="Arial,Helvetica,sans-serif">`+"\n", number(width), number(height))
	v.element("title", title)
	v.element("desc", words)
	v.polygon([]point{{0, 0}, {width, 0}, {width, height}, {0, height}}, "#ffffff")
	return v
}

// element writes an element that holds a text.
func (v *vector) element(begin, text string) {
	v.b.WriteString("<" + begin + ">")
	xml.EscapeText(&v.b, []byte(text)) // a Buffer returns no errors
	name, _, _ := strings.Cut(begin, " ")
	v.b.WriteString("</" + name + ">\n")
}

func (v *vector) polygon(corners []point, color string) {
	v.path(corners, "Z", "fill:"+strings.ToUpper(color))
}

func (v *vector) line(corners []point, s stroke) {
	style := "fill:none;stroke:" + strings.ToUpper(s.color)
	if s.dashes != nil {
		var list []string
		for _, d := range s.dashes {
			list = append(list, number(d))
		}
		style += ";stroke-dasharray:" + strings.Join(list, ",")
	}
	if s.width != 1 {
		style += ";stroke-width:" + number(s.width)
	}
	v.path(corners, "", style)
}

func (v *vector) path(corners []point, end, style string) {
	v.b.WriteString(`<path d="`)
	for i, p := range corners {
		command := "L"
		if i == 0 {
			command = "M"
		}
		v.b.WriteString(command + number(p.x) + "," + number(p.y))
	}
	fmt.Fprintf(&v.b, "%s\" style=\"%s\"/>\n", end, style)
}

func (v *vector) dot(centre point, radius float64, color string) {
	fmt.Fprintf(&v.b, `<circle cx="%s" cy="%s" r="%s" style="fill:%s"/>`+"\n",
		number(centre.x), number(centre.y), number(radius), strings.ToUpper(color))
}

func (v *vector) text(at point, l label) {
	x, y := number(at.x), number(at.y)
	begin := fmt.Sprintf(`text x="%s" y="%s" font-size="%s"`, x, y, number(l.size))
	if l.anchor != atStart {
		begin += fmt.Sprintf(` text-anchor="%s"`, [...]string{atMiddle: "middle", atEnd: "end"}[l.anchor])
	}
	if l.upward {
		begin += fmt.Sprintf(` transform="rotate(-90 %s %s)"`, x, y)
	}
	v.element(begin, l.words)
}

func (v *vector) write(w io.Writer) error {
	_, err := w.Write(append(v.b.Bytes(), "</svg>\n"...))
	return err
}

// number writes a length to a hundredth of a point.
func number(x float64) string {
	text := strconv.FormatFloat(x, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

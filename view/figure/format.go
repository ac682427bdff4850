package figure

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Format is a format of files with figures.
type Format string

// The formats.
const (
	SVG Format = "svg"
	PNG Format = "png"
)

// FormatOf returns the format that the name of a file asks for: SVG for "step.svg". The error lists the
// formats.
func FormatOf(path string) (Format, error) {
	switch f := Format(strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))); f {
	case SVG, PNG:
		return f, nil
	}
	return "", fmt.Errorf("%q: wanted a name that ends in .svg or .png", path)
}

// write draws the figure in a format. words describe it to readers who do not see it, in SVG only.
func (f *figure) write(w io.Writer, format Format, words string) error {
	if err := f.check(); err != nil {
		return err
	}
	var c canvas
	if format == PNG {
		c = newRaster()
	} else {
		c = newVector(f.title, words)
	}
	f.draw(c)
	return c.write(w)
}

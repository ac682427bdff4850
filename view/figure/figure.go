package figure

import (
	"fmt"
	"math"
)

// figure is areas and lines over two axes, with a legend on the right.
type figure struct {
	title  string
	x, y   axis
	shapes []shape // each one above those before it, and a row of the legend
}

// axis is the name and the range of numbers of an axis.
type axis struct {
	name     string
	min, max float64
}

// shape is an area, or a line.
type shape struct {
	name   string
	points []point // in the units of the axes
	area   string  // the colour within the points; "" for a line
	line   stroke
	dotted bool // each point of the line has a dot
}

// Lengths, in points.
const (
	margin      = 8
	labelSize   = 12
	tickSize    = 10
	tickLength  = 4
	dotRadius   = 3
	legendWidth = 4 * centimetre
	swatch      = 20 // the width of a legend's sample of a shape
)

// frame is the thin stroke of axes.
var frame = stroke{color: "#000000", width: 0.5}

// check returns an error that names the first shape with a point that cannot be drawn.
func (f *figure) check() error {
	for _, s := range f.shapes {
		for i, p := range s.points {
			if sum := p.x + p.y; math.IsNaN(sum) || math.IsInf(sum, 0) {
				return fmt.Errorf("point %d of %q lies at (%v, %v): wanted finite numbers", i, s.name, p.x, p.y)
			}
		}
	}
	return nil
}

// plane is the rectangle of a canvas between the axes.
type plane struct {
	left, top, right, bottom float64
	x, y                     axis
}

// at returns the place of a point on the canvas.
func (p *plane) at(q point) point {
	return point{p.left + (q.x-p.x.min)/(p.x.max-p.x.min)*(p.right-p.left),
		p.bottom - (q.y-p.y.min)/(p.y.max-p.y.min)*(p.bottom-p.top)}
}

// places returns the places of points on the canvas.
func (p *plane) places(list []point) []point {
	out := make([]point, len(list))
	for i, q := range list {
		out[i] = p.at(q)
	}
	return out
}

// draw draws axes, shapes and the legend.
func (f *figure) draw(c canvas) {
	for _, a := range []*axis{&f.x, &f.y} {
		if !(a.max > a.min) {
			a.max = a.min + 1
		}
	}
	var names, heights []string
	for _, s := range f.shapes {
		names = append(names, s.name)
	}
	for _, t := range ticks(f.y.min, f.y.max) {
		heights = append(heights, t.label)
	}
	legend := min(max(legendWidth, swatch+5*margin/2+widest(tickSize, names...)), width/2)
	p := &plane{x: f.x, y: f.y, right: width - legend, top: margin + 2*labelSize,
		left:   2*margin + labelSize + widest(tickSize, heights...) + 2*tickLength,
		bottom: height - 2*margin - labelSize - tickSize - 2*tickLength}
	middle := (p.left + p.right) / 2
	c.text(point{middle, margin + labelSize}, label{words: f.title, size: labelSize, anchor: atMiddle})
	c.text(point{middle, height - margin}, label{words: f.x.name, size: labelSize, anchor: atMiddle})
	c.text(point{margin + labelSize, (p.top + p.bottom) / 2},
		label{words: f.y.name, size: labelSize, anchor: atMiddle, upward: true})
	for _, s := range f.shapes {
		s.draw(c, p.places(s.points))
	}
	p.axes(c)
	f.legend(c, p)
}

// axes draws both axes with their ticks.
func (p *plane) axes(c canvas) {
	c.line([]point{{p.left, p.top}, {p.left, p.bottom}, {p.right, p.bottom}}, frame)
	for _, t := range ticks(p.x.min, p.x.max) {
		x := p.at(point{t.value, p.y.min}).x
		c.line([]point{{x, p.bottom}, {x, p.bottom + tickLength}}, frame)
		c.text(point{x, p.bottom + 2*tickLength + tickSize}, label{words: t.label, size: tickSize, anchor: atMiddle})
	}
	for _, t := range ticks(p.y.min, p.y.max) {
		y := p.at(point{p.x.min, t.value}).y
		c.line([]point{{p.left - tickLength, y}, {p.left, y}}, frame)
		c.text(point{p.left - 2*tickLength, y + 0.35*tickSize}, label{words: t.label, size: tickSize, anchor: atEnd})
	}
}

// legend draws a sample and the name of each shape, right of the plane.
func (f *figure) legend(c canvas, p *plane) {
	left, y := p.right+3*margin/2, p.top
	for _, s := range f.shapes {
		at := []point{{left, y}, {left + swatch, y}}
		if s.area != "" {
			const half = tickSize / 2
			at = []point{{left, y - half}, {left + swatch, y - half}, {left + swatch, y + half}, {left, y + half}}
		} else if s.dotted {
			c.dot(point{left + swatch/2, y}, dotRadius, s.line.color)
			s.dotted = false
		}
		s.draw(c, at)
		c.text(point{left + swatch + margin/2, y + 0.35*tickSize}, label{words: s.name, size: tickSize})
		y += 1.5 * tickSize
	}
}

// draw draws a shape at places of the canvas.
func (s *shape) draw(c canvas, at []point) {
	if len(at) == 0 {
		return
	}
	if s.area != "" {
		c.polygon(at, s.area)
		return
	}
	c.line(at, s.line)
	if s.dotted {
		for _, p := range at {
			c.dot(p, dotRadius, s.line.color)
		}
	}
}

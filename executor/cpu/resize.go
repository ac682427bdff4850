package cpu

import (
	"math"
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
)

// resizeSpec holds the attributes of Resize, Upsample and ResizeGrad.
//
// https://onnx.ai/onnx/operators/onnx__Resize.html
type resizeSpec struct {
	mode, coordinates, nearest, policy string
	cubicA, extrapolation              float32
	exclude, antialias                 bool
	axes                               []int64
	given                              bool      // whether axes are given
	scales                             []float32 // of Upsample 7
	roiAt, scalesAt, sizesAt           int       // inputs, or -1
	alignAt                            int       // the input that says whether corners are aligned; 0 for none
	shapeAt                            int       // the input that lists the shape of X (ResizeGrad); 0 for none
}

// newResizeSpec reads the attributes in the dialect of the operator's version.
func newResizeSpec(p *executor.Prep) (r resizeSpec, err error) {
	n := p.Node
	r = resizeSpec{
		mode:          n.Str("mode", "nearest"),
		coordinates:   n.Str("coordinate_transformation_mode", "half_pixel"),
		nearest:       n.Str("nearest_mode", "round_prefer_floor"),
		policy:        n.Str("keep_aspect_ratio_policy", "stretch"),
		cubicA:        n.Float("cubic_coeff_a", -0.75),
		extrapolation: n.Float("extrapolation_value", 0),
		exclude:       n.Int("exclude_outside", 0) != 0,
		antialias:     n.Int("antialias", 0) != 0,
		roiAt:         1, scalesAt: 2, sizesAt: 3,
	}
	r.axes, r.given = n.IntList("axes", nil), n.Attr("axes") != nil
	switch {
	case n.Kind == op.ATen:
		r.aten(op.ATenFunction(n))
	case n.Kind == op.Upsample:
		r.old(-1)
		if r.scalesAt = 1; p.Version < 9 {
			r.scales, r.scalesAt = n.FloatList("scales", nil), -1
		}
	case n.Kind == op.ResizeGrad:
		r.roiAt, r.scalesAt, r.sizesAt = 2, 3, -1
		r.mode = n.Str("mode", "linear")
	case p.Version < 11:
		r.old(1)
	}
	switch r.mode {
	case "nearest", "linear", "cubic":
	case "bilinear", "trilinear":
		r.mode = "linear"
	case "bicubic":
		r.mode = "cubic"
	default:
		return r, p.Errorf("attribute mode is %q, wanted nearest, linear or cubic", r.mode)
	}
	if !isOneOf(r.coordinates, "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
		"asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn") {
		return r, p.Errorf("attribute coordinate_transformation_mode is %q, which is not one of ONNX's", r.coordinates)
	}
	if !isOneOf(r.nearest, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple") {
		return r, p.Errorf("attribute nearest_mode is %q, wanted round_prefer_floor, round_prefer_ceil, floor or ceil",
			r.nearest)
	}
	if !isOneOf(r.policy, "stretch", "not_larger", "not_smaller") {
		return r, p.Errorf("attribute keep_aspect_ratio_policy is %q, wanted stretch, not_larger or not_smaller",
			r.policy)
	}
	return r, nil
}

// aten sets the parameters of PyTorch's upsample_nearest1d.vec and its kind, and of their gradients: sizes or scales of
// the spatial axes are inputs; gradients have the ratio of the lengths.
func (r *resizeSpec) aten(function string) {
	name, backward := strings.CutSuffix(strings.TrimSuffix(function, ".vec"), "_backward")
	r.mode, r.coordinates, r.nearest = "nearest", "asymmetric", "floor"
	r.roiAt, r.sizesAt, r.scalesAt = -1, 1, 2
	if kind := strings.TrimRight(strings.TrimPrefix(name, "upsample_"), "123d"); kind != "nearest" {
		r.mode, r.coordinates, r.alignAt, r.scalesAt = kind, "half_pixel", 2, 3
	}
	r.given, r.axes = true, []int64{2, 3, 4}[:name[len(name)-2]-'0']
	if backward {
		if r.sizesAt, r.scalesAt, r.shapeAt = -1, -1, 2; r.alignAt > 0 {
			r.alignAt = 3
		}
	}
}

// old sets the parameters that were fixed before version 11.
func (r *resizeSpec) old(scalesAt int) {
	r.coordinates, r.nearest = "asymmetric", "simple"
	r.roiAt, r.scalesAt, r.sizesAt = -1, scalesAt, -1
}

func isOneOf(s string, list ...string) bool {
	for _, l := range list {
		if s == l {
			return true
		}
	}
	return false
}

// resizeMap has, for every axis, where elements of the output come from.
type resizeMap struct {
	spec  resizeSpec
	axes  []resizeAxis
	which []int // the axes that scales, sizes and roi are about
	list  []float32
	roi   []float32
	shape []int
}

// resizeAxis says how an axis is resized: element o of the output is the sum of
// weight[o*taps+t] * x[index[o*taps+t]].
type resizeAxis struct {
	in, out    int
	scale      float32
	length     float32 // in*scale, not rounded
	start, end float32 // of the region, as shares of the axis
	same       bool    // the output equals the input
	taps       int
	index      []int
	weight     []float64
	outside    []bool // where the result is the extrapolation value
	crops      bool   // whether outside has a true
}

// plan computes the shape of the output and the tables of the axes. stated is the shape of the
// output if it is known beforehand (ResizeGrad), or nil.
func (m *resizeMap) plan(c *executor.Ctx, shape, stated []int) error {
	if at := m.spec.alignAt; at > 0 {
		if m.spec.coordinates = "half_pixel"; moveFlag(c.In(at)) {
			m.spec.coordinates = "align_corners"
		}
	}
	for len(m.axes) < len(shape) {
		m.axes = append(m.axes, resizeAxis{})
	}
	m.axes = m.axes[:len(shape)]
	for i, d := range shape {
		a := &m.axes[i]
		a.in, a.out, a.scale, a.start, a.end = d, d, 1, 0, 1
	}
	if err := m.pickAxes(c, len(shape)); err != nil {
		return err
	}
	if err := m.readRegion(c); err != nil {
		return err
	}
	if err := m.lengths(c, stated); err != nil {
		return err
	}
	byScale := len(m.list) > 0
	m.shape = m.shape[:0]
	for i := range m.axes {
		a := &m.axes[i]
		if stated != nil && a.out != stated[i] {
			return c.Errorf("axis %d is %d long, by sizes and scales it would be %d", i, stated[i], a.out)
		}
		m.shape = append(m.shape, a.out)
		if a.length = float32(a.out); byScale {
			a.length = float32(a.in) * a.scale
		}
		if a.in == 0 && a.out > 0 {
			return c.Errorf("axis %d of the input is empty and cannot be resized to %d", i, a.out)
		}
		a.same = a.in == a.out && a.scale == 1 && m.spec.coordinates != "tf_crop_and_resize"
		if a.same {
			continue
		}
		if err := m.spec.fill(a); err != nil {
			return c.Errorf("axis %d: %w", i, err)
		}
	}
	return nil
}

// pickAxes lists the axes that scales and sizes are about.
func (m *resizeMap) pickAxes(c *executor.Ctx, rank int) error {
	m.which = m.which[:0]
	if !m.spec.given {
		for i := range rank {
			m.which = append(m.which, i)
		}
		return nil
	}
	for _, a := range m.spec.axes {
		i := int(a)
		if i < 0 {
			i += rank
		}
		if i < 0 || i >= rank {
			return c.Errorf("attribute axes has %d; input 0 has rank %d", a, rank)
		}
		for _, seen := range m.which {
			if seen == i {
				return c.Errorf("attribute axes has axis %d twice", a)
			}
		}
		m.which = append(m.which, i)
	}
	return nil
}

// readRegion reads the region to crop to: all starts, then all ends.
func (m *resizeMap) readRegion(c *executor.Ctx) error {
	if m.spec.coordinates != "tf_crop_and_resize" {
		return nil
	}
	t := c.In(m.spec.roiAt)
	n := len(m.which)
	if t == nil || t.Len() != 2*n {
		return c.Errorf("tf_crop_and_resize wants input %d (roi) with %d elements", m.spec.roiAt, 2*n)
	}
	m.roi = resizeFloats(m.roi[:0], t)
	for i, axis := range m.which {
		a := &m.axes[axis]
		a.start, a.end = m.roi[i], m.roi[n+i]
	}
	return nil
}

// lengths sets the lengths and scales of the axes.
func (m *resizeMap) lengths(c *executor.Ctx, stated []int) error {
	m.list = m.list[:0]
	if t := c.In(max(m.spec.sizesAt, 0)); m.spec.sizesAt >= 0 && t != nil && t.Len() > 0 {
		return m.bySizes(c, t)
	}
	m.list = append(m.list[:0], m.spec.scales...)
	if t := c.In(max(m.spec.scalesAt, 0)); m.spec.scalesAt >= 0 && t != nil {
		m.list = resizeFloats(m.list[:0], t)
	}
	if len(m.list) == 0 && stated != nil {
		for i := range m.axes {
			m.axes[i].out = stated[i]
			m.axes[i].scale = float32(stated[i]) / float32(max(1, m.axes[i].in))
		}
		return nil
	}
	if len(m.list) == 0 && len(m.which) > 0 {
		return c.Errorf("neither scales nor sizes are given")
	}
	if len(m.list) != len(m.which) {
		return c.Errorf("%d scales are given for %d axes", len(m.list), len(m.which))
	}
	for i, axis := range m.which {
		a := &m.axes[axis]
		if s := m.list[i]; !(s > 0) || math.IsInf(float64(s), 0) {
			return c.Errorf("scale %d is %g, wanted a positive number", i, s)
		}
		a.scale = m.list[i]
		length := float32(a.in) * a.scale
		if m.spec.coordinates == "tf_crop_and_resize" {
			length = float32(a.in) * (a.end - a.start) * a.scale
		}
		if !(length >= 0 && length < 1<<40) {
			return c.Errorf("axis %d would have length %g", axis, length)
		}
		a.out = int(length)
		// Scales that were computed from sizes may miss the size by a rounding error.
		if stated != nil && math.Abs(float64(stated[axis])-float64(length)) < 1 {
			a.out = stated[axis]
		}
	}
	return nil
}

// bySizes takes the lengths of the output from an input.
func (m *resizeMap) bySizes(c *executor.Ctx, t *executor.Tensor) error {
	if t.DType != graph.Int64 || t.Len() != len(m.which) {
		return c.Errorf("input %d (sizes) is %v, wanted %d int64s", m.spec.sizesAt, t, len(m.which))
	}
	var ratio float64
	for i, n := range executor.Of[int64](t) {
		a := &m.axes[m.which[i]]
		if n < 0 || n > 1<<40 {
			return c.Errorf("size %d is %d", i, n)
		}
		a.out = int(n)
		r := float64(n) / float64(max(1, a.in))
		if i == 0 || (m.spec.policy == "not_larger") == (r < ratio) {
			ratio = r
		}
		a.scale = float32(n) / float32(max(1, a.in))
	}
	if m.spec.policy == "stretch" {
		return nil
	}
	for _, axis := range m.which {
		a := &m.axes[axis]
		a.scale = float32(ratio)
		a.out = int(math.Floor(ratio*float64(a.in) + 0.5))
	}
	return nil
}

// resizeFloats appends the elements of a tensor of floats.
func resizeFloats(dst []float32, t *executor.Tensor) []float32 {
	switch t.DType {
	case graph.Float32:
		dst = append(dst, executor.Of[float32](t)...)
	case graph.Float64:
		for _, v := range executor.Of[float64](t) {
			dst = append(dst, float32(v))
		}
	case graph.Float16:
		for _, v := range executor.Of[half.Float16](t) {
			dst = append(dst, v.Float32())
		}
	case graph.BFloat16:
		for _, v := range executor.Of[half.BFloat16](t) {
			dst = append(dst, v.Float32())
		}
	}
	return dst
}

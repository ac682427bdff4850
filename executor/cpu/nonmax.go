package cpu

import (
	"slices"

	"memopt/executor"
	"memopt/graph"
)

// nonMax is NonMaxSuppression: of boxes [N, B, 4], for every image and class with scores
// [N, classes, B], the boxes in descending order of their scores, less those that overlap a box
// chosen before, that is, whose intersection with it is more than a threshold's share of their
// union. The result lists (image, class, box).
//
// https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
type nonMax struct {
	centred bool // boxes are (x, y, width, height) around a centre, else two opposite corners (y, x, y, x)

	boxes, scores  []float32
	n, classes, b  int
	most           int
	overlap, least float32
	hasLeast       bool
	work           []int32 // of every image and class: candidates; the chosen ones come first
	count          []int32
}

// newNonMax makes a NonMaxSuppression.
func newNonMax(p *executor.Prep) (executor.Kernel, error) {
	if p.DType(0) != graph.Float32 || p.DType(1) != graph.Float32 || p.Has(2) && p.DType(2) != graph.Int64 ||
		p.Has(3) && p.DType(3) != graph.Float32 || p.Has(4) && p.DType(4) != graph.Float32 {
		return nil, unsupportedTypes(p)
	}
	center := p.Node.Int("center_point_box", 0)
	if center != 0 && center != 1 {
		return nil, p.Errorf("attribute center_point_box is %d, wanted 0 or 1", center)
	}
	return &nonMax{centred: center == 1}, nil
}

// Workspace returns the bytes of workspace for the candidates.
func (k *nonMax) Workspace(in, _ [][]int) int {
	if len(in[1]) != 3 {
		return 0
	}
	return executor.RoundUp(4*product(in[1])) + executor.RoundUp(4*product(in[1][:2]))
}

// Run chooses for all images and classes and lists the choice.
func (k *nonMax) Run(c *executor.Ctx) error {
	if err := k.begin(c); err != nil {
		return err
	}
	k.work = executor.ScratchOf[int32](c, len(k.scores))
	k.count = executor.ScratchOf[int32](c, k.n*k.classes)
	c.Parallel(k.n*k.classes, 1, k)
	total := 0
	for _, n := range k.count {
		total += int(n)
	}
	y := c.Out(0, total, 3)
	if y == nil {
		return nil
	}
	out, at := executor.Of[int64](y), 0
	for i, n := range k.count {
		for _, box := range k.work[i*k.b:][:n] {
			out[at], out[at+1], out[at+2] = int64(i/k.classes), int64(i%k.classes), int64(box)
			at += 3
		}
	}
	return nil
}

// begin checks the operands.
func (k *nonMax) begin(c *executor.Ctx) error {
	boxes, scores := c.In(0), c.In(1)
	if boxes.Rank() != 3 || boxes.Shape[2] != 4 {
		return c.Errorf("input 0 (boxes) has shape %v, wanted [batch, boxes, 4]", boxes.Shape)
	}
	if scores.Rank() != 3 || scores.Shape[0] != boxes.Shape[0] || scores.Shape[2] != boxes.Shape[1] {
		return c.Errorf("input 1 (scores) has shape %v, wanted [%d, classes, %d]", scores.Shape, boxes.Shape[0],
			boxes.Shape[1])
	}
	for i := 2; i < 5; i++ {
		if t := c.In(i); t != nil && t.Len() != 1 {
			return c.Errorf("input %d has shape %v, wanted a scalar", i, t.Shape)
		}
	}
	k.boxes, k.scores = executor.Of[float32](boxes), executor.Of[float32](scores)
	k.n, k.b, k.classes = boxes.Shape[0], boxes.Shape[1], scores.Shape[1]
	k.most, k.overlap, k.hasLeast = 0, 0, false
	if t := c.In(2); t != nil {
		k.most = int(min(max(executor.Of[int64](t)[0], 0), int64(k.b)))
	}
	if t := c.In(3); t != nil {
		if k.overlap = executor.Of[float32](t)[0]; !(k.overlap >= 0 && k.overlap <= 1) {
			return c.Errorf("input 3 (iou_threshold) is %g, wanted 0 to 1", k.overlap)
		}
	}
	if t := c.In(4); t != nil {
		k.hasLeast, k.least = true, executor.Of[float32](t)[0]
	}
	return nil
}

// Range chooses for the images and classes lo..hi-1.
func (k *nonMax) Range(lo, hi int) {
	for i := lo; i < hi; i++ {
		scores := k.scores[i*k.b:][:k.b]
		list := k.work[i*k.b : i*k.b]
		for b, s := range scores {
			if s == s && (!k.hasLeast || s > k.least) {
				list = append(list, int32(b))
			}
		}
		slices.SortFunc(list, func(a, b int32) int {
			switch {
			case scores[a] > scores[b]:
				return -1
			case scores[a] < scores[b]:
				return 1
			}
			return int(a - b)
		})
		k.count[i] = int32(k.choose(k.boxes[i/k.classes*k.b*4:], list))
	}
}

// choose moves the chosen boxes of a list to its front and returns their number.
func (k *nonMax) choose(boxes []float32, list []int32) int {
	n := 0
	for _, b := range list {
		if n == k.most {
			break
		}
		free := true
		for _, other := range list[:n] {
			if k.overlaps(boxes[b*4:][:4], boxes[other*4:][:4]) {
				free = false
				break
			}
		}
		if free {
			list[n] = b
			n++
		}
	}
	return n
}

// overlaps reports whether two boxes overlap more than the threshold allows.
func (k *nonMax) overlaps(a, b []float32) bool {
	ay0, ax0, ay1, ax1 := k.corners(a)
	by0, bx0, by1, bx1 := k.corners(b)
	height, width := min(ay1, by1)-max(ay0, by0), min(ax1, bx1)-max(ax0, bx0)
	areaA, areaB := (ay1-ay0)*(ax1-ax0), (by1-by0)*(bx1-bx0)
	if height <= 0 || width <= 0 || areaA <= 0 || areaB <= 0 {
		return false
	}
	common := height * width
	union := areaA + areaB - common
	return common/union > k.overlap
}

// corners returns a box's lower and upper corner.
func (k *nonMax) corners(b []float32) (y0, x0, y1, x1 float32) {
	if k.centred {
		w, h := b[2]/2, b[3]/2
		return b[1] - h, b[0] - w, b[1] + h, b[0] + w
	}
	return min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3])
}

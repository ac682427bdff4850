package cuda

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
)

// roiPool is RoiAlign or MaxRoiPool. The device reports invalid regions; a run waits for that,
// unless its step is captured.
type roiPool struct {
	*launch
	places           outside // numbers that are not coordinates
	absent           outside // regions of images that are not there
	noPlace, noImage describeFunc
	height, width    int
	images           int // of the run
	numbers          int // of a region
	largest          bool
	ratio            int
	scale, offset    float32
}

// newRoiAlign makes the kernel of RoiAlign.
func newRoiAlign(d *Device, p *executor.Prep) (executor.Kernel, error) {
	n := p.Node
	k := &roiPool{numbers: 4, height: int(n.Int("output_height", 1)), width: int(n.Int("output_width", 1)),
		largest: n.Str("mode", "avg") == "max",
		ratio:   int(n.Int("sampling_ratio", 0))}
	if p.Version >= 16 && n.Str("coordinate_transformation_mode", "half_pixel") == "half_pixel" {
		k.offset = 0.5
	}
	if p.DType(2) != graph.Int64 {
		return nil, noTypes(p)
	}
	return k.load(d, p, "roi_align")
}

// newMaxRoiPool makes the kernel of MaxRoiPool.
func newMaxRoiPool(d *Device, p *executor.Prep) (executor.Kernel, error) {
	shape := p.Node.IntList("pooled_shape", nil)
	if len(shape) != 2 {
		return nil, p.Errorf("attribute pooled_shape has %d entries, wanted 2", len(shape))
	}
	k := &roiPool{numbers: 5, height: int(shape[0]), width: int(shape[1])}
	return k.load(d, p, "max_roi")
}

func (k *roiPool) load(d *Device, p *executor.Prep, name string) (executor.Kernel, error) {
	if t := p.DType(0); !isFloat(t) || p.DType(1) != t {
		return nil, noTypes(p)
	}
	k.scale = p.Node.Float("spatial_scale", 1)
	k.places, k.absent = outside{d: d}, outside{d: d}
	k.noPlace, k.noImage = k.badPlace, k.badImage
	var err error
	k.launch, err = d.launch("roi", name)
	return k, err
}

// Workspace has room for the faults that the device reports.
func (k *roiPool) Workspace(_, _ [][]int) int { return 2 * executor.RoundUp(outsideBytes) }

// Run checks the operands and pools.
func (k *roiPool) Run(c *executor.Ctx) error {
	x, rois, batch := c.In(0), c.In(1), c.In(2)
	if x.Rank() != 4 {
		return c.Errorf("input 0 has rank %d, wanted 4", x.Rank())
	}
	if rois.Rank() != 2 || rois.Shape[1] != k.numbers {
		return c.Errorf("input 1 (regions) has shape %v, wanted [regions, %d]", rois.Shape, k.numbers)
	}
	regions := rois.Shape[0]
	if batch != nil && (batch.Rank() != 1 || batch.Len() != regions) {
		return c.Errorf("input 2 (batch_indices) has shape %v; there are %d regions", batch.Shape, regions)
	}
	if elements(x.Shape[2:]) == 0 && regions > 0 {
		return c.Errorf("input 0 has shape %v: its planes are empty", x.Shape)
	}
	y := c.Out(0, regions, x.Shape[1], k.height, k.width)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.images = x.Shape[0]
	bad, err := k.places.begin(c, k.noPlace)
	if err != nil {
		return err
	}
	image, err := k.absent.begin(c, k.noImage)
	if err != nil {
		return err
	}
	k.pack(x, rois, batch, y, bad, image)
	if err := k.line(y.Len(), 1); err != nil {
		return err
	}
	if err := k.places.end(c, nil, bad, k.noPlace); err != nil {
		return err
	}
	return k.absent.end(c, nil, image, k.noImage)
}

// badPlace is the error of a number of a region.
func (k *roiPool) badPlace(place int, _ string) error {
	return fmt.Errorf("input 1 has a number at element %d, in region %d, that is not a coordinate "+
		"in a plane",
		place, place/k.numbers)
}

// badImage is the error of a region.
func (k *roiPool) badImage(place int, _ string) error {
	return fmt.Errorf("region %d names an image that is not there; the batch has %d", place, k.images)
}

// pack packs roi_args.
func (k *roiPool) pack(x, rois, batch, y *executor.Tensor, bad, image []byte) {
	a := k.begin()
	a.In(x.Data)
	a.In(rois.Data)
	a.In(dataOf(batch))
	a.Out(y.Data)
	a.Out(bad)
	a.Out(image)
	a.Int(y.Len())
	for _, d := range x.Shape {
		a.Int32(int32(d))
	}
	a.Int32(int32(k.height))
	a.Int32(int32(k.width))
	a.Uint32(typeOf(x))
	a.Uint32(flag(k.largest))
	a.Int32(int32(k.ratio))
	a.Float32(k.scale)
	a.Float32(k.offset)
}

package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(nonMaxCases) }

// nonMaxCases have the boxes [0,1], [0.1,1.1], [10,11] of equal height; the first two overlap by
// 0.9/1.1.
func nonMaxCases() []Case {
	boxes := executor.NewTensor[float32](graph.Float32, []int{1, 3, 4}, 0, 0, 1, 1, 0, 1.1, 1, 0.1, 1, 11, 0, 10)
	centred := executor.NewTensor[float32](graph.Float32, []int{1, 3, 4}, .5, .5, 1, 1, .6, .5, 1, 1, 10.5, .5, 1, 1)
	scores := executor.NewTensor[float32](graph.Float32, []int{1, 2, 3}, 0.9, 0.75, 0.6, 0.1, 0.8, 0.8)
	most := func(n int64) *executor.Tensor { return executor.NewTensor(graph.Int64, nil, n) }
	number := func(v float32) *executor.Tensor { return executor.NewTensor(graph.Float32, []int{1}, v) }
	c := func(name string, in []*executor.Tensor, want ...int64) Case {
		return Case{Name: name, Kind: op.NonMaxSuppression, In: in, Out: []graph.DType{graph.Int64},
			Want: []*executor.Tensor{executor.NewTensor(graph.Int64, []int{len(want) / 3, 3}, want...)}}
	}
	byCentre := c("centres", []*executor.Tensor{centred, scores, most(3), number(0.5)}, 0, 0, 0, 0, 0, 2, 0,
		1, 1, 0, 1, 2)
	byCentre.Attrs = []graph.Attr{Attr("center_point_box", int64(1))}
	old := c("opset 10", []*executor.Tensor{boxes, scores, most(3), number(0.5)}, 0, 0, 0, 0, 0, 2, 0, 1, 1, 0, 1, 2)
	old.Opset = 10
	fault := func(name, text string, in ...*executor.Tensor) Case {
		f := c(name, in)
		f.Want, f.Fails = nil, text
		return f
	}
	return []Case{
		byCentre, old,
		c("corners", []*executor.Tensor{boxes, scores, most(3), number(0.5)}, 0, 0, 0, 0, 0, 2, 0, 1, 1, 0, 1, 2),
		c("high threshold", []*executor.Tensor{boxes, scores, most(3), number(0.9)}, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 1, 1,
			0, 1, 2, 0, 1, 0),
		c("one per class", []*executor.Tensor{boxes, scores, most(1), number(0.5)}, 0, 0, 0, 0, 1, 1),
		c("least score", []*executor.Tensor{boxes, scores, most(3), number(0.5), number(0.7)}, 0, 0, 0, 0, 1,
			1, 0, 1, 2),
		c("none asked for", []*executor.Tensor{boxes, scores}),
		c("no boxes", []*executor.Tensor{convTensor(graph.Float32, []int{1, 0, 4}, nil),
			convTensor(graph.Float32, []int{1, 2, 0}, nil), most(3)}),
		fault("scores", "input 1 (scores)", boxes, convRandom(graph.Float32, 1, 1, 2, 4), most(3)),
		fault("boxes", "input 0 (boxes)", convRandom(graph.Float32, 1, 1, 3, 5), scores, most(3)),
		fault("threshold", "iou_threshold", boxes, scores, most(3), number(1.5)),
	}
}

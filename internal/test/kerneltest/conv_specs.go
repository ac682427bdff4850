package kerneltest

import "memopt/graph"

// convSpec is a convolution to be tested.
type convSpec struct {
	name  string
	x, w  []int
	group int
	win   convWindow
	bias  bool
	dtype graph.DType
}

var convSpecs = []convSpec{
	{name: "1-D", x: []int{2, 3, 9}, w: []int{4, 3, 3}, win: convWindow{begin: []int{1}, end: []int{1}}, bias: true},
	{name: "2-D 3x3 pads", x: []int{2, 3, 6, 7}, w: []int{4, 3, 3, 3},
		win: convWindow{begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "2-D stride 2", x: []int{2, 3, 9, 8}, w: []int{5, 3, 3, 3},
		win: convWindow{stride: []int{2, 2}, begin: []int{1, 1}, end: []int{1, 1}}},
	{name: "2-D stride 3", x: []int{1, 2, 11, 13}, w: []int{3, 2, 2, 3},
		win: convWindow{stride: []int{3, 3}, begin: []int{0, 2}, end: []int{1, 0}}},
	{name: "2-D dilations", x: []int{1, 2, 9, 9}, w: []int{3, 2, 3, 3},
		win: convWindow{dilation: []int{2, 3}, begin: []int{2, 3}, end: []int{2, 3}}},
	{name: "negative pads", x: []int{1, 2, 8, 8}, w: []int{3, 2, 3, 3},
		win: convWindow{begin: []int{-1, 1}, end: []int{1, -2}}},
	{name: "pads beyond the kernel", x: []int{1, 1, 3, 3}, w: []int{2, 1, 2, 2},
		win: convWindow{begin: []int{4, 3}, end: []int{3, 4}}},
	{name: "3-D", x: []int{2, 2, 4, 5, 6}, w: []int{3, 2, 2, 3, 3},
		win: convWindow{stride: []int{1, 2, 1}, begin: []int{1, 1, 1}, end: []int{0, 1, 1}}, bias: true},
	{name: "stride and dilation 2", x: []int{1, 2, 10, 23}, w: []int{3, 2, 2, 4},
		win: convWindow{stride: []int{2, 2}, dilation: []int{3, 3}, begin: []int{2, 3}, end: []int{0, 4}}},
	{name: "stride 2, negative pads", x: []int{2, 2, 10, 23}, w: []int{3, 2, 2, 3},
		win: convWindow{stride: []int{1, 2}, begin: []int{2, -3}, end: []int{-1, 1}}},
	{name: "many channels", x: []int{3, 33, 13, 15}, w: []int{35, 33, 3, 3},
		win: convWindow{begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "many channels, other pads", x: []int{3, 32, 15, 17}, w: []int{32, 32, 3, 3},
		win: convWindow{begin: []int{-1, 2}, end: []int{2, 0}}},
	{name: "groups", x: []int{2, 6, 5, 5}, w: []int{4, 3, 3, 3}, group: 2,
		win: convWindow{begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "depthwise", x: []int{2, 3, 6, 6}, w: []int{3, 1, 3, 3}, group: 3,
		win: convWindow{begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "depthwise stride 2", x: []int{1, 3, 7, 20}, w: []int{6, 1, 3, 3}, group: 3,
		win: convWindow{stride: []int{2, 2}, begin: []int{1, 1}, end: []int{1, 1}}},
	{name: "depthwise stride 3", x: []int{1, 2, 7, 9}, w: []int{2, 1, 3, 3}, group: 2,
		win: convWindow{stride: []int{3, 3}, dilation: []int{1, 2}, begin: []int{1, 2}, end: []int{1, 2}}},
	{name: "pointwise", x: []int{8, 3, 12, 12}, w: []int{4, 3, 1, 1}, bias: true},
	{name: "pointwise stride 2", x: []int{2, 3, 5, 5}, w: []int{4, 3, 1, 1}, win: convWindow{stride: []int{2, 2}}},
	{name: "many tiles", x: []int{3, 4, 40, 41}, w: []int{3, 4, 3, 3},
		win: convWindow{begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "many tiles stride 2", x: []int{9, 3, 21, 30}, w: []int{3, 3, 3, 3},
		win: convWindow{stride: []int{2, 2}, begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "small planes", x: []int{70, 4, 5, 5}, w: []int{4, 2, 3, 3}, group: 2,
		win: convWindow{begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "many filters", x: []int{3, 2, 5, 5}, w: []int{150, 2, 3, 3},
		win: convWindow{begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "blocks of channels", x: []int{3, 33, 12, 13}, w: []int{40, 33, 3, 3},
		win: convWindow{begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "blocks of channels, stride 2", x: []int{2, 32, 23, 24}, w: []int{64, 32, 3, 3},
		win: convWindow{stride: []int{2, 2}, begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "blocks of channels, 1-D", x: []int{2, 48, 260}, w: []int{64, 48, 3},
		win: convWindow{dilation: []int{2}, begin: []int{3}, end: []int{1}}, bias: true},
	{name: "image", x: []int{2, 3, 43, 42}, w: []int{40, 3, 7, 7},
		win: convWindow{stride: []int{2, 2}, begin: []int{3, 3}, end: []int{3, 3}}, bias: true},
	{name: "gradient of weights", x: []int{33, 3, 17, 15}, w: []int{40, 3, 17, 15},
		win: convWindow{begin: []int{1, 1}, end: []int{1, 1}}, bias: true},
	{name: "gradient of weights, stride 2", x: []int{40, 4, 20, 21}, w: []int{32, 4, 10, 10},
		win: convWindow{dilation: []int{2, 2}, begin: []int{1, 1}, end: []int{0, 0}}},
	{name: "no images", x: []int{0, 3, 5, 5}, w: []int{4, 3, 3, 3}},
	{name: "no filters", x: []int{1, 3, 5, 5}, w: []int{0, 3, 3, 3}},
	{name: "no channels", x: []int{1, 0, 5, 5}, w: []int{2, 0, 3, 3}, bias: true},
	{name: "float64", x: []int{2, 3, 6, 7}, w: []int{4, 3, 3, 3}, win: convWindow{begin: []int{1, 1}, end: []int{1, 1}},
		bias: true, dtype: graph.Float64},
	{name: "float16", x: []int{2, 3, 6, 7}, w: []int{4, 3, 3, 3}, win: convWindow{begin: []int{1, 1}, end: []int{1, 1}},
		bias: true, dtype: graph.Float16},
	{name: "bfloat16", x: []int{2, 3, 6, 7}, w: []int{4, 3, 3, 3}, win: convWindow{stride: []int{2, 1}}, bias: true,
		dtype: graph.BFloat16},
}

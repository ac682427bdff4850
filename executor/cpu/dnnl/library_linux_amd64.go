//go:build !nodl

package dnnl

import (
	"fmt"

	"memopt/internal/native"
)

// libraryNames are tried in order, as the dynamic linker finds them.
var libraryNames = []string{"libdnnl.so.2", "libdnnl.so"}

// supported is the version whose structures and behaviour this package knows; any patch level will
// do.
const supportedMajor, supportedMinor = 2, 6

// Constants of dnnl_types.h.
const (
	typeFloat32      = 3
	engineCPU        = 1
	streamInOrder    = 1
	scratchpadUser   = 1
	propForward      = 64
	algorithmDirect  = 1
	tagAny           = 1
	queryName        = 8
	queryScratchpad  = 136
	argFrom, argTo   = 1, 17
	argScratchpad    = 80
	maxAxes          = 12
	layoutBytes      = 696  // of a dnnl_memory_desc_t
	convolutionBytes = 5976 // of a dnnl_convolution_desc_t
)

// The numbers of the operands of each direction: in queries for their layouts, and among arguments.
var (
	queries   = [3][3]uintptr{Forward: {129, 131, 133}, BackwardData: {130, 131, 134}, BackwardWeights: {129, 132, 134}}
	arguments = [3][3]int32{Forward: {1, 33, 17}, BackwardData: {129, 33, 145}, BackwardWeights: {1, 161, 145}}
)

// Structures that the library fills in.
type (
	dims        [maxAxes]int64
	layout      [layoutBytes / 8]uint64
	convolution [convolutionBytes / 8]uint64
)

// lib is the open library. Functions that return an int32 return a status.
var lib struct {
	version         func() *[3]int32 // major, minor, patch, …
	engineCreate    func(engine *uintptr, kind int32, index uintptr) int32
	streamCreate    func(stream *uintptr, engine uintptr, flags int32) int32
	attrCreate      func(attr *uintptr) int32
	attrScratchpad  func(attr uintptr, mode int32) int32
	attrPostOps     func(attr, ops uintptr) int32
	postOpsCreate   func(ops *uintptr) int32
	postOpsSum      func(ops uintptr, scale float32) int32
	layoutByStrides func(l *layout, rank int32, dims *dims, dtype int32, strides *dims) int32
	layoutByTag     func(l *layout, rank int32, dims *dims, dtype, tag int32) int32
	layoutSize      func(l *layout) uintptr
	layoutEqual     func(a, b *layout) int32 // not a status: 1 for yes
	forward         func(c *convolution, kind, algorithm int32, x, w, bias, y *layout,
		strides, dilations, begin, end *dims) int32
	backwardData func(c *convolution, algorithm int32, x, w, y *layout,
		strides, dilations, begin, end *dims) int32
	backwardWeights func(c *convolution, algorithm int32, x, w, bias, y *layout,
		strides, dilations, begin, end *dims) int32
	descriptor         func(d *uintptr, c *convolution, attr, engine, hint uintptr) int32
	descriptorDestroy  func(d uintptr) int32
	query              func(d uintptr, what, index int32, result *uintptr) int32
	queryLayout        func(d uintptr, what, index int32) uintptr
	reorder            func(d *uintptr, from *layout, fromEngine uintptr, to *layout, toEngine, attr uintptr) int32
	primitive          func(p *uintptr, d uintptr) int32
	primitiveDestroy   func(p uintptr) int32
	memory             func(m *uintptr, l *layout, engine, handle uintptr) int32
	memoryDestroy      func(m uintptr) int32
	setHandle, execute uintptr // called by runABI0
	sgemm              uintptr // called by sgemmABI0

	engine, stream uintptr
	own, adding    uintptr // attributes: scratchpads are the caller's; adding: results are added
}

// openLibrary opens oneDNN and returns its name and version. Without a library, the error is nil
// unless the user asked for one.
func openLibrary() (name string, err error) {
	_, err = native.Find("oneDNN", "MEMOPT_DNNL", libraryNames, func(l *native.Library) (err error) {
		name, err = start(l)
		return err
	})
	return name, err
}

// start puts a library to work.
func start(l *native.Library) (string, error) {
	if err := l.Functions("dnnl_", map[string]any{
		"version": &lib.version, "engine_create": &lib.engineCreate, "stream_create": &lib.streamCreate,
		"primitive_attr_create": &lib.attrCreate, "primitive_attr_set_scratchpad_mode": &lib.attrScratchpad,
		"primitive_attr_set_post_ops": &lib.attrPostOps, "post_ops_create": &lib.postOpsCreate,
		"post_ops_append_sum":         &lib.postOpsSum,
		"memory_desc_init_by_strides": &lib.layoutByStrides, "memory_desc_init_by_tag": &lib.layoutByTag,
		"memory_desc_get_size": &lib.layoutSize, "memory_desc_equal": &lib.layoutEqual,
		"dilated_convolution_forward_desc_init":          &lib.forward,
		"dilated_convolution_backward_data_desc_init":    &lib.backwardData,
		"dilated_convolution_backward_weights_desc_init": &lib.backwardWeights,
		"primitive_desc_create":                          &lib.descriptor,
		"primitive_desc_destroy":                         &lib.descriptorDestroy,
		"primitive_desc_query":                           &lib.query, "primitive_desc_query_md": &lib.queryLayout,
		"reorder_primitive_desc_create": &lib.reorder, "primitive_create": &lib.primitive,
		"primitive_destroy": &lib.primitiveDestroy,
		"memory_create":     &lib.memory, "memory_destroy": &lib.memoryDestroy,
		"memory_set_data_handle": &lib.setHandle, "primitive_execute": &lib.execute, "sgemm": &lib.sgemm,
	}); err != nil {
		return "", err
	}
	v := lib.version()
	name := fmt.Sprintf("oneDNN %d.%d.%d", v[0], v[1], v[2])
	if v[0] != supportedMajor || v[1] != supportedMinor {
		return "", fmt.Errorf("%s is %s, wanted %d.%d", l.Path, name, supportedMajor, supportedMinor)
	}
	l.Note("oneDNN", "dnnl_version")
	var sum uintptr
	for _, step := range []struct {
		what   string
		status int32
	}{
		{"engine_create", lib.engineCreate(&lib.engine, engineCPU, 0)},
		{"stream_create", lib.streamCreate(&lib.stream, lib.engine, streamInOrder)},
		{"primitive_attr_create", lib.attrCreate(&lib.own) + lib.attrCreate(&lib.adding)},
		{"primitive_attr_set_scratchpad_mode",
			lib.attrScratchpad(lib.own, scratchpadUser) + lib.attrScratchpad(lib.adding, scratchpadUser)},
		{"post_ops_create", lib.postOpsCreate(&sum)},
		{"post_ops_append_sum", lib.postOpsSum(sum, 1)},
		{"primitive_attr_set_post_ops", lib.attrPostOps(lib.adding, sum)},
	} {
		if err := check(step.what, step.status); err != nil {
			return "", err
		}
	}
	return name, nil
}

// check turns a status into an error.
func check(what string, status int32) error {
	if status != 0 {
		return fmt.Errorf("oneDNN: dnnl_%s ends with status %d", what, status)
	}
	return nil
}

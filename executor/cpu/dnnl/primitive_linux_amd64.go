//go:build !nodl

package dnnl

import (
	"fmt"
	"unsafe"

	"memopt/internal/native"
)

// primitive is an operation of the library with operands of given layouts, ready to run in several
// slots at a time.
type primitive struct {
	handle uintptr
	args   [][]executeArg // of each slot
}

// argument is an operand of a primitive.
type argument struct {
	name   int32
	layout *layout
}

// executeArg is a dnnl_exec_arg_t.
type executeArg struct {
	name   int32
	_      int32
	memory uintptr
}

// newPrimitive makes the primitive that desc describes.
func (k *Conv) newPrimitive(desc uintptr, args []argument) (*primitive, error) {
	p := &primitive{}
	if err := check("primitive_create", lib.primitive(&p.handle, desc)); err != nil {
		return nil, err
	}
	k.handles.primitives = append(k.handles.primitives, p.handle)
	for range k.count {
		list := make([]executeArg, len(args))
		for i, a := range args {
			list[i].name = a.name
			if err := check("memory_create", lib.memory(&list[i].memory, a.layout, lib.engine, 0)); err != nil {
				return nil, err
			}
			k.handles.memories = append(k.handles.memories, list[i].memory)
		}
		p.args = append(p.args, list)
	}
	return p, nil
}

// invocation is the assembly's input: it gives each operand its address, then executes.
type invocation struct {
	setHandle, execute uintptr
	primitive, stream  uintptr
	count              int64
	args               *executeArg
	data               [4]unsafe.Pointer
}

// runABI0 is the address of the assembly.
var runABI0 uintptr

// run executes a primitive with its operands; a and b are always there.
func (p *primitive) run(slot int, a, b, c, d []float32) {
	args := p.args[slot]
	call := invocation{setHandle: lib.setHandle, execute: lib.execute, primitive: p.handle, stream: lib.stream,
		count: int64(len(args)), args: unsafe.SliceData(args)}
	for i, s := range [...][]float32{a, b, c, d} {
		call.data[i] = unsafe.Pointer(unsafe.SliceData(s))
	}
	if status := native.Call(runABI0, unsafe.Pointer(&call)); status != 0 {
		panic(fmt.Sprintf("oneDNN: dnnl_primitive_execute ends with status %d", status))
	}
}

// describe describes the convolution of pieces of the given sizes, with operands in layouts of the
// library's choice.
func describe(p *Problem, s sizes) (desc uintptr, err error) {
	var l [3]layout
	for o := range l {
		a, in := axesOf[o], p.spatial(operand(o))
		if err := check("memory_desc_init_by_tag", lib.layoutByTag(&l[o], 4,
			&dims{int64(s[a[0]]), int64(s[a[1]]), int64(in[0]), int64(in[1])}, typeFloat32, tagAny)); err != nil {
			return 0, err
		}
	}
	var strides, dilations, begin, end dims
	for i := range 2 {
		strides[i], dilations[i] = int64(p.Stride[i]), int64(p.Dilation[i]-1)
		begin[i], end[i] = int64(p.Begin[i]), int64(p.end(i))
	}
	var c, hint convolution
	forward := func(c *convolution) error {
		return check("dilated_convolution_forward_desc_init", lib.forward(c, propForward, algorithmDirect,
			&l[opX], &l[opW], nil, &l[opY], &strides, &dilations, &begin, &end))
	}
	if p.Direction == Forward {
		if err := forward(&c); err != nil {
			return 0, err
		}
		return newDescriptor(&c, 0)
	}
	// The descriptor of a gradient wants that of the convolution.
	if err := forward(&hint); err != nil {
		return 0, err
	}
	hinted, err := newDescriptor(&hint, 0)
	if err != nil {
		return 0, err
	}
	defer lib.descriptorDestroy(hinted)
	if p.Direction == BackwardData {
		err = check("dilated_convolution_backward_data_desc_init", lib.backwardData(&c, algorithmDirect,
			&l[opX], &l[opW], &l[opY], &strides, &dilations, &begin, &end))
	} else {
		err = check("dilated_convolution_backward_weights_desc_init", lib.backwardWeights(&c, algorithmDirect,
			&l[opX], &l[opW], nil, &l[opY], &strides, &dilations, &begin, &end))
	}
	if err != nil {
		return 0, err
	}
	return newDescriptor(&c, hinted)
}

func newDescriptor(c *convolution, hint uintptr) (desc uintptr, err error) {
	return desc, check("primitive_desc_create", lib.descriptor(&desc, c, lib.own, lib.engine, hint))
}

// implementation names the implementation that the library would use.
func implementation(desc uintptr) string {
	var text uintptr
	if lib.query(desc, queryName, 0, &text) != 0 || text == 0 {
		return ""
	}
	return native.Text(text)
}

// copyLayout copies a layout that belongs to the library.
func copyLayout(l *layout, at uintptr) {
	*l = *(*layout)(*(*unsafe.Pointer)(unsafe.Pointer(&at)))
}

func (l *layout) size() int { return int(lib.layoutSize(l)) }

func (l *layout) equal(other *layout) bool { return lib.layoutEqual(l, other) != 0 }

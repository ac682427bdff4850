//go:build !nodl

package dnnl

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// Conv computes a Problem in rounds, one after another; in each, all copies (Pack) come before all
// pieces (Piece). Copies may be made, and pieces computed, at the same time, in different slots.
type Conv struct {
	problem Problem
	axes    [3]stretches
	round   int // spans of images in a round
	convs   map[sizes]*primitive
	moves   map[move]*primitive // of operands, into the library's layout and back
	bytes   [3]int              // of an operand's largest block in the library's layout
	inputs  [2]int              // elements from the workspace's start to the blocks of inputs
	slots   int                 // elements from the workspace's start to the slots
	slot    int                 // elements of one
	count   int
	handles *handles
	lengths [2]int
}

// sizes are a piece's along the three axes.
type sizes [3]int

// move is a copy of a block of an operand with sizes along its first two axes. From the second
// round on, the output is added to the earlier sum.
type move struct {
	operand
	sizes [2]int
	add   bool
}

// handles are objects of the library that live as long as a Conv.
type handles struct{ primitives, memories []uintptr }

func (h *handles) destroy() {
	for _, m := range h.memories {
		lib.memoryDestroy(m)
	}
	for _, p := range h.primitives {
		lib.primitiveDestroy(p)
	}
}

// Below leastMultiplications, a problem's calls and copies cost more than they save.
const leastMultiplications = 1 << 22

// New makes a Conv whose work may be done in the given number of slots at a time. The error says
// why a problem is better computed otherwise.
func New(p Problem, slots int) (*Conv, error) {
	if !Available() {
		return nil, errors.New("there is no library")
	}
	if p.multiplications() < leastMultiplications {
		return nil, errors.New("the problem is small")
	}
	k := &Conv{
		problem: p, count: slots, convs: map[sizes]*primitive{}, moves: map[move]*primitive{}, handles: &handles{},
	}
	k.axes, k.round = p.cut()
	h := k.handles
	if err := k.build(); err != nil {
		h.destroy()
		return nil, err
	}
	runtime.AddCleanup(k, (*handles).destroy, h)
	return k, nil
}

// build makes the primitives and places the workspace.
func (k *Conv) build() error {
	layouts := map[move]*layout{}
	for _, n := range ends(k.axes[axisN]) {
		for _, c := range ends(k.axes[axisC]) {
			for _, m := range ends(k.axes[axisM]) {
				if err := k.addConv(sizes{n, c, m}, layouts); err != nil {
					return err
				}
			}
		}
	}
	moves := slices.SortedFunc(maps.Keys(layouts), func(a, b move) int {
		return cmp.Or(cmp.Compare(a.operand, b.operand), slices.Compare(a.sizes[:], b.sizes[:]))
	})
	for _, key := range moves {
		if err := k.addMove(key, layouts[key]); err != nil {
			return err
		}
	}
	r := roles[k.problem.Direction]
	at := 0
	for i, o := range r.in {
		k.inputs[i] = at
		at += k.blocks(o) * k.bytes[o] / 4
		k.lengths[i] = k.problem.length(o)
	}
	k.slots = at
	k.slot += k.bytes[r.out] / 4
	return nil
}

// ends are the distinct sizes of spans: of the first and of the last.
func ends(s stretches) []int {
	first, last := s.at(0).N, s.at(s.len()-1).N
	if first != last {
		return []int{first, last}
	}
	return []int{first}
}

// blocks is the number of blocks of an input that are kept at a time.
func (k *Conv) blocks(o operand) int {
	n := 1
	for _, a := range axesOf[o] {
		if a == axisN {
			n *= min(k.round, k.axes[a].len())
		} else {
			n *= k.axes[a].len()
		}
	}
	return n
}

// addConv makes the convolution of pieces of the given sizes, and notes the layouts of its
// operands.
func (k *Conv) addConv(s sizes, layouts map[move]*layout) error {
	p := &k.problem
	desc, err := describe(p, s)
	if err != nil {
		return err
	}
	defer lib.descriptorDestroy(desc)
	if name := implementation(desc); !strings.HasPrefix(name, "jit") {
		return fmt.Errorf("oneDNN has only %q for it", name)
	}
	r := roles[p.Direction]
	operands := [3]operand{r.in[0], r.in[1], r.out}
	var args []argument
	for _, o := range operands {
		at := lib.queryLayout(desc, int32(queries[p.Direction][o]), 0)
		l := new(layout)
		copyLayout(l, at)
		key := move{operand: o, sizes: [2]int{s[axesOf[o][0]], s[axesOf[o][1]]}}
		if old := layouts[key]; old != nil && !old.equal(l) {
			return errors.New("oneDNN wants one block in different layouts")
		}
		layouts[key] = l
		k.bytes[o] = max(k.bytes[o], roundUp(l.size(), 64))
		args = append(args, argument{arguments[p.Direction][o], l})
	}
	scratch := new(layout)
	copyLayout(scratch, lib.queryLayout(desc, queryScratchpad, 0))
	if n := scratch.size(); n > 0 {
		args = append(args, argument{argScratchpad, scratch})
		k.slot = max(k.slot, roundUp(n, 64)/4)
	}
	k.convs[s], err = k.newPrimitive(desc, args)
	return err
}

// addMove makes the copy of a block: into the library's layout for inputs, out of it for the
// output.
func (k *Conv) addMove(key move, l *layout) error {
	p := &k.problem
	s := p.strides(key.operand)
	in := p.spatial(key.operand)
	plain := new(layout)
	if err := check("memory_desc_init_by_strides", lib.layoutByStrides(plain, 4,
		&dims{int64(key.sizes[0]), int64(key.sizes[1]), int64(in[0]), int64(in[1])}, typeFloat32,
		&dims{int64(s.Outer), int64(s.Inner), int64(in[1]), 1})); err != nil {
		return err
	}
	if key.operand != roles[p.Direction].out {
		return k.addReorder(key, plain, l, lib.own)
	}
	if err := k.addReorder(key, l, plain, lib.own); err != nil {
		return err
	}
	if p.Direction != BackwardWeights || k.axes[axisN].len() == 1 {
		return nil
	}
	key.add = true
	return k.addReorder(key, l, plain, lib.adding)
}

func (k *Conv) addReorder(key move, from, to *layout, attr uintptr) error {
	var desc uintptr
	if err := check("reorder_primitive_desc_create",
		lib.reorder(&desc, from, lib.engine, to, lib.engine, attr)); err != nil {
		return err
	}
	defer lib.descriptorDestroy(desc)
	scratch := new(layout)
	copyLayout(scratch, lib.queryLayout(desc, queryScratchpad, 0))
	if scratch.size() > 0 {
		return errors.New("oneDNN wants workspace for a copy")
	}
	var err error
	k.moves[key], err = k.newPrimitive(desc, []argument{{argFrom, from}, {argTo, to}})
	return err
}

// Workspace is the number of elements of workspace: inputs in the library's layout, and for each
// slot a block of the output and the library's scratch memory.
func (k *Conv) Workspace() int { return k.slots + k.count*k.slot }

// Rounds is the number of rounds.
func (k *Conv) Rounds() int { return ceil(k.axes[axisN].len(), k.round) }

// images are the spans of images of a round.
func (k *Conv) images(round int) stretches { return k.axes[axisN].part(round*k.round, k.round) }

// along are the spans of an axis that a round covers.
func (k *Conv) along(a axis, round int) stretches {
	if a == axisN {
		return k.images(round)
	}
	return k.axes[a]
}

// count of blocks of an operand in a round; weights are copied in the first one only.
func (k *Conv) packed(o operand, round int) int {
	if o == opW && round > 0 {
		return 0
	}
	return k.along(axesOf[o][0], round).len() * k.along(axesOf[o][1], round).len()
}

// Packs is the number of copies of a round.
func (k *Conv) Packs(round int) int {
	in := roles[k.problem.Direction].in
	return k.packed(in[0], round) + k.packed(in[1], round)
}

// Pieces is the number of pieces of a round.
func (k *Conv) Pieces(round int) int {
	out := axesOf[roles[k.problem.Direction].out]
	return k.along(out[0], round).len() * k.along(out[1], round).len()
}

// Pack makes copy i of a round, of one of the inputs a and b, to the workspace: x and w, y and w,
// or x and y.
func (k *Conv) Pack(round, i, slot int, a, b, work []float32) {
	r := roles[k.problem.Direction]
	which, from := 0, a
	if n := k.packed(r.in[0], round); i >= n {
		which, from, i = 1, b, i-n
	}
	o := r.in[which]
	first, second := k.at(o, round, i)
	s := k.problem.strides(o)
	_ = from[k.lengths[which]-1]
	to := work[k.inputs[which]+i*k.bytes[o]/4:][:k.bytes[o]/4]
	k.moves[move{operand: o, sizes: [2]int{first.N, second.N}}].run(slot, from[first.From*s.Outer+second.From*s.Inner:],
		to, nil, nil)
}

// at returns the spans of block i of an operand in a round.
func (k *Conv) at(o operand, round, i int) (first, second Span) {
	a := axesOf[o]
	inner := k.along(a[1], round)
	return k.along(a[0], round).at(i / inner.len()), inner.at(i % inner.len())
}

// Piece computes piece i of a round in a slot and writes it to out.
func (k *Conv) Piece(round, i, slot int, out, work []float32) {
	d := k.problem.Direction
	r := roles[d]
	first, second := k.at(r.out, round, i)
	var index [3]int // of the piece along each axis
	a := axesOf[r.out]
	inner := k.along(a[1], round).len()
	index[a[0]], index[a[1]] = i/inner, i%inner
	var s sizes
	for x := range index {
		s[x] = k.along(axis(x), round).at(index[x]).N
	}
	var in [2][]float32
	for j, o := range r.in {
		at := index[axesOf[o][0]]*k.along(axesOf[o][1], round).len() + index[axesOf[o][1]]
		in[j] = work[k.inputs[j]+at*k.bytes[o]/4:][:k.bytes[o]/4]
	}
	own := work[k.slots+slot*k.slot:][:k.slot]
	made, scratch := own[:k.bytes[r.out]/4], own[k.bytes[r.out]/4:]
	k.convs[s].run(slot, in[0], in[1], made, scratch)
	strides := k.problem.strides(r.out)
	_ = out[k.problem.length(r.out)-1]
	add := d == BackwardWeights && round > 0
	k.moves[move{r.out, [2]int{first.N, second.N}, add}].run(slot, made,
		out[first.From*strides.Outer+second.From*strides.Inner:], nil, nil)
}

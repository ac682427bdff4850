package cuda

import (
	"slices"
	"strings"

	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// fusionSteps is FUSION_STEPS of kernels/fusion.h.
const fusionSteps = 16

// Codes of steps in kernels/fusion.h.
const (
	fusionTake = iota
	fusionWhere
	fusionFirst // of fusionOperators
)

// fusionOperators are the kernels of binary.h, unary.h and fused.h that fusion groups have:
// FUSION_OPERATORS of kernels/fusion.h.
var fusionOperators = strings.Fields(`add sub mul div max min pow
	abs erf exp gelu gelutanh log neg quickgelu reciprocal relu sigmoid sqrt tanh
	gelugrad fastgelugrad quickgelugrad relugrad sigmoidgrad tanhgrad biasgelu fastgelu`)

// fusionCodes has the codes of operators by the names of their kernels.
var fusionCodes = func() map[string]uint32 {
	codes := map[string]uint32{}
	for i, name := range fusionOperators {
		codes[name] = uint32(fusionFirst + i)
	}
	return codes
}()

// fusionNode is a node of a fusion group as the interpreter sees it.
type fusionNode struct {
	code        uint32
	alpha, beta float32
	x, z        int // inputs: operands of the operator; -1 for a missing one
	cond        int // input, -1 but for Where
}

// fusionNodeOf returns how the interpreter does a node, or false where it cannot.
func fusionNodeOf(l *executor.Fusible) (fusionNode, bool) {
	none := fusionNode{x: -1, z: -1, cond: -1}
	switch k := l.Kernel.(type) {
	case *unaryKernel:
		none.code, none.alpha, none.beta, none.x = codeOf(k.launch), k.alpha, k.beta, 0
	case *broadcastKernel:
		switch {
		case k.likeFirst:
			return none, false
		case strings.HasPrefix(k.name, "where_"):
			none.code, none.cond, none.x, none.z = fusionWhere, 0, 1, 2
		default:
			none.code, none.x, none.z = codeOf(k.launch), 0, 1
		}
	case *fusedKernel:
		return fusedNode(l, k)
	}
	return none, none.code != fusionTake
}

// fusedNode is fusionNodeOf for kernels of fused.h: those of a gradient or of a bias at most.
func fusedNode(l *executor.Fusible, k *fusedKernel) (fusionNode, bool) {
	node := fusionNode{code: codeOf(k.launch), alpha: k.alpha, x: k.x, z: k.bias, cond: -1}
	biased := k.bias >= 0 && l.Prep.Has(k.bias)
	// The interpreter has biasgelu and fastgelu only with a bias, and gradients only without. Nodes
	// that the operator's own kernel rejects are rejected here, too.
	switch {
	case node.code == fusionTake || biased != (k.dy < 0):
		return node, false
	case biased:
		bias := l.Shapes[k.bias]
		return node, len(bias) == 1 && len(l.Shape) > 0 && bias[0] == l.Shape[len(l.Shape)-1]
	}
	node.x, node.z = k.dy, k.x
	return node, slices.Equal(l.Shapes[k.dy], l.Shapes[k.x])
}

// codeOf returns the code of a kernel, fusionTake where fusion groups do not have it.
func codeOf(l *launch) uint32 {
	i := strings.LastIndexByte(l.name, '_')
	return fusionCodes[l.name[:i]]
}

// Fits reports whether nodes can be one group: the interpreter has their operators, all of one
// type, and its program is not too long.
func (d *Device) Fits(nodes []executor.Fusible) bool {
	_, ok := compileFusion(nodes)
	return ok
}

// Fuse makes a fusion group, or returns nil where it would move as many bytes as its nodes alone.
func (d *Device) Fuse(nodes []executor.Fusible) (executor.FusionGroup, error) {
	p, ok := compileFusion(nodes)
	if !ok || p.moved >= p.alone {
		return nil, nil
	}
	t := suffix(p.dtype)
	l, err := d.launch("fusion_"+t, "fusion_"+t)
	if err != nil {
		return nil, err
	}
	c := &fusionGroup{launch: l, fusionProgram: p, parts: make([]fusionPart, len(nodes))}
	for i := range nodes {
		c.parts[i] = fusionPart{n: p.n, shapes: nodes[i].Shapes, shape: nodes[i].Shape}
	}
	return c, nil
}

// fusionGroup runs a program.
type fusionGroup struct {
	*launch
	*fusionProgram
	parts []fusionPart
}

// fusionPart is a node's part in a fusion group, with the operands of the run.
type fusionPart struct {
	n      int
	shapes [][]int // of the inputs
	shape  []int   // of the output
	c      *executor.Ctx
	out    *executor.Tensor
}

// Part returns node i's part.
func (k *fusionGroup) Part(i int) executor.Beginner { return &k.parts[i] }

// Bytes returns the bytes that the nodes move one by one, and those that the group moves, with
// operands of as many elements as the results.
func (k *fusionGroup) Bytes() (alone, fused int64) { return k.alone, k.moved }

// Begin takes the output's memory.
func (k *fusionPart) Begin(c *executor.Ctx) (int, error) {
	for i, want := range k.shapes {
		if t := c.In(i); t != nil && !slices.Equal(t.Shape, want) {
			return 0, c.Errorf("input %d has shape %v, wanted %v, for which the session was opened", i, t.Shape, want)
		}
	}
	k.c, k.out = c, c.Out(0, k.shape...)
	return k.n, nil
}

// Run launches the interpreter.
func (k *fusionGroup) Run() error {
	a := k.begin().Int(k.n).Int(len(k.steps))
	for i := range k.steps {
		k.pack(a, &k.steps[i])
	}
	for range fusionSteps - len(k.steps) {
		a.Int(0).Int(0)
		packOperand(a, nil, fusionFromAcc, placing{})
		packOperand(a, nil, fusionFromAcc, placing{})
		a.Out(nil)
	}
	return k.line(k.n, k.width)
}

// pack packs a fusion_step.
func (k *fusionGroup) pack(a *driver.Args, s *fusionStep) {
	part := &k.parts[s.node]
	var y, cond, out []byte
	if s.from >= fusionFromPack {
		y = part.c.In(s.input).Data
	}
	if s.cond >= 0 {
		cond = part.c.In(s.cond).Data
	}
	if s.store {
		out = part.out.Data
	}
	a.Uint32(s.code).Uint32(s.flags).Float32(s.alpha).Float32(s.beta)
	packOperand(a, y, s.from, s.place)
	packOperand(a, cond, s.condPlace.from(k.width), s.condPlace)
	a.Out(out)
}

// packOperand packs a fusion_operand.
func packOperand(a *driver.Args, data []byte, from uint32, p placing) {
	a.In(data).Uint32(from).Divider(max(p.inner, 1)).Divider(max(p.count, 1))
}

var _ executor.Fuser = (*Device)(nil)

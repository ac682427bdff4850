package cuda

import (
	"slices"
	"strings"

	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// chainSteps is CHAIN_STEPS of kernels/chain.h.
const chainSteps = 16

// Codes of steps in kernels/chain.h.
const (
	chainTake = iota
	chainWhere
	chainFirst // of chainOperators
)

// chainOperators are the kernels of binary.h, unary.h and fused.h that chains have: CHAIN_OPERATORS
// of kernels/chain.h.
var chainOperators = strings.Fields(`add sub mul div max min pow
	abs erf exp gelu gelutanh log neg quickgelu reciprocal relu sigmoid sqrt tanh
	gelugrad fastgelugrad quickgelugrad relugrad sigmoidgrad tanhgrad biasgelu fastgelu`)

// chainCodes has the codes of operators by the names of their kernels.
var chainCodes = func() map[string]uint32 {
	codes := map[string]uint32{}
	for i, name := range chainOperators {
		codes[name] = uint32(chainFirst + i)
	}
	return codes
}()

// chainLink is a node of a chain as the interpreter sees it.
type chainLink struct {
	code        uint32
	alpha, beta float32
	x, z        int // inputs: operands of the operator, -1 where it has none
	cond        int // input, -1 but for Where
}

// linkOf returns how the interpreter does a node, or false where it cannot.
func linkOf(l *executor.Link) (chainLink, bool) {
	none := chainLink{x: -1, z: -1, cond: -1}
	switch k := l.Kernel.(type) {
	case *unaryKernel:
		none.code, none.alpha, none.beta, none.x = codeOf(k.launch), k.alpha, k.beta, 0
	case *broadcastKernel:
		switch {
		case k.likeFirst:
			return none, false
		case strings.HasPrefix(k.name, "where_"):
			none.code, none.cond, none.x, none.z = chainWhere, 0, 1, 2
		default:
			none.code, none.x, none.z = codeOf(k.launch), 0, 1
		}
	case *fusedKernel:
		return fusedLink(l, k)
	}
	return none, none.code != chainTake
}

// fusedLink is linkOf for kernels of fused.h: those of a gradient or of a bias at most.
func fusedLink(l *executor.Link, k *fusedKernel) (chainLink, bool) {
	link := chainLink{code: codeOf(k.launch), alpha: k.alpha, x: k.x, z: k.bias, cond: -1}
	biased := k.bias >= 0 && l.Prep.Has(k.bias)
	// The interpreter has biasgelu and fastgelu with a bias alone, and gradients without. What a
	// kernel of its own would refuse it refuses.
	switch {
	case link.code == chainTake || biased != (k.dy < 0):
		return link, false
	case biased:
		bias := l.Shapes[k.bias]
		return link, len(bias) == 1 && len(l.Shape) > 0 && bias[0] == l.Shape[len(l.Shape)-1]
	}
	link.x, link.z = k.dy, k.x
	return link, slices.Equal(l.Shapes[k.dy], l.Shapes[k.x])
}

// codeOf returns the code of a kernel, chainTake where chains do not have it.
func codeOf(l *launch) uint32 {
	i := strings.LastIndexByte(l.name, '_')
	return chainCodes[l.name[:i]]
}

// Fits reports whether nodes can be one chain: the interpreter has their operators, all of one
// type, and its program is not too long.
func (d *Device) Fits(links []executor.Link) bool {
	_, ok := compileChain(links)
	return ok
}

// Chain makes a chain, or returns nil where it would move as many bytes as its nodes alone.
func (d *Device) Chain(links []executor.Link) (executor.DeviceChain, error) {
	p, ok := compileChain(links)
	if !ok || p.moved >= p.alone {
		return nil, nil
	}
	t := suffix(p.dtype)
	l, err := d.launch("chain_"+t, "chain_"+t)
	if err != nil {
		return nil, err
	}
	c := &chain{launch: l, chainProgram: p, parts: make([]chainPart, len(links))}
	for i := range links {
		c.parts[i] = chainPart{n: p.n, shapes: links[i].Shapes, shape: links[i].Shape}
	}
	return c, nil
}

// chain runs a program.
type chain struct {
	*launch
	*chainProgram
	parts []chainPart
}

// chainPart is a node's part in a chain, with the operands of the run.
type chainPart struct {
	n      int
	shapes [][]int // of the inputs
	shape  []int   // of the output
	c      *executor.Ctx
	out    *executor.Tensor
}

// Link returns node i's part.
func (k *chain) Link(i int) executor.Beginner { return &k.parts[i] }

// Bytes returns what the nodes move one by one, and what the chain moves, of operands with as many
// elements as the results.
func (k *chain) Bytes() (alone, chained int64) { return k.alone, k.moved }

// Begin takes the output's memory.
func (k *chainPart) Begin(c *executor.Ctx) (int, error) {
	for i, want := range k.shapes {
		if t := c.In(i); t != nil && !slices.Equal(t.Shape, want) {
			return 0, c.Errorf("input %d has shape %v, wanted %v, for which the session was opened", i, t.Shape, want)
		}
	}
	k.c, k.out = c, c.Out(0, k.shape...)
	return k.n, nil
}

// Run launches the interpreter.
func (k *chain) Run() error {
	a := k.begin()
	a.Int(k.n)
	a.Int(len(k.steps))
	for i := range k.steps {
		k.pack(a, &k.steps[i])
	}
	for range chainSteps - len(k.steps) {
		a.Int(0)
		a.Int(0)
		packOperand(a, nil, chainFromAcc, placing{})
		packOperand(a, nil, chainFromAcc, placing{})
		a.Out(nil)
	}
	return k.line(k.n, k.width)
}

// pack packs a chain_step.
func (k *chain) pack(a *driver.Args, s *chainStep) {
	part := &k.parts[s.link]
	var y, cond, out []byte
	if s.from >= chainFromPack {
		y = part.c.In(s.input).Data
	}
	if s.cond >= 0 {
		cond = part.c.In(s.cond).Data
	}
	if s.store {
		out = part.out.Data
	}
	a.Uint32(s.code)
	a.Uint32(s.flags)
	a.Float32(s.alpha)
	a.Float32(s.beta)
	packOperand(a, y, s.from, s.place)
	packOperand(a, cond, s.condPlace.from(k.width), s.condPlace)
	a.Out(out)
}

// packOperand packs a chain_operand.
func packOperand(a *driver.Args, data []byte, from uint32, p placing) {
	a.In(data)
	a.Uint32(from)
	a.Divider(max(p.inner, 1))
	a.Divider(max(p.count, 1))
}

var _ executor.Chainer = (*Device)(nil)

package xla

import (
	"cmp"
	"slices"
)

// alignment is that of temporaries in the heap, in bytes (cpu_function_runtime::MinAlign).
const alignment = 64

// maxTries bounds the comparisons of spans in the search for results and arguments whose memory temporaries can have;
// behind it, the rest of them get memory in the heap.
const maxTries = 50_000_000

// assigner gives memory to buffers (BufferAssigner::AssignBuffersForComputations).
type assigner struct {
	*Program
	lodgers map[int32][]int32 // by buffer with memory of its own: the others in it, itself included
	hosts   []int32           // donated arguments and results, by decreasing size
	tries   int
}

// assign gives memory to all buffers, the largest first, and adds up the bytes.
func (p *Program) assign() {
	a := &assigner{Program: p, lodgers: map[int32][]int32{}}
	order := make([]int32, len(p.Buffers))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(x, y int32) int {
		b, c := &p.Buffers[x], &p.Buffers[y]
		return cmp.Or(cmp.Compare(c.Bytes, b.Bytes), cmp.Compare(livesOut(c), livesOut(b)), cmp.Compare(x, y))
	})
	var heap []int32 // temporaries without other memory
	for _, i := range order {
		b := &p.Buffers[i]
		switch {
		case b.Role == Constant || b.Host:
		case b.Role == Argument:
			p.ArgumentBytes += b.Bytes
		case b.Role == Donated:
			p.ArgumentBytes += b.Bytes
			p.DonatedBytes += b.Bytes
			a.host(i)
		case b.Role == Result:
			p.ResultBytes += b.Bytes
			if !b.table {
				a.host(i)
			}
		case a.lodge(i):
		default:
			heap = append(heap, i)
		}
	}
	p.simulate(heap)
}

func livesOut(b *Buffer) int {
	if b.Role == Result || b.Role == Donated {
		return 1
	}
	return 0
}

// host lets other buffers lie in one.
func (a *assigner) host(i int32) {
	a.hosts = append(a.hosts, i)
	a.lodgers[i] = []int32{i}
}

// lodge finds a donated argument or a result in whose memory a buffer can lie: first among the operands of its makers,
// then the smallest that is large enough.
func (a *assigner) lodge(i int32) bool {
	b := &a.Buffers[i]
	if len(b.Element) == 0 {
		step := &a.Steps[b.Maker]
		for _, o := range step.In().Operands {
			h := a.buffer[step.frame.first[o]]
			if w := a.Buffers[h].Within; w >= 0 {
				h = w
			}
			if a.lodgers[h] != nil && a.fits(i, h) {
				return true
			}
		}
	}
	for _, h := range slices.Backward(a.hosts) {
		if a.tries++; a.tries > maxTries {
			return false
		}
		if a.fits(i, h) {
			return true
		}
	}
	return false
}

// fits puts a buffer into a host if no buffer in it is in use at the same steps.
func (a *assigner) fits(i, h int32) bool {
	b, host := &a.Buffers[i], &a.Buffers[h]
	if b.Bytes > host.Bytes {
		return false
	}
	for _, l := range a.lodgers[h] {
		if a.tries++; a.tries > maxTries || a.interferes(i, l) {
			return false
		}
	}
	b.Within = h
	a.lodgers[h] = append(a.lodgers[h], i)
	return true
}

// interferes reports whether two buffers cannot have the same memory. One may begin at the step where the other ends
// only if the step may write over that operand.
func (a *assigner) interferes(i, j int32) bool {
	for x, y := 0, 0; x < len(a.Buffers[i].Spans) && y < len(a.Buffers[j].Spans); {
		s, t := a.Buffers[i].Spans[x], a.Buffers[j].Spans[y]
		switch {
		case s.To < t.From:
			x++
		case t.To < s.From:
			y++
		case s.To == t.From && a.overwrites(t.From, j, i):
			x++
		case t.To == s.From && a.overwrites(s.From, i, j):
			y++
		default:
			return true
		}
	}
	return false
}

// overwrites reports whether a step may write buffer i where buffer j lies.
func (a *assigner) overwrites(at, i, j int32) bool {
	if int(at) >= len(a.Steps) {
		return false
	}
	step := &a.Steps[at]
	in := step.In()
	if in.Opcode == "copy" {
		return false
	}
	index, ok := a.elementOf(at, i)
	if !ok {
		return false
	}
	for o, operand := range in.Operands {
		if a.buffer[step.frame.first[operand]] == j && a.mayShare(step.Computation, in, o, index) {
			return true
		}
		for _, l := range step.leavesAlike(operand) {
			if a.buffer[step.frame.first[l]] == j {
				return true
			}
		}
	}
	return false
}

// elementOf finds a buffer in a step's result, at its top or one tuple below.
func (a *assigner) elementOf(at, i int32) ([]int64, bool) {
	if b := &a.Buffers[i]; b.Maker == at {
		return b.Element, len(b.Element) < 2
	}
	step := &a.Steps[at]
	place := step.frame.first[step.Instruction]
	if a.buffer[place] == i {
		return nil, true
	}
	place++
	shape := &step.In().Shape
	if len(shape.Tuple) > maxElements {
		return nil, false
	}
	for k := range shape.Tuple {
		if a.buffer[place] == i {
			return []int64{int64(k)}, true
		}
		place += a.layout.width(&shape.Tuple[k])
	}
	return nil, false
}

// tenant is a range of a temporary in the heap.
type tenant struct {
	buffer   int32
	from, to int64 // in events of the heap, both included
	bytes    int64
}

// block is memory of the heap that several tenants have, one after the other.
type block struct {
	tenants []tenant
	bytes   int64
	offset  int64
}

// simulate finds the fullest step of the heap, and packs it (HeapSimulator::RunComputation).
func (p *Program) simulate(heap []int32) {
	slices.Sort(heap)
	type moment struct{ buffer, span int32 }
	begins, ends := make([][]moment, len(p.Steps)+1), make([][]moment, len(p.Steps)+1)
	single := map[int32]bool{}
	for _, i := range heap {
		b := &p.Buffers[i]
		if b.Bytes == 0 {
			continue
		}
		single[i] = b.values == 1
		for k, s := range b.Spans {
			begins[s.From] = append(begins[s.From], moment{i, int32(k)})
			ends[s.To] = append(ends[s.To], moment{i, int32(k)})
		}
	}
	var blocks []block
	at := map[int32]int32{}   // by buffer: its block
	live := map[int32]int{}   // by buffer: its tenant in the block
	gone := map[int32]int32{} // by buffer that another has overwritten: the step
	var clock, used int64
	most := int64(-1)
	a := &assigner{Program: p}
	for s := range begins {
		for _, x := range begins[s] {
			b := &p.Buffers[x.buffer]
			k, known := at[x.buffer]
			if !known {
				if from, ok := p.overwritten(a, int32(s), x.buffer, single, live, gone); ok {
					k = at[from]
					blocks[k].tenants[live[from]].to = clock
					clock++
					used -= p.Buffers[from].Bytes
					gone[from] = int32(s)
					b.Over = from
				} else {
					k = int32(len(blocks))
					blocks = append(blocks, block{})
				}
				at[x.buffer] = k
			}
			live[x.buffer] = len(blocks[k].tenants)
			blocks[k].tenants = append(blocks[k].tenants, tenant{x.buffer, clock, -1, b.Bytes})
			blocks[k].bytes = max(blocks[k].bytes, b.Bytes)
			clock++
			used += b.Bytes
		}
		if used > most {
			most, p.Peak = used, int32(s)
		}
		for _, x := range ends[s] {
			if _, ok := gone[x.buffer]; ok {
				continue
			}
			blocks[at[x.buffer]].tenants[live[x.buffer]].to = clock
			clock++
			used -= p.Buffers[x.buffer].Bytes
		}
	}
	p.HeapBytes = max(most, 0)
	p.ArenaBytes, p.Packed = pack(blocks)
	if !p.Packed {
		return
	}
	for i := range blocks {
		for _, t := range blocks[i].tenants {
			p.Buffers[t.buffer].Offset = blocks[i].offset
		}
	}
}

// overwritten finds an operand of a step that ends there and that the step may write a buffer over.
func (p *Program) overwritten(a *assigner, s, i int32, single map[int32]bool, live map[int32]int,
	gone map[int32]int32) (int32, bool) {
	if !single[i] || int(s) >= len(p.Steps) {
		return 0, false
	}
	step := &p.Steps[s]
	in := step.In()
	if in.Opcode == "copy" {
		return 0, false
	}
	index, ok := a.elementOf(s, i)
	if !ok {
		return 0, false
	}
	free := func(operand int32) (int32, bool) {
		j := p.buffer[step.frame.first[operand]]
		if _, there := live[j]; !there || !single[j] || p.Buffers[j].Maker != step.frame.steps[operand] {
			return j, false
		}
		_, done := gone[j]
		return j, !done && p.Buffers[j].Spans[len(p.Buffers[j].Spans)-1].To == s
	}
	for o, operand := range in.Operands {
		if j, ok := free(operand); ok && p.Buffers[j].Bytes > 0 && p.mayShare(step.Computation, in, o, index) {
			return j, true
		}
		for _, l := range step.leavesAlike(operand) {
			if j, ok := free(l); ok {
				return j, true
			}
		}
	}
	return 0, false
}

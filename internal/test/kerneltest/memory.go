package kerneltest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"memopt/executor"
	"memopt/graph"
)

// assigned makes the kernel of a node and returns its memory, nil for the host's, and the inputs
// that it reads on the host all the same.
func assigned(
	d executor.Device, p *executor.Prep,
) (executor.Kernel, executor.DeviceMemory, []int, error) {
	accelerator, ok := d.(executor.Accelerator)
	if !ok {
		k, err := d.Kernel(p)
		return k, nil, nil, err
	}
	at, err := accelerator.Assign(p)
	if err != nil || at.Host != "" {
		return at.Kernel, nil, nil, err
	}
	return at.Kernel, accelerator.Memory(), at.HostInputs, nil
}

// besideHost returns the reference for a device's outputs: the case's expected outputs, else the
// host's results.
func besideHost(t *testing.T, d executor.Accelerator, c *Case) []*executor.Tensor {
	host, err := Run(d.Host(), c, Setup{Threads: 1})
	if err != nil {
		t.Fatalf("%s: on the host: %v", c.Label(), err)
	}
	for i, want := range c.Want {
		if want != nil {
			host[i] = want
		}
	}
	return host
}

// deviceTolerance widens a case's tolerance for a device whose float arithmetic is its own: sums in
// another order, other approximations of functions. The host's kernels must meet the case's own
// tolerance.
func deviceTolerance(d executor.Device, t graph.DType, tol float64) float64 {
	if _, ok := d.(executor.Accelerator); !ok {
		return tol
	}
	switch t {
	case graph.Float32:
		return max(tol, 1e-5)
	case graph.Float64:
		return max(tol, 1e-12)
	case graph.Float16:
		return max(tol, 2e-3)
	case graph.BFloat16:
		return max(tol, 1.6e-2)
	}
	return tol
}

// canary is the byte around every piece of memory.
const canary = 0xa5

// memory hands out pieces with canaries around them. Pieces are kept from run to run, so that a
// second run with the same shapes does not allocate.
type memory struct {
	shift   int
	inPlace int // the input that output 0 overwrites, or -1
	shared  []byte
	pieces  []piece
	used    int
	scratch int
	device  executor.DeviceMemory // the memory of the pieces; nil on the host
	owned   []*memory             // of copies
}

type piece struct {
	whole []byte
	lo, n int
}

// close frees a device's memory.
func (m *memory) close() {
	for _, o := range m.owned {
		o.close()
	}
	m.drop(0)
}

// drop forgets the pieces from number i on.
func (m *memory) drop(i int) {
	if m.device != nil {
		for _, p := range m.pieces[i:] {
			m.device.Free(p.whole)
		}
	}
	m.pieces = m.pieces[:i]
}

// read returns a copy of the contents of b.
func (m *memory) read(b []byte) ([]byte, error) {
	if m.device == nil {
		return bytes.Clone(b), nil
	}
	data := make([]byte, (len(b)+7)&^7)[:len(b)]
	return data, m.device.CopyOut(data, b)
}

// fresh returns n bytes of canaries.
func (m *memory) fresh(n int) ([]byte, error) {
	if m.device == nil {
		return bytes.Repeat([]byte{canary}, n), nil
	}
	b, err := m.device.Alloc(n)
	if err == nil {
		err = m.device.Fill(b, canary)
	}
	return b, err
}

func (m *memory) start() { m.used, m.scratch = 0, 0 }

// piece returns n bytes at a multiple of 64, plus shift.
func (m *memory) piece(n int) ([]byte, error) {
	if m.used < len(m.pieces) && m.pieces[m.used].n == n {
		p := m.pieces[m.used]
		m.used++
		return p.whole[p.lo : p.lo+n : p.lo+n], nil
	}
	m.drop(m.used)
	whole, err := m.fresh(n + 512)
	if err != nil {
		return nil, err
	}
	lo := 64 + m.shift
	lo += 63 - int(uintptr(unsafe.Pointer(&whole[lo]))+63)&63
	m.pieces = append(m.pieces, piece{whole, lo, n})
	m.used++
	return whole[lo : lo+n : lo+n], nil
}

func (m *memory) Output(slot, n int) ([]byte, error) {
	if slot == 0 && m.inPlace >= 0 && len(m.shared) == n {
		return m.shared, nil
	}
	return m.piece(n)
}

func (m *memory) Scratch(n int) ([]byte, error) {
	m.scratch += executor.RoundUp(n)
	return m.piece(n)
}

// copyOf returns a copy of a tensor in memory of its own.
func (m *memory) copyOf(t *executor.Tensor) (*executor.Tensor, error) {
	own := &memory{shift: m.shift, inPlace: -1, device: m.device}
	m.owned = append(m.owned, own)
	data, err := own.piece(len(t.Data))
	if err != nil {
		return nil, err
	}
	if m.device == nil {
		copy(data, t.Data)
	} else if err := m.device.CopyIn(data, t.Data); err != nil {
		return nil, err
	}
	return &executor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape), Data: data}, nil
}

// check looks at the canaries, the workspace and the outputs' shapes.
func (m *memory) check(k executor.Kernel, in, out []*executor.Tensor) error {
	for _, p := range m.pieces {
		for _, at := range [][2]int{{0, p.lo}, {p.lo + p.n, len(p.whole)}} {
			around := p.whole[at[0]:at[1]]
			if m.device != nil {
				var err error
				if around, err = m.read(around); err != nil {
					return err
				}
			}
			for i, b := range around {
				if b != canary {
					return fmt.Errorf("a byte %d outside a piece of %d bytes has been written to", at[0]+i-p.lo, p.n)
				}
			}
		}
	}
	announced := 0
	if w, ok := k.(executor.Workspacer); ok {
		announced = w.Workspace(shapes(in), shapes(out))
	}
	if m.scratch > announced {
		return fmt.Errorf("the run took %d bytes of workspace, %d were announced", m.scratch, announced)
	}
	for i, t := range out {
		if t == nil {
			continue
		}
		if n, ok := executor.Bytes(t.DType, t.Shape); !ok || n != len(t.Data) {
			return fmt.Errorf("output %d: %v has %d bytes", i, t, len(t.Data))
		}
	}
	return nil
}

var _ executor.Memorizer = (*memory)(nil)

package kerneltest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"memopt/executor"
	"memopt/executor/small"
	"memopt/graph"
	"memopt/internal/half"
)

// Check runs a case on a device. It compares the outputs with the wanted ones, and makes sure that
// the kernel does not change its inputs, keeps within its memory and announced workspace, gives the
// same bits with several threads, at other addresses, in place and in a second run, which must not
// allocate.
func Check(t *testing.T, d executor.Device, c Case) {
	t.Helper()
	a, accelerates := d.(executor.Accelerator)
	first, err := Run(d, &c, Setup{Threads: 1, Runs: 2})
	if c.Fails != "" {
		if err == nil || !strings.Contains(err.Error(), c.Fails) {
			t.Fatalf("%s: got error %v, wanted one with %q", c.Label(), err, c.Fails)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", c.Label(), err)
	}
	want := c.Want
	if accelerates {
		want = besideHost(t, a, &c)
	}
	for i, want := range want {
		if want == nil {
			continue
		}
		if err := Compare(first[i], want, deviceTolerance(d, want.DType, c.Tol)); err != nil {
			t.Errorf("%s: output %d: %v", c.Label(), i, err)
		}
	}
	for n, s := range c.setups() {
		if accelerates { // whose doubles take most of the time of its tests: the first setup runs again and measures
			s.Runs, s.Measure = min(s.Runs, max(1, 2-n)), n == 0
		}
		again, err := Run(d, &c, s)
		if err != nil {
			t.Errorf("%s: %+v: %v", c.Label(), s, err)
			continue
		}
		for i := range again {
			if again[i] == nil {
				continue
			}
			if err := Compare(again[i], first[i], 0); err != nil {
				t.Errorf("%s: output %d differs under %+v: %v", c.Label(), i, s, err)
			}
		}
	}
}

// setups lists the ways to run a case besides the plain one.
func (c *Case) setups() []Setup {
	s := []Setup{{Threads: 3, Shift: 64, Runs: 3, Measure: true}, {Threads: 1, Shift: 192, Runs: 5, Measure: true}}
	for _, i := range c.prep(1).Info.InPlace {
		if i < len(c.In) && c.In[i] != nil && len(c.Out) > 0 && c.Out[0].Bits() == c.In[i].DType.Bits() {
			s = append(s, Setup{Threads: 3, InPlace: true, InPlaceOf: i, Runs: 1})
		}
	}
	return s
}

// Setup says how a case is run.
type Setup struct {
	Threads   int
	Shift     int  // added to the addresses of all operands
	InPlace   bool // output 0 in the memory of input InPlaceOf, where the sizes are equal
	InPlaceOf int
	Runs      int
	Step      uint64 // the number of the step
	Measure   bool   // whether to fail where the last run allocates on Go's heap
}

// Run runs a case and returns copies of its outputs.
func Run(d executor.Device, c *Case, s Setup) ([]*executor.Tensor, error) {
	p := c.prep(s.Threads)
	k, device, hostInputs, err := assigned(d, p)
	if err != nil {
		return nil, err
	}
	pool := executor.NewPool(s.Threads)
	defer pool.Close()
	m := &memory{shift: s.Shift, inPlace: -1, device: device}
	defer m.close()
	in, err := m.operands(c, hostInputs)
	if err != nil {
		return nil, err
	}
	out := make([]*executor.Tensor, len(c.Out))
	for i, t := range c.Out {
		if t != graph.Undefined {
			out[i] = &executor.Tensor{DType: t}
		}
	}
	if s.InPlace {
		m.inPlace, m.shared = s.InPlaceOf, in[s.InPlaceOf].Data
	}
	ctx := executor.NewCtx(p, pool, m, in, out)
	ctx.Step = s.Step
	for run := range max(s.Runs, 1) {
		m.start()
		if s.Measure && run == s.Runs-1 && run > 0 {
			if n := allocations(func() { m.start(); err = executor.Invoke(k, ctx) }); n > 0 && err == nil {
				err = fmt.Errorf("run %d allocates %v times on Go's heap", run+1, n)
			}
		} else {
			err = executor.Invoke(k, ctx)
		}
		if err != nil {
			return nil, err
		}
		if err := m.check(k, in, out); err != nil {
			return nil, err
		}
	}
	for i, t := range c.In {
		if t == nil || m.inPlace == i || slices.Contains(p.Info.Mutates, i) ||
			slices.Contains(hostInputs, i) && device != nil {
			continue
		}
		if err := m.unchanged(in[i], t); err != nil {
			return nil, fmt.Errorf("input %d %w", i, err)
		}
	}
	return out, m.fetch(out)
}

// operands returns copies of a case's inputs, in the device's memory but for those that the kernel
// reads on the host.
func (m *memory) operands(c *Case, hostInputs []int) (in []*executor.Tensor, err error) {
	in = make([]*executor.Tensor, len(c.In))
	for i, t := range c.In {
		if t == nil {
			continue
		}
		from := m
		if slices.Contains(hostInputs, i) {
			from = &memory{shift: m.shift, inPlace: -1}
		}
		if in[i], err = from.copyOf(t); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// unchanged compares an operand with a copy of its earlier contents.
func (m *memory) unchanged(t, was *executor.Tensor) error {
	data, err := m.read(t.Data)
	if err == nil && !bytes.Equal(data, was.Data) {
		err = errors.New("has been written to")
	}
	return err
}

// fetch puts copies on the host in the place of outputs.
func (m *memory) fetch(out []*executor.Tensor) error {
	for i, t := range out {
		if t == nil {
			continue
		}
		data, err := m.read(t.Data)
		if err != nil {
			return err
		}
		out[i] = &executor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape), Data: data}
	}
	return nil
}

// allocations counts how often a function allocates. The Go runtime allocates for itself
// occasionally, so the smallest of a few counts is the function's.
func allocations(f func()) float64 {
	least := testing.AllocsPerRun(1, f)
	for range 4 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

func shapes(ts []*executor.Tensor) [][]int {
	s := make([][]int, len(ts))
	for i, t := range ts {
		if t != nil {
			s[i] = t.Shape
			if s[i] == nil {
				s[i] = []int{}
			}
		}
	}
	return s
}

// Compare returns an error that says where got differs from want by more than
// tol*(1+|want|); with tol 0 floats must be equal bit for bit, NaNs among themselves.
func Compare(got, want *executor.Tensor, tol float64) error {
	if got == nil {
		return fmt.Errorf("is missing")
	}
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("is %v, wanted %v", got, want)
	}
	if got.DType == graph.String {
		return nil
	}
	if len(got.Data) != len(want.Data) {
		return fmt.Errorf("has %d bytes, wanted %d", len(got.Data), len(want.Data))
	}
	if small.IsPacked(want.DType) && !bytes.Equal(got.Data, want.Data) {
		return fmt.Errorf("%v is %x, wanted %x", got, got.Data, want.Data)
	}
	size := max(got.DType.Bits()/8, 1)
	for i := range len(want.Data) / size {
		g, w := got.Data[i*size:(i+1)*size], want.Data[i*size:(i+1)*size]
		if bytes.Equal(g, w) {
			continue
		}
		gf, ok := Float(got, i)
		if !ok {
			return fmt.Errorf("element %d is %x, wanted %x", i, g, w)
		}
		wf, _ := Float(want, i)
		if math.IsNaN(gf) && math.IsNaN(wf) || gf == wf && tol > 0 {
			continue
		}
		if tol == 0 || !(math.Abs(gf-wf) <= tol*(1+math.Abs(wf))) {
			return fmt.Errorf("element %d of %v is %v, wanted %v (tolerance %g)", i, got, gf, wf, tol)
		}
	}
	return nil
}

// Float returns element i of a float tensor; ok is false for other types.
func Float(t *executor.Tensor, i int) (v float64, ok bool) {
	switch t.DType {
	case graph.Float32:
		return float64(executor.Of[float32](t)[i]), true
	case graph.Float64:
		return executor.Of[float64](t)[i], true
	case graph.Float16:
		return float64(executor.Of[half.Float16](t)[i].Float32()), true
	case graph.BFloat16:
		return float64(executor.Of[half.BFloat16](t)[i].Float32()), true
	}
	if small.IsFloat(t.DType) {
		return float64(small.Values(t.DType)[small.Code(t.DType, t.Data, i)]), true
	}
	return 0, false
}

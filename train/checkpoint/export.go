package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
	"memopt/internal/memlimit"
	"memopt/train/safetensors"
)

// Exported counts the changes that Export made to a model.
type Exported struct {
	Weights []string // and running statistics that got other contents, in the order of the model's values
	Added   []string // of these, those that were inputs before
	Kept    int      // initializers that stayed as they were
	Bytes   int64    // of Weights
	// External is the size of the smallest initializer that lay in external data and has new
	// contents, which now lie in the checkpoint; 0 if there is no such initializer.
	External int64
}

// Export gives the initializers of a forward model their contents in the checkpoint. Parameters
// that are inputs become initializers. The contents are read from the checkpoint's files when they
// are used, so it must stay open. The error names weights that the model does not have, or has in
// another form; the model is then unchanged.
func (c *Checkpoint) Export(m *graph.Model) (*Exported, error) {
	g := m.Graph
	from := make([]*executor.Tensor, len(g.Values))
	var strangers []string
	for _, f := range []*safetensors.File{c.Weights, c.Others} {
		for _, e := range f.Entries() {
			v, ok := g.Lookup(e.Name)
			ok = ok && (g.Values[v].Input || g.Values[v].Data != nil)
			if !ok && f == c.Weights {
				strangers = append(strangers, e.Name)
			}
			if !ok {
				continue // a moment, for example
			}
			t, _ := f.Tensor(e.Name)
			if err := fits(&g.Values[v], t); err != nil {
				return nil, fmt.Errorf("%s: %w", m.Path, err)
			}
			from[v] = t
		}
	}
	if len(strangers) > 0 {
		const most = 5
		more := ""
		if n := len(strangers) - most; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		return nil, fmt.Errorf("%s has no input or initializer for %d of the checkpoint's %d weights: %s%s; "+
			"wanted the forward model that was trained, %s", m.Path, len(strangers), len(c.Weights.Entries()),
			strings.Join(strangers[:min(len(strangers), most)], ", "), more, c.Model.Path)
	}
	out := &Exported{}
	for i, t := range from {
		v := &g.Values[i]
		if t == nil {
			if v.IsInitializer() {
				out.Kept++
			}
			continue
		}
		out.Weights = append(out.Weights, v.Name)
		if old := v.Data; old == nil {
			out.Added = append(out.Added, v.Name)
		} else if old.External != nil && (out.External == 0 || int64(len(t.Data)) < out.External) {
			out.External = int64(len(t.Data))
		}
		out.Bytes += int64(len(t.Data))
		if err := put(m, graph.ValueID(i), t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fits returns an error unless a tensor can be the contents of a value.
func fits(v *graph.Value, t *executor.Tensor) error {
	typ := typeOf(v)
	same := typ.Form == graph.FormTensor && (typ.DType == t.DType || widens(typ.DType, t))
	same = same && typ.Shape.Rank() == t.Rank()
	for i := 0; same && i < t.Rank(); i++ {
		n, known := typ.Shape.Dims[i].Const()
		same = !known || n == int64(t.Shape[i])
	}
	if !same {
		return fmt.Errorf("%q has type %v in the model; the checkpoint has %v", v.Name, typ, t)
	}
	return nil
}

// typeOf is the type of an input or initializer.
func typeOf(v *graph.Value) graph.Type {
	if v.Data != nil {
		return v.Data.Type()
	}
	return v.Type
}

// widens reports whether a weight that a job had in bfloat16 is one of float32 in the model.
func widens(d graph.DType, t *executor.Tensor) bool {
	return d == graph.Float32 && t.DType == graph.BFloat16
}

// widened has the contents of a tensor of bfloat16 in float32.
type widened struct{ of *executor.Tensor }

// Bytes returns the contents.
func (w widened) Bytes() ([]byte, error) {
	if err := memlimit.Check(int64(2*len(w.of.Data)), "a weight in float32"); err != nil {
		return nil, err
	}
	out := make([]float32, w.of.Len())
	for i, x := range executor.Of[half.BFloat16](w.of) {
		out[i] = x.Float32()
	}
	return executor.Memory(out), nil
}

// initializersAreInputs is the last IR version that requires initializers to be inputs, too.
const initializersAreInputs = 3

// put makes a tensor the contents of an input or initializer.
func put(m *graph.Model, id graph.ValueID, t *executor.Tensor) error {
	g := m.Graph
	v := &g.Values[id]
	data := &graph.TensorData{Name: v.Name, DType: t.DType, Source: graph.Raw(t.Data)}
	if d := typeOf(v).DType; widens(d, t) {
		data.DType, data.Source = d, widened{t}
	}
	for _, d := range t.Shape {
		data.Dims = append(data.Dims, int64(d))
	}
	if v.Data != nil {
		data.Doc, v.Data = v.Data.Doc, data
		return nil
	}
	if m.IRVersion > initializersAreInputs {
		g.Inputs = slices.DeleteFunc(g.Inputs, func(d graph.Decl) bool { return d.Value == id })
		v.Input = false
	}
	_, err := g.AddInitializer(data)
	return err
}

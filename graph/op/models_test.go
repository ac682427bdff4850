package op_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// equalSymbols says which symbols of a model's inputs are one and the same dim in every
// legal run, or a number that its weights fix; the exporter gave each input names of
// its own.
var equalSymbols = map[string]map[string]string{
	"3layer_bloom_optimized_training": {
		"inputs_attention_mask_dim0": "inputs_input_ids_dim0", "inputs_labels_dim0": "inputs_input_ids_dim0",
		"inputs_labels_dim1": "inputs_attention_mask_dim1"},
	"training_model": {"output-0_dim0": "input-0_dim0"},
}

// fixedSymbols are dims that the weights or the constants of a model fix.
var fixedSymbols = map[string]symbolic.Env{
	"recompute_gelu": {"input1_dim1": 784},
	"recompute_tile": {"query_layer_dim0": 48, "input1_dim0": 24},
	"training_model": {"input-0_dim1": 784},
}

// TestSampleModels infers models that PyTorch and ONNX Runtime made from their inputs and
// initializers alone. Nothing may stay unknown, what the files declare must hold, and
// with numbers for symbols the shapes must be those that inference finds from numbers.
func TestSampleModels(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for _, f := range graphtest.AllSamples.Files(t) {
		t.Run(f.Name, func(t *testing.T) {
			s := inferSample(t, f.File)
			s.nothingUnknown(t)
			for range 3 {
				env := bindings(s.m.Graph, f.Name, rnd)
				s.declarationsHold(t, env)
				s.numbersAgree(t, f.File, env)
				if t.Failed() {
					t.Logf("seed %d, bindings %v", seed, env)
				}
			}
		})
	}
}

// sample is a model whose types were inferred from its inputs alone.
type sample struct {
	m        *graph.Model
	declared []graph.Decl // what the file says of other values
}

func inferSample(t *testing.T, file string) sample {
	m, closer, err := onnx.Open(file)
	require.NoError(t, err)
	t.Cleanup(func() { closer.Close() })
	s := sample{m, slices.Concat(m.Graph.ValueInfo, m.Graph.Outputs)}
	forget(m.Graph)
	res, err := op.Infer(m)
	require.NoError(t, err)
	require.Empty(t, res.NoRow, "nodes without a row")
	return s
}

func (s sample) nothingUnknown(t *testing.T) {
	for i := range s.m.Graph.Values {
		v := &s.m.Graph.Values[i]
		if declaredAlone(v) {
			continue
		}
		if !v.Type.Shape.Known() || v.Type.DType == graph.Undefined {
			t.Errorf("value %q has type %v", v.Name, v.Type)
		}
	}
}

// declaredAlone reports whether a file declares a value that no node makes, as optimizers leave behind.
func declaredAlone(v *graph.Value) bool {
	return v.Def == graph.NoNode && !v.Input && !v.IsInitializer()
}

// bindings gives every symbol of the inputs a number.
func bindings(g *graph.Graph, model string, rnd *rand.Rand) symbolic.Env {
	env := symbolic.Env{}
	for name, n := range fixedSymbols[model] {
		env[name] = n
	}
	for _, d := range g.Inputs {
		for _, dim := range d.Type.Shape.Dims {
			for _, name := range dim.Symbols() {
				if same, ok := equalSymbols[model][name]; ok {
					name = same
				}
				if _, bound := env[name]; !bound {
					env[name] = 2 + rnd.Int64N(30)
				}
			}
		}
	}
	for name, same := range equalSymbols[model] {
		env[name] = env[same]
	}
	return env
}

// declarationsHold compares what the file says of values with what was found. Exporters
// also write expressions as names of symbols; other names that no input has are labels.
func (s sample) declarationsHold(t *testing.T, env symbolic.Env) {
	for _, d := range s.declared {
		v := &s.m.Graph.Values[d.Value]
		if declaredAlone(v) {
			continue
		}
		if d.Type.DType != v.Type.DType {
			t.Errorf("value %q: declared %v, inferred %v", v.Name, d.Type, v.Type)
		}
		if !d.Type.Shape.Ranked {
			continue
		}
		require.Len(t, v.Type.Shape.Dims, len(d.Type.Shape.Dims), "value %q: declared %v, inferred %v",
			v.Name, d.Type, v.Type)
		for axis, e := range d.Type.Shape.Dims {
			if names := e.Symbols(); len(names) == 1 && e.Equal(symbolic.Sym(names[0])) {
				if parsed, err := symbolic.Parse(names[0]); err == nil {
					e = parsed
				}
			}
			want, err := e.Eval(env)
			if err != nil {
				continue
			}
			got, err := v.Type.Shape.Dims[axis].Eval(env)
			require.NoError(t, err, "value %q", v.Name)
			if got != want {
				t.Errorf("value %q: declared %v, inferred %v: dim %d is %d, wanted %d",
					v.Name, d.Type, v.Type, axis, got, want)
			}
		}
	}
}

// numbersAgree infers the model again with numbers in place of symbols.
func (s sample) numbersAgree(t *testing.T, file string, env symbolic.Env) {
	m, closer, err := onnx.Open(file)
	require.NoError(t, err)
	defer closer.Close()
	forget(m.Graph)
	for i := range m.Graph.Inputs {
		d := &m.Graph.Inputs[i]
		d.Type.Shape = bound(t, d.Type.Shape, env)
		m.Graph.Values[d.Value].Type = d.Type
	}
	_, err = op.Infer(m)
	require.NoError(t, err, "bindings %v", env)
	for i := range m.Graph.Values {
		v := &m.Graph.Values[i]
		if v.Def == graph.NoNode {
			continue
		}
		want := bound(t, s.m.Graph.Values[i].Type.Shape, env)
		if v.Type.Shape.String() != want.String() {
			t.Errorf("value %q: with numbers %v, with symbols %v = %v",
				v.Name, v.Type.Shape, s.m.Graph.Values[i].Type.Shape, want)
		}
	}
}

// bound evaluates the dims of a shape.
func bound(t *testing.T, s graph.Shape, env symbolic.Env) graph.Shape {
	out := graph.Dims(slices.Clone(s.Dims)...)
	for i, d := range out.Dims {
		n, err := d.Eval(env)
		require.NoError(t, err, "dim %v", d)
		out.Dims[i] = symbolic.Const(n)
	}
	return out
}

package onnxgo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend/x/gorgonnx"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"memopt"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	mo "memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/integrations/onnx-go"
	"memopt/symbolic"
)

// samples are the models beside the repository.
const samples = "../../../shared/models"

// refused says why onnx-go v0.5.0 and Gorgonia v0.9.18 do not run a sample: a part of the message.
// Those without an entry run.
var refused = map[string]string{
	"densenet121": "Pad not implemented", "gpt2_6l_256": "Shape not implemented",
	"gpt2_tiny": "Shape not implemented", "gpt2_tiny_logits": notDecoded, "gpt2_tiny_op17_untied": shapeMismatch,
	"gru_tiny": "Gather not implemented", "gru_unrolled_tiny": "Gather not implemented",
	"lenet_tiny": "Pad not implemented", "mlp_bce_tiny": "Elu not implemented",
	"mlp_deep_smooth_tiny": "axes in not an []int64", "mlp_dropout_bn_tiny": "Only CxBxHxW",
	"mobile_tiny":     "HardSwish not implemented",
	"resmlp_mse_tiny": "Pow not implemented",
}

// notDecoded and shapeMismatch are onnx-go's errors for bools in a tensor's raw data: it takes eight
// bytes for each.
const (
	notDecoded    = "Unable to decode data"
	shapeMismatch = "Shape mismatch"
)

// large samples are left out: they have the operators of smaller ones, and take seconds to fill.
var large = []string{"gpt2_124m", "gpt2_124m_op17_logits", "gpt2_medium", "vgg11_bn"}

// size is the binding of symbols that no data beside a sample tell.
const size = 2

// prepared is a model at fixed sizes, with its inputs by name.
type prepared struct {
	model  *memopt.Model
	data   []byte // the file of the same, for onnx-go
	inputs map[string]*executor.Tensor
}

// prepare reads a sample, binds its symbols, which onnx-go cannot take, and gives it inputs: those
// beside it, else made up.
func prepare(t testing.TB, file string) *prepared {
	t.Helper()
	m, err := memopt.Open(file, memopt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	folder, set := filepath.Join(filepath.Dir(file), "test_data_set_0"), &dataset.Set{}
	if _, err := os.Stat(folder); err == nil {
		set, err = dataset.LoadDir(folder, m.Graph, nil)
		require.NoError(t, err)
	}
	for _, n := range m.Graph.Nodes { // Gorgonia's losses are none of ONNX's: it computes their operands
		if n.Kind == op.SoftmaxCrossEntropyLoss {
			m, err = m.Inference([]string{m.Graph.ValueName(n.Inputs[0])}, nil)
			require.NoError(t, err)
			break
		}
	}
	x := m.Execution()
	for _, d := range m.Graph.Inputs {
		if name := m.Graph.Values[d.Value].Name; set.Inputs[name] != nil {
			x.Inputs[name] = set.Inputs[name]
		}
	}
	require.NoError(t, m.Bind(x.Inputs))
	for _, s := range m.Symbols() {
		if m.Dims[s] == 0 {
			m.Dims[s] = size
		}
	}
	x.Data = &dataset.Set{Inputs: x.Inputs}
	require.NoError(t, x.Fill(1))
	return &prepared{m, fixed(t, m), x.Inputs}
}

// fixed returns a model's file with numbers in place of symbols, and without types of inner values.
func fixed(t testing.TB, m *memopt.Model) []byte {
	t.Helper()
	c := m.Clone()
	c.Graph.ValueInfo = nil
	for _, list := range [][]graph.Decl{c.Graph.Inputs, c.Graph.Outputs} {
		for i := range list {
			d := &list[i]
			d.Wire = nil
			dims := make([]symbolic.Expr, len(d.Type.Shape.Dims))
			for k, e := range d.Type.Shape.Dims {
				n, err := e.Eval(m.Dims)
				require.NoError(t, err)
				dims[k] = symbolic.Const(n)
			}
			d.Type.Shape.Dims = dims
		}
	}
	path := filepath.Join(t.TempDir(), "fixed.onnx")
	require.NoError(t, mo.WriteFile(path, c, mo.Options{}))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

// decode decodes a model into a backend of onnx-go and gives it inputs. Panics are errors.
func (p *prepared) decode(b onnx.Backend) (m *onnx.Model, err error) {
	defer recovered(&err)
	m = onnx.NewModel(b)
	if err := m.UnmarshalBinary(p.data); err != nil {
		return nil, err
	}
	given := 0
	for _, d := range p.model.Graph.Inputs {
		v := &p.model.Graph.Values[d.Value]
		if v.IsInitializer() {
			continue
		}
		t, err := tensorOf(p.inputs[v.Name])
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		if err := m.SetInput(given, t); err != nil {
			return nil, err
		}
		given++
	}
	return m, nil
}

// execute computes the outputs by memopt, from the file.
func (p *prepared) execute(t *testing.T) []verify.Output {
	t.Helper()
	x := p.model.Execution()
	x.Inputs = p.inputs
	ran, err := x.Run(t.Context(), verify.Options{Engine: verify.On(cpu.Device{})})
	require.NoError(t, err)
	return ran.Outputs
}

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}

func tensorOf(t *executor.Tensor) (tensor.Tensor, error) {
	shape := tensor.WithShape(t.Shape...)
	switch t.DType {
	case graph.Float32:
		return tensor.New(shape, tensor.WithBacking(append([]float32(nil), executor.Of[float32](t)...))), nil
	case graph.Int64:
		return tensor.New(shape, tensor.WithBacking(append([]int64(nil), executor.Of[int64](t)...))), nil
	}
	return nil, fmt.Errorf("a tensor of %v", t.DType)
}

// elements lists the elements of a tensor, whose Data is a number if it is a scalar.
func elements(t tensor.Tensor) []float32 {
	if one, ok := t.Data().(float32); ok {
		return []float32{one}
	}
	return t.Data().([]float32)
}

// run runs a backend; panics are errors.
func run(b interface{ Run() error }) (err error) {
	defer recovered(&err)
	return b.Run()
}

// sampleFiles lists the forward models of the samples.
func sampleFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(samples + "/*/model.onnx")
	require.NoError(t, err)
	files = slices.DeleteFunc(files, func(f string) bool { return slices.Contains(large, sampleName(f)) })
	if len(files) == 0 {
		t.Skip("the sample models beside the repository are missing: ", samples)
	}
	return files
}

func sampleName(file string) string { return filepath.Base(filepath.Dir(file)) }

// TestGorgonia runs the samples by Gorgonia, which shares no code with memopt, and holds memopt's
// outputs to its. It gives a reason for each that it does not run.
func TestGorgonia(t *testing.T) {
	for _, file := range sampleFiles(t) {
		name := sampleName(file)
		t.Run(name, func(t *testing.T) {
			p := prepare(t, file)
			b := gorgonnx.NewGraph()
			decoded, err := p.decode(b)
			if err == nil {
				err = run(b)
			}
			if why, ok := refused[name]; ok {
				require.ErrorContains(t, err, why)
				return
			}
			require.NoError(t, err)
			got, err := decoded.GetOutputTensors()
			require.NoError(t, err)
			for i, want := range p.execute(t) {
				require.InDeltaSlice(t, executor.Of[float32](want.Tensor), elements(got[i]), 1e-4, want.Name)
			}
		})
	}
}

// TestThrough: memopt computes the same bits of a sample from onnx-go as of the file.
func TestThrough(t *testing.T) {
	for _, file := range sampleFiles(t) {
		name := sampleName(file)
		t.Run(name, func(t *testing.T) {
			p := prepare(t, file)
			b := onnxgo.New(onnxgo.Options{Opset: p.model.OpsetVersion("")})
			decoded, err := p.decode(b)
			if why := refused[name]; why == notDecoded || why == shapeMismatch {
				require.ErrorContains(t, err, why)
				return
			}
			require.NoError(t, err)
			b.Bind(decoded)
			require.NoError(t, run(b))
			got, err := decoded.GetOutputTensors()
			require.NoError(t, err)
			for i, want := range p.execute(t) {
				require.Equal(t, executor.Of[float32](want.Tensor), elements(got[i]), want.Name)
			}
		})
	}
}

// BenchmarkForward times one forward pass of the samples that both run, and reports the bytes that
// each allocates for it: memopt's arena once for all passes, Gorgonia's values by the allocator.
func BenchmarkForward(b *testing.B) {
	for _, file := range sampleFiles(b) {
		name := sampleName(file)
		if refused[name] != "" {
			continue
		}
		b.Run(name+"/gorgonia", func(b *testing.B) {
			g := gorgonnx.NewGraph()
			_, err := prepare(b, file).decode(g)
			require.NoError(b, err)
			require.NoError(b, run(g)) // the first pass compiles
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, run(g))
			}
		})
		b.Run(name+"/memopt", func(b *testing.B) {
			p := prepare(b, file)
			x := p.model.Execution()
			x.Inputs = p.inputs
			steps, err := verify.On(cpu.Device{}).Open(b.Context(), x.Planned, x.Inputs, verify.Options{})
			require.NoError(b, err)
			defer steps.Close()
			step := func() {
				_, err := steps.Step(b.Context())
				require.NoError(b, err)
			}
			step()
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(steps.Run().Predicted.Arena), "arena-bytes")
		})
	}
}

//go:build linux && (amd64 || arm64) && !nodl

package kerneltest_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/ort"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// newestOpset is the newest operator set of ONNX that ONNX Runtime 1.30 has kernels for.
const newestOpset = 25

// olderOpset is one for which the runtime has kernels that it lacks for newer ones.
const olderOpset = 17

// TestRuntime gives the cases to stock ONNX Runtime, under the names of its operators (aliases). It
// takes some types less than memopt, and refuses those cases; whatever it computes is what the case
// wants, but for the differences that are listed. Which operators it holds in this way is what the
// table of oracles says.
func TestRuntime(t *testing.T) {
	library, err := ort.Open(ort.Candidates(os.Getenv))
	var missing *ort.MissingError
	if errors.As(err, &missing) {
		t.Skip("ONNX Runtime is missing, which the test runs: npm install --ignore-scripts onnxruntime-node@1.30.0, " +
			"ORT_NODE_DIR names the folder: " + err.Error())
	}
	require.NoError(t, err)
	if v := library.Version(); !strings.HasPrefix(v, "1.30.") {
		t.Skipf("the divergences that are listed are those of ONNX Runtime 1.30, and here is %s: "+
			"npm install --ignore-scripts onnxruntime-node@1.30.0, then ORT_NODE_DIR", v)
	}
	agree, used := [op.NumKinds]int{}, make([]bool, len(divergences))
	total := 0
	for _, c := range cases() {
		kind, drawn := c.Kind, kerneltest.OracleOf(c.Kind).By == kerneltest.Streams
		c, ok := alias(c)
		if c.Fails != "" || !ok || drawn {
			continue
		}
		i := slices.IndexFunc(divergences, func(d divergence) bool { return d.fits(&c) })
		if i >= 0 && divergences[i].ends {
			used[i] = true
			continue
		}
		switch err := besideRuntime(library, &c); {
		case err == nil:
			agree[kind]++
			total++
		case !errors.As(err, new(*divergedError)):
			// refused
		case i < 0 && sumsNothing(&c):
			// What lay in memory: a kernel of the runtime that adds up nothing may write nothing.
		case i < 0:
			t.Errorf("%s: ONNX Runtime gives another result: %v", c.Label(), err)
		default:
			used[i] = true
		}
	}
	for i, d := range divergences {
		if !used[i] && !d.sometimes {
			t.Errorf("%s/%s: ONNX Runtime gives what the cases want: the reason %q is idle",
				op.Of(d.kind).Name, d.part, d.why)
		}
	}
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		require.Equal(t, kerneltest.OracleOf(k).By&kerneltest.Runtime != 0, agree[k] > 0,
			"op %s: ONNX Runtime confirms %d of its cases; internal/test/kerneltest/oracle_table.go says otherwise",
			op.Of(k).Name, agree[k])
	}
	t.Logf("ONNX Runtime gives the outputs that %d cases want", total)
}

// sumsNothing reports whether outputs have elements though an operand has none.
func sumsNothing(c *kerneltest.Case) bool {
	return slices.ContainsFunc(c.In, func(t *executor.Tensor) bool { return t != nil && t.Len() == 0 }) &&
		slices.ContainsFunc(c.Want, func(t *executor.Tensor) bool { return t != nil && t.Len() > 0 })
}

// divergedError says that the runtime has computed something else.
type divergedError struct{ error }

// besideRuntime compares what a case wants with what the runtime computes: with the operator set of
// the case, else with an older one; the operands being inputs, else those that are no floats
// constants.
func besideRuntime(library *ort.Library, c *kerneltest.Case) error {
	var first error
	for _, opset := range opsets(c) {
		for _, constants := range []bool{false, true} {
			err := runOnce(library, c, opset, constants)
			if err == nil || errors.As(err, new(*divergedError)) {
				return err
			}
			if first == nil {
				first = err
			}
			if !strings.Contains(err.Error(), "constant") {
				break
			}
		}
	}
	return first
}

// opsets lists the operator sets to try.
func opsets(c *kerneltest.Case) []int64 {
	info, wanted := op.Of(c.Kind), int64(c.Opset)
	if info.Domain != "" {
		return []int64{1}
	}
	if wanted == 0 {
		wanted = newestOpset
	}
	newest := wanted // of those that have the same version of the operator
	for n := wanted; n <= newestOpset && info.SinceVersion(n) == info.SinceVersion(wanted); n++ {
		newest = n
	}
	if c.Opset != 0 || info.SinceVersion(olderOpset) == info.SinceVersion(wanted) || info.Since[0] > olderOpset {
		return []int64{newest}
	}
	return []int64{newest, olderOpset}
}

func runOnce(library *ort.Library, c *kerneltest.Case, opset int64, constants bool) error {
	m, inputs, err := modelOf(c, opset, constants)
	if err != nil {
		return err
	}
	var file bytes.Buffer
	if err := onnx.Write(&file, m); err != nil {
		return err
	}
	session, err := library.NewSessionBytes(file.Bytes(), ort.Options{Threads: 1, Optimization: ort.Disable})
	if err != nil {
		return err
	}
	defer session.Close()
	feed, err := session.Feed(inputs)
	if err != nil {
		return err
	}
	defer feed.Close()
	results, err := session.Run(feed)
	if err != nil {
		return err
	}
	defer results.Close()
	at := 0
	for i, want := range c.Want {
		if c.Out[i] == graph.Undefined {
			continue
		}
		got, err := results.Copy(at)
		if err != nil {
			return err
		}
		if at++; want == nil {
			continue
		}
		if err := kerneltest.Compare(got, want, runtimeTolerance(c, want.DType)); err != nil {
			return &divergedError{fmt.Errorf("output %d: %w", i, err)}
		}
	}
	return nil
}

// runtimeTolerance widens a case's tolerance, since the runtime adds up in another order and
// approximates functions otherwise.
func runtimeTolerance(c *kerneltest.Case, d graph.DType) float64 {
	if op.DefinedSince(c.Kind) >= op.StochasticSince {
		return 0 // one unit of bfloat16 more or less would be another draw
	}
	switch d {
	case graph.Float16:
		return max(c.Tol, 5e-3)
	case graph.BFloat16:
		return max(c.Tol, 1.6e-2)
	}
	return max(c.Tol, 1e-5)
}

// modelOf makes a model of a case's node. Operands that are no floats may be constants.
func modelOf(c *kerneltest.Case, opset int64, constants bool) (*graph.Model, []ort.Named, error) {
	info := op.Of(c.Kind)
	g := graph.New("case", nil)
	m := &graph.Model{IRVersion: 10, Graph: g, Opsets: []graph.Opset{{Domain: info.Domain, Version: opset}}}
	if info.Domain != "" {
		m.Opsets = append(m.Opsets, graph.Opset{Version: max(olderOpset, op.DefinedSince(c.Kind))})
	}
	n := &graph.Node{Name: "node", Op: info.Name, Domain: info.Domain, Attrs: c.Attrs}
	var inputs []ort.Named
	for i, x := range c.In {
		if x == nil {
			n.Inputs = append(n.Inputs, graph.NoValue)
			continue
		}
		name := fmt.Sprint("x", i)
		if constants && !x.DType.IsFloat() {
			id, err := g.AddInitializer(&graph.TensorData{Name: name, DType: x.DType, Dims: longs(x.Shape),
				Source: graph.Raw(x.Data)})
			if err != nil {
				return nil, nil, err
			}
			n.Inputs = append(n.Inputs, id)
			continue
		}
		id := g.Value(name)
		declared := graph.Decl{Value: id, Type: graph.Tensor(x.DType, graph.Ints(longs(x.Shape)...))}
		if err := g.AddInput(declared); err != nil {
			return nil, nil, err
		}
		n.Inputs, inputs = append(n.Inputs, id), append(inputs, ort.Named{Name: name, Tensor: x})
	}
	for len(n.Inputs) > 0 && n.Inputs[len(n.Inputs)-1] == graph.NoValue {
		n.Inputs = n.Inputs[:len(n.Inputs)-1]
	}
	for i, d := range c.Out {
		if d == graph.Undefined {
			n.Outputs = append(n.Outputs, graph.NoValue)
			continue
		}
		id := g.Value(fmt.Sprint("y", i))
		if err := g.AddOutput(graph.Decl{Value: id, Type: graph.Tensor(d, graph.Shape{})}); err != nil {
			return nil, nil, err
		}
		n.Outputs = append(n.Outputs, id)
	}
	if err := g.AddNode(n); err != nil {
		return nil, nil, err
	}
	op.Bind(m)
	return m, inputs, op.Define(m)
}

func longs(shape []int) []int64 {
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	return dims
}

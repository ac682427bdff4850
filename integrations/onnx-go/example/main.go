// Command example loads a forward model by onnx-go and prints the bytes of a training step, as it
// is and by memopt's plan for a share of the memory.
//
//	go run ./example -shape x=batch,16 -shape target=batch,4 -dim batch=512 testdata/mlp.onnx
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/owulveryck/onnx-go"

	"memopt"
	"memopt/autograd"
	"memopt/integrations/onnx-go"
)

// pairs is a flag that is given as NAME=TEXT, once or more.
type pairs map[string]string

func (p pairs) String() string { return "" }

func (p pairs) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q: wanted NAME=VALUE", text)
	}
	p[name] = value
	return nil
}

func main() {
	shapes, dims := pairs{}, pairs{}
	opset := flag.Int64("opset", 13, "the operator set that the file imports")
	share := flag.Float64("share", 0.8, "the part of the peak that a plan may take")
	flag.Var(shapes, "shape", "the shape of an input whose dims the file names by symbols, such as x=batch,16")
	flag.Var(dims, "dim", "the size of a symbol, such as batch=512")
	flag.Parse()
	if err := show(flag.Arg(0), onnxgo.Options{Opset: *opset, Shapes: shapes}, dims, *share); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// show loads a model and plans its training step.
func show(file string, o onnxgo.Options, dims pairs, share float64) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	backend := onnxgo.New(o)
	decoded := onnx.NewModel(backend)
	if err := decoded.UnmarshalBinary(data); err != nil {
		return fmt.Errorf("onnx-go: %w", err)
	}
	model, err := backend.Model(decoded)
	if err != nil {
		return err
	}
	for symbol, size := range dims {
		if model.Dims[symbol], err = strconv.ParseInt(size, 10, 64); err != nil {
			return fmt.Errorf("the size of %s: %w", symbol, err)
		}
	}
	step, _, err := model.Training(autograd.Options{}, nil)
	if err != nil {
		return err
	}
	plan, err := step.Plan(context.Background(), memopt.Budget{Share: share}, memopt.PlanOptions{})
	if err != nil {
		return err
	}
	fmt.Printf("%d nodes; a step takes %d bytes beside inputs and weights\n", len(step.Graph.Nodes),
		plan.Baseline().Base.Peak.Bytes)
	fmt.Printf("by the plan: %d bytes, with %d nodes that run again\n", plan.Planned.Peak.Bytes, plan.Recompute.Nodes)
	return nil
}

package onnxgo_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/owulveryck/onnx-go"

	"memopt"
	"memopt/autograd"
	"memopt/integrations/onnx-go"
)

// A program that loads its model by onnx-go asks memopt for a training step within a budget.
func Example() {
	data, err := os.ReadFile("testdata/mlp.onnx")
	if err != nil {
		log.Fatal(err)
	}
	backend := onnxgo.New(onnxgo.Options{Opset: 13, Shapes: map[string]string{"x": "batch, 16", "target": "batch, 4"}})
	decoded := onnx.NewModel(backend)
	if err := decoded.UnmarshalBinary(data); err != nil {
		log.Fatal(err)
	}
	model, err := backend.Model(decoded)
	if err != nil {
		log.Fatal(err)
	}
	model.Dims["batch"] = 512
	step, _, err := model.Training(autograd.Options{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	plan, err := step.Plan(context.Background(), memopt.Budget{Share: 0.8}, memopt.PlanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("symbols:", model.Symbols())
	fmt.Println("some nodes run again:", len(plan.Placements) > 0)
	fmt.Println("arena within 80 % of the peak:", plan.Arena.Bytes*5 <= plan.Baseline().Base.Peak.Bytes*4)
	// Output:
	// symbols: [batch]
	// some nodes run again: true
	// arena within 80 % of the peak: true
}

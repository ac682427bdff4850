package memopt_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"memopt"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/planner"
)

// mustExample returns a built-in model with its symbols bound.
func mustExample(name string, dims map[string]int64) *memopt.Model {
	m, err := memopt.Example(name, memopt.Options{Dims: dims})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// A plan to a budget: the cheapest that is found whose arena fits.
func ExampleModel_Plan() {
	m := mustExample("mlp", map[string]int64{"batch": 8192})
	p, err := m.Plan(context.Background(), memopt.Budget{Share: 0.7}, memopt.PlanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("a step as it is peaks at %d bytes\n", p.Base.Peak.Bytes)
	fmt.Printf("%d nodes run again, and the arena takes %d bytes: fits %v\n",
		p.Recompute.Nodes, p.Arena.Bytes, p.Arena.Bytes <= p.Base.Peak.Bytes*7/10)
	// Output:
	// a step as it is peaks at 1685917604 bytes
	// 21 nodes run again, and the arena takes 1149046788 bytes: fits true
}

// What a plan saves, for sizes that are not known yet: a formula.
func ExampleModel_Plan_symbolic() {
	m := mustExample("transformer", nil)
	clear(m.Dims) // sizes are symbols again
	p, err := m.Plan(context.Background(), nil, memopt.PlanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range p.Clusters[:2] {
		fmt.Printf("%s saves %v bytes\n", row.ID, row.SavingExpr())
	}
	// Output:
	// Transpose+ saves 98304000.0 bytes
	// Add+ saves 24576.0*batch*seq bytes
}

// A model is rewritten and written, and what the file records is read back.
func ExamplePlan_Rewrite() {
	m := mustExample("mlp", map[string]int64{"batch": 8192})
	p, err := m.Plan(context.Background(), memopt.Level(planner.Layerwise), memopt.PlanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	anchors, err := p.Anchor() // for ONNX Runtime, which orders nodes by itself
	if err != nil {
		log.Fatal(err)
	}
	r, err := p.Rewrite(memopt.RewriteOptions{Anchors: anchors, Stock: true})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "memopt-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "out.onnx")
	if err := r.WriteFile(path, memopt.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	written, err := memopt.Open(path, memopt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer written.Close()
	fmt.Printf("%d nodes, of which %d run again\n", len(written.Graph.Nodes), r.Clones)
	// Output:
	// 337 nodes, of which 81 run again
}

// Both graphs are executed on the CPU, on inputs that are made up.
func ExampleExecution_Verify() {
	ctx := context.Background()
	m := mustExample("mlp", map[string]int64{"batch": 16})
	p, err := m.Plan(ctx, memopt.Level(planner.Layerwise), memopt.PlanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	r, err := p.Rewrite(memopt.RewriteOptions{})
	if err != nil {
		log.Fatal(err)
	}
	x, err := r.Execution()
	if err != nil {
		log.Fatal(err)
	}
	if err := x.Fill(1); err != nil {
		log.Fatal(err)
	}
	o := verify.Options{Engine: verify.On(cpu.Device{})}
	v, err := x.Verify(ctx, o, verify.Tolerance{Bitwise: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("equal numbers: %v\n", v.Equal)
	fmt.Printf("measured as planned: %v\n", v.Planned.Measured.Arena == p.Arena.Bytes)
	// Output:
	// equal numbers: true
	// measured as planned: true
}

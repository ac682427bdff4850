package memopt_test

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"memopt"
	"memopt/autograd"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
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
	// 17 nodes run again, and the arena takes 1149046788 bytes: fits true
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

// A policy decides for each stashed activation: this one recomputes those that are cheap to compute.
func ExamplePolicy() {
	m := mustExample("transformer", map[string]int64{"batch": 4, "seq": 128})
	cheap := []string{"Gelu", "Softmax", "LayerNormalization"}
	policy := memopt.Policy(func(a *memopt.Activation) (keep bool) { return !slices.Contains(cheap, a.Node.Op) })
	p, err := m.Plan(context.Background(), policy, memopt.PlanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("peak %d -> %d bytes for %.1f %% of a step\n", p.Base.Peak.Bytes, p.Planned.Peak.Bytes, 100*p.Overhead)
	// Output:
	// peak 365089212 -> 314738704 bytes for 4.7 % of a step
}

// quarter is a strategy of a program's own: it recomputes the largest quarter of the activations.
type quarter struct{}

func (quarter) Choose(_ context.Context, c *planner.Chooser) error {
	list := c.Activations()
	slices.SortStableFunc(list, func(x, y planner.Activation) int { return cmp.Compare(y.Bytes, x.Bytes) })
	before := c.Peak()
	for _, a := range list[:len(list)/4] {
		if _, err := c.Recompute(a.Value); err != nil {
			return err
		}
	}
	fmt.Println("lower:", c.Peak() < before)
	return nil
}

// Any type with the method Choose is a strategy.
func ExampleStrategy() {
	m := mustExample("mlp", map[string]int64{"batch": 8192})
	p, err := m.Plan(context.Background(), quarter{}, memopt.PlanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("recomputed nodes:", p.Recompute.Nodes)
	// Output:
	// lower: true
	// recomputed nodes: 12
}

// A forward model becomes a training step: its gradients and the update of its parameters.
func ExampleModel_Differentiate() {
	forward, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
net (float[batch, 6] x, int64[batch] y, float[6, 16] w1, float[16, 4] w2) => (float loss) {
	h = MatMul(x, w1)  r = Relu(h)  o = MatMul(r, w2)  loss = SoftmaxCrossEntropyLoss(o, y)
}`, "net")
	if err != nil {
		log.Fatal(err)
	}
	m, err := memopt.New(forward, memopt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	step, how, err := m.Differentiate(autograd.Options{}, &autograd.Optimizer{Kind: "sgd", LR: 0.1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("gradients of", how.Wrt)
	fmt.Printf("%d nodes, of which %d are forward ones\n", len(step.Graph.Nodes), len(m.Graph.Nodes))
	// Output:
	// gradients of [w1 w2]
	// 31 nodes, of which 4 are forward ones
}

// A plan is kept as a file under version control, and followed later.
func ExampleModel_PlanFile() {
	ctx := context.Background()
	m := mustExample("mlp", map[string]int64{"batch": 8192})
	p, err := m.Plan(ctx, memopt.Budget{Share: 0.7}, memopt.PlanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	data, err := p.File(0)
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "memopt-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "mlp.plan.json")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		log.Fatal(err)
	}
	saved, err := m.PlanFile(path)
	if err != nil {
		log.Fatal(err)
	}
	q, err := m.Plan(ctx, saved, memopt.PlanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same arena:", q.Arena.Bytes == p.Arena.Bytes)
	// Output:
	// the same arena: true
}

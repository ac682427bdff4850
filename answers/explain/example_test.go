package explain_test

import (
	"context"
	"fmt"
	"log"

	"memopt"
	"memopt/answers/explain"
)

// The largest values that are live at the peak, and the nodes that hold them there.
func ExampleExplain() {
	m, err := memopt.Example("mlp", memopt.Options{Dims: map[string]int64{"batch": 1024}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	p, err := m.Plan(ctx, nil, memopt.PlanOptions{})
	if err != nil {
		log.Fatal(err)
	}
	r, err := explain.Explain(ctx, p, explain.Options{Top: -1}) // no search for fixes
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("peak at", r.PeakNode)
	for _, v := range r.Values[:2] {
		fmt.Printf("%s: %d bytes, held by %s\n", v.Name, v.Bytes, v.HeldBy)
	}
	// Output:
	// peak at /act.7_Grad/Mul_1
	// /layers.0/Gemm_output_0: 8388608 bytes, held by /act.0_Grad/Mul_1
	// /act.0/Add_output_0: 8388608 bytes, held by /act.0_Grad/Mul_0
}

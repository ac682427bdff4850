// Command outside is a program of another module that uses memopt.
package main

import (
	"context"
	"fmt"
	"log"

	"memopt"
	"memopt/executor/cpu"
	"memopt/executor/verify"
)

func main() {
	ctx := context.Background()
	m, err := memopt.Example("mlp", memopt.Options{Dims: map[string]int64{"batch": 8}})
	if err != nil {
		log.Fatal(err)
	}
	p, err := m.Plan(ctx, memopt.Level(1), memopt.PlanOptions{})
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
	v, err := x.Verify(ctx, verify.Options{Engine: verify.On(cpu.Device{})}, verify.Tolerance{Bitwise: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := r.WriteFile("out.onnx", memopt.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("equal:", v.Equal, "clones:", r.Clones)
}

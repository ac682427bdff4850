package remat_test

import (
	"context"
	"fmt"
	"log"

	"memopt/planner/remat"
)

// A chain of three values: the last node reads the first and the third, and 20 bytes are too few for all of them.
func ExampleSolve() {
	in := &remat.Instance{Name: "chain", Budget: 20, Nodes: []remat.Node{
		{Cost: 2, Size: 10, Alias: -1}, // no value shares the memory of another
		{Cost: 3, Size: 10, Inputs: []int32{0}, Alias: -1},
		{Cost: 4, Size: 5, Inputs: []int32{1}, Alias: -1},
		{Cost: 1, Size: 1, Inputs: []int32{0, 2}, Alias: -1},
	}}
	r, err := remat.Solve(context.Background(), in, remat.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("cost %d, peak %d, optimal %v\n", r.Cost, r.Peak, r.Optimal)
	// Output:
	// cost 12, peak 20, optimal true
}

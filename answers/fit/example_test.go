package fit_test

import (
	"context"
	"fmt"
	"log"

	"memopt"
	"memopt/answers/fit"
)

// The largest batch of the built-in transformer that fits 4 GiB, without a plan and with one.
func ExampleLargest() {
	m, err := memopt.Example("transformer", memopt.Options{Dims: map[string]int64{"seq": 512}})
	if err != nil {
		log.Fatal(err)
	}
	delete(m.Dims, "batch") // the symbol that is varied
	r, err := fit.Largest(context.Background(), m, fit.Options{Vary: []string{"batch"}, Limit: 4 << 30,
		MaxOverhead: 0.1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("without a plan:", r.Sizes.By[fit.Plain].Value)
	fmt.Println("with a plan of at most 10 %:", r.Sizes.By[fit.Best].Value)
	// Output:
	// without a plan: 11
	// with a plan of at most 10 %: 18
}

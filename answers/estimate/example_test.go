package estimate_test

import (
	"context"
	"fmt"
	"log"

	"memopt"
	"memopt/answers/estimate"
)

// Whether a training step fits a device of 512 MiB, of which 64 MiB are reserved.
func ExampleMake() {
	m, err := memopt.Example("mlp", memopt.Options{Dims: map[string]int64{"batch": 1024}})
	if err != nil {
		log.Fatal(err)
	}
	reserve := int64(64 << 20)
	r, err := estimate.Make(context.Background(), m, estimate.Options{Memory: 512 << 20, Reserve: &reserve})
	if err != nil {
		log.Fatal(err)
	}
	fits, _ := r.Fits()
	fmt.Printf("%d bytes, fits: %v\n", r.Plain.Total(), fits)
	// Output:
	// 423624704 bytes, fits: true
}

package pack

import (
	"context"
	"fmt"
	"math/rand"
	"testing"
	"time"
)

func TestX(t *testing.T) {
	for _, c := range "ABCDEFGHIJK" {
		b := minimalloc(t, string(c))
		r, err := Solve(context.Background(), b, Options{})
		fmt.Println(string(c), len(b), r.Height, r.LowerBound, float64(r.Height)/float64(r.LowerBound), r.Method, err, Check(b, r.Offsets, 0))
	}
	for _, span := range []int64{100, 10000, 90000, 200000} {
		rng := rand.New(rand.NewSource(1))
		var b []Buffer
		for i := 0; i < 100000; i++ {
			lo := rng.Int63n(100000)
			b = append(b, Buffer{lo, lo + 1 + rng.Int63n(span), 1 + rng.Int63n(1000)})
		}
		s := time.Now()
		r := Greedy(b)
		fmt.Println(span, time.Since(s), float64(r.Height)/float64(r.LowerBound), r.Method)
		s = time.Now()
		fmt.Println(Check(b, r.Offsets, 0), time.Since(s))
	}
}

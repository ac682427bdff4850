package jax

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// Format and Version name the files of memopt.jax.names (python/src/memopt/jax/_names.py).
const (
	Format  = "memopt-names"
	Version = 1
)

// Program is a step by jax.value_and_grad of a loss whose layers are under jax.checkpoint.
type Program struct {
	JAX   string   // its version
	Held  int64    // bytes that are in memory beside the arguments throughout
	Names []string // those that the loss gives, in alphabetical order
	// The step whose checkpoints keep no value (Nothing), and the one without checkpoints (Everything).
	Nothing, Everything *Body
	// Free are the regions without a barrier against common subexpressions (prevent_cse=False).
	Free map[int32]bool
}

// Body is a row of equations: the step, or the body of a loop.
type Body struct {
	Bytes   []int64 `json:"bytes"` // by value
	Inputs  []int32 `json:"inputs"`
	Outputs []int32 `json:"outputs"` // -1: a constant
	Steps   []Step  `json:"steps"`
}

// Step is an equation of a jaxpr.
type Step struct {
	Primitive string  `json:"op"`
	In        []int32 `json:"in"` // -1: a constant
	Out       []int32 `json:"out"`
	FLOPs     int64   `json:"flops"`
	Type      string  `json:"type"` // of a product of matrices or a convolution, for example bfloat16
	// Name is that of a named value; Of tells the places apart where the loss names values, and is the same for the
	// value and for its making anew.
	Name string `json:"name"`
	Of   int32  `json:"of"`
	// Region is the checkpoint whose values the backward half makes anew there, by number; nil outside of them.
	Region *int32 `json:"region"`
	// A scan has its body, how often it runs, and how many of the operands are the same each time (Consts), and are
	// handed from turn to turn (Carry); the others are stacks, one slice for each turn.
	Bodies        []*Body `json:"bodies"`
	Length        int64   `json:"length"`
	Consts, Carry int
}

// maxDepth bounds bodies in bodies.
const maxDepth = 64

// IsNames reports whether a file begins as one of memopt.jax.names does.
func IsNames(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	return bytes.HasPrefix(head, []byte("{")) && bytes.Contains(head[:min(len(head), 256)], []byte(`"`+Format+`"`))
}

// Read reads a file of memopt.jax.names. The error says which part of it is wrong.
func Read(r io.Reader) (*Program, error) {
	var f struct {
		Format     string   `json:"format"`
		Version    int      `json:"version"`
		JAX        string   `json:"jax"`
		Held       int64    `json:"held_bytes"`
		Names      []string `json:"names"`
		Free       []int32  `json:"free"`
		Nothing    *Body    `json:"nothing"`
		Everything *Body    `json:"everything"`
	}
	if err := json.NewDecoder(r).Decode(&f); err != nil {
		return nil, fmt.Errorf("wanted names as memopt.jax.names writes them: %w", err)
	}
	switch {
	case f.Format != Format || f.Version != Version:
		return nil, fmt.Errorf("is of format %q, version %d: wanted %q, version %d", f.Format, f.Version, Format,
			Version)
	case f.Held < 0 || f.Held > math.MaxInt64/4:
		return nil, fmt.Errorf("held_bytes is %d", f.Held)
	case f.Nothing == nil || f.Everything == nil:
		return nil, fmt.Errorf("has not both steps: wanted nothing and everything")
	}
	p := &Program{f.JAX, f.Held, f.Names, f.Nothing, f.Everything, map[int32]bool{}}
	for _, r := range f.Free {
		p.Free[r] = true
	}
	for _, x := range []struct {
		name string
		body *Body
	}{{"nothing", p.Nothing}, {"everything", p.Everything}} {
		var total int64
		if err := x.body.check(0, &total); err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return p, nil
}

// check finds faults of a body: each value is made once, before it is read.
func (b *Body) check(depth int, total *int64) error {
	if depth > maxDepth {
		return fmt.Errorf("bodies lie in each other more than %d deep", maxDepth)
	}
	for i, n := range b.Bytes {
		if n < 0 || n > math.MaxInt64/4-*total {
			return fmt.Errorf("value %d has %d bytes", i, n)
		}
		*total += n
	}
	made := make([]bool, len(b.Bytes))
	err := b.make(made, b.Inputs)
	for i := 0; i < len(b.Steps) && err == nil; i++ {
		if err = b.step(&b.Steps[i], made, depth, total); err != nil {
			err = fmt.Errorf("step %d (%s): %w", i, b.Steps[i].Primitive, err)
		}
	}
	if err == nil {
		err = read(made, b.Outputs)
	}
	return err
}

func (b *Body) make(made []bool, values []int32) error {
	for _, v := range values {
		if v < 0 || int(v) >= len(b.Bytes) || made[v] {
			return fmt.Errorf("makes value %d, which is there already or not one of %d", v, len(b.Bytes))
		}
		made[v] = true
	}
	return nil
}

func read(made []bool, values []int32) error {
	for _, v := range values {
		if v < -1 || int(v) >= len(made) || v >= 0 && !made[v] {
			return fmt.Errorf("reads value %d before it is made", v)
		}
	}
	return nil
}

func (b *Body) step(s *Step, made []bool, depth int, total *int64) error {
	if err := read(made, s.In); err != nil {
		return err
	}
	if err := b.make(made, s.Out); err != nil {
		return err
	}
	switch {
	case s.FLOPs < 0:
		return fmt.Errorf("has %d operations", s.FLOPs)
	case s.Primitive == "name" && (len(s.In) > 1 || len(s.Out) != 1 || s.Name == ""):
		return fmt.Errorf("names %d of %d values %q", len(s.Out), len(s.In), s.Name)
	}
	for _, x := range s.Bodies {
		if x == nil {
			return fmt.Errorf("has a body of null")
		}
		if err := x.check(depth+1, total); err != nil {
			return err
		}
	}
	if s.Primitive != "scan" {
		return nil
	}
	switch {
	case len(s.Bodies) != 1 || s.Length < 0 || s.Length > math.MaxInt32:
		return fmt.Errorf("has %d bodies and %d turns: wanted a body", len(s.Bodies), s.Length)
	case s.Consts < 0 || s.Carry < 0 || s.Consts+s.Carry > len(s.In) || s.Carry > len(s.Out),
		len(s.In) != len(s.Bodies[0].Inputs), len(s.Out) != len(s.Bodies[0].Outputs):
		return fmt.Errorf("has %d operands and %d results, %d constants and %d carried values; its body %d and %d",
			len(s.In), len(s.Out), s.Consts, s.Carry, len(s.Bodies[0].Inputs), len(s.Bodies[0].Outputs))
	}
	return nil
}

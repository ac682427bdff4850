// Package emit writes plans for other frameworks' own ways of recomputing: each has a vocabulary of decisions, for
// example whole modules, or operators of a module by name. A plan is the best setting found in that vocabulary, and
// its peak is that of a simulation of the mechanism, which keeps and recomputes other values than memopt would.
package emit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"memopt/python/pytorch"
)

// Target is a mechanism of another framework.
type Target struct {
	Name    string
	Title   string
	Decides string // the decisions that it has words for
	// Traced: it needs a step that PyTorch traced (sim/torch.Traced), since it names PyTorch's operators.
	Traced bool
	Moves  bool // it has words for values that move to the host
	torch  func(ctx context.Context, p *pytorch.Plan, a *Answer) error
	jax    func(ctx context.Context, n *names) error
}

// JAX reports whether a target is for steps of JAX (sim/jax.Program), else for those of PyTorch.
func (t *Target) JAX() bool { return t.jax != nil }

// targets has the known mechanisms, by name.
var targets = []*Target{
	{Name: "torch", Title: "torch.utils.checkpoint", Decides: "whole modules", torch: wholeModules},
	{Name: "torch-policy", Title: "torch.utils.checkpoint with a policy", Decides: "operators of modules, each call",
		Traced: true, torch: selective},
	{Name: "torch-remat", Title: "torch_remat", Decides: "modules of blocks", Traced: true, torch: rematRegions},
	{Name: "torchtitan", Title: "torchtitan's activation checkpoints", Decides: "one set of operators for all layers",
		Traced: true, torch: titan},
	{Name: "megatron", Title: "Megatron-LM's activation recomputation", Decides: "one list of modules for all layers",
		Traced: true, Moves: true, torch: megatron},
	{Name: "jax", Title: "jax.checkpoint", Decides: "named values", Moves: true, jax: jaxPolicy},
	{Name: "maxtext", Title: "MaxText's custom remat_policy", Decides: "MaxText's named values", Moves: true,
		jax: maxtext},
}

// Lookup returns the target of a name. The error lists the known ones.
func Lookup(name string) (*Target, error) {
	i := slices.IndexFunc(targets, func(t *Target) bool { return t.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%q is no target: wanted one of %s", name, strings.Join(Names(), ", "))
	}
	return targets[i], nil
}

// Names lists the targets.
func Names() []string {
	var out []string
	for _, t := range targets {
		out = append(out, t.Name)
	}
	return out
}

// Package jax simulates the memory of a step of JAX whose layers are under jax.checkpoint with a policy that keeps
// named values (jax.checkpoint_policies.save_and_offload_only_these_names).
//
// memopt.jax.names writes the step as if no value was kept: the backward half makes each layer's values again, in
// equations of its own. A policy makes a kept value's second making a read of the first (Program.With), and
// equations without readers go, as JAX's partial evaluation has it. Bodies of loops hand kept values on in stacks.
//
// The peak (Body.Peak) is that of the equations in their order, with elementwise ones fused into their readers as
// XLA's compiler for the CPU fuses them, and results in the memory of operands that end there.
package jax

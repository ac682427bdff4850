// Package hlo reads the modules of XLA's compiler (HLO): the text of `jax.jit(f).lower(...).compile().as_text()`, and
// the files that XLA dumps (--xla_dump_to), as text or as a protocol buffer, HloModuleProto or HloProto. Both forms
// give one struct, [Module].
//
// The package knows shapes, operands, called computations, donated inputs, and where an instruction comes from in the
// source. It knows no operator: an opcode without a meaning here is read as any other, since every instruction states
// the shape of its result. Package sim/xla has the meaning that a plan needs: who shares memory with whom.
//
// Text and numbers of fields follow github.com/openxla/xla: xla/hlo/parser/hlo_parser.cc, xla/service/hlo.proto and
// xla/xla_data.proto.
package hlo

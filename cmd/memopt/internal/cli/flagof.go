package cli

import (
	"strings"

	"memopt/hint"
)

// flagOf are the flags that stand for options of the library, some with a verb that has them.
var flagOf = [hint.NumOptions]string{
	hint.Accumulation:     "--gradient-accumulation-steps",
	hint.Batch:            "--batch",
	hint.Blocking:         "--blocking",
	hint.Dims:             "--dim",
	hint.Format:           "--data-format",
	hint.FreezeInputs:     "--freeze-inputs",
	hint.Init:             "--init",
	hint.Interleave:       "--interleave",
	hint.Last:             "--last-batch",
	hint.Microbatches:     "--microbatches",
	hint.Names:            "--input",
	hint.OnNaN:            "--on-nan",
	hint.Opset:            "--opset",
	hint.Pipeline:         "--pp",
	hint.Profile:          "memopt run --profile",
	hint.Record:           "--record",
	hint.Replicas:         "--dp",
	hint.SavePlan:         "plan --save-plan",
	hint.SequenceParallel: "--sequence-parallel",
	hint.Shuffle:          "--shuffle",
	hint.States:           "--state",
	hint.TensorParallel:   "--tp",
	hint.TokenType:        "--token-type",
	hint.Zero:             "--zero",
}

// Flags words the library's advice about an option: "--dim seq=256". It is the hint.Style of all
// errors, warnings and reports of the program.
func Flags(u hint.Use) string { return strings.TrimSpace(flagOf[u.Option] + " " + u.Value) }

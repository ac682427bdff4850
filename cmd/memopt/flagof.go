package main

import (
	"strings"

	"memopt/hint"
)

// flagOf are the flags that stand for options of the library, some with a verb that has them.
var flagOf = [hint.NumOptions]string{
	hint.Accumulation:     "--gradient-accumulation-steps",
	hint.Backend:          "-e",
	hint.Batch:            "--batch",
	hint.Blocking:         "--blocking",
	hint.Budget:           "--budget",
	hint.Chunk:            "--chunk",
	hint.CloneBytes:       "--clone-bytes",
	hint.Config:           "--config",
	hint.Device:           "--device",
	hint.Dims:             "--dim",
	hint.Format:           "--data-format",
	hint.FreezeInputs:     "--freeze-inputs",
	hint.GradientNorm:     "--max-grad-norm",
	hint.Init:             "--init",
	hint.Interleave:       "--interleave",
	hint.Keep:             "--keep",
	hint.Last:             "--last-batch",
	hint.Layerwise:        "--level",
	hint.Memory:           "--gpu",
	hint.MemoryPattern:    "--mem-pattern",
	hint.Microbatches:     "--microbatches",
	hint.Names:            "--input",
	hint.OnNaN:            "--on-nan",
	hint.Opset:            "--opset",
	hint.Optimizer:        "--optimizer",
	hint.Order:            "--order",
	hint.Pipeline:         "--pp",
	hint.PlanFile:         "--plan",
	hint.Precision:        "--precision",
	hint.Profile:          "memopt run --profile",
	hint.Recompute:        "--recompute",
	hint.Record:           "--record",
	hint.Replicas:         "--dp",
	hint.SavePlan:         "plan --save-plan",
	hint.SequenceParallel: "--sequence-parallel",
	hint.Shuffle:          "--shuffle",
	hint.States:           "--state",
	hint.TensorParallel:   "--tp",
	hint.TokenType:        "--token-type",
	hint.Top:              "--top",
	hint.Verbose:          "-v",
	hint.Workspace:        "--cudnn-conv-use-max-workspace",
	hint.Zero:             "--zero",
}

// flags words the library's advice about an option: "--dim seq=256". It is the hint.Style of all
// errors, warnings and reports of the program.
func flags(u hint.Use) string { return strings.TrimSpace(flagOf[u.Option] + " " + u.Value) }

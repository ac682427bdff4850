package cli

import (
	"strings"

	"memopt/hint"
)

// flagOf are the flags that stand for options of the library, some with a verb that has them.
var flagOf = [hint.NumOptions]string{
	hint.Accumulation:     "--gradient-accumulation-steps",
	hint.AllocatorConf:    "--allocator-conf",
	hint.ArenaExtend:      "--arena-extend-strategy",
	hint.Batch:            "--batch",
	hint.Blocking:         "--blocking",
	hint.Blocks:           "--blocks",
	hint.Budget:           "--budget",
	hint.Chunk:            "--chunk",
	hint.CloneBytes:       "--clone-bytes",
	hint.Config:           "--config",
	hint.ConvWorkspace:    "--cudnn-conv-use-max-workspace",
	hint.Device:           "--device",
	hint.Dims:             "--dim",
	hint.Format:           "--data-format",
	hint.FreezeInputs:     "--freeze-inputs",
	hint.HostBudget:       "--host-budget",
	hint.HostDir:          "--host-dir",
	hint.Init:             "--init",
	hint.Interleave:       "--interleave",
	hint.Keep:             "--keep",
	hint.Last:             "--last-batch",
	hint.Level:            "--level",
	hint.MaxNorm:          "--max-grad-norm",
	hint.MemPattern:       "--mem-pattern",
	hint.Memory:           "--gpu",
	hint.Microbatches:     "--microbatches",
	hint.Names:            "--input",
	hint.OnNaN:            "--on-nan",
	hint.Opset:            "--opset",
	hint.Optimizer:        "--optimizer",
	hint.Order:            "--order",
	hint.Pipeline:         "--pp",
	hint.PlanFile:         "--plan",
	hint.Precision:        "--precision",
	hint.Probe:            "--probe",
	hint.Profile:          "memopt run --profile",
	hint.Recompute:        "--recompute",
	hint.Record:           "--record",
	hint.Replicas:         "--dp",
	hint.SavePlan:         "plan --save-plan",
	hint.Select:           "--select",
	hint.SequenceParallel: "--sequence-parallel",
	hint.Shuffle:          "--shuffle",
	hint.States:           "--state",
	hint.StepMicros:       "--accumulate",
	hint.TensorParallel:   "--tp",
	hint.Threads:          "--threads",
	hint.TokenType:        "--token-type",
	hint.Top:              "--top",
	hint.Try:              "doctor --try",
	hint.Zero:             "--zero",
}

// flags words the library's advice about an option: "--dim seq=256".
func flags(u hint.Use) string { return strings.TrimSpace(flagOf[u.Option] + " " + u.Value) }

func init() { hint.Words = flags }

package hint

// Option is an option of the library that advice may name.
type Option int

// The options, with the fields that they stand for.
const (
	Accumulation     Option = iota // Micros of train.Recipe and train.Config
	AllocatorConf                  // Conf of estimate.Options
	ArenaExtend                    // Exact of ort.Options
	Batch                          // Batch of train.Settings
	Blocking                       // Blocking of executor.Options
	Blocks                         // Blocks of data.Options
	Budget                         // memopt.Budget
	Chunk                          // Chunk of memopt.PlanOptions
	CloneBytes                     // CloneBytes of memopt.PlanOptions
	Config                         // memopt.Config
	ConvWorkspace                  // ConvClamp of cuda.Options
	Device                         // Device of estimate.Options
	Dims                           // Dims of memopt.Options
	Format                         // Format of data.Options
	FreezeInputs                   // FreezeInputs of optimize.Options
	HostBudget                     // HostBudget of memopt.MoveOptions
	HostDir                        // Home of train.Recipe
	Init                           // Begin and RandomSeed of train.Config
	Interleave                     // Interleave of parallel.Layout
	Keep                           // Keep of memopt.PlanOptions
	Last                           // Order.Last of train.Config
	Level                          // memopt.Level
	MaxNorm                        // MaxNorm of autograd.Optimizer
	MemPattern                     // NoPattern of ort.Options
	Memory                         // Memory of estimate.Options
	Microbatches                   // Microbatches of parallel.Layout
	Names                          // Names of data.Options
	OnNaN                          // OnNaN of train.Config
	Opset                          // Opset of optimize.Options
	Optimizer                      // Optimizer of train.Recipe
	Order                          // Order of memopt.PlanOptions
	Pipeline                       // PP of parallel.Layout
	PlanFile                       // memopt.PlanFile
	Precision                      // Precision of estimate.Options
	Probe                          // Probe of memopt.PlanOptions
	Profile                        // the trace of a session's nodes
	Recompute                      // Recompute of memopt.PlanOptions
	Record                         // Record of data.Options
	Replicas                       // DP of parallel.Layout
	SavePlan                       // the record of a plan, written as JSON
	Select                         // what a plan chooses among: memopt.Policy, pytorch.Make for modules
	SequenceParallel               // SequenceParallel of parallel.Layout
	Shuffle                        // Order.Shuffle of train.Config
	States                         // States of memopt.Options
	StepMicros                     // Micros of the recipe of estimate.Options
	TensorParallel                 // TP of parallel.Layout
	Threads                        // Threads of executor.Options
	TokenType                      // TokenType of data.Options
	Top                            // Top of explain.View
	Try                            // doctor.Trial
	Zero                           // Zero of parallel.Layout
	NumOptions
)

// names are the options in the library.
var names = [NumOptions]string{
	Accumulation:     "Micros",
	AllocatorConf:    "Conf",
	ArenaExtend:      "arena_extend_strategy",
	Batch:            "Batch",
	Blocking:         "Blocking",
	Blocks:           "Blocks",
	Budget:           "Budget",
	Chunk:            "Chunk",
	CloneBytes:       "CloneBytes",
	Config:           "Config",
	ConvWorkspace:    "cudnn_conv_use_max_workspace",
	Device:           "Device",
	Dims:             "Dims",
	Format:           "Format",
	FreezeInputs:     "FreezeInputs",
	HostBudget:       "HostBudget",
	HostDir:          "Home",
	Init:             "Begin",
	Interleave:       "Interleave",
	Keep:             "Keep",
	Last:             "Order.Last",
	Level:            "Level",
	MaxNorm:          "MaxNorm",
	MemPattern:       "enable_mem_pattern",
	Memory:           "Memory",
	Microbatches:     "Microbatches",
	Names:            "Names",
	OnNaN:            "OnNaN",
	Opset:            "Opset",
	Optimizer:        "Optimizer",
	Order:            "Order",
	Pipeline:         "PP",
	PlanFile:         "PlanFile",
	Precision:        "Precision",
	Probe:            "Probe",
	Profile:          "Profile",
	Recompute:        "Recompute",
	Record:           "Record",
	Replicas:         "DP",
	SavePlan:         "SavePlan",
	Select:           "Select",
	SequenceParallel: "SequenceParallel",
	Shuffle:          "Order.Shuffle",
	States:           "States",
	StepMicros:       "Recipe.Micros",
	TensorParallel:   "TP",
	Threads:          "Threads",
	TokenType:        "TokenType",
	Top:              "Top",
	Try:              "Try",
	Zero:             "Zero",
}

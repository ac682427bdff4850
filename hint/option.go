package hint

// Option is an option of the library that advice may name.
type Option int

// The options, with the fields that they stand for.
const (
	Accumulation     Option = iota // Micros of train.Recipe and train.Config
	Backend                        // the executor.Device or resident.Engine that computes
	Batch                          // Batch of train.Settings
	Blocking                       // Blocking of executor.Options
	Budget                         // memopt.Budget as the Strategy
	Chunk                          // Chunk of planner.Options
	CloneBytes                     // CloneBytes of planner.Options
	Config                         // memopt.File as the Strategy
	Device                         // Device of the options of an estimate
	Dims                           // Dims of memopt.Options
	Format                         // Format of data.Options
	FreezeInputs                   // FreezeInputs of optimize.Options
	GradientNorm                   // Optimizer.MaxNorm of train.Recipe
	Init                           // Begin and RandomSeed of train.Config
	Interleave                     // Interleave of parallel.Layout
	Keep                           // Keep of planner.Options
	Last                           // Order.Last of train.Config
	Layerwise                      // memopt.Level as the Strategy
	Memory                         // Memory of the options of an estimate
	MemoryPattern                  // OnDemand of executor.Options, NoPattern of ort.Options
	Microbatches                   // Microbatches of parallel.Layout
	Names                          // Names of data.Options
	OnNaN                          // OnNaN of train.Config
	Opset                          // Opset of optimize.Options
	Optimizer                      // Optimizer.Kind of train.Recipe
	Order                          // Order of planner.Options
	Pipeline                       // PP of parallel.Layout
	PlanFile                       // memopt.PlanFile as the Strategy
	Precision                      // Precision of the options of an estimate
	Profile                        // the trace of a session's nodes
	Recompute                      // Recompute of planner.Options
	Record                         // Record of data.Options
	Replicas                       // DP of parallel.Layout
	SavePlan                       // the record of a plan, written as JSON
	SequenceParallel               // SequenceParallel of parallel.Layout
	Shuffle                        // Order.Shuffle of train.Config
	States                         // States of memopt.Options
	TensorParallel                 // TP of parallel.Layout
	TokenType                      // TokenType of data.Options
	Top                            // Top of a report's View
	Verbose                        // All, Verbose or Listed of a report's View
	Workspace                      // the limit of cuDNN's workspace of cuda.Options
	Zero                           // Zero of parallel.Layout
	NumOptions
)

var names = [NumOptions]string{
	Accumulation: "Micros", Backend: "Backend", Batch: "Batch", Blocking: "Blocking", Budget: "Budget",
	Chunk: "Chunk", CloneBytes: "CloneBytes", Config: "Config", Device: "Device", Dims: "Dims",
	Format: "Format", FreezeInputs: "FreezeInputs", GradientNorm: "MaxNorm", Init: "Begin",
	Interleave: "Interleave", Keep: "Keep", Last: "Order.Last", Layerwise: "Level", Memory: "Memory",
	MemoryPattern: "MemoryPattern", Microbatches: "Microbatches", Names: "Names", OnNaN: "OnNaN",
	Opset: "Opset", Optimizer: "Optimizer", Order: "Order", Pipeline: "PP", PlanFile: "PlanFile",
	Precision: "Precision", Profile: "Profile", Recompute: "Recompute", Record: "Record", Replicas: "DP",
	SavePlan: "SavePlan", SequenceParallel: "SequenceParallel", Shuffle: "Order.Shuffle", States: "States",
	TensorParallel: "TP", TokenType: "TokenType", Top: "Top", Verbose: "Verbose", Workspace: "Workspace",
	Zero: "Zero",
}

// String is the name of the option in the library.
func (o Option) String() string { return names[o] }

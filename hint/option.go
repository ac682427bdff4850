package hint

// Option is an option of the library that advice may name.
type Option int

// The options, with the fields that they stand for.
const (
	Accumulation     Option = iota // Micros of train.Recipe and train.Config
	Batch                          // Batch of train.Settings
	Blocking                       // Blocking of executor.Options
	Dims                           // Dims of memopt.Options
	Format                         // Format of data.Options
	FreezeInputs                   // FreezeInputs of optimize.Options
	Init                           // Begin and RandomSeed of train.Config
	Interleave                     // Interleave of parallel.Layout
	Last                           // Order.Last of train.Config
	Microbatches                   // Microbatches of parallel.Layout
	Names                          // Names of data.Options
	OnNaN                          // OnNaN of train.Config
	Opset                          // Opset of optimize.Options
	Pipeline                       // PP of parallel.Layout
	Profile                        // the trace of a session's nodes
	Record                         // Record of data.Options
	Replicas                       // DP of parallel.Layout
	SavePlan                       // the record of a plan, written as JSON
	SequenceParallel               // SequenceParallel of parallel.Layout
	Shuffle                        // Order.Shuffle of train.Config
	States                         // States of memopt.Options
	TensorParallel                 // TP of parallel.Layout
	TokenType                      // TokenType of data.Options
	Zero                           // Zero of parallel.Layout
	NumOptions
)

var names = [NumOptions]string{
	Accumulation:     "Micros",
	Batch:            "Batch",
	Blocking:         "Blocking",
	Dims:             "Dims",
	Format:           "Format",
	FreezeInputs:     "FreezeInputs",
	Init:             "Begin",
	Interleave:       "Interleave",
	Last:             "Order.Last",
	Microbatches:     "Microbatches",
	Names:            "Names",
	OnNaN:            "OnNaN",
	Opset:            "Opset",
	Pipeline:         "PP",
	Profile:          "Profile",
	Record:           "Record",
	Replicas:         "DP",
	SavePlan:         "SavePlan",
	SequenceParallel: "SequenceParallel",
	Shuffle:          "Order.Shuffle",
	States:           "States",
	TensorParallel:   "TP",
	TokenType:        "TokenType",
	Zero:             "Zero",
}

// String is the name of the option in the library.
func (o Option) String() string { return names[o] }

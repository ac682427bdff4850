package train

import (
	"time"

	"memopt/executor"
	"memopt/executor/resident"
	"memopt/train/checkpoint"
	"memopt/train/collective"
	"memopt/train/data"
	"memopt/train/events"
	"memopt/train/schedule"
)

// Config describes a job.
type Config struct {
	Steps   *Steps
	Plans   *Plans // of Steps, for Batch
	Engine  resident.Engine
	Session executor.Options // threads, seed, limits

	// Ranks is the group that this process is a rank of; nil means that the job has one process. N ranks
	// compute the job of one process with N times the micro-batches, and each takes its share. All ranks
	// have the same Config but for Engine, Session, Folder, Metrics, Board and Observer.
	Ranks collective.Group

	// Limit is the most bytes of states, inputs and arena that the job may take; 0 means no limit.
	Limit int64

	Source data.Source
	Inputs []data.Input // of Source, in the order of Steps.Inputs
	Order  data.Order
	// Eval has the samples of evaluations, after every EvalEvery updates and at the end; nil means no evaluations.
	Eval      data.Source
	EvalEvery int64

	// Micros is the number of micro-batches per update of a rank, Updates the number of updates of the job.
	Micros  int64
	Updates int64
	// Schedule has the learning rates, Scale the loss scale; nil for a graph without one.
	Schedule schedule.Schedule
	Scale    *schedule.Scale
	OnNaN    OnNaN

	// Begin has first values, by the names of states, that take precedence over the model's. RandomSeed
	// draws the values that are still missing; if it is nil, a missing value is an error.
	Begin      map[string]*executor.Tensor
	RandomSeed *uint64

	// Home is the folder that the states lie in, twice, and are kept in after every update; nil: they lie in memory.
	// Plans must be those of steps with a home (Recipe.Home).
	Home *checkpoint.Home
	// Copies says that a job with a Home writes checkpoints to Folder as well.
	Copies bool

	// Folder keeps checkpoints after every SaveEvery updates and at the end, SaveLimit at most (of a
	// job with a Home only if Copies says so; the home is then on the disk after so many updates). A
	// nil Folder means no checkpoints, SaveEvery 0 only the one at the end, SaveLimit 0 all of them.
	Folder    *checkpoint.Job
	SaveEvery int64
	// Keeps is set, with several ranks, if rank 0 has a Folder.
	Keeps     bool
	SaveLimit int
	// Manifest is the record in a checkpoint besides the position. Command is the command line that continues the
	// job, nil if it is not known.
	Manifest checkpoint.Manifest
	Command  *Command
	// Resume is the checkpoint to go on with; nil starts the job from the beginning.
	Resume *checkpoint.Checkpoint

	// Logging is after how many updates metrics are reported: to Observer, and to Metrics and Board, which
	// may be nil.
	Logging  int64
	Metrics  *events.MetricsWriter
	Board    *events.TensorBoard
	Observer Observer
}

// OnNaN is the reaction to a loss, or a norm of gradients, that is not finite.
type OnNaN int

const (
	// StopOnNaN ends the job before the update.
	StopOnNaN OnNaN = iota
	// SkipOnNaN leaves the batch out and goes on.
	SkipOnNaN
)

// Observer is told how a job goes on.
type Observer interface {
	// Ready is called before the first step, with the predicted memory.
	Ready(p Prediction)
	// Updated is called after every update.
	Updated(done int64, m *Metrics)
	// Logged is called with metrics, Evaluated after an evaluation.
	Logged(m *Metrics)
	Evaluated(update int64, loss float64)
	// Saved is called after a checkpoint, with the error if it could not be written.
	Saved(path string, err error)
	// Warn is called with warnings to the user, one line each.
	Warn(text string)
}

// Prediction is the memory that a job will take, in bytes.
type Prediction struct {
	States, Inputs int64 // throughout
	Arena          int64 // of the step that needs the largest one
	Eval           int64 // the arena of evaluations; 0 without evaluations
	Host           int64 // beside Total, on the host: copies of values that move there
	Home           int64 // beside Total, in the files of Config.Home: the states, twice
	Staging        int64 // beside Total: of the group of ranks, for its work
	Ahead          int64 // beside Total, on the host: batches that are prepared while a step runs
}

// Total is the memory of the steps, on the device if it has its own memory.
func (p *Prediction) Total() int64 { return p.States + p.Inputs + max(p.Arena, p.Eval) }

// Result is how a job ended.
type Result struct {
	Updates             int64 // done in all, those before it was resumed included
	Skipped             int64 // of these, not made, or made without a batch whose loss was not finite
	LossFirst, LossLast float64
	EvalLast            float64 // NaN: there was no evaluation
	Predicted           Prediction
	MeasuredArena       int64
	MeasuredHost        int64                  // as Prediction.Host
	Waited              time.Duration          // of Run's time, for other ranks
	RankArenas          []int64                // MeasuredArena of each rank; nil where there is one
	RankHosts           []int64                // likewise of MeasuredHost
	Process             executor.ProcessMemory // of the process that executes
	Stopped             bool                   // before all updates were done, because it was asked to
	Saved               string                 // the last checkpoint, or ""
}

// Package train runs training jobs: it makes the steps of a job from a model, plans them, executes
// them on data, and keeps checkpoints.
//
// The parts, in the order of a job:
//
//   - Make turns a forward model, or a step graph, into Steps: the step of a micro-batch, the update
//     where gradients are accumulated, and the form for evaluation.
//   - Steps.Plan plans them for a batch size; Plans says what they take.
//   - Job.Run opens them on a machine (package resident), gives the states their first values, and
//     loops: batches from a data.Loader, the learning rate of a schedule, metrics, evaluation,
//     checkpoints.
//
// A job is a function of its Config and its data: equal ones give equal bits, wherever it was
// interrupted and resumed. What may depend on the machine, times and memory, goes to metrics alone.
package train

// Package train runs training jobs: it makes the steps of a job from a model, plans them, executes
// them on data, and keeps checkpoints.
//
// The parts, in the order of a job:
//
//   - Make turns a forward model, or a step graph, into Steps: the step of a micro-batch, the update
//     where gradients are accumulated, and the form for evaluation.
//   - Steps.Plan plans them for a batch size; Plans has their memory.
//   - Job.Run opens them on a machine (package resident), gives the states their first values, and
//     loops: batches from a data.Loader, the learning rate of a schedule, metrics, evaluation,
//     checkpoints.
//
// A job is a function of its Config and its data: equal ones give equal bits, wherever it was
// interrupted and resumed. Only metrics depend on the machine: times and memory.
//
// # The course of a job
//
// Make turns a model into the steps of a job (steps.go): the step of a micro-batch, the update if gradients
// are accumulated, the form for evaluation; all by autograd, through the facade. It names their states once:
// the model's, the optimizer's, and inputs that data do not provide. Steps.Plan plans the steps for a number
// of samples (plans.go), Largest and Ways look for sizes and changes that fit (infeasible.go). Run (job.go)
// opens them on a resident.Machine, which keeps the states, and loops; a position is (update, epoch, batch),
// all else follows from the configuration. cmd/memopt prepares in a fixed order, model, steps, data, folder,
// plan, and every error comes before the first step.
package train

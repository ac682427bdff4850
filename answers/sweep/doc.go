// Package sweep runs one verb at many points: every combination of the values that a grid file has
// for models, symbols and flags.
//
// A [Grid] is read whole, and every one of its points is checked, before the first run. A [Point] has a
// number, its place in the grid, and an identity: the hash of its verb and arguments and of the contents of
// the files that these name. A [Folder] keeps one file per point, called by the identity and written whole,
// so that a sweep goes on where the last one ended, for any reason, and a changed grid or model reuses
// exactly the results that are still valid. For example, a grid of 3 models and 4 budgets has 12 points.
//
// Each point is a process of its own: one that dies, or is killed because memory is short, is one
// failed point. A lock per point keeps two sweeps over one folder, or the tasks of a batch system on
// many machines, from running a point twice.
//
// # How it works
//
// Read (grid.go) reads a grid with its keys in order and makes all points. A Checker, which cmd/memopt
// implements with a command tree of its own, parses each point's arguments.
//
// A Runner (run.go) takes a point's lock, looks for a result once more, runs the verb as a process with JSON
// output, and writes the result whole. The process has a process group of its own (child.go), so that Ctrl-C
// reaches it once, through the sweep, and the system kills it when the sweep dies. A local sweep, a task of
// Slurm and a pod of Kubernetes share this function, so that each can continue the others' work; slurm.go and
// kubernetes.go only write down the numbers to run, and ask whether a job still exists.
//
// gather.go reads the files in the grid's order, and its output does not depend on when it gathers. A point
// that ended by a signal or with a checkpoint has no result; exit codes that describe the model, such as the
// one for an infeasible budget, are results (folder.go).
package sweep

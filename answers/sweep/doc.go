// Package sweep runs one verb at many points: every combination of the values that a grid file has
// for models, symbols and flags.
//
// A [Grid] is read whole, and every one of its points is checked, before anything runs. A [Point] has
// a number, its place in the grid, and an identity: the hash of its verb and arguments and of the
// contents of the files that these name. A [Folder] keeps one file per point, called by the
// identity and written whole, so that a sweep goes on where the last one ended, whatever ended it, and
// a changed grid or model reuses what is still true of it and nothing else.
//
// Each point is a process of its own: one that dies, or is killed because memory is short, is one
// failed point. A lock per point keeps two sweeps over one folder, or the tasks of a batch system on
// many machines, from running a point twice.
//
// # How it works
//
// sweep.Read (grid.go) reads a grid with its keys in order and makes all points; cmd/memopt says of each
// whether the verb takes its arguments, by parsing them with a command tree of its own (sweep.Checker). A
// Runner (run.go) takes a point's lock, looks again whether there is a result, runs the verb as a process with
// -O json (child.go: in a process group of its own, so that Ctrl-C reaches it once, through the sweep, and
// killed by the system when the sweep is), and writes the result whole. There is one such function for a local
// sweep, a task of Slurm and a pod of Kubernetes, so that each can go on with what another has begun; slurm.go
// and kubernetes.go only write down which numbers to run, and ask whether a job is still there. gather.go
// reads the files in the grid's order and writes nothing that depends on the time of gathering. What ended by
// a signal or with a checkpoint has no result; exit codes that say something of the model are results
// (folder.go).
package sweep

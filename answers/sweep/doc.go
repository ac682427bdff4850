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
package sweep

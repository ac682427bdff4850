// Package diff compares two plans: their peaks, times and recomputed nodes.
//
// A [Subject] is one side of a comparison: a plan that was just made ([OfPlan]), a plan file or the
// JSON report of a verb ([Parse]). [Compare] matches values, clusters and fields by their names, so
// that it is useful for graphs that differ, too; if the structures differ, the numbers that stand
// for names of unnamed nodes do not count. A comparison is symmetric: Compare(b, a) has the changes
// of Compare(a, b), with the sides swapped.
//
// A [Condition] is a sentence such as "peak>+2%", for programs that watch over a repository: it says
// when a change is too much. Its arithmetic is exact.
package diff

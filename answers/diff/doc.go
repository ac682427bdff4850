// Package diff compares two plans: what became of the peak, of the time, and of what runs again.
//
// A [Subject] is what is known of one side: of a plan that was just made ([OfPlan]), of a plan file
// or of the JSON report of a verb ([Parse]). [Compare] matches values, clusters and fields by their
// names, so that it says something useful of graphs that differ, too; where the structures differ,
// the numbers that stand for names of unnamed nodes do not count. A comparison is symmetric:
// Compare(b, a) says of every change what Compare(a, b) says, with the sides swapped.
//
// A [Condition] is a sentence such as "peak>+2%", for programs that watch over a repository: it says
// when a change is too much. Its arithmetic is exact.
package diff

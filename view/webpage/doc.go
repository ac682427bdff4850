// Package webpage makes one HTML page of a plan: the memory of the step over time, the arena, what the
// peak is made of, what lower peaks cost, what is stashed and why, the graph, and what was measured.
//
// The page is one file that asks no network for anything: a chart library (assets/uplot), the
// scripts (assets/js, joined by bundle.go), the style sheet, and the data, packed (document.go). A
// policy in the page allows the scripts that are in it, by their hashes, and nothing else. Equal
// plans give equal bytes.
package webpage

// Package webpage makes one HTML page of a plan: the memory of the step over time, the arena, the peak
// by kind, the costs of lower peaks, the stashes with their reasons, the graph, and measurements.
//
// The page is one file that makes no network request: a chart library (assets/uplot), the scripts
// (assets/js, joined by bundle.go), the style sheet, and the data, packed (document.go). A policy in
// the page allows only the scripts that are in it, by their hashes. Equal plans give equal bytes.
package webpage

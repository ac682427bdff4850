// Package figure draws steps and curves as SVG or PNG, for papers and pull requests. The same data give
// the same bytes.
package figure

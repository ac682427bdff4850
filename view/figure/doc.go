// Package figure draws steps and curves as SVG or PNG, for papers and pull requests. The same data give
// the same bytes.
//
// Step, Curve and Lines make a figure of areas and lines in the units of two axes (figure.go); it draws
// itself on a canvas, which is a vector one for SVG or a raster one for PNG.
package figure

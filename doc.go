// Package memopt only carries the tests that concern the whole module: the
// import order of its packages and the output that the README shows. The program is
// cmd/memopt; ARCHITECTURE.md says where everything is.
package memopt

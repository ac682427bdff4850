// Package native opens C libraries at run time, without cgo, and calls them without allocating. It
// does so on Linux on amd64; a build with the tag nodl opens no library.
package native

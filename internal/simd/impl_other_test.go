//go:build !amd64

package simd

// implementations are the ways to run a loop.
func implementations() []implementation {
	return []implementation{{"go", func(f func()) { f() }}}
}

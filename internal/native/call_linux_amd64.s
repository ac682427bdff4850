// Call has no body in Go: with a file in assembly, the compiler asks for none.

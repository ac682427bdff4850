// A function without a body (library.go) wants an assembly file in the package.
